/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper_gemm.cu: D = A B^T in bf16 as Hopper kernels are written, for
 * test_hopper_gemm.c: a producer warp feeds a ring of TMA tiles, two consumer
 * warpgroups multiply with wgmma, results leave through shared memory and a
 * TMA store.  Persistent: one block works on all column tiles.
 *
 *   A [128 blocks, 64 k], B [128 columns, 64 k] per step, swizzled by 128 B
 *   full[s]  1 arrival and the tile's bytes; empty[s]  one per consumer warp
 *
 * No synchronisation here is redundant: the test removes each in turn and
 * wants to see it missed.
 */
typedef unsigned u32;
typedef unsigned long long u64;
struct __align__(64) tensor_map { char bytes[128]; };

#define DEVICE static __device__ __forceinline__
#define STAGES 3
#define TILE 16384              /* bytes of 128 x 64 bf16 */
#define STAGING (STAGES * 2 * TILE)
#define FULL (STAGING + 2 * TILE)
#define EMPTY (FULL + 8 * STAGES)

DEVICE void wait(u32 barrier, u32 parity)
{
    asm volatile("{\n.reg .pred p;\n"
                 "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(barrier),
                 "r"(parity) : "memory");
}

DEVICE void load(u32 to, const tensor_map *map, int k, int row, u32 barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(k), "r"(row), "r"(barrier)
                 : "memory");
}

DEVICE void produce(u32 sm, const tensor_map *a, const tensor_map *b,
                    int steps, int tiles)
{
    u32 stage = 0, parity = 1;
#pragma unroll 1
    for (int n = 0; n < tiles * steps; n++) {
        const u32 full = sm + FULL + 8 * stage;
        wait(sm + EMPTY + 8 * stage, parity);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(full), "r"(2 * TILE) : "memory");
        load(sm + stage * 2 * TILE, a, n % steps * 64, blockIdx.x * 128, full);
        load(sm + stage * 2 * TILE + TILE, b, n % steps * 64,
             n / steps * 128, full);
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
}

/* The 64 accumulators of m64n128. */
#define D8(o) "+f"(d[o]), "+f"(d[o + 1]), "+f"(d[o + 2]), "+f"(d[o + 3]), \
              "+f"(d[o + 4]), "+f"(d[o + 5]), "+f"(d[o + 6]), "+f"(d[o + 7])
#define D64 D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)

DEVICE void multiply(float (&d)[64], u64 a, u64 b, int keep)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,"
        "%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,"
        "%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,"
        "%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0;"
        "\n}" : D64 : "l"(a), "l"(b), "r"(keep));
}

DEVICE void release(u32 sm, u32 stage)
{
    if ((threadIdx.x & 31) == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                     ::"r"(sm + EMPTY + 8 * stage) : "memory");
}

DEVICE u32 pack(float low, float high)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* A warpgroup's 64 x 128 results, two swizzled boxes of 64 columns. */
DEVICE void store(const float (&d)[64], u32 staging, const tensor_map *map,
                  int column, u32 group)
{
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const u32 row = warp * 16 + (lane & 15);
    const u32 at = staging + row * 128 + (((lane >> 4) ^ (row & 7)) << 4);
    const bool elected = (threadIdx.x & 127) == 0;
    if (elected)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
#pragma unroll
    for (int t = 0; t < 8; t++)
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
            ::"r"((at ^ (t & 3) * 32) + t / 4 * 8192),
            "r"(pack(d[8 * t], d[8 * t + 1])),
            "r"(pack(d[8 * t + 2], d[8 * t + 3])),
            "r"(pack(d[8 * t + 4], d[8 * t + 5])),
            "r"(pack(d[8 * t + 6], d[8 * t + 7])) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    if (elected) {
        for (int half = 0; half < 2; half++)
            asm volatile(
                "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                "[%0, {%1, %2}], [%3];" ::"l"(map), "r"(column + 64 * half),
                "r"(blockIdx.x * 128 + (group - 1) * 64),
                "r"(staging + 8192 * half) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
}

DEVICE void consume(u32 sm, const tensor_map *map, int steps, int tiles,
                    u32 group)
{
    const u64 mode = 1ull << 62 | 64ull << 32 | 1ull << 16;
    u32 stage = 0, parity = 0;
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        float d[64];
#pragma unroll
        for (int i = 0; i < 64; i++)
            d[i] = 0.f;
#pragma unroll 1
        for (int n = 0; n < steps; n++) {
            const u32 at = sm + stage * 2 * TILE;
            const u64 a = mode | (at + (group - 1) * 8192) >> 4;
            const u64 b = mode | (at + TILE) >> 4;
            wait(sm + FULL + 8 * stage, parity);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < 4; k++)
                multiply(d, a + 2 * k, b + 2 * k, n + k > 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (n > 0) {
                asm volatile("wgmma.wait_group.sync.aligned 1;" : D64
                             :: "memory");
                release(sm, stage == 0 ? STAGES - 1 : stage - 1);
            }
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" : D64 :: "memory");
        release(sm, stage == 0 ? STAGES - 1 : stage - 1);
        store(d, sm + STAGING + (group - 1) * TILE, map, tile * 128, group);
    }
    if ((threadIdx.x & 127) == 0)
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
     const __grid_constant__ tensor_map d, int steps, int tiles)
{
    extern __shared__ __align__(1024) char shared[];
    const u32 sm = (u32)__cvta_generic_to_shared(shared);
    const u32 group = threadIdx.x >> 7;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                         ::"r"(sm + FULL + 8 * s) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;"
                         ::"r"(sm + EMPTY + 8 * s) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("bar.sync 0;" ::: "memory");
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            produce(sm, &a, &b, steps, tiles);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(sm, &d, steps, tiles, group);
    }
}
