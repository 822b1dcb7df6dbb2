/* SPDX-License-Identifier: Apache-2.0
 *
 * lower.h: state of one vg_compile, shared by the files that make it up:
 *   decode.c    walks the ptx instructions, finds the opcode's table row
 *   operand.c   operands to virtual rows, constants, special registers
 *   liveness.c  virtual registers to slots of the register file
 *
 * While lowering, an entry of `op` is a virtual row: v >= 0 is virtual
 * register v, v < 0 is constant -v - 1.  liveness.c replaces both by byte
 * offsets.
 */
#ifndef VGPU_LOWER_H
#define VGPU_LOWER_H

#include "exec.h"

enum vg_access { VG_READ = 1, VG_WRITE = 2 };

/* A virtual register.  pinned: never shares its slot (special registers,
 * filled when a CTA starts; the sink). */
struct vg_vreg {
    unsigned bits;
    bool pinned;
    int32_t slot;
};

/* What fills a row.  VALUE: the same 64 bits in every lane.  PARAM: bytes of
 * the launch's parameters at `value`.  SPECIAL: index of a special register
 * (see vg_special_fill). */
enum vg_fill { VG_FILL_VALUE, VG_FILL_PARAM, VG_FILL_SPECIAL };
struct vg_constant {
    enum vg_fill fill;
    uint64_t value, high;
    unsigned bits;
    int32_t offset;
};

/* A row to fill at run time: `op` as in vg_insn.op. */
struct vg_patch {
    enum vg_fill fill;
    uint64_t value;
    unsigned bits;
    int32_t op;
};

/* An inlined function: where its registers, labels, local and param bytes
 * live.  Call arguments are aliases: parameter n of the callee IS the
 * caller's scratch variable arg[n]. */
struct vg_frame {
    const struct vg_frame *caller;
    const struct ptx_func *func;
    int reg_base;
    uint64_t local_base;
    const struct ptx_operand *arg, *ret;  /* VEC operands of the call */
    int *pc;                              /* ptx instruction -> pc */
};

struct vg_lower {
    const struct ptx_module *module;
    struct vg_program *program;
    vg_where *where;
    void *where_ctx;
    char *err;
    size_t errsize;
    const struct vg_frame *frame;

    struct vg_vreg *vreg;
    int nvreg, vreg_cap;
    struct vg_constant *constant;
    int nconstant, constant_cap;
    int *hash;                 /* open addressing, constant index or -1 */
    int hash_size;

    int insn_cap;
    int *op_at;                /* first operand of insn[pc] */
    uint8_t *access;           /* per entry of program->op */
    int nop, op_cap;

    int sink, carry;           /* vreg or -1 */
    struct { unsigned id, bits; int vreg; } special[64];
    int nspecial;
};

/* Grows *array to hold at least n elements of the given size. */
bool vg_grow(void *array, int *cap, int n, size_t size);

int vg_new_vreg(struct vg_lower *lo, unsigned bits, bool pinned);
int32_t vg_constant_row(struct vg_lower *lo, enum vg_fill fill,
                        uint64_t value, uint64_t high, unsigned bits);
/* Appends a virtual row to the instruction being decoded. */
bool vg_append(struct vg_dec *d, int32_t row, unsigned access);
/* The carry flag of add.cc and friends, as a predicate row. */
bool vg_in_carry(struct vg_dec *d);
bool vg_out_carry(struct vg_dec *d);
bool vg_inout_carry(struct vg_dec *d);
/* Constant row of kernel parameter bytes [offset, offset + bits/8). */
bool vg_in_param(struct vg_dec *d, uint64_t offset, unsigned bits);
/* Byte offset of a symbol in its space after inlining; *space may change
 * (scratch and callee parameters live in local memory). */
bool vg_symbol_place(struct vg_dec *d, const struct ptx_symbol *s,
                     enum ptx_space *space, uint64_t *at);
/* Decodes the instruction with the table row called `name` instead. */
bool vg_decode_as(struct vg_dec *d, const char *name);

/* brx.idx: aux of its instruction. */
struct vg_jumps {
    int n;
    int32_t target[];
};
/* Handlers that lowering must tell apart: they end a basic block. */
vg_fn vg_bra, vg_brx, vg_exit;

/* Wraps instructions that touch registers of a wgmma (wgmma_regs.c). */
bool vg_watch_registers(struct vg_lower *lo);

/* Register slots by liveness; program->row_bytes and max_live. */
bool vg_assign_slots(struct vg_lower *lo);

/* Special registers by PTX name.  id: -1 unknown.  uniform: the same for
 * the whole launch, so it may be a constant row. */
int vg_special_find(const char *name, unsigned *bits, bool *uniform);
/* Fills one row of special register id; c and w are NULL for uniform ones. */
void vg_special_fill(int id, unsigned bits, const struct vg_launch *l,
                     const struct vg_cta *c, const struct vg_warp *w,
                     void *row);
void vg_fill_row(void *row, uint64_t value, uint64_t high, unsigned bits);

#endif
