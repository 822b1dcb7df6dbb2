/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plans_hopper_decode.c: what the plans of mqa_decode promise on sm_90a:
 * registers and shared memory that exist, the accounting of DeepSeek-V3's tile
 * worked by hand, pairs of blocks from 65 rows on, the knobs of the schedule,
 * the two groups that alternate on request, and the reason where the portable
 * kernel serves.
 */
#include "plans.h"

enum { SMEM = 232448, POOL = 504, OTHER = 26, PAIR_ROWS = 128, MOST = 255 };
#define ALTERNATING "decode: {hopper: {schedule: alternating}}\n"

/* The kernels array of `mlagen plan --json`; a new reference. */
static json_t *plans_of(int latent, int rope, int heads, const char *rest) {
    char *spec = NULL;

    assert_true(asprintf(&spec,
                         "model: some\nheads: %d\nkv_lora_rank: %d\n"
                         "qk_nope_head_dim: 128\nqk_rope_head_dim: %d\n"
                         "v_head_dim: 128\nrope: {style: none}\n"
                         "arch: [sm_90a]\n%s",
                         heads, latent, rope, rest) > 0);
    return plans_of_spec(spec);
}

/* A text of the cost block, "" if there is no such row. */
static const char *cost_of(const json_t *plan, const char *name) {
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(plan, "cost"), i, row) {
        if (!strcmp(json_string_value(json_array_get(row, 0)), name))
            return json_string_value(json_array_get(row, 1));
    }
    return "";
}

/* 36 k-steps of 32 cycles for S and 8 of 128 for P V.  Port, in bytes: the tile
 * comes in (73,728) and is read for S, Q's last 5 k-steps (2,048 each), V
 * (65,536), P three times 8,192. */
static void a_tile_of_v3_costs_what_was_worked_out_by_hand(void **state) {
    json_t *kernels = plans_of(512, 64, 64, "decode: {max_q_len: 1}\n");
    const json_t *t = tile_of(plan_of(kernels, "mqa_decode", "m64"));
    const json_t *per = json_object_get(t, "per_tile");
    (void)state;
    assert_int_equal(number(per, "mma"), 36 * 32 + 8 * 128);
    assert_int_equal(number(per, "port"),
                     (2 * 73728 + 5 * 2048 + 65536 + 3 * 8192) / 128);
    assert_int_equal(number(per, "l2"), 73728);
    assert_int_equal(number(t, "scores_limit"), 184);
    assert_int_equal(number(t, "values_limit"), 160);
    assert_int_equal(number(t, "q_registers"), 31);
    json_decref(kernels);
}

/* Whatever the ranks: W + 26 registers per group within its share, the shares
 * within what 384 threads get, and shared memory. */
static void plans_fit_registers_and_shared_memory(void **state) {
    (void)state;
    for (int latent = 128; latent <= 512; latent += 128)
        for (int rope = 0; rope <= 128; rope += 16) {
            json_t *kernels = plans_of(latent, rope, 40, "");
            const json_t *plan = plan_of(kernels, "mqa_decode", "m128"), *t;
            if (!plan) {
                assert_true(latent == 512 && rope > 64);
                json_decref(kernels);
                continue;
            }
            assert_false(latent == 512 && rope > 64);
            t = tile_of(plan);
            assert_true(32 + 4 * number(t, "q_registers") + OTHER <=
                        number(t, "scores_limit"));
            assert_true(latent / 4 + OTHER <= number(t, "values_limit"));
            assert_true(number(t, "scores_limit") +
                            2 * number(t, "values_limit") <= POOL);
            assert_true(number(json_object_get(plan, "launch"),
                               "smem_dynamic") <= SMEM);
            assert_int_equal(number(t, "q_registers") + number(t, "q_shared"),
                             (latent + rope) / 16);
            json_decref(kernels);
        }
}

static void more_than_64_rows_go_to_pairs_of_blocks(void **state) {
    static const struct {
        int heads, q_len;
        bool one, pair;
    } rows[] = {{64, 1, true, false}, {65, 1, false, true},
                {16, 4, true, false}, {17, 4, true, true},
                {128, 4, false, true}, {8, 16, true, true}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char rest[64];
        json_t *kernels;
        const json_t *pair;
        snprintf(rest, sizeof rest, "decode: {max_q_len: %d}\n",
                 rows[i].q_len);
        kernels = plans_of(512, 64, rows[i].heads, rest);
        pair = plan_of(kernels, "mqa_decode", "m128");
        assert_int_equal(plan_of(kernels, "mqa_decode", "m64") != NULL,
                         rows[i].one);
        assert_int_equal(pair != NULL, rows[i].pair);
        if (pair) {
            const json_t *launch = json_object_get(pair, "launch");
            assert_int_equal(number(tile_of(pair), "m"), PAIR_ROWS);
            assert_int_equal(
                number(json_object_get(launch, "cluster"), "x"), 2);
            assert_int_equal(
                number(json_object_get(tile_of(pair), "per_tile"), "l2"),
                73728 / 2);
        }
        json_decref(kernels);
    }
}

static void knobs_are_in_the_plan(void **state) {
    json_t *kernels = plans_of(
        512, 0, 128,
        "decode: {max_q_len: 1, hopper: {cluster: false, p_buffers: 2, "
        "early_scores: false, first_steps: 3}}\n");
    const json_t *t = tile_of(plan_of(kernels, "mqa_decode", "m64"));
    (void)state;
    assert_null(plan_of(kernels, "mqa_decode", "m128"));
    assert_int_equal(number(t, "buffers"), 2);
    assert_int_equal(number(t, "slots"), 3);
    assert_int_equal(number(t, "held"), 1);
    assert_true(json_is_false(json_object_get(t, "early")));
    json_decref(kernels);
}

/* A box of the copy engine is whole groups of 8 rows: below, the keys come by
 * cp.async, which needs no tensor map and knows no cluster.  Of a row comes
 * what there is, 160 columns, not 192. */
static void pages_of_less_than_8_keys_come_by_cp_async(void **state) {
    (void)state;
    for (int page = 1; page <= 16; page *= 2) {
        bool copied = page < 8;
        char rest[64];
        json_t *kernels;
        const json_t *plan, *launch;
        snprintf(rest, sizeof rest, "kv_cache: {page_size: %d}\n", page);
        kernels = plans_of(128, 32, 128, rest);
        plan = plan_of(kernels, "mqa_decode", copied ? "m64" : "m128");
        assert_non_null(plan);
        launch = json_object_get(plan, "launch");
        assert_string_equal(
            json_string_value(json_object_get(tile_of(plan), "loader")),
            copied ? "cp.async" : "TMA");
        assert_non_null(
            strstr(cost_of(plan, "loads"), copied ? "cp.async" : "TMA"));
        assert_int_equal(json_object_get(launch, "tensor_maps") != NULL,
                         !copied);
        assert_int_equal(json_object_get(launch, "cluster") != NULL, !copied);
        assert_int_equal(plan_of(kernels, "mqa_decode", "m128") != NULL,
                         !copied);
        assert_int_equal(
            number(json_object_get(tile_of(plan), "per_tile"), "l2"),
            copied ? 64 * 2 * 160 : 64 * 2 * 192 / 2);
        json_decref(kernels);
    }
}

/* As of (b), but that P is read once from shared memory, and 25 of 36 k-steps
 * of Q, 2,048 bytes each, by the maker of every tile. */
static void a_tile_of_two_alternating_groups_costs_what_was_worked_out(
    void **state) {
    json_t *kernels = plans_of(512, 64, 64, ALTERNATING);
    const json_t *t = tile_of(plan_of(kernels, "mqa_decode", "m64"));
    const json_t *per = json_object_get(t, "per_tile");
    const json_t *map = json_object_get(t, "smem");
    (void)state;
    assert_int_equal(number(per, "mma"), 36 * 32 + 8 * 128);
    assert_int_equal(number(per, "port"),
                     (2 * 73728 + 25 * 2048 + 65536 + 2 * 8192) / 128);
    assert_int_equal(number(per, "l2"), 73728);
    assert_int_equal(number(t, "q_registers"), 11);
    assert_int_equal(number(t, "threads"), 256);
    /* Two stages, two P, Q, references and sums of both groups, flags, a
     * cursor per group and stage, four mbarriers. */
    assert_int_equal(number(map, "weights"), 2 * 73728);
    assert_int_equal(number(map, "queries"), 2 * 73728 + 2 * 8192);
    assert_int_equal(number(map, "total"),
                     2 * 73728 + 2 * 8192 + 25 * 2048 + 2 * 512 + 32 +
                         2 * 2 * 32 + 32);
    json_decref(kernels);
}

/* O, S and Q of one thread, and what ptxas needs beside them, within the 255
 * that an instruction can name; rows of 640 at rank 512 do not fit. */
static void alternating_plans_fit_registers_and_shared_memory(void **state) {
    (void)state;
    for (int latent = 128; latent <= 512; latent += 128)
        for (int rope = 0; rope <= 256; rope += 16) {
            json_t *kernels = plans_of(latent, rope, 40, ALTERNATING);
            const json_t *plan = plan_of(kernels, "mqa_decode", "m64");
            const json_t *t = json_object_get(plan, "tile");
            bool fits = latent < 512 || rope <= 64;
            assert_int_equal(json_object_get(t, "q_registers") != NULL, fits);
            if (fits) {
                assert_true(latent / 4 + 32 + 4 * number(t, "q_registers") +
                                OTHER <= MOST);
                assert_true(number(json_object_get(plan, "launch"),
                                   "smem_dynamic") <= SMEM);
                assert_int_equal(
                    number(t, "q_registers") + number(t, "q_shared"),
                    (latent + rope) / 16);
            }
            json_decref(kernels);
        }
}

static void alternating_groups_have_one_tile_and_no_pairs(void **state) {
    static const int heads[] = {1, 64, 65, 128};
    (void)state;
    for (size_t i = 0; i < COUNT(heads); i++) {
        json_t *kernels = plans_of(512, 64, heads[i], ALTERNATING);
        const json_t *plan = plan_of(kernels, "mqa_decode", "m64");
        assert_null(plan_of(kernels, "mqa_decode", "m128"));
        assert_false(json_is_object(
            json_object_get(json_object_get(plan, "launch"), "cluster")));
        assert_int_equal(number(tile_of(plan), "m"), 64);
        assert_int_equal(number(tile_of(plan), "max_rows"), 4 * heads[i]);
        json_decref(kernels);
    }
}

/* The portable kernel says why; two buffers of P do not fit beside 576. */
static void the_portable_kernel_says_why(void **state) {
    static const struct {
        int latent, rope;
        const char *rest, *why;
    } rows[] = {
        {160, 64, "", "latent 160"},
        {64, 32, "", "latent 64"},
        {1024, 64, "", "1024 columns"},
        {512, 64, "decode: {hopper: {p_buffers: 2}}\n",
         "241008 bytes of shared memory"},
        {160, 64, ALTERNATING, "latent 160"},
        {512, 64, "kv_cache: {page_size: 4}\n" ALTERNATING,
         "pages of 4 keys"},
        {512, 128, ALTERNATING, "240832 bytes of shared memory"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *kernels =
            plans_of(rows[i].latent, rows[i].rope, 16, rows[i].rest);
        json_t *plan;
        size_t k;
        json_array_foreach(kernels, k, plan) {
            if (strcmp(json_string_value(json_object_get(plan, "family")),
                       "mqa_decode"))
                continue;
            if (!strstr(cost_of(plan, "portable"), rows[i].why))
                fail_msg("'%s' is not in '%s'", rows[i].why,
                         cost_of(plan, "portable"));
        }
        json_decref(kernels);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_of_v3_costs_what_was_worked_out_by_hand),
        cmocka_unit_test(plans_fit_registers_and_shared_memory),
        cmocka_unit_test(more_than_64_rows_go_to_pairs_of_blocks),
        cmocka_unit_test(knobs_are_in_the_plan),
        cmocka_unit_test(pages_of_less_than_8_keys_come_by_cp_async),
        cmocka_unit_test(
            a_tile_of_two_alternating_groups_costs_what_was_worked_out),
        cmocka_unit_test(alternating_plans_fit_registers_and_shared_memory),
        cmocka_unit_test(alternating_groups_have_one_tile_and_no_pairs),
        cmocka_unit_test(the_portable_kernel_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
