@ -- SPDX-License-Identifier: Apache-2.0
@ -- derive_weights: one 64 x 64 tile of W_UK or W_UV per block, as is or transposed.  Inputs:
@ -- plan (plan/derive_weights), meta.
@ local args, emit = use("lib/args"), use("lib/emit")
@ local t, d = plan.tile, plan.dims
@ assert(t.rows == 64 and t.columns == 64 and emit.threads(plan) == 128, "derive_weights: tile")
@ assert(t.passes * t.rows_per_pass == t.rows)
@ local whole_rows = d.nope % t.rows == 0 and d.v % t.rows == 0
@ local whole_columns = d.latent % t.columns == 0
@ -- A pass covers 16 rows and the row counts are multiples of 16: a pass is in or out as a whole.
@ local function load_guard(i)
@     local tests = {}
@     if not whole_rows and i > 0 then
@         tests[#tests + 1] = "first + " .. i * t.rows_per_pass .. " < rows"
@     end
@     if not whole_columns then
@         tests[#tests + 1] = "column < " .. d.latent
@     end
@     return table.concat(tests, " && ")
@ end
@ local function choose(test, yes, no)
@     return yes == no and tostring(yes) or test .. " ? " .. yes .. " : " .. no
@ end
@ -- s_tile[index of vector `vector` of row position `at` + shift]
@ local function smem(at, shift, vector)
@     local row = shift > 0 and "(" .. at .. " + " .. shift .. ")" or at
@     return "s_tile[" .. row .. " * " .. t.pitch .. " + " .. vector .. "]"
@ end
@ local purpose = "derive_weights: kv_b_proj [H * (DN + DV), R] to w_kc and w_vc, per head, "
@     .. "each as it lies or transposed."
${emit.head(plan, meta, purpose)}
${emit.open(plan)}

${include("frag/types.tpl")}

${include("frag/memory.tpl", {want = {load_stream = true, store = true}})}

${include("frag/ldmatrix.tpl", {trans = true})}

${args.kernel_struct(plan.args)}

${emit.signature(plan)}
{
    // 64 rows of 128 bytes, padded by 16 so that eight rows below each other hit all banks.
    __shared__ mla_v4 s_tile[${t.rows * t.pitch}];
    const mla_u32 head = blockIdx.y;
    const bool is_v = blockIdx.z >= ${t.k_tiles};
    const mla_u32 first = (is_v ? blockIdx.z - ${t.k_tiles} : blockIdx.z) * 64;
@ if not whole_rows then
    const mla_u32 rows = ${choose("is_v", d.v, d.nope)};
@ end
    char *out = (char *)(is_v ? a.w_vc : a.w_kc);
    if (!out)
        return;
    out += head * (is_v ? a.w_vc_head_stride : a.w_kc_head_stride);
    const mla_i64 out_stride = is_v ? a.w_vc_row_stride : a.w_kc_row_stride;
    const bool transposed = (is_v ? a.w_vc_transposed : a.w_kc_transposed) != 0;
    ${include("frag/pdl.tpl", {pdl = plan.launch.pdl})}

    // Loads: eight threads per row of 128 bytes, ${t.rows_per_pass} rows per pass.
    const mla_u32 vector = threadIdx.x % 8;
    const mla_u32 row = threadIdx.x / 8;
    const mla_u32 column = blockIdx.x * 64 + vector * 8;
    const mla_u32 source_row = head * ${d.nope + d.v} + (is_v ? ${d.nope} : 0) + first + row;
    const char *source = (const char *)a.kv_b + source_row * a.kv_b_row_stride + column * 2;
@ for i = 0, t.passes - 1 do
@     local test = load_guard(i)
@     local from = emit.at("source", i * t.rows_per_pass, "a.kv_b_row_stride")
@     if test ~= "" then
    mla_v4 v${i} = {0, 0, 0, 0};
    if (${test})
        v${i} = load_stream16(${from});
@     else
    const mla_v4 v${i} = load_stream16(${from});
@     end
@ end

    // The layout stays: rows out as they came.
    if (!transposed) {
        out += (first + row) * out_stride + column * 2;
@ for i = 0, t.passes - 1 do
@     local test = load_guard(i)
@     local to = emit.at("out", i * t.rows_per_pass, "out_stride")
@     if test ~= "" then
        if (${test})
            store16(${to}, v${i});
@     else
        store16(${to}, v${i});
@     end
@ end
        return;
    }

    // Row 8q + 2j + b of 32 goes to position 8j + 2q + b: matrix j, its row 2q + b.
    const mla_u32 position = row / 2 % 4 * 8 + row / 8 * 2 + row % 2;
@ for i = 0, t.passes - 1 do
@     -- Pass i holds rows 16i .. 16i + 15: q is 2(i % 2) higher, the group of 32 is i / 2.
@     local shift = i // 2 * 32 + i % 2 * 4
    ${smem("position", shift, "vector")} = v${i};
@ end
    __syncthreads();

    // Register j of a lane is now rows 8q + 2j and 8q + 2j + 1 of one column: q = lane % 4.
    const mla_u32 lane = threadIdx.x % 32;
    const mla_u32 warp = threadIdx.x / 32;
    const mla_u32 out_column = first + lane % 4 * 8;
    const mla_u32 out_row = blockIdx.x * 64 + warp * 16 + lane / 4;
    out += out_row * out_stride + out_column * 2;
@ for block = 0, 1 do
@     for group = 0, 1 do
@         local from = smem("lane", group * 32, "warp * 2" .. (block > 0 and " + 1" or ""))
    const mla_v4 t${block}${group} = load_matrix_trans(&${from});
@     end
@ end
@ for block = 0, 1 do
@     for group = 0, 1 do
@         local tests = {}
@         if not whole_rows then
@             tests[#tests + 1] = emit.at("out_column", 0, "", group * 32) .. " < rows"
@         end
@         if not whole_columns then
@             tests[#tests + 1] = emit.at("out_row", 0, "", block * 8) .. " < " .. d.latent
@         end
@         local test = table.concat(tests, " && ")
@         local to = emit.at("out", block * 8, "out_stride", group * 64)
@         if test ~= "" then
    if (${test})
        store16(${to}, t${block}${group});
@         else
    store16(${to}, t${block}${group});
@         end
@     end
@ end
}

${include("host/launcher.tpl", {plan = plan})}

${emit.close(plan)}
