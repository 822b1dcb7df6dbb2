/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c: the grid rule, and the launch itself.
 *
 * A grid axis is the product of a few factors, each a constant or
 * ceil(argument / per), computed in 64 bits, saturated, and clamped to the
 * axis' limit; the kernels loop with a stride of the grid, so a clamp costs
 * speed and never an answer.  Behind the argument block come the kernel's
 * tensor maps, which are made from it here, at every launch.
 */
#include "internal.h"

/* ceil(value / per) for value >= 0, without overflow. */
static int64_t ceil_div(int64_t value, int64_t per)
{
    return value / per + (value % per != 0);
}

/* Both are not negative. */
static int64_t saturating_product(int64_t a, int64_t b)
{
    if (a != 0 && b > INT64_MAX / a)
        return INT64_MAX;
    return a * b;
}

/* One axis, clamped to its limit; 0 if a count is 0. */
static mla_status axis_size(const mla_kernel *k, const unsigned char *block,
                            const struct mla__axis *axis, unsigned *out)
{
    int64_t product = 1;

    for (int i = 0; i < axis->count; i++) {
        const struct mla__factor *f = &axis->factor[i];
        int64_t n = f->constant;
        if (f->field >= 0) {
            n = mla__field_int(k, f->field, block);
            if (n < 0)
                return mla__fail(k->owner->ctx, MLA_RANGE,
                                 "%s: argument '%s': %lld is negative",
                                 k->symbol, k->fields[f->field].name,
                                 (long long)n);
            n = ceil_div(n, f->per);
        }
        product = saturating_product(product, n);
    }
    *out = (unsigned)(product < axis->max ? product : axis->max);
    return MLA_OK;
}

mla_status mla__grid(const mla_kernel *k, const unsigned char *block,
                     unsigned grid[3])
{
    for (int i = 0; i < 3; i++) {
        mla_status status = axis_size(k, block, &k->grid[i], &grid[i]);
        if (status)
            return status;
    }
    return MLA_OK;
}

/* In clusters of k->cluster blocks, which tile the grid. */
static int launch_clusters(mla_kernel *k, const unsigned grid[3],
                           void *stream, void **params)
{
    struct mla__launch_attribute cluster = {.id = MLA__LAUNCH_CLUSTER};
    struct mla__launch_config config = {.smem = (unsigned)k->smem_dynamic,
                                        .stream = stream,
                                        .attributes = &cluster,
                                        .count = 1};

    for (int i = 0; i < 3; i++) {
        config.grid[i] = grid[i];
        config.block[i] = (unsigned)k->block[i];
        cluster.value.cluster[i] = k->cluster[i];
    }
    return k->owner->ctx->driver.launch_ex(&config, k->function, params, NULL);
}

static int launch_blocks(mla_kernel *k, const unsigned grid[3], void *stream,
                         void **params)
{
    return k->owner->ctx->driver.launch(
        k->function, grid[0], grid[1], grid[2], (unsigned)k->block[0],
        (unsigned)k->block[1], (unsigned)k->block[2],
        (unsigned)k->smem_dynamic, stream, params, NULL);
}

/* The driver copies the parameters before it returns, so they may live on a
 * stack. */
static mla_status submit(mla_kernel *k, void *block, const unsigned grid[3],
                         void *stream)
{
    mla_context *ctx = k->owner->ctx;
    struct mla__map_bytes maps[MLA__MAX_MAPS];
    void *params[1 + MLA__MAX_MAPS] = {block};
    mla_status status = mla__enter(ctx);
    int result;

    if (status)
        return status;
    status = mla__encode_maps(k, block, maps);
    for (int i = 0; i < k->map_count; i++)
        params[1 + i] = &maps[i];
    result = status          ? 0
             : k->cluster[0] ? launch_clusters(k, grid, stream, params)
                             : launch_blocks(k, grid, stream, params);
    if (result) {
        mla__cuda_fail(ctx, k->cluster[0] ? "cuLaunchKernelEx"
                                          : "cuLaunchKernel", result);
        status = mla__fail(ctx, MLA_CUDA, "%s: %s", k->symbol,
                           mla_last_error(ctx));
    }
    mla__leave(ctx);
    return status;
}

/* Emptiness is decided before pointers are looked at: a batch of zero may
 * come with none. */
static mla_status launch_block(mla_kernel *k, void *block, void *stream)
{
    unsigned grid[3];
    mla_status status = mla__grid(k, block, grid);

    if (status)
        return status;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return MLA_OK;
    status = mla__check_fields(k, block);
    if (!status)
        status = mla__ready(k, stream);
    return status ? status : submit(k, block, grid, stream);
}

mla_status mla_launch(mla_args *args, void *stream)
{
    if (!args)
        return MLA_INVALID_ARGUMENT;
    for (int i = 0; i < args->kernel->field_count; i++)
        if (!args->set[i])
            return mla__fail(args->kernel->owner->ctx, MLA_UNSET,
                             "%s: argument '%s' has not been set",
                             args->kernel->symbol,
                             args->kernel->fields[i].name);
    return launch_block(args->kernel, args->block, stream);
}

mla_status mla_launch_struct(mla_kernel *kernel, const void *args,
                             size_t bytes, void *stream)
{
    if (!kernel || !args)
        return MLA_INVALID_ARGUMENT;
    if (bytes != kernel->args_size)
        return mla__fail(kernel->owner->ctx, MLA_INVALID_ARGUMENT,
                         "%s: the argument struct has %zu bytes, not %zu",
                         kernel->symbol, kernel->args_size, bytes);
    /* cuLaunchKernel copies the block; its parameter is not const. */
    return launch_block(kernel, (void *)args, stream);
}
