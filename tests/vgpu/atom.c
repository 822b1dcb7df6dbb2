/* SPDX-License-Identifier: Apache-2.0
 *
 * atom.c: atom and red (PTX ISA 9.7.13.5, 9.7.13.7).
 *
 * Lanes go one after the other, in lane order.  Other blocks may run on other
 * host threads, so every update is a compare-and-swap on host memory, which
 * is atomic towards their plain stores as well.  128-bit operations take a
 * lock instead.  Neither is needed in shared memory, where one host thread
 * runs all blocks of a cluster, but the code is the same.
 */
#include "mem_ops.h"
#include "small_float.h"

#include <pthread.h>

/* In the order of take_op's list of words. */
enum op { AND, OR, XOR, CAS, EXCH, ADD, INC, DEC, MIN, MAX };

/* One atom or red, decoded. */
struct atom {
    struct vg_mem_words words;
    enum op op;
    enum vg_type type;
    uint8_t bytes, n;        /* of an element, elements */
    bool result;             /* atom; red has none */
};

/* ---- one update --------------------------------------------------------- */

/* A subnormal becomes a zero of its sign. */
static float flush(float x)
{
    uint32_t u = vg_sf_bits(x);

    return u & 0x7f800000 ? x : vg_sf_float(u & 0x80000000);
}

/* ADD, MIN or MAX.  min and max return the number where one side is NaN (PTX
 * ISA 9.7.3). */
static float apply_float(enum op op, float a, float b)
{
    if (op == ADD)
        return a + b;
    if (a != a || b != b)
        return a != a ? b : a;
    return (op == MIN) == (a < b) ? a : b;
}

/* f32 addition flushes subnormals in global memory and keeps them in shared
 * memory (ISA 9.7.13.5). */
static uint64_t apply_f32(enum op op, uint64_t old, uint64_t b, bool ftz)
{
    float x = vg_sf_float((uint32_t)old), y = vg_sf_float((uint32_t)b);

    if (!ftz)
        return vg_sf_bits(apply_float(op, x, y));
    return vg_sf_bits(flush(apply_float(op, flush(x), flush(y))));
}

/* f64 has addition only. */
static uint64_t apply_f64(uint64_t old, uint64_t b)
{
    double x, y;

    memcpy(&x, &old, sizeof x);
    memcpy(&y, &b, sizeof y);
    x += y;
    memcpy(&old, &x, sizeof x);
    return old;
}

/* f16 or bf16: computed in fp32 and rounded again.  fp32 has at least twice
 * their digits and two more, so two roundings give what one would. */
static uint32_t apply_half(enum op op, enum vg_type t, uint32_t a, uint32_t b)
{
    if (t == VG_F16 || t == VG_F16X2)
        return vg_sf_to_f16(
            apply_float(op, vg_sf_from_f16(a), vg_sf_from_f16(b)));
    return vg_sf_to_bf16(
        apply_float(op, vg_sf_from_bf16(a), vg_sf_from_bf16(b)));
}

/* One half or a pair; the two of a pair are updated independently. */
static uint64_t apply_halves(enum op op, enum vg_type t, uint64_t old,
                             uint64_t b)
{
    uint32_t lo = apply_half(op, t, old & 0xffff, b & 0xffff);

    if (t == VG_F16 || t == VG_BF16)
        return lo;
    return lo | (uint64_t)apply_half(op, t, old >> 16 & 0xffff,
                                     b >> 16 & 0xffff) << 16;
}

/* min and max of integers. */
static uint64_t apply_order(enum op op, enum vg_type t, uint64_t a, uint64_t b)
{
    bool less = t == VG_S32   ? (int32_t)a < (int32_t)b
                : t == VG_S64 ? (int64_t)a < (int64_t)b
                              : a < b;

    return less == (op == MIN) ? a : b;
}

/* What needs no type: operands are zero-extended, and what an addition
 * carries beyond the type is cut by the store.  inc and dec wrap at b. */
static uint64_t apply_bits(enum op op, uint64_t old, uint64_t b, uint64_t c)
{
    switch (op) {
    case AND:
        return old & b;
    case OR:
        return old | b;
    case XOR:
        return old ^ b;
    case CAS:
        return old == b ? c : old;
    case EXCH:
        return b;
    case INC:
        return old >= b ? 0 : old + 1;
    case DEC:
        return old == 0 || old > b ? b : old - 1;
    default:
        return old + b;
    }
}

/* The new value for `old`, as bits of x's type; c is for cas only. */
static uint64_t apply(const struct atom *x, uint64_t old, uint64_t b,
                      uint64_t c, bool global)
{
    switch (x->type) {
    case VG_F32:
        return apply_f32(x->op, old, b, global && x->op == ADD);
    case VG_F64:
        return apply_f64(old, b);
    case VG_F16:
    case VG_BF16:
    case VG_F16X2:
    case VG_BF16X2:
        return apply_halves(x->op, x->type, old, b);
    default:
        if (x->op == MIN || x->op == MAX)
            return apply_order(x->op, x->type, old, b);
        return apply_bits(x->op, old, b, c);
    }
}

/* ---- updating memory ---------------------------------------------------- */

/* Replaces *p, of type T, by apply(*p); returns the old value. */
#define UPDATE(T)                                                             \
    {                                                                         \
        T *p = at;                                                            \
        T old = __atomic_load_n(p, __ATOMIC_SEQ_CST), new;                    \
        do                                                                    \
            new = (T)apply(x, old, (T)b, (T)c, global);                       \
        while (!__atomic_compare_exchange_n(p, &old, new, false,              \
                                            __ATOMIC_SEQ_CST,                 \
                                            __ATOMIC_SEQ_CST));               \
        *changed |= new != old;                                               \
        return old;                                                           \
    }

/* Updates x->bytes (2, 4 or 8) at `at`, atomically towards all host threads,
 * and returns the old value.  *changed becomes true when the value did: a
 * spinning cas that fails is no progress. */
static uint64_t update(const struct atom *x, void *at, uint64_t b, uint64_t c,
                       bool global, bool *changed)
{
    switch (x->bytes) {
    case 2:
        UPDATE(uint16_t);
    case 4:
        UPDATE(uint32_t);
    default:
        UPDATE(uint64_t);
    }
}

/* For 16 bytes there is no portable compare-and-swap.  The lock orders them
 * among themselves; narrower updates of the same bytes are not ordered. */
static pthread_mutex_t wide_lock = PTHREAD_MUTEX_INITIALIZER;

/* exch.b128 and cas.b128 on 16 bytes; old[] gets what was there. */
static void update_wide(const struct atom *x, void *at, const uint64_t b[2],
                        const uint64_t c[2], uint64_t old[2], bool *changed)
{
    pthread_mutex_lock(&wide_lock);
    memcpy(old, at, 16);
    if (x->op == EXCH)
        memcpy(at, b, 16);
    else if (old[0] == b[0] && old[1] == b[1])
        memcpy(at, c, 16);
    *changed |= memcmp(old, at, 16) != 0;
    pthread_mutex_unlock(&wide_lock);
}

/* ---- the instruction ---------------------------------------------------- */

/* Rows of sources b and c of element e, in op: [n results], address, b, c. */
static const void *source(struct vg_warp *w, const struct vg_insn *i,
                          const struct atom *x, unsigned which, unsigned e)
{
    unsigned n = (x->result ? x->n : 0) + 1 + which * x->n + e;

    return vg_row(w, i->op[n]);
}

/* Lane l of a register row of elements of `bytes`, zero-extended; *high: the
 * upper half of 128 bits, else 0. */
static uint64_t lane_value(const void *row, unsigned bytes, int l,
                           uint64_t *high)
{
    const uint64_t *wide = row;

    *high = bytes == 16 ? wide[VG_LANES + l] : 0;
    if (bytes >= 8)
        return wide[l];
    return bytes == 4 ? ((const uint32_t *)row)[l]
                      : ((const uint16_t *)row)[l];
}

/* Element e of lane l; old[] gets what was there. */
static void atom_lane(struct vg_touch *t, const struct atom *x, unsigned e,
                      int l, uint64_t old[2], bool *changed)
{
    void *at = t->base + t->off[l] + e * x->bytes;
    uint64_t b[2], c[2] = {0, 0};

    b[0] = lane_value(source(t->w, t->i, x, 0, e), x->bytes, l, &b[1]);
    if (x->op == CAS)
        c[0] = lane_value(source(t->w, t->i, x, 1, e), x->bytes, l, &c[1]);
    if (x->bytes == 16)
        update_wide(x, at, b, c, old, changed);
    else
        old[0] = update(x, at, b[0], c[0], t->alloc != NULL, changed);
}

/* Element e of all lanes of the touch, in lane order. */
static void atom_element(struct vg_touch *t, const struct atom *x, unsigned e,
                         uint64_t low[VG_LANES], uint64_t high[VG_LANES],
                         bool *changed)
{
    for (uint32_t m = t->mask; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        uint64_t old[2] = {0, 0};

        atom_lane(t, x, e, l, old, changed);
        low[l] = old[0];
        high[l] = old[1];
    }
}

/* op: n results (atom), address, n sources b, n sources c (cas).  Results
 * are stored last: their rows may be those of the sources. */
static void atom(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct atom *x = i->aux;
    uint64_t low[8][VG_LANES], high[8][VG_LANES];
    bool changed = false;
    struct vg_touch t;
    struct vg_how how = {
        .space = x->words.space,
        .dir = VG_TOUCH_READ | VG_TOUCH_WRITE,
        .path = VG_PATH_ATOMIC,
        .race = VG_RACE_STRONG,
        .bypass_l1 = true,
    };

    vg_touch_begin(&t, w, i, x->result ? x->n : 0, x->bytes * x->n);
    for (uint32_t todo = mask; todo; todo &= ~t.mask) {
        unsigned lanes;

        /* vg_touch sets it for global memory only, and lanes of one
         * instruction may be in different spaces. */
        t.alloc = NULL;
        vg_touch(&t, todo, &how);
        vg_flag_order(&t, &x->words, false);
        for (unsigned e = 0; e < x->n; e++)
            atom_element(&t, x, e, low[e], high[e], &changed);
        vg_flag_order(&t, &x->words, true);
        lanes = (unsigned)__builtin_popcount(t.mask) * x->n;
        *(t.alloc ? &vg_counts_of(&t)->atomic_global
                  : &vg_counts_of(&t)->atomic_shared) += lanes;
    }
    for (unsigned e = 0; e < x->n && x->result; e++) {
        void *row = vg_row(w, i->op[e]);

        vg_put_row(row, 8u * x->bytes, low[e], mask);
        if (x->bytes == 16)
            vg_put64((uint64_t *)row + VG_LANES, high[e], mask);
    }
    if (changed)
        vg_progress(w);
}

/* ---- decoding ----------------------------------------------------------- */

/* Which operations a type has, as bits of enum op (PTX ISA 9.7.13.5, table of
 * types).  f16 and bf16 need .noftz, which is consumed and always holds. */
static unsigned allowed(enum vg_type t)
{
    unsigned bitwise = 1u << AND | 1u << OR | 1u << XOR;
    unsigned swap = 1u << CAS | 1u << EXCH;
    unsigned order = 1u << MIN | 1u << MAX;

    switch (t) {
    case VG_B16:
        return 1u << CAS;
    case VG_B32:
    case VG_B64:
        return bitwise | swap;
    case VG_B128:
        return swap;
    case VG_U32:
        return 1u << ADD | 1u << INC | 1u << DEC | order;
    case VG_S32:
    case VG_U64:
        return 1u << ADD | order;
    case VG_S64:
        return order;
    case VG_F32:
    case VG_F64:
        return 1u << ADD;
    case VG_F16:
    case VG_BF16:
    case VG_F16X2:
    case VG_BF16X2:
        return 1u << ADD | order;
    default:
        return 0;
    }
}

/* Consumes operation, vector length and type: .add.noftz.v4.f16x2. */
static bool take_op(struct vg_dec *d, struct atom *x)
{
    static const int length[] = {2, 4, 8};
    int op = vg_mod_of(d, "and|or|xor|cas|exch|add|inc|dec|min|max");
    int v = vg_mod_of(d, "v2|v4|v8");

    if (op < 0)
        return vg_error(d, "no operation (and, or, xor, cas, exch, add, inc, "
                           "dec, min, max)");
    x->op = (enum op)op;
    x->n = (uint8_t)(v < 0 ? 1 : length[v]);
    vg_mod(d, "noftz");
    if (!vg_need_type(d, &x->type))
        return false;
    if (!(allowed(x->type) >> op & 1))
        return vg_error(d, "type .%s has no such operation",
                        vg_type_name(x->type));
    x->bytes = (uint8_t)(vg_bits(x->type) / 8);
    return true;
}

/* cp.reduce.async.bulk has atom's operations without those that return. */
bool vg_decode_update(struct vg_dec *d, struct vg_update *u)
{
    struct atom x;

    if (!take_op(d, &x))
        return false;
    if (x.op == CAS || x.op == EXCH || x.n != 1 || x.bytes > 8)
        return vg_error(d, "no such reduction");
    *u = (struct vg_update){(uint8_t)x.op, x.bytes, x.type};
    return true;
}

/* Global memory, hence the flush of f32 additions. */
void vg_update(const struct vg_update *u, void *at, uint64_t value)
{
    struct atom x = {.op = (enum op)u->op, .type = u->type,
                     .bytes = u->bytes, .n = 1};
    bool changed = false;

    update(&x, at, value, 0, true, &changed);
}

/* Appends the n elements of operand k, as destination or source; a literal
 * takes the instruction's type. */
static bool operands(struct vg_dec *d, const struct atom *x, int k, bool out)
{
    bool vec = vg_has(d, k) && d->in->op[k].kind == PTX_OP_VEC;

    if (!vg_has(d, k) || vg_elems(d, k) != x->n)
        return vg_error(d, "operand %d has not %d elements", k + 1, x->n);
    for (int e = 0; e < x->n; e++) {
        int at = vec ? e : -1;
        unsigned bits = 8u * x->bytes;

        if (!(out                   ? vg_out(d, k, at, bits)
              : vg_width(d, k, at) ? vg_in(d, k, at, bits)
                                    : vg_in_typed(d, k, at, x->type)))
            return false;
    }
    return true;
}

/* atom (with a destination) or red.  Both are strong whatever the words say:
 * an atomic without .relaxed is .relaxed. */
static bool decode(struct vg_dec *d, bool result)
{
    struct atom *x = vg_keep(d, sizeof *x);
    int k = result;

    if (!x)
        return vg_error(d, "out of memory");
    x->result = result;
    vg_mem_words(d, &x->words);
    x->words.strong = true;
    if (!take_op(d, x) || (result && !operands(d, x, 0, true)) ||
        !vg_in_address(d, k, &x->words.space) || !operands(d, x, k + 1, false))
        return false;
    if (x->op == CAS && !operands(d, x, k + 2, false))
        return false;
    d->out->fn = atom;
    d->out->aux = x;
    return vg_mem_policy(d, &x->words, k + 2 + (x->op == CAS));
}

bool vg_decode_atom(struct vg_dec *d)
{
    return decode(d, true);
}

bool vg_decode_red(struct vg_dec *d)
{
    return decode(d, false);
}
