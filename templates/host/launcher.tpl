@ -- SPDX-License-Identifier: Apache-2.0
@ -- The host launcher at the end of a kernel's source.  Input: plan.
@ --
@ -- Needs only what nvcc declares by itself.  It checks, in this order: counts (negative:
@ -- cudaErrorInvalidValue), nothing to do (cudaSuccess), missing pointers (cudaErrorInvalidValue),
@ -- alignment (cudaErrorMisalignedAddress); then it launches.  A kernel with tensor maps takes the
@ -- driver's cuTensorMapEncodeTiled from its caller, so that nothing here links to the driver.
@ local emit, launch = use("lib/emit"), use("lib/launch")
@ local threads, smem = plan.launch.block, plan.launch.smem_dynamic
@ local refused = launch.count_checks(plan)
@ local zero = launch.zero_test(plan)
@ local missing = launch.pointer_checks(plan)
@ local maps, cluster = launch.tensor_maps(plan), plan.launch.cluster
@ local grid = {launch.clamped(plan, 1), launch.clamped(plan, 2), launch.clamped(plan, 3)}
#ifndef __CUDACC_RTC__
@ if #maps > 0 then
// cuTensorMapEncodeTiled of the CUDA driver, which the caller looks up.
typedef int (*encode_tiled)(void *map, int type, mla_u32 rank, void *address,
                            const mla_u64 *sizes, const mla_u64 *strides, const mla_u32 *box,
                            const mla_u32 *steps, int interleave, int swizzle, int promotion,
                            int fill);

@ end
// Checks the arguments and launches on `stream` (a cudaStream_t).  Returns the CUDA error.
extern "C" int ${plan.symbol}_launch(
    const ${plan.args.struct} *a, ${#maps > 0 and "encode_tiled encode, " or ""}void *stream)
{
    if (!a${#maps > 0 and " || !encode" or ""})
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
@ for _, m in ipairs(maps) do
    mla_tensor_map ${m.name};
    const mla_u64 ${m.name}_sizes[] = {
        ${table.concat(m.dims, ",\n        ")}};
    const mla_u64 ${m.name}_strides[] = {
        ${table.concat(m.strides, ",\n        ")}};
    const mla_u32 ${m.name}_box[] = {${m.box}};
    const mla_u32 ${m.name}_steps[] = {${m.steps}};
@     local origin = "(void *)a->" .. m.pointer
@     if m.back > 0 then
    const mla_u64 ${m.name}_origin = (mla_u64)a->${m.pointer} - ${m.back} * ${m.name}_strides[0];
@         origin = "(void *)" .. m.name .. "_origin"
@     end
    if (encode(&${m.name}, ${m.type}, ${m.rank}, ${origin}, ${m.name}_sizes, ${m.name}_strides,
               ${m.name}_box, ${m.name}_steps, 0, ${m.swizzle}, ${m.promotion}, 0))
        return cudaErrorInvalidValue;
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
@ local names = ""
@ for _, m in ipairs(maps) do
@     names = names .. ", &" .. m.name
@ end
    void *parameters[] = {(void *)a${names}};
@ if cluster then
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = ${cluster.x};
    attribute.val.clusterDim.y = ${cluster.y};
    attribute.val.clusterDim.z = ${cluster.z};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = ${smem};
    config.stream = (cudaStream_t)stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelExC(&config, kernel, parameters);
@ else
    return cudaLaunchKernel(kernel, grid, block, parameters, ${smem}, (cudaStream_t)stream);
@ end
}
#endif
