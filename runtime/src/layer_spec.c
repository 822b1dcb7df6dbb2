/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_spec.c: what a layer needs of the spec, out of the manifest, and the
 * table of cosines and sines.
 *
 * Which frequencies a context extension makes of theta is settled where the
 * spec is read (templates/lib/rope.lua); the manifest has the results.
 */
#include <math.h>
#include <string.h>

#include "json.h"
#include "layer.h"

typedef const struct mla__json json;

/* The manifest as a tree; text is what it lies in. */
struct document {
    char *text;
    struct mla__json *root;
};

/* Parses a copy: the reader writes into its text. */
static mla_status open_document(mla_kernels *set, struct document *d)
{
    struct mla__json_error error;
    mla_status status = MLA_OUT_OF_MEMORY;

    *d = (struct document){mla__strdup(set->ctx, set->text), NULL};
    if (d->text)
        status = mla__json_parse(set->ctx, d->text, &d->root, &error);
    if (!status)
        return MLA_OK;
    mla__free(set->ctx, d->text);
    return mla__fail(set->ctx, status, "%s/manifest.json", set->directory);
}

static void close_document(mla_kernels *set, struct document *d)
{
    mla__json_free(set->ctx, d->root);
    mla__free(set->ctx, d->text);
}

/* A set made before the runtime asked for the key. */
static mla_status missing(mla_kernels *set, const char *key)
{
    return mla__fail(set->ctx, MLA_BAD_MANIFEST,
                     "%s/manifest.json: spec.%s: missing, or of no use; "
                     "generate it again",
                     set->directory, key);
}

static bool is_number(json *value)
{
    return value && (value->type == MLA__JSON_INT ||
                     value->type == MLA__JSON_REAL);
}

/* Facts ----------------------------------------------------------------- */

/* Numbers of the spec; a null is 0 where it may be one. */
static mla_status read_counts(mla_kernels *set, json *spec,
                              struct mla__layer_spec *s)
{
    const struct {
        const char *key;
        bool nullable;
        int *value;
    } rows[] = {{"qk_nope_head_dim", false, &s->nope},
                {"qk_rope_head_dim", false, &s->rope},
                {"v_head_dim", false, &s->v},
                {"kv_lora_rank", false, &s->latent},
                {"q_lora_rank", true, &s->q_rank},
                {"hidden_size", true, &s->hidden}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json *value = mla__json_get(spec, rows[i].key);
        bool null = value && value->type == MLA__JSON_NULL;
        if (!(null && rows[i].nullable) &&
            !(value && value->type == MLA__JSON_INT && value->integer >= 0 &&
              value->integer <= 1 << 20))
            return missing(set, rows[i].key);
        *rows[i].value = null ? 0 : (int)value->integer;
    }
    return MLA_OK;
}

/* Factors that the generator has derived, and the epsilon of both norms. */
static mla_status read_factors(mla_kernels *set, json *spec,
                               struct mla__layer_spec *s)
{
    json *derived = mla__json_get(spec, "derived");
    const struct {
        json *in;
        const char *key;
        double *value;
    } rows[] = {{derived, "softmax_scale", &s->softmax_scale},
                {derived, "q_lora_scale", &s->q_factor},
                {spec, "rms_norm_eps", &s->norm_eps}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json *value = mla__json_get(rows[i].in, rows[i].key);
        if (!is_number(value))
            return missing(set, rows[i].key);
        *rows[i].value = value->real;
    }
    return MLA_OK;
}

/* Whether anything rotates: only then are there positions. */
static mla_status read_style(mla_kernels *set, json *spec,
                             struct mla__layer_spec *s)
{
    json *style = mla__json_get(mla__json_get(spec, "rope"), "style");

    if (!style || !style->string)
        return missing(set, "rope.style");
    s->rotates = s->rope > 0 && strcmp(style->string, "none") != 0;
    return MLA_OK;
}

mla_status mla__layer_spec(mla_kernels *set, struct mla__layer_spec *out)
{
    struct document d;
    mla_status status = open_document(set, &d);
    json *spec;

    *out = (struct mla__layer_spec){0};
    if (status)
        return status;
    spec = mla__json_get(d.root, "spec");
    status = read_counts(set, spec, out);
    if (!status)
        status = read_factors(set, spec, out);
    if (!status)
        status = read_style(set, spec, out);
    close_document(set, &d);
    return status;
}

/* Angles ---------------------------------------------------------------- */

/* One row: cos and sin of the position times each frequency. */
static void fill_row(json *frequencies, double magnitude, double position,
                     float *row)
{
    size_t pairs = frequencies->count, i = 0;

    for (json *f = frequencies->child; f; f = f->next, i++) {
        row[i] = (float)(cos(position * f->real) * magnitude);
        row[pairs + i] = (float)(sin(position * f->real) * magnitude);
    }
}

/* The frequencies of the context asked for, or NULL: the spec has none. */
static json *choose(json *rope, bool long_context)
{
    json *list = mla__json_get(rope, long_context ? "long" : "short");

    return list || !long_context ? list : mla__json_get(rope, "short");
}

/* Rows of the table, or why there can be none. */
static mla_status fill_table(mla_kernels *set, json *rope, int64_t first,
                             int64_t rows, bool long_context, float *table)
{
    json *list = choose(rope, long_context);
    json *magnitude = mla__json_get(rope, "magnitude");

    if (!rope || rope->type == MLA__JSON_NULL)
        return mla__fail(set->ctx, MLA_INVALID_ARGUMENT,
                         "%s: the model rotates nothing", set->model);
    if (!list || list->type != MLA__JSON_ARRAY || !is_number(magnitude))
        return mla__fail(set->ctx, MLA_INVALID_ARGUMENT,
                         "%s: its spec has no frequencies (longrope without "
                         "factors); the table is the caller's to fill",
                         set->model);
    for (int64_t i = 0; i < rows; i++, table += 2 * list->count)
        fill_row(list, magnitude->real, (double)(first + i), table);
    return MLA_OK;
}

/* Written for the host's memory; the caller copies it to the device. */
mla_status mla_rope_table(mla_kernels *set, int64_t first, int64_t rows,
                          int long_context, float *table)
{
    struct document d;
    mla_status status;

    if (!set || first < 0 || rows < 0 || !table)
        return MLA_INVALID_ARGUMENT;
    status = open_document(set, &d);
    if (status)
        return status;
    status = fill_table(set,
                        mla__json_get(mla__json_get(mla__json_get(
                                          d.root, "spec"), "derived"), "rope"),
                        first, rows, long_context != 0, table);
    close_document(set, &d);
    return status;
}
