/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of a decode step: which kernels, with which arguments, in which
 * order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "decode_calls.h"

/* Kernels ------------------------------------------------------------------
 */

/* Symbol of the kernel for q_len tokens of the 6 heads, whose tile the layout
 * describes. */
static const char *chosen(struct world *w, int q_len)
{
    mla_decode_step s = {sizeof(s), 1, q_len, 100, 0, 0, 0};
    mla_decode_layout l = {.size = sizeof(l)};
    static mla_kernel_info info;

    assert_int_equal(mla_decode_describe(w->decode, &s, &l), MLA_OK);
    info.size = sizeof(info);
    assert_int_equal(mla_kernel_describe(l.decode, &info), MLA_OK);
    assert_int_equal(l.rows_per_tile, info.tile_m);
    assert_int_equal(l.keys_per_tile, info.tile_n);
    assert_int_equal(info.heads, HEADS);
    return info.symbol;
}

/* 6 rows a token; a tile is for up to max_rows, the last for all above. */
static void rows_choose_the_tile(void **state)
{
    static const char *const want[] = {"m16", "m16", "m32", "m32", "m64"};
    struct world w;
    char symbol[64];

    (void)state;
    open_world(&w, &right, 0, true);
    for (int q_len = 1; q_len <= 5; q_len++) {
        snprintf(symbol, sizeof(symbol), "mqa_decode%s_sm_80",
                 want[q_len - 1]);
        assert_string_equal(chosen(&w, q_len), symbol);
    }
    assert_string_equal(chosen(&w, 11), "mqa_decodem64_sm_80");
    assert_string_equal(chosen(&w, 1000), "mqa_decodem64_sm_80");
    close_world(&w);
}

/* The best-ranked one has to have all tiles: sm_86 has one here, and sm_80
 * two more that would suit the rows. */
static void the_device_chooses_the_architecture(void **state)
{
    static const struct {
        int major, minor;
        const char *symbol;
    } rows[] = {{8, 0, "mqa_decodem64_sm_80"},
                {8, 6, "mqa_decodem16_sm_86"},
                {8, 9, "mqa_decodem16_sm_86"},
                {9, 0, "mqa_decodem16_sm_90a"},
                {12, 0, "mqa_decodem16_sm_86"}};

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct world w = {.ctx = context()};
        w.set = world_load(w.ctx, &right, true);
        fake.major = rows[i].major;
        fake.minor = rows[i].minor;
        assert_int_equal(mla_decode_create(w.set, NULL, &w.decode), MLA_OK);
        assert_string_equal(chosen(&w, 10), rows[i].symbol);
        close_world(&w);
    }
}

/* Workers are all blocks that fit on the device, or what the caller says. */
static void workers_fill_the_device(void **state)
{
    mla_decode_options o = MLA_DECODE_OPTIONS_INIT;
    mla_decode_layout l = {.size = sizeof(l)};
    mla_decode_step s = {sizeof(s), 1, 1, 100, 0, 0, 0};
    struct world w;

    (void)state;
    open_world(&w, &right, 0, true);
    mla_decode_describe(w.decode, &s, &l);
    assert_int_equal(l.ctas, 2 * 108);
    s.q_len = 9;
    mla_decode_describe(w.decode, &s, &l);
    assert_int_equal(l.ctas, 108);
    assert_int_equal(l.min_tiles, 1);
    assert_int_equal(l.split_tiles, 0);
    mla_decode_free(w.decode);
    o.ctas = 7;
    o.min_tiles = 3;
    o.split_keys = 33;
    assert_int_equal(mla_decode_create(w.set, &o, &w.decode), MLA_OK);
    mla_decode_describe(w.decode, &s, &l);
    assert_int_equal(l.ctas, 7);
    assert_int_equal(l.min_tiles, 3);
    assert_int_equal(l.split_tiles, 2); /* of 32 keys */
    close_world(&w);
}

static void a_cluster_is_one_worker(void **state)
{
    mla_decode_layout l = {.size = sizeof(l)};
    mla_decode_step s = {sizeof(s), 1, 1, 100, 0, 0, 0};
    struct world_spec spec = right;
    struct world w;

    (void)state;
    spec.cluster = 4;
    open_world(&w, &spec, 0, true);
    mla_decode_describe(w.decode, &s, &l);
    assert_int_equal(l.ctas, 2 * 108 / 4);
    close_world(&w);
}

/* Making -------------------------------------------------------------------
 */

/* Nothing is made of the set, and the text says why. */
static void refuse_set(struct world_spec spec, mla_status want,
                       const char *names)
{
    struct world w = {.ctx = context()};

    w.set = world_load(w.ctx, &spec, true);
    assert_non_null(w.set);
    expect_error(&w, mla_decode_create(w.set, NULL, &w.decode), want, names);
    assert_null(w.decode);
    close_world(&w);
}

/* Missing families, an argument of another version, a manifest of an older
 * generator, more tiles than the object has room for. */
static void a_set_that_cannot_decode_says_what_is_missing(void **state)
{
    static const struct world_tile no_rows = {"m16", "sm_80", 16, 32, 0, 1};
    static const struct world_tile many[9] = {
        {"a", "sm_80", 1, 1, 1, 1}, {"b", "sm_80", 1, 1, 1, 1},
        {"c", "sm_80", 1, 1, 1, 1}, {"d", "sm_80", 1, 1, 1, 1},
        {"e", "sm_80", 1, 1, 1, 1}, {"f", "sm_80", 1, 1, 1, 1},
        {"g", "sm_80", 1, 1, 1, 1}, {"h", "sm_80", 1, 1, 1, 1},
        {"i", "sm_80", 1, 1, 1, 1}};
    struct world_spec s;

    (void)state;
    s = right, s.without = "decode_plan";
    refuse_set(s, MLA_NO_KERNEL, "family 'decode_plan'");
    s.without = "mqa_combine";
    refuse_set(s, MLA_NO_KERNEL, "family 'mqa_combine'");
    s.without = "mqa_decode";
    refuse_set(s, MLA_NO_KERNEL, "mqa_decode for 6 heads, pages of 16");
    s = right, s.extra = "temperature";
    refuse_set(s, MLA_BAD_MANIFEST, "'temperature'");
    s = right, s.work_list = "\"threads\": 1024";
    refuse_set(s, MLA_BAD_MANIFEST, "decode_plan_sm_80: the manifest");
    s = right, s.tiles = &no_rows, s.tile_count = 1;
    refuse_set(s, MLA_BAD_MANIFEST, "max_rows");
    s = right, s.tiles = many, s.tile_count = 9;
    refuse_set(s, MLA_BAD_MANIFEST, "more than 8");
}

/* The library reads the header at these places without looking again. */
static void a_work_list_that_ends_before_its_header_is_refused(void **state)
{
    struct world_spec s = right;
    mla_context *ctx = context();

    (void)state;
    s.work_list = "\"work_list\": {\"header_ints\": 2, \"item_ints\": 8, "
                  "\"cut_items\": 1, \"first_cut_slots\": 2, \"cut_slots\": "
                  "1, \"items_at\": 0, \"slots_at\": 1, \"status_at\": 2, "
                  "\"item_overflow\": 1, \"slot_overflow\": 2, "
                  "\"short_request\": 4}";
    assert_null(world_load(ctx, &s, true));
    assert_non_null(strstr(mla_last_error(ctx), "work_list"));
    s.work_list = "\"work_list\": {\"header_ints\": 8}";
    assert_null(world_load(ctx, &s, true));
    assert_non_null(strstr(mla_last_error(ctx), "missing"));
    mla_context_destroy(ctx);
}

/* Also: options of a program that knew fewer of them. */
static void wrong_options_are_named(void **state)
{
    struct world w = {.ctx = context()};
    mla_decode_options o = MLA_DECODE_OPTIONS_INIT;

    (void)state;
    w.set = world_load(w.ctx, &right, true);
    o.ctas = -2;
    expect_error(&w, mla_decode_create(w.set, &o, &w.decode), MLA_RANGE,
                 "'ctas': -2");
    o.size = offsetof(mla_decode_options, ctas); /* an older caller */
    assert_int_equal(mla_decode_create(w.set, &o, &w.decode), MLA_OK);
    mla_decode_free(w.decode);
    o.heads = 5;
    expect_error(&w, mla_decode_create(w.set, &o, &w.decode), MLA_NO_KERNEL,
                 "heads '5'; there is 6");
    o.heads = 6;
    o.page_size = 64;
    expect_error(&w, mla_decode_create(w.set, &o, &w.decode), MLA_NO_KERNEL,
                 "page_size '64'; there is 16");
    o.size = 4;
    assert_int_equal(mla_decode_create(w.set, &o, &w.decode),
                     MLA_INVALID_ARGUMENT);
    assert_int_equal(mla_decode_create(NULL, NULL, &w.decode),
                     MLA_INVALID_ARGUMENT);
    assert_int_equal(mla_decode_create(w.set, NULL, NULL),
                     MLA_INVALID_ARGUMENT);
    assert_null(w.decode);
    mla_decode_free(NULL);
    close_world(&w);
}

/* The object is the only allocation. */
static void without_memory_nothing_is_made(void **state)
{
    struct world w = {.ctx = context()};

    (void)state;
    w.set = world_load(w.ctx, &right, true);
    allocations_left = 0;
    assert_int_equal(mla_decode_create(w.set, NULL, &w.decode),
                     MLA_OUT_OF_MEMORY);
    allocations_left = INT32_MAX;
    close_world(&w);
}

/* Launches -----------------------------------------------------------------
 */

#define PLAN(i, name) world_arg(i, world_plan, name)
#define DECODE(i, name) world_arg(i, world_decode, name)
#define COMBINE(i, name) world_arg(i, world_combine, name)

/* Every argument of decode_plan, for 18 rows in tiles of 32. */
static void the_plan_knows_the_step_and_its_workspace(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_layout l = {.size = sizeof(l)};
    int64_t base = 0x100000;

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 3, 3);
    mla_decode_describe(w.decode, &s, &l);
    assert_int_equal(mla_decode_plan(w.decode, &s, (void *)0x77), MLA_OK);
    assert_int_equal(world_launches, 1);
    assert_int_equal(world_launched[0].grid, 1);
    assert_ptr_equal(world_launched[0].stream, (void *)0x77);
    assert_int_equal(PLAN(0, "seq_lens"), 0x5000);
    assert_int_equal(PLAN(0, "batch"), 3);
    assert_int_equal(PLAN(0, "q_len"), 3);
    assert_int_equal(PLAN(0, "rows_per_tile"), 32);
    assert_int_equal(PLAN(0, "keys_per_tile"), 16);
    assert_int_equal(PLAN(0, "ctas"), 2 * 108);
    assert_int_equal(PLAN(0, "min_tiles"), 1);
    assert_int_equal(PLAN(0, "split_tiles"), 0);
    assert_int_equal(PLAN(0, "item_capacity"), l.item_capacity);
    assert_int_equal(PLAN(0, "slot_capacity"), l.slot_capacity);
    assert_int_equal(PLAN(0, "header"), base + l.header);
    assert_int_equal(PLAN(0, "item_begin"), base + l.item_begin);
    assert_int_equal(PLAN(0, "items"), base + l.items);
    assert_int_equal(PLAN(0, "unit_slots"), base + l.unit_slots);
    close_world(&w);
}

/* The buffers lie behind each other, none in another, within the bytes. */
static void the_parts_of_a_workspace_do_not_overlap(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, &right, 0, true);
    for (int q_len = 1; q_len < 30; q_len++) {
        mla_decode_step s = good_step(&w, 1 + q_len % 4, q_len);
        mla_decode_layout l = {.size = sizeof(l)};
        mla_decode_describe(w.decode, &s, &l);
        const int64_t at[] = {l.header,      l.item_begin, l.items,
                              l.unit_slots,  l.partial_lse, l.partial_o,
                              l.bytes};
        const int64_t bytes[] = {
            32,
            4 * (l.ctas + 1),
            32 * l.item_capacity,
            4 * (l.units + 1),
            4 * l.slot_capacity * l.rows_per_tile,
            4 * l.slot_capacity * l.rows_per_tile * LATENT};
        for (int i = 0; i < 6; i++) {
            assert_int_equal(at[i] % ALIGN, 0);
            assert_true(at[i] + bytes[i] <= at[i + 1]);
        }
    }
    close_world(&w);
}

/* The three strides of a tensor as launch i has them. */
static void expect_rows(int i, const struct world_field *fields,
                        const char *tensor, int64_t batch, int64_t token,
                        int64_t head)
{
    const struct {
        const char *end;
        int64_t want;
    } rows[] = {{"batch", batch}, {"token", token}, {"head", head}};
    for (int r = 0; r < 3; r++) {
        char name[64];
        snprintf(name, sizeof(name), "%s_%s_stride", tensor, rows[r].end);
        assert_int_equal(world_arg(i, fields, name), rows[r].want);
    }
}

/* Strides of 0 are those of tensors without gaps. */
static void a_layer_is_decoded_and_combined(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();
    const float scale = 0.25f;
    int32_t bits;

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 3, 3);
    t.lse = 0x50004;
    assert_int_equal(mla_decode_run(w.decode, &s, &t, (void *)0x99), MLA_OK);
    assert_int_equal(world_launches, 2);
    assert_int_equal(world_launched[0].grid, 2 * 108);
    assert_int_equal(world_launched[1].grid, 9);
    assert_ptr_equal(world_launched[1].stream, (void *)0x99);
    memcpy(&bits, &scale, 4);
    assert_int_equal(DECODE(0, "softmax_scale"), bits);
    assert_int_equal(DECODE(0, "q"), 0x10000);
    assert_int_equal(DECODE(0, "kv_cache"), 0x20000);
    assert_int_equal(DECODE(0, "row_stride"), 128);
    assert_int_equal(DECODE(0, "page_stride"), 2048);
    assert_int_equal(DECODE(0, "block_table"), 0x30004);
    assert_int_equal(DECODE(0, "block_table_stride"), 252);
    assert_int_equal(DECODE(0, "ctas"), 216);
    expect_rows(0, world_decode, "q", 3 * 6 * 128, 6 * 128, 128);
    expect_rows(0, world_decode, "out", 3 * 6 * 96, 6 * 96, 96);
    expect_rows(1, world_combine, "out", 3 * 6 * 96, 6 * 96, 96);
    expect_rows(0, world_decode, "lse", 3 * 6 * 4, 6 * 4, 4);
    expect_rows(1, world_combine, "lse", 3 * 6 * 4, 6 * 4, 4);
    assert_int_equal(COMBINE(1, "out"), 0x40000);
    assert_int_equal(COMBINE(1, "lse"), 0x50004);
    assert_int_equal(COMBINE(1, "rows_per_tile"), 32);
    for (int i = 0; i < 3; i++) {
        static const char *const shared[] = {"header", "partial_o",
                                             "partial_lse"};
        assert_int_equal(DECODE(0, shared[i]), COMBINE(1, shared[i]));
    }
    close_world(&w);
}

/* Of any sign and size; a page stride that is left out follows the rows. */
static void given_strides_are_passed_on(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();
    int64_t large = (int64_t)1 << 40;

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 2, 1);
    t.q_batch_stride = large;
    t.q_head_stride = -160;
    t.out_token_stride = 4096;
    t.lse_head_stride = 8;
    t.row_stride = 256;
    assert_int_equal(mla_decode_run(w.decode, &s, &t, NULL), MLA_OK);
    expect_rows(0, world_decode, "q", large, 6 * 128, -160);
    expect_rows(0, world_decode, "out", 6 * 96, 4096, 96);
    expect_rows(1, world_combine, "lse", 6 * 4, 6 * 4, 8);
    assert_int_equal(DECODE(0, "row_stride"), 256);
    assert_int_equal(DECODE(0, "page_stride"), 256 * PAGE);
    t.page_stride = 12800;
    assert_int_equal(mla_decode_run(w.decode, &s, &t, NULL), MLA_OK);
    assert_int_equal(DECODE(2, "page_stride"), 12800);
    close_world(&w);
}

/* A bound of one tile leaves nothing to cut. */
static void what_cannot_be_split_is_not_combined(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();

    (void)state;
    for (int split = 0; split <= 64; split += 64) {
        open_world(&w, &right, split, true);
        s = good_step(&w, 5, 1);
        s.max_seq_len = split ? 64 : 32;
        assert_int_equal(mla_decode_plan(w.decode, &s, NULL), MLA_OK);
        assert_int_equal(PLAN(0, "slot_capacity"), 0);
        assert_int_equal(PLAN(0, "split_tiles"), split / 32);
        assert_int_equal(mla_decode_run(w.decode, &s, &t, NULL), MLA_OK);
        assert_int_equal(world_launches, 2);
        s.max_seq_len++;
        assert_int_equal(mla_decode_run(w.decode, &s, &t, NULL), MLA_OK);
        assert_int_equal(world_launches, 4);
        close_world(&w);
    }
}

/* A capture would not forgive it. */
static void launching_allocates_nothing(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();
    long before;

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 2, 2);
    before = allocations;
    assert_int_equal(mla_decode_plan(w.decode, &s, NULL), MLA_OK);
    assert_int_equal(mla_decode_run(w.decode, &s, &t, NULL), MLA_OK);
    assert_int_equal(allocations, before);
    close_world(&w);
}

/* Kernels that are not loaded are not asked for either. */
static void a_batch_of_none_looks_at_no_pointer(void **state)
{
    struct world w;
    mla_decode_step s = {.size = sizeof(s)};
    mla_decode_tensors t = {.size = sizeof(t)};

    (void)state;
    open_world(&w, &right, 64, false);
    fake.capture_status = 1; /* and loads nothing */
    s.max_seq_len = 5;
    assert_int_equal(mla_decode_plan(w.decode, &s, NULL), MLA_OK);
    assert_int_equal(mla_decode_run(w.decode, &s, &t, NULL), MLA_OK);
    assert_int_equal(mla_decode_check(w.decode, &s, NULL), MLA_OK);
    assert_int_equal(fake.launches, 0);
    close_world(&w);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rows_choose_the_tile),
        TEST(the_device_chooses_the_architecture),
        TEST(workers_fill_the_device),
        TEST(a_cluster_is_one_worker),
        TEST(a_set_that_cannot_decode_says_what_is_missing),
        TEST(a_work_list_that_ends_before_its_header_is_refused),
        TEST(wrong_options_are_named),
        TEST(without_memory_nothing_is_made),
        TEST(the_plan_knows_the_step_and_its_workspace),
        TEST(the_parts_of_a_workspace_do_not_overlap),
        TEST(a_layer_is_decoded_and_combined),
        TEST(given_strides_are_passed_on),
        TEST(what_cannot_be_split_is_not_combined),
        TEST(launching_allocates_nothing),
        TEST(a_batch_of_none_looks_at_no_pointer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
