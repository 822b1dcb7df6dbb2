/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c: the argument block of a kernel, filled field by field.
 *
 * A kernel takes one struct by value.  The block is that struct's bytes, laid
 * out as the manifest says, so a block that was filled by name and a struct of
 * the generated header go the same way from here on: mla__check_fields looks
 * at bytes alone.  What has been set is known for blocks only, and asked at
 * the launch.
 *
 * Checks come in two steps: setting refuses what the field cannot hold (its
 * type, its width), the launch refuses what the kernel cannot work with.  A
 * launch without work asks for less (launch.c).
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "internal.h"

/* A block of zeros with nothing set.  mla_args_free takes half-made ones. */
mla_status mla_args_create(mla_kernel *kernel, mla_args **out)
{
    mla_context *ctx;
    mla_args *args;

    if (!kernel || !out)
        return MLA_INVALID_ARGUMENT;
    *out = NULL;
    ctx = kernel->owner->ctx;
    args = mla__alloc(ctx, sizeof(*args));
    if (args) {
        args->kernel = kernel;
        args->set = mla__alloc(ctx, (size_t)kernel->field_count);
        args->block = mla__alloc(ctx, kernel->args_size);
    }
    if (!args || !args->set || !args->block) {
        mla_args_free(args);
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s: arguments",
                         kernel->symbol);
    }
    *out = args;
    return MLA_OK;
}

void mla_args_free(mla_args *args)
{
    mla_context *ctx;
    if (!args)
        return;
    ctx = args->kernel->owner->ctx;
    mla__free(ctx, args->set);
    mla__free(ctx, args->block);
    mla__free(ctx, args);
}

/* Zeros too, so that no value of an earlier launch is left where one
 * is missing. */
void mla_args_clear(mla_args *args)
{
    if (!args)
        return;
    memset(args->set, 0, (size_t)args->kernel->field_count);
    memset(args->block, 0, args->kernel->args_size);
}

/* One to two dozen names are compared; a caller with less time than that fills
 * the generated struct (mla_launch_struct). */
int mla__field_index(const mla_kernel *kernel, const char *name)
{
    for (int i = 0; i < kernel->field_count; i++)
        if (kernel->fields[i].name && strcmp(kernel->fields[i].name, name) == 0)
            return i;
    return -1;
}

/* Reads by memcpy, as blocks of callers may lie anywhere.  Of a float field it
 * gives the bits. */
int64_t mla__field_int(const mla_kernel *kernel, int field,
                       const unsigned char *block)
{
    const struct mla__field *f = &kernel->fields[field];
    int64_t wide;
    int32_t narrow;

    if (f->type == MLA_I32 || f->type == MLA_F32) {
        memcpy(&narrow, block + f->offset, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, block + f->offset, sizeof(wide));
    return wide;
}

/* Setting --------------------------------------------------------------- */

/* By MLA_PTR, MLA_I64, MLA_I32 and MLA_F32. */
static const char *const type_text[] = {"a pointer", "a 64-bit integer",
                                        "a 32-bit integer", "a float"};

/* Finds the field and checks that it is of one of two types. */
static mla_status find_field(mla_args *args, const char *name, int type,
                             int other, int *index)
{
    mla_kernel *k = args->kernel;
    int i = mla__field_index(k, name);

    if (i < 0)
        return mla__fail(k->owner->ctx, MLA_UNKNOWN_FIELD,
                         "%s: no argument '%s'", k->symbol, name);
    if (k->fields[i].type != type && k->fields[i].type != other)
        return mla__fail(k->owner->ctx, MLA_TYPE,
                         "%s: argument '%s' is %s, not %s", k->symbol, name,
                         type_text[k->fields[i].type], type_text[type]);
    *index = i;
    return MLA_OK;
}

/* Values are copied: a struct field may lie at any offset of the block. */
static void store(mla_args *args, int i, const void *value, size_t bytes)
{
    memcpy(args->block + args->kernel->fields[i].offset, value, bytes);
    args->set[i] = true;
}

/* 0 is a value like any other here; the launch knows whether it may be. */
mla_status mla_args_set_ptr(mla_args *args, const char *field,
                            uint64_t address)
{
    mla_status status;
    int i;

    if (!args || !field)
        return MLA_INVALID_ARGUMENT;
    status = find_field(args, field, MLA_PTR, MLA_PTR, &i);
    if (!status)
        store(args, i, &address, sizeof(address));
    return status;
}

/* Integers serve both widths; what 32 bits cannot hold is refused, not cut. */
mla_status mla_args_set_int(mla_args *args, const char *field, int64_t value)
{
    mla_status status;
    int32_t narrow = (int32_t)value;
    int i;

    if (!args || !field)
        return MLA_INVALID_ARGUMENT;
    status = find_field(args, field, MLA_I64, MLA_I32, &i);
    if (status)
        return status;
    if (args->kernel->fields[i].type == MLA_I64)
        store(args, i, &value, sizeof(value));
    else if (value >= INT32_MIN && value <= INT32_MAX)
        store(args, i, &narrow, sizeof(narrow));
    else
        return mla__fail(args->kernel->owner->ctx, MLA_RANGE,
                         "%s: argument '%s': %lld does not fit 32 bits",
                         args->kernel->symbol, field, (long long)value);
    return MLA_OK;
}

mla_status mla_args_set_float(mla_args *args, const char *field, double value)
{
    mla_status status;
    float narrow = (float)value;
    int i;

    if (!args || !field)
        return MLA_INVALID_ARGUMENT;
    status = find_field(args, field, MLA_F32, MLA_F32, &i);
    if (status)
        return status;
    /* Judged in the type that the kernel computes in: 1e-50 is no scale. */
    if (!isfinite(narrow) || (value != 0 && narrow == 0))
        return mla__fail(args->kernel->owner->ctx, MLA_RANGE,
                         "%s: argument '%s': %g is not a finite float",
                         args->kernel->symbol, field, value);
    store(args, i, &narrow, sizeof(narrow));
    return MLA_OK;
}

/* Checking -------------------------------------------------------------- */

/* A pointer of the block: NULL only where the manifest allows it, aligned as
 * the kernel's widest access needs. */
static mla_status check_pointer(const mla_kernel *k,
                                const struct mla__field *f, uint64_t address)
{
    if (address == 0 && !f->nullable)
        return mla__fail(k->owner->ctx, MLA_NULL_POINTER,
                         "%s: argument '%s' must not be NULL", k->symbol,
                         f->name);
    if (address % (uint64_t)f->align)
        return mla__fail(k->owner->ctx, MLA_MISALIGNED,
                         "%s: argument '%s': address 0x%llx is not a "
                         "multiple of %lld",
                         k->symbol, f->name, (unsigned long long)address,
                         (long long)f->align);
    return MLA_OK;
}

/* A stride is a multiple of the width of one access; a count is not negative;
 * a flag is 0 or 1. */
static mla_status check_integer(const mla_kernel *k,
                                const struct mla__field *f, int64_t value)
{
    if (f->type == MLA_I32 && (value < 0 || (f->flag && value > 1)))
        return mla__fail(k->owner->ctx, MLA_RANGE,
                         "%s: argument '%s': %lld is not %s", k->symbol,
                         f->name, (long long)value,
                         f->flag ? "0 or 1" : "0 or more");
    if (value % f->multiple)
        return mla__fail(k->owner->ctx, MLA_MISALIGNED,
                         "%s: argument '%s': %lld is not a multiple of %lld",
                         k->symbol, f->name, (long long)value,
                         (long long)f->multiple);
    return MLA_OK;
}

/* Of the sets of pointers that a kernel can work from, one must be whole. */
static mla_status check_choices(const mla_kernel *k,
                                const unsigned char *block)
{
    unsigned whole = k->all_choices;
    const char *missing = "";

    for (int i = 0; i < k->field_count; i++) {
        if (!k->fields[i].choices || mla__field_int(k, i, block))
            continue;
        whole &= ~k->fields[i].choices;
        missing = k->fields[i].name;
    }
    if (whole || !k->all_choices)
        return MLA_OK;
    return mla__fail(k->owner->ctx, MLA_NULL_POINTER,
                     "%s: argument '%s' is NULL, and so is part of every set "
                     "of arguments that could replace it",
                     k->symbol, missing);
}

/* The first field that is wrong, in the struct's order, is the error. */
mla_status mla__check_fields(const mla_kernel *k, const unsigned char *block)
{
    mla_status status = MLA_OK;

    for (int i = 0; i < k->field_count && !status; i++) {
        const struct mla__field *f = &k->fields[i];
        int64_t value = mla__field_int(k, i, block);
        if (f->type == MLA_PTR)
            status = check_pointer(k, f, (uint64_t)value);
        else if (f->type != MLA_F32)
            status = check_integer(k, f, value);
    }
    return status ? status : check_choices(k, block);
}
