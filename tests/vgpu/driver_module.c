/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_module.c: modules and functions.
 *
 * A module is PTX text.  Loading parses it, gives its variables device
 * memory, and lowers every kernel at once, so that an instruction which the
 * virtual GPU does not know is an error here and never a surprise later.
 *
 * A module owns its PTX, its variables' memory and its lowered kernels, and
 * all of them end with it.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes of shared memory that a kernel may declare, and the most that a
 * launch gives it without the opt-in attribute. */
enum { STATIC_LIMIT = 48 * 1024 };

/* --- which PTX runs here ------------------------------------------------- */

/* PTX for sm_XY runs on every later device; sm_XYa on exactly that one;
 * sm_XYf on later ones of its family, which is the major number (PTX ISA
 * 11.1.2). */
static bool target_fits(const char *target, int arch)
{
    char *suffix;
    long t = strtol(target + 3, &suffix, 10);
    if (suffix == target + 3 || t > arch)
        return false;
    if (strcmp(suffix, "a") == 0)
        return t == arch;
    if (strcmp(suffix, "f") == 0)
        return t / 10 == arch / 10;
    return *suffix == 0;
}

/* Also the version: text for a newer compiler than the driver knows. */
static CUresult check_target(const struct ptx_module *m)
{
    int arch = vg_driver.profile.arch;
    if (m->version > VG_PTX_VERSION)
        return vg_drv_error(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                            "found PTX version %d.%d, expected at most %d.%d",
                            m->version / 10, m->version % 10,
                            VG_PTX_VERSION / 10, VG_PTX_VERSION % 10);
    if (!target_fits(m->target, arch))
        return vg_drv_error(CUDA_ERROR_INVALID_PTX,
                            "found PTX target %s, which does not run on %s "
                            "(sm_%d)",
                            m->target, vg_driver.profile.id, arch);
    return CUDA_SUCCESS;
}

/* --- variables ----------------------------------------------------------- */

/* The device address of a variable of the module: vg_compile asks for it.  0
 * for a shared variable, which has a place in each block and no address. */
static uint64_t where(void *module, const struct ptx_symbol *sym)
{
    const struct vg_module *m = module;
    for (int i = 0; i < m->ptx->nsyms; i++)
        if (m->ptx->sym[i] == sym)
            return m->address[i];
    return 0;
}

/* Memory for variable i, with its initial bytes; without any it is zero, and
 * written as far as the checks go.  Constants are read-only for kernels.
 * Shared variables have no address here.  Modules are not linked to each
 * other, so an extern variable has no definition anywhere. */
static CUresult place_variable(struct vg_module *m, int i)
{
    const struct ptx_symbol *s = m->ptx->sym[i];
    if (s->space != PTX_GLOBAL && s->space != PTX_CONST)
        return CUDA_SUCCESS;
    if (s->is_extern)
        return vg_drv_error(CUDA_ERROR_INVALID_PTX,
                            "unresolved extern variable '%s'", s->name);
    unsigned flags = VG_ALLOC_INITED;
    flags |= s->space == PTX_CONST ? VG_ALLOC_READONLY : 0;
    CUresult r = vg_drv_alloc(m->ctx, s->size, flags, s->name, &m->address[i]);
    if (!r && s->init)
        vg_mem_write(vg_driver.mem, m->address[i], s->init, s->size);
    return r;
}

/* Writes the addresses in the variable's initialiser. */
static CUresult relocate(struct vg_module *m, int i)
{
    const struct ptx_symbol *s = m->ptx->sym[i];
    for (int k = 0; k < s->nrelocs; k++) {
        const struct ptx_reloc *r = &s->reloc[k];
        uint64_t at = where(m, r->sym);
        if (!at)
            return vg_drv_error(CUDA_ERROR_INVALID_PTX,
                                "'%s' is initialised with the address of "
                                "'%s', which is not in global or constant "
                                "memory",
                                s->name, r->sym->name);
        at += (uint64_t)r->addend;
        vg_mem_write(vg_driver.mem, m->address[i] + r->offset, &at, r->width);
    }
    return CUDA_SUCCESS;
}

/* Addresses can only be written once every variable has one. */
static CUresult place_variables(struct vg_module *m)
{
    CUresult r = CUDA_SUCCESS;
    size_t n = (size_t)m->ptx->nsyms;
    m->address = calloc(n ? n : 1, sizeof *m->address);
    if (!m->address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < m->ptx->nsyms && !r; i++)
        r = place_variable(m, i);
    for (int i = 0; i < m->ptx->nsyms && !r; i++)
        r = relocate(m, i);
    return r;
}

/* --- kernels ------------------------------------------------------------- */

/* One kernel: static shared memory within 48 KiB (ptxas refuses more), lowered
 * by the executor, with a handle. */
static CUresult lower(struct vg_module *m, const struct ptx_func *ptx)
{
    struct vg_function *f = &m->function[m->nfunctions];
    char why[600] = "";
    if (ptx->shared_bytes > (uint64_t)STATIC_LIMIT)
        return vg_drv_error(CUDA_ERROR_INVALID_PTX,
                            "kernel '%s' has %llu bytes of static shared "
                            "memory, at most %d are allowed",
                            ptx->name, (unsigned long long)ptx->shared_bytes,
                            STATIC_LIMIT);
    f->program = vg_compile(m->ptx, ptx, where, m, why, sizeof why);
    if (!f->program)
        return vg_drv_error(CUDA_ERROR_INVALID_PTX, "%s", why);
    m->nfunctions++;
    f->module = m;
    f->ptx = ptx;
    f->max_dynamic = STATIC_LIMIT - (int)ptx->shared_bytes;
    f->carveout = -1;
    f->handle = vg_drv_handle(VG_H_FUNCTION, f, m->ctx);
    return f->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Functions without .entry are lowered where they are called. */
static CUresult lower_all(struct vg_module *m)
{
    CUresult r = CUDA_SUCCESS;
    size_t n = (size_t)m->ptx->nfuncs;
    m->function = calloc(n ? n : 1, sizeof *m->function);
    if (!m->function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < m->ptx->nfuncs && !r; i++)
        if (m->ptx->func[i]->is_entry)
            r = lower(m, m->ptx->func[i]);
    return r;
}

/* Also takes away a module that was loaded in part. */
void vg_drv_module_destroy(struct vg_module *m)
{
    for (unsigned i = 0; i < m->nfunctions; i++) {
        vg_drv_forget(m->function[i].handle);
        vg_program_free(m->function[i].program);
    }
    /* A module that failed early has no addresses, or not all of them. */
    for (int i = 0; m->address && i < m->ptx->nsyms; i++)
        if (m->address[i])
            vg_drv_free(m->address[i]);
    free(m->function);
    free(m->address);
    ptx_free(m->ptx);
    free(m);
}

/* --- loading ------------------------------------------------------------- */

/* Machine code is recognised by its first bytes: an ELF file, a fat binary or
 * the wrapper that nvcc puts around one. */
static CUresult refuse_binary(const unsigned char *image)
{
    static const unsigned char fatbin[4] = {0x50, 0xed, 0x55, 0xba};
    static const unsigned char wrapper[4] = {0xb1, 0x43, 0x62, 0x46};
    if (memcmp(image, "\177ELF", 4) == 0)
        return vg_drv_error(CUDA_ERROR_NO_BINARY_FOR_GPU,
                            "found a cubin, expected PTX: the virtual GPU "
                            "runs no machine code");
    if (memcmp(image, fatbin, 4) == 0 || memcmp(image, wrapper, 4) == 0)
        return vg_drv_error(CUDA_ERROR_NO_BINARY_FOR_GPU,
                            "found a fat binary, expected PTX");
    return CUDA_SUCCESS;
}

/* Does the text have 4 bytes?  A C string may be shorter. */
static bool has_magic(const char *text)
{
    for (int i = 0; i < 4; i++)
        if (!text[i])
            return false;
    return true;
}

/* Text to module: parse, check the target, place variables, lower kernels.  A
 * failure on the way leaves nothing of it. */
static CUresult load(struct vg_context *ctx, const char *text,
                     CUmodule *handle)
{
    char why[600] = "";
    CUresult r =
        has_magic(text) ? refuse_binary((const void *)text) : CUDA_SUCCESS;
    if (r)
        return r;
    struct vg_module *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->ctx = ctx;
    m->ptx = ptx_parse(text, strlen(text), why, sizeof why);
    r = m->ptx ? check_target(m->ptx)
               : vg_drv_error(CUDA_ERROR_INVALID_PTX, "%s", why);
    r = r ? r : place_variables(m);
    r = r ? r : lower_all(m);
    if (!r) {
        m->handle = vg_drv_handle(VG_H_MODULE, m, ctx);
        r = m->handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r)
        vg_drv_module_destroy(m);
    else
        *handle = m->handle;
    return r;
}

/* Puts the report into the caller's JIT error log, cut to its room.  Sizes
 * arrive and leave in the option values themselves, as in the driver. */
static void fill_log(unsigned n, const int *options, void **values)
{
    char *log = NULL;
    void **size = NULL;
    const char *text = vg_driver.report ? vg_driver.report : "";
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            size = &values[i];
    }
    if (!log || !size || !*size)
        return;
    size_t room = (size_t)(uintptr_t)*size;
    size_t len = strlen(text) < room ? strlen(text) : room - 1;
    memcpy(log, text, len);
    log[len] = 0;
    *size = (void *)(uintptr_t)(len + 1);
}

/* Options other than the error log tune a compiler that is not here. */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n,
                            int *options, void **values)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    if (!module || !image || (n && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    *module = NULL;
    r = vg_drv_capture_forbids("cuModuleLoadData");
    r = r ? r : load(ctx, image, module);
    if (r)
        fill_log(n, options, values);
    return r;
}

/* All ways to load end in cuModuleLoadDataEx; a fat binary is recognised
 * there by its first bytes and refused. */
CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

/* The file as a string, to be freed; NULL with *r set.  Grown as it is read,
 * since a pipe has no size. */
static char *read_text(const char *path, CUresult *r)
{
    char *text = NULL;
    size_t n = 0, room = 0, got = 0;
    FILE *f = fopen(path, "rb");
    *r = f ? CUDA_SUCCESS : CUDA_ERROR_FILE_NOT_FOUND;
    while (f && !*r) {
        if (room - n < 4096) {
            char *bigger = realloc(text, room = room ? 2 * room : 65536);
            if (!bigger) {
                *r = CUDA_ERROR_OUT_OF_MEMORY;
                break;
            }
            text = bigger;
        }
        got = fread(text + n, 1, room - n - 1, f);
        n += got;
        text[n] = 0;
        if (!got)
            break;
    }
    if (f)
        fclose(f);
    return text;
}

/* The file is read outside the lock. */
CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    CUresult r;
    if (!module || !path)
        return CUDA_ERROR_INVALID_VALUE;
    char *text = read_text(path, &r);
    if (!r)
        r = cuModuleLoadData(module, text);
    free(text);
    return r;
}

/* Its functions' handles die with it; a graph that launches one of them fails
 * with CUDA_ERROR_INVALID_HANDLE. */
CUresult cuModuleUnload(CUmodule module)
{
    VG_ENTRY;
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    struct vg_module *m = vg_drv_object(VG_H_MODULE, module);
    if (r)
        return r;
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    r = vg_drv_capture_forbids("cuModuleUnload");
    if (r)
        return r;
    vg_drv_forget(module);
    vg_drv_module_destroy(m);
    return CUDA_SUCCESS;
}

/* Modules are lowered when they are loaded. */
CUresult cuModuleGetLoadingMode(int *mode)
{
    enum { EAGER = 1 };
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = EAGER;
    return CUDA_SUCCESS;
}

/* --- what is in a module ------------------------------------------------- */

/* The module behind a handle, in a healthy context; *m is set only then. */
static CUresult find_module(CUmodule handle, struct vg_module **m)
{
    struct vg_context *ctx;
    CUresult r = vg_drv_current(&ctx);
    if (r)
        return r;
    *m = vg_drv_object(VG_H_MODULE, handle);
    return *m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* By the exact (mangled) name; only entry functions have handles. */
CUresult cuModuleGetFunction(CUfunction *fn, CUmodule module, const char *name)
{
    VG_ENTRY;
    struct vg_module *m;
    CUresult r = find_module(module, &m);
    if (r)
        return r;
    if (!fn || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < m->nfunctions; i++) {
        if (strcmp(m->function[i].ptx->name, name) == 0) {
            *fn = m->function[i].handle;
            return CUDA_SUCCESS;
        }
    }
    return vg_drv_error(CUDA_ERROR_NOT_FOUND, "no kernel '%s' in the module",
                        name);
}

/* Kernels only: functions without .entry have no handles. */
CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    VG_ENTRY;
    struct vg_module *m;
    CUresult r = find_module(module, &m);
    if (r)
        return r;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = m->nfunctions;
    return CUDA_SUCCESS;
}

/* Global and constant variables; either result may be left out. */
CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule module,
                              const char *name)
{
    VG_ENTRY;
    struct vg_module *m;
    CUresult r = find_module(module, &m);
    if (r)
        return r;
    if (!name || (!at && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < m->ptx->nsyms; i++) {
        if (!m->address[i] || strcmp(m->ptx->sym[i]->name, name) != 0)
            continue;
        if (at)
            *at = m->address[i];
        if (bytes)
            *bytes = m->ptx->sym[i]->size;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}
