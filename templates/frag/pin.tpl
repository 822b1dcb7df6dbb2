@ -- SPDX-License-Identifier: Apache-2.0
@ -- pin(v): hides from the compiler where v comes from.  It must then keep v in a register
@ -- instead of computing it anew at every use, and cannot conclude anything about its value.
@ -- No instruction results.  Input: want, a set of u32, i64, pointer.
@ assert(type(want) == "table", "pin.tpl: want")
@ local kinds = {
@     { "u32", "mla_u32 &", "r" }, { "i64", "mla_i64 &", "l" }, { "pointer", "const char *&", "l" },
@ }
@ local first = true
@ for _, kind in ipairs(kinds) do
@     if want[kind[1]] then
@         if first then
// Keeps v in a register as it is: no more can be known about it.  No instruction.
@         else

@         end
@         first = false
static __device__ __forceinline__ void pin(${kind[2]}v)
{
    asm volatile("" : "+${kind[3]}"(v));
}
@     end
@ end
