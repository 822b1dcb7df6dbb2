/* SPDX-License-Identifier: Apache-2.0
 *
 * mha.h: cases of mha, attention over requests of unlike lengths.
 *
 * A case is a num_case whose tokens are the query tokens of all requests, one
 * after the other; its keys are those of all requests, with a foreign row
 * before the first and behind the last.  A run over a window of tokens is a
 * batch of its own: the requests are cut at both ends, and in a causal case the
 * last one loses the keys that only the tokens behind the window see.
 */
#ifndef NUM_MHA_H
#define NUM_MHA_H

#include "family.h"
#include "suite.h"

struct mha_request {
    int q, k; /* tokens */
};

/* What queries, keys and values are made of. */
enum mha_values {
    MHA_NORMAL,    /* independent normal numbers */
    MHA_GROWING,   /* scores that grow, fall or stay with the key, by row */
    MHA_CONSTANT,  /* equal scores; each key's value in a column of its own */
    MHA_HUGE,      /* scores of +-3e4; the sign changes at half the keys */
    MHA_UNCHECKED, /* normal numbers, and no answers: for a bench */
    MHA_VALUES
};

/* Beside NUM_ALL_POISONS, NUM_WINDOWS, NUM_CLAMPED and NUM_ONE_BUFFER (k_nope
 * and v are the halves of kv_b's output) of case.h. */
enum mha_flag {
    MHA_CAUSAL = 1 << 25,
    MHA_NO_LSE = 1 << 26,
    MHA_SHIFTED = 1 << 27, /* requests begin far into their tensors */
    MHA_LONG = 1 << 28,    /* max_q beyond the longest request */
    MHA_ALWAYS = 1 << 29   /* runs however many heads there are */
};

struct mha_shape {
    const char *group;
    const struct mha_request *request;
    int batch;
    enum mha_values values;
    enum num_layout q, k, v, out, lse;
    unsigned flags;
    bool full_only;
};

#define MHA_REQUESTS(...)                                                      \
    .request = (const struct mha_request[]){__VA_ARGS__},                      \
    .batch = sizeof((const struct mha_request[]){__VA_ARGS__}) /               \
             sizeof(struct mha_request)

/* What a case keeps beside its tensors (num_case.own). */
struct mha_own {
    const struct mha_shape *shape;
    int64_t keys; /* of all requests */
    /* Of each head and key [v | k], decoded; see mha_answer.c. */
    float *rows;
    struct mha_lse {
        double value, tolerance;
    } * lse; /* [tokens][heads], as the oracle finds them */
};

/* Where a request begins and what it has. */
struct mha_place {
    int64_t request, token; /* of the request */
    int64_t first_token, first_key;
    int64_t q, k;
};

/* The request of a query token of the case. */
struct mha_place mha_place_of(const struct num_case *c, int64_t token);

static inline bool mha_is(const struct num_case *c, enum mha_flag flag)
{
    return (c->shape.flags & (unsigned)flag) != 0;
}

struct num_case *mha_case_make(const struct num_subject *s,
                               const struct mha_shape *shape, uint64_t seed);
void mha_case_free(struct num_case *c);

/* Fills the tensors and the decoded rows (mha_values.c). */
void mha_fill(struct num_case *c);

/* What a row of `out` or `lse` has to be (mha_answer.c). */
void mha_row(const struct num_case *c, const struct num_tensor *t,
             const int64_t *index, struct num_expect *e);

extern const struct num_family mha_family;

/* Runs the cases of an mha and prints its rows.  False: it is none. */
bool mha_suite_run(struct num_device *device, struct num_subject *s,
                   const struct num_options *options,
                   struct num_totals *totals);

#endif
