/* SPDX-License-Identifier: Apache-2.0
 *
 * ld_st.c: ld and st (PTX ISA 9.7.9.8 to 9.7.9.12), all spaces and vectors.
 *
 * Cache operators, eviction priorities and policies have no function here;
 * what they say about L1 goes to the counters.
 *
 * A load touches memory first and fills registers after that; a store lays its
 * values out first, for the race detector wants to see them, and touches
 * memory then.  Both serve the lanes in rounds, as vg_touch picks them.
 */
#include "mem_ops.h"

/* One ld or st. */
struct ld_st {
    struct vg_mem_words words;
    uint8_t bytes, n;        /* of an element, elements */
    bool sign;               /* extend into a wider register */
    uint8_t reg[8];          /* width of each register in bits */
};

/* ---- words -------------------------------------------------------------- */

/* Consumes the word of a state space; without one the address is generic.
 * shared::cta and shared::cluster name the same addresses here: the CTA's
 * rank is in the address (exec.h). */
static enum ptx_space take_space(struct vg_dec *d)
{
    static const enum ptx_space space[] = {
        PTX_GLOBAL, PTX_SHARED, PTX_SHARED, PTX_SHARED, PTX_LOCAL,
        PTX_CONST,  PTX_PARAM,  PTX_PARAM,  PTX_PARAM,
    };
    int k = vg_mod_of(d, "global|shared|shared::cta|shared::cluster|local|"
                         "const|param|param::entry|param::func");

    return k < 0 ? PTX_GENERIC : space[k];
}

/* Words come in the order of PTX ISA 9.7.9.8's syntax; those without a
 * function are consumed so that nothing_left does not refuse them.  A strong
 * access (volatile, relaxed and above) must see other CTAs' writes, so it is
 * served by L2. */
void vg_mem_words(struct vg_dec *d, struct vg_mem_words *m)
{
    *m = (struct vg_mem_words){.space = take_space(d)};
    if (!vg_mod(d, "weak")) {
        m->acquire = vg_mod(d, "acquire");
        m->release = vg_mod(d, "release");
        if (vg_mod(d, "acq_rel"))
            m->acquire = m->release = true;
        m->strong = m->acquire || m->release;
        m->strong |= vg_mod_of(d, "volatile|relaxed|mmio") >= 0;
        vg_mod_of(d, "cta|cluster|gpu|sys");
    }
    m->bypass_l1 = vg_mod_of(d, "cg|cv") >= 0 || m->strong;
    vg_mod_of(d, "ca|cs|lu|wb|wt");
    vg_mod(d, "nc");
    vg_mod_of(d, "L1::evict_normal|L1::evict_unchanged|L1::evict_first|"
                 "L1::evict_last|L1::no_allocate|evict_first|evict_last|"
                 "evict_normal");
    vg_mod_of(d, "L2::evict_normal|L2::evict_first|L2::evict_last");
    vg_mod_of(d, "L2::64B|L2::128B|L2::256B");
    vg_mod(d, "unified");
    m->policy = vg_mod(d, "L2::cache_hint");
}

/* The policy's value means nothing here, but its row is appended, so that the
 * register counts as read. */
bool vg_mem_policy(struct vg_dec *d, const struct vg_mem_words *m, int k)
{
    if (!m->policy)
        return true;
    if (!vg_has(d, k))
        return vg_error(d, ".L2::cache_hint wants a cache policy operand");
    return vg_in(d, k, -1, 64);
}

/* A strong store and the strong load that reads it order two threads when
 * one releases and the other acquires; the race detector keeps a clock per
 * flag.  Global memory has no detector, nor anything to order here. */
void vg_flag_order(struct vg_touch *t, const struct vg_mem_words *m,
                   bool write)
{
    uint32_t off[VG_LANES];

    unsigned warp = t->cta->warp0 + t->w->index;

    if (!m->strong || !t->cta->race || !t->owner)
        return;
    vg_race_offsets(t->owner->mem, t->off, off);
    if (write)
        vg_race_flag_write(t->cta->race, warp, t->mask, off, m->release);
    else
        vg_race_flag_read(t->cta->race, warp, t->mask, off, m->acquire);
}

/* ---- moving bytes ------------------------------------------------------- */

/* The loops below have one width each, so that the compiler vectorises them;
 * memcpy because the address need not be aligned when the check is off. */
#define GATHER(T)                                                             \
    for (int l = 0; l < VG_LANES; l++) {                                      \
        T x;                                                                  \
        memcpy(&x, p + t->off[l], sizeof x);                                  \
        out[l] = x;                                                           \
    }

/* Reads all 32 lanes: vg_touch gave those outside the mask an address that
 * can be read (touch.h). */
void vg_gather(const struct vg_touch *t, unsigned at, unsigned bytes,
               uint64_t out[VG_LANES])
{
    const unsigned char *p = t->base + at;

    switch (bytes) {
    case 1:
        GATHER(uint8_t);
        break;
    case 2:
        GATHER(uint16_t);
        break;
    case 4:
        GATHER(uint32_t);
        break;
    default:
        GATHER(uint64_t);
    }
}

#define NARROW(T)                                                             \
    {                                                                         \
        T *d = row;                                                           \
        for (int l = 0; l < VG_LANES; l++)                                    \
            d[l] = mask >> l & 1 ? (T)v[l] : d[l];                            \
    }

/* Unlike vg_put32 and friends this one takes 64-bit values and cuts them. */
void vg_put_row(void *row, unsigned bits, const uint64_t v[VG_LANES],
                uint32_t mask)
{
    switch (bits) {
    case 8:
        NARROW(uint8_t);
        break;
    case 16:
        NARROW(uint16_t);
        break;
    case 32:
        NARROW(uint32_t);
        break;
    default:
        vg_put64(row, v, mask);
    }
}

#define WIDEN(T)                                                              \
    {                                                                         \
        const T *s = row;                                                     \
        for (int l = 0; l < VG_LANES; l++)                                    \
            v[l] = s[l];                                                      \
    }

void vg_get_row(const void *row, unsigned bits, uint64_t v[VG_LANES])
{
    switch (bits) {
    case 8:
        WIDEN(uint8_t);
        break;
    case 16:
        WIDEN(uint16_t);
        break;
    case 32:
        WIDEN(uint32_t);
        break;
    default:
        memcpy(v, row, VG_LANES * sizeof *v);
    }
}

/* Sign-extends values of `bytes` bytes to 64 bits in place. */
static void extend_sign(uint64_t v[VG_LANES], unsigned bytes)
{
    unsigned up = 64 - 8 * bytes;

    for (int l = 0; l < VG_LANES; l++)
        v[l] = (uint64_t)((int64_t)(v[l] << up) >> up);
}

/* ---- ld ----------------------------------------------------------------- */

/* 32-bit elements into 32-bit registers: most loads. */
static void load_words(const struct vg_touch *t, unsigned at, void *row)
{
    const unsigned char *p = t->base + at;
    uint32_t v[VG_LANES];

    for (int l = 0; l < VG_LANES; l++)
        memcpy(&v[l], p + t->off[l], sizeof v[l]);
    vg_put32(row, v, t->mask);
}

/* Loads element e of a vector into its register.  A register may be wider
 * than the element (PTX ISA 9.7.9.8: zero- or sign-extended).  128 bits are
 * two 64-bit halves, the low row first. */
static void load_element(const struct vg_touch *t, const struct ld_st *x,
                         unsigned e, void *row)
{
    unsigned at = e * x->bytes, bytes = x->bytes > 8 ? 8 : x->bytes;
    uint64_t v[VG_LANES];

    if (x->bytes == 4 && x->reg[e] == 32) {
        load_words(t, at, row);
        return;
    }
    vg_gather(t, at, bytes, v);
    if (x->sign)
        extend_sign(v, bytes);
    vg_put_row(row, x->reg[e] > 64 ? 64 : x->reg[e], v, t->mask);
    if (x->reg[e] > 64) {
        vg_gather(t, at + 8, 8, v);
        vg_put64((uint64_t *)row + VG_LANES, v, t->mask);
    }
}

/* op: n destinations, address.  A destination may overlap the address row:
 * vg_touch_begin has copied the addresses before anything is written. */
static void ld(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct ld_st *x = i->aux;
    struct vg_touch t;
    struct vg_how how = {
        .space = x->words.space,
        .dir = VG_TOUCH_READ,
        .path = VG_PATH_LOAD,
        .race = x->words.strong ? VG_RACE_STRONG : 0,
        .bypass_l1 = x->words.bypass_l1,
    };

    vg_touch_begin(&t, w, i, x->n, x->bytes * x->n);
    for (uint32_t todo = mask; todo; todo &= ~t.mask) {
        vg_touch(&t, todo, &how);
        vg_flag_order(&t, &x->words, false);
        for (unsigned e = 0; e < x->n; e++)
            load_element(&t, x, e, vg_row(w, i->op[e]));
    }
}

/* Elements of a vector operand, or 1. */
static int vector_length(struct vg_dec *d)
{
    static const int length[] = {2, 4, 8};
    int k = vg_mod_of(d, "v2|v4|v8");

    return k < 0 ? 1 : length[k];
}

/* What ld and st have in common: words, type, vector length.  At most 256
 * bits per lane: .v8.b32 and .v4.b64 are the widest there are (sm_100 has
 * them).  The result is NULL after an error. */
static struct ld_st *begin(struct vg_dec *d, enum vg_type *type)
{
    struct ld_st *x = vg_keep(d, sizeof *x);

    if (!x) {
        vg_error(d, "out of memory");
        return NULL;
    }
    vg_mem_words(d, &x->words);
    x->n = (uint8_t)vector_length(d);
    if (!vg_need_type(d, type))
        return NULL;
    if (vg_bits(*type) < 8 || vg_bits(*type) * x->n > 256) {
        vg_error(d, "%d elements of type .%s are too %s", x->n,
                 vg_type_name(*type), vg_bits(*type) < 8 ? "narrow" : "wide");
        return NULL;
    }
    x->bytes = (uint8_t)(vg_bits(*type) / 8);
    x->sign = *type == VG_S8 || *type == VG_S16 || *type == VG_S32;
    d->out->aux = x;
    return x;
}

/* Element e of the vector operand k, or -1 for a plain operand. */
static int element(const struct vg_dec *d, const struct ld_st *x, int k, int e)
{
    return x->n == 1 && d->in->op[k].kind != PTX_OP_VEC ? -1 : e;
}

/* A vector operand must have as many elements as .v2, .v4 or .v8 says. */
static bool check_length(struct vg_dec *d, const struct ld_st *x, int k)
{
    if (!vg_has(d, k) || vg_elems(d, k) != x->n)
        return vg_error(d, "operand %d has not %d elements", k + 1, x->n);
    return true;
}

/* Width of a register that holds an element; `type` for literals and _. */
static bool register_width(struct vg_dec *d, struct ld_st *x, int k, int e,
                           enum vg_type type)
{
    unsigned bits = vg_width(d, k, element(d, x, k, e));

    x->reg[e] = (uint8_t)(bits ? bits : vg_bits(type));
    if (x->reg[e] < vg_bits(type))
        return vg_error(d, "a register of %u bits cannot hold .%s", bits,
                        vg_type_name(type));
    return true;
}

/* Destinations first, then the address: ld counts on that order. */
bool vg_decode_ld(struct vg_dec *d)
{
    enum vg_type type;
    struct ld_st *x = begin(d, &type);

    if (!x || !check_length(d, x, 0))
        return false;
    for (int e = 0; e < x->n; e++)
        if (!register_width(d, x, 0, e, type) ||
            !vg_out(d, 0, element(d, x, 0, e), x->reg[e]))
            return false;
    d->out->fn = ld;
    return vg_in_address(d, 1, &x->words.space) &&
           vg_mem_policy(d, &x->words, 2);
}

/* ---- st ----------------------------------------------------------------- */

/* Collects what the lanes write: x->bytes * x->n per lane, in lane order.
 * They are laid out before the checks because the race detector compares
 * values: two lanes that write the same to one byte do not race. */
static void stage(struct vg_warp *w, const struct vg_insn *i,
                  const struct ld_st *x, unsigned char *out)
{
    unsigned size = x->bytes * x->n;

    for (unsigned e = 0; e < x->n; e++) {
        const void *row = vg_row(w, i->op[1 + e]);
        unsigned char *to = out + e * x->bytes;
        uint64_t v[VG_LANES];

        if (x->bytes == 4 && x->reg[e] == 32) {
            for (unsigned l = 0; l < VG_LANES; l++)
                memcpy(to + l * size, (const uint32_t *)row + l, 4);
            continue;
        }
        vg_get_row(row, x->reg[e], v);
        for (unsigned l = 0; l < VG_LANES; l++)
            memcpy(to + l * size, &v[l], x->bytes > 8 ? 8 : x->bytes);
        if (x->bytes == 16)
            for (unsigned l = 0; l < VG_LANES; l++)
                memcpy(to + l * size + 8,
                       (const uint64_t *)row + VG_LANES + l, 8);
    }
}

/* Writes staged values to memory: one copy when the lanes lie side by side,
 * as they do in nearly all stores of our kernels; else lane by lane in
 * ascending order, with the usual sizes as constants for the compiler. */
static void spill(const struct vg_touch *t, const unsigned char *v)
{
    unsigned n = t->size;

    if (t->dense) {
        memcpy(t->base + t->off[0], v, VG_LANES * n);
        return;
    }
    for (uint32_t m = t->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);

        switch (n) {
        case 2:
            memcpy(t->base + t->off[l], v + 2 * l, 2);
            break;
        case 4:
            memcpy(t->base + t->off[l], v + 4 * l, 4);
            break;
        case 8:
            memcpy(t->base + t->off[l], v + 8 * l, 8);
            break;
        case 16:
            memcpy(t->base + t->off[l], v + 16 * l, 16);
            break;
        default:
            memcpy(t->base + t->off[l], v + n * l, n);
        }
    }
}

/* op: address, n sources.  A store is progress that others can see, which
 * keeps the watchdog quiet. */
static void st(struct vg_warp *w, const struct vg_insn *i, uint32_t mask)
{
    const struct ld_st *x = i->aux;
    /* 32 lanes of at most 256 bits. */
    unsigned char values[VG_LANES * 32];
    struct vg_touch t;
    struct vg_how how = {
        .space = x->words.space,
        .dir = VG_TOUCH_WRITE,
        .path = VG_PATH_STORE,
        .race = x->words.strong ? VG_RACE_STRONG : 0,
        .values = values,
    };

    stage(w, i, x, values);
    vg_touch_begin(&t, w, i, 0, x->bytes * x->n);
    for (uint32_t todo = mask; todo; todo &= ~t.mask) {
        vg_touch(&t, todo, &how);
        vg_flag_order(&t, &x->words, true);
        spill(&t, values);
    }
    vg_progress(w);
}

/* Sources may be literals, which have no width of their own: they take the
 * instruction's type. */
bool vg_decode_st(struct vg_dec *d)
{
    enum vg_type type;
    struct ld_st *x = begin(d, &type);

    if (!x || !vg_in_address(d, 0, &x->words.space) || !check_length(d, x, 1))
        return false;
    for (int e = 0; e < x->n; e++) {
        int at = element(d, x, 1, e);

        if (!register_width(d, x, 1, e, type))
            return false;
        if (!(vg_width(d, 1, at) ? vg_in(d, 1, at, x->reg[e])
                                 : vg_in_typed(d, 1, at, type)))
            return false;
    }
    d->out->fn = st;
    return vg_mem_policy(d, &x->words, 2);
}
