-- SPDX-License-Identifier: Apache-2.0
-- families.lua: the kernel families, in the order in which they are generated.
--
-- A family whose variants have little in common has an entry for each kind.
--
-- plan      module whose plans(spec, arch, heads) returns zero or more plans
-- template  what renders each of them
-- variants  every variant the plan module can return
-- once      the kernel is the same at every head count: planned for the first one

return {
    {
        family = "kv_append", variants = { "" },
        plan = "plan/kv_append", template = "kernel/kv_append.cu.tpl",
    },
    {
        family = "kv_gather", variants = { "" },
        plan = "plan/kv_gather", template = "kernel/kv_gather.cu.tpl",
    },
    {
        family = "concat_mla_k", variants = { "" },
        plan = "plan/concat_mla_k", template = "kernel/concat_mla_k.cu.tpl",
    },
    {
        family = "derive_weights", variants = { "" },
        plan = "plan/derive_weights", template = "kernel/derive_weights.cu.tpl",
    },
    {
        family = "absorb_q", variants = { "" },
        plan = "plan/absorb_q", template = "kernel/absorb_q.cu.tpl",
    },
    {
        family = "absorb_v", variants = { "", "hrv" },
        plan = "plan/absorb_v", template = "kernel/absorb_v.cu.tpl",
    },
    {
        family = "merge_state", variants = { "", "latent" },
        plan = "plan/merge_state", template = "kernel/merge_state.cu.tpl",
    },
    {
        family = "merge_state", variants = { "n", "n_latent" },
        plan = "plan/merge_state_n", template = "kernel/merge_state_n.cu.tpl",
    },
    {
        family = "kv_b", variants = { "" },
        plan = "plan/kv_b", template = "kernel/kv_b.cu.tpl",
    },
    {
        family = "gemm", variants = { "" }, once = true,
        plan = "plan/gemm", template = "kernel/gemm.cu.tpl",
    },
    {
        family = "rms_norm", variants = { "" }, once = true,
        plan = "plan/rms_norm", template = "kernel/rms_norm.cu.tpl",
    },
    {
        family = "rope_q", variants = { "" }, once = true,
        plan = "plan/rope_q", template = "kernel/rope_q.cu.tpl",
    },
    {
        family = "mha", variants = { "", "concat" },
        plan = "plan/mha", template = "kernel/mha.cu.tpl",
    },
    {
        family = "decode_plan", variants = { "" },
        plan = "plan/decode_plan", template = "kernel/decode_plan.cu.tpl",
    },
    {
        family = "mqa_decode", variants = { "m16", "m32", "m64", "m128" },
        plan = "plan/mqa_decode", template = "kernel/mqa_decode.cu.tpl",
    },
    {
        family = "mqa_combine", variants = { "" },
        plan = "plan/mqa_combine", template = "kernel/mqa_combine.cu.tpl",
    },
}
