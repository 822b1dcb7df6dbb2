@ -- SPDX-License-Identifier: Apache-2.0
@ -- A pair of 16-bit values in a register, to float and back.  Inputs: dtype, bf16 or fp16;
@ -- want, a set of: unpack (lo_f32, hi_f32) and pack (pack2).
@ assert(dtype == "bf16" or dtype == "fp16", "convert.tpl: dtype")
@ assert(type(want) == "table", "convert.tpl: want")
@ if want.unpack and dtype == "bf16" then
// The values of a pair; bf16 is the upper half of a float.
static __device__ __forceinline__ float lo_f32(mla_u32 pair)
{
    return __uint_as_float(pair << 16);
}

static __device__ __forceinline__ float hi_f32(mla_u32 pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}
@ elseif want.unpack then
// The values of a pair of fp16.
static __device__ __forceinline__ float lo_f32(mla_u32 pair)
{
    float value;
    asm("{\n\t.reg .b16 lo, hi;\n\t"
        "mov.b32 {lo, hi}, %1;\n\t"
        "cvt.f32.f16 %0, lo;\n\t}"
        : "=f"(value)
        : "r"(pair));
    return value;
}

static __device__ __forceinline__ float hi_f32(mla_u32 pair)
{
    return lo_f32(pair >> 16);
}
@ end
@ if want.pack then
@     if want.unpack then

@     end
// Rounds two floats to nearest-even; `lo` goes to the lower half.
static __device__ __forceinline__ mla_u32 pack2(float lo, float hi)
{
    mla_u32 pair;
    asm("cvt.rn.${dtype == "bf16" and "bf16x2" or "f16x2"}.f32 %0, %1, %2;"
        : "=r"(pair)
        : "f"(hi), "f"(lo));
    return pair;
}
@ end
