@ -- SPDX-License-Identifier: Apache-2.0
@ -- ldmatrix (PTX ISA 9.7.14.5.15): four 8x8 matrices of 16-bit values from shared memory.
@ -- Lane 8j + r passes the address of row r of matrix j.  Input: trans.  Without it register j of
@ -- lane l holds row l/4, columns 2(l%4) and 2(l%4) + 1 of matrix j; with it column l/4, rows
@ -- 2(l%4) and 2(l%4) + 1.
@ local name = trans and "load_matrix_trans" or "load_matrix"
// Four 8x8 matrices${trans and ", transposed" or ""}; lane 8j + r names row r of matrix j.
static __device__ __forceinline__ mla_v4 ${name}(const void *shared_row)
{
    const mla_u32 address = (mla_u32)__cvta_generic_to_shared(shared_row);
    mla_v4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4${trans and ".trans" or ""}.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}
