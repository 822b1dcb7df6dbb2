/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference of the layer suite, which expands keys and values, against the
 * other form of the same function, and against what needs no softmax.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "equivalence.h"

enum { H = 2, DN = 16, DR = 16, DV = 16, R = 32, MOST = 64 };

/* Nothing is rotated, so that scores are plain products. */
static const struct num_model model = {
    .rope = {.style = ORACLE_NO_ROPE, .dim = DR, .theta = 10000},
    .norm_eps = 1e-6,
    .latent_factor = 1,
    .factor_original = 1,
    .lse_base = 2.718281828459045,
    .lse_empty = -INFINITY};

static const struct layer like = {.model = &model,
                                  .dtype = NUM_BF16,
                                  .heads = H,
                                  .page_size = 16,
                                  .nope = DN,
                                  .rope = DR,
                                  .v = DV,
                                  .latent = R,
                                  .max_q_len = 4};

static double input(const struct layer *l, enum layer_input which, int64_t i)
{
    const struct layer_image *m = &l->input[which];
    return num_decode(m->elem, m->data + i * (int64_t)num_elem_bytes(m->elem));
}

/* Row i of a head's part of kv_b_proj, column k. */
static double weight(const struct layer *l, int h, int i, int k)
{
    return input(l, LAYER_WEIGHTS, ((int64_t)h * (DN + DV) + i) * R + k);
}

/* The value part of kv_b_proj times a latent. */
static void expect_row(const struct layer *l, int64_t token, int h,
                       const double *latent)
{
    for (int i = 0; i < DV; i++) {
        double sum = 0, got = l->want[(token * H + h) * DV + i];
        for (int k = 0; k < R; k++)
            sum += weight(l, h, DN + i, k) * latent[k];
        if (!(fabs(got - sum) <= 1e-6))
            fail_msg("token %d, head %d, column %d: %.9g is not %.9g",
                     (int)token, h, i, got, sum);
    }
}

static void a_token_without_a_past_returns_its_own_value(void **state)
{
    static const struct layer_shape shape = {
        "alone", 2, {{0, 1}, {0, 1}}, 1, false};
    struct layer *l = layer_make(&like, &shape, 3);

    (void)state;
    for (int t = 0; t < 2; t++)
        for (int h = 0; h < H; h++)
            expect_row(l, t, h, l->stored + t * (R + DR));
    layer_free(l);
}

/* DeepSeek-V2, section 2.1.2: the up-projections absorbed. */
static double absorbed_score(const struct layer *l, int64_t token, int h,
                             const double *row)
{
    int64_t q = (token * H + h) * (DN + DR);
    double sum = 0;

    for (int k = 0; k < R; k++) {
        double absorbed = 0;
        for (int i = 0; i < DN; i++)
            absorbed += input(l, LAYER_RAW_Q, q + i) * weight(l, h, i, k);
        sum += absorbed * row[k];
    }
    for (int i = 0; i < DR; i++)
        sum += input(l, LAYER_RAW_Q, q + DN + i) * row[R + i];
    return sum / sqrt(DN + DR);
}

static void mean_latent(const struct layer *l, int64_t token, int h,
                        int64_t first, int64_t count, double *out)
{
    double sum = 0;

    memset(out, 0, R * sizeof(*out));
    for (int64_t s = first; s < first + count; s++) {
        const double *row = l->stored + s * (R + DR);
        double p = exp(absorbed_score(l, token, h, row));
        sum += p;
        for (int k = 0; k < R; k++)
            out[k] += p * row[k];
    }
    for (int k = 0; k < R; k++)
        out[k] /= sum;
}

static void the_reference_equals_the_absorbed_formula(void **state)
{
    static const struct layer_shape shape = {
        "mixed", 2, {{5, 2}, {0, 3}}, 1, false};
    static const struct {
        int64_t first, count; /* keys that a new token sees */
    } seen[] = {{0, 6}, {0, 7}, {7, 1}, {7, 2}, {7, 3}};
    struct layer *l = layer_make(&like, &shape, 4);
    double latent[R];

    (void)state;
    assert_int_equal(l->tokens, 5);
    assert_int_equal(l->keys, 10);
    for (int t = 0; t < 5; t++)
        for (int h = 0; h < H; h++) {
            mean_latent(l, t, h, seen[t].first, seen[t].count, latent);
            expect_row(l, t, h, latent);
        }
    layer_free(l);
}

/* Slots of a request follow its row of the block table; both appends together
 * write every token once. */
static void each_token_has_one_slot_of_its_request(void **state)
{
    static const struct layer_shape shape = {
        "pages", 2, {{20, 3}, {0, 17}}, 1, false};
    struct layer *l = layer_make(&like, &shape, 5);
    bool taken[MOST * 16] = {false};

    (void)state;
    for (int64_t key = 0; key < l->keys; key++) {
        int64_t s = key < 23 ? key : key - 23, row = key < 23 ? 0 : 1;
        bool old = key < 20;
        int64_t slot =
            (int64_t)input(l, old ? LAYER_OLD_SLOTS : LAYER_NEW_SLOTS, key);
        int64_t page =
            (int64_t)input(l, LAYER_TABLE, row * l->table_width + s / 16);
        assert_int_equal(slot, page * 16 + s % 16);
        assert_true(page > 0 && page < l->pages);
        assert_false(taken[slot]);
        taken[slot] = true;
        assert_true(input(l, old ? LAYER_NEW_SLOTS : LAYER_OLD_SLOTS, key) < 0);
    }
    layer_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_without_a_past_returns_its_own_value),
        cmocka_unit_test(the_reference_equals_the_absorbed_formula),
        cmocka_unit_test(each_token_has_one_slot_of_its_request)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
