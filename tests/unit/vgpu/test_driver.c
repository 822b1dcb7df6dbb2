/* SPDX-License-Identifier: Apache-2.0
 *
 * test_driver.c: the virtual GPU's outer face against the rules of the CUDA
 * Driver API: which calls succeed, and which error each mistake has.
 */
#include "gpu.h"

#include <pthread.h>

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/* out[i] = value + i, one block. */
static const char fill_ptx[] =
    HEAD ".global .align 4 .u32 counter = 7;\n"
         ".visible .entry fill(.param .u64 out, .param .u32 value)\n"
         ".maxntid 256, 1, 1\n{\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
         "ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [value];\n"
         "mov.u32 %r2, %tid.x; add.u32 %r1, %r1, %r2;\n"
         "mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;\n"
         "st.global.u32 [%rd1], %r1; ret;\n}\n"
         ".visible .entry shared()\n{ .shared .align 4 .b8 s[1024]; "
         ".reg .b32 %r; mov.u32 %r, s; ret; }\n"
         ".visible .entry exact() .reqntid 64, 1, 1 { ret; }\n";

static void expect(CUresult want, CUresult got, const char *what, int line)
{
    const char *a = "?", *b = "?";
    if (want == got)
        return;
    gpu.cuGetErrorName(want, &a);
    gpu.cuGetErrorName(got, &b);
    print_error("line %d: %s: expected %s, got %s\n", line, what, a, b);
    fail();
}
#define EXPECT(error, call) expect(error, call, #call, __LINE__)

/* Each test starts with no context on the default profile. */
static int reset(void **state)
{
    (void)state;
    setenv("VGPU_DEVICE", "a100", 1);
    unsetenv("VGPU_MEMORY");
    unsetenv("VGPU_SEED");
    return gpu.cuInit(0) ? 1 : 0;
}

static int fresh(void **state)
{
    return reset(state) || gpu_begin(state);
}

static int initialise(void **state)
{
    (void)state;
    return gpu_open();
}

/* --- initialisation ------------------------------------------------------ */

static void nothing_works_before_cuInit(void **state)
{
    (void)state;
    CUdeviceptr at;
    CUcontext ctx;
    int n;
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, gpu.cuDeviceGetCount(&n));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, gpu.cuMemAlloc_v2(&at, 4));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, gpu.cuCtxCreate_v2(&ctx, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuInit(1));
    EXPECT(CUDA_SUCCESS, gpu.cuInit(0));
}

static void bad_environment_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value, *says;
    } row[] = {
        {"VGPU_DEVICE", "voodoo2",
         "VGPU_DEVICE=voodoo2: expected one of a100"},
        {"VGPU_SEED", "-1", "VGPU_SEED=-1: expected a number"},
        {"VGPU_SEED", "12x", "VGPU_SEED=12x: expected a number"},
        {"VGPU_THREADS", "1e3", "VGPU_THREADS=1e3: expected a number"},
        {"VGPU_MEMORY", "lots", "VGPU_MEMORY=lots: expected a number"},
        {"VGPU_CHECKS", "everything", "VGPU_CHECKS=everything: "},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        setenv(row[i].variable, row[i].value, 1);
        EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuInit(0));
        assert_memory_equal(gpu_report(), row[i].says, strlen(row[i].says));
        unsetenv(row[i].variable);
        EXPECT(CUDA_SUCCESS, gpu.cuInit(0));
    }
}

/* Public figures: CUDA C++ Programming Guide, tables of compute
 * capabilities; SM counts of the data sheets. */
static void profiles_report_public_figures(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        int major, minor, sms, optin, per_sm, threads;
    } row[] = {
        {"a100", 8, 0, 108, 166912, 167936, 2048},
        {"a10", 8, 6, 72, 101376, 102400, 1536},
        {"rtx3090", 8, 6, 82, 101376, 102400, 1536},
        {"orin", 8, 7, 16, 166912, 167936, 1536},
        {"rtx4090", 8, 9, 128, 101376, 102400, 1536},
        {"l40s", 8, 9, 142, 101376, 102400, 1536},
        {"h100", 9, 0, 132, 232448, 233472, 2048},
        {"h200", 9, 0, 132, 232448, 233472, 2048},
        {"b200", 10, 0, 148, 232448, 233472, 2048},
        {"rtx5090", 12, 0, 170, 101376, 102400, 1536},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const int attribute[] = {75, 76, 16, 97, 81, 39, 10, 12, 7};
        const int want[] = {row[i].major, row[i].minor,  row[i].sms,
                            row[i].optin, row[i].per_sm, row[i].threads,
                            32,           65536,         65535};
        setenv("VGPU_DEVICE", row[i].id, 1);
        EXPECT(CUDA_SUCCESS, gpu.cuInit(0));
        for (int k = 0; k < 9; k++) {
            int v = -1;
            EXPECT(CUDA_SUCCESS,
                   gpu.cuDeviceGetAttribute(&v, attribute[k], 0));
            assert_int_equal(v, want[k]);
        }
    }
}

static void entry_points_are_found_by_name_and_version(void **state)
{
    (void)state;
    void *fn = NULL;
    int status = -1;
    EXPECT(CUDA_SUCCESS,
           gpu.cuGetProcAddress_v2("cuMemAlloc", &fn, 13000, 0, &status));
    assert_ptr_equal(fn, (void *)gpu.cuMemAlloc_v2);
    assert_int_equal(status, 0);
    gpu.cuGetProcAddress_v2("cuCtxCreate", &fn, 13000, 0, &status);
    assert_ptr_equal(fn, (void *)gpu.cuCtxCreate_v4);
    gpu.cuGetProcAddress_v2("cuCtxCreate", &fn, 11080, 0, &status);
    assert_ptr_equal(fn, (void *)gpu.cuCtxCreate_v3);
    gpu.cuGetProcAddress_v2("cuLaunchKernelEx", &fn, 11000, 0, &status);
    assert_null(fn);
    assert_int_equal(status, 2);
    gpu.cuGetProcAddress_v2("cuNoSuchThing", &fn, 13000, 0, &status);
    assert_int_equal(status, 1);
    EXPECT(CUDA_ERROR_NOT_FOUND,
           gpu.cuGetProcAddress_v2("cuNoSuchThing", &fn, 13000, 0, NULL));
}

/* --- contexts ------------------------------------------------------------ */

static void contexts_form_a_stack_per_thread(void **state)
{
    (void)state;
    CUcontext a, b, now;
    EXPECT(CUDA_SUCCESS, gpu.cuCtxCreate_v2(&a, 0, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxCreate_v4(&b, NULL, 0, 0));
    gpu.cuCtxGetCurrent(&now);
    assert_ptr_equal(now, b);
    EXPECT(CUDA_SUCCESS, gpu.cuCtxPopCurrent_v2(&now));
    assert_ptr_equal(now, b);
    gpu.cuCtxGetCurrent(&now);
    assert_ptr_equal(now, a);
    EXPECT(CUDA_SUCCESS, gpu.cuCtxSetCurrent(b));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxDestroy_v2(a));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, gpu.cuCtxPushCurrent_v2(a));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, gpu.cuCtxDestroy_v2(a));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxDestroy_v2(b));
    gpu.cuCtxGetCurrent(&now);
    assert_null(now);
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, gpu.cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_DEVICE, gpu.cuCtxCreate_v2(&a, 0, 1));
}

static void the_primary_context_is_counted(void **state)
{
    (void)state;
    CUcontext a, b;
    unsigned flags;
    int active;
    EXPECT(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxRetain(&a, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxRetain(&b, 0));
    assert_ptr_equal(a, b);
    EXPECT(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxRelease_v2(0));
    gpu.cuDevicePrimaryCtxGetState(0, &flags, &active);
    assert_true(active);
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, gpu.cuCtxDestroy_v2(a));
    EXPECT(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxRelease_v2(0));
    gpu.cuDevicePrimaryCtxGetState(0, &flags, &active);
    assert_false(active);
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, gpu.cuDevicePrimaryCtxRelease_v2(0));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, gpu.cuCtxPushCurrent_v2(a));
}

static void *other_thread(void *ctx)
{
    CUcontext now = ctx;
    gpu.cuCtxGetCurrent(&now);
    return now;
}

static void another_thread_has_no_context(void **state)
{
    (void)state;
    pthread_t t;
    void *now = NULL;
    assert_int_equal(pthread_create(&t, NULL, other_thread, gpu.ctx), 0);
    pthread_join(t, &now);
    assert_null(now);
}

/* --- modules ------------------------------------------------------------- */

static void binaries_are_not_for_this_gpu(void **state)
{
    (void)state;
    CUmodule m;
    EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
           gpu.cuModuleLoadData(&m, "\177ELF\2\1\1"));
    EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
           gpu.cuModuleLoadData(&m, "\x50\xed\x55\xba"));
    EXPECT(CUDA_ERROR_INVALID_PTX, gpu.cuModuleLoadData(&m, ""));
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuModuleLoadData(&m, NULL));
    EXPECT(CUDA_ERROR_FILE_NOT_FOUND, gpu.cuModuleLoad(&m, "/no/such.ptx"));
}

/* PTX ISA 11.1.2: plain targets run on later devices, `a` targets on exactly
 * theirs, `f` targets on their family. */
static void targets_run_where_the_isa_says(void **state)
{
    (void)state;
    static const struct {
        const char *device, *target, *version;
        CUresult result;
    } row[] = {
        {"a100", "sm_80", "8.0", CUDA_SUCCESS},
        {"a100", "sm_86", "8.0", CUDA_ERROR_INVALID_PTX},
        {"a100", "sm_90", "8.0", CUDA_ERROR_INVALID_PTX},
        {"rtx4090", "sm_80", "8.0", CUDA_SUCCESS},
        {"h200", "sm_80", "8.0", CUDA_SUCCESS},
        {"h200", "sm_90", "9.0", CUDA_SUCCESS},
        {"h200", "sm_90a", "9.0", CUDA_SUCCESS},
        {"b200", "sm_90", "9.0", CUDA_SUCCESS},
        {"b200", "sm_90a", "9.0", CUDA_ERROR_INVALID_PTX},
        {"b200", "sm_100f", "9.0", CUDA_SUCCESS},
        {"rtx5090", "sm_100f", "9.0", CUDA_ERROR_INVALID_PTX},
        {"rtx5090", "sm_120a", "9.0", CUDA_SUCCESS},
        {"h200", "sm_80", "9.9", CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char ptx[200];
        CUmodule m;
        CUcontext ctx;
        snprintf(ptx, sizeof ptx,
                 ".version %s\n.target %s\n.address_size 64\n"
                 ".entry k() { ret; }",
                 row[i].version, row[i].target);
        setenv("VGPU_DEVICE", row[i].device, 1);
        EXPECT(CUDA_SUCCESS, gpu.cuInit(0));
        EXPECT(CUDA_SUCCESS, gpu.cuCtxCreate_v2(&ctx, 0, 0));
        CUresult r = gpu.cuModuleLoadData(&m, ptx);
        if (r != row[i].result)
            fail_msg("%s on %s: %d, expected %d", row[i].target, row[i].device,
                     r, row[i].result);
        EXPECT(CUDA_SUCCESS, gpu.cuCtxDestroy_v2(ctx));
    }
}

static void an_unknown_instruction_is_named_at_load(void **state)
{
    (void)state;
    CUmodule m;
    char log[400] = "";
    int option[] = {CU_JIT_ERROR_LOG_BUFFER,
                    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)sizeof log};
    EXPECT(CUDA_ERROR_INVALID_PTX,
           gpu.cuModuleLoadDataEx(&m,
                                  HEAD ".entry k()\n{ .reg .b32 %r<3>;\n"
                                       "frobnicate.rn.b32 %r1, %r2;\nret; }",
                                  2, option, value));
    assert_non_null(strstr(gpu_report(), "frobnicate.rn.b32"));
    assert_non_null(strstr(gpu_report(), "ptx:6"));
    assert_string_equal(log, gpu_report());
    EXPECT(CUDA_ERROR_INVALID_PTX,
           gpu.cuModuleLoadData(&m,
                                HEAD ".entry k()\n{ .reg .b32 %r<3>;\n"
                                     "add.rudely.s32 %r1, %r2, %r2;\nret; }"));
    assert_non_null(strstr(gpu_report(), "rudely"));
    EXPECT(CUDA_ERROR_INVALID_PTX,
           gpu.cuModuleLoadData(&m, HEAD ".entry k() { ret "));
    assert_non_null(strstr(gpu_report(), "ptx:4: found"));
}

static void a_small_error_log_is_cut(void **state)
{
    (void)state;
    CUmodule m;
    char log[8] = "........";
    int option[] = {CU_JIT_ERROR_LOG_BUFFER,
                    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)5};
    EXPECT(CUDA_ERROR_INVALID_PTX,
           gpu.cuModuleLoadDataEx(&m, "bogus", 2, option, value));
    assert_memory_equal(log, "ptx:\0...", 8);
}

static void functions_and_variables_are_found(void **state)
{
    (void)state;
    CUmodule m = gpu_load(fill_ptx);
    CUfunction f;
    CUdeviceptr at;
    size_t bytes;
    unsigned value = 0, count;
    const char *name;
    EXPECT(CUDA_SUCCESS, gpu.cuModuleGetFunction(&f, m, "fill"));
    EXPECT(CUDA_SUCCESS, gpu.cuFuncGetName(&name, f));
    assert_string_equal(name, "fill");
    EXPECT(CUDA_ERROR_NOT_FOUND, gpu.cuModuleGetFunction(&f, m, "none"));
    EXPECT(CUDA_SUCCESS, gpu.cuModuleGetFunctionCount(&count, m));
    assert_int_equal(count, 3);
    EXPECT(CUDA_SUCCESS, gpu.cuModuleGetGlobal_v2(&at, &bytes, m, "counter"));
    assert_int_equal(bytes, 4);
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyDtoH_v2(&value, at, 4));
    assert_int_equal(value, 7);
    EXPECT(CUDA_ERROR_NOT_FOUND,
           gpu.cuModuleGetGlobal_v2(&at, &bytes, m, "fill"));
    EXPECT(CUDA_SUCCESS, gpu.cuModuleUnload(m));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuModuleUnload(m));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuModuleGetFunction(&f, m, "fill"));
}

static void addresses_in_initialisers_are_resolved(void **state)
{
    (void)state;
    CUmodule m = gpu_load(
        HEAD ".global .align 4 .u32 word[2] = {5, 6};\n"
             ".global .align 8 .u64 at[2] = {generic(word), word+4};\n");
    CUdeviceptr word, table, got[2];
    EXPECT(CUDA_SUCCESS, gpu.cuModuleGetGlobal_v2(&word, NULL, m, "word"));
    EXPECT(CUDA_SUCCESS, gpu.cuModuleGetGlobal_v2(&table, NULL, m, "at"));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyDtoH_v2(got, table, sizeof got));
    assert_true(got[0] == word && got[1] == word + 4);
}

/* --- launches ------------------------------------------------------------ */

static CUresult try(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                    unsigned bx, unsigned by, unsigned bz, unsigned dynamic)
{
    CUdeviceptr out = 0;
    unsigned value = 0;
    void *param[] = {&out, &value};
    return gpu.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, dynamic, NULL, param,
                              NULL);
}

static void bad_launches_are_refused(void **state)
{
    (void)state;
    CUmodule m = gpu_load(fill_ptx);
    CUfunction shared = gpu_function(m, "shared");
    CUfunction fill = gpu_function(m, "fill");
    CUfunction exact = gpu_function(m, "exact");
    EXPECT(CUDA_ERROR_INVALID_HANDLE, try(NULL, 1, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, try((CUfunction)m, 1, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE,
           try((CUfunction)&m, 1, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 0, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 1, 65536, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 1, 1, 65536, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 1u << 31, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 1, 1, 1, 0, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 1, 1, 1, 1025, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 1, 1, 1, 64, 32, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(shared, 1, 1, 1, 1, 1, 65, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(fill, 1, 1, 1, 257, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(exact, 1, 1, 1, 32, 1, 1, 0));
    EXPECT(CUDA_SUCCESS, try(exact, 1, 1, 1, 64, 1, 1, 0));
    EXPECT(CUDA_SUCCESS, try(shared, 1, 65535, 1, 1, 1, 1, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxSynchronize());
}

/* The grid must be a multiple of the cluster, a launch may not contradict the
 * kernel's own cluster, and 8 blocks are the most that is portable. */
static void bad_clusters_are_refused(void **state)
{
    (void)state;
    EXPECT(CUDA_SUCCESS, gpu.cuCtxDestroy_v2(gpu.ctx));
    setenv("VGPU_DEVICE", "h200", 1);
    assert_int_equal(gpu_begin(NULL), 0);
    CUmodule m = gpu_load(".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".entry two() .reqnctapercluster 2, 1, 1 { ret; }\n"
                          ".entry any() { ret; }\n");
    CUfunction two = gpu_function(m, "two"), any = gpu_function(m, "any");
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                           .value.clusterDim = {4, 1, 1}};
    CUlaunchConfig c = {16, 1, 1, 32, 1, 1, .attrs = &a, .numAttrs = 1};
    EXPECT(CUDA_SUCCESS, try(two, 2, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, try(two, 3, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
           gpu.cuLaunchKernelEx(&c, two, NULL, NULL));
    EXPECT(CUDA_SUCCESS, gpu.cuLaunchKernelEx(&c, any, NULL, NULL));
    a.value.clusterDim.x = 16;
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
           gpu.cuLaunchKernelEx(&c, any, NULL, NULL));
    EXPECT(CUDA_SUCCESS,
           gpu.cuFuncSetAttribute(
               any, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    EXPECT(CUDA_SUCCESS, gpu.cuLaunchKernelEx(&c, any, NULL, NULL));
}

/* 48 KiB in all without the attribute, the opt-in limit with it. */
static void shared_memory_needs_the_attribute(void **state)
{
    (void)state;
    CUfunction f = gpu_function(gpu_load(fill_ptx), "shared");
    int v = 0;
    const int attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    EXPECT(CUDA_SUCCESS, gpu.cuFuncGetAttribute(&v, 1, f));
    assert_int_equal(v, 1024);
    EXPECT(CUDA_SUCCESS, gpu.cuFuncGetAttribute(&v, attribute, f));
    assert_int_equal(v, 48 * 1024 - 1024);
    EXPECT(CUDA_SUCCESS, try(f, 1, 1, 1, 32, 1, 1, 47 * 1024));
    EXPECT(CUDA_ERROR_INVALID_VALUE, try(f, 1, 1, 1, 32, 1, 1, 47 * 1024 + 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           gpu.cuFuncSetAttribute(f, attribute, 166912 - 1023));
    EXPECT(CUDA_SUCCESS, gpu.cuFuncSetAttribute(f, attribute, 166912 - 1024));
    EXPECT(CUDA_SUCCESS, try(f, 1, 1, 1, 32, 1, 1, 166912 - 1024));
}

static void parameters_come_by_pointer_or_buffer(void **state)
{
    (void)state;
    CUfunction f = gpu_function(gpu_load(fill_ptx), "fill");
    unsigned got[64], zero[64] = {0};
    CUdeviceptr out = gpu_upload(zero, sizeof zero);
    struct {
        CUdeviceptr out;
        unsigned value;
    } buffer = {out, 1000};
    size_t size = 12, small = 11, offset, bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    EXPECT(CUDA_SUCCESS,
           gpu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyDtoH_v2(got, out, sizeof got));
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(got[i], 1000 + i);
    extra[3] = &small;
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           gpu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           gpu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    EXPECT(CUDA_SUCCESS, gpu.cuFuncGetParamInfo(f, 1, &offset, &bytes));
    assert_int_equal(offset, 8);
    assert_int_equal(bytes, 4);
}

static void launch_attributes_are_read(void **state)
{
    (void)state;
    CUfunction f = gpu_function(gpu_load(fill_ptx), "shared");
    CUlaunchAttribute a[2] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         .value.programmaticStreamSerializationAllowed = 1},
        {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1}};
    CUlaunchConfig c = {.gridDimX = 108 * 32,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 64,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .attrs = a,
                        .numAttrs = 1};
    EXPECT(CUDA_SUCCESS, gpu.cuLaunchKernelEx(&c, f, NULL, NULL));
    c.numAttrs = 2;
    EXPECT(CUDA_SUCCESS, gpu.cuLaunchKernelEx(&c, f, NULL, NULL));
    c.gridDimX++;
    EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           gpu.cuLaunchKernelEx(&c, f, NULL, NULL));
    a[1].id = 99;
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuLaunchKernelEx(&c, f, NULL, NULL));
}

/* Programming Guide: 2,048 threads, 32 blocks, 164 KiB with 1 KiB a block
 * reserved, on compute capability 8.0. */
static void occupancy_follows_the_limits(void **state)
{
    (void)state;
    CUfunction f = gpu_function(gpu_load(fill_ptx), "shared");
    const int attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    static const struct {
        int block;
        size_t dynamic;
        int blocks;
    } row[] = {{32, 0, 32},        {64, 0, 32},        {128, 0, 16},
               {1024, 0, 2},       {33, 0, 32},        {32, 39 * 1024, 4},
               {32, 79 * 1024, 2}, {32, 40 * 1024, 3}, {32, 162 * 1024, 1}};
    EXPECT(CUDA_SUCCESS, gpu.cuFuncSetAttribute(f, attribute, 162 * 1024));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int n = -1;
        EXPECT(CUDA_SUCCESS, gpu.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                 &n, f, row[i].block, row[i].dynamic));
        assert_int_equal(n, row[i].blocks);
    }
}

/* A failed launch poisons its context and no other. */
static void errors_of_a_launch_stick(void **state)
{
    (void)state;
    CUfunction f = gpu_function(gpu_load(fill_ptx), "fill");
    CUdeviceptr out = gpu_upload("1234567", 8), more;
    unsigned value = 0;
    void *param[] = {&out, &value};
    CUcontext other;
    CUresult r =
        gpu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, param, NULL);
    r = r ? r : gpu.cuCtxSynchronize();
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, r);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, gpu.cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, gpu.cuMemAlloc_v2(&more, 4));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, gpu.cuMemFree_v2(out));
    if (gpu.is_virtual) {
        assert_non_null(strstr(gpu_report(), "fill"));
        assert_non_null(strstr(gpu_report(), "st.global.u32"));
    }
    EXPECT(CUDA_SUCCESS, gpu.cuCtxCreate_v2(&other, 0, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuMemAlloc_v2(&more, 4));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxDestroy_v2(other));
}

static void a_reset_heals_the_primary_context(void **state)
{
    (void)state;
    CUcontext primary;
    CUdeviceptr bad = 64;
    unsigned value = 0;
    void *param[] = {&bad, &value};
    EXPECT(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxRetain(&primary, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxPushCurrent_v2(primary));
    CUfunction f = gpu_function(gpu_load(fill_ptx), "fill");
    CUresult r = gpu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, param, NULL);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, r ? r : gpu.cuCtxSynchronize());
    EXPECT(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxReset_v2(0));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_HANDLE, try(f, 1, 1, 1, 1, 1, 1, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuCtxPopCurrent_v2(NULL));
    EXPECT(CUDA_SUCCESS, gpu.cuDevicePrimaryCtxRelease_v2(0));
}

/* --- memory -------------------------------------------------------------- */

static void copies_stay_inside_their_allocation(void **state)
{
    (void)state;
    unsigned char host[64];
    CUdeviceptr a, b;
    for (int i = 0; i < 64; i++)
        host[i] = (unsigned char)i;
    EXPECT(CUDA_SUCCESS, gpu.cuMemAlloc_v2(&a, 64));
    EXPECT(CUDA_SUCCESS, gpu.cuMemAlloc_v2(&b, 64));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyHtoD_v2(a, host, 64));
    EXPECT(CUDA_SUCCESS, gpu.cuMemsetD8_v2(b, 0xaa, 64));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyDtoD_v2(b + 8, a + 16, 16));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyDtoH_v2(host, b, 64));
    assert_int_equal(host[7], 0xaa);
    assert_int_equal(host[8], 16);
    assert_int_equal(host[23], 31);
    assert_int_equal(host[24], 0xaa);
    EXPECT(CUDA_SUCCESS, gpu.cuMemsetD32_v2(a, 0x01020304, 2));
    EXPECT(CUDA_SUCCESS, gpu.cuMemsetD16_v2(a + 8, 0x0506, 1));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpy((uintptr_t)host, a, 12));
    assert_memory_equal(host, "\4\3\2\1\4\3\2\1\6\5\12\13", 12);
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemsetD32_v2(a + 2, 0, 1));
    if (gpu.is_virtual) {
        EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemcpyHtoD_v2(a, host, 65));
        EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemcpyDtoH_v2(host, b + 1, 64));
        EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemsetD8_v2(b + 60, 0, 5));
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemcpyDtoH_v2(NULL, b, 4));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyDtoH_v2(host, b, 0));
}

static void memory_is_freed_once(void **state)
{
    (void)state;
    CUdeviceptr a, base;
    size_t bytes;
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemAlloc_v2(&a, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuMemAlloc_v2(&a, 1000));
    assert_int_equal(a % 256, 0);
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemFree_v2(a + 16));
    EXPECT(CUDA_SUCCESS, gpu.cuMemGetAddressRange_v2(&base, &bytes, a + 999));
    assert_true(base == a);
    EXPECT(CUDA_SUCCESS, gpu.cuMemFree_v2(a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuMemFree_v2(a));
    EXPECT(CUDA_ERROR_NOT_FOUND,
           gpu.cuMemGetAddressRange_v2(&base, &bytes, a));
    EXPECT(CUDA_SUCCESS, gpu.cuMemFree_v2(0));
}

static void a_pointer_tells_what_it_is(void **state)
{
    (void)state;
    CUdeviceptr a = gpu_upload("abcd", 4);
    unsigned type = 0;
    int host = 0;
    EXPECT(CUDA_SUCCESS, gpu.cuPointerGetAttribute(
                             &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 3));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           gpu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     (uintptr_t)&host));
}

static void memory_ends_and_a_context_gives_it_back(void **state)
{
    (void)state;
    CUcontext ctx;
    CUdeviceptr a;
    size_t available, total;
    setenv("VGPU_MEMORY", "1048576", 1);
    EXPECT(CUDA_SUCCESS, gpu.cuInit(0));
    for (int round = 0; round < 3; round++) {
        EXPECT(CUDA_SUCCESS, gpu.cuCtxCreate_v2(&ctx, 0, 0));
        EXPECT(CUDA_SUCCESS, gpu.cuMemGetInfo_v2(&available, &total));
        assert_int_equal(total, 1048576);
        assert_int_equal(available, total);
        EXPECT(CUDA_SUCCESS, gpu.cuMemAlloc_v2(&a, 1000000));
        EXPECT(CUDA_ERROR_OUT_OF_MEMORY, gpu.cuMemAlloc_v2(&a, 1000000));
        assert_true(vgpu_alloc_sparse(UINT64_C(1) << 34) != 0);
        EXPECT(CUDA_SUCCESS, gpu.cuCtxDestroy_v2(ctx));
    }
}

/* --- streams, events, capture -------------------------------------------- */

static void streams_and_events_have_handles_of_their_own(void **state)
{
    (void)state;
    CUstream s;
    CUevent a, b;
    float ms = -1;
    EXPECT(CUDA_SUCCESS, gpu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    EXPECT(CUDA_SUCCESS, gpu.cuEventCreate(&a, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuEventCreate(&b, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuEventElapsedTime(&ms, a, b));
    EXPECT(CUDA_SUCCESS, gpu.cuEventRecord(a, s));
    EXPECT(CUDA_SUCCESS, gpu.cuEventRecord(b, s));
    EXPECT(CUDA_SUCCESS, gpu.cuStreamWaitEvent(NULL, b, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuEventSynchronize(b));
    EXPECT(CUDA_SUCCESS, gpu.cuEventElapsedTime(&ms, a, b));
    assert_true(ms >= 0);
    EXPECT(CUDA_SUCCESS, gpu.cuStreamQuery(s));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuEventRecord((CUevent)s, s));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuEventRecord(a, (CUstream)a));
    EXPECT(CUDA_SUCCESS, gpu.cuStreamDestroy_v2(s));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuStreamSynchronize(s));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuStreamDestroy_v2(s));
    EXPECT(CUDA_SUCCESS, gpu.cuEventDestroy_v2(a));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, gpu.cuEventQuery(a));
}

static void count_call(void *user)
{
    CUdeviceptr at;
    ++*(int *)user;
    /* A host function may not call the driver. */
    if (gpu.is_virtual &&
        gpu.cuMemAlloc_v2(&at, 4) != CUDA_ERROR_NOT_PERMITTED)
        *(int *)user = -1000;
}

/* Captured work does not run; a graph replays it with the parameters that
 * were there at capture, on the memory as it is at replay. */
static void a_graph_replays_what_was_captured(void **state)
{
    (void)state;
    CUfunction f = gpu_function(gpu_load(fill_ptx), "fill");
    CUstream s;
    CUgraph g;
    CUgraphExec e;
    unsigned got[8] = {0}, zero[8] = {0}, value = 50;
    int calls = 0, status;
    size_t nodes = 0;
    CUdeviceptr out = gpu_upload(zero, sizeof zero);
    void *param[] = {&out, &value};
    EXPECT(CUDA_SUCCESS, gpu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    EXPECT(CUDA_SUCCESS, gpu.cuStreamBeginCapture_v2(s, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuStreamIsCapturing(s, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT(CUDA_SUCCESS,
           gpu.cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, s, param, NULL));
    EXPECT(CUDA_SUCCESS, gpu.cuMemsetD32Async(out, 9, 2, s));
    EXPECT(CUDA_SUCCESS, gpu.cuMemcpyDtoHAsync_v2(got, out, sizeof got, s));
    EXPECT(CUDA_SUCCESS, gpu.cuLaunchHostFunc(s, count_call, &calls));
    EXPECT(CUDA_SUCCESS, gpu.cuStreamEndCapture(s, &g));
    value = 999;
    assert_int_equal(got[3] + (unsigned)calls, 0);
    EXPECT(CUDA_SUCCESS, gpu.cuGraphGetNodes(g, NULL, &nodes));
    assert_int_equal(nodes, 4);
    EXPECT(CUDA_SUCCESS, gpu.cuGraphInstantiateWithFlags(&e, g, 0));
    EXPECT(CUDA_SUCCESS, gpu.cuGraphDestroy(g));
    for (int round = 1; round <= 3; round++) {
        memset(got, 0, sizeof got);
        EXPECT(CUDA_SUCCESS, gpu.cuMemcpyHtoD_v2(out, zero, sizeof zero));
        EXPECT(CUDA_SUCCESS, gpu.cuGraphLaunch(e, s));
        EXPECT(CUDA_SUCCESS, gpu.cuStreamSynchronize(s));
        assert_int_equal(got[1], 9);
        assert_int_equal(got[2], 52);
        assert_int_equal(got[7], 57);
        assert_int_equal(calls, round);
    }
    EXPECT(CUDA_SUCCESS, gpu.cuGraphExecDestroy(e));
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuGraphLaunch(e, s));
}

/* What may not be called while a stream captures, each in a capture of its
 * own: the call fails, and so does the end. */
static void a_forbidden_call_breaks_the_capture(void **state)
{
    (void)state;
    CUstream s;
    CUdeviceptr a = gpu_upload("abcd", 4), b;
    EXPECT(CUDA_SUCCESS, gpu.cuStreamCreate(&s, CU_STREAM_DEFAULT));
    for (int i = 0; i < 7; i++) {
        CUgraph g = (CUgraph)1;
        CUresult r = 0, want = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        int status;
        char host[4];
        EXPECT(CUDA_SUCCESS, gpu.cuStreamBeginCapture_v2(s, 0));
        switch (i) {
        case 0:
            r = gpu.cuMemAlloc_v2(&b, 4);
            break;
        case 1:
            r = gpu.cuMemFree_v2(a);
            break;
        case 2:
            r = gpu.cuCtxSynchronize();
            break;
        case 3:
            r = gpu.cuStreamSynchronize(s);
            break;
        case 4:
            r = gpu.cuStreamQuery(s);
            break;
        case 5:
            r = gpu.cuMemcpyDtoH_v2(host, a, 4);
            break;
        default:
            want = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            r = gpu.cuMemsetD8Async(a, 0, 4, NULL);
        }
        if (i == 5)
            want = r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? r : want;
        expect(want, r, "call in a capture", i);
        EXPECT(CUDA_SUCCESS, gpu.cuStreamIsCapturing(s, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
               gpu.cuStreamEndCapture(s, &g));
        assert_null(g);
    }
    EXPECT(CUDA_SUCCESS,
           gpu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(CUDA_SUCCESS, gpu.cuMemAlloc_v2(&b, 4));
    CUgraph g;
    EXPECT(CUDA_SUCCESS, gpu.cuStreamEndCapture(s, &g));
}

static void forks_of_a_capture_must_join(void **state)
{
    (void)state;
    CUstream s, t;
    CUevent fork, join;
    CUgraph g;
    CUdeviceptr a = gpu_upload("abcd", 4);
    gpu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    gpu.cuStreamCreate(&t, CU_STREAM_NON_BLOCKING);
    gpu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING);
    gpu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING);
    for (int joined = 0; joined < 2; joined++) {
        int status;
        EXPECT(CUDA_SUCCESS, gpu.cuStreamBeginCapture_v2(s, 0));
        EXPECT(CUDA_SUCCESS, gpu.cuEventRecord(fork, s));
        EXPECT(CUDA_SUCCESS, gpu.cuStreamWaitEvent(t, fork, 0));
        EXPECT(CUDA_SUCCESS, gpu.cuStreamIsCapturing(t, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        EXPECT(CUDA_SUCCESS, gpu.cuMemsetD8Async(a, 1, 4, t));
        EXPECT(CUDA_SUCCESS, gpu.cuEventRecord(join, t));
        EXPECT(CUDA_ERROR_CAPTURED_EVENT, gpu.cuEventQuery(join));
        if (!joined)
            EXPECT(CUDA_SUCCESS, gpu.cuMemsetD8Async(a, 2, 4, t));
        EXPECT(CUDA_SUCCESS, gpu.cuStreamWaitEvent(s, join, 0));
        EXPECT(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
               gpu.cuStreamEndCapture(s, &g));
        EXPECT(CUDA_SUCCESS, gpu.cuStreamIsCapturing(t, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    }
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, gpu.cuStreamEndCapture(s, &g));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           gpu.cuStreamBeginCapture_v2(NULL, 0));
}

static void error_names_are_the_drivers(void **state)
{
    (void)state;
    const char *s = NULL;
    EXPECT(CUDA_SUCCESS, gpu.cuGetErrorName(700, &s));
    assert_string_equal(s, "CUDA_ERROR_ILLEGAL_ADDRESS");
    EXPECT(CUDA_SUCCESS, gpu.cuGetErrorString(2, &s));
    assert_string_equal(s, "out of memory");
    EXPECT(CUDA_ERROR_INVALID_VALUE, gpu.cuGetErrorName(12345, &s));
    assert_null(s);
}

int main(void)
{
#define BARE(test) cmocka_unit_test_setup(test, reset)
#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, fresh, gpu_end)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_works_before_cuInit),
        BARE(bad_environment_is_named),
        BARE(profiles_report_public_figures),
        BARE(entry_points_are_found_by_name_and_version),
        BARE(contexts_form_a_stack_per_thread),
        BARE(the_primary_context_is_counted),
        IN_CONTEXT(another_thread_has_no_context),
        IN_CONTEXT(binaries_are_not_for_this_gpu),
        BARE(targets_run_where_the_isa_says),
        IN_CONTEXT(an_unknown_instruction_is_named_at_load),
        IN_CONTEXT(a_small_error_log_is_cut),
        IN_CONTEXT(functions_and_variables_are_found),
        IN_CONTEXT(addresses_in_initialisers_are_resolved),
        IN_CONTEXT(bad_launches_are_refused),
        IN_CONTEXT(bad_clusters_are_refused),
        IN_CONTEXT(shared_memory_needs_the_attribute),
        IN_CONTEXT(parameters_come_by_pointer_or_buffer),
        IN_CONTEXT(launch_attributes_are_read),
        IN_CONTEXT(occupancy_follows_the_limits),
        IN_CONTEXT(errors_of_a_launch_stick),
        BARE(a_reset_heals_the_primary_context),
        IN_CONTEXT(copies_stay_inside_their_allocation),
        IN_CONTEXT(memory_is_freed_once),
        IN_CONTEXT(a_pointer_tells_what_it_is),
        BARE(memory_ends_and_a_context_gives_it_back),
        IN_CONTEXT(streams_and_events_have_handles_of_their_own),
        IN_CONTEXT(a_graph_replays_what_was_captured),
        IN_CONTEXT(a_forbidden_call_breaks_the_capture),
        IN_CONTEXT(forks_of_a_capture_must_join),
        IN_CONTEXT(error_names_are_the_drivers),
    };
    return cmocka_run_group_tests(tests, initialise, NULL);
}
