@ -- SPDX-License-Identifier: Apache-2.0
@ -- Integer names and the 16-byte vector.  No inputs.
typedef unsigned int mla_u32;
typedef unsigned long long mla_u64;
typedef int mla_i32;
typedef long long mla_i64;

// Eight 16-bit values: the unit of every global access.
struct __align__(16) mla_v4 {
    mla_u32 x, y, z, w;
};
