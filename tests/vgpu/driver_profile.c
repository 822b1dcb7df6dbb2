/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_profile.c: which GPU this one pretends to be, and what it says of
 * itself.
 *
 * Figures: compute-capability tables of the CUDA C++ Programming Guide 13.0
 * (shared memory, resident threads and blocks) and NVIDIA's data sheets
 * (SMs, memory, L2, bus, clocks).
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

#define GIB(n) ((uint64_t)(n) << 30)
#define MIB(n) ((n) << 20)
#define KIB(n) ((n) << 10)

/* In the order of struct vg_profile: id, name, architecture, SMs, memory,
 * shared memory per block (opt-in) and per SM, threads and blocks per SM, L2,
 * bus width, clocks in kHz.  An id is what VGPU_DEVICE says. */
static const struct vg_profile profile_table[] = {
    {"a100", "NVIDIA A100-SXM4-80GB", 80, 108, GIB(80), KIB(163), KIB(164),
     2048, 32, MIB(40), 5120, 1593000, 1410000},
    {"a10", "NVIDIA A10", 86, 72, GIB(24), KIB(99), KIB(100), 1536, 16, MIB(6),
     384, 6251000, 1695000},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, GIB(24), KIB(99), KIB(100),
     1536, 16, MIB(6), 384, 9751000, 1695000},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, GIB(24), KIB(99), KIB(100),
     1536, 24, MIB(72), 384, 10501000, 2520000},
    {"l40s", "NVIDIA L40S", 89, 142, GIB(48), KIB(99), KIB(100), 1536, 24,
     MIB(96), 384, 9001000, 2520000},
    {"h100", "NVIDIA H100 80GB HBM3", 90, 132, GIB(80), KIB(227), KIB(228),
     2048, 32, MIB(50), 5120, 2619000, 1980000},
    {"h200", "NVIDIA H200", 90, 132, GIB(141), KIB(227), KIB(228), 2048, 32,
     MIB(60), 6144, 3201000, 1980000},
    {"b200", "NVIDIA B200", 100, 148, GIB(180), KIB(227), KIB(228), 2048, 32,
     MIB(126), 8192, 3996000, 1965000},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, GIB(32), KIB(99),
     KIB(100), 1536, 24, MIB(96), 512, 14001000, 2407000},
    {"orin", "NVIDIA Jetson AGX Orin", 87, 16, GIB(64), KIB(163), KIB(164),
     1536, 16, MIB(4), 256, 3200000, 1300000},
};
enum { NPROFILES = sizeof profile_table / sizeof *profile_table };

/* NULL for an id that is in no row. */
const struct vg_profile *vg_drv_profile(const char *id)
{
    for (int i = 0; i < NPROFILES; i++)
        if (strcmp(profile_table[i].id, id) == 0)
            return &profile_table[i];
    return NULL;
}

/* For the message about an unknown VGPU_DEVICE. */
void vg_drv_profile_names(char *out, size_t n)
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < NPROFILES && used < n; i++)
        used += (size_t)snprintf(out + used, n - used, "%s%s", i ? ", " : "",
                                 profile_table[i].id);
}

/* There is one device, 0. */
CUresult vg_drv_check_device(CUdevice device)
{
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* --- device queries ------------------------------------------------------ */

/* *device is set even for a wrong ordinal; the error is what counts. */
CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    VG_ENTRY;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return vg_drv_check_device(ordinal);
}

/* One, whatever the host has. */
CUresult cuDeviceGetCount(int *count)
{
    VG_ENTRY;
    if (!vg_driver.is_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

/* Cut to n bytes.  " (virtual)" keeps anyone from taking a figure measured
 * here for a GPU's. */
CUresult cuDeviceGetName(char *name, int n, CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!name || n <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)n, "%s (virtual)", vg_driver.profile.name);
    return CUDA_SUCCESS;
}

/* "vgpu" and the profile's id: different for each profile, equal in each
 * run. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "vgpu", 4);
    snprintf(uuid->bytes + 4, sizeof uuid->bytes - 4, "%s",
             vg_driver.profile.id);
    return CUDA_SUCCESS;
}

/* The older name, the same answer. */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

/* VGPU_MEMORY, or what the profile has. */
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = vg_driver.memory_bytes;
    return CUDA_SUCCESS;
}

/* arch is both digits: 100 is 10.0, 86 is 8.6. */
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = vg_driver.profile.arch / 10;
    *minor = vg_driver.profile.arch % 10;
    return CUDA_SUCCESS;
}

/* Attributes in the order of their numbers; the rest, which say what textures
 * and interprocess features can do, are 0. */
static int attribute(int a)
{
    const struct vg_profile *p = &vg_driver.profile;
    const struct {
        int id, value;
    } table[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, KIB(48)},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, KIB(64)},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, p->clock_khz},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, p->sms},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, p->memory_khz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, p->bus_bits},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, p->l2},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, p->threads_sm},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, p->arch / 10},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, p->arch % 10},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, p->smem_sm},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
        {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, p->smem_optin},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, p->blocks_sm},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, KIB(1)},
        {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, p->arch >= 90},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].id == a)
            return table[i].value;
    return 0;
}

/* Numbers beyond those of CUDA 13.0 are invalid, as on a driver of that
 * version. */
CUresult cuDeviceGetAttribute(int *value, int a, CUdevice device)
{
    VG_ENTRY;
    CUresult r = vg_drv_check_device(device);
    if (r)
        return r;
    if (!value || a < 1 || a > CU_DEVICE_ATTRIBUTE_LAST_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute(a);
    return CUDA_SUCCESS;
}
