@ -- SPDX-License-Identifier: Apache-2.0
@ -- absorb_q: q = [q_nope * W_UK | RoPE(q_rope)], one pass, W stationary in registers.
@ -- Inputs: plan (plan/absorb_q.lua), spec, meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local ldg, mma = use("frag/ldg"), use("frag/mma")
@ local stationary = use("plan/stationary")
@ local tile, dims = plan.tile, plan.dims
@ assert(tile.layout == "kn" and tile.k == dims.nope and tile.n == dims.latent)
@ assert((tile.rope == null) == (dims.rope == 0))
@ local rotates = dims.rope > 0 and tile.rope.style ~= "none"
@ local scaled = spec.q_position_scale ~= null
@ assert(rotates or not scaled, "absorb_q: a factor by position needs positions")
@ local vectors = stationary.vectors(tile, dims.rope > 0 and tile.rope.style or nil)
@ local purpose = "absorb_q: queries of the latent path.  Row [t][h] of q = "
@     .. (dims.rope == 0 and "q_nope[t][h] * W_UK[h]"
@         or rotates and "[q_nope[t][h] * W_UK[h] | RoPE(q_rope[t][h])]"
@         or "[q_nope[t][h] * W_UK[h] | q_rope[t][h]]")
@     .. string.format("; W_UK[h] is the first %d rows of head h of kv_b_proj, read where they lie.",
@         dims.nope)
@     .. (scaled and "  Rows are multiplied by a factor that grows with the position." or "")
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = vectors})}

${ldg.text(stationary.accesses(tile))}

${include("frag/convert.tpl", {dtype = plan.dtype, want = {pack = true, unpack = rotates}})}

${mma.first_text(plan.dtype)}
@ if #stationary.products(tile) > 1 then

${mma.text(plan.dtype)}
@ end

${include("frag/pin.tpl", {want = {u32 = true, i64 = true, pointer = true}})}

${mma.pair_rows_text()}
@ if tile.warps_k > 1 then

${mma.add_text()}
@ end
@ if rotates then

${include("frag/rope.tpl", {style = tile.rope.style, width = dims.rope})}
@ end
@ if scaled then

${include("frag/position_factor.tpl", {scale = spec.q_position_scale})}
@ end

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    ${include("frag/stationary_lanes.tpl", {tile = tile})}
@ if plan.launch.pdl then
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
@ end

    ${include("frag/stationary_weights.tpl", {tile = tile, weights = "kv_b", first_row = 0})}
@ if plan.launch.pdl then

    // W is older than the kernel before this one; all that follows may be its result.
    asm volatile("griddepcontrol.wait;" ::: "memory");
@ end

    // Token rows of the first step.
    ${include("frag/stationary_first_rows.tpl", {tile = tile, x = "q_nope"})}
@ if dims.rope > 0 then

    ${include("frag/absorb_rope.tpl", {map = tile.rope, dims = dims, threads = tile.threads, scaled = scaled})}
@ end

    // Fragments of W: neighbours in k side by side.
    ${include("frag/stationary_pair.tpl", {tile = tile, late = dims.rope > 0 and "late" or ""})}

    ${include("frag/stationary_loop.tpl", {tile = tile, x = "q_nope", y = "q", scaled = scaled})}
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
