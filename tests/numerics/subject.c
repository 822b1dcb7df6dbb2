/* SPDX-License-Identifier: Apache-2.0
 *
 * subject.c: the part of a spec that the oracle needs, out of the manifest.
 *
 * Read from the manifest's copy of the spec, and not from what the runtime has
 * made of it: a mistake there must not be shared by the oracle.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "json.h"
#include "subject.h"

typedef const struct mla__json json;

/* A member of an object, or what stands for its absence. */
static double number_or(json *object, const char *key, double absent)
{
    json *value = mla__json_get(object, key);
    if (!value || (value->type != MLA__JSON_INT &&
                   value->type != MLA__JSON_REAL))
        return absent;
    return value->real;
}

/* The same for a string. */
static const char *text_or(json *object, const char *key, const char *absent)
{
    json *value = mla__json_get(object, key);
    return value && value->string ? value->string : absent;
}

/* Index in a NULL-terminated list, or -1. */
static int choice(const char *word, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

/* NULL if there is no such list, else out; what is beyond NUM_MAX_PAIRS is
 * left out. */
static const double *factors(json *scaling, const char *key, double *out)
{
    json *list = mla__json_get(scaling, key);
    int n = 0;

    if (!list || list->type != MLA__JSON_ARRAY)
        return NULL;
    for (json *item = list->child; item && n < NUM_MAX_PAIRS;
         item = item->next)
        out[n++] = item->real;
    return out;
}

/* The keys are those of the spec's schema, with its defaults; styles and kinds
 * stand in the order of the oracle's enums.  NaN: not given.  The oracle
 * derives an attention factor or the factor of longrope then; of anything else
 * that it should have had, its answers become NaN, which shows. */
static const char *read_rope(json *spec, struct num_model *m)
{
    static const char *const styles[] = {"interleaved", "neox", "none", NULL};
    static const char *const kinds[] = {"plain", "linear", "yarn", "longrope",
                                        NULL};
    json *rope = mla__json_get(spec, "rope");
    json *scaling = mla__json_get(rope, "scaling");
    json *apply = mla__json_get(scaling, "apply_scale");
    int style = choice(text_or(rope, "style", ""), styles);
    int kind = choice(text_or(scaling, "type", "plain"), kinds);

    if (style < 0)
        return "spec.rope.style is not one the oracle knows";
    if (kind < 0)
        return "spec.rope.scaling.type is not one the oracle knows";
    m->rope = (struct oracle_rope){
        .style = (enum oracle_rope_style)style,
        .dim = (int)number_or(spec, "qk_rope_head_dim", 0),
        .theta = number_or(rope, "theta", 10000),
        .scaling = (enum oracle_scaling)kind,
        .factor = number_or(scaling, "factor", NAN),
        .original = number_or(scaling, "original_max_position_embeddings",
                              NAN),
        .beta_fast = number_or(scaling, "beta_fast", 32),
        .beta_slow = number_or(scaling, "beta_slow", 1),
        .mscale = number_or(scaling, "mscale", 1),
        .mscale_all_dim = number_or(scaling, "mscale_all_dim", 0),
        .attention_factor = number_or(scaling, "attention_factor", NAN),
        .apply_scale = !apply || apply->integer,
        .max_position = number_or(spec, "max_position", 0),
        .short_factor = factors(scaling, "short_factor", m->short_factor),
        .long_factor = factors(scaling, "long_factor", m->long_factor)};
    return NULL;
}

/* Factors of the latent and of q; 1 where the spec has none. */
static void read_factors(json *spec, struct num_model *m)
{
    json *by_position = mla__json_get(spec, "q_position_scale");
    m->latent_factor = number_or(spec, "kv_lora_scale", 1);
    m->q_factor = number_or(spec, "q_lora_scale", 1);
    m->factor_beta = number_or(by_position, "beta", 0);
    m->factor_original = number_or(by_position,
                                   "original_max_position_embeddings", 1);
}

/* Producer and merger have to mean the same by it, so nothing is assumed. */
static const char *read_lse(json *spec, struct num_model *m)
{
    json *lse = mla__json_get(spec, "lse");
    const char *base = text_or(lse, "base", "");
    const char *empty = text_or(lse, "empty", "");

    if (strcmp(base, "e") && strcmp(base, "2"))
        return "spec.lse.base is neither e nor 2";
    if (strcmp(empty, "-inf") && strcmp(empty, "+inf"))
        return "spec.lse.empty is neither -inf nor +inf";
    m->lse_base = *base == 'e' ? exp(1) : 2;
    m->lse_empty = *empty == '-' ? -INFINITY : INFINITY;
    return NULL;
}

/* What is wrong with the spec, or NULL.  The parser works in its text, so it
 * gets a copy. */
const char *num_model_read(mla_context *ctx, const char *manifest,
                           struct num_model *out)
{
    char *copy = strdup(manifest);
    struct mla__json *root = NULL;
    struct mla__json_error error;
    const char *wrong = "the manifest is not JSON";
    json *spec;

    memset(out, 0, sizeof(*out));
    if (copy && mla__json_parse(ctx, copy, &root, &error) == MLA_OK) {
        spec = mla__json_get(root, "spec");
        out->norm_eps = number_or(spec, "rms_norm_eps", NAN);
        out->q_lora_rank = (int)number_or(spec, "q_lora_rank", 0);
        read_factors(spec, out);
        wrong = read_rope(spec, out);
        if (!wrong)
            wrong = read_lse(spec, out);
        if (!wrong && isnan(out->norm_eps))
            wrong = "spec.rms_norm_eps is missing";
    }
    mla__json_free(ctx, root);
    free(copy);
    return wrong;
}

/* index: the kernel's place in the directory, by which it is found again. */
const char *num_subject_read(mla_context *ctx, mla_kernels *set, int index,
                             const struct num_model *model,
                             struct num_subject *out)
{
    int elem;

    memset(out, 0, sizeof(*out));
    out->ctx = ctx;
    out->kernel = mla_kernels_at(set, index);
    out->index = index;
    out->model = model;
    out->info.size = sizeof(out->info);
    mla_kernel_describe(out->kernel, &out->info);
    elem = num_elem_by_name(out->info.dtype);
    if (elem != NUM_BF16 && elem != NUM_FP16)
        return "the working dtype is neither bf16 nor fp16";
    out->dtype = (enum num_elem)elem;
    return NULL;
}

/* An argument of the kernel by name. */
bool num_field(const struct num_subject *s, const char *name,
               mla_field_info *out)
{
    for (int i = 0; i < s->info.field_count; i++) {
        out->size = sizeof(*out);
        mla_kernel_field(s->kernel, i, out);
        if (strcmp(out->name, name) == 0)
            return true;
    }
    return false;
}

bool num_has(const struct num_subject *s, const char *name)
{
    mla_field_info info;
    return num_field(s, name, &info);
}
