/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.c: manifest.json into the structs that the runtime works with.
 *
 * The manifest is input, not truth: whatever the launch path relies on
 * (offsets inside the struct, grid limits, counts) is checked here once, so
 * that a truncated, damaged or foreign file ends as an error that names the
 * place, and nothing later has to look again.
 * The reader keeps the first error; after it every getter returns a harmless
 * default, so that parsing code needs no check per line.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "json.h"

typedef const struct mla__json json;

/* Bounds that no generated manifest comes near.  They keep counts and sizes in
 * an int, and what is allocated in proportion to the text. */
enum { FORMAT = 1, MAX_KERNELS = 65536, MAX_FIELDS = 64, MAX_THREADS = 1024,
       MAX_CHOICES = 8, MAX_CLUSTER = 8 };

/* The place being read, and the first error, after which nothing is read
 * any more. */
struct reader {
    mla_context *ctx;
    const char *directory;
    char where[160]; /* JSON path of the object being read */
    mla_status status;
};

/* Records that `key` of the object at r->where is wrong, unless something
 * else was before. */
static void bad(struct reader *r, const char *key, const char *what)
{
    if (r->status)
        return;
    r->status = mla__fail(r->ctx, MLA_BAD_MANIFEST,
                          "%s/manifest.json: %s%s%s: %s", r->directory,
                          r->where, *r->where && *key ? "." : "", key, what);
}

/* The member if it exists and has the type, else NULL and an error. */
static json *member(struct reader *r, json *object, const char *key,
                    enum mla__json_type type, const char *type_name)
{
    json *value = mla__json_get(object, key);
    if (!value)
        bad(r, key, "missing");
    else if (value->type != type)
        bad(r, key, type_name);
    return r->status ? NULL : value;
}

/* Getters take the object and a key of it, which may be NULL after an error. */
static json *get_object(struct reader *r, json *o, const char *key)
{
    return member(r, o, key, MLA__JSON_OBJECT, "not an object");
}

/* At most so many items. */
static json *get_array(struct reader *r, json *o, const char *key,
                         size_t most)
{
    json *value = member(r, o, key, MLA__JSON_ARRAY, "not an array");
    if (value && value->count > most)
        bad(r, key, "too many items");
    return r->status ? NULL : value;
}

/* An integer within the bounds; `min` after an error. */
static int64_t get_int(struct reader *r, json *o, const char *key,
                       int64_t min, int64_t max)
{
    json *value = member(r, o, key, MLA__JSON_INT, "not an integer");
    int64_t n = value ? value->integer : min;
    if (n >= min && n <= max)
        return n;
    bad(r, key, "out of range");
    return min;
}

/* `absent` if there is no such key. */
static int64_t get_int_or(struct reader *r, json *o, const char *key,
                          int64_t min, int64_t max, int64_t absent)
{
    return mla__json_get(o, key) ? get_int(r, o, key, min, max) : absent;
}

/* An owned copy; NULL only after an error. */
static char *get_text(struct reader *r, json *o, const char *key)
{
    json *value = member(r, o, key, MLA__JSON_STRING, "not a string");
    char *copy;
    if (!value)
        return NULL;
    copy = mla__strdup(r->ctx, value->string);
    if (!copy)
        r->status = mla__fail(r->ctx, MLA_OUT_OF_MEMORY, "manifest");
    return copy;
}

/* As get_text, with "" for a key that is not there. */
static char *get_text_or_empty(struct reader *r, json *o, const char *key)
{
    char *copy;
    if (r->status || mla__json_get(o, key))
        return get_text(r, o, key);
    copy = mla__strdup(r->ctx, "");
    if (!copy)
        r->status = mla__fail(r->ctx, MLA_OUT_OF_MEMORY, "manifest");
    return copy;
}

/* Index of the string in a NULL-terminated list. */
static int get_choice(struct reader *r, json *o, const char *key,
                      const char *const *choices)
{
    json *value = member(r, o, key, MLA__JSON_STRING, "not a string");
    for (int i = 0; value && choices[i]; i++)
        if (strcmp(value->string, choices[i]) == 0)
            return i;
    bad(r, key, "not a known word");
    return 0;
}

/* Fields ---------------------------------------------------------------- */

/* By MLA_PTR ... and MLA_IN ... of mla.h. */
static const char *const type_names[] = {"ptr", "i64", "i32", "f32", NULL};
static const size_t type_size[] = {8, 8, 4, 4};
static const char *const access_names[] = {"in", "out", "inout", NULL};

static bool is_true(json *value)
{
    return value && value->type == MLA__JSON_BOOL && value->integer;
}

static bool power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* A field lies inside the struct, at a multiple of its own size. */
static void read_field(struct reader *r, json *o, size_t args_size,
                       struct mla__field *f)
{
    size_t size;

    f->name = get_text(r, o, "name");
    f->type = get_choice(r, o, "type", type_names);
    size = type_size[f->type];
    f->elem = get_text_or_empty(r, o, "elem");
    f->doc = get_text_or_empty(r, o, "doc");
    if (f->type == MLA_PTR)
        f->access = get_choice(r, o, "access", access_names);
    f->nullable = is_true(mla__json_get(o, "null"));
    f->flag = is_true(mla__json_get(o, "flag"));
    f->align = get_int_or(r, o, "align", 1, 4096, 1);
    f->multiple = get_int_or(r, o, "multiple", 1, 4096, 1);
    f->offset = (size_t)get_int(r, o, "offset", 0, 65535);
    if (f->offset + size > args_size || f->offset % size)
        bad(r, "offset", "outside the struct, or not aligned");
    if (!power_of_two(f->align) || !power_of_two(f->multiple))
        bad(r, "align", "not a power of two");
}

/* Sets of pointers of which one must be complete: bit i of a field's `choices`
 * says that it belongs to set i.  Absent or null: no such rule. */
static void read_one_of(struct reader *r, json *args, mla_kernel *k)
{
    json *sets = mla__json_get(args, "one_of");
    unsigned bit = 1;

    if (!sets || sets->type == MLA__JSON_NULL)
        return;
    if (sets->count > MAX_CHOICES)
        bad(r, "one_of", "too many items");
    for (json *set = sets->child; set && !r->status; set = set->next) {
        for (json *name = set->child; name; name = name->next) {
            int i = mla__field_index(k, name->string ? name->string : "");
            if (i < 0)
                bad(r, "one_of", "names no argument");
            else
                k->fields[i].choices |= bit;
        }
        k->all_choices |= bit;
        bit <<= 1;
    }
}

/* Fields in the struct's order.  All are looked up by name later, so names
 * must differ. */
static void read_args(struct reader *r, json *args, mla_kernel *k)
{
    json *fields = get_array(r, args, "fields", MAX_FIELDS);
    int i;

    k->args_size = (size_t)get_int(r, args, "size", 1, 4096);
    if (!fields)
        return;
    k->fields = mla__alloc(r->ctx, fields->count * sizeof(*k->fields));
    if (!k->fields) {
        r->status = mla__fail(r->ctx, MLA_OUT_OF_MEMORY, "manifest");
        return;
    }
    k->field_count = (int)fields->count;
    i = 0;
    for (json *o = fields->child; o && !r->status; o = o->next, i++) {
        read_field(r, o, k->args_size, &k->fields[i]);
        if (!r->status && mla__field_index(k, k->fields[i].name) != i)
            bad(r, k->fields[i].name, "two fields of one name");
    }
    read_one_of(r, args, k);
}

/* Launch rule ----------------------------------------------------------- */

/* {"const": n} or {"arg": field, "per": n}. */
static void read_factor(struct reader *r, json *o, mla_kernel *k,
                        struct mla__factor *f)
{
    json *name = mla__json_get(o, "arg");

    f->field = -1;
    f->per = 1;
    if (!name) {
        f->constant = get_int(r, o, "const", 0, INT_MAX);
        return;
    }
    f->field = mla__field_index(k, name->string ? name->string : "");
    f->per = get_int_or(r, o, "per", 1, INT_MAX, 1);
    if (f->field < 0 || (k->fields[f->field].type != MLA_I32 &&
                         k->fields[f->field].type != MLA_I64))
        bad(r, "grid", "a factor names no integer argument");
}

/* `limit` is the hardware's; the manifest may state less.  No factors: the
 * axis is 1. */
static void read_axis(struct reader *r, json *o, mla_kernel *k,
                      int64_t limit, struct mla__axis *axis)
{
    json *factors = get_array(r, o, "factors", MLA__MAX_FACTORS);
    axis->max = get_int(r, o, "max", 1, limit);
    for (json *f = factors ? factors->child : NULL; f; f = f->next)
        read_factor(r, f, k, &axis->factor[axis->count++]);
}

/* A size or stride of a tensor map: a list of factors. */
static void read_product(struct reader *r, json *list, mla_kernel *k,
                         struct mla__product *out)
{
    if (list->type != MLA__JSON_ARRAY || list->count == 0 ||
        list->count > MLA__MAX_FACTORS) {
        bad(r, "tensor_maps", "a size or stride is not a list of factors");
        return;
    }
    for (json *f = list->child; f; f = f->next)
        read_factor(r, f, k, &out->factor[out->count++]);
}

/* The index of a number among those that the copy engine knows, which is
 * cuda.h's value for it. */
static int read_code(struct reader *r, json *o, const char *key,
                     const int64_t *values, int count)
{
    int64_t n = get_int(r, o, key, 0, 256);
    for (int i = 0; i < count; i++)
        if (values[i] == n)
            return i;
    bad(r, key, "not one of the copy engine's values");
    return 0;
}

/* cuda.h's numbers: CUtensorMapDataType, CUtensorMapSwizzle by its bytes and
 * CUtensorMapL2promotion by its bytes. */
static void read_map_type(struct reader *r, json *o, struct mla__tensor_map *m)
{
    static const char *const elems[] = {"byte", "fp16", "f32", "bf16", NULL};
    static const int types[] = {0, 6, 7, 9}; /* CUtensorMapDataType */
    static const int64_t swizzles[] = {0, 32, 64, 128};
    static const int64_t promotions[] = {0, 64, 128, 256};

    m->type = types[get_choice(r, o, "elem", elems)];
    m->swizzle = read_code(r, o, "swizzle", swizzles, 4);
    m->promotion = read_code(r, o, "l2", promotions, 4);
}

/* A tensor map has as many sizes and box lengths as dimensions, and one stride
 * less, as neighbours along the innermost dimension touch. */
static void read_map(struct reader *r, json *o, mla_kernel *k,
                     struct mla__tensor_map *m)
{
    json *dims = get_array(r, o, "dims", MLA__MAX_RANK);
    json *strides = get_array(r, o, "strides", MLA__MAX_RANK - 1);
    json *box = get_array(r, o, "box", MLA__MAX_RANK);
    json *pointer = mla__json_get(o, "pointer");
    int i = 0;

    m->name = get_text(r, o, "name");
    m->pointer = mla__field_index(
        k, pointer && pointer->string ? pointer->string : "");
    if (m->pointer < 0 || k->fields[m->pointer].type != MLA_PTR)
        bad(r, "tensor_maps", "a map of no pointer argument");
    m->back = (int)get_int_or(r, o, "back", 0, 65536, 0);
    read_map_type(r, o, m);
    if (r->status)
        return;
    m->rank = (int)dims->count;
    if (m->rank == 0 || box->count != dims->count ||
        strides->count + 1 != dims->count) {
        bad(r, "tensor_maps", "sizes, strides and box do not go together");
        return;
    }
    for (json *d = dims->child; d; d = d->next)
        read_product(r, d, k, &m->dim[i++]);
    i = 0;
    for (json *s = strides->child; s; s = s->next)
        read_product(r, s, k, &m->stride[i++]);
    i = 0;
    for (json *b = box->child; b; b = b->next)
        m->box[i++] = (uint32_t)(b->type == MLA__JSON_INT ? b->integer : 0);
}

/* Parameters behind the argument struct; absent: none. */
static void read_maps(struct reader *r, json *list, mla_kernel *k)
{
    if (!list || list->type == MLA__JSON_NULL || r->status)
        return;
    if (list->count > MLA__MAX_MAPS) {
        bad(r, "tensor_maps", "too many items");
        return;
    }
    k->maps = mla__alloc(r->ctx, list->count * sizeof(*k->maps));
    if (!k->maps) {
        r->status = mla__fail(r->ctx, MLA_OUT_OF_MEMORY, "manifest");
        return;
    }
    for (json *o = list->child; o && !r->status; o = o->next)
        read_map(r, o, k, &k->maps[k->map_count++]);
}

/* Blocks of a cluster; absent: none. At most 8 blocks in all are portable
 * (CUDA C++ Programming Guide, Thread Block Clusters); each axis is checked. */
static void read_cluster(struct reader *r, json *o, mla_kernel *k)
{
    static const char *const axes[] = {"x", "y", "z"};
    json *cluster = mla__json_get(o, "cluster");

    if (!cluster || cluster->type == MLA__JSON_NULL)
        return;
    for (int i = 0; i < 3; i++)
        k->cluster[i] =
            (unsigned)get_int(r, cluster, axes[i], 1, MAX_CLUSTER);
}

/* Limits of a grid and of a block's threads: CUDA C++ Programming Guide,
 * compute capabilities. */
static void read_launch(struct reader *r, json *o, mla_kernel *k)
{
    static const int64_t limit[3] = {INT_MAX, 65535, 65535};
    json *block = get_array(r, o, "block", 3);
    json *grid = get_array(r, o, "grid", 3);
    int64_t threads = 1;

    k->smem_dynamic = get_int_or(r, o, "smem_dynamic", 0, INT_MAX, 0);
    k->min_ctas = (int)get_int_or(r, o, "min_ctas", 1, 64, 1);
    if (!block || !grid)
        return;
    if (block->count != 3 || grid->count != 3) {
        bad(r, "grid", "block and grid have three axes");
        return;
    }
    block = block->child;
    grid = grid->child;
    for (int i = 0; i < 3; i++, block = block->next, grid = grid->next) {
        if (block->integer < 1 || block->integer > MAX_THREADS)
            bad(r, "block", "an axis is not 1 to 1024");
        k->block[i] = (int)block->integer;
        threads *= block->integer;
        read_axis(r, grid, k, limit[i], &k->grid[i]);
    }
    if (threads > MAX_THREADS)
        bad(r, "block", "more than 1024 threads");
    read_cluster(r, o, k);
    read_maps(r, mla__json_get(o, "tensor_maps"), k);
}

/* Kernels --------------------------------------------------------------- */

/* A kernel has the dims that it needs; the others read as 0. */
static void read_dims(struct reader *r, json *dims, mla_kernel *k)
{
    const struct {
        const char *key;
        int *value;
    } rows[] = {{"nope", &k->nope}, {"rope", &k->rope}, {"v", &k->v},
                {"latent", &k->latent}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        *rows[i].value = (int)get_int_or(r, dims, rows[i].key, 0, 65536, 0);
}

/* Absent but for decode_plan; all of it or none. */
static void read_work_list(struct reader *r, json *o,
                           struct mla__work_list *w)
{
    const struct {
        const char *key;
        int *value;
    } rows[] = {{"header_ints", &w->header_ints},
                {"item_ints", &w->item_ints},
                {"cut_items", &w->cut_items},
                {"first_cut_slots", &w->first_cut_slots},
                {"cut_slots", &w->cut_slots},
                {"items_at", &w->items_at},
                {"slots_at", &w->slots_at},
                {"status_at", &w->status_at},
                {"item_overflow", &w->item_overflow},
                {"slot_overflow", &w->slot_overflow},
                {"short_request", &w->short_request}};

    for (size_t i = 0; o && i < sizeof(rows) / sizeof(rows[0]); i++)
        *rows[i].value = (int)get_int(r, o, rows[i].key, 0, 64);
    if (o && (w->header_ints <= w->items_at ||
              w->header_ints <= w->slots_at || w->header_ints <= w->status_at))
        bad(r, "work_list", "the header ends before its fields");
}

/* Of the tile's numbers a caller needs few (docs/decode.md). */
static void read_tile(struct reader *r, json *tile, mla_kernel *k)
{
    k->tile_m = (int)get_int_or(r, tile, "m", 0, 65536, 0);
    k->tile_n = (int)get_int_or(r, tile, "n", 0, 65536, 0);
    k->max_rows = (int)get_int_or(r, tile, "max_rows", 0, INT_MAX, 0);
    read_work_list(r, mla__json_get(tile, "work_list"), &k->work_list);
}

/* Names of architectures are parsed once, here. */
static void read_arch(struct reader *r, json *o, mla_kernel *k)
{
    const char *reason = NULL;
    k->arch_name = get_text(r, o, "arch");
    if (k->arch_name && !mla__arch_parse(k->arch_name, &k->arch, &reason))
        bad(r, "arch", reason);
}

/* What `mlagen build` adds; absent after `mlagen gen`, and then the cubin is
 * "".  Memory is checked by read_kernel. */
static void read_build(struct reader *r, json *build, mla_kernel *k)
{
    if (!build || build->type == MLA__JSON_NULL) {
        k->cubin = mla__strdup(r->ctx, "");
        k->cubin_hash = mla__strdup(r->ctx, "");
        return;
    }
    k->cubin = get_text(r, build, "cubin");
    k->cubin_hash = get_text(r, build, "cubin_sha256");
    k->smem_static = get_int_or(r, build, "smem_static", 0, INT_MAX, 0);
}

/* The source has to be one of the manifest's files: only then is it known what
 * it must contain. */
static void read_source_hash(struct reader *r, json *files,
                             mla_kernel *k)
{
    const char *hash = "";

    for (json *file = files ? files->child : NULL; file; file = file->next) {
        json *path = mla__json_get(file, "path");
        json *sum = mla__json_get(file, "sha256");
        if (path && path->string && sum && sum->string &&
            strcmp(path->string, k->source) == 0)
            hash = sum->string;
    }
    if (!*hash)
        bad(r, "source", "not among the manifest's files");
    k->source_hash = mla__strdup(r->ctx, hash);
}

/* Names first, so that later errors have something to refer to.  Where a part
 * is missing the ones that need it are not read. */
static void read_kernel(struct reader *r, json *root, json *o,
                        mla_kernel *k)
{
    k->symbol = get_text(r, o, "symbol");
    k->family = get_text(r, o, "family");
    k->variant = get_text_or_empty(r, o, "variant");
    k->dtype = get_text(r, o, "dtype");
    k->source = get_text(r, o, "source");
    k->heads = (int)get_int(r, o, "heads", 1, 65536);
    k->page_size = (int)get_int(r, o, "page_size", 1, 65536);
    read_arch(r, o, k);
    read_dims(r, get_object(r, o, "dims"), k);
    read_tile(r, mla__json_get(o, "tile"), k);
    if (!r->status)
        read_args(r, get_object(r, o, "args"), k);
    if (!r->status)
        read_launch(r, get_object(r, o, "launch"), k);
    read_build(r, mla__json_get(o, "build"), k);
    if (!r->status)
        read_source_hash(r, mla__json_get(root, "files"), k);
    if (!r->status && !(k->cubin && k->cubin_hash && k->source_hash))
        r->status = mla__fail(r->ctx, MLA_OUT_OF_MEMORY, "manifest");
}

/* The count is set before the kernels are read: mla_kernels_free frees what
 * there is. */
static void read_kernels(struct reader *r, json *root,
                         mla_kernels *set)
{
    json *list = get_array(r, root, "kernels", MAX_KERNELS);
    int i = 0;

    if (!list)
        return;
    set->kernel = mla__alloc(r->ctx, list->count * sizeof(*set->kernel));
    if (!set->kernel) {
        r->status = mla__fail(r->ctx, MLA_OUT_OF_MEMORY, "manifest");
        return;
    }
    set->count = (int)list->count;
    for (json *o = list->child; o && !r->status; o = o->next, i++) {
        snprintf(r->where, sizeof(r->where), "kernels[%d]", i);
        set->kernel[i].owner = set;
        read_kernel(r, root, o, &set->kernel[i]);
    }
}

/* The format comes first: another one may have anything in its place. */
static void read_root(struct reader *r, json *root, mla_kernels *set)
{
    if (root->type != MLA__JSON_OBJECT)
        bad(r, "", "not an object");
    else if (get_int(r, root, "format", 0, INT_MAX) != FORMAT)
        bad(r, "format", "this library reads format 1");
    if (!r->status)
        set->model = get_text(r, root, "model");
    if (!r->status)
        read_kernels(r, root, set);
}

/* The parser decodes strings in place, so it gets a copy: set->text is what
 * mla_kernels_manifest shows.  Nothing of the tree is kept. */
mla_status mla__manifest_parse(mla_kernels *set)
{
    struct reader r = {set->ctx, set->directory, "", MLA_OK};
    struct mla__json *root = NULL;
    struct mla__json_error error = {0, 0, ""};
    char *copy = mla__strdup(set->ctx, set->text);
    mla_status status = MLA_OUT_OF_MEMORY;

    if (copy)
        status = mla__json_parse(set->ctx, copy, &root, &error);
    if (status == MLA_OUT_OF_MEMORY)
        mla__fail(set->ctx, status, "%s/manifest.json", set->directory);
    else if (status)
        mla__fail(set->ctx, status, "%s/manifest.json:%d:%d: %s",
                  set->directory, error.line, error.column, error.text);
    if (!status) {
        read_root(&r, root, set);
        status = r.status;
        mla__json_free(set->ctx, root);
    }
    mla__free(set->ctx, copy);
    return status;
}
