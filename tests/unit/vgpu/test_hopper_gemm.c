/* SPDX-License-Identifier: Apache-2.0
 *
 * test_hopper_gemm.c: a whole Hopper kernel (hopper_gemm.cu), compiled by
 * NVRTC: right under any schedule, its counters as worked out by hand, and
 * each single wait, arrive, fence and barrier of it missed when it is gone.
 */
#include "hopper.h"
#include "nvrtc.h"

#include <sys/stat.h>

enum { M = 256, N = 256, STEPS = 5, K = 64 * STEPS, TILES = N / 128 };
enum { SHARED = 8 * 16384 + 64 };

static uint16_t a[M][K], b[N][K], d[M][N], want[M][N];
static char *ptx;

/* -1, 0, 1 as bf16; sums stay below 256, where bf16 is exact. */
static uint16_t bf16(int v)
{
    float x = (float)v;
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)(u >> 16);
}

static void make_problem(void)
{
    static int av[M][K], bv[N][K];
    for (int m = 0; m < M; m++)
        for (int k = 0; k < K; k++)
            a[m][k] = bf16(av[m][k] = (int)(hopper_random() % 3) - 1);
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++)
            b[n][k] = bf16(bv[n][k] = (int)(hopper_random() % 3) - 1);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            int sum = 0;
            for (int k = 0; k < K; k++)
                sum += av[m][k] * bv[n][k];
            assert_true(abs(sum) < 256);
            want[m][n] = bf16(sum);
        }
}

static void map_of(unsigned char out[128], CUdeviceptr at, uint64_t columns,
                   uint64_t rows, uint32_t box_rows)
{
    static _Alignas(64) unsigned char raw[128];
    const uint64_t dim[] = {columns, rows}, stride[] = {2 * columns};
    const uint32_t box[] = {64, box_rows}, step[] = {1, 1};
    gpu_ok(gpu.cuTensorMapEncodeTiled(raw, 9, 2, (void *)(uintptr_t)at, dim,
                                      stride, box, step, 0, 3, 0, 0));
    memcpy(out, raw, sizeof raw);
}

static void restart(const char *seed, const char *checks)
{
    gpu_end(NULL);
    setenv("VGPU_SEED", seed, 1);
    setenv("VGPU_CHECKS", checks, 1);
    assert_int_equal(gpu_begin(NULL), 0);
}

/* Runs the kernel in a fresh context; 0: it says that all is well. */
static CUresult run(const char *text, const char *seed, const char *checks)
{
    static _Alignas(64) unsigned char map[3][128];
    int steps = STEPS, tiles = TILES;
    void *param[] = {map[0], map[1], map[2], &steps, &tiles};
    CUmodule m = NULL;
    CUfunction f = NULL;
    restart(seed, checks);
    memset(d, 0xff, sizeof d);
    CUdeviceptr pa = gpu_upload(a, sizeof a), pb = gpu_upload(b, sizeof b);
    CUdeviceptr pd = gpu_upload(d, sizeof d);
    map_of(map[0], pa, K, M, 128);
    map_of(map[1], pb, K, N, 128);
    map_of(map[2], pd, N, M, 64);
    gpu_ok(gpu.cuModuleLoadData(&m, text));
    gpu_ok(gpu.cuModuleGetFunction(&f, m, "gemm"));
    gpu_ok(gpu.cuFuncSetAttribute(f, 8, SHARED));
    CUresult r = gpu.cuLaunchKernel(f, M / 128, 1, 1, 384, 1, 1, SHARED, NULL,
                                    param, NULL);
    r = r ? r : gpu.cuCtxSynchronize();
    return r ? r : gpu.cuMemcpyDtoH_v2(d, pd, sizeof d);
}

/* ---- the kernel as it is ------------------------------------------------ */

static const char *const seeds[] = {"0", "1", "2", "3", "4", "5"};
enum { SEEDS = sizeof seeds / sizeof *seeds };

static void right_under_any_schedule(void **state)
{
    (void)state;
    for (int s = 0; s < SEEDS; s++) {
        if (run(ptx, seeds[s], "strict"))
            fail_msg("seed %s: %s", seeds[s], gpu_report());
        assert_memory_equal(d, want, sizeof d);
    }
}

/* Member `name` of the total's member `object`, or `object` itself. */
static unsigned long long counter(const char *json, const char *object,
                                  const char *name)
{
    char key[80];
    const char *at = strstr(json, "\"total\":");
    snprintf(key, sizeof key, "\"%s\":", object);
    at = strstr(at, key);
    assert_non_null(at);
    if (name) {
        snprintf(key, sizeof key, "\"%s\":", name);
        at = strstr(at, key);
        assert_non_null(at);
    }
    return strtoull(at + strlen(key), NULL, 10);
}

/* Per block and step: two loads of 128 x 64; each warpgroup four m64n128k16,
 * which read 64 x 16 of A and 128 x 16 of B. */
static void counters_are_the_kernels(void **state)
{
    const unsigned blocks = M / 128, rounds = blocks * TILES * STEPS;
    (void)state;
    if (!gpu.is_virtual)
        return;
    vgpu_counters_reset();
    assert_int_equal(run(ptx, "0", "all"), 0);
    char *json = vgpu_counters_json();
    assert_int_equal(counter(json, "m64n128k16.f32.bf16.bf16", "count"),
                     rounds * 2 * 4 * 4);
    assert_int_equal(counter(json, "wgmma", "flops"), 2ull * M * N * K);
    assert_int_equal(counter(json, "mma_cycles", NULL), rounds * 2 * 4 * 64);
    assert_int_equal(counter(json, "smem_port", "wgmma_a"),
                     rounds * 2 * 4 * 64 * 32);
    assert_int_equal(counter(json, "smem_port", "wgmma_b"),
                     rounds * 2 * 4 * 128 * 32);
    assert_int_equal(counter(json, "smem_port", "tma_write"), rounds * 32768);
    assert_int_equal(counter(json, "tma", "load_sectors"), rounds * 1024);
    assert_int_equal(counter(json, "tma", "store_bytes"), sizeof d);
    assert_int_equal(counter(json, "mbarrier", "tx_bytes"), rounds * 32768);
    assert_int_equal(counter(json, "proxy_warnings", "unfenced_copy"), 0);
    free(json);
}

/* ---- without one of its parts ------------------------------------------- */

static const char *const parts[] = {
    "mbarrier.try_wait", "mbarrier.arrive", "bar.sync", "wgmma.fence",
    "wgmma.commit_group", "wgmma.wait_group", "fence.",
    "cp.async.bulk.commit_group", "cp.async.bulk.wait_group",
    "setmaxnreg.dec",
};

/* The part that a line of PTX is, behind labels and guards; NULL: none. */
static const char *part_of(const char *line)
{
    const char *end = strchr(line, '\n');
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        const char *at = strstr(line, parts[k]);
        if (at && at < end)
            return at;
    }
    return NULL;
}

/* The text without the part at `at`: a wait becomes one that succeeds. */
static char *without(const char *at)
{
    const char *end = strchr(at, ';') + 1;
    char *text = malloc(strlen(ptx) + 64);
    size_t n = (size_t)(at - ptx);
    assert_non_null(text);
    memcpy(text, ptx, n);
    n += (size_t)(strncmp(at, "mbarrier.try_wait", 17) == 0
                      ? sprintf(text + n, "setp.eq.u32 p, 0, 0;")
                      : 0);
    strcpy(text + n, end);
    return text;
}

/* The first seed under which the loss shows; NULL: it never does. */
static const char *noticed(const char *text)
{
    for (int s = 0; s < SEEDS; s++)
        if (run(text, seeds[s], "strict") || memcmp(d, want, sizeof d))
            return seeds[s];
    return NULL;
}

static void no_part_can_be_spared(void **state)
{
    int found = 0;
    (void)state;
    if (!gpu.is_virtual)
        return;
    for (const char *line = ptx; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *at = strchr(line, '\n') ? part_of(line) : NULL;
        if (!at)
            continue;
        char *text = without(at);
        const char *seed = noticed(text);
        free(text);
        found++;
        if (!seed)
            fail_msg("nobody misses %.60s", at);
    }
    /* The source has 2 waits, 4 arrives (release stands twice), 3 barriers, 2
     * fences, 4 parts of wgmma, 3 of bulk groups and setmaxnreg; the
     * compiler may only add copies. */
    assert_true(found >= 18);
    restart("0", "all");
}

int main(void)
{
    char path[PATH_MAX];
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, gpu_begin, gpu_end)
        TEST(right_under_any_schedule),
        TEST(counters_are_the_kernels),
        TEST(no_part_can_be_spared),
    };
    if (gpu_begin(NULL) || gpu_end(NULL))
        return 1;
    if (hopper_absent())
        return 0;
    snprintf(path, sizeof path, "%s", __FILE__);
    strcpy(strrchr(path, '/'), "/hopper_gemm.cu");
    ptx = nvrtc_ptx(path, "compute_90a");
    if (!ptx)
        return 1;
    make_problem();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
