/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalent.c: mutants that nothing can notice, and why.
 */
#include <string.h>

#include "mutation.h"

#define SAME_SUM "the same accumulators again; ptxas would put one there "\
                 "(C7519)"

/* Of all kernels but mqa_decode's on sm_90a.  nth: among the sites of that
 * opcode and kind; nope, v: widths of a head, 0 for any.
 *
 * An edit of a kernel, or another NVRTC, may shift nth.  That does not go
 * unseen: a listed mutant that is noticed is a failure too (main.c), and so is
 * the one that has slipped off the list.
 *
 * A reason that names the virtual GPU says what it cannot show, not that a GPU
 * could do without the instruction. */
static const struct equivalent {
    const char *family, *variant, *opcode;
    int nth;
    enum mutation_kind kind;
    const char *reason;
    int nope, v;
} equivalents[] = {
#define UPPER_WORDS "a unit has less than 2^31 tiles, items and slots: of one "\
                    "or two the upper word is 0"
    {"decode_plan", "", "shfl.sync.up.b32", 21, MUTATION_OWN_VALUE,
     UPPER_WORDS, 0, 0},
    {"decode_plan", "", "shfl.sync.up.b32", 23, MUTATION_OWN_VALUE,
     UPPER_WORDS, 0, 0},
    {"decode_plan", "", "shfl.sync.up.b32", 41, MUTATION_OWN_VALUE,
     UPPER_WORDS, 0, 0},
    {"decode_plan", "", "shfl.sync.up.b32", 43, MUTATION_OWN_VALUE,
     UPPER_WORDS, 0, 0},
    {"decode_plan", "", "shfl.sync.up.b32", 61, MUTATION_OWN_VALUE,
     UPPER_WORDS, 0, 0},
    {"decode_plan", "", "shfl.sync.up.b32", 63, MUTATION_OWN_VALUE,
     UPPER_WORDS, 0, 0},
#undef UPPER_WORDS
#define REUSE "ldmatrix before TMA's write: mbarriers order the two; the "\
              "virtual GPU counts a missing proxy fence there and goes on"
#define PTXAS_FENCE "the batch before has a fence that covers its registers; "\
                    "ptxas would put one there (C7519)"
#define LAST_ARRIVAL "takes up the other's last arrival: nothing waits for it"
#define TURN "turns order products, on which only time depends"
#define LATE "keeps a warpgroup that does not read a stage from releasing it "\
             "twice before the other one has; the virtual GPU's TMA lands "\
             "only when nobody else can go on, and the other has by then"
#define SPARES "spares a warp the scaling of O: rows whose maximum did not "\
               "rise have the factor 1"
#define TRY_WAIT "mbarrier.try_wait.parity.shared::cta.b64"
    {"mha", "", "fence.proxy.async.shared::cta", 1, MUTATION_REMOVED,
     REUSE, 0, 0},
    {"mha", "", "wgmma.fence.sync.aligned", 3, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"mha", "", "barrier.cta.sync.aligned", 6, MUTATION_REMOVED,
     LAST_ARRIVAL, 0, 0},
    {"mha", "", "vote.sync.any.pred", 1, MUTATION_OWN_VOTE, SPARES, 0, 0},
    {"mha", "concat", "vote.sync.any.pred", 1, MUTATION_OWN_VOTE, SPARES, 0,
     0},
    {"mha", "", TRY_WAIT, 6, MUTATION_NO_WAIT, LATE, 128, 128},
    {"mha", "", TRY_WAIT, 6, MUTATION_NO_WAIT, LATE, 192, 128},
    {"mha", "", TRY_WAIT, 8, MUTATION_NO_WAIT, LATE, 192, 128},
    {"mha", "", TRY_WAIT, 5, MUTATION_NO_WAIT, LATE, 192, 256},
    {"mha", "", TRY_WAIT, 6, MUTATION_NO_WAIT, LATE, 192, 256},
    {"mha", "concat", "fence.proxy.async.shared::cta", 1, MUTATION_REMOVED,
     REUSE, 0, 0},
    {"mha", "concat", "wgmma.fence.sync.aligned", 3, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"mha", "concat", "barrier.cta.sync.aligned", 6, MUTATION_REMOVED,
     LAST_ARRIVAL, 0, 0},
    {"mha", "concat", TRY_WAIT, 6, MUTATION_NO_WAIT, LATE, 128, 128},
    {"mha", "concat", TRY_WAIT, 6, MUTATION_NO_WAIT, LATE, 192, 128},
    {"mha", "concat", TRY_WAIT, 8, MUTATION_NO_WAIT, LATE, 192, 128},
    {"mha", "concat", TRY_WAIT, 5, MUTATION_NO_WAIT, LATE, 192, 256},
    {"mha", "concat", TRY_WAIT, 6, MUTATION_NO_WAIT, LATE, 192, 256},
    {"kv_b", "", "fence.proxy.async.shared::cta", 1, MUTATION_REMOVED, REUSE,
     0, 0},
    {"kv_b", "", "barrier.cta.sync.aligned", 1, MUTATION_REMOVED, TURN, 0, 0},
    {"kv_b", "", "barrier.cta.sync.aligned", 2, MUTATION_REMOVED, TURN, 0, 0},
    {"kv_b", "", "barrier.cta.sync.aligned", 3, MUTATION_REMOVED,
     LAST_ARRIVAL, 0, 0},
    {"kv_b", "", "wgmma.fence.sync.aligned", 2, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"kv_b", "", "wgmma.fence.sync.aligned", 3, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"kv_b", "", "wgmma.fence.sync.aligned", 4, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"kv_b", "", "wgmma.fence.sync.aligned", 5, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"kv_b", "", "wgmma.fence.sync.aligned", 6, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"kv_b", "", "wgmma.fence.sync.aligned", 7, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
    {"kv_b", "", "wgmma.fence.sync.aligned", 8, MUTATION_REMOVED,
     PTXAS_FENCE, 0, 0},
#undef REUSE
#undef PTXAS_FENCE
#undef LAST_ARRIVAL
#undef TURN
#undef LATE
#undef SPARES
#undef TRY_WAIT
};

/* Those of mqa_decode on sm_90a, where nth below 0 counts from the last, which
 * is -1: the geometries differ in what comes first.  Pages of less than 8 keys
 * have no barrier for zeros in V, which is -2 (in_list). */
enum { ZEROS = -2, WHOLE_PAGES = 8 };
static const struct equivalent hopper_decode[] = {
    {"mqa_decode", "", "barrier.cta.red.and.aligned.pred", 1,
     MUTATION_OWN_VOTE,
     "warps that store P at different places issue the same wgmmas; on a GPU "
     "one's could stand in the way of the others'", 0, 0},
    {"mqa_decode", "", "barrier.cta.red.and.aligned.pred", 1,
     MUTATION_NO_VOTE, "as its own vote", 0, 0},
    {"mqa_decode", "", "barrier.cta.sync.aligned", -8, MUTATION_REMOVED,
     "a warp's part of a wgmma reads the rows of Q that it has written; the "
     "PTX ISA does not promise that", 0, 0},
    {"mqa_decode", "", "barrier.cta.sync.aligned", -4, MUTATION_REMOVED,
     "takes up the values groups' last arrival: nothing waits for it", 0, 0},
    {"mqa_decode", "", "barrier.cta.sync.aligned", -1, MUTATION_REMOVED,
     "holds work of the tensor cores back, no data", 0, 0},
    {"mqa_decode", "", "wgmma.fence.sync.aligned", -1, MUTATION_REMOVED,
     SAME_SUM, 0, 0},
};

/* And those of its two alternating groups: the second half of S, per group. */
static const struct equivalent alternating_decode[] = {
    {"mqa_decode", "", "wgmma.fence.sync.aligned", 2, MUTATION_REMOVED,
     SAME_SUM, 0, 0},
    {"mqa_decode", "", "wgmma.fence.sync.aligned", 6, MUTATION_REMOVED,
     SAME_SUM, 0, 0},
};
enum { ALTERNATING_THREADS = 256 };

/* Whether the site is the entry's, whatever the kernel. */
static bool is_site(const struct equivalent *e, const struct mutation_site *s)
{
    int nth = e->nth < 0 ? s->of + 1 + e->nth : e->nth;

    return strcmp(e->opcode, s->opcode) == 0 && nth == s->nth &&
           e->kind == s->kind;
}

/* The reason in a list whose entries hold for every variant, or NULL. */
static const char *in_list(const struct equivalent *list, size_t count,
                           bool zeros, const struct mutation_site *s)
{
    for (size_t i = 0; i < count; i++) {
        struct equivalent e = list[i];

        if (!zeros && e.nth < ZEROS &&
            strcmp(e.opcode, "barrier.cta.sync.aligned") == 0)
            e.nth++;
        if (is_site(&e, s))
            return e.reason;
    }
    return NULL;
}

#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))

static const char *in_hopper_decode(const mla_kernel_info *k,
                                    const struct mutation_site *s)
{
    bool zeros = k->page_size >= WHOLE_PAGES;

    return k->block[0] == ALTERNATING_THREADS
               ? in_list(alternating_decode, LENGTH(alternating_decode), zeros,
                         s)
               : in_list(hopper_decode, LENGTH(hopper_decode), zeros, s);
}

const char *mutation_equivalent(const mla_kernel_info *k,
                                const struct mutation_site *s)
{
    for (size_t i = 0; i < LENGTH(equivalents); i++) {
        const struct equivalent *e = &equivalents[i];
        if (strcmp(e->family, k->family) == 0 &&
            strcmp(e->variant, k->variant) == 0 &&
            (!e->nope || (e->nope == k->nope && e->v == k->v)) &&
            is_site(e, s))
            return e->reason;
    }
    return strcmp(k->family, "mqa_decode") == 0 &&
                   strcmp(k->arch, "sm_90a") == 0
               ? in_hopper_decode(k, s)
               : NULL;
}
