/* SPDX-License-Identifier: Apache-2.0
 *
 * subject.h: the kernel under test, and what its spec promises.
 */
#ifndef NUM_SUBJECT_H
#define NUM_SUBJECT_H

#include "elem.h"
#include "mla.h"
#include "oracle.h"

enum { NUM_MAX_PAIRS = 128 };

struct num_model {
    struct oracle_rope rope;
    double short_factor[NUM_MAX_PAIRS], long_factor[NUM_MAX_PAIRS];
    double norm_eps;
    int q_lora_rank;                    /* 0: no compression of q */
    double latent_factor;               /* of the normed latent; 1: none */
    double q_factor;                    /* of the normed compressed q */
    double factor_beta, factor_original; /* of q, by position; beta 0: none */
    double lse_base, lse_empty; /* e or 2; -inf or +inf */
};

struct num_subject {
    mla_context *ctx;
    mla_kernel *kernel;
    int index; /* of the kernel in its directory */
    mla_kernel_info info;
    enum num_elem dtype;
    const struct num_model *model;
};

/* Reads the "spec" of a manifest's text.  Returns a static description of
 * what is missing, or NULL. */
const char *num_model_read(mla_context *ctx, const char *manifest,
                           struct num_model *out);

/* Fills a subject from the index-th kernel of a directory.  Returns a static
 * description of what is wrong, or NULL. */
const char *num_subject_read(mla_context *ctx, mla_kernels *set, int index,
                             const struct num_model *model,
                             struct num_subject *out);

/* The kernel's argument of that name; false if it has none. */
bool num_field(const struct num_subject *s, const char *name,
               mla_field_info *out);
bool num_has(const struct num_subject *s, const char *name);

#endif
