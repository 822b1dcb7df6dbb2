@ -- SPDX-License-Identifier: Apache-2.0
@ -- A ring of stages in shared memory, as its producer or a consumer counts.  No inputs.
// A place in a ring of stages, and the parity of its barriers' phase.
struct ring {
    mla_u32 stage, parity;
};

template <int STAGES>
static __device__ __forceinline__ void advance(ring &r)
{
    if (++r.stage == STAGES) {
        r.stage = 0;
        r.parity ^= 1u;
    }
}
