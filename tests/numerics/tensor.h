/* SPDX-License-Identifier: Apache-2.0
 *
 * tensor.h: the host's image of one device buffer.
 *
 * A tensor is up to two axes with any strides over rows of contiguous
 * elements.  Which rows, or parts of rows, a call may use is recorded: only
 * those are live.  Everything else in the buffer is foreign, is filled with
 * poison before a run, and must come back untouched.
 *
 * The image is kept in extents.  A dense tensor has one, its whole span; a
 * sparse one (strides of gigabytes) has a small one around each live row.
 */
#ifndef NUM_TENSOR_H
#define NUM_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elem.h"
#include "rng.h"

enum { NUM_AXES = 2, NUM_NAME = 48, NUM_NO_AXIS = -1, NUM_ROW_AXIS = 2 };

/* How a tensor of [tokens][heads][width] or [tokens][width] lies in memory. */
enum num_layout {
    NUM_TIGHT,      /* packed */
    NUM_PADDED,     /* gaps after each row and each token */
    NUM_SWAPPED,    /* heads outermost */
    NUM_INTERLEAVED, /* rows of several layers side by side */
    NUM_LAYOUTS,
    NUM_FAR_OUTER = NUM_LAYOUTS, /* sparse: axis 0 spans 4 GiB */
    NUM_FAR_INNER                /* sparse: axis 1 does */
};

struct num_extent {
    int64_t offset, bytes;
    unsigned char *data; /* values of the live bytes */
    unsigned char *live; /* 1: the call may use the byte */
    unsigned char *mask; /* the same for the tokens of the current run */
    unsigned char *sent; /* image of the last run */
    unsigned char *kept; /* outputs: live bytes of the first run */
};

struct num_row {
    int64_t index[NUM_AXES];
};

struct num_tensor {
    char field[NUM_NAME];  /* the argument that points to it */
    char alias[NUM_NAME];  /* a second argument that does, or "" */
    int64_t alias_offset;  /* bytes from the first's rows to the second's */
    enum num_elem elem;
    int axes;
    int64_t n[NUM_AXES], stride[NUM_AXES]; /* bytes */
    char stride_field[NUM_AXES][NUM_NAME];
    int64_t width; /* elements of a row */
    int token_axis; /* axis that counts tokens, NUM_ROW_AXIS, NUM_NO_AXIS */
    int64_t align;  /* what the kernel asks of the address */
    bool input, output; /* both: updated in place */
    bool sparse;
    bool foreign; /* not one row is the call's: none is claimed by default */
    bool scratch; /* a workspace: what a run leaves there is not judged */
    int64_t span; /* bytes from the first to the last element */
    int64_t rows, row_room;
    struct num_row *row;
    int extents;
    struct num_extent *extent;
    uint64_t address; /* of the current run */
};

/* Sets the strides for a layout, as multiples of `unit` bytes; n, width and
 * elem are given. */
void num_lay_out(struct num_tensor *t, enum num_layout layout, int64_t unit,
                 struct num_rng *rng);

/* Declares a row live; out of memory aborts (tests have no other way on). */
void num_claim(struct num_tensor *t, int64_t i0, int64_t i1);
void num_claim_all(struct num_tensor *t);

/* Computes the span and makes the extents; no claim may follow. */
void num_seal(struct num_tensor *t);
void num_tensor_free(struct num_tensor *t);

/* The extent that holds an element of a claimed row, and where in it;
 * num_seal must have been called. */
struct num_extent *num_locate(const struct num_tensor *t, int64_t i0,
                              int64_t i1, int64_t column, int64_t *within);

/* Address of an element in the image. */
unsigned char *num_at(const struct num_tensor *t, int64_t i0, int64_t i1,
                      int64_t column);

double num_get(const struct num_tensor *t, int64_t i0, int64_t i1,
               int64_t column);
void num_set(struct num_tensor *t, int64_t i0, int64_t i1, int64_t column,
             double value);

/* Takes `count` elements of a row out of the live set. */
void num_kill(struct num_tensor *t, int64_t i0, int64_t i1, int64_t column,
              int64_t count);

/* Fills the live rows with normal numbers times scale. */
void num_fill_normal(struct num_tensor *t, double scale, struct num_rng *rng);

/* Fills the live rows with random bits: every kind of NaN, infinity and
 * subnormal included.  For copies, which must keep them. */
void num_fill_bits(struct num_tensor *t, struct num_rng *rng);

/* Decodes one row into doubles. */
void num_get_row(const struct num_tensor *t, int64_t i0, int64_t i1,
                 double *out);

/* Bytes of the image that are live: the least that a kernel has to move. */
int64_t num_live_bytes(const struct num_tensor *t);

void *num_alloc(size_t bytes); /* zeroed; aborts when there is none */

#endif
