@ -- SPDX-License-Identifier: Apache-2.0
@ -- The loader of mqa_decode, eight threads a row: page_of, copy_row.  Inputs: t, page_size, shift,
@ -- struct.
// Page of a key; past the last key, of the last one.
static __device__ __forceinline__ mla_i32 page_of(const mla_i32 *pages, mla_u32 key,
                                                  mla_u32 end_key)
{
    return pages[(key < end_key ? key : end_key - 1u) >> ${shift}];
}

// Copies this thread's 16-byte pieces of a key row, TO bytes past `to`.  At and past end_key,
// and where the page id is negative, the row becomes zeros: P is 0 there, and 0 * NaN is not.
template <int TO>
static __device__ __forceinline__ void copy_row(const ${struct} &a, mla_u32 to,
                                                mla_i32 page, mla_u32 key, mla_u32 end_key,
                                                mla_u32 chunk)
{
    const mla_u32 bytes = key < end_key && page >= 0 ? 16u : 0u;
    const mla_u32 row = (key < end_key ? key : end_key - 1u) & ${page_size - 1}u;
    const char *from = (const char *)a.kv_cache + page * a.page_stride + row * a.row_stride
                       + chunk * 16u;
@ for c = 0, t.chunks - 1 do
@     if c == t.chunks - 1 and t.chunk_tail > 0 then
    if (chunk < ${t.chunk_tail}u)
        copy16<TO + ${128 * c}, ${128 * c}>(to, from, bytes);
@     else
    copy16<TO + ${128 * c}, ${128 * c}>(to, from, bytes);
@     end
@ end
}
