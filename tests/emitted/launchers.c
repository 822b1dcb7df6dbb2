/* SPDX-License-Identifier: Apache-2.0
 *
 * launchers.c: what an emitted launcher returns before it reaches the GPU.
 *
 * The numbers are CUDA's (cudaError_t): 1 cudaErrorInvalidValue, 716
 * cudaErrorMisalignedAddress.  No call here gets as far as a launch.
 */
#include <stdio.h>
#include <string.h>

#include "x-ecomla-smollm-135m/x-ecomla-smollm-135m.h"

#define MODEL(family) mla_##family##_x_ecomla_smollm_135m_bf16_h9_p64_sm_90a
#define LAUNCH_(symbol) symbol##_launch
#define LAUNCH__(symbol) LAUNCH_(symbol)
#define LAUNCH(family) LAUNCH__(MODEL(family))

enum { INVALID = 1, MISALIGNED = 716 };

static int failures;

static void check(const char *what, int got, int want) {
    if (got == want)
        return;
    printf("%s: %d, expected %d\n", what, got, want);
    failures++;
}

/* An address that is never read. */
static void *at(uintptr_t address) {
    return (void *)address;
}

static void concat(void) {
    struct mla_concat_mla_k_args a;
    memset(&a, 0, sizeof a);
    check("nothing to do", LAUNCH(concat_mla_k)(&a, 0), 0);
    check("no arguments", LAUNCH(concat_mla_k)(0, 0), INVALID);
    a.tokens = -1;
    check("tokens below 0", LAUNCH(concat_mla_k)(&a, 0), INVALID);
    a.tokens = 4;
    check("no pointers", LAUNCH(concat_mla_k)(&a, 0), INVALID);
    a.k_nope = at(0x1000);
    a.k_rope = at(0x2008);
    a.k = at(0x3000);
    check("pointer off 16", LAUNCH(concat_mla_k)(&a, 0), MISALIGNED);
    a.k_rope = at(0x2000);
    a.k_head_stride = 136;
    check("stride off 16", LAUNCH(concat_mla_k)(&a, 0), MISALIGNED);
}

static void gather(void) {
    struct mla_kv_gather_args a;
    memset(&a, 0, sizeof a);
    a.tokens = 1;
    a.kv_cache = at(0x1000);
    a.latent = at(0x2000);
    a.k_rope = at(0x3000);
    check("neither slots nor pages", LAUNCH(kv_gather)(&a, 0), INVALID);
    a.block_table = at(0x4000);
    check("pages without cu_seqlens", LAUNCH(kv_gather)(&a, 0), INVALID);
    a.cu_seqlens = at(0x5002);
    check("cu_seqlens off 4", LAUNCH(kv_gather)(&a, 0), MISALIGNED);
    a.batch = -1;
    check("batch below 0", LAUNCH(kv_gather)(&a, 0), INVALID);
}

static void append(void) {
    struct mla_kv_append_args a;
    memset(&a, 0, sizeof a);
    check("nothing to append", LAUNCH(kv_append)(&a, 0), 0);
    a.tokens = 1;
    a.latent = at(0x1000);
    a.k_rope = at(0x2000);
    a.cos_sin = at(0x3000);
    a.positions = at(0x4000);
    a.slots = at(0x5004);
    a.kv_cache = at(0x6000);
    check("slots off 8", LAUNCH(kv_append)(&a, 0), MISALIGNED);
    a.cos_sin = 0;
    check("no angles", LAUNCH(kv_append)(&a, 0), INVALID);
}

static void derive(void) {
    struct mla_derive_weights_args a;
    memset(&a, 0, sizeof a);
    check("no weights", LAUNCH(derive_weights)(&a, 0), INVALID);
    a.kv_b = at(0x1000);
    a.w_vc_transposed = 2;
    check("flag not 0 or 1", LAUNCH(derive_weights)(&a, 0), INVALID);
}

static void merge(void) {
    struct mla_merge_state_args a;
    memset(&a, 0, sizeof a);
    check("nothing to merge", LAUNCH(merge_state)(&a, 0), 0);
    check("nothing to merge", LAUNCH(merge_state_latent)(&a, 0), 0);
    a.tokens = 1;
    a.o_a = a.o_b = a.o = at(0x1000);
    a.lse_a = a.lse_b = at(0x2000);
    a.lse = at(0x2002);
    check("lse off 4", LAUNCH(merge_state)(&a, 0), MISALIGNED);
}

int main(void) {
    concat();
    gather();
    append();
    derive();
    merge();
    return failures != 0;
}
