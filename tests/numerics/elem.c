/* SPDX-License-Identifier: Apache-2.0
 *
 * elem.c: element types as parameters of one pair of routines.
 *
 * A format with p significand bits, the hidden one included, has numbers
 * 2^(e - p + 1) apart from 2^e on; below its smallest normal number the
 * spacing stays what it is there.  Both routines need no more than that.
 */
#include <math.h>

#include "elem.h"

/* significand: bits with the hidden one; min_exp: 2^min_exp is the smallest
 * normal number (IEEE 754-2019, 3.6; bf16 has the exponent of binary32). */
struct format {
    const char *name;
    size_t bytes;
    int significand, min_exp, max_exp;
};

/* Integers have no format: num_encode and num_decode take them by value. */
static const struct format formats[] = {
    [NUM_BF16] = {"bf16", 2, 8, -126, 127},
    [NUM_FP16] = {"fp16", 2, 11, -14, 15},
    [NUM_F32] = {"f32", 4, 24, -126, 127},
    [NUM_I32] = {"i32", 4, 0, 0, 0},
    [NUM_I64] = {"i64", 8, 0, 0, 0},
};

size_t num_elem_bytes(enum num_elem elem)
{
    return formats[elem].bytes;
}

int num_elem_by_name(const char *name)
{
    for (int i = 0; i < (int)(sizeof(formats) / sizeof(formats[0])); i++)
        if (strcmp(formats[i].name, name) == 0)
            return i;
    return -1;
}

/* Bits of a value in a format, rounded to nearest, ties to even; what rounds
 * beyond the largest is infinity.  Magnitude and sign apart; the magnitude is
 * an integer count of the format's spacing at that exponent, and rounding
 * that count carries by itself. */
static uint32_t encode(const struct format *f, double value)
{
    int fraction = f->significand - 1, exponent;
    int exponent_bits = f->max_exp - f->min_exp == 253 ? 8 : 5;
    uint32_t sign = (uint32_t)(signbit(value) != 0)
                    << (fraction + exponent_bits);
    uint32_t infinity = ((1u << exponent_bits) - 1) << fraction;
    double count;
    uint64_t bits;

    if (isnan(value))
        return sign | infinity | 1u << (fraction - 1);
    if (isinf(value))
        return sign | infinity;
    frexp(value, &exponent);
    exponent -= 1;
    if (exponent < f->min_exp || value == 0)
        exponent = f->min_exp;
    count = nearbyint(ldexp(fabs(value), fraction - exponent));
    bits = (uint64_t)count +
           ((uint64_t)(exponent - f->min_exp) << fraction);
    return sign | (bits < infinity ? (uint32_t)bits : infinity);
}

/* Sign, biased exponent and fraction, as IEEE 754 reads them. */
static double decode(const struct format *f, uint32_t bits)
{
    int fraction = f->significand - 1;
    int exponent_bits = f->max_exp - f->min_exp == 253 ? 8 : 5;
    uint32_t biased = bits >> fraction & ((1u << exponent_bits) - 1);
    uint32_t mantissa = bits & ((1u << fraction) - 1);
    double sign = bits >> (fraction + exponent_bits) & 1 ? -1 : 1;

    if (biased == (1u << exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    if (biased == 0)
        return sign * ldexp(mantissa, f->min_exp - fraction);
    return sign * ldexp((double)(mantissa | 1u << fraction),
                        (int)biased - 1 + f->min_exp - fraction);
}

uint16_t num_to_bf16(double value)
{
    return (uint16_t)encode(&formats[NUM_BF16], value);
}

uint16_t num_to_fp16(double value)
{
    return (uint16_t)encode(&formats[NUM_FP16], value);
}

/* The two decoders that tests call by the million avoid ldexp. */
double num_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

double num_from_fp16(uint16_t bits)
{
    return decode(&formats[NUM_FP16], bits);
}

/* Every value of every type but i64 is exact in a double. */
double num_decode(enum num_elem elem, const void *at)
{
    uint64_t bits = num_bits(elem, at);
    float single;

    switch (elem) {
    case NUM_BF16:
        return num_from_bf16((uint16_t)bits);
    case NUM_FP16:
        return num_from_fp16((uint16_t)bits);
    case NUM_F32:
        memcpy(&single, at, sizeof(single));
        return single;
    case NUM_I32:
        return (int32_t)bits;
    case NUM_I64:
        return (double)(int64_t)bits;
    }
    return NAN;
}

/* Integers are cut to the type's width. */
void num_encode(enum num_elem elem, void *at, double value)
{
    if (elem == NUM_I32 || elem == NUM_I64)
        num_set_bits(elem, at, (uint64_t)(int64_t)value);
    else
        num_set_bits(elem, at, encode(&formats[elem], value));
}

/* u in the bars of all families: the error of one rounding, of a value in
 * [1, 2). */
double num_half_ulp(enum num_elem elem)
{
    return ldexp(1, -formats[elem].significand);
}

/* The error of one rounding where values are subnormal. */
double num_half_tiny(enum num_elem elem)
{
    return ldexp(1, formats[elem].min_exp - formats[elem].significand);
}

/* 2 - 2^(1 - significand) times the largest power of two. */
double num_max(enum num_elem elem)
{
    const struct format *f = &formats[elem];
    return ldexp(2 - ldexp(1, 1 - f->significand), f->max_exp);
}

/* 0x7149 and 0x7149f2ca are 1e30; fp16 has no such number and takes its
 * largest. */
uint64_t num_poison_bits(enum num_elem elem, enum num_poison poison)
{
    /* NaN payloads that no arithmetic produces, so that a copy shows. */
    static const uint64_t table[][NUM_POISONS] = {
        [NUM_BF16] = {0, 0x7fa5, 0x7f80, 0x7149},
        [NUM_FP16] = {0, 0x7da5, 0x7c00, 0x7bff},
        [NUM_F32] = {0, 0x7fa5a5a5, 0x7f800000, 0x7149f2ca},
        [NUM_I32] = {0, 0x7fffffff, 0x7fffffff, 0x7fffffff},
        [NUM_I64] = {0, 0x7fffffffffffffff, 0x7fffffffffffffff,
                     0x7fffffffffffffff},
    };
    return table[elem][poison];
}

const char *num_poison_name(enum num_poison poison)
{
    static const char *const names[] = {"zero", "NaN", "Inf", "1e30"};
    return names[poison];
}
