@ -- SPDX-License-Identifier: Apache-2.0
@ -- absorb_v: out = o * W_UV, W stationary in registers.  Both variants: W_UV as rows of
@ -- kv_b_proj, or as a derived w_vc.  Inputs: plan (plan/absorb_v.lua), meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local ldg, mma = use("frag/ldg"), use("frag/mma")
@ local stationary = use("plan/stationary")
@ local tile, dims = plan.tile, plan.dims
@ assert(tile.k == dims.latent and tile.n == dims.v)
@ assert(tile.layout == (plan.variant == "hrv" and "kn" or "nk"))
@ local where = plan.variant == "hrv" and "W_UV[h] is w_vc[h], [latent][v]."
@     or string.format("W_UV[h] is rows %d to %d of head h of kv_b_proj, read where they lie.",
@         dims.nope, dims.nope + dims.v - 1)
@ local purpose = "absorb_v: output of the latent path at the width of v.  out[t][h] = o[t][h] * "
@     .. "W_UV[h]; " .. where
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = stationary.vectors(tile)})}

${ldg.text(stationary.accesses(tile))}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true}})}

${mma.first_text(plan.dtype)}
@ if #stationary.products(tile) > 1 then

${mma.text(plan.dtype)}
@ end

${include("frag/pin.tpl", {want = {u32 = true, i64 = true, pointer = true}})}
@ if tile.layout == "kn" then

${mma.pair_rows_text()}
@ end
@ if tile.warps_k > 1 then

${mma.add_text()}
@ end

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    ${include("frag/stationary_lanes.tpl", {tile = tile})}
@ if plan.launch.pdl then
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
@ end

    ${include("frag/stationary_weights.tpl", {tile = tile, weights = tile.weights, first_row = tile.first_row})}
@ if plan.launch.pdl then

    // W is older than the kernel before this one; all that follows may be its result.
    asm volatile("griddepcontrol.wait;" ::: "memory");
@ end

    // Token rows of the first step.
    ${include("frag/stationary_first_rows.tpl", {tile = tile, x = "o"})}
@ if tile.layout == "kn" then

    // Fragments of W: neighbours in k side by side.
    ${include("frag/stationary_pair.tpl", {tile = tile, late = ""})}
@ end

    ${include("frag/stationary_loop.tpl", {tile = tile, x = "o", y = "out", scaled = false})}
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
