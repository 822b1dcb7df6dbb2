/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor_map.h: the tensor maps of TMA, CUtensorMap.
 *
 * The 128 bytes are opaque: host code makes them with cuTensorMapEncodeTiled
 * (driver_tensor.c) and PTX passes their address on.  This GPU has its own
 * encoding.  Bytes 8-15 stay zero: some libraries patch a bit of a real map
 * there.
 */
#ifndef VGPU_TENSOR_MAP_H
#define VGPU_TENSOR_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VG_TENSOR_MAP_BYTES 128
#define VG_MAX_RANK 5

/* Numbers of cuda.h. */
enum vg_tensor_swizzle { VG_SWIZZLE_NONE, VG_SWIZZLE_32, VG_SWIZZLE_64,
                         VG_SWIZZLE_128 };

/* A tiled map.  dim[0] is contiguous; stride[n] is the pitch of dim[n + 1] in
 * bytes; box and step (element strides) in elements. */
struct vg_tensor_map {
    uint64_t address;
    uint64_t dim[VG_MAX_RANK], stride[VG_MAX_RANK - 1];
    uint16_t box[VG_MAX_RANK];
    uint8_t step[VG_MAX_RANK];
    uint8_t type, rank, swizzle, nan_fill;
};

/* Bytes of an element, 0 for an unknown type; is it a float? */
unsigned vg_tensor_bytes(unsigned type);
bool vg_tensor_is_float(unsigned type);

/* All rules of the CUDA Driver API's cuTensorMapEncodeTiled.  Returns false
 * and one line that names the argument and what is allowed. */
bool vg_tensor_check(const struct vg_tensor_map *t, char *err, size_t n);

/* Elements that a box has in dimension n of shared memory, and its bytes. */
unsigned vg_tensor_extent(const struct vg_tensor_map *t, unsigned n);
uint32_t vg_tensor_box_bytes(const struct vg_tensor_map *t);

void vg_tensor_pack(const struct vg_tensor_map *t,
                    unsigned char out[VG_TENSOR_MAP_BYTES]);
/* false: the bytes are no tensor map. */
bool vg_tensor_unpack(const unsigned char in[VG_TENSOR_MAP_BYTES],
                      struct vg_tensor_map *t);

#endif
