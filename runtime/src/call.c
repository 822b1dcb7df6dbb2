/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c: a kernel's argument block, filled by name once and by place
 * from then on.
 *
 * Each launch of the layer lists its values in a fixed order.  The first one
 * looks the names up; a name that the kernel lacks (a model without rotation
 * has no positions) is left out, an argument without a value is an error.
 */
#include <string.h>

#include "gemm.h"

/* The block is zeroed; field_count is checked at the first call. */
mla_status mla__call_make(mla_kernel *k, struct mla__call *out)
{
    mla_context *ctx = k->owner->ctx;

    *out = (struct mla__call){.kernel = k};
    out->block = mla__alloc(ctx, k->args_size);
    return out->block ? MLA_OK
                      : mla__fail(ctx, MLA_OUT_OF_MEMORY, "%s: arguments",
                                  k->symbol);
}

void mla__call_free(struct mla__call *call)
{
    if (call->kernel)
        mla__free(call->kernel->owner->ctx, call->block);
    *call = (struct mla__call){0};
}

/* Which value each argument takes. */
static mla_status bind(struct mla__call *call, const struct mla__value *values)
{
    mla_kernel *k = call->kernel;
    mla_context *ctx = k->owner->ctx;

    if (k->field_count > MLA__CALL_FIELDS)
        return mla__fail(ctx, MLA_BAD_MANIFEST, "%s: too many arguments",
                         k->symbol);
    for (int i = 0; i < k->field_count; i++) {
        int v = 0;
        while (values[v].field && strcmp(values[v].field, k->fields[i].name))
            v++;
        if (!values[v].field)
            return mla__fail(ctx, MLA_BAD_MANIFEST,
                             "%s: argument '%s' is not one that this library "
                             "knows",
                             k->symbol, k->fields[i].name);
        call->value[i] = (unsigned char)v;
    }
    call->bound = true;
    return MLA_OK;
}

/* A count of tokens or rows that a kernel takes in 32 bits. */
static mla_status too_large(const mla_kernel *k, const struct mla__field *f,
                            int64_t value)
{
    return mla__fail(k->owner->ctx, MLA_RANGE,
                     "%s: argument '%s': %lld does not fit 32 bits", k->symbol,
                     f->name, (long long)value);
}

/* Structs may place a field anywhere: values are copied. */
static mla_status set_field(const struct mla__call *call, int i,
                            const struct mla__value *v)
{
    const struct mla__field *f = &call->kernel->fields[i];
    unsigned char *to = call->block + f->offset;
    float real = (float)v->real;
    int32_t narrow = (int32_t)v->integer;

    if (f->type == MLA_F32)
        memcpy(to, &real, sizeof(real));
    else if (f->type != MLA_I32)
        memcpy(to, &v->integer, sizeof(v->integer));
    else if (narrow == v->integer)
        memcpy(to, &narrow, sizeof(narrow));
    else
        return too_large(call->kernel, f, v->integer);
    return MLA_OK;
}

/* Every field is written at every call. */
mla_status mla__call(struct mla__call *call, const struct mla__value *values,
                     void *stream)
{
    mla_kernel *k = call->kernel;
    mla_status status = call->bound ? MLA_OK : bind(call, values);

    for (int i = 0; i < k->field_count && !status; i++)
        status = set_field(call, i, &values[call->value[i]]);
    return status ? status
                  : mla_launch_struct(k, call->block, k->args_size, stream);
}
