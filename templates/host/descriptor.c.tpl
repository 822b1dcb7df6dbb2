@ -- SPDX-License-Identifier: Apache-2.0
@ -- The descriptor table of a model and its cos/sin table, C99.  Inputs: spec, plans, meta.
@ local header, rope, launch = use("lib/header"), use("lib/rope"), use("lib/launch")
@ local ident, upper = spec.derived.ident, header.upper(spec)
@ local prefix = meta.symbol_prefix
@ local angles = rope.angles(spec)
@ local structs = header.structs(plans)
@ local purpose = "Descriptors of the kernels of " .. spec.model .. "; see the header."
${header.head(meta, purpose)}
#include "${spec.model}.h"

@ if angles and angles.short then
#include <math.h>
@ end
#include <stddef.h>

/* The compiler lays every struct out as the kernels were built to read it. */
#define MLA_CHECK(id, condition) typedef char mla_check_##id[(condition) ? 1 : -1]
#define MLA_OFFSET(s, f, at) MLA_CHECK(s##_##f, offsetof(struct s, f) == (at))
@ for _, s in ipairs(structs) do

MLA_CHECK(${s.args.struct}, sizeof(struct ${s.args.struct}) == ${s.args.size});
@     for _, f in ipairs(s.args.fields) do
MLA_OFFSET(${s.args.struct}, ${f.name}, ${f.offset});
@     end
@ end

#define MLA_AT(s, f) ((int32_t)offsetof(struct s, f))
#define MLA_ARG(s, f, type, elem, access, multiple, nullable) \
    {#f, type, elem, access, MLA_AT(s, f), multiple, nullable}
@ for _, s in ipairs(structs) do

static const struct mla_emitted_arg args_of_${s.args.struct}[] = {
@     for _, f in ipairs(s.args.fields) do
@         local multiple = f.align or f.multiple or 1
    MLA_ARG(${s.args.struct}, ${f.name},
            "${f.type}", "${f.elem or ""}", "${f.access or ""}", ${multiple}, ${f.null and 1 or 0}),
@     end
};
@ end

@ for _, plan in ipairs(plans) do
@     local raw = plan.launch.tensor_maps
@     if raw then

static const struct mla_emitted_map
    maps_of_${plan.symbol}[] = {
@         for i, m in ipairs(launch.tensor_maps(plan)) do
    {
        .name = "${m.name}",
        .pointer = MLA_AT(${plan.args.struct}, ${m.pointer}),
        .back = ${m.back},
        .type = ${m.type},
        .rank = ${m.rank},
        .sizes = {
            ${header.products(raw[i].dims, plan.args.struct)},
        },
        .strides = {
            ${header.products(raw[i].strides, plan.args.struct)},
        },
        .box = {${m.box}},
        .swizzle = ${m.swizzle},
        .promotion = ${m.promotion},
    },
@         end
};
@     end
@ end

const struct mla_emitted_kernel ${prefix}mla_${ident}_kernels[] = {
@ for _, plan in ipairs(plans) do
@     local b, struct = plan.launch.block, plan.args.struct
    {
        .symbol = "${plan.symbol}",
        .family = "${plan.family}",
        .variant = "${plan.variant}",
        .arch = "${plan.arch}",
        .dtype = "${plan.dtype}",
        .source = "${plan.source}",
        .cubin = "cubin/${plan.symbol}.cubin",
        .heads = ${plan.heads},
        .page_size = ${plan.page_size},
        .tile_m = ${plan.tile.m or 0},
        .tile_n = ${plan.tile.n or 0},
        .block = {${b[1]}, ${b[2]}, ${b[3]}},
        .smem_dynamic = ${plan.launch.smem_dynamic},
        .pdl = ${plan.launch.pdl and 1 or 0},
@     local cluster = plan.launch.cluster
        .cluster = {${cluster and string.format("%d, %d, %d", cluster.x, cluster.y, cluster.z) or "0, 0, 0"}},
        .grid =
            {
@     for _, axis in ipairs(plan.launch.grid) do
                ${header.axis(axis, struct)},
@     end
            },
@     local maps = plan.launch.tensor_maps
        .maps = ${maps and "maps_of_" .. plan.symbol or "0"},
        .map_count = ${maps and #maps or 0},
        .args = args_of_${struct},
        .arg_count = ${#plan.args.fields},
        .args_size = ${plan.args.size},
    },
@ end
};

const int32_t ${prefix}mla_${ident}_kernel_count = ${#plans};
@ if angles and angles.short then

/* Inverse frequencies: how far a pair turns from one position to the next, in radians. */
static const double inverse_frequencies[] = {
    ${header.numbers(angles.short, 4)}
};
@     if angles.long then

/* The same beyond the original context. */
static const double long_inverse_frequencies[] = {
    ${header.numbers(angles.long, 4)}
};
@     end

int ${prefix}mla_${ident}_rope_table(float *table, long long rows, long long first_position,
    int long_context)
{
    enum { PAIRS = ${spec.qk_rope_head_dim // 2} };
    const double magnitude = ${header.number(angles.magnitude)};
@     if angles.long then
    const double *frequencies = long_context ? long_inverse_frequencies : inverse_frequencies;
@     else
    const double *frequencies = inverse_frequencies;
@     end
    long long row;
    int i;

@     if not angles.long then
    (void)long_context;
@     end
    if (!table || rows < 0 || first_position < 0)
        return -1;
    for (row = 0; row < rows; row++) {
        for (i = 0; i < PAIRS; i++) {
            const double angle = (double)(first_position + row) * frequencies[i];

            table[i] = (float)(cos(angle) * magnitude);
            table[PAIRS + i] = (float)(sin(angle) * magnitude);
        }
        table += 2 * PAIRS;
    }
    return 0;
}
@ elseif angles then

int ${prefix}mla_${ident}_rope_table(float *table, long long rows, long long first_position,
    int long_context)
{
    (void)table;
    (void)rows;
    (void)first_position;
    (void)long_context;
    return -2;
}
@ end
