@ -- SPDX-License-Identifier: Apache-2.0
@ -- Groups of warps and clusters of blocks on sm_90a.  Input: want, a set of
@ --   sync, arrive   named barriers (PTX ISA 9.7.13.1)
@ --   finds          a named barrier whose threads ask an mbarrier as one
@ --   registers      setmaxnreg (9.7.19.5)
@ --   cluster        rank and barrier of the cluster (9.7.13.3)
@ assert(type(want) == "table", "hopper_groups.tpl: want")
@ local gap = false
@ if want.sync then
@     gap = true
// THREADS threads, whole warps, meet at a barrier of the block.
template <int THREADS>
static __device__ __forceinline__ void group_sync(mla_u32 barrier)
{
    asm volatile("barrier.cta.sync.aligned %0, %1;" : : "r"(barrier), "n"(THREADS) : "memory");
}
@ end
@ if want.arrive then
@     if gap then

@     end
@     gap = true
// Counts as one of them, and does not wait.
template <int THREADS>
static __device__ __forceinline__ void group_arrive(mla_u32 barrier)
{
    asm volatile("barrier.cta.arrive.aligned %0, %1;" : : "r"(barrier), "n"(THREADS) : "memory");
}
@ end
@ if want.finds then
@     if gap then

@     end
@     gap = true
// They meet, and learn whether all of them find that phase of an mbarrier complete.
template <int THREADS>
static __device__ __forceinline__ bool group_finds(mla_u32 barrier, mla_u32 mbarrier,
                                                   mla_u32 parity)
{
    mla_u32 all;
    asm volatile("{\n\t.reg .pred p, q;\n\t"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%2], %3;\n\t"
                 "barrier.cta.red.and.aligned.pred q, %1, %4, p;\n\t"
                 "selp.u32 %0, 1, 0, q;\n\t}"
                 : "=r"(all)
                 : "r"(barrier), "r"(mbarrier), "r"(parity), "n"(THREADS)
                 : "memory");
    return all != 0u;
}
@ end
@ if want.registers then
@     if gap then

@     end
@     gap = true
// The warpgroup's registers per thread from here on.
template <int REGISTERS>
static __device__ __forceinline__ void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}
template <int REGISTERS>
static __device__ __forceinline__ void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}
@ end
@ if want.cluster then
@     if gap then

@     end
@     gap = true
static __device__ __forceinline__ mla_u32 cluster_rank()
{
    mla_u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of all blocks of the cluster meet.
static __device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.aligned;\n\t"
                 "barrier.cluster.wait.aligned;" ::: "memory");
}
@ end
