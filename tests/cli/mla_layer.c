/* SPDX-License-Identifier: Apache-2.0
 *
 * mla_layer.c: what libmla's layer refuses, what it asks for, and that it
 * lives through every failing allocation.  Prints a line per finding; the
 * answers themselves are tests/numerics/forward_suite.c's business.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mla.h"

enum { HIDDEN = 64, POSITIONS = 256, PAGE = 16, WEIGHTS = 1 << 20 };

static mla_context *ctx;
static mla_kernels *set;
static mla_layer *layer;
static mla_pool *pool;
static mla_seq seqs[3];
static int32_t fresh[3] = {5, 20, 1};
static uint64_t memory, workspace;
static int64_t workspace_bytes;
static mla_layer_weights weights;
static mla_layer_states states;
static int wrong;

/* Device memory ----------------------------------------------------------- */

static int (*device_alloc)(uint64_t *, size_t);
static int (*device_set)(uint64_t, unsigned char, size_t);
static int (*device_wait)(void);

static int look_up(const char *name, void *slot)
{
    void *address;
    int status = mla_driver_symbol(ctx, name, &address);
    memcpy(slot, &address, sizeof(address));
    return status;
}

static int open_driver(void)
{
    int (*retain)(void **, int), (*set_current)(void *);
    mla_device_info info = {sizeof(info)};
    void *primary;
    return mla_device(ctx, &info) ||
           look_up("cuDevicePrimaryCtxRetain", &retain) ||
           look_up("cuCtxSetCurrent", &set_current) ||
           look_up("cuMemAlloc_v2", &device_alloc) ||
           look_up("cuMemsetD8_v2", &device_set) ||
           look_up("cuCtxSynchronize", &device_wait) ||
           retain(&primary, 0) || set_current(primary);
}

static uint64_t zeros(size_t bytes)
{
    uint64_t address = 0;
    if (device_alloc(&address, bytes) || device_set(address, 0, bytes))
        printf("no device memory\n");
    return address;
}

/* Reporting --------------------------------------------------------------- */

static void report(const char *what, int good)
{
    printf("%s: %s\n", what, good ? "ok" : "WRONG");
    wrong += !good;
}

/* The status, and a text that the error has to contain. */
static void expect(const char *what, mla_status got, mla_status want,
                   const char *text)
{
    int good = got == want && strstr(mla_last_error(ctx), text) != NULL;
    if (!good)
        printf("  %s, not %s: %s\n", mla_status_name(got),
               mla_status_name(want), mla_last_error(ctx));
    report(what, good);
}

/* Options ----------------------------------------------------------------- */

static mla_layer_options right_options(void)
{
    mla_layer_options o = {sizeof(o)};
    o.hidden_size = HIDDEN;
    o.cos_sin = memory;
    o.positions = POSITIONS;
    return o;
}

static mla_status create(mla_layer_options o)
{
    mla_layer *made = NULL;
    mla_status status = mla_layer_create(set, &o, &made);
    if (status && made)
        report("a failed create leaves no layer", 0);
    mla_layer_free(made);
    return status;
}

static void refuse_options(void)
{
    mla_layer_options o = right_options();
    o.hidden_size = 0;
    expect("no hidden size", create(o), MLA_INVALID_ARGUMENT, "hidden_size");
    o.hidden_size = 60;
    expect("a hidden size of 60", create(o), MLA_INVALID_ARGUMENT, "60");
    o = right_options();
    o.cos_sin = 0;
    expect("no angles", create(o), MLA_NULL_POINTER, "cos_sin");
    o = right_options();
    o.cos_sin_stride = 24;
    expect("angles in rows of 24 bytes", create(o), MLA_MISALIGNED,
           "cos_sin_stride");
    o = right_options();
    o.heads = 3;
    expect("a head count without kernels", create(o), MLA_NO_KERNEL, "'3'");
    o = right_options();
    o.gemm = 7;
    expect("an unknown gemm", create(o), MLA_INVALID_ARGUMENT, "'gemm'");
    o = right_options();
    o.gemm = MLA_GEMM_CUBLAS;
    o.cublas = "/no/such/library.so";
    expect("a cuBLAS that is not there", create(o), MLA_NO_CUBLAS,
           "/no/such/library.so");
    o = right_options();
    o.chunk_capacity = -1;
    expect("a negative capacity", create(o), MLA_RANGE, "chunk_capacity");
    report("no layer at all",
           mla_layer_create(NULL, &o, &layer) == MLA_INVALID_ARGUMENT);
}

/* Angles ------------------------------------------------------------------ */

/* theta 10000, 16 columns, no scaling: the angle of pair 3 at position 70. */
static void check_table(void)
{
    float table[3 * 16];
    double angle = 70 * pow(10000, -6.0 / 16);
    mla_status status = mla_rope_table(set, 69, 3, 0, table);
    report("a table of angles",
           !status && fabs(table[16 + 3] - cos(angle)) < 1e-6 &&
               fabs(table[16 + 8 + 3] - sin(angle)) < 1e-6);
    report("a table from before 0",
           mla_rope_table(set, -1, 3, 0, table) == MLA_INVALID_ARGUMENT);
}

/* Workspaces -------------------------------------------------------------- */

static int64_t bytes_for(int rows, int64_t tokens, int64_t expanded,
                         int64_t longest)
{
    mla_layer_limits m = {sizeof(m), rows, tokens, expanded, longest};
    int64_t bytes = -1;
    return mla_layer_workspace(layer, &m, &bytes) ? -1 : bytes;
}

static void check_workspaces(void)
{
    mla_layer_limits m = {sizeof(m), 2, 10, 100, 0};
    int64_t bytes;
    int good = 1;
    for (int i = 0; i < 3000 && good; i++) {
        int rows = 1 + rand() % 40;
        int64_t tokens = rows + rand() % 400, expanded = tokens + rand() % 500;
        int64_t longest = 1 + rand() % 5000;
        int64_t base = bytes_for(rows, tokens, expanded, longest);
        good = base > 0 && base <= bytes_for(rows + 1, tokens, expanded,
                                             longest) &&
               base <= bytes_for(rows, tokens + 1 + rand() % 50, expanded,
                                 longest) &&
               base <= bytes_for(rows, tokens, expanded + 1, longest) &&
               base <= bytes_for(rows, tokens, expanded, longest + 100) &&
               bytes_for(rows, tokens, 0, 0) < base;
    }
    report("a workspace grows with every limit", good);
    report("nothing needs nothing", bytes_for(0, 0, 0, 0) == 0);
    expect("no longest sequence", mla_layer_workspace(layer, &m, &bytes),
           MLA_RANGE, "max_seq_len");
    m.rows = -1;
    expect("negative rows", mla_layer_workspace(layer, &m, &bytes), MLA_RANGE,
           "'rows'");
}

/* Steps ------------------------------------------------------------------- */

static mla_layer_batch right_batch(void)
{
    mla_layer_batch b = MLA_LAYER_BATCH_INIT;
    b.seqs = seqs;
    b.q_lens = fresh;
    b.rows = 3;
    b.workspace = workspace;
    b.workspace_bytes = workspace_bytes;
    return b;
}

static mla_status begin(mla_layer_batch b)
{
    return mla_layer_begin(layer, pool, &b, NULL);
}

static mla_status forward(void)
{
    return mla_layer_forward(layer, &weights, 0, &states, NULL);
}

static mla_status make_pool(int page_size, int row_bytes, mla_pool **out)
{
    mla_pool_options o = MLA_POOL_OPTIONS_INIT;
    o.pages = 64;
    o.row_bytes = row_bytes;
    o.page_size = page_size;
    o.table_width = 16;
    o.max_tokens = 64;
    return mla_pool_create(ctx, &o, out);
}

static void refuse_batches(void)
{
    static const int32_t longer[3] = {5, 21, 1};
    mla_layer_batch b = right_batch();
    expect("forward before begin", forward(), MLA_INVALID_ARGUMENT,
           "mla_layer_begin");
    b.q_lens = longer;
    expect("more new tokens than there are", begin(b), MLA_RANGE, "row 1");
    b = right_batch();
    b.seqs = NULL;
    expect("rows without sequences", begin(b), MLA_INVALID_ARGUMENT, "seqs");
    b = right_batch();
    b.workspace = 0;
    expect("no workspace", begin(b), MLA_NULL_POINTER, "workspace");
    b.workspace = workspace + 16;
    expect("a misaligned workspace", begin(b), MLA_MISALIGNED, "workspace");
    b = right_batch();
    b.workspace_bytes = 4096;
    expect("a small workspace", begin(b), MLA_RANGE, "4096");
}

static void refuse_more_batches(void)
{
    static const int32_t many[3] = {2, 3, 1};
    static int64_t far[26];
    mla_layer_batch b = right_batch();
    mla_pool *other;
    far[25] = POSITIONS;
    b.positions = far;
    expect("a position beyond the table", begin(b), MLA_RANGE, "row 2");
    b = right_batch();
    b.method = MLA_METHOD_DSA_NPU;
    expect("a method without kernels", begin(b), MLA_NO_METHOD, "8");
    b = right_batch();
    b.padded = 5;
    b.q_lens = many;
    expect("padding of unequal rows", begin(b), MLA_INVALID_ARGUMENT,
           "row 1 has 3");
    b = right_batch();
    if (make_pool(32, 96, &other) == MLA_OK) {
        expect("a pool of other pages", mla_layer_begin(layer, other, &b, NULL),
               MLA_INVALID_ARGUMENT, "pages of 32");
        mla_pool_destroy(other);
    }
    b.rows = 0;
    b.workspace = 0;
    report("a batch of zero", begin(b) == MLA_OK && forward() == MLA_OK);
}

/* Weights ----------------------------------------------------------------- */

/* A member that is missing, misaligned, or has rows that overlap. */
static void refuse_one(const char *name, uint64_t *address, int64_t *stride)
{
    uint64_t kept = *address;
    char quoted[32], what[64];
    snprintf(quoted, sizeof(quoted), "'%s'", name);
    snprintf(what, sizeof(what), "%s is NULL", name);
    *address = 0;
    expect(what, forward(), MLA_NULL_POINTER, quoted);
    *address = kept + 2;
    snprintf(what, sizeof(what), "%s is misaligned", name);
    expect(what, forward(), MLA_MISALIGNED, quoted);
    *address = kept;
    if (!stride)
        return;
    *stride = 16;
    snprintf(what, sizeof(what), "%s has short rows", name);
    expect(what, forward(), MLA_RANGE, quoted);
    *stride = 0;
}

static void refuse_weights(void)
{
    const struct {
        const char *name;
        uint64_t *address;
        int64_t *stride;
    } list[] = {{"q_a", &weights.q_a, &weights.q_a_stride},
                {"kv_a", &weights.kv_a, &weights.kv_a_stride},
                {"q_a_norm", &weights.q_a_norm, NULL},
                {"q_b", &weights.q_b, &weights.q_b_stride},
                {"kv_b", &weights.kv_b, &weights.kv_b_row_stride},
                {"o", &weights.o, &weights.o_stride},
                {"in", &states.in, &states.in_stride},
                {"out", &states.out, &states.out_stride}};
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        refuse_one(list[i].name, list[i].address, list[i].stride);
    expect("a layer beyond the pool",
           mla_layer_forward(layer, &weights, 1, &states, NULL), MLA_RANGE,
           "no layer 1");
}

static void make_weights(void)
{
    weights.size = sizeof(weights);
    weights.q_a = weights.kv_a = weights.q_a_norm = weights.kv_a_norm = memory;
    weights.q_b = weights.kv_b = weights.o = memory;
    states.size = sizeof(states);
    states.in = memory;
    states.out = zeros(64 * HIDDEN * 2);
}

/* What begin says of the step. */
static void check_info(void)
{
    mla_layer_info info = {sizeof(info)};
    mla_status status = mla_layer_describe(layer, &info);
    report("what a layer is",
           !status && info.heads == 4 && info.page_size == PAGE &&
               info.q_lora_rank == 24 && info.latent == 32 &&
               info.row_bytes == 96 && info.hidden_size == HIDDEN);
    report("what a step is",
           info.tokens == 26 && info.workspace_bytes > 0 &&
               info.workspace_bytes <= workspace_bytes &&
               info.decision.rows == 3 && *info.decision.reason);
}

/* Allocations ------------------------------------------------------------- */

static long allocations, failing_at, alive;

static void *counting_alloc(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        alive -= block != NULL;
        free(block);
        return NULL;
    }
    if (++allocations == failing_at)
        return NULL;
    alive += block == NULL;
    return realloc(block, size);
}

/* A layer and a step in a context of their own, the n-th allocation of which
 * fails: an error that says so, or success, and nothing left. */
static mla_status try_all(const char *directory)
{
    mla_layer_options o = right_options();
    mla_layer_batch b = right_batch();
    mla_kernels *kernels = NULL;
    mla_layer *made = NULL;
    mla_status status = mla_load(ctx, directory, &kernels);
    if (!status)
        status = mla_layer_create(kernels, &o, &made);
    if (!status)
        status = mla_layer_begin(made, pool, &b, NULL);
    if (!status)
        status = mla_layer_forward(made, &weights, 0, &states, NULL);
    device_wait();
    mla_layer_free(made);
    mla_kernels_free(kernels);
    return status;
}

/* Whether a run with one failing allocation (0: none) ends as it may. */
static int survives(const char *directory, long n)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_status status = MLA_OUT_OF_MEMORY;
    int good;
    options.alloc = counting_alloc;
    allocations = alive = 0;
    failing_at = n;
    if (mla_context_create(&options, &ctx) == MLA_OK) {
        status = try_all(directory);
        good = status == MLA_OK || status == MLA_OUT_OF_MEMORY;
        if (!good)
            printf("  allocation %ld: %s\n", n, mla_last_error(ctx));
        mla_context_destroy(ctx);
    } else {
        good = n == 1;
    }
    if (alive)
        printf("  allocation %ld: %ld blocks are left\n", n, alive);
    return good && !alive && (n || !status);
}

/* The layer's come last; reading the manifest has thousands before them. */
static void fail_allocations(const char *directory)
{
    mla_context *kept = ctx;
    int good = survives(directory, 0);
    long all = allocations;
    for (long n = 1; n <= all && good; n += n < all - 300 ? 29 : 1)
        good = survives(directory, n);
    ctx = kept;
    report("allocations fail, the layer's each once", good && all > 300);
}

/* ------------------------------------------------------------------------- */

static int make(const char *directory)
{
    mla_layer_options o = right_options();
    if (mla_context_create(NULL, &ctx) || mla_load(ctx, directory, &set) ||
        open_driver())
        return -1;
    memory = zeros(WEIGHTS);
    o.cos_sin = memory;
    refuse_options();
    if (mla_layer_create(set, &o, &layer) || make_pool(PAGE, 96, &pool))
        return -1;
    for (int i = 0; i < 3; i++)
        if (mla_pool_add(pool, &seqs[i]))
            return -1;
    workspace_bytes = bytes_for(3, 26, 64, 64);
    workspace = zeros((size_t)workspace_bytes);
    make_weights();
    return mla_pool_extend(pool, seqs, fresh, 3, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 2 || make(argv[1])) {
        printf("%s\n", mla_last_error(ctx));
        return 1;
    }
    check_table();
    check_workspaces();
    refuse_batches();
    refuse_more_batches();
    report("a step begins", begin(right_batch()) == MLA_OK);
    check_info();
    refuse_weights();
    report("and a layer runs", forward() == MLA_OK && device_wait() == 0);
    fail_allocations(argv[1]);
    mla_layer_free(layer);
    mla_layer_free(NULL);
    mla_pool_destroy(pool);
    mla_kernels_free(set);
    mla_context_destroy(ctx);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
