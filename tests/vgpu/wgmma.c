/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma.c: wgmma.mma_async, .fence, .commit_group, .wait_group (PTX ISA
 * 9.7.15).
 *
 * A warpgroup's product falls apart into four of m16nNkK: warp w owns rows
 * 16 w to 16 w + 15 of A and D and reads all of B.  So each warp computes its
 * part when it issues the instruction.  What makes the instruction
 * asynchronous is checked instead of played: registers are in flight until
 * the warp waits (wgmma_regs.c), and its reads of shared memory belong to an
 * agent that the warp, too, only knows to be done after its wait
 * (async_shadow.c).
 *
 * The operation is still one of the whole warpgroup: the four warps must
 * issue the same instructions with the same descriptors, and a group is
 * complete when all four have committed it.
 *
 * Example: m64n256k16.f32.bf16.bf16.  A warp has 16 rows: 128 registers of D
 * in each lane, 512 bytes of A, all 8 KiB of B.  It computes D eight columns
 * at a time with the product that mma.sync has, on granules that were looked
 * up once (off[], 2 n of them).
 */
#include "mem_ops.h"
#include "bulk_ops.h"
#include "warp.h"
#include "wgmma.h"

#include <stdio.h>
#include <stdlib.h>

/* 16-byte pieces of B: 256 columns of 32 bytes. */
#define MAX_GRANULES 512

/* Name, elements of D, A and B, and K: 32 bytes of an operand. */
const struct vg_wgmma_type vg_wgmma_type[VG_WGMMA_TYPES] = {
    {"f32.bf16.bf16", VG_ELEM_F32, VG_ELEM_BF16, VG_ELEM_BF16, 16},
    {"f32.f16.f16", VG_ELEM_F32, VG_ELEM_F16, VG_ELEM_F16, 16},
    {"f16.f16.f16", VG_ELEM_F16, VG_ELEM_F16, VG_ELEM_F16, 16},
    {"f32.tf32.tf32", VG_ELEM_F32, VG_ELEM_TF32, VG_ELEM_TF32, 8},
    {"f32.e4m3.e4m3", VG_ELEM_F32, VG_ELEM_E4M3, VG_ELEM_E4M3, 32},
    {"f32.e4m3.e5m2", VG_ELEM_F32, VG_ELEM_E4M3, VG_ELEM_E5M2, 32},
    {"f32.e5m2.e4m3", VG_ELEM_F32, VG_ELEM_E5M2, VG_ELEM_E4M3, 32},
    {"f32.e5m2.e5m2", VG_ELEM_F32, VG_ELEM_E5M2, VG_ELEM_E5M2, 32},
    {"f16.e4m3.e4m3", VG_ELEM_F16, VG_ELEM_E4M3, VG_ELEM_E4M3, 32},
    {"f16.e4m3.e5m2", VG_ELEM_F16, VG_ELEM_E4M3, VG_ELEM_E5M2, 32},
    {"f16.e5m2.e4m3", VG_ELEM_F16, VG_ELEM_E5M2, VG_ELEM_E4M3, 32},
    {"f16.e5m2.e5m2", VG_ELEM_F16, VG_ELEM_E5M2, VG_ELEM_E5M2, 32},
    {"s32.s8.s8", VG_ELEM_S32, VG_ELEM_S8, VG_ELEM_S8, 32},
    {"s32.s8.u8", VG_ELEM_S32, VG_ELEM_S8, VG_ELEM_U8, 32},
    {"s32.u8.s8", VG_ELEM_S32, VG_ELEM_U8, VG_ELEM_S8, 32},
    {"s32.u8.u8", VG_ELEM_S32, VG_ELEM_U8, VG_ELEM_U8, 32},
};

/* ---- the warpgroup ------------------------------------------------------ */

/* wgmma is of four whole warps, the first of which has a rank divisible by
 * four (PTX ISA 9.7.15); lanes that have left make it undefined. */
static void need_warpgroup(struct vg_warp *w, const struct vg_insn *i)
{
    const struct vg_cta *c = w->cta;
    unsigned first = w->index & ~3u;

    if (first + 4 > c->nwarps)
        vg_fault(w, i, -1, VG_FAILED,
                 "wgmma in warp %u: its warpgroup has %u warps only", w->index,
                 c->nwarps - first);
    for (unsigned k = first; k < first + 4; k++)
        if (c->warp[k].live != VG_ALL)
            vg_fault(w, i, -1, VG_FAILED,
                     "wgmma in a partial warpgroup: lanes %08x of warp %u %s",
                     ~c->warp[k].live, k,
                     c->warp[k].born == VG_ALL ? "have exited"
                                               : "do not exist");
}

/* The four warps issue the same instruction on the same matrices; whoever
 * comes first leaves a note.  Notes are a ring of VG_ISSUES: a warp that is
 * further behind than that is not compared. */
static void compare_warps(struct vg_warp *w, const struct vg_insn *i,
                          uint64_t a, uint64_t b)
{
    struct vg_async_warp *aw = vg_async_warp_of(w);
    uint32_t number = ++aw->issued;
    struct vg_issue *n = &vg_async_of(w->cta)
                              ->issue[w->index / 4][number % VG_ISSUES];
    char place[512];

    if (n->number < number)
        *n = (struct vg_issue){number, vg_pc(w, i), a, b};
    if (n->number != number)
        return;
    if (n->pc != vg_pc(w, i)) {
        vg_place(w->cta->launch->program, n->pc, place, sizeof place);
        vg_fault(w, i, -1, VG_FAILED,
                 "the warps of warpgroup %u issue different wgmma: another "
                 "warp's %u-th is\n  at %s", w->index / 4, number, place);
    }
    if (n->a != a || n->b != b)
        vg_fault(w, i, -1, VG_FAILED,
                 "wgmma descriptors differ between warps: A 0x%016llx and "
                 "0x%016llx, B 0x%016llx and 0x%016llx",
                 (unsigned long long)a, (unsigned long long)n->a,
                 (unsigned long long)b, (unsigned long long)n->b);
}

/* ---- operands ----------------------------------------------------------- */

/* A descriptor must be the same in all lanes. */
static uint64_t descriptor(struct vg_warp *w, const struct vg_insn *i, int n)
{
    const uint64_t *v = vg_row(w, i->op[n]);
    uint64_t differ = 0;

    for (int l = 1; l < VG_LANES; l++)
        differ |= v[l] ^ v[0];
    if (differ)
        vg_fault(w, i, -1, VG_FAILED,
                 "a wgmma descriptor differs between lanes");
    return v[0];
}

/* Unpacks a descriptor, or faults. */
static void read_descriptor(struct vg_warp *w, const struct vg_insn *i,
                            uint64_t v, struct vg_desc *d)
{
    char err[200];

    if (!vg_desc_read(v, d, err, sizeof err))
        vg_fault(w, i, -1, VG_FAILED, "%s", err);
}

/* Is D added to?  The same in all lanes of the warp. */
static bool scale_d(struct vg_warp *w, const struct vg_insn *i)
{
    unsigned n = i->nop - 1u;
    bool negated = n < 32 && i->neg >> n & 1;  /* beyond: refused at load */
    uint32_t p = VG_MASK(w, i->op[n]) ^ (negated ? VG_ALL : 0);

    if (p && p != VG_ALL)
        vg_fault(w, i, -1, VG_FAILED, "scale-d differs between lanes");
    return p;
}

/* Bounds, then all checks of the async proxy, then counts. */
static void read_granules(struct vg_warp *w, const struct vg_insn *i,
                          const uint32_t *off, unsigned n)
{
    struct vg_async_access x = {.w = w, .i = i, .c = w->cta,
                                .agent = vg_wgmma_agent(w), .lane = -1,
                                .what = "wgmma"};
    uint32_t most = 0;

    for (unsigned k = 0; k < n; k++)
        most = off[k] > most ? off[k] : most;
    if (most + (uint64_t)VG_GRANULE > w->cta->shared_bytes)
        vg_fault(w, i, -1, VG_ILLEGAL_ADDRESS,
                 "wgmma reads 16 bytes at shared address 0x%x, beyond the "
                 "block's %llu bytes", most,
                 (unsigned long long)w->cta->shared_bytes);
    vg_async_read(&x, off, n);
}

/* ---- A ------------------------------------------------------------------ */

/* The warp's 16 rows as registers of the mma fragment: register r, lane
 * 4 g + q holds word q of half r >> 1 of row g + 8 (r & 1). */
static void load_a_rows(const struct vg_warp *w, const uint32_t *off,
                        uint32_t reg[4][VG_LANES])
{
    for (unsigned r = 0; r < 4; r++)
        for (unsigned g = 0; g < 8; g++)
            memcpy(&reg[r][4 * g],
                   w->cta->shared + off[2 * (g + 8 * (r & 1)) + (r >> 1)], 16);
}

/* A in shared memory: rows (K-major) or columns of eight (MN-major). */
static void load_a(struct vg_warp *w, const struct vg_insn *i,
                   const struct vg_wgmma *x, uint64_t v, uint32_t reg[4][32],
                   struct vg_mma_operands *o)
{
    unsigned row0 = 16 * (w->index & 3);
    uint32_t off[32];
    struct vg_desc d;

    read_descriptor(w, i, v, &d);
    for (unsigned k = 0; k < 32; k++)
        off[k] = x->a_mn ? vg_desc_mn_major(&d, k / 2, row0 / 8 + (k & 1))
                         : vg_desc_k_major(&d, row0 + k / 2, k & 1);
    read_granules(w, i, off, 32);
    vg_mem_of(w, i)->worker->counts.async.port_a += 512;
    if (!x->a_mn) {
        load_a_rows(w, off, reg);
        return;
    }
    for (unsigned k = 0; k < 32; k++)
        vg_mma_widen8(vg_wgmma_type[x->type].a, w->cta->shared + off[k],
                      &o->a[k / 2][8 * (k & 1)]);
}

/* ---- B ------------------------------------------------------------------ */

/* Offsets of B's granules, eight columns after eight columns: 16 each. */
static void find_b(struct vg_warp *w, const struct vg_insn *i,
                   const struct vg_wgmma *x, uint64_t v, uint32_t *off)
{
    struct vg_desc d;

    read_descriptor(w, i, v, &d);
    for (unsigned c = 0; c < x->n / 8u; c++)
        for (unsigned k = 0; k < 16; k++)
            off[16 * c + k] = x->b_mn
                                  ? vg_desc_mn_major(&d, k, c)
                                  : vg_desc_k_major(&d, 8 * c + k % 8, k / 8);
    read_granules(w, i, off, 2u * x->n);
    vg_mem_of(w, i)->worker->counts.async.port_b += 8u * x->n;
}

/* K-major columns as registers of the mma fragment: register r, lane 4 g + q
 * holds word q of half r of column g. */
static void load_b_rows(const struct vg_warp *w, const uint32_t *off,
                        uint32_t reg[2][VG_LANES])
{
    for (unsigned k = 0; k < 16; k++)
        memcpy(&reg[k / 8][4 * (k % 8)], w->cta->shared + off[k], 16);
}

/* ---- products ----------------------------------------------------------- */

/* The bit model of mma.h for wgmma on sm_90. */
static struct vg_mma_model model_of(const struct vg_wgmma_type *t)
{
    bool fp8 = t->a == VG_ELEM_E4M3 || t->a == VG_ELEM_E5M2;

    return (struct vg_mma_model){
        .fraction = fp8 ? 13 : 25,
        .step = t->k,
        .round = t->d == VG_ELEM_F16 ? VG_ROUND_F16
                 : fp8               ? VG_ROUND_E8M13
                                     : VG_ROUND_F32,
    };
}

/* imm-scale -1 on one operand negates the product; on A, for it is smaller. */
static void negate(struct vg_mma_operands *o, unsigned k)
{
    for (unsigned n = 0; n < k; n++)
        for (unsigned r = 0; r < 16; r++)
            o->a[n][r] = -o->a[n][r];
}

/* Eight columns of D at a time, b: their 16 granules.  o has A.  D's registers
 * come per eight columns, four of f32 or two of packed f16, in the order of
 * the mma fragment: a warp's part of wgmma's D is that of m16n8 side by
 * side. */
static void run_float(struct vg_warp *w, const struct vg_insn *i,
                      const struct vg_wgmma *x, struct vg_mma_operands *o,
                      const uint32_t *b, bool add)
{
    const struct vg_wgmma_type *t = &vg_wgmma_type[x->type];
    unsigned per = t->d == VG_ELEM_F16 ? 2 : 4;
    struct vg_mma_model m = model_of(t);
    uint32_t reg[2][VG_LANES];
    const void *rows[2] = {reg[0], reg[1]};

    for (unsigned c = 0; c < x->n / 8u; c++, b += 16) {
        float acc[8][16];
        void *d[4];

        for (unsigned r = 0; r < per; r++)
            d[r] = vg_row(w, i->op[per * c + r]);
        if (x->b_mn) {
            for (unsigned k = 0; k < 16; k++)
                vg_mma_widen8(t->b, w->cta->shared + b[k], o->b[k]);
        } else {
            load_b_rows(w, b, reg);
            vg_mma_put_b(t->b, 2, rows, o);
        }
        if (add)
            vg_mma_get_c(t->d, (const void *const *)d, acc);
        else
            memset(acc, 0, sizeof acc);
        vg_mma_float(o, t->k, &m, acc);
        vg_mma_put_d(t->d, acc, d);
    }
}

/* The same for integers, which mma's m16n8k32 computes as they are. */
static void run_int(struct vg_warp *w, const struct vg_insn *i,
                    const struct vg_wgmma *x, const void *const *a,
                    const uint32_t *b, bool add)
{
    static const uint32_t zero[VG_LANES];
    uint32_t reg[2][VG_LANES];
    const void *rows[2] = {reg[0], reg[1]};

    for (unsigned c = 0; c < x->n / 8u; c++, b += 16) {
        const void *from[4];
        void *d[4];

        for (unsigned r = 0; r < 4; r++) {
            d[r] = vg_row(w, i->op[4 * c + r]);
            from[r] = add ? d[r] : zero;
        }
        load_b_rows(w, b, reg);
        vg_mma_run(x->kind, 90, x->satfinite ? VG_MMA_SATFINITE : 0, a, rows,
                   from, d);
    }
}

/* ---- mma_async ---------------------------------------------------------- */

static void count(struct vg_warp *w, const struct vg_insn *i,
                  const struct vg_wgmma *x)
{
    struct vg_async_counts *c = &vg_mem_of(w, i)->worker->counts.async;

    c->wgmma[x->type][x->n / 8]++;
    c->mma_cycles_8 += x->n;       /* a quarter of n / 2, in eighths */
}

/* op: D, A's registers or descriptor, B's descriptor, scale-d.  Registers are
 * taken into flight before anything is read, so that the report of a missing
 * fence comes before any about the data. */
void vg_wgmma(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct vg_wgmma *x = i->aux;
    const struct vg_wgmma_type *t = &vg_wgmma_type[x->type];
    unsigned at = x->nd + (x->na ? x->na : 1u);
    uint32_t reg[4][VG_LANES], off[MAX_GRANULES];
    const void *rows[4] = {reg[0], reg[1], reg[2], reg[3]};
    struct vg_mma_operands o;
    uint64_t a = 0, b;
    bool add = scale_d(w, i);

    (void)mask;
    vg_mem_of(w, i);
    need_warpgroup(w, i);
    /* A in registers has no descriptor: 0 stands for it in the comparison of
     * the four warps. */
    a = x->na ? 0 : descriptor(w, i, x->nd);
    b = descriptor(w, i, (int)at);
    compare_warps(w, i, a, b);
    vg_wgmma_registers(w, i);
    vg_async_warp_of(w)->used = vg_async_warp_of(w)->groups + 1;
    if (x->na)
        for (unsigned r = 0; r < 4; r++)
            rows[r] = vg_row(w, i->op[x->nd + r]);
    else
        load_a(w, i, x, a, reg, &o);
    find_b(w, i, x, b, off);
    count(w, i, x);
    if (x->kind) {
        run_int(w, i, x, rows, off, add);
        return;
    }
    if (!x->a_mn)
        vg_mma_put_a(t->a, 4, rows, &o);
    vg_mma_least(t->a, t->b, &o);
    if (x->negative)
        negate(&o, t->k);
    run_float(w, i, x, &o, off, add);
}

/* ---- groups ------------------------------------------------------------- */

/* wgmma.fence: counted, and compared with the accesses in wgmma_regs.c. */
static void fence(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    (void)mask;
    vg_mem_of(w, i);
    need_warpgroup(w, i);
    vg_async_warp_of(w)->fences++;
}

/* wgmma.commit_group.  Group n of a warp is epoch n of its agent.  An empty
 * group is a group. */
static void commit(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    struct vg_mem_cta *mc = vg_mem_of(w, i);
    struct vg_async_warp *aw;

    (void)mask;
    need_warpgroup(w, i);
    aw = vg_async_warp_of(w);
    aw->groups++;
    if (mc->race)
        vg_race_agent_step(mc->race, mc->async->agent0 + vg_wgmma_agent(w));
    vg_progress(w);
}

/* The warp, and without the release check its warpgroup, has read what its
 * groups up to n read. */
static void learn(struct vg_warp *w, uint32_t n)
{
    const struct vg_mem_cta *mc = w->cta->mem;
    unsigned first = w->index & ~3u;

    for (unsigned k = first; mc->race && k < first + 4; k++)
        if (k == w->index || !vg_checking(w, VG_CHECK_RELEASE))
            vg_race_agent_learn(mc->race, vg_race_warp(w),
                                mc->async->agent0 + k, n);
}

/* arg: how many of the youngest groups may stay.  A group is the warpgroup's:
 * it is not complete before all four warps have committed it, so the warp
 * waits for them.  Without that a fast warp would hand a tile back that a slow
 * one has still to read. */
static void wait_group(struct vg_warp *w, const struct vg_insn *i,
                       uint32_t mask)
{
    struct vg_async_warp *aw;
    const struct vg_async *a;
    uint32_t target;

    (void)mask;
    if (!vg_converged(w, w->live))
        return;
    vg_mem_of(w, i);
    a = vg_async_of(w->cta);
    aw = vg_async_warp_of(w);
    target = aw->groups > i->arg ? aw->groups - i->arg : 0;
    for (unsigned k = w->index & ~3u;
         target && k < (w->index & ~3u) + 4; k++)
        if (a->warp[k].groups < target) {
            vg_retry(w, "wgmma group %u, not issued by warp %u", target, k);
            return;
        }
    if (target <= aw->done)
        return;
    aw->done = target;
    learn(w, target);
}

/* ---- decoding ----------------------------------------------------------- */

/* wgmma.fence, .commit_group, .wait_group: .sync.aligned; arg selects. */
bool vg_decode_wgmma_sync(struct vg_dec *d)
{
    static vg_fn *const fn[] = {fence, commit, wait_group};
    uint32_t what = d->out->arg;
    int64_t n = 0;

    if (!vg_mod(d, "sync") || !vg_mod(d, "aligned"))
        return vg_error(d, "needs .sync.aligned");
    if (what == 2 && (!vg_has(d, 0) || !vg_literal(d, 0, &n) || n < 0 ||
                      n > 7))
        return vg_error(d, "the number of groups must be a literal from 0 to "
                           "7");
    d->lower->program->is_async = true;
    d->out->arg = (uint32_t)n;
    d->out->fn = fn[what];
    d->out->kind = what == 2 ? VG_CONTROL : VG_ALIGNED;
    return true;
}

/* m64nNkK and the types D, A, B. */
static bool find_type(struct vg_dec *d, struct vg_wgmma *x)
{
    unsigned n = 0, k = 0, type = 0;
    enum vg_type t[3];
    char name[40];
    int end = 0;
    const char *shape = NULL;

    for (int m = 1; m < d->in->nwords; m++)
        if (strncmp(d->in->word[m], "m64n", 4) == 0)
            shape = d->in->word[m];
    if (!shape || sscanf(shape, "m64n%uk%u%n", &n, &k, &end) != 2 ||
        shape[end])
        return vg_error(d, "no shape m64nNkK");
    vg_mod(d, shape);
    for (int m = 0; m < 3; m++)
        if (!vg_need_type(d, &t[m]))
            return false;
    snprintf(name, sizeof name, "%s.%s.%s", vg_type_name(t[0]),
             vg_type_name(t[1]), vg_type_name(t[2]));
    while (type < VG_WGMMA_TYPES && strcmp(vg_wgmma_type[type].name, name))
        type++;
    if (type == VG_WGMMA_TYPES || vg_wgmma_type[type].k != k)
        return vg_error(d, "types %s with depth %u are not known", name, k);
    if (n < 8 || n > 256 || n % 8 ||
        (vg_wgmma_type[type].d == VG_ELEM_S32 && n > 32 && n % 16))
        return vg_error(d, "n is %u, allowed are multiples of %d to 256", n,
                        vg_wgmma_type[type].d == VG_ELEM_S32 ? 16 : 8);
    x->type = (uint8_t)type;
    x->n = (uint16_t)n;
    return true;
}

/* A literal operand that must be one of two values. */
static bool either(struct vg_dec *d, int k, int64_t a, int64_t b, int64_t *v)
{
    if (!vg_has(d, k) || !vg_literal(d, k, v) || (*v != a && *v != b))
        return vg_error(d, "operand %d must be %d or %d", k + 1, (int)a,
                        (int)b);
    return true;
}

/* imm-scale-a, imm-scale-b and, for 16-bit types, imm-trans of the operands
 * that are in shared memory. */
static bool immediates(struct vg_dec *d, struct vg_wgmma *x)
{
    const struct vg_wgmma_type *t = &vg_wgmma_type[x->type];
    int64_t a, b, trans = 0;
    int k = 6;

    if (t->d == VG_ELEM_S32)
        return true;
    if (!either(d, 4, 1, -1, &a) || !either(d, 5, 1, -1, &b))
        return false;
    x->negative = a * b < 0;
    if (t->k != 16)
        return true;
    if (!x->na) {
        if (!either(d, k++, 0, 1, &trans))
            return false;
        x->a_mn = trans;
    }
    if (!either(d, k, 0, 1, &trans))
        return false;
    x->b_mn = trans;
    return true;
}

/* D is read as well, unless scale-d is the literal 0. */
static bool registers(struct vg_dec *d, struct vg_wgmma *x)
{
    const struct ptx_operand *p = &d->in->op[3];
    bool fresh = p->kind == PTX_OP_IMM && p->bits == 0;

    if (vg_elems(d, 0) != x->nd)
        return vg_error(d, "D has %d registers, it needs %d", vg_elems(d, 0),
                        x->nd);
    for (int e = 0; e < x->nd; e++)
        if (!(fresh ? vg_out(d, 0, e, 32) : vg_inout(d, 0, e, 32)))
            return false;
    if (!x->na)
        return vg_in(d, 1, -1, 64);
    if (vg_elems(d, 1) != 4)
        return vg_error(d, "A has %d registers, it needs 4", vg_elems(d, 1));
    for (int e = 0; e < 4; e++)
        if (!vg_in(d, 1, e, 32))
            return false;
    return true;
}

/* wgmma.mma_async.sync.aligned.m64nNkK{.satfinite}.D.A.B
 *     d, a | a-desc, b-desc, scale-d{, imm-scale-a, imm-scale-b{, imm-trans}}
 */
bool vg_decode_wgmma(struct vg_dec *d)
{
    struct vg_wgmma *x = vg_keep(d, sizeof *x);
    const struct vg_wgmma_type *t;
    char name[48];

    if (!x)
        return vg_error(d, "out of memory");
    if (strcmp(d->lower->module->target, "sm_90a") != 0)
        return vg_error(d, "wgmma needs .target sm_90a, not %s",
                        d->lower->module->target);
    if (!vg_mod(d, "sync") || !vg_mod(d, "aligned"))
        return vg_error(d, "needs .sync.aligned");
    x->satfinite = vg_mod(d, "satfinite");
    if (!find_type(d, x))
        return false;
    if (d->in->nops < 4)
        return vg_error(d, "%d operands", d->in->nops);
    t = &vg_wgmma_type[x->type];
    x->nd = (uint8_t)(t->d == VG_ELEM_F16 ? x->n / 4 : x->n / 2);
    x->na = d->in->op[1].kind == PTX_OP_VEC ? 4 : 0;
    if (t->d == VG_ELEM_S32) {
        snprintf(name, sizeof name, "m16n8k32.%s.s32", t->name);
        x->kind = vg_mma_kind((unsigned)vg_mma_find(name));
    }
    d->lower->program->is_async = true;
    d->out->aux = x;
    d->out->fn = vg_wgmma;
    d->out->kind = VG_ALIGNED;
    return registers(d, x) && vg_in(d, 2, -1, 64) && vg_in(d, 3, -1, 1) &&
           immediates(d, x);
}
