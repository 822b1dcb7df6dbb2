/* SPDX-License-Identifier: Apache-2.0
 *
 * case.h: one call of one kernel: its buffers, its scalars, and its answer.
 *
 * A family of kernels is described by a builder, which makes the tensors of a
 * shape and fills them, and a row oracle, which says what one row of one
 * output has to be.  Everything else (placing, poisoning, launching,
 * comparing) is the same for all families and lives in run.c.
 */
#ifndef NUM_CASE_H
#define NUM_CASE_H

#include "oracle.h"
#include "rng.h"
#include "subject.h"
#include "tensor.h"

enum { NUM_MAX_TENSORS = 12, NUM_MAX_INTS = 24, NUM_MAX_WIDTH = 2048 };

/* What a case is about, beyond its token count and layouts.  A family reads
 * the flags that it knows; its table of shapes uses no others. */
enum num_flag {
    NUM_NO_NORM = 1 << 0,      /* norm_weight NULL */
    NUM_HOLES = 1 << 1,        /* negative slots, page ids */
    NUM_SPECIAL = 1 << 2,      /* NaN, Inf and subnormal values */
    NUM_BY_PAGE = 1 << 3,      /* gather through a block table */
    NUM_NO_STARTS = 1 << 4,    /* starts NULL */
    NUM_SHORT = 1 << 5,        /* fewer output rows than the lengths ask */
    NUM_EXCESS = 1 << 6,       /* more output rows than the lengths fill */
    NUM_FAR_IDS = 1 << 7,      /* page ids whose byte offset needs 64 bits */
    NUM_IN_PLACE_A = 1 << 8,   /* the output is the first input */
    NUM_IN_PLACE_B = 1 << 9,   /* the output is the second input */
    NUM_HUGE_LSE = 1 << 10,    /* +-3e4 */
    NUM_EMPTY_LSE = 1 << 11,   /* every pair of finite, -inf, +inf, NaN */
    NUM_GRID_LSE = 1 << 12,    /* 100 * token + head: shows a transpose */
    NUM_KC_TRANSPOSED = 1 << 13,
    NUM_VC_TRANSPOSED = 1 << 14,
    NUM_NO_KC = 1 << 15,
    NUM_NO_VC = 1 << 16,
    NUM_ALL_POISONS = 1 << 17, /* one run per poison */
    NUM_WINDOWS = 1 << 18,     /* parts of the batch, on their own */
    NUM_CLAMPED = 1 << 19,     /* a grid at its limit: kernels must loop */
    NUM_ONE_BUFFER = 1 << 24,  /* two outputs are views of one buffer */
    NUM_NO_RANKS = 1 << 25,
    NUM_MANY_RANKS = 1 << 26   /* more than the lanes of a row */
};

struct num_shape {
    const char *group;
    int64_t tokens;
    enum num_layout in, out;
    unsigned flags;
    bool full_only;
};

struct num_case;
struct num_device;
struct num_run;
struct num_verdict;

/* The expected content of one output row, by column. */
struct num_expect {
    bool exact[NUM_MAX_WIDTH]; /* bits decide, else value and tolerance */
    uint64_t bits[NUM_MAX_WIDTH];
    double value[NUM_MAX_WIDTH];
    double tolerance[NUM_MAX_WIDTH]; /* absolute */
};

struct num_family {
    const char *name;
    const char *bar; /* the tolerance in words, for the report */
    void (*build)(struct num_case *c);
    void (*row)(const struct num_case *c, const struct num_tensor *t,
                const int64_t *index, struct num_expect *out);
    /* The token that writes a row of an output without token axis. */
    int64_t (*owner)(const struct num_case *c, const struct num_tensor *t,
                     const int64_t *index);
    /* Rough cost of one token, and of a call, in elements moved. */
    double (*token_work)(const struct num_subject *s);
    double (*call_work)(const struct num_subject *s);
    /* What a run launches, with the addresses of the case's tensors; NULL:
     * the kernel, once.  False: the verdict says what went wrong. */
    bool (*launch)(struct num_device *d, struct num_case *c,
                   const struct num_run *run, const uint64_t *address,
                   struct num_verdict *v);
    /* Judges the outputs of the first run; NULL: row by row. */
    void (*judge)(struct num_case *c, struct num_verdict *v);
    const struct num_shape *shapes;
    int shape_count;
};

struct num_case {
    const struct num_subject *subject;
    const struct num_family *family;
    struct num_shape shape;
    struct num_rng rng;
    int tensors;
    struct num_tensor tensor[NUM_MAX_TENSORS];
    int ints;
    struct {
        const char *name;
        int64_t value;
    } integer[NUM_MAX_INTS];
    unsigned nulls; /* names in null_field */
    const char *null_field[NUM_MAX_INTS];
    double norm_eps, softmax_scale, factor;
    int64_t first_token, tokens; /* of the whole batch: 0, shape.tokens */
    float *weights; /* matmul families: decoded, [H][depth][width] */
    void *own;      /* what the family keeps; the builder's caller frees it */
};

/* Builds the case of a shape from a seed. */
struct num_case *num_case_make(const struct num_subject *s,
                               const struct num_family *family,
                               const struct num_shape *shape, uint64_t seed);
void num_case_free(struct num_case *c);

/* The family of that name, or NULL. */
const struct num_family *num_family_find(const char *name);

/* The family that a kernel is tested as, or NULL: <family>_<variant up to its
 * first underscore> where there is one, else <family>. */
const struct num_family *num_family_of(const struct num_subject *s);

/* For builders: a vector, rows with one stride, rows per head, and the last
 * with the shape's layout.  The argument must exist in the kernel; its access,
 * alignment and stride unit come from the manifest. */
struct num_tensor *num_add_vector(struct num_case *c, const char *field,
                                  enum num_elem elem, int64_t width);
struct num_tensor *num_add_rows(struct num_case *c, const char *field,
                                const char *stride_field, enum num_elem elem,
                                int64_t n, int64_t width,
                                enum num_layout layout);
struct num_tensor *num_add_grid(struct num_case *c, const char *field,
                                const char *outer_stride,
                                const char *inner_stride, enum num_elem elem,
                                int64_t n0, int64_t n1, int64_t width,
                                enum num_layout layout);
/* [tokens][heads][width] with <field>_token_stride and _head_stride. */
struct num_tensor *num_add_heads(struct num_case *c, const char *field,
                                 enum num_elem elem, int64_t width,
                                 enum num_layout layout);
/* [tokens][width] with <field>_stride. */
struct num_tensor *num_add_tokens(struct num_case *c, const char *field,
                                  int64_t width, enum num_layout layout);

void num_add_int(struct num_case *c, const char *name, int64_t value);
void num_add_null(struct num_case *c, const char *field);
bool num_is(const struct num_case *c, enum num_flag flag);

/* The tensor that an argument points to, or NULL. */
struct num_tensor *num_tensor_of(const struct num_case *c, const char *field);

/* positions and cos_sin for the case's tokens, if the kernel rotates. */
void num_add_angles(struct num_case *c);
void num_fill_angles(struct num_case *c);

/* Ends the declaration of tensors: those without claims are wholly live. */
void num_seal_all(struct num_case *c);

/* For row oracles. */
void num_expect_bits(struct num_expect *e, int64_t column, uint64_t bits);
/* A value rounded once, plus an absolute allowance. */
void num_expect_value(struct num_expect *e, int64_t column,
                      enum num_elem elem, double value, double allowance);
/* Columns [column, column + dim): the rotary part of a row, from x, times
 * factor. */
void num_expect_rope(const struct num_case *c, struct num_expect *e,
                     int64_t column, const struct num_tensor *x, int64_t token,
                     int64_t i1, double factor);
/* The same where the rotary part of x begins at its column `from`. */
void num_expect_rope_at(const struct num_case *c, struct num_expect *e,
                        int64_t column, const struct num_tensor *x,
                        int64_t token, int64_t i1, int64_t from,
                        double factor);
/* The model's factor of q at a token's position; 1 without one. */
double num_position_factor(const struct num_case *c, int64_t token);

#endif
