/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu_speed.c: how many thread instructions per second and core the virtual
 * GPU executes, all checks on.
 *
 * Three kernels stand for what the tests run: an elementwise one (RoPE on
 * bf16 rows), a row reduction (RMS norm: shuffles, shared memory, barriers)
 * and the inner loop of a decode kernel (cp.async, ldmatrix, mma.sync, exp2,
 * shuffles).  Prints one line per kernel; exits 1 when one is below the bar.
 *
 *   vgpu_speed [seconds per kernel]
 */
#include "checks.h"
#include "exec.h"
#include "mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BAR 50.0    /* M thread instructions per second and core */
/* Of the input and of the output each, more than any kernel here touches. */
#define BYTES (8u << 20)

/* What the kernels share: registers, parameters, and a thread's own 16 bytes
 * of input and output. */
#define HEAD(name)                                                            \
    ".version 9.0\n.target sm_80\n.address_size 64\n"                         \
    ".visible .entry " name "(.param .u64 in, .param .u64 out)\n{\n"          \
    ".reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<16>;\n"              \
    ".reg .pred %p<8>;\n.reg .f32 %f<64>;\n"                                  \
    "ld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\n"                   \
    "cvta.to.global.u64 %rd0, %rd0;\ncvta.to.global.u64 %rd1, %rd1;\n"        \
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"   \
    "mad.lo.s32 %r3, %r1, %r2, %r0;\nmul.wide.u32 %rd2, %r3, 16;\n"           \
    "add.s64 %rd3, %rd0, %rd2;\nadd.s64 %rd4, %rd1, %rd2;\n"

/* Eight bf16 per thread: unpack, rotate pairs, pack. */
#define PAIR(r)                                                               \
    "mov.b32 {%h0, %h1}, " r ";\ncvt.f32.bf16 %f0, %h0;\n"                    \
    "cvt.f32.bf16 %f1, %h1;\nmul.f32 %f4, %f0, %f2;\n"                        \
    "neg.f32 %f7, %f3;\nfma.rn.f32 %f4, %f1, %f7, %f4;\n"                     \
    "mul.f32 %f5, %f0, %f3;\nfma.rn.f32 %f5, %f1, %f2, %f5;\n"                \
    "cvt.rn.bf16x2.f32 " r ", %f5, %f4;\n"
static const char elementwise[] = HEAD("elementwise")
    "mov.f32 %f2, 0f3F000000;\nmov.f32 %f3, 0f3F5DB3D7;\n"
    "mov.u32 %r20, 0;\n"
    "L: ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd3];\n"
    PAIR("%r10") PAIR("%r11") PAIR("%r12") PAIR("%r13")
    "st.global.v4.b32 [%rd4], {%r10, %r11, %r12, %r13};\n"
    "add.s32 %r20, %r20, 1;\nadd.s64 %rd3, %rd3, 16384;\n"
    "add.s64 %rd4, %rd4, 16384;\n"
    "setp.lt.s32 %p0, %r20, 16;\n@%p0 bra L;\nret;\n}\n";

/* A row reduction: squares of 8 bf16 values per thread, a butterfly of
 * shuffles in the warp, four partial sums in shared memory. */
#define SQUARE(r)                                                             \
    "shl.b32 %r21, " r ", 16;\nmov.b32 %f0, %r21;\n"                          \
    "and.b32 %r22, " r ", 0xffff0000;\nmov.b32 %f1, %r22;\n"                  \
    "fma.rn.f32 %f10, %f0, %f0, %f10;\nfma.rn.f32 %f10, %f1, %f1, %f10;\n"
#define FOLD(n)                                                               \
    "mov.b32 %r23, %f10;\nshfl.sync.bfly.b32 %r24, %r23, " n ", 31, -1;\n"    \
    "mov.b32 %f11, %r24;\nadd.f32 %f10, %f10, %f11;\n"
static const char reduction[] = HEAD("reduction")
    ".shared .align 16 .b8 s[64];\n"
    "mov.u32 %r30, s;\nshr.u32 %r31, %r0, 5;\nand.b32 %r32, %r0, 31;\n"
    "shl.b32 %r33, %r31, 2;\nadd.s32 %r33, %r33, %r30;\n"
    "setp.eq.s32 %p1, %r32, 0;\nmov.u32 %r20, 0;\n"
    "L: mov.f32 %f10, 0f00000000;\n"
    "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd3];\n"
    SQUARE("%r10") SQUARE("%r11") SQUARE("%r12") SQUARE("%r13")
    FOLD("16") FOLD("8") FOLD("4") FOLD("2") FOLD("1")
    "bar.sync 0;\n@%p1 st.shared.f32 [%r33], %f10;\nbar.sync 0;\n"
    "ld.shared.v4.f32 {%f12, %f13, %f14, %f15}, [%r30];\n"
    "add.f32 %f12, %f12, %f13;\nadd.f32 %f14, %f14, %f15;\n"
    "add.f32 %f12, %f12, %f14;\nrsqrt.approx.f32 %f12, %f12;\n"
    "mov.b32 %f0, %r10;\nmul.f32 %f0, %f0, %f12;\nmov.b32 %r10, %f0;\n"
    "st.global.v4.b32 [%rd4], {%r10, %r11, %r12, %r13};\n"
    "add.s32 %r20, %r20, 1;\nadd.s64 %rd3, %rd3, 16384;\n"
    "add.s64 %rd4, %rd4, 16384;\n"
    "setp.lt.s32 %p0, %r20, 16;\n@%p0 bra L;\nret;\n}\n";

/* The inner loop of a decode kernel: two cp.async, eight steps of ldmatrix and
 * four MMAs, then the exponentials and a maximum, as the softmax has them.
 * What it computes means nothing; the mix of instructions does. */
#define MMA(d, a, b)                                                          \
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " d ", " a ", " b    \
    ", " d ";\n"
#define D0 "{%f0, %f1, %f2, %f3}"
#define D1 "{%f4, %f5, %f6, %f7}"
#define D2 "{%f8, %f9, %f10, %f11}"
#define D3 "{%f12, %f13, %f14, %f15}"
#define A0 "{%r40, %r41, %r42, %r43}"
#define LDM(off)                                                              \
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r44, %r45, %r46, %r47}, "     \
    "[%r31 + " off "];\n"
#define STEP(off)                                                             \
    LDM(off) MMA(D0, A0, "{%r44, %r45}") MMA(D1, A0, "{%r46, %r47}")          \
    "add.s32 %r50, %r31, " off ";\n" MMA(D2, A0, "{%r44, %r46}")              \
    MMA(D3, A0, "{%r45, %r47}")
#define EXP(f)                                                                \
    "fma.rn.f32 " f ", " f ", %f20, %f21;\nex2.approx.ftz.f32 " f ", " f      \
    ";\nadd.f32 %f22, %f22, " f ";\nmax.f32 %f23, %f23, " f ";\n"
#define ZERO(n) "mov.f32 %f" n ", 0f00000000;\n"
static const char decode[] = HEAD("decode")
    ".shared .align 16 .b8 s[4096];\n"
    "mov.u32 %r30, s;\nshl.b32 %r32, %r0, 4;\nadd.s32 %r33, %r30, %r32;\n"
    "and.b32 %r31, %r0, 31;\nshl.b32 %r31, %r31, 4;\n"
    "add.s32 %r31, %r31, %r30;\nmov.u32 %r20, 0;\n"
    "mov.f32 %f20, 0f3A83126F;\nmov.f32 %f21, 0f00000000;\n"
    "mov.f32 %f22, 0f00000000;\nmov.f32 %f23, 0f00000000;\n"
    "mov.u32 %r40, 0x3c003c00;\nmov.u32 %r41, %r40;\nmov.u32 %r42, %r40;\n"
    "mov.u32 %r43, %r40;\n"
    ZERO("4") ZERO("5") ZERO("6") ZERO("7") ZERO("8") ZERO("9") ZERO("10")
    ZERO("11") ZERO("12") ZERO("13") ZERO("14") ZERO("15")
    "L: cp.async.cg.shared.global [%r33], [%rd3], 16;\n"
    "cp.async.cg.shared.global [%r33 + 2048], [%rd3 + 16384], 16;\n"
    "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\n"
    "mov.f32 %f0, %f21;\nmov.f32 %f1, %f21;\nmov.f32 %f2, %f21;\n"
    "mov.f32 %f3, %f21;\n"
    STEP("0") STEP("512") STEP("1024") STEP("1536")
    STEP("2048") STEP("2560") STEP("3072") STEP("3584")
    EXP("%f0") EXP("%f1") EXP("%f2") EXP("%f3")
    "mov.b32 %r23, %f23;\nshfl.sync.bfly.b32 %r24, %r23, 1, 31, -1;\n"
    "mov.b32 %f24, %r24;\nmax.f32 %f23, %f23, %f24;\n"
    "cvt.rn.bf16x2.f32 %r40, %f1, %f0;\ncvt.rn.bf16x2.f32 %r41, %f3, %f2;\n"
    "bar.sync 0;\nadd.s32 %r20, %r20, 1;\n"
    "setp.lt.s32 %p0, %r20, 64;\n@%p0 bra L;\n"
    "mov.b32 %r10, %f22;\nmov.b32 %r11, %f4;\nmov.b32 %r12, %f8;\n"
    "mov.b32 %r13, %f12;\n"
    "st.global.v4.b32 [%rd4], {%r10, %r11, %r12, %r13};\nret;\n}\n";

/* Processor time: other programs on the machine do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Device memory and the kernels' two parameters. */
struct bench {
    struct vg_mem *mem;
    uint64_t arg[2];
};

/* Both buffers hold ones in bf16, so that no kernel reads unwritten bytes. */
static bool set_up(struct bench *b)
{
    b->mem = vg_mem_new(4 * BYTES);
    for (int n = 0; n < 2; n++)
        if (!b->mem || vg_mem_alloc(b->mem, BYTES, 0, NULL, &b->arg[n]) ||
            vg_mem_set(b->mem, b->arg[n], 0x3f803f80, 4, BYTES / 4))
            return false;
    return true;
}

/* M thread instructions per second of one host thread, or -1. */
static double measure(struct bench *b, const char *text, uint32_t grid,
                      double seconds, char *err, size_t errsize)
{
    struct ptx_module *m = ptx_parse(text, strlen(text), err, errsize);
    struct vg_program *p =
        m ? vg_compile(m, m->func[0], NULL, NULL, err, errsize) : NULL;
    struct vg_config c = {.grid = {grid, 1, 1}, .block = {128, 1, 1},
                          .params = b->arg, .threads = 1,
                          .checks = VG_CHECK_ALL, .memory = b->mem,
                          .sms = 108, .arch = 80};
    double begin = now(), insns = 0, rate = p ? 0 : -1;
    while (rate >= 0 && now() - begin < seconds) {
        struct vg_result r;
        if (vg_launch(p, &c, &r)) {
            snprintf(err, errsize, "%s", r.report ? r.report : "failed");
            rate = -1;
        }
        insns += (double)r.thread_insns;
        vg_result_free(&r);
    }
    if (rate >= 0)
        rate = insns / (now() - begin) * 1e-6;
    vg_program_free(p);
    ptx_free(m);
    return rate;
}

/* One line per kernel; an error and a rate below the bar both make it fail. */
int main(int argc, char **argv)
{
    static const struct {
        const char *name, *text;
        uint32_t grid;
    } kernel[] = {{"elementwise", elementwise, 8},
                  {"reduction", reduction, 8},
                  {"decode", decode, 8}};
    double seconds = argc > 1 ? atof(argv[1]) : 0.5;
    struct bench b = {0};
    char err[2048] = "";
    int status = 0;
    if (!set_up(&b)) {
        fputs("vgpu_speed: out of memory\n", stderr);
        return 1;
    }
    for (size_t n = 0; n < sizeof kernel / sizeof *kernel; n++) {
        double rate = measure(&b, kernel[n].text, kernel[n].grid, seconds,
                              err, sizeof err);
        if (rate < 0) {
            fprintf(stderr, "vgpu_speed: %s: %s\n", kernel[n].name, err);
            status = 1;
            continue;
        }
        printf("%-12s %8.0f M thread instructions/s per core\n",
               kernel[n].name, rate);
        status |= rate < BAR;
    }
    vg_mem_delete(b.mem);
    return status;
}
