/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c: what a failed launch says.
 *
 * A report names the kernel, what is wrong, the PTX instruction, the source
 * line, and the block, warp and thread.  A deadlock report adds where every
 * warp stands and what it waits for.
 *
 *   decode: out-of-bounds read of 16 bytes at global address 0x8000100011f0:
 *   256 bytes beyond the end of allocation 1 (4096 bytes at 0x800010000100)
 *     at ptx line 812: ld.global.v4.u32 (decode.cu:41)
 *     block (3,0,0) warp 1 lane 7 thread (39,0,0)
 */
#include "warp.h"

#include <stdio.h>
#include <stdlib.h>

/* A string that grows; out of memory truncates it, for a report that is cut
 * is better than none. */
struct text {
    char *s;
    size_t n, cap;
};

/* Appends at most 1023 characters. */
__attribute__((format(printf, 2, 3)))
static void put(struct text *t, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    size_t n = strlen(line);
    if (t->n + n + 1 > t->cap) {
        size_t cap = 2 * (t->n + n + 1);
        char *s = realloc(t->s, cap);
        if (!s)
            return;
        t->s = s;
        t->cap = cap;
    }
    memcpy(t->s + t->n, line, n + 1);
    t->n += n;
}

/* Without .loc directives (no -lineinfo) the PTX line alone must do. */
void vg_place(const struct vg_program *p, int pc, char *out, size_t n)
{
    const struct ptx_inst *in = p->src[pc];
    const char *file = NULL;
    if (in->file >= 0 && in->file < p->module->nfiles)
        file = p->module->file[in->file];
    if (in->line)
        snprintf(out, n, "ptx line %d: %s (%s:%d)", in->ptx_line, in->opcode,
                 file ? file : "?", in->line);
    else
        snprintf(out, n, "ptx line %d: %s", in->ptx_line, in->opcode);
}

/* Block, warp and, for one lane, threadIdx. */
static void put_where(struct text *t, const struct vg_warp *w, int lane)
{
    const struct vg_cta *c = w->cta;
    const uint32_t *b = c->launch->config.block;
    put(t, "\n  block (%u,%u,%u) warp %u", c->id[0], c->id[1], c->id[2],
        w->index);
    if (lane < 0)
        return;
    unsigned n = w->index * VG_LANES + (unsigned)lane;
    put(t, " lane %d thread (%u,%u,%u)", lane, n % b[0], n / b[0] % b[1],
        n / b[0] / b[1]);
}

/* Back to run_guarded of the worker, which decides whether this fault is the
 * one to report. */
_Noreturn static void end(struct vg_worker *k, enum vg_code code,
                          struct text *t)
{
    k->code = code;
    k->report = t->s;
    longjmp(k->fault, 1);
}

/* The message comes first; place and thread have lines of their own, so that
 * reports of one fault in many threads can be told alike. */
void vg_fault(struct vg_warp *w, const struct vg_insn *i, int lane,
              enum vg_code code, const char *fmt, ...)
{
    const struct vg_program *p = w->cta->launch->program;
    struct text t = {0};
    char message[768], place[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    vg_place(p, vg_pc(w, i), place, sizeof place);
    put(&t, "%s: %s\n  at %s", p->func->name, message, place);
    put_where(&t, w, lane);
    put(&t, "\n");
    end(w->cta->worker, code, &t);
}

/* ---- deadlock ------------------------------------------------------------ */

/* What a group is doing, in words. */
static void put_waiting(struct text *t, const struct vg_warp *w,
                        const struct vg_group *g)
{
    const struct vg_barrier *b = &w->cta->barrier[g->barrier];
    switch (g->state) {
    case VG_READY:
        put(t, "running");
        break;
    case VG_WAIT_LANES:
        put(t, "waits for lanes %08x", g->need & w->live & ~g->mask);
        break;
    case VG_WAIT_BARRIER:
        put(t, "waits at barrier %u: %u of %u threads arrived", g->barrier,
            b->arrived, b->expected ? b->expected : w->cta->live_threads);
        break;
    case VG_WAIT_POLL:
        put(t, "waits: %s", g->why);
        break;
    }
}

/* One line per group of the warp. */
static void put_warp(struct text *t, const struct vg_warp *w)
{
    const struct vg_program *p = w->cta->launch->program;
    const uint32_t *id = w->cta->id;
    char place[512];
    for (int n = 0; n < w->ngroups; n++) {
        const struct vg_group *g = &w->group[n];
        vg_place(p, g->pc, place, sizeof place);
        put(t, "  block (%u,%u,%u) warp %u lanes %08x ", id[0], id[1], id[2],
            w->index, g->mask);
        put_waiting(t, w, g);
        put(t, ", at %s\n", place);
    }
}

/* A group that waits for lanes of its own warp: that is the fault, whatever
 * the other warps wait for.  NULL: none. */
static const struct vg_group *split_warp(const struct vg_set *s,
                                         const struct vg_warp **of)
{
    for (unsigned c = 0; c < s->ncta; c++)
        for (unsigned n = 0; n < s->cta[c].nwarps; n++) {
            const struct vg_warp *w = &s->cta[c].warp[n];
            for (int k = 0; k < w->ngroups; k++)
                if (w->group[k].state == VG_WAIT_LANES) {
                    *of = w;
                    return &w->group[k];
                }
        }
    return NULL;
}

/* The headline of a fault by lanes that never come. */
static void put_split(struct text *t, const struct vg_warp *w,
                      const struct vg_group *g)
{
    const struct vg_insn *i = &w->cta->launch->program->insn[g->pc];
    char place[512];
    vg_place(w->cta->launch->program, g->pc, place, sizeof place);
    if (i->kind == VG_MEMBER)
        put(t, "lanes %08x of the member mask never reach the instruction",
            g->need & w->live & ~g->mask);
    else
        put(t, "partial warp: an .aligned instruction is executed by lanes "
            "%08x only, lanes %08x never reach it", g->mask,
            g->need & w->live & ~g->mask);
    put(t, "\n  at %s", place);
    put_where(t, w, -1);
    put(t, "\n");
}

/* Warps that a deadlock report lists: two blocks of 1024 threads. */
#define SHOW_WARPS 64

/* A CTA has at most 32 warps, but cooperative grids have many CTAs: the list
 * is cut after SHOW_WARPS. */
void vg_deadlock(struct vg_set *s, bool watchdog)
{
    struct vg_worker *k = s->cta[0].worker;
    const struct vg_warp *w = NULL;
    /* A watchdog's warps all run; nobody waits for lanes. */
    const struct vg_group *g = watchdog ? NULL : split_warp(s, &w);
    struct text t = {0};
    unsigned shown = 0, left = 0;
    put(&t, "%s: ", k->launch->program->func->name);
    if (g)
        put_split(&t, w, g);
    else if (watchdog)
        put(&t, "no store, barrier or exit for %llu instructions\n",
            (unsigned long long)s->idle);
    else
        put(&t, "deadlock: no warp can run\n");
    for (unsigned c = 0; c < s->ncta; c++)
        for (unsigned n = 0; n < s->cta[c].nwarps; n++) {
            if (s->cta[c].warp[n].live == 0)
                continue;
            if (shown++ < SHOW_WARPS)
                put_warp(&t, &s->cta[c].warp[n]);
            else
                left++;
        }
    if (left)
        put(&t, "  and %u more warps\n", left);
    end(k, watchdog ? VG_TIMEOUT : VG_FAILED, &t);
}
