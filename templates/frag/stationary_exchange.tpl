@ -- SPDX-License-Identifier: Apache-2.0
@ -- Adds the partial sums of the warps along k, in the order of k, and stores the step.
@ -- A warp leaves its fragments as they are, 16 bytes per lane; a reader takes the same
@ -- fragment of all warps: two neighbouring columns of two tokens.  Two buffers, so that one
@ -- barrier per step is enough: before a buffer is written again, everyone has passed the
@ -- barrier of the step between.  Inputs: tile; stride, from output token to output token; scaled,
@ -- by factor<token>.
@ local stationary = use("plan/stationary")
@ local jobs = stationary.jobs(tile)
@ local ex = tile.exchange
@ local function plus(n, unit)
@     return n > 0 and string.format(" + %d%s", n, unit) or ""
@ end
@ for j = 0, tile.token_tiles - 1 do
@     for i = 0, tile.mtw - 1 do
*(float4 *)(exchange + buffer + mine${plus(j * ex.slot + i * ex.tile_bytes, "")}) = c${j}_${i};
@     end
@ end
__syncthreads();
@ for round = 0, jobs.rounds - 1 do
@     local skipped = round * jobs.round
@     local guarded = (round + 1) * jobs.round > jobs.count
@     local row = skipped == 0 and "y" or string.format("y + %d * %s", 2 * skipped, stride)
@     local next = skipped == 0 and "y + " .. stride
@         or string.format("y + %d * %s", 2 * skipped + 1, stride)
@     local token = "t + pair" .. plus(2 * skipped, "u")
@     local even = scaled and " * factor" .. 2 * skipped or ""
@     local odd = scaled and " * factor" .. 2 * skipped + 1 or ""
${guarded and string.format("if (first_job%s < %du) {", plus(skipped, "u"), jobs.count) or "{"}
@     if jobs.step_bytes then
    const char *sums = exchange + buffer + theirs${plus(round * jobs.step_bytes, "")};
@     else
    const mla_u32 job = first_job${plus(skipped, "u")};
    const char *sums = exchange + buffer + theirs + 16u * (job & 3u) + ${ex.slot}u * (job >> 2);
@     end
    float4 sum = *(const float4 *)sums;
@     for k = 1, tile.warps_k - 1 do
    add4(sum, *(const float4 *)(sums + ${k * ex.part}));
@     end
    if (${token} < tokens)
        store4(${row}, pack2(sum.x${even}, sum.z${even}));
    if (${token} + 1u < tokens)
        store4(${next}, pack2(sum.y${odd}, sum.w${odd}));
}
@ end
buffer = ${ex.half}u - buffer;
