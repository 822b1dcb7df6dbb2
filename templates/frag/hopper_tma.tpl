@ -- SPDX-License-Identifier: Apache-2.0
@ -- mbarriers (PTX ISA 9.7.13.15) and the copy engine, TMA (9.7.9.25.5), of sm_90a.
@ -- Input: want, a set of
@ --   arrive               arrivals of threads
@ --   remote               arrivals at another block of the cluster, and waits for those
@ --   load, multicast      lists of tensor ranks, 2 to 5
@ -- Shared addresses are 32-bit; a tensor map is a kernel parameter (lib/plan.lua), passed by
@ -- address; coordinates are in elements of the map's dimensions, innermost first.
@ assert(type(want) == "table", "hopper_tma.tpl: want")
@ -- Parameters (in two lines from four on), names and operands of the coordinates.
@ local function coordinates(rank, first)
@     local params, names, operands = {}, {}, {}
@     for i = 0, rank - 1 do
@         local gap = i == 3 and "\n" or " "
@         params[#params + 1] = (i > 0 and gap or "") .. "mla_i32 c" .. i
@         names[#names + 1] = "%" .. first + i
@         operands[#operands + 1] = string.format("\"r\"(c%d)", i)
@     end
@     return table.concat(params, ","), table.concat(names, ", "), table.concat(operands, ", ")
@ end
@ if want.load or want.multicast then
// How the copy engine sees a tensor; the driver fills it, kernels pass its address on.
struct __align__(128) mla_tensor_map {
    char opaque[128];
};

@ end
// A barrier that `count` arrivals, and the bytes they expect, complete.
static __device__ __forceinline__ void mbarrier_init(mla_u32 barrier, mla_u32 count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(count) : "memory");
}
@ if want.load or want.multicast then

// Makes initialised barriers known to the copy engine and the cluster; then a barrier of theirs.
static __device__ __forceinline__ void mbarriers_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and makes the phase wait for that many bytes of copies.
static __device__ __forceinline__ void mbarrier_expect(mla_u32 barrier, mla_u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(barrier), "r"(bytes)
                 : "memory");
}
@ end

// Waits until the phase of that parity is complete.
static __device__ __forceinline__ void mbarrier_wait(mla_u32 barrier, mla_u32 parity)
{
    asm volatile("{\n\t.reg .pred done;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra again;\n\t}"
                 :
                 : "r"(barrier), "r"(parity)
                 : "memory");
}
@ if want.arrive then

static __device__ __forceinline__ void mbarrier_arrive(mla_u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
@ end
@ if want.remote then

// Arrives at the same barrier of block `rank` of the cluster.
static __device__ __forceinline__ void mbarrier_arrive_at(mla_u32 barrier, mla_u32 rank)
{
    asm volatile("{\n\t.reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t}"
                 :
                 : "r"(barrier), "r"(rank)
                 : "memory");
}

// Waits for arrivals from the whole cluster.
static __device__ __forceinline__ void mbarrier_wait_cluster(mla_u32 barrier, mla_u32 parity)
{
    asm volatile("{\n\t.reg .pred done;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra again;\n\t}"
                 :
                 : "r"(barrier), "r"(parity)
                 : "memory");
}
@ end

// Ordinary accesses to shared memory before this come before those of TMA and wgmma after it.
static __device__ __forceinline__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
@ for _, rank in ipairs(want.load or {}) do
@     local params, names, operands = coordinates(rank, 3)

// Sends for the box at these coordinates; its bytes complete at the barrier.
static __device__ __forceinline__ void tma_load(mla_u32 to, const mla_tensor_map *map,
                                                mla_u32 barrier,
                                                ${params})
{
    asm volatile("cp.async.bulk.tensor.${rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {${names}}], [%2];"
                 :
                 : "r"(to), "l"(map), "r"(barrier), ${operands}
                 : "memory");
}
@ end
@ for _, rank in ipairs(want.multicast or {}) do
@     local params, names, operands = coordinates(rank, 4)

// The same into every block of the cluster whose bit is set, at the same place and barrier.
static __device__ __forceinline__ void tma_multicast(mla_u32 to, const mla_tensor_map *map,
                                                     mla_u32 barrier, unsigned short blocks,
                                                     ${params})
{
    asm volatile("cp.async.bulk.tensor.${rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {${names}}], [%2], %3;"
                 :
                 : "r"(to), "l"(map), "r"(barrier), "h"(blocks),
                   ${operands}
                 : "memory");
}
@ end
