/* SPDX-License-Identifier: Apache-2.0
 *
 * family_merge.c: merge_state, two partial attention results into one.
 *
 * The LSE's base and the value that stands for an empty set come from the
 * spec.  A side whose LSE is infinite or NaN is empty: its payload must reach
 * neither the sum nor a multiplication, and the other side comes out bit for
 * bit.
 *
 * Bit for bit, because a rank without keys must not change what a server says
 * with one rank less.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "family.h"

/* Variant "latent" merges in the latent space, before absorb_v. */
static int64_t width_of(const struct num_case *c)
{
    const mla_kernel_info *k = &c->subject->info;
    return strcmp(k->variant, "latent") == 0 ? k->latent : k->v;
}

/* [tokens][heads], one single each. */
static struct num_tensor *add_lse(struct num_case *c, const char *field,
                                  enum num_layout layout)
{
    return num_add_heads(c, field, NUM_F32, 1, layout);
}

/* The output as a second name of one of the inputs. */
static void alias(struct num_case *c, const char *input, const char *output)
{
    struct num_tensor *t = num_tensor_of(c, input);
    strcpy(t->alias, output);
    t->output = true;
}

/* The two sides differ in layout, and so do a tensor and its LSE. */
static void merge_tensors(struct num_case *c)
{
    int64_t width = width_of(c);

    num_add_heads(c, "o_a", c->subject->dtype, width, c->shape.in);
    num_add_heads(c, "o_b", c->subject->dtype, width, c->shape.out);
    add_lse(c, "lse_a", c->shape.in);
    add_lse(c, "lse_b", c->shape.out);
    if (num_is(c, NUM_IN_PLACE_A)) {
        alias(c, "o_a", "o");
        alias(c, "lse_a", "lse");
    } else if (num_is(c, NUM_IN_PLACE_B)) {
        alias(c, "o_b", "o");
        alias(c, "lse_b", "lse");
    } else {
        num_add_heads(c, "o", c->subject->dtype, width, c->shape.out);
        add_lse(c, "lse", c->shape.in);
    }
}

/* The LSE of side 0 or 1 of the i-th (token, head) pair. */
static double make_lse(struct num_case *c, int64_t token, int64_t head,
                       int side)
{
    static const double kinds[] = {1, -INFINITY, INFINITY, NAN};
    int64_t heads = c->subject->info.heads;
    double lse = 3 * num_normal(&c->rng), kind;

    if (num_is(c, NUM_GRID_LSE))
        lse += 100.0 * (double)token + (double)head;
    if (num_is(c, NUM_HUGE_LSE))
        lse += num_below(&c->rng, 2) ? 3e4 : -3e4;
    if (!num_is(c, NUM_EMPTY_LSE))
        return lse;
    kind = kinds[(token * heads + head) >> (2 * side) & 3];
    return kind == 1 ? lse : kind;
}

/* The payload of an empty side: dead, or, where the output lies on top of it
 * and so has to be live, filled with NaN. */
static void spoil(struct num_tensor *o, int64_t token, int64_t head)
{
    if (!o->output) {
        num_kill(o, token, head, 0, o->width);
        return;
    }
    for (int64_t k = 0; k < o->width; k++)
        num_set_bits(o->elem, num_at(o, token, head, k),
                     num_poison_bits(o->elem, NUM_POISON_NAN));
}

/* Each side by itself: its output, its LSE, and payloads that must not
 * count. */
static void build_merge(struct num_case *c)
{
    static const char *const o_name[] = {"o_a", "o_b"};
    static const char *const lse_name[] = {"lse_a", "lse_b"};

    merge_tensors(c);
    num_seal_all(c);
    for (int side = 0; side < 2; side++) {
        struct num_tensor *o = num_tensor_of(c, o_name[side]);
        struct num_tensor *lse = num_tensor_of(c, lse_name[side]);
        num_fill_normal(o, 1, &c->rng);
        for (int64_t r = 0; r < lse->rows; r++) {
            const int64_t *i = lse->row[r].index;
            double value = make_lse(c, i[0], i[1], side);
            num_set(lse, i[0], i[1], 0, value);
            if (oracle_lse_empty(value))
                spoil(o, i[0], i[1]);
        }
    }
}

/* What the two LSEs of a pair say. */
struct merged {
    double weight_a, weight_b, lse;
    const char *only; /* "a" or "b" if the other side alone is empty */
    bool none;        /* both are */
};

/* Weights and LSE of the pair at i, from the inputs as they were given. */
static struct merged merge(const struct num_case *c, const int64_t *i)
{
    const struct num_model *m = c->subject->model;
    double a = num_get(num_tensor_of(c, "lse_a"), i[0], i[1], 0);
    double b = num_get(num_tensor_of(c, "lse_b"), i[0], i[1], 0);
    struct merged out = {0};

    oracle_merge(a, b, m->lse_base, m->lse_empty, &out.weight_a,
                 &out.weight_b, &out.lse);
    out.none = oracle_lse_empty(a) && oracle_lse_empty(b);
    if (!out.none && oracle_lse_empty(a))
        out.only = "b";
    else if (!out.none && oracle_lse_empty(b))
        out.only = "a";
    return out;
}

/* One logarithm and one sum of two: two roundings of a value as large as the
 * larger LSE, and the logarithm's own 2^-21. */
static void lse_row(const struct num_case *c, const int64_t *index,
                    struct num_expect *e)
{
    struct merged m = merge(c, index);
    unsigned char raw[4];

    if (m.none || m.only) {
        num_encode(NUM_F32, raw, m.lse);
        num_expect_bits(e, 0, num_bits(NUM_F32, raw));
    } else {
        num_expect_value(e, 0, NUM_F32, m.lse, 1e-6 + 0x1p-21 * fabs(m.lse));
    }
}

/* Weights carry the error of an exponential, of a difference of two LSEs
 * (times at most 20, where the smaller weight still shows) and of a
 * division: 2^-18 of each term. */
static void output_row(const struct num_case *c, const struct num_tensor *t,
                       const int64_t *i, struct num_expect *e)
{
    const struct num_tensor *a = num_tensor_of(c, "o_a");
    const struct num_tensor *b = num_tensor_of(c, "o_b");
    struct merged m = merge(c, i);

    for (int64_t k = 0; k < t->width; k++) {
        const struct num_tensor *from = m.only && *m.only == 'a' ? a : b;
        if (m.none || m.only) {
            num_expect_bits(e, k,
                            m.none ? 0
                                   : num_bits(t->elem,
                                              num_at(from, i[0], i[1], k)));
        } else {
            double x = m.weight_a * num_get(a, i[0], i[1], k);
            double y = m.weight_b * num_get(b, i[0], i[1], k);
            num_expect_value(e, k, t->elem, x + y,
                             0x1p-18 * (fabs(x) + fabs(y)));
        }
    }
}

static void merge_row(const struct num_case *c, const struct num_tensor *t,
                      const int64_t *index, struct num_expect *e)
{
    if (t == num_tensor_of(c, "lse"))
        lse_row(c, index, e);
    else
        output_row(c, t, index, e);
}

/* Thread instructions per token. */
static double merge_work(const struct num_subject *s)
{
    double width = strcmp(s->info.variant, "latent") ? s->info.v
                                                     : s->info.latent;
    return 16 * s->info.heads * width;
}

static const struct num_shape merge_shapes[] = {
    {"strides", 5, NUM_PADDED, NUM_SWAPPED, 0, false},
    {"strides", 3, NUM_SWAPPED, NUM_PADDED, 0, false},
    {"strides", 2, NUM_INTERLEAVED, NUM_TIGHT, 0, false},
    {"lse layout", 20, NUM_SWAPPED, NUM_TIGHT, NUM_GRID_LSE, false},
    {"lse layout", 9, NUM_TIGHT, NUM_SWAPPED, NUM_GRID_LSE, false},
    {"empty sides", 17, NUM_PADDED, NUM_TIGHT, NUM_EMPTY_LSE, false},
    {"huge lse", 5, NUM_TIGHT, NUM_PADDED, NUM_HUGE_LSE, false},
    {"in place", 7, NUM_PADDED, NUM_TIGHT, NUM_IN_PLACE_A, false},
    {"in place", 7, NUM_TIGHT, NUM_SWAPPED, NUM_IN_PLACE_B, false},
    {"in place", 17, NUM_TIGHT, NUM_PADDED, NUM_IN_PLACE_A | NUM_EMPTY_LSE,
     false},
    {"in place", 17, NUM_TIGHT, NUM_PADDED, NUM_IN_PLACE_B | NUM_EMPTY_LSE,
     false},
    {"poison", 7, NUM_PADDED, NUM_PADDED, NUM_ALL_POISONS | NUM_EMPTY_LSE,
     false},
    {"far", 3, NUM_FAR_OUTER, NUM_FAR_OUTER, 0, false},
    {"far", 2, NUM_FAR_INNER, NUM_FAR_INNER, 0, false},
    {"alone", 9, NUM_PADDED, NUM_SWAPPED, NUM_WINDOWS, false},
};

const struct num_family num_merge_state = {
    .name = "merge_state",
    .bar = "2^-p|y| + 2^-18 w|o|; lse 1e-6 + 2^-21|y|",
    .build = build_merge,
    .row = merge_row,
    .token_work = merge_work,
    NUM_SHAPES(merge_shapes),
};

/* The families that have cases of this form; NULL: none of that name. */
const struct num_family *num_family_find(const char *name)
{
    static const struct num_family *const all[] = {
        &num_kv_append, &num_kv_gather, &num_concat_mla_k,
        &num_derive_weights, &num_absorb_q, &num_absorb_v, &num_merge_state,
        &num_merge_state_n, &num_kv_b, &num_gemm, &num_rms_norm,
        &num_rope_q};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

/* "family_kind" first, kind being the variant up to its first '_': the n-rank
 * merge is a family of its own here. */
const struct num_family *num_family_of(const struct num_subject *s)
{
    const struct num_family *f;
    char name[NUM_NAME];
    int kind = (int)strcspn(s->info.variant, "_");

    snprintf(name, sizeof(name), "%s_%.*s", s->info.family, kind,
             s->info.variant);
    f = num_family_find(name);
    return f ? f : num_family_find(s->info.family);
}
