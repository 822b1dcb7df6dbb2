@ -- SPDX-License-Identifier: Apache-2.0
@ -- Asynchronous copies of 16 bytes from global to shared memory (PTX ISA 9.7.9.25, cp.async) and
@ -- the fragments that are read from there.  Offsets are template parameters so that they become
@ -- immediates.  No inputs.
// Copies 16 bytes to shared memory at `to` + TO without waiting, past L1.
template <int TO>
static __device__ __forceinline__ void copy16(mla_u32 to, const char *from)
{
    asm volatile("cp.async.cg.shared.global [%0+%2], [%1], 16;"
                 :
                 : "r"(to), "l"(from), "n"(TO)
                 : "memory");
}

static __device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most PENDING of this thread's youngest groups are in flight.
template <int PENDING>
static __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8x8 matrices; lane 8j + r names row r of matrix j.
template <int OFFSET>
static __device__ __forceinline__ mla_v4 matrices(mla_u32 row)
{
    mla_v4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(row), "n"(OFFSET)
                 : "memory");
    return v;
}
