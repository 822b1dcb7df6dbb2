/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.h: the executor's data structures and what an instruction is.
 *
 * Life of a kernel: vg_compile lowers one ptx_func to an array of vg_insn
 * (decode.c: one opcode table, registers to slots); vg_launch runs a grid of
 * it (launch.c: CTAs on host threads; sched.c: warps and groups; flow.c:
 * branches, barriers, votes).  An instruction is executed for a whole group
 * of lanes by one call: fn(warp, insn, mask).
 *
 * OPERANDS ARE ROWS.  A row is the 32 lanes of one register, contiguous:
 *   predicate          4 bytes   one uint32_t, bit l = lane l
 *   .b8                32 bytes  uint8_t[32]
 *   .b16              64 bytes   uint16_t[32]   (f16, bf16 as bit patterns)
 *   .b32             128 bytes   uint32_t[32] or float[32]
 *   .b64             256 bytes   uint64_t[32] or double[32]
 *   .b128            512 bytes   uint64_t[32] low halves, then [32] high
 * Immediates, parameters and uniform special registers are rows too, so a
 * handler sees no difference: vg_row(w, i->op[n]) is the n-th operand, in the
 * order in which the decoder function asked for them.  `_` is a scratch row.
 *
 * RULES FOR A HANDLER.  Write only lanes of `mask` (never 0): register slots
 * are shared by liveness, and other lanes may keep another value there.  A
 * destination row may coincide with or overlap a source row: compute into a
 * local array, then store (vg_put32 and friends).  Lanes outside the mask
 * hold arbitrary bits: do not trap on them.  Report with vg_fault, which does
 * not return.  No global state: grids run in several host threads at once.
 *
 * WHO OWNS WHAT.  The executor never touches device or shared memory bytes:
 * ld, st, atom, red, cp.async, ldmatrix, stmatrix, prefetch, mapa are
 * vg_ops_mem (mem side); mma is vg_ops_mma.  The mem side hangs its state on
 * the `mem` pointers below and learns what happens through the vg_mem_*
 * hooks, all declared here and implemented in mem*.c.
 */
#ifndef VGPU_EXEC_H
#define VGPU_EXEC_H

#include "ptx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#define VG_LANES 32
#define VG_ALL 0xffffffffu
#define VG_BARRIERS 16

/* Generic address windows.  A shared address is a 32-bit offset (bits 24-31:
 * CTA rank in the cluster + 1, or 0 for the own CTA), its generic form
 * VG_SHARED_WINDOW + offset.  A local address is the byte offset in the
 * thread's own local segment; a param address the offset in the parameters. */
#define VG_SHARED_WINDOW UINT64_C(0x710000000000)
#define VG_LOCAL_WINDOW UINT64_C(0x720000000000)
#define VG_PARAM_WINDOW UINT64_C(0x730000000000)
#define VG_WINDOW_SIZE (UINT64_C(1) << 32)

/* What a launch ends with; the numbers are CUresult's. */
enum vg_code {
    VG_OK = 0,
    VG_INVALID_VALUE = 1,
    VG_OUT_OF_MEMORY = 2,
    VG_ILLEGAL_ADDRESS = 700,
    VG_TIMEOUT = 702,
    VG_ASSERT = 710,
    VG_ILLEGAL_INSTRUCTION = 715,
    VG_MISALIGNED = 716,
    VG_FAILED = 719
};

enum vg_type {
    VG_NOTYPE, VG_PRED,
    VG_B8, VG_U8, VG_S8, VG_B16, VG_U16, VG_S16, VG_F16, VG_BF16,
    VG_B32, VG_U32, VG_S32, VG_F32, VG_TF32, VG_F16X2, VG_BF16X2, VG_U16X2,
    VG_S16X2, VG_B64, VG_U64, VG_S64, VG_F64, VG_F32X2, VG_B128,
    VG_E4M3, VG_E5M2, VG_E4M3X2, VG_E5M2X2, VG_E2M1, VG_E2M3, VG_E3M2,
    VG_E2M1X2, VG_E2M3X2, VG_E3M2X2, VG_UE8M0X2, VG_UE8M0,
    VG_S4, VG_U4, VG_B1
};
unsigned vg_bits(enum vg_type t);       /* 1, 4, 8, 16, 32, 64, 128 */
const char *vg_type_name(enum vg_type t);

/* Instruction classes of the counters. */
enum vg_class {
    VG_C_INT, VG_C_FLOAT, VG_C_HALF, VG_C_DOUBLE, VG_C_SPECIAL, VG_C_CVT,
    VG_C_MOVE, VG_C_PRED, VG_C_BRANCH, VG_C_SYNC, VG_C_WARP, VG_C_LOAD,
    VG_C_STORE, VG_C_ATOMIC, VG_C_ASYNC, VG_C_MATRIX, VG_C_MMA, VG_C_OTHER,
    VG_C_COUNT
};

/* How the scheduler treats an instruction. */
enum vg_kind {
    VG_STRAIGHT, /* fn runs, pc + 1: everything that cannot wait or jump */
    VG_ALIGNED,  /* like STRAIGHT once all 32 lanes are here; a warp that
                    cannot become whole faults ("partial warp") */
    VG_MEMBER,   /* .sync with a member mask: waits for the lanes in it */
    VG_CONTROL   /* fn may set w->next (see below) */
};

struct vg_warp;
struct vg_insn;
struct vg_dec;
typedef void vg_fn(struct vg_warp *w, const struct vg_insn *i, uint32_t mask);

struct vg_insn {
    vg_fn *fn;
    const int32_t *op;    /* rows, in the order the decoder appended them */
    int32_t guard;        /* predicate row; VG_ALL constant when unguarded */
    uint32_t guard_not;   /* xor-ed on the guard */
    uint16_t run[2];      /* straight instructions from here: [1] when all
                             32 lanes are together, [0] otherwise */
    uint8_t kind, cls;
    uint8_t nop;          /* rows in op */
    uint8_t narrow;       /* the address row is 32 bits wide, not 64 */
    int32_t target;       /* branch target */
    uint32_t neg;         /* bit n: predicate operand op[n] is negated */
    int64_t imm;          /* byte offset of an address */
    uint32_t arg;         /* the handler's own small number */
    uint32_t member;      /* VG_MEMBER: index in op of the mask row; bit 31:
                             the mask is the constant all 32 lanes */
    const void *aux;      /* the handler's own data, see vg_keep */
};

/* ---- state of a running grid -------------------------------------------- */

/* Lanes of a warp that share a pc.  `why` says what a waiting group waits
 * for; it is shown in deadlock reports. */
enum vg_state { VG_READY, VG_WAIT_LANES, VG_WAIT_BARRIER, VG_WAIT_POLL };
struct vg_group {
    uint32_t mask;
    int32_t pc;
    uint8_t state;
    uint8_t barrier;      /* VG_WAIT_BARRIER: id */
    bool tired;           /* yielded; runs when the others cannot */
    uint32_t spins;       /* backward branches since it last yielded */
    uint32_t need;        /* VG_WAIT_LANES: the lanes that must come */
    uint32_t generation;  /* VG_WAIT_BARRIER: of the barrier when it arrived */
    char why[56];         /* VG_WAIT_POLL */
};

/* After a VG_CONTROL handler: */
enum vg_next {
    VG_GO,     /* pc + 1 */
    VG_MOVED,  /* the handler changed groups itself (executor only) */
    VG_RETRY,  /* nothing happened: run the same instruction again later.
                  Set by vg_retry(w, why). */
    VG_YIELD   /* pc + 1, but let the others run first (failed try_wait) */
};

struct vg_warp {
    unsigned char *base[2];  /* registers (op >= 0), constants (op < 0) */
    struct vg_cta *cta;
    unsigned index;          /* in the CTA; thread = 32 * index + lane */
    uint32_t live;           /* lanes that exist and have not exited */
    uint32_t born;           /* lanes that exist */
    enum vg_next next;
    int ngroups, cur;
    uint32_t grid_waited;    /* lanes past griddepcontrol.wait */
    struct vg_group group[VG_LANES];
    uint32_t at_cluster;     /* lanes between barrier.cluster.arrive, .wait */
    uint32_t cluster_generation;
    void *mem;               /* mem side */
};

/* A named barrier.  arrived counts threads.  clock: mem side (vector clock
 * of the arrivals), freed in vg_mem_cta_end. */
struct vg_barrier {
    unsigned arrived, expected;   /* expected 0: every live thread */
    uint32_t red_popc, red_and, red_or;
    uint32_t generation;
    void *clock;
};

struct vg_cta {
    struct vg_launch *launch;
    struct vg_worker *worker;
    struct vg_set *set;            /* CTAs that run interleaved with it */
    uint32_t id[3];                /* blockIdx */
    uint64_t linear;               /* x fastest */
    unsigned rank;                 /* in the cluster */
    struct vg_cluster *cluster;
    unsigned nthreads, nwarps, live_threads;
    struct vg_warp *warp;
    struct vg_barrier barrier[VG_BARRIERS];
    uint64_t rng;
    uint64_t clock;                /* instructions issued by this CTA */
    unsigned char *shared;         /* static + dynamic bytes, 1024-aligned */
    uint64_t shared_bytes;
    unsigned char *local;          /* thread t: local + t * local_bytes */
    uint64_t local_bytes;
    void *mem;                     /* mem side */
};

/* The CTAs of one cluster: cta[0 .. ncta) by rank. */
struct vg_cluster {
    struct vg_cta *cta;
    unsigned ncta;
    struct vg_barrier barrier;     /* barrier.cluster */
};

/* CTAs that must be resident together: one, a cluster, a cooperative grid.
 * A set runs in one host thread. */
struct vg_set {
    struct vg_cta *cta;
    unsigned ncta;
    struct vg_cluster *cluster;
    unsigned ncluster;
    uint64_t index;        /* in launch order */
    uint64_t rng;          /* of the order of warps */
    uint64_t idle;         /* instructions since the last vg_progress */
};

/* One host thread's part of a launch.  counters: mem side. */
struct vg_worker {
    struct vg_launch *launch;
    unsigned index;
    jmp_buf fault;
    uint64_t *hits, *lanes;        /* differences, see vg_result */
    struct vg_set *set;            /* running now */
    enum vg_code code;             /* of its fault, and the text */
    char *report;
    void *mem;
};

struct vg_config {
    uint32_t grid[3], block[3], cluster[3];   /* cluster 0 or 1: none */
    uint32_t dynamic_shared;
    const void *params;            /* param_bytes of the function, laid out */
    bool cooperative;
    uint64_t seed;                 /* 0: in order */
    unsigned threads;              /* host threads, 0: one per core */
    unsigned checks;               /* bits, mem side defines them */
    unsigned sms, arch;            /* of the device profile: 132, 90 */
    uint64_t watchdog;             /* 0: default; warp instructions of a set
                                      without a store, barrier or exit */
    void *memory;                  /* mem side's device memory */
    uint64_t envreg[2];            /* %envreg1:2, cooperative workspace */
    bool programmatic;             /* may start before the previous grid ends:
                                      results of it only after
                                      griddepcontrol.wait */
};

/* hits[pc]: warps (groups) that issued insn[pc]; lanes[pc]: threads.  Guards
 * count as issued. */
struct vg_result {
    enum vg_code code;
    char *report;                  /* why, several lines, or NULL */
    uint64_t *hits, *lanes;        /* program->ninsn entries each */
    uint64_t warp_insns, thread_insns;
};

struct vg_launch {
    const struct vg_program *program;
    struct vg_config config;
    unsigned char *constants;      /* this launch's constant rows */
    void *mem;                     /* mem side */
    struct vg_result *result;
    void *run;                     /* launch.c's own */
};

/* A lowered kernel.  The ptx_module must outlive it. */
struct vg_program {
    const struct ptx_module *module;
    const struct ptx_func *func;
    struct vg_insn *insn;
    const struct ptx_inst **src;   /* src[pc]: where insn[pc] comes from */
    int ninsn;
    int32_t *op;                   /* all operand rows */
    uint32_t row_bytes;            /* register file of one warp */
    uint32_t constant_bytes;
    unsigned max_live;             /* most 32-bit registers live at once */
    uint64_t shared_bytes, local_bytes, dynamic_offset;
    unsigned char *constants;      /* template of the constant rows */
    struct vg_patch *patch;        /* rows filled per launch, CTA, warp */
    int npatch;
    bool is_async;                 /* has mbarrier, bulk or wgmma */
    struct vg_watch **watch;       /* per pc or NULL, see wgmma_regs.c */
    unsigned nwatched;             /* registers that wgmma touches */
    void *own;                     /* vg_keep's list */
};

/* ---- entry points ------------------------------------------------------- */

/* Device address of a module-scope global or const variable. */
typedef uint64_t vg_where(void *ctx, const struct ptx_symbol *sym);

/* Lowers a kernel.  NULL on error, with one line naming the PTX line, the
 * opcode and what is wrong in err. */
struct vg_program *vg_compile(const struct ptx_module *m,
                              const struct ptx_func *f, vg_where *where,
                              void *ctx, char *err, size_t errsize);
void vg_program_free(struct vg_program *p);

/* Runs a grid to its end.  Returns out->code; free with vg_result_free. */
enum vg_code vg_launch(const struct vg_program *p, const struct vg_config *c,
                       struct vg_result *out);
void vg_result_free(struct vg_result *r);

/* ---- for handlers ------------------------------------------------------- */

static inline void *vg_row(const struct vg_warp *w, int32_t op)
{
    return w->base[op < 0] + op;
}
#define VG_MASK(w, o) (*(uint32_t *)vg_row(w, o))   /* a predicate row */

/* Stores a full row into the lanes of mask. */
static inline void vg_put16(void *row, const uint16_t *v, uint32_t mask)
{
    uint16_t *d = row;
    if (mask == VG_ALL)
        memcpy(d, v, VG_LANES * sizeof *d);
    else
        for (int l = 0; l < VG_LANES; l++)
            d[l] = mask >> l & 1 ? v[l] : d[l];
}
static inline void vg_put32(void *row, const uint32_t *v, uint32_t mask)
{
    uint32_t *d = row;
    if (mask == VG_ALL)
        memcpy(d, v, VG_LANES * sizeof *d);
    else
        for (int l = 0; l < VG_LANES; l++)
            d[l] = mask >> l & 1 ? v[l] : d[l];
}
static inline void vg_put64(void *row, const uint64_t *v, uint32_t mask)
{
    uint64_t *d = row;
    if (mask == VG_ALL)
        memcpy(d, v, VG_LANES * sizeof *d);
    else
        for (int l = 0; l < VG_LANES; l++)
            d[l] = mask >> l & 1 ? v[l] : d[l];
}
static inline void vg_put_pred(void *row, uint32_t bits, uint32_t mask)
{
    uint32_t *d = row;
    *d = (*d & ~mask) | (bits & mask);
}

/* Byte addresses of all 32 lanes: row op[n] + imm.  32-bit rows are zero-
 * extended and wrap at 2^32. */
static inline void vg_addresses(const struct vg_warp *w,
                                const struct vg_insn *i, int n,
                                uint64_t out[VG_LANES])
{
    if (i->narrow) {
        const uint32_t *a = vg_row(w, i->op[n]);
        for (int l = 0; l < VG_LANES; l++)
            out[l] = (uint32_t)(a[l] + (uint32_t)i->imm);
    } else {
        const uint64_t *a = vg_row(w, i->op[n]);
        for (int l = 0; l < VG_LANES; l++)
            out[l] = a[l] + (uint64_t)i->imm;
    }
}

/* Ends the launch with code and a report: message, kernel, PTX line and
 * text, source file:line, CTA, warp, lane (-1: the whole group). */
_Noreturn void vg_fault(struct vg_warp *w, const struct vg_insn *i, int lane,
                        enum vg_code code, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The place of an instruction as text, for a second place in a report (the
 * other side of a race): "ptx line 812: st.shared.u32 (src/x.cu:41)". */
void vg_place(const struct vg_program *p, int pc, char *out, size_t n);
static inline int vg_pc(const struct vg_warp *w, const struct vg_insn *i);

/* Makes a VG_CONTROL instruction wait; the handler returns at once and is
 * called again when the warp is next scheduled.  fmt: "mbarrier 0x400". */
void vg_retry(struct vg_warp *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Progress that other threads can see (a store, an mbarrier arrive): keeps
 * the watchdog quiet.  Barriers and exits call it themselves. */
static inline void vg_progress(struct vg_warp *w);

/* Next number of the CTA's own random sequence (splitmix64); a function of
 * seed and CTA only.  With seed 0 decisions must not use it. */
uint64_t vg_random(struct vg_cta *cta);

/* ---- for decoders: the opcode table ------------------------------------- */

/* One row: name = leading words ("ld", "cp.async", "mma.sync"); the longest
 * matching name wins.  decode reads modifiers as a set and appends operands;
 * it returns false after vg_error.  A modifier that nobody consumed and an
 * operand that nobody asked for are load-time errors. */
struct vg_opcode {
    const char *name;
    bool (*decode)(struct vg_dec *d);
    enum vg_class cls;
    uint32_t arg;           /* copied to out->arg before decode */
};
extern const struct vg_opcode vg_ops_int[], vg_ops_bits[], vg_ops_float[],
    vg_ops_double[], vg_ops_special[], vg_ops_half[],
    vg_ops_pred[], vg_ops_cvt[], vg_ops_move[], vg_ops_flow[],
    vg_ops_warp[], vg_ops_barrier[],              /* executor */
    vg_ops_mem[], vg_ops_async[], vg_ops_mma[],   /* mem side; end: name NULL */
    vg_ops_hopper[];

struct vg_dec {
    const struct ptx_inst *in;
    struct vg_insn *out;        /* zeroed; kind VG_STRAIGHT */
    struct vg_lower *lower;     /* decode.c's own */
    uint32_t used;              /* bit n: word[n] consumed */
    uint32_t asked;             /* bit n: operand n appended */
};

/* Consumes modifier `word` if it is there. */
bool vg_mod(struct vg_dec *d, const char *word);
/* Consumes whichever of the "|"-separated words is there; its index, or -1. */
int vg_mod_of(struct vg_dec *d, const char *words);
/* Consumes the first unconsumed word that is a type; VG_NOTYPE if none. */
enum vg_type vg_type(struct vg_dec *d);
/* Same, or an error that names the instruction. */
bool vg_need_type(struct vg_dec *d, enum vg_type *t);

/* Appends operand k as source, destination, or both.  bits: the width that
 * the instruction needs; a register of another width is an error; 0 takes
 * the register as declared (see vg_width).  Vectors: element e (e = -1: the
 * operand itself).  A PAIR's elements are 0 and 1.  Returns false on error. */
bool vg_in(struct vg_dec *d, int k, int e, unsigned bits);
bool vg_out(struct vg_dec *d, int k, int e, unsigned bits);
bool vg_inout(struct vg_dec *d, int k, int e, unsigned bits);
/* Source as a float of type t: decimal and 0f/0d literals are converted. */
bool vg_in_typed(struct vg_dec *d, int k, int e, enum vg_type t);
/* Appends a constant row with v in every lane. */
bool vg_in_const(struct vg_dec *d, uint64_t v, unsigned bits);

/* Appends the address row of [base + offset], sets out->imm and
 * out->narrow.  Takes the space that the opcode named and returns the space
 * to use in *space: scratch .param becomes PTX_LOCAL, a kernel parameter
 * PTX_PARAM. */
bool vg_in_address(struct vg_dec *d, int k, enum ptx_space *space);

/* Declared width of operand k / element e in bits (literals: 0), number of
 * elements (1 when it is no vector), presence, and the value of a literal. */
unsigned vg_width(const struct vg_dec *d, int k, int e);
int vg_elems(const struct vg_dec *d, int k);
bool vg_has(const struct vg_dec *d, int k);
bool vg_literal(struct vg_dec *d, int k, int64_t *v);

/* Memory of the program's lifetime for out->aux. */
void *vg_keep(struct vg_dec *d, size_t size);

/* Records "ptx:LINE: OPCODE: message"; returns false. */
bool vg_error(struct vg_dec *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- hooks, implemented by the mem side --------------------------------- */

/* Around a launch (host thread of vg_launch) and a worker (its thread). */
bool vg_mem_launch_begin(struct vg_launch *l);  /* false: out of memory */
void vg_mem_launch_end(struct vg_launch *l);
void vg_mem_worker_begin(struct vg_worker *w);
void vg_mem_worker_end(struct vg_worker *w);
/* shared and local are allocated by the executor and hold garbage; the mem
 * side poisons and shadows them.  cta_end runs after a fault too. */
void vg_mem_cta_begin(struct vg_cta *c);
void vg_mem_cta_end(struct vg_cta *c);
/* Lanes exit (pending cp.async of theirs complete). */
void vg_mem_exit(struct vg_warp *w, uint32_t mask);
/* Happens-before: lanes arrive at b (release), lanes leave it (acquire). */
void vg_mem_arrive(struct vg_warp *w, uint32_t mask, struct vg_barrier *b);
void vg_mem_leave(struct vg_warp *w, uint32_t mask, struct vg_barrier *b);
/* Nothing can run, or nothing has happened for a while: completes a copy
 * that is under way in the set.  false: there is none. */
bool vg_mem_late(struct vg_set *s);
/* bar.warp.sync among these lanes. */
void vg_mem_warp_sync(struct vg_warp *w, uint32_t mask);
/* membar, fence.  i->arg = scope | proxy << 8 | sc << 16; see vg_fence_arg. */
void vg_mem_fence(struct vg_warp *w, const struct vg_insn *i, uint32_t mask);

enum vg_scope { VG_SCOPE_CTA, VG_SCOPE_CLUSTER, VG_SCOPE_GPU, VG_SCOPE_SYS };
/* NONE: an ordinary memory fence.  ASYNC may name one state space only. */
enum vg_proxy {
    VG_PROXY_NONE, VG_PROXY_ASYNC, VG_PROXY_ASYNC_GLOBAL,
    VG_PROXY_ASYNC_SHARED_CTA, VG_PROXY_ASYNC_SHARED_CLUSTER,
    VG_PROXY_ALIAS, VG_PROXY_TENSORMAP, VG_PROXY_MBARRIER_INIT
};
static inline uint32_t vg_fence_arg(enum vg_scope scope, enum vg_proxy proxy,
                                    bool sc)
{
    return (uint32_t)scope | (uint32_t)proxy << 8 | (uint32_t)sc << 16;
}

static inline int vg_pc(const struct vg_warp *w, const struct vg_insn *i)
{
    return (int)(i - w->cta->launch->program->insn);
}
static inline void vg_progress(struct vg_warp *w)
{
    w->cta->set->idle = 0;
}

#endif
