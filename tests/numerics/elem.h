/* SPDX-License-Identifier: Apache-2.0
 *
 * elem.h: the element types of tensors, one value at a time.
 *
 * bf16 is the upper half of an IEEE single, fp16 is IEEE binary16.  Encoding
 * rounds a double once, to nearest, ties to even, so that an oracle that
 * computes in double is compared with the correctly rounded answer.
 */
#ifndef NUM_ELEM_H
#define NUM_ELEM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum num_elem { NUM_BF16, NUM_FP16, NUM_F32, NUM_I32, NUM_I64 };

/* Patterns for bytes that a kernel must not use.  ZERO is the clean run. */
enum num_poison {
    NUM_POISON_ZERO,
    NUM_POISON_NAN,
    NUM_POISON_INF,
    NUM_POISON_HUGE,
    NUM_POISONS
};

size_t num_elem_bytes(enum num_elem elem);

/* The element called `name` in a manifest ("bf16", "i64", ...), or -1. */
int num_elem_by_name(const char *name);

/* Bits of one element, zero-extended, from and to memory.  Inline: tests with
 * 128 heads call them by the hundred million. */
static inline uint64_t num_bits(enum num_elem elem, const void *at)
{
    uint16_t half;
    uint32_t word;
    uint64_t all;

    if (elem == NUM_BF16 || elem == NUM_FP16) {
        memcpy(&half, at, sizeof(half));
        return half;
    }
    if (elem == NUM_I64) {
        memcpy(&all, at, sizeof(all));
        return all;
    }
    memcpy(&word, at, sizeof(word));
    return word;
}

static inline void num_set_bits(enum num_elem elem, void *at, uint64_t bits)
{
    uint16_t half = (uint16_t)bits;
    uint32_t word = (uint32_t)bits;

    if (elem == NUM_BF16 || elem == NUM_FP16)
        memcpy(at, &half, sizeof(half));
    else if (elem == NUM_I64)
        memcpy(at, &bits, sizeof(bits));
    else
        memcpy(at, &word, sizeof(word));
}

/* Integers convert by value; a double holds every index that tests use. */
double num_decode(enum num_elem elem, const void *at);
void num_encode(enum num_elem elem, void *at, double value);

/* Bits of the 16-bit formats. */
uint16_t num_to_bf16(double value);
uint16_t num_to_fp16(double value);
double num_from_bf16(uint16_t bits);
double num_from_fp16(uint16_t bits);

/* Half the distance between neighbours of 1 (2^-8 for bf16, 2^-11 for fp16,
 * 2^-24 for f32), and half the smallest positive value. */
double num_half_ulp(enum num_elem elem);
double num_half_tiny(enum num_elem elem);

/* The largest finite value. */
double num_max(enum num_elem elem);

/* Bits of a poisoned element: NaN, Inf, 1e30 (fp16: its largest value), and
 * for integers their largest value, which no table or pool is long enough
 * for. */
uint64_t num_poison_bits(enum num_elem elem, enum num_poison poison);
const char *num_poison_name(enum num_poison poison);

#endif
