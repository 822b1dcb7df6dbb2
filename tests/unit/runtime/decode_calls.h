/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_calls.h: a context, a set and a decode object of its kernels, with
 * steps and tensors that nothing is wrong with, for tests to spoil.
 */
#ifndef RUNTIME_DECODE_CALLS_H
#define RUNTIME_DECODE_CALLS_H

#include "decode_world.h"

enum { HEADS = 6, LATENT = 48, ROPE = 16, PAGE = 16, ALIGN = 256 };

static const struct world_tile tiles[] = {
    {"m32", "sm_80", 32, 16, 24, 2}, {"m16", "sm_80", 16, 32, 12, 2},
    {"m64", "sm_80", 64, 32, 60, 1}, {"m16", "sm_86", 16, 64, 60, 1},
    {"m16", "sm_90a", 16, 64, 60, 1}};

static const struct world_spec right = {.heads = HEADS,
                                        .latent = LATENT,
                                        .rope = ROPE,
                                        .page_size = PAGE,
                                        .tiles = tiles,
                                        .tile_count = 5};

/* Requests to the allocator, of which the n-th from now on fails. */
static long allocations, allocations_left;

static void *counting_alloc(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    allocations++;
    return allocations_left-- > 0 ? realloc(block, size) : NULL;
}

struct world {
    mla_context *ctx;
    mla_kernels *set;
    mla_decode *decode;
};

/* An A100 whose allocations are counted. */
static mla_context *context(void)
{
    mla_options options = MLA_OPTIONS_INIT;
    options.alloc = counting_alloc;
    allocations_left = INT32_MAX;
    return fake_context(&options);
}

/* ready: the kernels are on the device already. */
static void open_world(struct world *w, const struct world_spec *spec,
                       int split_keys, bool ready)
{
    mla_decode_options o = MLA_DECODE_OPTIONS_INIT;

    w->ctx = context();
    w->set = world_load(w->ctx, spec, ready);
    assert_non_null(w->set);
    o.split_keys = split_keys;
    if (mla_decode_create(w->set, &o, &w->decode))
        fail_msg("%s", mla_last_error(w->ctx));
}

/* Frees everything; the current CUDA context must be what it was. */
static void close_world(struct world *w)
{
    mla_decode_free(w->decode);
    mla_kernels_free(w->set);
    assert_int_equal(fake.current, 0); /* pushed contexts are popped */
    mla_context_destroy(w->ctx);
}

/* The call ended so, and its text has these words. */
static void expect_error(struct world *w, mla_status got, mla_status want,
                         const char *names)
{
    assert_string_equal(mla_status_name(got), mla_status_name(want));
    if (!strstr(mla_last_error(w->ctx), names))
        fail_msg("'%s' is not in: %s", names, mla_last_error(w->ctx));
}

/* A step with a workspace of the right size at a made-up address. */
static mla_decode_step good_step(struct world *w, int batch, int q_len)
{
    mla_decode_step s = {.size = sizeof(s),
                         .batch = batch,
                         .q_len = q_len,
                         .max_seq_len = 1000,
                         .seq_lens = 0x5000,
                         .workspace = 0x100000};
    if (mla_decode_workspace(w->decode, &s, &s.workspace_bytes))
        fail_msg("%s", mla_last_error(w->ctx));
    return s;
}

/* Addresses that are aligned as every kernel wants them. */
static mla_decode_tensors good_tensors(void)
{
    return (mla_decode_tensors){.size = sizeof(mla_decode_tensors),
                                .q = 0x10000,
                                .kv_cache = 0x20000,
                                .block_table = 0x30004,
                                .block_table_stride = 4 * 63,
                                .out = 0x40000,
                                .softmax_scale = 0.25};
}

#endif
