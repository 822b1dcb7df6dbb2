/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_map.c: the tensor maps of a launch, from its argument block.
 *
 * A tensor map tells the copy engine (TMA) a tensor's address, sizes, strides
 * and the box that one copy moves (CUDA Driver API, Tensor Map Object
 * Management; PTX ISA 5.5).  The manifest says where in the argument block
 * each of these stands, so that a caller sets pointers and strides as for any
 * kernel and never sees a map.
 */
#include "internal.h"

/* Limits of cuTensorMapEncodeTiled. */
#define MAX_SIZE ((int64_t)1 << 32)
#define MAX_STRIDE ((int64_t)1 << 40)
enum { STRIDE_MULTIPLE = 16 };

/* The product for a block: ceil(argument / per) and constants; at most
 * `most`, below 0 for a negative argument. */
static int64_t value_of(const mla_kernel *k, const struct mla__product *p,
                        const unsigned char *block, int64_t most)
{
    int64_t product = 1;

    for (int i = 0; i < p->count; i++) {
        const struct mla__factor *f = &p->factor[i];
        int64_t n = f->constant;
        if (f->field >= 0) {
            n = mla__field_int(k, f->field, block);
            if (n < 0)
                return -1;
            n = n / f->per + (n % f->per != 0);
        }
        if (n != 0 && product > most / n)
            product = most;
        else
            product *= n;
    }
    return product;
}

/* A size is a product of several arguments, so the map and its dimension
 * are named. */
static mla_status size_error(const mla_kernel *k,
                             const struct mla__tensor_map *m, int i,
                             int64_t size)
{
    return mla__fail(k->owner->ctx, MLA_RANGE,
                     "%s: tensor map '%s': size %d is %lld, not 1 to 2^32",
                     k->symbol, m->name, i, (long long)size);
}

/* Names the argument that a stride comes from. */
static mla_status stride_error(const mla_kernel *k,
                               const struct mla__tensor_map *m, int i,
                               int64_t stride)
{
    int field = m->stride[i].factor[0].field;

    return mla__fail(k->owner->ctx,
                     stride > 0 && stride % STRIDE_MULTIPLE ? MLA_MISALIGNED
                                                            : MLA_RANGE,
                     "%s: tensor map '%s': argument '%s': a stride of %lld "
                     "bytes, not a multiple of %d from 0 to 2^40",
                     k->symbol, m->name,
                     field < 0 ? "" : k->fields[field].name,
                     (long long)stride, STRIDE_MULTIPLE);
}

/* Sizes and strides in the order in which the driver wants them, innermost
 * first; checked here because the driver only says that something is wrong. */
static mla_status measure(const mla_kernel *k, const struct mla__tensor_map *m,
                          const unsigned char *block, uint64_t *dims,
                          uint64_t *strides)
{
    for (int i = 0; i < m->rank; i++) {
        int64_t size = value_of(k, &m->dim[i], block, MAX_SIZE);
        if (size < 1)
            return size_error(k, m, i, size);
        dims[i] = (uint64_t)size;
    }
    for (int i = 0; i + 1 < m->rank; i++) {
        int64_t stride = value_of(k, &m->stride[i], block, MAX_STRIDE);
        if (stride < 0 || stride >= MAX_STRIDE || stride % STRIDE_MULTIPLE)
            return stride_error(k, m, i, stride);
        strides[i] = (uint64_t)stride;
    }
    return MLA_OK;
}

/* Boxes are dense (steps of 1), nothing is interleaved, and what lies outside
 * of the tensor reads as zeros. */
static mla_status encode(const mla_kernel *k, const struct mla__tensor_map *m,
                         const unsigned char *block,
                         struct mla__map_bytes *out)
{
    mla_context *ctx = k->owner->ctx;
    uint64_t dims[MLA__MAX_RANK], strides[MLA__MAX_RANK];
    uint32_t steps[MLA__MAX_RANK];
    uint64_t address = (uint64_t)mla__field_int(k, m->pointer, block);
    mla_status status = measure(k, m, block, dims, strides);
    int result;

    for (int i = 0; i < m->rank; i++)
        steps[i] = 1;
    if (status)
        return status;
    if (m->back)
        address -= (uint64_t)m->back * strides[0];
    result = ctx->driver.encode_tiled(out, m->type, (unsigned)m->rank,
                                      (void *)(uintptr_t)address, dims,
                                      strides, m->box, steps, 0, m->swizzle,
                                      m->promotion, 0);
    return result ? mla__cuda_fail(ctx, "cuTensorMapEncodeTiled", result)
                  : MLA_OK;
}

/* Encoding is work on the host alone; nothing is enqueued. */
mla_status mla__encode_maps(const mla_kernel *k, const unsigned char *block,
                            struct mla__map_bytes maps[MLA__MAX_MAPS])
{
    mla_context *ctx = k->owner->ctx;
    mla_status status = MLA_OK;

    if ((k->map_count && !ctx->driver.encode_tiled) ||
        (k->cluster[0] && !ctx->driver.launch_ex))
        return mla__fail(ctx, MLA_NO_DRIVER,
                         "CUDA driver %s: no symbol %s, which %s needs",
                         ctx->driver.path,
                         ctx->driver.launch_ex ? "cuTensorMapEncodeTiled"
                                               : "cuLaunchKernelEx",
                         k->symbol);
    for (int i = 0; i < k->map_count && !status; i++)
        status = encode(k, &k->maps[i], block, &maps[i]);
    return status;
}
