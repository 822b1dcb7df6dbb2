/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_function.c: attributes of kernels and what follows from them: how
 * many threads a block may have and how many blocks share an SM.
 *
 * Registers: PTX has no register allocation, so the number is an estimate,
 * the most 32-bit values alive at once, capped by what the launch directives
 * leave to each thread.  Nothing is refused because of it.  It is used where
 * a real driver's number would be: in attributes and in occupancy, on which a
 * server's choice of grid depends.
 */
#include "driver.h"

/* Registers of an SM, the same from sm_80 to sm_120, and the bytes of shared
 * memory that the system takes from every block. */
enum { REGISTERS_SM = 65536, RESERVED_SHARED = 1024 };

/* v, or the nearer end of [lo, hi]. */
static int clamp(int64_t v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : (int)v;
}

/* 0 when the directive is absent. */
static unsigned product(const unsigned v[3])
{
    return v[0] * v[1] * v[2];
}

struct vg_function *vg_drv_function(CUfunction fn)
{
    return vg_drv_object(VG_H_FUNCTION, fn);
}

/* The threads that .reqntid or .maxntid allow, else the device's limit. */
int vg_drv_max_threads(const struct vg_function *f)
{
    unsigned n = product(f->ptx->reqntid);
    n = n ? n : product(f->ptx->maxntid);
    return n && n < 1024 ? (int)n : 1024;
}

/* With .minnctapersm n, ptxas must leave room for n blocks: 65,536 registers
 * over n times the threads of a block, in steps of 8. */
int vg_drv_registers(const struct vg_function *f)
{
    int warps = (vg_drv_max_threads(f) + 31) / 32;
    int blocks = clamp(f->ptx->minnctapersm, 1, 32);
    int cap = REGISTERS_SM / (warps * blocks * 32) & ~7;
    if (f->ptx->maxnreg && (int)f->ptx->maxnreg < cap)
        cap = (int)f->ptx->maxnreg;
    return clamp(f->program->max_live, 16, clamp(cap, 16, 255));
}

/* The least of four limits (Programming Guide, "Occupancy Calculator"):
 * blocks, threads, registers in units of 256 a warp, and shared memory in
 * units of 128 with 1 KiB a block reserved. */
int vg_drv_occupancy(const struct vg_function *f, int threads,
                     uint64_t dynamic)
{
    const struct vg_profile *p = &vg_driver.profile;
    int warps = (threads + 31) / 32;
    int warp_registers = (vg_drv_registers(f) * 32 + 255) & ~255;
    int64_t shared = (int64_t)((f->ptx->shared_bytes + dynamic + 127) & ~127u);
    int64_t n = p->blocks_sm;
    int64_t by_threads = p->threads_sm / (warps * 32);
    int64_t by_registers = REGISTERS_SM / ((int64_t)warp_registers * warps);
    int64_t by_shared = p->smem_sm / (shared + RESERVED_SHARED);
    n = by_threads < n ? by_threads : n;
    n = by_registers < n ? by_registers : n;
    return (int)(by_shared < n ? by_shared : n);
}

/* --- attributes ---------------------------------------------------------- */

/* .reqnctapercluster in the PTX makes a launch without cluster dimensions
 * take them, and one with others fail. */
static bool needs_cluster(const struct vg_function *f)
{
    return f->ptx->cluster[0] != 0;
}

/* The attributes of CUDA 13.0, by number. */
CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction fn)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    const struct vg_function *f = vg_drv_function(fn);
    if (r)
        return r;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    const int table[] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = vg_drv_max_threads(f),
        [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = (int)f->ptx->shared_bytes,
        [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = 0,
        [CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = (int)f->ptx->local_bytes,
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = vg_drv_registers(f),
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = f->module->ptx->version,
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = vg_driver.profile.arch,
        [CU_FUNC_ATTRIBUTE_CACHE_MODE_CA] = 0,
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = f->max_dynamic,
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = f->carveout,
        [CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] = needs_cluster(f),
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = (int)f->ptx->cluster[0],
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] = (int)f->ptx->cluster[1],
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = (int)f->ptx->cluster[2],
        [CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] =
            f->nonportable_cluster,
        [CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] =
            f->cluster_policy,
    };
    if (attribute < 0 || attribute >= (int)(sizeof table / sizeof *table))
        return CUDA_ERROR_INVALID_VALUE;
    *value = table[attribute];
    return CUDA_SUCCESS;
}

/* Static and dynamic shared memory together may reach the opt-in limit. */
static CUresult set_max_dynamic(struct vg_function *f, int value)
{
    int most = vg_driver.profile.smem_optin - (int)f->ptx->shared_bytes;
    if (value < 0 || value > most)
        return vg_drv_error(CUDA_ERROR_INVALID_VALUE,
                            "kernel '%s': %d bytes of dynamic shared memory, "
                            "at most %d on %s",
                            f->ptx->name, value, most, vg_driver.profile.id);
    f->max_dynamic = value;
    return CUDA_SUCCESS;
}

/* The other attributes are facts about the code and cannot be set. */
CUresult cuFuncSetAttribute(CUfunction fn, int attribute, int value)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    struct vg_function *f = vg_drv_function(fn);
    if (r)
        return r;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return set_max_dynamic(f, value);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        f->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        f->nonportable_cluster = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > 2)
            return CUDA_ERROR_INVALID_VALUE;
        f->cluster_policy = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* A hint since compute capability 7.0; remembered. */
CUresult cuFuncSetCacheConfig(CUfunction fn, int config)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    struct vg_function *f = vg_drv_function(fn);
    if (r)
        return r;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (config < 0 || config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    f->cache_config = config;
    return CUDA_SUCCESS;
}

/* No context needed, as for the next two: they say what was in the PTX. */
CUresult cuFuncGetModule(CUmodule *module, CUfunction fn)
{
    VG_ENTRY;
    const struct vg_function *f = vg_drv_function(fn);
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    *module = f->module->handle;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction fn)
{
    VG_ENTRY;
    const struct vg_function *f = vg_drv_function(fn);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = f->ptx->name;
    return CUDA_SUCCESS;
}

/* Offset and size in the parameter buffer; bytes may be left out.  Callers
 * count parameters by asking until this fails. */
CUresult cuFuncGetParamInfo(CUfunction fn, size_t i, size_t *offset,
                            size_t *bytes)
{
    VG_ENTRY;
    const struct vg_function *f = vg_drv_function(fn);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || i >= (size_t)f->ptx->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = f->ptx->param[i]->offset;
    if (bytes)
        *bytes = f->ptx->param[i]->size;
    return CUDA_SUCCESS;
}

/* --- occupancy ----------------------------------------------------------- */

/* A block that could not be launched at all has an occupancy of 0.  The flag
 * is about caching of global loads, which changes nothing since sm_70. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, CUfunction fn, int block_size, size_t dynamic, unsigned flags)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    const struct vg_function *f = vg_drv_function(fn);
    if (r)
        return r;
    if (!blocks || block_size <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    bool fits = block_size <= vg_drv_max_threads(f) &&
                dynamic <= (size_t)f->max_dynamic;
    *blocks = fits ? vg_drv_occupancy(f, block_size, dynamic) : 0;
    return CUDA_SUCCESS;
}

/* Without flags. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction fn,
                                                     int block_size,
                                                     size_t dynamic)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, fn, block_size, dynamic, 0);
}

/* What each of `blocks` resident blocks can have, whatever the attribute now
 * allows, rounded down to the unit of 128 bytes in which it is given out. */
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamic,
                                                 CUfunction fn, int blocks,
                                                 int block_size)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    const struct vg_function *f = vg_drv_function(fn);
    if (r)
        return r;
    if (!dynamic || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    int64_t share = vg_driver.profile.smem_sm / blocks - RESERVED_SHARED;
    int64_t most = vg_driver.profile.smem_optin;
    share = (share < most ? share : most) - (int64_t)f->ptx->shared_bytes;
    *dynamic = share > 0 ? (size_t)(share & ~INT64_C(127)) : 0;
    return CUDA_SUCCESS;
}
