/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_tensor.c: making tensor maps (CUDA Driver API, Tensor Map Object
 * Management).  Only tiled maps: no kernel here uses im2col.
 */
#include "driver.h"
#include "tensor_map.h"

/* interleave and l2Promotion: 0 to 2 and 0 to 3; the interleaved layouts are
 * for convolutions and are refused. */
static CUresult check_modes(int interleave, int promotion)
{
    if (interleave < 0 || interleave > 2)
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "cuTensorMapEncodeTiled: interleave %d",
                            interleave);
    if (interleave)
        return vg_drv_error(CUDA_ERROR_NOT_SUPPORTED,
                            "cuTensorMapEncodeTiled: interleaved layouts are "
                            "not supported by this virtual GPU");
    if (promotion < 0 || promotion > 3)
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "cuTensorMapEncodeTiled: l2Promotion %d",
                            promotion);
    return CUDA_SUCCESS;
}

/* Host arrays become one vg_tensor_map, unused dimensions 1, values cut to
 * the width of its fields but kept out of range so that vg_tensor_check still
 * refuses them.  Works without a context, as in the driver, and leaves *map
 * alone on failure. */
CUresult cuTensorMapEncodeTiled(void *map, int type, unsigned rank,
                                void *address, const uint64_t *dim,
                                const uint64_t *stride, const uint32_t *box,
                                const uint32_t *step, int interleave,
                                int swizzle, int promotion, int fill)
{
    VG_ENTRY;
    struct vg_tensor_map t = {
        .address = (uint64_t)(uintptr_t)address,
        .type = (uint8_t)type,
        .rank = (uint8_t)(rank < 255 ? rank : 255),
        .swizzle = (uint8_t)swizzle,
        .nan_fill = (uint8_t)fill,
    };
    char err[200];
    if (vg_driver.is_initialised && vg_driver.profile.arch < 90)
        return vg_drv_error(CUDA_ERROR_NOT_SUPPORTED,
                            "cuTensorMapEncodeTiled: tensor maps need sm_90, "
                            "this is %s", vg_driver.profile.id);
    if (!map || !dim || !box || !step || (rank > 1 && !stride) ||
        (uintptr_t)map % 64)
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "cuTensorMapEncodeTiled: NULL argument, or map "
                            "not aligned to 64 bytes");
    for (unsigned n = 0; n < VG_MAX_RANK; n++) {
        bool used = n < rank;
        t.dim[n] = used ? dim[n] : 1;
        t.box[n] = (uint16_t)(used ? box[n] < 65535 ? box[n] : 65535 : 1);
        t.step[n] = (uint8_t)(used ? step[n] < 255 ? step[n] : 255 : 1);
        if (used && n + 1 < rank && n + 1 < VG_MAX_RANK)
            t.stride[n] = stride[n];
    }
    CUresult r = check_modes(interleave, promotion);
    if (r)
        return r;
    if ((unsigned)type > 255 || (unsigned)swizzle > 255 ||
        (unsigned)fill > 255 || !vg_tensor_check(&t, err, sizeof err))
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "cuTensorMapEncodeTiled: %s",
                            (unsigned)(type | swizzle | fill) > 255
                                ? "type, swizzle or oobFill is not known"
                                : err);
    vg_tensor_pack(&t, map);
    return CUDA_SUCCESS;
}

/* The same map for another tensor of the same shape; all rules are checked
 * again, since the address has one.  *map stays as it was on failure. */
CUresult cuTensorMapReplaceAddress(void *map, void *address)
{
    VG_ENTRY;
    struct vg_tensor_map t;
    char err[200];
    if (!map || !vg_tensor_unpack(map, &t))
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "cuTensorMapReplaceAddress: not a tensor map");
    t.address = (uint64_t)(uintptr_t)address;
    if (!vg_tensor_check(&t, err, sizeof err))
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "cuTensorMapReplaceAddress: %s", err);
    vg_tensor_pack(&t, map);
    return CUDA_SUCCESS;
}
