/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plans_hopper_mha.c: what the plans of mha and kv_b promise on sm_90a,
 * whatever the geometry: registers and shared memory that exist, every column
 * of Q and K in one k-step, boxes that end where a request does; and the same
 * arguments as the portable kernels, which serve where no tile fits.
 *
 * The tiles of three geometries were found by compiling some 70 kernels (the
 * table of a probe: need W + 26 of 240 registers per thread); they are written
 * here as that table has them.
 */
#include "plans.h"

enum { SMEM = 232448, LIMIT = 240, OTHER = 26, BOX = 64, ROW_BYTES = 128 };

struct geometry {
    int latent, nope, rope, v;
    int cluster; /* 0: the default */
};

static const struct geometry v3 = {512, 128, 64, 128, 0};

/* The kernels array of `mlagen plan --json`; a new reference. */
static json_t *plans_of(const struct geometry *g, const char *arch) {
    char *spec = NULL;

    assert_true(asprintf(&spec,
                         "model: some\nheads: 5\nkv_lora_rank: %d\n"
                         "qk_nope_head_dim: %d\nqk_rope_head_dim: %d\n"
                         "v_head_dim: %d\nrope: {style: none}\narch: [%s]\n"
                         "mha: {cluster: %d}\n",
                         g->latent, g->nope, g->rope, g->v, arch,
                         g->cluster ? g->cluster : 1) > 0);
    return plans_of_spec(spec);
}

/* Kernels of warpgroups count rows by group; the portable ones do not. */
static bool is_wgmma(const json_t *plan) {
    return json_object_get(tile_of(plan), "group_rows") != NULL;
}

static int boxes(int columns) {
    return (columns + BOX - 1) / BOX;
}

/* ---- the table ----------------------------------------------------------- */

static void tiles_are_those_that_were_found_to_compile(void **state) {
    static const struct {
        struct geometry g;
        int keys, held, k_stages, v_stages, need;
    } rows[] = {
        {{512, 128, 64, 128, 0}, 128, 12, 3, 2, 234},
        {{512, 192, 64, 256, 0}, 80, 6, 2, 2, 238},
        {{512, 256, 0, 256, 0}, 80, 6, 2, 2, 238},
        {{256, 64, 64, 128, 0}, 144, 8, 3, 3, 230},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *kernels = plans_of(&rows[i].g, "sm_90a");
        const json_t *t = tile_of(plan_of(kernels, "mha", ""));
        assert_int_equal(number(t, "m"), 128);
        assert_int_equal(number(t, "n"), rows[i].keys);
        assert_int_equal(number(t, "held"), rows[i].held);
        assert_int_equal(number(t, "k_stages"), rows[i].k_stages);
        assert_int_equal(number(t, "v_stages"), rows[i].v_stages);
        assert_int_equal(number(json_object_get(t, "registers"), "total"),
                         rows[i].need);
        json_decref(kernels);
    }
}

/* ---- any geometry -------------------------------------------------------- */

/* S, O, P in flight beside S, and 4 registers per k-step of Q. */
static void assert_mha_fits(const struct geometry *g, const json_t *plan) {
    const json_t *t = tile_of(plan);
    int n = number(t, "n"), held = number(t, "held");
    int steps = (g->nope + g->rope) / 16;
    int k = n * number(t, "k_boxes") * ROW_BYTES;
    int v = n * boxes(g->v) * ROW_BYTES;
    int q = 128 * boxes(g->nope + g->rope) * ROW_BYTES;
    int stages = number(t, "k_stages") * k + number(t, "v_stages") * v;

    assert_true(n / 2 + g->v / 2 + n / 4 + 4 * held + OTHER <= LIMIT);
    assert_true(n % 16 == 0 && n >= 16 && n <= 256 && held <= steps);
    assert_true(number(t, "k_stages") >= 2 && number(t, "v_stages") >= 2);
    if (held < steps)
        stages += q;
    else
        assert_true(q <= number(t, "q_entries") * k);
    assert_true(stages + 8 * (2 + 2 * 8) <= SMEM);
    assert_true(number(json_object_get(plan, "launch"), "smem_dynamic") <=
                SMEM);
}

/* k-step i of K multiplies columns 16 i of the whole row: of its box's tensor
 * they are the part-th sixteen. */
static void assert_steps(const struct geometry *g, const json_t *plan,
                         bool concat) {
    const json_t *list = json_object_get(tile_of(plan), "k_steps");
    int nope = concat ? g->nope + g->rope : g->nope;

    assert_int_equal(json_array_size(list), (g->nope + g->rope) / 16);
    for (int i = 0; i < (int)json_array_size(list); i++) {
        const json_t *step = json_array_get(list, (size_t)i);
        bool rope = 16 * i >= nope;
        int column = rope ? 16 * i - nope : 16 * i;
        assert_int_equal(number(step, "box"),
                         (rope ? boxes(nope) : 0) + column / BOX);
        assert_int_equal(number(step, "part"), column % BOX / 16);
    }
}

/* Rows of a box end at the bound of dimension 1, wherever they begin. */
static void assert_maps(const json_t *plan, size_t count) {
    json_t *maps =
        json_object_get(json_object_get(plan, "launch"), "tensor_maps");
    json_t *map;
    size_t i;

    assert_int_equal(json_array_size(maps), count);
    json_array_foreach(maps, i, map) {
        json_t *box = json_object_get(map, "box");
        int rows = (int)json_integer_value(json_array_get(box, 1));
        json_t *dim = json_array_get(json_object_get(map, "dims"), 1);
        json_t *strides = json_object_get(map, "strides");
        assert_int_equal(number(json_array_get(dim, 0), "const"), rows);
        assert_int_equal(number(map, "back"), rows);
        assert_true(json_equal(json_array_get(strides, 0),
                               json_array_get(strides, 1)));
        assert_int_equal(json_integer_value(json_array_get(box, 0)), BOX);
    }
}

static void assert_same_arguments(const json_t *a, const json_t *b) {
    assert_non_null(a);
    assert_non_null(b);
    assert_true(
        json_equal(json_object_get(a, "args"), json_object_get(b, "args")));
}

static void mha_fits_any_geometry_or_is_the_portable_one(void **state) {
    static const struct geometry odd[] = {
        {512, 128, 64, 128, 0}, {512, 96, 32, 128, 0}, {256, 64, 32, 64, 0},
        {512, 192, 64, 128, 0}, {16, 32, 32, 64, 0},   {512, 16, 0, 16, 0},
        {512, 80, 48, 176, 0},  {512, 256, 128, 256, 0}, {512, 128, 16, 240, 0},
        {512, 512, 64, 128, 0}, {512, 128, 64, 512, 0},
    };
    int served = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(odd); i++) {
        json_t *here = plans_of(&odd[i], "sm_90a");
        json_t *there = plans_of(&odd[i], "sm_90");
        for (int concat = 0; concat <= (odd[i].rope > 0); concat++) {
            const char *variant = concat ? "concat" : "";
            const json_t *p = plan_of(here, "mha", variant);
            assert_same_arguments(p, plan_of(there, "mha", variant));
            assert_false(is_wgmma(plan_of(there, "mha", variant)));
            if (!is_wgmma(p))
                continue;
            served++;
            assert_mha_fits(&odd[i], p);
            assert_steps(&odd[i], p, concat);
            assert_maps(p, concat || odd[i].rope == 0 ? 3 : 4);
        }
        json_decref(here);
        json_decref(there);
    }
    assert_true(served >= 15);
}

static void values_wider_than_a_wgmma_are_the_portable_kernels(void **state) {
    static const struct geometry wide = {512, 128, 64, 272, 0};
    json_t *kernels = plans_of(&wide, "sm_90a");
    (void)state;
    assert_false(is_wgmma(plan_of(kernels, "mha", "")));
    assert_true(is_wgmma(plan_of(kernels, "kv_b", "")));
    json_decref(kernels);
}

/* Each of two blocks brings half of the rows of every box for both. */
static void a_pair_of_blocks_shares_its_keys(void **state) {
    static const struct geometry pair = {512, 128, 64, 128, 2};
    json_t *kernels = plans_of(&pair, "sm_90a");
    const json_t *plan = plan_of(kernels, "mha", "");
    json_t *launch = json_object_get(plan, "launch");
    json_t *maps = json_object_get(launch, "tensor_maps");
    json_t *x = json_array_get(json_object_get(launch, "grid"), 0);
    (void)state;
    assert_int_equal(number(json_object_get(launch, "cluster"), "x"), 2);
    assert_int_equal(number(x, "max") % 2, 0);
    assert_maps(plan, 4);
    for (size_t i = 0; i < json_array_size(maps); i++) {
        json_t *box = json_object_get(json_array_get(maps, i), "box");
        assert_int_equal(json_integer_value(json_array_get(box, 1)), 64);
    }
    json_decref(kernels);
}

/* ---- kv_b ---------------------------------------------------------------- */

/* Latents and sums in registers; a head's columns in whole tiles. */
static void kv_b_holds_its_latents_or_is_the_portable_one(void **state) {
    static const int ranks[] = {16, 64, 160, 256, 480, 512, 704, 768, 1024};
    (void)state;
    for (size_t i = 0; i < COUNT(ranks); i++) {
        struct geometry g = {ranks[i], 192, 64, 256, 0};
        json_t *here = plans_of(&g, "sm_90a"), *there = plans_of(&g, "sm_90");
        const json_t *p = plan_of(here, "kv_b", ""), *t = tile_of(p);
        assert_same_arguments(p, plan_of(there, "kv_b", ""));
        assert_int_equal(is_wgmma(p), ranks[i] < 768);
        if (is_wgmma(p)) {
            int columns = number(t, "columns");
            assert_true(ranks[i] / 4 + columns / 2 + OTHER <= LIMIT);
            assert_true(columns * number(t, "head_tiles") >= g.nope + g.v);
            assert_true(number(t, "chunks") * BOX >= ranks[i]);
            assert_true(number(t, "chunks") <= number(t, "stages"));
            assert_true(number(t, "stages") * number(t, "stage") < SMEM);
        }
        json_decref(here);
        json_decref(there);
    }
}

/* At DeepSeek-V3's widths a tile is all of a head's k_nope or all of its v. */
static void kv_b_of_v3_has_tiles_of_one_output(void **state) {
    json_t *kernels = plans_of(&v3, "sm_90a");
    const json_t *t = tile_of(plan_of(kernels, "kv_b", ""));
    (void)state;
    assert_int_equal(number(t, "columns"), 128);
    assert_int_equal(number(t, "head_tiles"), 2);
    json_decref(kernels);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_are_those_that_were_found_to_compile),
        cmocka_unit_test(mha_fits_any_geometry_or_is_the_portable_one),
        cmocka_unit_test(a_pair_of_blocks_shares_its_keys),
        cmocka_unit_test(values_wider_than_a_wgmma_are_the_portable_kernels),
        cmocka_unit_test(kv_b_holds_its_latents_or_is_the_portable_one),
        cmocka_unit_test(kv_b_of_v3_has_tiles_of_one_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
