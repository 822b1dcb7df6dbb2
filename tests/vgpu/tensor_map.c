/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_map.c: rules and encoding of tensor maps (tensor_map.h).
 *
 *   bytes 0-3  magic     4-7  checksum     8-15  zero     16-  struct packed
 */
#include "tensor_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC UINT32_C(0x704d5467) /* "gTMp" */

/* By CUtensorMapDataType: u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16, f32 with
 * flushed subnormals, tf32 twice.  The packed 4- and 6-bit types of sm_100
 * are unknown here. */
static const uint8_t type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
#define NTYPES (sizeof type_bytes)

unsigned vg_tensor_bytes(unsigned type)
{
    return type < NTYPES ? type_bytes[type] : 0;
}

bool vg_tensor_is_float(unsigned type)
{
    return type >= 6 && type < NTYPES;
}

/* With a traversal stride every step-th element of the box is taken;
 * dimension 0 has none (driver API, elementStrides). */
unsigned vg_tensor_extent(const struct vg_tensor_map *t, unsigned n)
{
    unsigned step = n ? t->step[n] : 1;

    return (t->box[n] + step - 1) / step;
}

/* 32 bits are enough for any box that fits in shared memory. */
uint32_t vg_tensor_box_bytes(const struct vg_tensor_map *t)
{
    uint64_t bytes = vg_tensor_bytes(t->type);

    /* 256 per dimension and five of them: more than 32 bits hold. */
    for (unsigned n = 0; n < t->rank && bytes < UINT32_MAX; n++)
        bytes *= vg_tensor_extent(t, n);
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* ---- rules -------------------------------------------------------------- */

/* Returns false with the text in err. */
#define REFUSE(...) (snprintf(err, size, __VA_ARGS__), false)

/* The pitches of all dimensions but the first, which is contiguous. */
static bool check_strides(const struct vg_tensor_map *t, char *err,
                          size_t size)
{
    for (unsigned n = 0; n + 1u < t->rank; n++)
        if (t->stride[n] % 16 || t->stride[n] >= UINT64_C(1) << 40)
            return REFUSE("globalStrides[%u] is %" PRIu64 ", it must be a "
                          "multiple of 16 below 2^40", n, t->stride[n]);
    return true;
}

/* Sizes, boxes and element strides of every dimension. */
static bool check_dims(const struct vg_tensor_map *t, char *err, size_t size)
{
    for (unsigned n = 0; n < t->rank; n++) {
        if (!t->dim[n] || t->dim[n] > UINT64_C(1) << 32)
            return REFUSE("globalDim[%u] is %" PRIu64 ", allowed are 1 to "
                          "2^32", n, t->dim[n]);
        if (!t->box[n] || t->box[n] > 256)
            return REFUSE("boxDim[%u] is %u, allowed are 1 to 256", n,
                          t->box[n]);
        if (!t->step[n] || t->step[n] > 8)
            return REFUSE("elementStrides[%u] is %u, allowed are 1 to 8", n,
                          t->step[n]);
    }
    return true;
}

/* The innermost row of a box: the copy unit moves 16-byte pieces, and the
 * swizzle permutes them within 32, 64 or 128 bytes, so a row may not be
 * longer than that. */
static bool check_inner(const struct vg_tensor_map *t, char *err, size_t size)
{
    unsigned inner = t->box[0] * vg_tensor_bytes(t->type);
    unsigned span = t->swizzle ? 16u << t->swizzle : 0;

    if (inner % 16)
        return REFUSE("boxDim[0] is %u bytes, it must be a multiple of 16",
                      inner);
    if (span && inner > span)
        return REFUSE("boxDim[0] is %u bytes, more than the %u of the "
                      "swizzle", inner, span);
    return true;
}

/* Without interleaving, which no kernel of this project uses and which the
 * driver side refuses. */
bool vg_tensor_check(const struct vg_tensor_map *t, char *err, size_t size)
{
    if (!vg_tensor_bytes(t->type))
        return REFUSE("tensorDataType %u is not known", t->type);
    if (t->rank < 1 || t->rank > VG_MAX_RANK)
        return REFUSE("tensorRank is %u, allowed are 1 to 5", t->rank);
    if (t->address % 16 || !t->address)
        return REFUSE("globalAddress 0x%" PRIx64 " is no multiple of 16",
                      t->address);
    if (t->swizzle > VG_SWIZZLE_128)
        return REFUSE("swizzle %u is not known on sm_90", t->swizzle);
    if (t->nan_fill > 1)
        return REFUSE("oobFill is %u, allowed are 0 and 1", t->nan_fill);
    if (t->nan_fill && !vg_tensor_is_float(t->type))
        return REFUSE("oobFill NaN needs a floating-point type, not %u",
                      t->type);
    return check_dims(t, err, size) && check_strides(t, err, size) &&
           check_inner(t, err, size);
}

/* ---- encoding ----------------------------------------------------------- */

/* What the bytes hold from offset 16 on. */
struct packed {
    uint64_t address;
    uint64_t stride[VG_MAX_RANK - 1];
    uint32_t last[VG_MAX_RANK];      /* dim - 1 */
    uint16_t box[VG_MAX_RANK];
    uint8_t step[VG_MAX_RANK], type, rank, swizzle, nan_fill;
};

/* Fowler, Noll, Vo: enough to tell a map from other bytes. */
static uint32_t checksum(const struct packed *p)
{
    const unsigned char *b = (const unsigned char *)p;
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < sizeof *p; i++)
        h = (h ^ b[i]) * 16777619u;
    return h;
}

/* dim - 1 because 2^32 is allowed and 32 bits must do: the whole map has 112
 * bytes behind the head. */
void vg_tensor_pack(const struct vg_tensor_map *t,
                    unsigned char out[VG_TENSOR_MAP_BYTES])
{
    uint32_t head[4] = {MAGIC, 0, 0, 0};
    struct packed p;

    memset(&p, 0, sizeof p);
    p.address = t->address;
    for (unsigned n = 0; n < VG_MAX_RANK; n++) {
        p.last[n] = (uint32_t)(t->dim[n] - 1);
        p.box[n] = t->box[n];
        p.step[n] = t->step[n];
    }
    memcpy(p.stride, t->stride, sizeof p.stride);
    p.type = t->type;
    p.rank = t->rank;
    p.swizzle = t->swizzle;
    p.nan_fill = t->nan_fill;
    head[1] = checksum(&p);
    memset(out, 0, VG_TENSOR_MAP_BYTES);
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, &p, sizeof p);
}

/* Refuses what cuTensorMapEncodeTiled did not make: a stale, moved or
 * uninitialised map is the usual fault of host code. */
bool vg_tensor_unpack(const unsigned char in[VG_TENSOR_MAP_BYTES],
                      struct vg_tensor_map *t)
{
    uint32_t head[4];
    struct packed p;

    _Static_assert(sizeof head + sizeof p <= VG_TENSOR_MAP_BYTES, "size");
    memcpy(head, in, sizeof head);
    memcpy(&p, in + sizeof head, sizeof p);
    if (head[0] != MAGIC || head[1] != checksum(&p))
        return false;
    memset(t, 0, sizeof *t);
    t->address = p.address;
    for (unsigned n = 0; n < VG_MAX_RANK; n++) {
        t->dim[n] = (uint64_t)p.last[n] + 1;
        t->box[n] = p.box[n];
        t->step[n] = p.step[n];
    }
    memcpy(t->stride, p.stride, sizeof t->stride);
    t->type = p.type;
    t->rank = p.rank;
    t->swizzle = p.swizzle;
    t->nan_fill = p.nan_fill;
    return true;
}
