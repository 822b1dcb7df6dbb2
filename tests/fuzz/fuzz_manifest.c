/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_manifest.c: any bytes as manifest.json, on a driver that does nothing.
 *
 * The library reads it, or says in one text what is wrong and where.  What it
 * accepts it can be asked about, launched with any arguments, and decoded
 * with; whatever reaches the driver is within CUDA's limits.
 */
#include "fake_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition))                                                      \
            abort();                                                           \
    } while (0)

/* ---- what reaches the driver --------------------------------------------- */

/* Limits of the CUDA C++ Programming Guide, compute capabilities.  A kernel's
 * function is the kernel itself; all parameters can be read. */
static int check_launch(void *function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned smem, void *stream,
                        void **params, void **extra) {
    const mla_kernel *k = function;
    unsigned char copy[4096];
    (void)stream, (void)extra, (void)smem;
    REQUIRE(grid_x >= 1 && grid_x <= 0x7fffffff);
    REQUIRE(grid_y >= 1 && grid_y <= 65535);
    REQUIRE(grid_z >= 1 && grid_z <= 65535);
    REQUIRE(block_x >= 1 && block_y >= 1 && block_z >= 1);
    REQUIRE((uint64_t)block_x * block_y * block_z <= 1024);
    REQUIRE(k->args_size <= sizeof copy);
    memcpy(copy, params[0], k->args_size);
    for (int i = 0; i < k->map_count; i++)
        memcpy(copy, params[1 + i], 128);
    return 0;
}

/* The same for a launch in clusters. */
static int check_launch_ex(const struct mla__launch_config *c, void *function,
                           void **params, void **extra) {
    for (unsigned i = 0; i < c->count; i++)
        if (c->attributes[i].id == MLA__LAUNCH_CLUSTER)
            for (int axis = 0; axis < 3; axis++)
                REQUIRE(c->attributes[i].value.cluster[axis] >= 1);
    return check_launch(function, c->grid[0], c->grid[1], c->grid[2],
                        c->block[0], c->block[1], c->block[2], c->smem,
                        c->stream, params, extra);
}

/* Bounds of cuTensorMapEncodeTiled. */
static int check_map(void *out, int type, unsigned rank, void *address,
                     const uint64_t *dims, const uint64_t *strides,
                     const uint32_t *box, const uint32_t *steps, int interleave,
                     int swizzle, int promotion, int fill) {
    (void)type, (void)address, (void)interleave, (void)swizzle;
    (void)promotion, (void)fill;
    REQUIRE(rank >= 1 && rank <= 5);
    for (unsigned i = 0; i < rank; i++) {
        REQUIRE(dims[i] >= 1 && dims[i] <= (uint64_t)1 << 32);
        REQUIRE(box[i] >= 1 && box[i] <= 256 && steps[i] == 1);
    }
    for (unsigned i = 0; i + 1 < rank; i++)
        REQUIRE(strides[i] < (uint64_t)1 << 40 && strides[i] % 16 == 0);
    memset(out, 0, 128);
    return 0;
}

/* A Hopper whose driver checks and does nothing. */
static mla_context *open_context(void) {
    mla_context *ctx = fake_context(NULL);
    REQUIRE(ctx);
    fake.major = 9; /* runs most architectures */
    ctx->driver.launch = check_launch;
    ctx->driver.launch_ex = check_launch_ex;
    ctx->driver.encode_tiled = check_map;
    return ctx;
}

/* ---- asking about what was accepted -------------------------------------- */

/* A field lies inside the struct and has a sane alignment. */
static void check_field(const mla_kernel_info *k, const mla_field_info *f) {
    size_t bytes = f->type == MLA_PTR || f->type == MLA_I64 ? 8 : 4;
    REQUIRE(f->name && f->elem && f->doc);
    REQUIRE(f->offset + bytes <= k->args_size && f->offset % bytes == 0);
    REQUIRE(f->align >= 1 && (f->align & (f->align - 1)) == 0);
    REQUIRE(f->multiple >= 1 && (f->multiple & (f->multiple - 1)) == 0);
}

/* Sets everything to a multiple of `unit`, or to what it can be. */
static void set_field(mla_args *args, const mla_field_info *f, int64_t unit) {
    mla_status status = MLA_OK;
    if (f->type == MLA_PTR)
        status = mla_args_set_ptr(args, f->name, (uint64_t)unit * 4096);
    else if (f->type == MLA_F32)
        status = mla_args_set_float(args, f->name, 0.5);
    else
        status = mla_args_set_int(args, f->name,
                                  f->type == MLA_I32 && unit > 1 << 30
                                      ? 0x7fffffff
                                      : unit * f->multiple);
    REQUIRE(status == MLA_OK || status == MLA_RANGE);
}

/* The launch may be refused, but not for an argument that has no value. */
static void launch(mla_kernel *k, const mla_kernel_info *info, int64_t unit) {
    mla_args *args;
    k->function = k;
    REQUIRE(mla_args_create(k, &args) == MLA_OK);
    for (int i = 0; i < info->field_count; i++) {
        mla_field_info f = {.size = sizeof f};
        REQUIRE(mla_kernel_field(k, i, &f) == MLA_OK);
        check_field(info, &f);
        set_field(args, &f, unit);
    }
    REQUIRE(mla_launch(args, NULL) != MLA_UNSET);
    mla_args_free(args);
}

/* Describes, launches with arguments of all sizes, and is found again. */
static void check_kernel(mla_kernels *set, mla_kernel *k) {
    static const int64_t units[] = {0, 1, 16, -16, (int64_t)1 << 40};
    mla_kernel_info info = {.size = sizeof info};
    mla_kernel *found;
    REQUIRE(mla_kernel_describe(k, &info) == MLA_OK);
    REQUIRE(info.symbol && info.family && info.variant && info.arch);
    REQUIRE(info.block[0] * info.block[1] * info.block[2] <= 1024);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        launch(k, &info, units[i]);
    if (mla_find(set, info.family, info.variant, info.heads, info.page_size,
                 &found) == MLA_OK)
        REQUIRE(strcmp(found->family, info.family) == 0 &&
                found->heads == info.heads);
}

/* ---- decoding with it ---------------------------------------------------- */

/* A layer whose tensors are anywhere; kernels may ask for other strides. */
static void run_layer(mla_decode *d, const mla_decode_step *s) {
    mla_decode_tensors t = {.size = sizeof t,
                            .q = 4096,
                            .kv_cache = 8192,
                            .block_table = 12288,
                            .block_table_stride = 4096,
                            .out = 16384,
                            .lse = 20480,
                            .softmax_scale = 1};
    mla_decode_run(d, s, &t, NULL);
    t.q_head_stride = t.out_head_stride = -4096;
    mla_decode_run(d, s, &t, NULL);
}

/* Sizes that are given are those of a layout within. */
static void check_decode(mla_decode *d, int batch, int q_len, int64_t longest) {
    mla_decode_step s = {.size = sizeof s,
                         .batch = batch,
                         .q_len = q_len,
                         .max_seq_len = longest,
                         .seq_lens = 4096,
                         .workspace = 65536};
    mla_decode_layout l = {.size = sizeof l};
    if (mla_decode_workspace(d, &s, &s.workspace_bytes))
        return;
    REQUIRE(s.workspace_bytes >= 0);
    REQUIRE(mla_decode_describe(d, &s, &l) == MLA_OK);
    REQUIRE(batch == 0 || l.bytes <= s.workspace_bytes);
    REQUIRE(l.items >= 0 && l.partial_o >= 0 && l.slot_capacity >= 0);
    mla_decode_plan(d, &s, NULL);
    run_layer(d, &s);
}

/* With every way of cutting, and steps from none to the largest. */
static void decode(mla_kernels *set) {
    mla_decode_options o = MLA_DECODE_OPTIONS_INIT;
    mla_decode *d;
    for (int split = 0; split < 2; split++) {
        o.split_keys = split * 100;
        if (mla_decode_create(set, &o, &d))
            return;
        check_decode(d, 3, 2, 1000);
        check_decode(d, 0, 1, 1);
        check_decode(d, 0x7fffffff, 64, 0x7fffffff);
        mla_decode_free(d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char prefix[] = "input/manifest.json:";
    mla_context *ctx = open_context();
    const mla_file file = {"manifest.json", data, size};
    mla_kernels *set;
    mla_status status = mla_load_files(ctx, "input", &file, 1, &set);
    REQUIRE((status == MLA_OK) == (set != NULL));
    if (set) {
        REQUIRE(!memchr(data, 0, size));
        for (int i = 0; i < mla_kernels_count(set); i++)
            check_kernel(set, mla_kernels_at(set, i));
        decode(set);
    } else {
        REQUIRE(status == MLA_BAD_MANIFEST);
        REQUIRE(!strncmp(mla_last_error(ctx), prefix, sizeof prefix - 1));
    }
    mla_kernels_free(set);
    REQUIRE(fake.current == 0);
    mla_context_destroy(ctx);
    return 0;
}
