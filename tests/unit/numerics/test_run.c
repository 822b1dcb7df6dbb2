/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker checked: a right concat_mla_k passes every group of cases, and
 * each way of getting it wrong is caught by the group made for it.
 *
 * The "kernel" is C in this file, run by a fake driver on host memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "fake_driver.h"
#include "suite.h"

enum { HEADS = 3, NOPE = 32, ROPE = 16 };

static const char manifest[] =
    "{\"format\": 1, \"model\": \"fake\", \"files\": [{\"path\": \"k.cu\", "
    "\"sha256\": \"00\"}],\n"
    "\"spec\": {\"rms_norm_eps\": 1e-6, \"qk_rope_head_dim\": 16, "
    "\"rope\": {\"style\": \"neox\", \"theta\": 10000, \"scaling\": null}, "
    "\"lse\": {\"base\": \"e\", \"empty\": \"-inf\"}},\n"
    "\"kernels\": [{\"family\": \"concat_mla_k\", \"variant\": \"\", "
    "\"symbol\": \"mla_concat_mla_k_fake\", \"arch\": \"sm_80\", "
    "\"dtype\": \"bf16\", \"heads\": 3, \"page_size\": 1, "
    "\"source\": \"k.cu\", \"dims\": {\"nope\": 32, \"rope\": 16, "
    "\"v\": 32, \"latent\": 64},\n"
    "\"args\": {\"size\": 72, \"fields\": ["
    "{\"name\": \"k_nope\", \"type\": \"ptr\", \"elem\": \"bf16\", "
    "\"access\": \"in\", \"align\": 16, \"offset\": 0},"
    "{\"name\": \"k_nope_token_stride\", \"type\": \"i64\", "
    "\"multiple\": 16, \"offset\": 8},"
    "{\"name\": \"k_nope_head_stride\", \"type\": \"i64\", "
    "\"multiple\": 16, \"offset\": 16},"
    "{\"name\": \"k_rope\", \"type\": \"ptr\", \"elem\": \"bf16\", "
    "\"access\": \"in\", \"align\": 16, \"offset\": 24},"
    "{\"name\": \"k_rope_stride\", \"type\": \"i64\", \"multiple\": 16, "
    "\"offset\": 32},"
    "{\"name\": \"k\", \"type\": \"ptr\", \"elem\": \"bf16\", "
    "\"access\": \"out\", \"align\": 16, \"offset\": 40},"
    "{\"name\": \"k_token_stride\", \"type\": \"i64\", \"multiple\": 16, "
    "\"offset\": 48},"
    "{\"name\": \"k_head_stride\", \"type\": \"i64\", \"multiple\": 16, "
    "\"offset\": 56},"
    "{\"name\": \"tokens\", \"type\": \"i32\", \"offset\": 64}]},\n"
    "\"launch\": {\"block\": [32, 1, 1], \"grid\": ["
    "{\"factors\": [{\"arg\": \"tokens\"}], \"max\": 1000},"
    "{\"factors\": [], \"max\": 1}, {\"factors\": [], \"max\": 1}]},"
    "\"build\": {\"cubin\": \"k.cubin\", \"cubin_sha256\": \"\"}}]}";

struct args {
    const char *k_nope;
    int64_t k_nope_token, k_nope_head;
    const char *k_rope;
    int64_t k_rope_token;
    char *k;
    int64_t k_token, k_head;
    int32_t tokens;
};

/* What is wrong with the kernel. */
static enum fault {
    NONE,
    DROPS_PAYLOADS,  /* every NaN becomes the same one */
    NARROW_OFFSETS,  /* 32-bit product of index and stride */
    PACKED_HEADS,    /* head stride rebuilt from the width */
    LAST_TILE,       /* tokens past the last multiple of 8 are left out */
    WRITES_GAP,      /* one element past each row */
    WRITES_PAST_END, /* one element past the last row */
    WRITES_INPUT,
    READS_GAP,       /* what lies past a row decides a bit */
    COUNTS_COMPANY,  /* another answer for a batch of one */
    RACES            /* another answer at every second launch */
} fault;

static uint16_t *at(const char *base, int64_t a, int64_t b)
{
    if (fault == NARROW_OFFSETS)
        return (uint16_t *)(base + (int32_t)a + (int32_t)b);
    return (uint16_t *)(base + a + b);
}

/* A narrow offset that is wrong would leave the buffer: the row is lost. */
static bool lost(int64_t a, int64_t b)
{
    return fault == NARROW_OFFSETS && (a != (int32_t)a || b != (int32_t)b);
}

static uint16_t copy(uint16_t bits)
{
    if (fault == DROPS_PAYLOADS && (bits & 0x7fff) > 0x7f80)
        return 0x7fff;
    return bits;
}

static void one_row(const struct args *a, int64_t t, int64_t h)
{
    int64_t head = fault == PACKED_HEADS ? NOPE * 2 : a->k_nope_head;
    int64_t nope_t = t * a->k_nope_token, nope_h = h * head;
    int64_t out_t = t * a->k_token, out_h = h * a->k_head;
    const uint16_t *nope, *rope;
    uint16_t *out;

    if (lost(nope_t, nope_h) || lost(out_t, out_h) ||
        lost(t * a->k_rope_token, 0))
        return;
    nope = at(a->k_nope, nope_t, nope_h);
    rope = at(a->k_rope, t * a->k_rope_token, 0);
    out = at(a->k, out_t, out_h);
    for (int i = 0; i < NOPE; i++)
        out[i] = copy(nope[i]);
    for (int i = 0; i < ROPE; i++)
        out[NOPE + i] = copy(rope[i]);
    if (fault == WRITES_GAP)
        out[NOPE + ROPE] = 1;
    if (fault == READS_GAP && (nope[NOPE] & 0x7f80) == 0x7f80)
        out[0] ^= 1;
    if (fault == COUNTS_COMPANY && a->tokens == 1)
        out[0] ^= 1;
    if (fault == RACES && fake.launches % 2 == 0)
        out[0] ^= 1;
}

static int kernel(const struct fake_launch *launch)
{
    struct args a;
    int64_t tokens;

    memcpy(&a, launch->args, sizeof(a));
    tokens = fault == LAST_TILE ? a.tokens / 8 * 8 : a.tokens;
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t h = 0; h < HEADS; h++)
            one_row(&a, t, h);
    if (fault == WRITES_PAST_END)
        *at(a.k, (a.tokens - 1) * a.k_token,
            (HEADS - 1) * a.k_head + 2 * (NOPE + ROPE)) = 1;
    if (fault == WRITES_INPUT)
        *(uint16_t *)a.k_rope ^= 1;
    return 0;
}

/* Buffers of gigabytes cost what is touched of them. */
static struct {
    uint64_t address, bytes;
} sparse[16];

static unsigned long long alloc_sparse(unsigned long long bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < 16 && block != MAP_FAILED; i++)
        if (!sparse[i].address) {
            sparse[i].address = (uint64_t)(uintptr_t)block;
            sparse[i].bytes = bytes;
            return sparse[i].address;
        }
    return 0;
}

static int free_any(uint64_t address)
{
    for (int i = 0; i < 16; i++)
        if (sparse[i].address == address) {
            sparse[i].address = 0;
            return munmap((void *)(uintptr_t)address, sparse[i].bytes);
        }
    return fake_mem_free(address);
}

struct world {
    struct num_device device;
    struct num_model model;
    struct num_subject subject;
    char *directory;
};

static int set_up(void **state)
{
    static struct world w;
    mla_context *ctx = fake_context(NULL);

    memset(&w, 0, sizeof(w));
    fake.on_launch = kernel;
    ctx->driver.mem_free = free_any;
    w.directory = fake_directory();
    fake_file(w.directory, "manifest.json", manifest);
    fake_file(w.directory, "k.cubin", "\177ELF");
    w.device.ctx = ctx;
    w.device.alloc_sparse = alloc_sparse;
    *state = &w;
    return num_device_load(&w.device, w.directory) ||
           num_model_read(ctx, manifest, &w.model) ||
           num_subject_read(ctx, w.device.set, 0, &w.model, &w.subject);
}

static int tear_down(void **state)
{
    struct world *w = *state;
    char path[4200];
    num_device_close(&w->device);
    snprintf(path, sizeof(path), "%s/manifest.json", w->directory);
    remove(path);
    snprintf(path, sizeof(path), "%s/k.cubin", w->directory);
    remove(path);
    remove(w->directory);
    return 0;
}

/* Runs every case; the verdict of each group by name is in `failed`, a list
 * of the names of groups with a failure. */
static void run_all(struct world *w, char *failed, size_t size, char *why)
{
    const struct num_family *f = num_family_find("concat_mla_k");
    int count;
    struct num_shape *shapes = num_suite_shapes(&w->subject, f, false, &count);

    *failed = *why = 0;
    assert_true(count > 15);
    for (int i = 0; i < count; i++) {
        struct num_verdict v = {0};
        struct num_case *c = num_case_make(&w->subject, f, &shapes[i],
                                           (uint64_t)i + 1);
        num_check_case(&w->device, c, 2, &v);
        num_case_free(c);
        if (v.failures && !strstr(failed, shapes[i].group))
            snprintf(failed + strlen(failed), size - strlen(failed), "%s,",
                     shapes[i].group);
        if (v.failures && !*why)
            strcpy(why, v.why);
    }
    free(shapes);
}

static void a_right_kernel_passes_every_group(void **state)
{
    struct world *w = *state;
    char failed[512], why[4096];
    struct num_verdict v = {0};
    struct num_shape shape = {"", 3, NUM_PADDED, NUM_PADDED, 0, false};
    struct num_case *c;

    fault = NONE;
    run_all(w, failed, sizeof(failed), why);
    assert_string_equal(failed, "");
    c = num_case_make(&w->subject, num_family_find("concat_mla_k"), &shape, 1);
    num_check_empty(&w->device, c, &v);
    num_check_refusals(&w->device, c, &v);
    num_case_free(c);
    assert_int_equal(v.failures, 0);
    assert_true(v.cases > 20);
}

static void each_fault_is_caught_by_the_group_made_for_it(void **state)
{
    static const struct {
        enum fault fault;
        const char *group, *why;
    } rows[] = {
        {DROPS_PAYLOADS, "special values", "should be"},
        {NARROW_OFFSETS, "far", "k["},
        {PACKED_HEADS, "strides", "k["},
        {LAST_TILE, "tokens", "should be"},
        {WRITES_GAP, "strides", "not the call's to write"},
        {WRITES_PAST_END, "tokens", "k: the bytes after it have changed"},
        {WRITES_INPUT, "tokens", "k_rope[0][0][0] is not the call's"},
        {READS_GAP, "poison", "differs from the clean run"},
        {COUNTS_COMPANY, "alone", "tokens, 1 tokens"},
        {RACES, "poison", "differs from the clean run"},
    };
    struct world *w = *state;
    char failed[512], why[4096];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fault = rows[i].fault;
        fake.launches = 0;
        run_all(w, failed, sizeof(failed), why);
        if (!strstr(failed, rows[i].group))
            fail_msg("fault %d: '%s' is not among '%s'", (int)rows[i].fault,
                     rows[i].group, failed);
        if (!strstr(why, rows[i].why))
            fail_msg("fault %d: '%s' is not in: %s", (int)rows[i].fault,
                     rows[i].why, why);
    }
    fault = NONE;
}

/* A launch that the driver refuses is a failed case, never a skipped one. */
static void a_case_that_cannot_run_has_failed(void **state)
{
    struct world *w = *state;
    struct num_verdict v = {0};
    struct num_shape shape = {"", 3, NUM_TIGHT, NUM_TIGHT, 0, false};
    struct num_case *c = num_case_make(
        &w->subject, num_family_find("concat_mla_k"), &shape, 1);

    fake.launch_result = 719;
    num_check_case(&w->device, c, 2, &v);
    assert_int_equal(v.failures, 1);
    assert_true(w->device.lost);
    assert_non_null(strstr(v.why, "CUDA_ERROR_LAUNCH_FAILED"));
    num_case_free(c);
}

static void the_oracle_reads_what_the_manifest_says(void **state)
{
    struct world *w = *state;
    struct num_model m;
    (void)w;
    assert_int_equal(w->model.rope.style, ORACLE_NEOX);
    assert_int_equal(w->model.rope.dim, 16);
    assert_int_equal(w->model.rope.scaling, ORACLE_PLAIN);
    assert_true(w->model.norm_eps == 1e-6);
    assert_non_null(num_model_read(w->device.ctx, "{\"spec\": {}}", &m));
    assert_non_null(num_model_read(w->device.ctx, "nonsense", &m));
    assert_non_null(num_model_read(
        w->device.ctx,
        "{\"spec\": {\"rms_norm_eps\": 1, \"rope\": {\"style\": \"neox\"}, "
        "\"lse\": {\"base\": \"10\", \"empty\": \"-inf\"}}}",
        &m));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_right_kernel_passes_every_group),
        TEST(each_fault_is_caught_by_the_group_made_for_it),
        TEST(a_case_that_cannot_run_has_failed),
        TEST(the_oracle_reads_what_the_manifest_says),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
