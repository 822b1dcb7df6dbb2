@ -- SPDX-License-Identifier: Apache-2.0
@ -- exp and log to base 2 or e on the special function unit.  Input: base, "2" or "e".
@ -- ex2.approx and lg2.approx err by about 2^-22 (PTX ISA 9.7.3); callers keep the arguments of
@ -- exp at or below 0 and those of log at or above 1.
@ assert(base == "2" or base == "e", "explog.tpl: base")
static __device__ __forceinline__ float exp_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float log_2(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
@ if base == "e" then

static __device__ __forceinline__ float exp_e(float x)
{
    return exp_2(x * ${f32(1.4426950408889634)});
}

static __device__ __forceinline__ float log_e(float x)
{
    return log_2(x) * ${f32(0.6931471805599453)};
}
@ end
