@ -- SPDX-License-Identifier: Apache-2.0
@ -- Global accesses of 16 bytes.  Input: want, a set of
@ --   load         cached: rows that several warps read
@ --   load_stream  read once: leaves L1 to the others
@ --   load_const   as load_stream, through the read-only path: only for bytes that no kernel
@ --                writes while this one runs (weights), never for a predecessor's results
@ --   store
@ assert(type(want) == "table", "memory.tpl: want")
@ local loads = {
@     {"load", "ld.global.v4.u32", "Reads 16 bytes."},
@     {"load_stream", "ld.global.L1::no_allocate.v4.u32", "Reads 16 bytes that are needed once."},
@     {"load_const", "ld.global.nc.L1::no_allocate.v4.u32",
@         "Reads 16 bytes that nobody writes while the kernel runs."},
@ }
@ local gap = false
@ for _, l in ipairs(loads) do
@     if want[l[1]] then
@         if gap then

@         end
@         gap = true
// ${l[3]}
static __device__ __forceinline__ mla_v4 ${l[1]}16(const void *p)
{
    mla_v4 v;
    asm volatile("${l[2]} {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
@     end
@ end
@ if want.store then
@     if gap then

@     end
// Writes 16 bytes.
static __device__ __forceinline__ void store16(void *p, mla_v4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
@ end
