@ -- SPDX-License-Identifier: Apache-2.0
@ -- The host launcher at the end of a kernel's source.  Input: plan.
@ --
@ -- Needs only what nvcc declares by itself.  It checks, in this order: counts (negative:
@ -- cudaErrorInvalidValue), nothing to do (cudaSuccess), missing pointers (cudaErrorInvalidValue),
@ -- alignment (cudaErrorMisalignedAddress); then it launches.
@ local emit, launch = use("lib/emit"), use("lib/launch")
@ local threads, smem = plan.launch.block, plan.launch.smem_dynamic
@ local refused = launch.count_checks(plan)
@ local zero = launch.zero_test(plan)
@ local missing = launch.pointer_checks(plan)
@ local grid = {launch.clamped(plan, 1), launch.clamped(plan, 2), launch.clamped(plan, 3)}
#ifndef __CUDACC_RTC__
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int ${plan.symbol}_launch(
    const ${plan.args.struct} *a, void *stream)
{
    if (!a)
        return cudaErrorInvalidValue;
@ if #refused > 0 then
    ${emit.join("if (", refused, "||", 4)})
        return cudaErrorInvalidValue;
@ end
@ for i, axis in ipairs(plan.launch.grid) do
    const mla_u64 grid_${("xyz"):sub(i, i)} = ${launch.axis(axis)};
@ end
@ if zero ~= "" then
    if (${zero})
        return cudaSuccess;
@ end
    ${emit.join("if (", missing, "||", 4)})
        return cudaErrorInvalidValue;
@ for _, group in ipairs(launch.alignment_groups(plan)) do
    ${emit.join("const mla_u64 low" .. group.multiple .. " = ", group.terms, "|", 4)};
    if (low${group.multiple} & ${group.multiple - 1})
        return cudaErrorMisalignedAddress;
@ end
    const void *kernel =
        (const void *)${plan.symbol};
@ if smem > 48 * 1024 then
    const cudaError_t set =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ${smem});
    if (set != cudaSuccess)
        return set;
@ end
@ if #table.concat(grid, ", ") + 22 <= emit.WIDTH then
    const dim3 grid(${table.concat(grid, ", ")});
@ else
    const dim3 grid(${table.concat(grid, ",\n                    ")});
@ end
    const dim3 block(${threads[1]}, ${threads[2]}, ${threads[3]});
    void *parameters[] = {(void *)a};
    return cudaLaunchKernel(kernel, grid, block, parameters, ${smem}, (cudaStream_t)stream);
}
#endif
