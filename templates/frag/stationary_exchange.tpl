@ -- SPDX-License-Identifier: Apache-2.0
@ -- Adds the partial sums of the warps along k, in the order of k, and stores the step.
@ -- A warp leaves its fragments as they are, 16 bytes per lane; a reader takes the same
@ -- fragment of all warps: two neighbouring columns of two tokens.  Two buffers, so that one
@ -- barrier per step is enough: before a buffer is written again, everyone has passed the
@ -- barrier of the step between.  Inputs: tile; stride, from output token to output token.
@ local stationary = use("plan/stationary")
@ local jobs = stationary.jobs(tile)
@ local ex = tile.exchange
@ for j = 0, tile.token_tiles - 1 do
@     for i = 0, tile.mtw - 1 do
*(float4 *)(mine + slot + ${j * ex.slot + i * ex.tile_bytes}) = c${j}_${i};
@     end
@ end
__syncthreads();
@ for round = 0, jobs.rounds - 1 do
@     local job = round == 0 and "first_job" or string.format("first_job + %du", round * jobs.round)
@     local guarded = (round + 1) * jobs.round > jobs.count
${guarded and string.format("if (%s < %du) {", job, jobs.count) or "{"}
    const mla_u32 job = ${job};
@     if tile.token_tiles > 1 then
    const char *part = theirs + slot + (job >> 2) * ${ex.slot}u + (job & 3u) * 16u;
    const mla_u32 token = t + 8u * (job >> 2) + 2u * (job & 3u);
@     else
    const char *part = theirs + slot + job * 16u;
    const mla_u32 token = t + 2u * job;
@     end
    float4 sum = *(const float4 *)part;
@     for k = 1, tile.warps_k - 1 do
    add4(sum, *(const float4 *)(part + ${k * ex.part}));
@     end
    char *y = y_lane + (mla_i64)token * ${stride};
    if (token < tokens)
        store4(y, pack2(sum.x, sum.z));
    if (token + 1 < tokens)
        store4(y + ${stride}, pack2(sum.y, sum.w));
}
@ end
slot = ${ex.half}u - slot;
