-- SPDX-License-Identifier: Apache-2.0
-- peers.lua: published figures of other kernels, by their authors and users, on their
-- machines, to be drawn beside ours.
--
-- Each is one measurement: where it stands, on which architecture, on what work, and
-- either TFLOP/s or GB/s.  All are bf16 or fp16 at DeepSeek-V3's widths (decode 576 /
-- 512, prefill 192 / 128); what was measured in fp8 or at other widths is not here.
-- Three sources do not name their work: both of FlashMLA's READMEs (taken are 16 heads
-- where bytes bound it, 128 elsewhere) and FlashMLA#66 (128 heads).

local M = {}

local function decode(name, arch, heads, q_len, seq_len, figure)
    return {
        name = name, arch = arch, kind = "decode", heads = heads, q_len = q_len,
        seq_len = seq_len, tflops = figure.tflops, gbs = figure.gbs,
    }
end

local function prefill(name, arch, heads, seq_len, tflops)
    return {
        name = name, arch = arch, kind = "prefill", heads = heads, q_len = seq_len,
        seq_len = seq_len, tflops = tflops,
    }
end

M.figures = {
    decode("FlashMLA, H800 (README)", "sm_90", 128, 2, 32768, { tflops = 660 }),
    decode("FlashMLA, H800, memory-bound (README)", "sm_90", 16, 1, 4096, { gbs = 3000 }),
    decode("TileLang, H100 (README)", "sm_90", 128, 1, 8192, { tflops = 469 }),
    decode("FlashInfer, H100 (TileLang README)", "sm_90", 128, 1, 8192, { tflops = 370 }),
    decode("ThunderMLA, H100 (README)", "sm_90", 16, 4, 4096, { tflops = 358 }),
    decode("FA4 MLA, B200 (flash-attention#2441)", "sm_100", 128, 1, 16384, { tflops = 1180.7 }),
    decode("CUTLASS MLA, B200 (sglang#6929)", "sm_100", 128, 1, 8192, { gbs = 4124 }),
    decode("FlashMLA port, A100 (FlashMLA#66)", "sm_80", 128, 1, 4096, { tflops = 146 }),
    decode("FlashInfer, RTX 4090 (flashinfer#551)", "sm_89", 8, 1, 16384, { gbs = 944 }),
    prefill("FA4 192/128, H100 (pith-train#3)", "sm_90", 16, 16384, 634),
    prefill("TileLang 192/128, H100 (pith-train#3)", "sm_90", 16, 16384, 544),
    prefill("FlashMLA MHA, B200 (README)", "sm_100", 128, 8192, 1460),
    prefill("FA4 192/128, B200 (flash-attention#135)", "sm_100", 16, 4096, 1441),
}

-- Operations and bytes of one request.
local function work(f)
    if f.kind == "decode" then
        local flops = 2 * f.heads * f.q_len * f.seq_len * (576 + 512)
        return flops, 2 * (576 * f.seq_len + f.heads * f.q_len * (576 + 512))
    end
    local flops = f.heads * f.seq_len * (f.seq_len + 1) * (192 + 128)
    return flops, 2 * f.seq_len * (f.heads * (192 + 128 + 128 + 128) + 64)
end

-- Those of an architecture (sm_90a counts as sm_90) that a model's widths let stand
-- beside its kernels: { name, intensity (operations per byte), tflops }.
function M.of(arch, dims)
    local base = string.match(arch, "^sm_%d+")
    local out = {}
    for _, f in ipairs(M.figures) do
        local flops, bytes = work(f)
        local fits = f.kind == "decode" and dims.latent == 512 and dims.rope == 64
            or f.kind == "prefill" and dims.nope + dims.rope == 192 and dims.v == 128
        if f.arch == base and fits then
            local intensity = flops / bytes
            out[#out + 1] = {
                name = f.name, intensity = intensity,
                tflops = f.tflops or f.gbs * intensity / 1000,
            }
        end
    end
    return out
end

return M
