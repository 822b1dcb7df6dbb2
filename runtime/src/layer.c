/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.c: a layer out of a set of kernels: made, described, freed.
 */
#include <ctype.h>
#include <string.h>

#include "layer.h"

/* As mla.h promises: steps that the host may begin ahead of the device. */
enum { STAGES = 4 };

/* Kernels --------------------------------------------------------------- */

/* The list of layer.h as a table, by enum mla__layer_kernel. */
static const struct {
    const char *family;
    bool once;
} kernels[MLA__LAYER_KERNELS] = {
#define MLA__LAYER_ROW(name, family, once) [MLA__L_##name] = {#family, once},
    MLA__LAYER_KERNEL_LIST(MLA__LAYER_ROW)
#undef MLA__LAYER_ROW
};

/* Whether the model has a use for the kernel. */
static bool is_needed(const mla_layer *l, int i)
{
    if (i == MLA__L_NORM)
        return l->spec.q_rank > 0;
    return i != MLA__L_ROPE || l->spec.rotates;
}

/* The one that runs best here; the first settles head count and page size for
 * all others. */
static mla_status find_kernel(mla_layer *l, int i)
{
    mla_kernel *k;
    mla_status status =
        mla_find(l->set, kernels[i].family, "",
                 kernels[i].once ? 0 : l->options.heads, l->options.page_size,
                 &k);

    if (status)
        return status;
    if (i == MLA__L_APPEND) {
        l->heads = l->options.heads = k->heads;
        l->page_size = l->options.page_size = k->page_size;
    }
    return mla__call_make(k, &l->call[i]);
}

/* All kernels, found and put onto the device. */
static mla_status find_kernels(mla_layer *l)
{
    mla_kernel *list[MLA__LAYER_KERNELS];
    mla_status status = MLA_OK;
    int count = 0;

    for (int i = 0; i < MLA__LAYER_KERNELS && !status; i++) {
        if (!is_needed(l, i))
            continue;
        status = find_kernel(l, i);
        list[count++] = l->call[i].kernel;
    }
    return status ? status : mla_prepare_some(list, count, NULL);
}

/* One object for every q_len. */
static mla_status make_decode(mla_layer *l)
{
    mla_decode_options o = MLA_DECODE_OPTIONS_INIT;
    mla_status status;

    o.heads = l->heads;
    o.page_size = l->page_size;
    o.ctas = l->options.ctas;
    o.min_tiles = l->options.min_tiles;
    o.split_keys = l->options.split_keys;
    status = mla_decode_create(l->set, &o, &l->decode);
    return status ? status : mla_decode_prepare(l->decode);
}

/* cuBLAS chooses its algorithm by the number of rows; the emitted kernel adds
 * in one order. */
static mla_status make_gemm(mla_layer *l)
{
    int kind = l->options.gemm;

    if (kind == MLA_GEMM_AUTO && l->options.split_keys)
        kind = MLA_GEMM_EMITTED;
    return mla__gemm_open(l->set, kind, l->options.cublas, &l->gemm);
}

/* Policy ---------------------------------------------------------------- */

/* "NVIDIA GeForce RTX 4090" -> "nvidiageforcertx4090" */
static void simplify(const char *from, char *to, size_t size)
{
    size_t n = 0;

    for (; *from && n + 1 < size; from++)
        if (isalnum((unsigned char)*from))
            to[n++] = (char)tolower((unsigned char)*from);
    to[n] = 0;
}

/* The profile that the device's name contains, or NULL. */
static const mla_device_profile *profile_of(const mla_context *ctx)
{
    char name[sizeof(ctx->info.name)];
    const mla_device_profile *p;

    simplify(ctx->info.name, name, sizeof(name));
    for (int i = 0; (p = mla_profile_at(i)) != NULL; i++)
        if (strstr(name, p->name))
            return p;
    return NULL;
}

/* The caller's, or one that compares both forms' times for these dims. */
static mla_status make_policy(mla_layer *l)
{
    mla_policy_options o = MLA_POLICY_OPTIONS_INIT;
    mla_cost_model model = {sizeof(model), l->heads, l->spec.nope,
                            l->spec.rope, l->spec.v, l->spec.latent, 0};
    mla_status status;

    l->policy = l->options.policy;
    if (l->policy)
        return MLA_OK;
    o.prefill = "cost";
    o.sm = 10 * l->ctx->info.major + l->ctx->info.minor;
    o.model = &model;
    o.profile = profile_of(l->ctx);
    status = mla_policy_create(l->ctx, &o, &l->own_policy);
    l->policy = l->own_policy;
    return status;
}

/* Options --------------------------------------------------------------- */

/* An option that cannot be: its name, its value, and what would do. */
static mla_status bad(mla_layer *l, mla_status status, const char *what,
                      int64_t value, const char *rule)
{
    return mla__fail(l->ctx, status, "mla_layer: %s is %lld; it must be %s",
                     what, (long long)value, rule);
}

/* The table of cosines and sines, for a model that rotates. */
static mla_status check_angles(mla_layer *l)
{
    mla_layer_options *o = &l->options;
    int64_t row = (int64_t)l->spec.rope * (int64_t)sizeof(float);

    if (!l->spec.rotates)
        return MLA_OK;
    if (!o->cos_sin || o->positions <= 0)
        return bad(l, MLA_NULL_POINTER, "'cos_sin', or 'positions'",
                   o->positions, "given: the model rotates");
    if (o->cos_sin_stride == 0)
        o->cos_sin_stride = row;
    if (o->cos_sin % 16 || o->cos_sin_stride % 16 || o->cos_sin_stride < row)
        return bad(l, MLA_MISALIGNED, "'cos_sin_stride'", o->cos_sin_stride,
                   "a row at least, and it and 'cos_sin' multiples of 16");
    return MLA_OK;
}

static mla_status check_options(mla_layer *l)
{
    mla_layer_options *o = &l->options;

    if (o->hidden_size == 0)
        o->hidden_size = l->spec.hidden;
    if (o->hidden_size <= 0 || o->hidden_size % 8)
        return bad(l, MLA_INVALID_ARGUMENT, "'hidden_size'", o->hidden_size,
                   "given, here or in the spec, as a multiple of 8");
    if (l->spec.q_rank % 8)
        return bad(l, MLA_INVALID_ARGUMENT, "the spec's q_lora_rank",
                   l->spec.q_rank, "a multiple of 8");
    if (o->gemm < MLA_GEMM_AUTO || o->gemm > MLA_GEMM_EMITTED)
        return bad(l, MLA_INVALID_ARGUMENT, "'gemm'", o->gemm,
                   "one of MLA_GEMM_AUTO ...");
    if (o->chunk_capacity < 0 || o->stages < 0)
        return bad(l, MLA_RANGE, "'chunk_capacity' or 'stages'", -1,
                   "0 or more");
    return check_angles(l);
}

/* Takes over what the caller's options have room for. */
static mla_status read_options(const mla_layer_options *given,
                               mla_layer_options *out)
{
    size_t known = sizeof(*out);

    memset(out, 0, known);
    if (given && given->size < sizeof(given->size))
        return MLA_INVALID_ARGUMENT;
    if (given)
        memcpy(out, given, given->size < known ? given->size : known);
    out->size = known;
    if (out->stages == 0)
        out->stages = STAGES;
    return MLA_OK;
}

/* Layers ---------------------------------------------------------------- */

/* In the order in which each needs the one before. */
static mla_status make(mla_layer *l)
{
    mla_status status = mla__layer_spec(l->set, &l->spec);

    if (!status)
        status = check_options(l);
    if (!status)
        status = find_kernels(l);
    if (!status)
        status = make_decode(l);
    if (!status)
        status = make_gemm(l);
    if (!status)
        status = make_policy(l);
    if (!status)
        status = mla_chunks_create(l->ctx, &l->chunks);
    return status ? status : mla__layer_stages_make(l);
}

/* A layer that could not be made is freed as far as it was. */
mla_status mla_layer_create(mla_kernels *set, const mla_layer_options *options,
                            mla_layer **out)
{
    mla_layer_options wanted;
    mla_layer *l;
    mla_status status;

    if (!set || !out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    status = read_options(options, &wanted);
    if (status)
        return status;
    l = mla__alloc(set->ctx, sizeof(*l));
    if (!l)
        return mla__fail(set->ctx, MLA_OUT_OF_MEMORY, "a layer");
    l->ctx = set->ctx;
    l->set = set;
    l->options = wanted;
    status = make(l);
    if (status)
        mla_layer_free(l);
    else
        *out = l;
    return status;
}

void mla_layer_free(mla_layer *l)
{
    void *memory[] = {l ? l->run : NULL,      l ? l->ints : NULL,
                      l ? l->prefix : NULL,   l ? l->length : NULL,
                      l ? l->fresh : NULL,    l ? l->prefix32 : NULL,
                      l ? l->method : NULL};

    if (!l)
        return;
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        mla__free(l->ctx, memory[i]);
    for (int i = 0; i < MLA__LAYER_KERNELS; i++)
        mla__call_free(&l->call[i]);
    mla__layer_stages_free(l);
    mla_chunks_free(l->chunks);
    mla_policy_free(l->own_policy);
    mla__gemm_close(&l->gemm);
    mla_decode_free(l->decode);
    mla__free(l->ctx, l);
}

/* Of the step only once one has begun; before that its figures are 0. */
mla_status mla_layer_describe(const mla_layer *l, mla_layer_info *info)
{
    mla_layer_info known;

    if (!l)
        return MLA_INVALID_ARGUMENT;
    known = (mla_layer_info){
        .size = sizeof(known),
        .heads = l->heads,
        .page_size = l->page_size,
        .hidden_size = l->options.hidden_size,
        .q_lora_rank = l->spec.q_rank,
        .latent = l->spec.latent,
        .rope = l->spec.rope,
        .nope = l->spec.nope,
        .v = l->spec.v,
        .row_bytes = (l->spec.latent + l->spec.rope) * MLA__ELEM,
        .softmax_scale = l->spec.softmax_scale,
        .norm_eps = l->spec.norm_eps,
        .cublas = l->gemm.cublas.number,
        .tokens = l->begun ? l->tokens : 0,
        .workspace_bytes = l->begun ? l->at.bytes : 0,
        .decision = l->decision,
    };
    return mla__copy_info(info, &known, sizeof(known));
}
