/* SPDX-License-Identifier: Apache-2.0
 *
 * work.c: what mutants have to do, and who looks on.
 *
 * The cases are those of run-check, cut down: benign data, and scores that
 * grow from tile to tile, without which the slow path of the softmax would be
 * taken once and its barriers never be needed.  Every schedule of the virtual
 * GPU is tried until one shows a difference: in order, then at random with
 * copies that complete as late as they may.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "internal.h"
#include "mutation.h"
#include "nvrtc.h"

/* Schedule 0 is in order; the others are seeds.  EAGER: further ones in which
 * copies of TMA land early (tests/vgpu/launch.c), for which the decode kernels
 * of sm_90a have code of their own. */
enum { SCHEDULES = 6, EAGER = 2 };

/* Small, with several tiles of keys, split and whole; two of them move the
 * running maximum all the time.  The late spike, key 221, is alone in a tile
 * of 64 keys, too, and not the first lane's: others have to be told of it. */
static const struct decode_shape decode_work[] = {
    {.group = "benign", DECODE_LENGTHS(150, 20, 0), .q_len = 1, .ctas = 2,
     .split_tiles = 2},
    {.group = "growing", DECODE_LENGTHS(230, 40), .q_len = 2, .ctas = 2,
     .values = DECODE_GROWING},
    {.group = "spikes", DECODE_LENGTHS(130), .q_len = 3, .ctas = 1,
     .values = DECODE_SPIKES},
    {.group = "whole", DECODE_LENGTHS(448), .q_len = 1, .ctas = 1},
    {.group = "late spike", DECODE_LENGTHS(230), .q_len = 1, .ctas = 1,
     .values = DECODE_SPIKES},
};

static const struct decode_list_shape list_work[] = {
    {.group = "balanced", .batch = 70, .longest = 900, .q_len = 2, .rows = 16,
     .keys = 32, .ctas = 40},
    {.group = "chunks", .batch = 1100, .longest = 300, .q_len = 1,
     .rows = 64, .keys = 32, .ctas = 9, .split_tiles = 3},
    {.group = "endless", .batch = 4100, .longest = INT32_MAX, .q_len = 1,
     .rows = 64, .keys = 1, .ctas = 9},
};

/* Sums of items and slots beyond 2^32.  Totals saturate, so a lost carry shows
 * only if there was no other: three requests of nearly 2^31 single-key splits,
 * so placed that the block's prefix sum hands their carry on in one step, over
 * `lanes` lanes of the last warp or over `warps` warps. */
enum { BLOCK = 1024, WARP = 32, CARRIES = 8, ENDLESS = INT32_MAX - BLOCK };
static const struct {
    int lanes, warps;
} carry[CARRIES] = {{4, 0}, {8, 0}, {16, 0}, {0, 1},
                    {0, 2}, {0, 4}, {0, 8},  {0, 16}};
static int carry_length[CARRIES][BLOCK];
static struct decode_list_shape carry_work[CARRIES];

/* Where the three endless requests go, so that their sum crosses 2^32 just at
 * the step in question. */
static const struct decode_list_shape *carry_shape(int i)
{
    int last = BLOCK - 1 - carry[i].lanes - WARP * carry[i].warps;

    for (int k = 0; k < 3; k++)
        carry_length[i][last - k] = ENDLESS;
    carry_work[i] = (struct decode_list_shape){
        .group = "carry",      .batch = BLOCK,    .lengths = carry_length[i],
        .q_len = 1,            .rows = 64,        .keys = 1,
        .ctas = 9,             .split_tiles = 1,  .item_capacity = 1,
        .slot_capacity = 1};
    return &carry_work[i];
}

static const int splits[] = {2, 33, 0, 3};
static const struct decode_merge_shape merge_work[] = {
    {.group = "merge", .splits = splits, .kinds = 4, .batch = 3, .q_len = 2,
     .rows = 16, .flags = NUM_EMPTY_LSE},
};

static const struct num_shape plain_work[] = {
    {"mutation", 17, NUM_PADDED, NUM_PADDED, 0, false},
    {"mutation", 9, NUM_TIGHT, NUM_SWAPPED,
     NUM_KC_TRANSPOSED | NUM_VC_TRANSPOSED, false},
};

/* Requests of several tiles of rows and keys, rows and keys that are no whole
 * tiles, rows that see nothing, a request without keys, and one whose tiles
 * outnumber the stages while half of the rows do not exist. */
static const struct mha_shape mha_work[] = {
    {.group = "causal", MHA_REQUESTS({40, 30}, {150, 420}, {3, 0}),
     .flags = MHA_CAUSAL},
    {.group = "growing", MHA_REQUESTS({70, 300}, {130, 200}, {10, 900}),
     .values = MHA_GROWING},
};

static const struct num_shape kv_b_work[] = {
    {"mutation", 300, NUM_PADDED, NUM_PADDED, 0, false},
};

/* Blocks of a kernel that walks a list of items: few, so that each has
 * several. */
enum { WALKING = 2 };

#define LENGTH(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* Making ------------------------------------------------------------------ */

/* The kernel, and for mqa_decode its company; again after each new context. */
static int find(struct mutation_work *w, int index, const char **wrong)
{
    *wrong = num_subject_read(w->device->ctx, w->device->set, index, w->model,
                              &w->subject);
    if (!*wrong && strcmp(w->subject.info.family, "mqa_decode") == 0)
        *wrong = decode_kernels_find(w->device, index, w->model, &w->kernels);
    else if (!*wrong &&
             (w->subject.kernel->map_count ||
              strcmp(w->subject.info.family, "gemm") == 0) &&
             w->subject.kernel->grid[0].max > WALKING)
        w->subject.kernel->grid[0].max = WALKING;
    return *wrong == NULL;
}

static void make_lists(struct mutation_work *w)
{
    for (int i = 0; i < LENGTH(list_work); i++)
        w->c[w->cases++] = decode_list_make(&w->subject, &list_work[i],
                                            (uint64_t)i + 1);
    for (int i = 0; i < CARRIES; i++)
        w->c[w->cases++] = decode_list_make(&w->subject, carry_shape(i), 1);
}

static void make_plain(struct mutation_work *w, const struct num_shape *list,
                       int count)
{
    for (int i = 0; i < count; i++)
        w->c[w->cases++] =
            num_case_make(&w->subject, num_family_find(w->subject.info.family),
                          &list[i], (uint64_t)i + 1);
}

/* By family; those without a table of their own have token cases. */
static void make_cases(struct mutation_work *w)
{
    const char *family = w->subject.info.family;

    if (strcmp(family, "mqa_decode") == 0)
        for (int i = 0; i < LENGTH(decode_work); i++)
            w->c[w->cases++] = decode_case_make(&w->kernels, &decode_work[i],
                                                (uint64_t)i + 1);
    else if (strcmp(family, "decode_plan") == 0)
        make_lists(w);
    else if (strcmp(family, "mqa_combine") == 0)
        for (int i = 0; i < LENGTH(merge_work); i++)
            w->c[w->cases++] = decode_merge_make(&w->subject, &merge_work[i],
                                                 (uint64_t)i + 1);
    else if (strcmp(family, "mha") == 0)
        for (int i = 0; i < LENGTH(mha_work); i++)
            w->c[w->cases++] = mha_case_make(&w->subject, &mha_work[i],
                                             (uint64_t)i + 1);
    else if (strcmp(family, "kv_b") == 0)
        make_plain(w, kv_b_work, LENGTH(kv_b_work));
    else
        make_plain(w, plain_work, LENGTH(plain_work));
}

/* The whole kernel is checked with two schedules: a mutant is compared with
 * its answers, so they had better be right. */
const char *mutation_work_open(struct num_device *device, int index,
                               const struct num_model *model,
                               struct mutation_work *w)
{
    static struct num_verdict v;
    const char *wrong;

    memset(w, 0, sizeof(*w));
    memset(&v, 0, sizeof(v));
    w->device = device;
    w->model = model;
    if (!find(w, index, &wrong))
        return wrong;
    make_cases(w);
    for (int i = 0; i < w->cases && !v.failures; i++)
        num_check_case(device, w->c[i], 2, &v);
    return v.failures ? v.why : NULL;
}

/* Each kind of case has a destructor of its own. */
void mutation_work_close(struct mutation_work *w)
{
    for (int i = 0; i < w->cases; i++) {
        if (w->c[i]->family == &decode_list)
            decode_list_free(w->c[i]);
        else if (w->c[i]->family == &decode_merge)
            decode_merge_free(w->c[i]);
        else if (w->c[i]->family == &decode_pipeline)
            decode_case_free(w->c[i]);
        else if (w->c[i]->family == &mha_family)
            mha_case_free(w->c[i]);
        else
            num_case_free(w->c[i]);
    }
    w->cases = 0;
}

/* Code -------------------------------------------------------------------- */

/* Compiled afresh: the directory may hold machine code only. */
static char *ptx_of(mla_context *ctx, mla_kernel *k)
{
    struct mla__image image = {NULL, 0, MLA__PTX};
    char *source;
    size_t bytes;

    if (mla__read_file(ctx, k->owner->directory, k->source, k->source_hash,
                       &source, &bytes))
        return NULL;
    if (mla__nvrtc_compile(ctx, source, k->source, k->arch, MLA__PTX, &image))
        image.data = NULL;
    mla__free(ctx, source);
    return image.data;
}

char *mutation_ptx(struct mutation_work *w)
{
    return ptx_of(w->device->ctx, w->subject.kernel);
}

/* Puts other code in the kernel's place; a CUresult. */
static int replace(mla_context *ctx, mla_kernel *k, const char *ptx)
{
    struct mla__driver *driver = &ctx->driver;
    int result;

    if (mla_prepare(k) || mla__enter(ctx))
        return MLA__CUDA_NO_DEVICE;
    driver->module_unload(k->module);
    k->module = k->function = NULL;
    result = driver->module_load(&k->module, ptx, 0, NULL, NULL);
    if (!result)
        result = driver->module_function(&k->function, k->module, k->symbol);
    if (!result && k->smem_dynamic > MLA__SMEM_DEFAULT)
        result = driver->function_set(k->function, MLA__FUNC_MAX_DYNAMIC_SMEM,
                                      (int)k->smem_dynamic);
    mla__leave(ctx);
    return result;
}

/* Noticing ---------------------------------------------------------------- */

/* The first line of a verdict, and the first of the virtual GPU's report. */
static void describe(const struct num_verdict *v, char *what, size_t size)
{
    const char *report = strchr(v->why, '\n');
    const char *text = report ? report + 1 : v->why;

    snprintf(what, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* A failed kernel takes its context with it. */
static bool reopen(struct mutation_work *w, const char **wrong)
{
    return num_device_reopen(w->device) == MLA_OK &&
           find(w, w->subject.index, wrong);
}

static int schedules(const struct mutation_work *w)
{
    bool hopper = strcmp(w->subject.info.family, "mqa_decode") == 0 &&
                  strcmp(w->subject.info.arch, "sm_90a") == 0;
    return hopper ? SCHEDULES + EAGER : SCHEDULES;
}

static uint64_t seed_of(int schedule)
{
    return schedule < SCHEDULES ? (uint64_t)schedule * 77
                                : 3 + 8 * (uint64_t)(schedule - SCHEDULES);
}

/* The whole code is put back by nobody: the next mutant replaces it, and after
 * a fault the directory is loaded again. */
bool mutation_noticed(struct mutation_work *w, const char *ptx, char *what,
                      size_t size)
{
    const char *wrong = "the device is gone";
    struct num_verdict v = {0};
    int result = replace(w->device->ctx, w->subject.kernel, ptx);

    if (result) {
        snprintf(what, size, "the mutant does not load: %s",
                 num_device_error(w->device, result));
        return false;
    }
    for (int i = 0; i < schedules(w) && !v.failures; i++)
        for (int k = 0; k < w->cases && !v.failures; k++) {
            struct num_run run = {NUM_POISON_NAN, seed_of(i), 0,
                                  w->c[k]->tokens, false, false};
            num_run_once(w->device, w->c[k], &run, &v);
        }
    describe(&v, what, size);
    if (w->device->lost && !reopen(w, &wrong))
        snprintf(what, size, "%s", wrong);
    return v.failures > 0;
}
