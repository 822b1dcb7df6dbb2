/* SPDX-License-Identifier: Apache-2.0
 *
 * bind.c: from a work to the arguments of its kernels, by name.
 *
 * The manifest decides which arguments there are, and what a pointer points
 * to.  Tensors are packed, so their strides follow: X_batch_stride,
 * X_token_stride, X_head_stride, and X_stride of rows.  An argument that the
 * work knows nothing about is an error: nothing is measured with a guess.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"
#include "tensor.h"

/* What cuMemAlloc gives, and more than any kernel asks for. */
enum { ALIGN = 256 };

/* Room is for what the makers in work_*.c add, which is fixed. */
void gpu_add_int(struct gpu_work *w, const char *name, int64_t value)
{
    w->integer[w->ints++] = (struct gpu_int){name, value};
}

void gpu_add_tensor(struct gpu_work *w, const char *name, int64_t batch,
                    int64_t tokens, int64_t heads, int64_t width)
{
    w->tensor[w->tensors++] = (struct gpu_tensor){
        .name = name,
        .batch = batch,
        .tokens = tokens,
        .heads = heads,
        .width = width,
    };
}

/* A vector of indices: one row of that many entries. */
void gpu_add_index(struct gpu_work *w, const char *name, int64_t count,
                   int64_t first, int64_t step, int64_t modulo)
{
    gpu_add_tensor(w, name, 1, 1, 1, count);
    w->tensor[w->tensors - 1].index =
        (struct gpu_index){true, first, step, modulo};
}

/* --- placing -------------------------------------------------------------- */

/* Bytes of an element: what some kernel of the work says of the field; 0 for
 * a tensor that none of them has. */
static int64_t elem_bytes(const struct gpu_work *w, const char *name)
{
    mla_field_info f;
    int elem;

    for (int i = 0; i <= w->kernels; i++) {
        const struct num_subject *s =
            i < w->kernels ? &w->kernel[i] : &w->first;
        if ((i < w->kernels || w->has_first) && num_field(s, name, &f)) {
            elem = num_elem_by_name(f.elem);
            return elem < 0 ? 1 : (int64_t)num_elem_bytes(elem);
        }
    }
    return 0;
}

/* Elements of a tensor. */
static int64_t count_of(const struct gpu_tensor *t)
{
    return t->batch * t->tokens * t->heads * t->width;
}

/* Where tensor i begins in a copy; i = tensors: where the copy ends. */
static uint64_t offset_of(const struct gpu_work *w, int i)
{
    uint64_t at = 0;

    for (int k = 0; k < i; k++) {
        int64_t bytes =
            count_of(&w->tensor[k]) * elem_bytes(w, w->tensor[k].name);
        at += ((uint64_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return at;
}

/* The next copy may begin right behind. */
size_t gpu_work_bytes(const struct gpu_work *w)
{
    return (size_t)offset_of(w, w->tensors);
}

/* Entries of 4 or 8 bytes, as the kernel reads them. */
static void fill_index(const struct gpu_tensor *t, int64_t bytes, void *out)
{
    for (int64_t i = 0; i < t->width; i++) {
        int64_t value = t->index.first + i * t->index.step;
        if (t->index.modulo)
            value %= t->index.modulo;
        if (bytes == 8)
            ((int64_t *)out)[i] = value;
        else
            ((int32_t *)out)[i] = (int32_t)value;
    }
}

/* Makes an index tensor on the host and sends it. */
static bool write_index(struct gpu *g, const struct gpu_tensor *t,
                        int64_t bytes, uint64_t at)
{
    size_t size = (size_t)(t->width * bytes);
    void *text = num_alloc(size);
    bool good;

    fill_index(t, bytes, text);
    good = gpu_write(g, at, text, size);
    free(text);
    return good;
}

/* Tensors of numbers keep what the arena holds; one that no kernel of the work
 * has (k of the plain mha) has no bytes either. */
bool gpu_place(struct gpu *g, const struct gpu_work *w, uint64_t at)
{
    bool good = true;

    for (int i = 0; i < w->tensors && good; i++) {
        int64_t bytes = elem_bytes(w, w->tensor[i].name);
        if (w->tensor[i].index.is_index && bytes)
            good = write_index(g, &w->tensor[i], bytes, at + offset_of(w, i));
    }
    return good;
}

/* --- arguments ------------------------------------------------------------ */

/* The tensor of that name; NULL only where the kernel allows it, as for a norm
 * that is not wanted. */
static bool set_pointer(const struct gpu_work *w, const mla_field_info *f,
                        uint64_t at, mla_args *args)
{
    for (int i = 0; i < w->tensors; i++)
        if (strcmp(w->tensor[i].name, f->name) == 0)
            return mla_args_set_ptr(args, f->name, at + offset_of(w, i)) ==
                   MLA_OK;
    return f->nullable && mla_args_set_ptr(args, f->name, 0) == MLA_OK;
}

/* Elements from one to the next along what the end of the name says. */
static int64_t step_of(const struct gpu_tensor *t, const char *axis)
{
    if (strcmp(axis, "_batch_stride") == 0)
        return t->tokens * t->heads * t->width;
    if (strcmp(axis, "_token_stride") == 0 || strcmp(axis, "_stride") == 0)
        return t->heads * t->width;
    return strcmp(axis, "_head_stride") == 0 ? t->width : 0;
}

/* The stride that a name asks for: of the tensor with the longest name that
 * it begins with; 0 if there is none. */
static int64_t stride_of(const struct gpu_work *w, const char *name)
{
    for (int i = 0; i < w->tensors; i++) {
        const struct gpu_tensor *t = &w->tensor[i];
        size_t n = strlen(t->name);
        if (strncmp(name, t->name, n) == 0 && step_of(t, name + n))
            return step_of(t, name + n) * elem_bytes(w, t->name);
    }
    return 0;
}

/* Counts first, then strides.  A stride of 0 cannot be one of ours, so it
 * means that no tensor has it. */
static bool set_integer(const struct gpu_work *w, const char *name,
                        mla_args *args)
{
    int64_t value = 0;
    bool known = false;

    for (int i = 0; i < w->ints && !known; i++) {
        known = strcmp(w->integer[i].name, name) == 0;
        value = w->integer[i].value;
    }
    if (!known) {
        value = stride_of(w, name);
        known = value != 0;
    }
    return known && mla_args_set_int(args, name, value) == MLA_OK;
}

/* One argument by its type; of the floats two are known. */
static bool set_field(struct gpu *g, const struct gpu_work *w,
                      const mla_field_info *f, uint64_t at, mla_args *args)
{
    double value = strcmp(f->name, "norm_eps") == 0 ? g->model.norm_eps
                                                    : w->softmax_scale;

    if (f->type == MLA_PTR)
        return set_pointer(w, f, at, args);
    if (f->type != MLA_F32)
        return set_integer(w, f->name, args);
    return (strcmp(f->name, "norm_eps") == 0 ||
            strcmp(f->name, "softmax_scale") == 0) &&
           mla_args_set_float(args, f->name, value) == MLA_OK;
}

/* The block belongs to the caller even when it is left half full. */
bool gpu_bind(struct gpu *g, const struct gpu_work *w,
              const struct num_subject *s, uint64_t at, mla_args **out)
{
    mla_field_info f = {.size = sizeof(f)};
    bool good = mla_args_create(s->kernel, out) == MLA_OK;

    for (int i = 0; i < s->info.field_count && good; i++) {
        mla_kernel_field(s->kernel, i, &f);
        good = set_field(g, w, &f, at, *out);
        if (!good)
            snprintf(g->error, sizeof(g->error),
                     "argument '%s' of %s is not known here", f.name,
                     s->info.symbol);
    }
    return good;
}
