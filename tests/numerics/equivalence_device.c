/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalence_device.c: buffers and launches of a layer.
 *
 * Whatever no kernel has written yet is poison, and so are the bytes around
 * each buffer.  A result that depends on any of it differs from the clean
 * run's, and a canary that has changed is a failure.
 *
 * Buffers are a stack: a way of the layer makes its own on top of the inputs
 * and the pool, and releases them down to a mark when it is done, which is
 * when their canaries are looked at.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "equivalence.h"

/* Which way it was is in the row; here which run. */
bool layer_fail(struct layer_run *r, const char *format, ...)
{
    struct num_verdict *v = r->verdict;
    va_list list;
    int used;

    if (v->failures++ > 0)
        return false;
    used =
        snprintf(v->why, sizeof(v->why),
                 "%s, %s around, schedule %llu: ", r->layer->shape->group,
                 num_poison_name(r->poison), (unsigned long long)r->schedule);
    va_start(list, format);
    vsnprintf(v->why + used, sizeof(v->why) - (size_t)used, format, list);
    va_end(list);
    return false;
}

/* A failure after which the context is of no more use. */
static bool fail_on_device(struct layer_run *r, const char *what,
                           const char *error)
{
    struct num_device *d = r->device;

    d->lost = true;
    return layer_fail(r, "%s: %s%s%s", what, error, d->report ? "\n" : "",
                      d->report ? d->report() : "");
}

/* Buffers ----------------------------------------------------------------- */

static void fill_poison(const struct layer_run *r, enum num_elem elem,
                        unsigned char *to, int64_t bytes)
{
    size_t es = num_elem_bytes(elem);
    uint64_t bits = num_poison_bits(elem, r->poison);

    for (int64_t k = 0; k + (int64_t)es <= bytes; k += (int64_t)es)
        num_set_bits(elem, to + k, bits);
}

/* Canary, contents, canary. */
static bool write_buffer(struct layer_run *r, const struct layer_buffer *b,
                         const void *data)
{
    int64_t guard = (int64_t)(b->address - b->base);
    int64_t bytes = b->bytes + 2 * guard;
    unsigned char *image = num_alloc((size_t)bytes);
    int result;

    fill_poison(r, b->elem, image, bytes);
    if (data)
        memcpy(image + guard, data, (size_t)b->bytes);
    result = num_device_write(r->device, b->base, image, (size_t)bytes);
    free(image);
    return result == 0 ||
           fail_on_device(r, b->name, num_device_error(r->device, result));
}

/* The name is kept, not copied: it must outlive the run.  More than
 * LAYER_MAX_BUFFERS is an error of the suite itself. */
bool layer_new(struct layer_run *r, const char *name, enum num_elem elem,
               int64_t count, const void *data, uint64_t *address)
{
    int64_t guard = r->guarded ? LAYER_GUARD : 0;
    struct layer_buffer *b = &r->buffer[r->buffers];
    int64_t bytes = count * (int64_t)num_elem_bytes(elem);
    int result;

    if (r->buffers == LAYER_MAX_BUFFERS)
        abort();
    *b = (struct layer_buffer){name, elem, 0, 0, bytes, NULL};
    result = num_device_alloc(
        r->device, false, (uint64_t)(bytes + 2 * guard ? bytes + 2 * guard : 1),
        &b->base);
    if (result)
        return layer_fail(r, "%s, %lld bytes: %s", name, (long long)bytes,
                          num_device_error(r->device, result));
    r->buffers++;
    *address = b->address = b->base + (uint64_t)guard;
    return write_buffer(r, b, data);
}

bool layer_read(struct layer_run *r, void *to, uint64_t from, size_t bytes)
{
    int result = num_device_read(r->device, to, from, bytes);
    return result == 0 ||
           fail_on_device(r, "read", num_device_error(r->device, result));
}

/* Canaries, and the contents if they are to stay. */
static bool check_buffer(struct layer_run *r, const struct layer_buffer *b)
{
    int64_t guard = (int64_t)(b->address - b->base);
    int64_t bytes = b->bytes + 2 * guard;
    unsigned char *got = num_alloc((size_t)bytes);
    unsigned char *want = num_alloc((size_t)bytes);
    bool good = layer_read(r, got, b->base, (size_t)bytes);

    fill_poison(r, b->elem, want, bytes);
    if (good && (memcmp(got, want, (size_t)guard) ||
                 memcmp(got + guard + b->bytes, want, (size_t)guard)))
        good = layer_fail(r, "bytes around %s have changed", b->name);
    if (good && b->unchanged &&
        memcmp(got + guard, b->unchanged, (size_t)b->bytes))
        good = layer_fail(r, "%s, an input, has changed", b->name);
    free(got);
    free(want);
    return good;
}

/* Newest first.  Buffers are freed even when one of them is bad; after a
 * failure none is read again. */
bool layer_release(struct layer_run *r, int mark)
{
    bool good = r->verdict->failures == 0;

    while (r->buffers > mark) {
        struct layer_buffer *b = &r->buffer[--r->buffers];
        good = good && check_buffer(r, b);
        num_device_free(r->device, b->base);
    }
    return good;
}

/* Launches ---------------------------------------------------------------- */

/* Sets one argument of a kernel by its name and type; false: no value, or the
 * runtime refused it. */
static bool set_argument(mla_args *args, const mla_field_info *f,
                         const struct layer_arg *arg)
{
    while (arg->field && strcmp(arg->field, f->name))
        arg++;
    if (!arg->field)
        return false;
    if (f->type == MLA_PTR)
        return mla_args_set_ptr(args, f->name, arg->address) == MLA_OK;
    if (f->type == MLA_F32)
        return mla_args_set_float(args, f->name, arg->real) == MLA_OK;
    return mla_args_set_int(args, f->name, arg->integer) == MLA_OK;
}

/* Every argument there is; one without a value is named. */
static bool bind(struct layer_run *r, mla_kernel *kernel,
                 const mla_kernel_info *info, const struct layer_arg *arg,
                 mla_args *args)
{
    mla_field_info f = {.size = sizeof(f)};

    for (int i = 0; i < info->field_count; i++) {
        mla_kernel_field(kernel, i, &f);
        if (!set_argument(args, &f, arg))
            return layer_fail(r, "%s: no value for argument '%s'", info->symbol,
                              f.name);
    }
    return true;
}

/* Waits for the end of every launch, so that a fault is blamed on its
 * kernel. */
bool layer_call(struct layer_run *r, mla_kernel *kernel,
                const struct layer_arg *arg)
{
    mla_kernel_info info = {.size = sizeof(info)};
    mla_args *args = NULL;
    mla_status status;
    int result = 0;
    bool good;

    mla_kernel_describe(kernel, &info);
    status = mla_args_create(kernel, &args);
    good = !status && bind(r, kernel, &info, arg, args);
    if (good)
        status = mla_launch(args, NULL);
    if (good && !status)
        result = num_device_synchronize(r->device);
    mla_args_free(args);
    r->verdict->launches++;
    if (status == MLA_CUDA)
        return fail_on_device(r, info.symbol, mla_last_error(r->device->ctx));
    if (status)
        return layer_fail(r, "%s: %s", info.symbol,
                          mla_last_error(r->device->ctx));
    if (result)
        return fail_on_device(r, info.symbol,
                              num_device_error(r->device, result));
    return good;
}

/* The pool ---------------------------------------------------------------- */

/* Every input becomes a buffer that is checked at the end: no kernel may
 * write it. */
static bool upload(struct layer_run *r)
{
    for (int i = 0; i < LAYER_INPUTS; i++) {
        const struct layer_image *m = &r->layer->input[i];
        if (!layer_new(r, m->name, m->elem, m->count, m->data, &r->input[i]))
            return false;
        r->buffer[r->buffers - 1].unchanged = m->data;
    }
    return true;
}

/* Gaps between rows and between pages. */
static bool make_pool(struct layer_run *r)
{
    const struct layer *l = r->layer;
    int64_t es = (int64_t)num_elem_bytes(l->dtype);

    r->row_stride = layer_bytes(l, l->latent + l->rope) + 32;
    r->page_stride = l->page_size * r->row_stride + 16;
    return layer_new(r, "kv_cache", l->dtype, l->pages * r->page_stride / es,
                     NULL, &r->pool);
}

/* kv_append leaves out tokens whose slot is below 0. */
static bool append(struct layer_run *r, enum layer_input slots)
{
    const struct layer *l = r->layer;
    const struct layer_arg arg[] = {
        LAYER_PTR("latent", r->input[LAYER_LATENTS]),
        LAYER_INT("latent_stride", layer_bytes(l, l->latent)),
        LAYER_PTR("k_rope", r->input[LAYER_K_ROPE]),
        LAYER_INT("k_rope_stride", layer_bytes(l, l->rope)),
        LAYER_PTR("norm_weight", r->input[LAYER_NORM_WEIGHT]),
        LAYER_REAL("norm_eps", l->model->norm_eps),
        LAYER_PTR("cos_sin", r->input[LAYER_COS_SIN]),
        LAYER_INT("cos_sin_stride", l->rope * (int64_t)sizeof(float)),
        LAYER_PTR("positions", r->input[LAYER_POSITIONS]),
        LAYER_PTR("slots", r->input[slots]),
        LAYER_PTR("kv_cache", r->pool),
        LAYER_INT("page_stride", r->page_stride),
        LAYER_INT("row_stride", r->row_stride),
        LAYER_INT("tokens", l->keys),
        LAYER_END};

    return layer_call(r, r->kernels->one[LAYER_KV_APPEND], arg);
}

/* Twice through kv_append, old tokens and new ones, as a server does it. */
bool layer_begin(struct layer_run *r)
{
    num_device_schedule(r->device, r->schedule);
    return upload(r) && make_pool(r) && append(r, LAYER_OLD_SLOTS) &&
           append(r, LAYER_NEW_SLOTS);
}
