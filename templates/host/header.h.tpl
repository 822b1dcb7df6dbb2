@ -- SPDX-License-Identifier: Apache-2.0
@ -- The C header of a model: argument structs, descriptor types, launchers.  C99 and C++, no CUDA
@ -- header.  Inputs: spec, plans, meta.
@ local header, rope = use("lib/header"), use("lib/rope")
@ local emit = use("lib/emit")
@ local ident, upper = spec.derived.ident, header.upper(spec)
@ local prefix = meta.symbol_prefix
@ local angles = rope.angles(spec)
@ local purpose = "Kernels of " .. spec.model .. ": arguments, launchers, descriptors."
${header.head(meta, purpose)}
#ifndef MLA_${upper}_H
#define MLA_${upper}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The model.  In the comments below:
 *   H   query heads of a kernel (its symbol's h<n>)
 *   DN  columns of q and k without position, per head
 *   DR  rotary columns
 *   DV  columns of v, per head
 *   R   columns of the latent; a row of the pool is [latent R | rope DR]
 *   P   rows of a page
 * Tensors are contiguous along their last axis; all strides are bytes.  LSE is to base ${tostring(spec.lse.base)},
 * of an empty set ${tostring(spec.lse.empty)}. */
enum {
    MLA_${upper}_DN = ${spec.qk_nope_head_dim},
    MLA_${upper}_DR = ${spec.qk_rope_head_dim},
    MLA_${upper}_DV = ${spec.v_head_dim},
    MLA_${upper}_R = ${spec.kv_lora_rank},
    MLA_${upper}_P = ${spec.kv_cache.page_size}
};

/* What the scores are multiplied with before the softmax. */
#define MLA_${upper}_SOFTMAX_SCALE ${header.number(spec.derived.softmax_scale)}

/* --- Arguments: one struct per kernel family, passed by value ----------------------------- */

@ for _, s in ipairs(header.structs(plans)) do
#ifndef ${s.args.struct:upper()}_DEFINED
#define ${s.args.struct:upper()}_DEFINED
${header.struct(s.args)}
#endif

@ end
/* --- Descriptors: what a launcher of one's own needs to know ------------------------------ */

#ifndef MLA_EMITTED_KERNEL_DEFINED
#define MLA_EMITTED_KERNEL_DEFINED
/* A field of an argument struct.  `type` is ptr, i64, i32 or f32.  Of a pointer, `elem` is bf16,
 * fp16, f32, i32, i64 or byte, `access` in, out or inout, and `multiple` its alignment in bytes;
 * of a stride, `multiple` is what it must be a multiple of. */
struct mla_emitted_arg {
    const char *name;
    const char *type;
    const char *elem;
    const char *access;
    int32_t offset;
    int32_t multiple;
    int32_t nullable;
};

/* ceil(n / per), where n is the integer at `offset` of the arguments (its size is in their table);
 * at offset -1 the number `per` itself. */
struct mla_emitted_factor {
    int32_t offset;
    int32_t per;
};

/* A grid axis: min(max, product of its factors).  A product of zero launches nothing. */
struct mla_emitted_axis {
    struct mla_emitted_factor factors[4];
    int32_t count;
    int32_t max;
};

/* A size or stride of a tensor map: the product of its factors. */
struct mla_emitted_product {
    struct mla_emitted_factor factors[4];
    int32_t count;
};

/* A parameter behind the argument struct, 128 bytes that cuTensorMapEncodeTiled fills: `pointer`
 * is the offset of the address among the arguments, from which `back` times the first stride is
 * taken; `type`, `swizzle` and `promotion` are the numbers of that function, its element strides
 * are 1, interleave and fill 0. */
struct mla_emitted_map {
    const char *name;
    int32_t pointer;
    int32_t back;
    int32_t type;
    int32_t rank;
    struct mla_emitted_product sizes[5];
    struct mla_emitted_product strides[4];
    uint32_t box[5];
    int32_t swizzle;
    int32_t promotion;
};

/* One kernel.  `tile_m` and `tile_n` are rows and keys of a tile, where a caller has to know;
 * `pdl`: it may be launched with programmatic stream serialization; `cluster`: blocks of a
 * cluster along each axis, or 0. */
struct mla_emitted_kernel {
    const char *symbol;
    const char *family;
    const char *variant;
    const char *arch;
    const char *dtype;
    const char *source;
    const char *cubin;
    int32_t heads;
    int32_t page_size;
    int32_t tile_m;
    int32_t tile_n;
    uint32_t block[3];
    uint32_t smem_dynamic;
    int32_t pdl;
    uint32_t cluster[3];
    struct mla_emitted_axis grid[3];
    const struct mla_emitted_map *maps;
    int32_t map_count;
    const struct mla_emitted_arg *args;
    int32_t arg_count;
    uint32_t args_size;
};
#endif

/* All kernels of the model, and how many. */
extern const struct mla_emitted_kernel ${prefix}mla_${ident}_kernels[];
extern const int32_t ${prefix}mla_${ident}_kernel_count;

@ if angles then
/* --- Positions ---------------------------------------------------------------------------- */

@     if angles.short then
/* Fills `rows` rows of a cos_sin table, for positions first_position and on: DR floats per row,
 * [cos | sin], of angles computed in double.
@         if angles.long then
 * long_context 0: factors for contexts up to the original length; 1: beyond.
@         else
 * long_context makes no difference to this model.
@         end
 * Returns 0, or -1 for a missing table or a negative number. */
@     else
/* Returns -2: the factors of this model's longrope scaling were not in its spec, so that the caller
 * supplies the cos_sin table: DR floats per row, [cos | sin]. */
@     end
int ${prefix}mla_${ident}_rope_table(float *table, long long rows, long long first_position,
    int long_context);

@ end
@ local has_maps = false
@ for _, plan in ipairs(plans) do
@     has_maps = has_maps or plan.launch.tensor_maps ~= nil
@ end
/* --- Launchers, in the .cu files ---------------------------------------------------------- */

/* Each checks its arguments and launches on `stream`, a cudaStream_t.  Returns a cudaError_t: 0 on
 * success (also when there is nothing to do), cudaErrorInvalidValue for a negative count or a
 * missing pointer, cudaErrorMisalignedAddress for a pointer or stride that breaks its rule. */
@ if has_maps then
/* Kernels that load by TMA need the driver's cuTensorMapEncodeTiled, of which `encode` is the
 * address: from dlsym on libcuda.so.1, or cudaGetDriverEntryPointByVersion. */
#ifndef MLA_ENCODE_TILED_DEFINED
#define MLA_ENCODE_TILED_DEFINED
typedef int (*mla_encode_tiled)(void *map, int type, uint32_t rank, void *address,
    const uint64_t *sizes, const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
    int interleave, int swizzle, int promotion, int fill);
#endif
@ end
@ for _, plan in ipairs(plans) do
int ${plan.symbol}_launch(
    const struct ${plan.args.struct} *a, ${plan.launch.tensor_maps and "mla_encode_tiled encode, " or ""}void *stream);
@ end

#ifdef __cplusplus
}
#endif

#endif
