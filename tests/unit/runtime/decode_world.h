/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_world.h: a set with the three kernels of a decode step, in memory,
 * for heads and tiles of a test's choice, and a record of what is launched.
 */
#ifndef RUNTIME_DECODE_WORLD_H
#define RUNTIME_DECODE_WORLD_H

#include "fake_driver.h"

/* Fields in the order of the struct: p(ointer), l(ong), i(nt) or f(loat), an
 * `n` after it where NULL will do, and a multiple or alignment. */
struct world_field {
    const char *name;
    char type;
    int align, nullable;
};

#define WORLD_ROWS(tensor, align)                                              \
    {tensor "_batch_stride", 'l', align, 0},                                   \
        {tensor "_token_stride", 'l', align, 0},                               \
        {tensor "_head_stride", 'l', align, 0}

static const struct world_field world_plan[] = {
    {"seq_lens", 'p', 4, 0},      {"header", 'p', 4, 0},
    {"item_begin", 'p', 4, 0},    {"items", 'p', 16, 0},
    {"unit_slots", 'p', 4, 0},    {"item_capacity", 'i', 1, 0},
    {"slot_capacity", 'i', 1, 0}, {"batch", 'i', 1, 0},
    {"q_len", 'i', 1, 0},         {"rows_per_tile", 'i', 1, 0},
    {"keys_per_tile", 'i', 1, 0}, {"ctas", 'i', 1, 0},
    {"min_tiles", 'i', 1, 0},     {"split_tiles", 'i', 1, 0},
    {NULL, 0, 0, 0}};

static const struct world_field world_decode[] = {
    {"q", 'p', 16, 0},          WORLD_ROWS("q", 16),
    {"kv_cache", 'p', 16, 0},   {"page_stride", 'l', 16, 0},
    {"row_stride", 'l', 16, 0}, {"block_table", 'p', 4, 0},
    {"block_table_stride", 'l', 4, 0},
    {"header", 'p', 4, 0},      {"item_begin", 'p', 4, 0},
    {"items", 'p', 16, 0},      {"partial_o", 'p', 16, 0},
    {"partial_lse", 'p', 4, 0}, {"out", 'p', 16, 0},
    WORLD_ROWS("out", 16),      {"lse", 'p', 4, 1},
    WORLD_ROWS("lse", 4),       {"softmax_scale", 'f', 1, 0},
    {"batch", 'i', 1, 0},       {"q_len", 'i', 1, 0},
    {"ctas", 'i', 1, 0},        {NULL, 0, 0, 0}};

static const struct world_field world_combine[] = {
    {"header", 'p', 4, 0},        {"unit_slots", 'p', 4, 0},
    {"partial_o", 'p', 16, 0},    {"partial_lse", 'p', 4, 0},
    {"out", 'p', 32, 0}, /* wider than mqa_decode's, for a late refusal */
    WORLD_ROWS("out", 8),         {"lse", 'p', 4, 1},
    WORLD_ROWS("lse", 4),         {"batch", 'i', 1, 0},
    {"q_len", 'i', 1, 0},         {"rows_per_tile", 'i', 1, 0},
    {NULL, 0, 0, 0}};

struct world_tile {
    const char *variant, *arch;
    int m, n, max_rows, min_ctas;
};

/* What a test's set is made of; heads 0 ends the tiles. */
struct world_spec {
    int heads, latent, rope, page_size;
    const struct world_tile *tiles;
    int tile_count, cluster; /* blocks along x; 0: none */
    const char *extra;     /* one more argument of mqa_decode, an int */
    const char *without;   /* family that is left out */
    const char *work_list; /* instead of the right one */
};

static const char world_work_list[] =
    "\"work_list\": {\"header_ints\": 8, \"item_ints\": 8, \"cut_items\": 1, "
    "\"first_cut_slots\": 2, \"cut_slots\": 1, \"items_at\": 0, "
    "\"slots_at\": 1, \"status_at\": 2, \"item_overflow\": 1, "
    "\"slot_overflow\": 2, \"short_request\": 4}";

/* Text of the set; grows at its end. */
static char world_text[65536];
static size_t world_used;

#define PUT(...)                                                               \
    (world_used += (size_t)snprintf(world_text + world_used,                   \
                                    sizeof(world_text) - world_used,           \
                                    __VA_ARGS__))

static size_t world_bytes(char type)
{
    return type == 'p' || type == 'l' ? 8 : 4;
}

/* Where the field stands in the struct, and the struct's size for NULL. */
static size_t world_offset(const struct world_field *fields, const char *name)
{
    size_t at = 0, bytes;
    for (; fields->name; fields++) {
        bytes = world_bytes(fields->type);
        at = (at + bytes - 1) / bytes * bytes;
        if (name && strcmp(fields->name, name) == 0)
            return at;
        at += bytes;
    }
    return (at + 7) / 8 * 8;
}

static void put_fields(const struct world_field *fields, const char *extra)
{
    static const char *const types[] = {"ptr", "i64", "i32", "f32"};
    size_t size = world_offset(fields, NULL);

    PUT("\"args\": {\"struct\": \"s\", \"size\": %zu, \"fields\": [",
        size + (extra ? 8 : 0));
    for (const struct world_field *f = fields; f->name; f++)
        PUT("%s{\"name\": \"%s\", \"type\": \"%s\", \"access\": \"in\", "
            "\"%s\": %d, \"null\": %s, \"offset\": %zu}",
            f == fields ? "" : ",\n", f->name,
            types[strchr("plif", f->type) - "plif"],
            f->type == 'p' ? "align" : "multiple", f->align,
            f->nullable ? "true" : "false", world_offset(fields, f->name));
    if (extra)
        PUT(",{\"name\": \"%s\", \"type\": \"i32\", \"offset\": %zu}", extra,
            size);
    PUT("]}");
}

/* One kernel; grid is the text of axis x's factors. */
static void put_kernel(const struct world_spec *s, const char *family,
                       const struct world_tile *tile,
                       const struct world_field *fields, const char *grid)
{
    const char *variant = tile ? tile->variant : "";
    const char *arch = tile ? tile->arch : "sm_80";

    if (s->without && strcmp(s->without, family) == 0)
        return;
    PUT("%s\n{\"family\": \"%s\", \"variant\": \"%s\", \"symbol\": "
        "\"%s%s_%s\", \"arch\": \"%s\", \"dtype\": \"bf16\", \"heads\": %d, "
        "\"page_size\": %d, \"source\": \"src/k.cu\", \"dims\": {\"rope\": "
        "%d, \"latent\": %d},\n",
        world_text[world_used - 1] == '[' ? "" : ",", family, variant, family,
        variant, arch, arch, s->heads, s->page_size, s->rope, s->latent);
    put_fields(fields, tile ? s->extra : NULL);
    PUT(",\n\"launch\": {");
    if (tile && s->cluster)
        PUT("\"cluster\": {\"x\": %d, \"y\": 1, \"z\": 1}, ", s->cluster);
    PUT("\"block\": [128, 1, 1], \"min_ctas\": %d, "
        "\"smem_dynamic\": 0, \"grid\": [{\"factors\": [%s], \"max\": "
        "2147483647}, {\"factors\": [{\"const\": 1}], \"max\": 1}, "
        "{\"factors\": [{\"const\": 1}], \"max\": 1}]},\n",
        tile ? tile->min_ctas : 1, grid);
    if (tile)
        PUT("\"tile\": {\"m\": %d, \"n\": %d, \"max_rows\": %d},", tile->m,
            tile->n, tile->max_rows);
    else if (fields == world_plan)
        PUT("\"tile\": {%s},", s->work_list ? s->work_list : world_work_list);
    PUT("\"build\": null}");
}

static const char *world_manifest(const struct world_spec *s)
{
    char hash[MLA__SHA256_HEX + 1];

    mla__sha256_hex("", 0, hash);
    world_used = 0;
    PUT("{\"format\": 1, \"model\": \"world\", \"files\": [{\"path\": "
        "\"src/k.cu\", \"bytes\": 0, \"sha256\": \"%s\"}], \"kernels\": [",
        hash);
    put_kernel(s, "decode_plan", NULL, world_plan,
               "{\"arg\": \"batch\", \"per\": 2147483647}");
    for (int i = 0; i < s->tile_count; i++)
        put_kernel(s, "mqa_decode", &s->tiles[i], world_decode,
                   "{\"arg\": \"batch\", \"per\": 2147483647}, {\"arg\": "
                   "\"ctas\", \"per\": 1}");
    put_kernel(s, "mqa_combine", NULL, world_combine,
               "{\"arg\": \"batch\", \"per\": 1}, {\"arg\": \"q_len\", "
               "\"per\": 1}");
    PUT("]}\n");
    return world_text;
}

/* Launches in order, with their argument blocks. */
struct world_launch {
    unsigned grid;
    void *stream;
    unsigned char block[512];
};
static struct world_launch world_launched[8];
static int world_launches;

static int world_on_launch(const struct fake_launch *launch)
{
    struct world_launch *l = &world_launched[world_launches++ % 8];
    l->grid = launch->grid[0];
    l->stream = launch->stream;
    memcpy(l->block, launch->args, sizeof(l->block) / 2);
    return 0;
}

/* An argument of the i-th launch since the record was cleared. */
__attribute__((unused)) static int64_t
world_arg(int i, const struct world_field *fields, const char *name)
{
    const unsigned char *at =
        world_launched[i].block + world_offset(fields, name);
    int64_t wide = 0;
    int32_t narrow;

    for (const struct world_field *f = fields; f->name; f++)
        if (strcmp(f->name, name) == 0 && world_bytes(f->type) == 8) {
            memcpy(&wide, at, 8);
            return wide;
        }
    memcpy(&narrow, at, 4);
    return narrow;
}

/* A set whose kernels are on the device already, or not. */
static mla_kernels *world_load(mla_context *ctx, const struct world_spec *s,
                               bool ready)
{
    static mla_file file;
    static int anything;
    mla_kernels *set;

    file = (mla_file){"manifest.json", world_manifest(s), world_used};
    if (mla_load_files(ctx, "world", &file, 1, &set))
        return NULL;
    for (int i = 0; i < set->count && ready; i++)
        set->kernel[i].function = &anything;
    fake.on_launch = world_on_launch;
    world_launches = 0;
    return set;
}

#endif
