/* SPDX-License-Identifier: Apache-2.0
 *
 * env.c: the versions that a bug report needs, and where things were found.
 * What is missing is shown as missing; nothing here fails.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lua.h>
#include <yaml.h>

#include "context.h"
#include "manifest.h"
#include "nvrtc.h"

/* --- compiler -------------------------------------------------------------
 */

/* What the compiler compiles for, as sm_NN. */
static json_t *arch_names(const struct mlagen_nvrtc *n)
{
    json_t *list = json_array();
    size_t count;
    const int *archs = mlagen_nvrtc_archs(n, &count);

    for (size_t i = 0; i < count; i++)
        mlagen_json_append(&list, json_sprintf("sm_%d", archs[i]));
    return list;
}

/* {"path":..., "version":..., "archs":[...]} or {"missing": why}: the first
 * diagnostic of a failed search names all places that were tried. */
static json_t *describe_nvrtc(const char *path)
{
    struct mlagen_diags d = {0};
    struct mlagen_nvrtc *n = NULL;
    json_t *object;

    if (mlagen_nvrtc_open(path, &n, &d) == MLAGEN_OK)
        object =
            json_pack("{s:s,s:s,s:o}", "path", mlagen_nvrtc_path(n), "version",
                      mlagen_nvrtc_compiler(n), "archs", arch_names(n));
    else
        object = json_pack("{s:s}", "missing",
                           d.count ? d.items[0].message : "out of memory");
    mlagen_nvrtc_close(n);
    mlagen_diags_free(&d);
    return object;
}

/* --- driver ---------------------------------------------------------------
 */

/* cuda.h is not included anywhere in gen. */
enum { CUDA_SUCCESS = 0 };

/* Calls int symbol(int *) of the driver; false when it is absent or fails. */
static bool ask_driver(void *driver, const char *symbol, int *value)
{
    int (*function)(int *);
    void *address = dlsym(driver, symbol);

    memcpy(&function, &address, sizeof function);
    return function && function(value) == CUDA_SUCCESS;
}

/* Name of device 0, "unknown" when the driver will not say. */
static void first_device_name(void *driver, char *name, int size)
{
    int (*get_name)(char *, int, int);
    void *address = dlsym(driver, "cuDeviceGetName");

    memcpy(&get_name, &address, sizeof get_name);
    if (!get_name || get_name(name, size, 0) != CUDA_SUCCESS)
        snprintf(name, (size_t)size, "unknown");
}

/* {"path", "version", "devices", "device"} or {"path", "missing"}.  The
 * version is that of the newest CUDA that the driver takes. */
static json_t *describe_driver(void *driver, const char *path)
{
    int (*init)(unsigned);
    void *address = dlsym(driver, "cuInit");
    char name[128] = "none";
    int version = 0, count = 0;

    memcpy(&init, &address, sizeof init);
    if (!init || init(0) != CUDA_SUCCESS)
        return json_pack("{s:s,s:s}", "path", path, "missing",
                         "cuInit failed: no device");
    ask_driver(driver, "cuDriverGetVersion", &version);
    if (ask_driver(driver, "cuDeviceGetCount", &count) && count > 0)
        first_device_name(driver, name, sizeof name);
    return json_pack(
        "{s:s,s:o,s:i,s:s}", "path", path, "version",
        json_sprintf("%d.%d", version / 1000, version % 1000 / 10), "devices",
        count, "device", name);
}

/* Opens and describes a driver; NULL when there is no such library. */
static json_t *try_driver(const char *path)
{
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    json_t *object;

    if (!driver)
        return NULL;
    object = describe_driver(driver, path);
    dlclose(driver);
    return object;
}

/* libvgpu.so as it lies in a build folder, and as `make install` puts it. */
static json_t *try_virtual_gpu(void)
{
    static const char *const places[] = {"libvgpu.so", "../lib/libvgpu.so"};
    char program[PATH_MAX], path[PATH_MAX + 32];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    json_t *object = NULL;

    if (n <= 0)
        return NULL;
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places && !object; i++) {
        snprintf(path, sizeof path, "%s/%s", program, places[i]);
        object = try_driver(path);
    }
    return object;
}

/* The driver that programs here would get: MLA_DRIVER, else the real one, else
 * the virtual GPU beside this program.  A real one without a device counts as
 * none, as on a build machine. */
static json_t *find_driver(void)
{
    const char *chosen = getenv("MLA_DRIVER");
    json_t *object = try_driver(chosen && *chosen ? chosen : "libcuda.so.1");

    if (object && !json_object_get(object, "missing"))
        return object;
    if (!chosen || !*chosen) {
        json_t *virtual = try_virtual_gpu();

        if (virtual) {
            json_decref(object);
            return virtual;
        }
    }
    return object ? object
                  : json_pack("{s:s}", "missing",
                              "no libcuda.so.1 and no libvgpu.so");
}

/* --- report ---------------------------------------------------------------
 */

/* Everything, as JSON; the text is made from it. */
static json_t *make_report(const struct mlagen *g)
{
    const char *home = getenv("CUDA_HOME");
    int major, minor, patch;

    yaml_get_version(&major, &minor, &patch);
    return json_pack(
        "{s:s,s:s,s:s,s:o,s:s,s:o,s:s?,s:o}", "mlagen", MLAGEN_VERSION,
        "templates_sha256", g->templates_sha256, "lua",
        LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "." LUA_VERSION_RELEASE,
        "libyaml", json_sprintf("%d.%d.%d", major, minor, patch), "jansson",
        JANSSON_VERSION, "nvrtc", describe_nvrtc(g->options.nvrtc),
        "cuda_home", home, "driver", find_driver());
}

/* Nothing for a part that has none. */
static void print_archs(const json_t *list, struct mlagen_buf *out)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
        mlagen_buf_printf(out, " %s", json_string_value(item));
}

/* One part that was looked for: its fields, or why it is missing. */
static void print_part(const char *label, const json_t *part,
                       struct mlagen_buf *out)
{
    const char *missing = json_string_value(json_object_get(part, "missing"));
    const char *path = json_string_value(json_object_get(part, "path"));

    mlagen_buf_printf(out, "%-10s", label);
    if (missing) {
        mlagen_buf_printf(out, "missing: %s%s%s\n", path ? path : "",
                          path ? ": " : "", missing);
        return;
    }
    mlagen_buf_printf(out, "%s (%s)", mlagen_json_text(part, "version"), path);
    if (json_object_get(part, "devices"))
        mlagen_buf_printf(
            out, " %d x %s",
            (int)json_integer_value(json_object_get(part, "devices")),
            mlagen_json_text(part, "device"));
    print_archs(json_object_get(part, "archs"), out);
    mlagen_buf_char(out, '\n');
}

/* One line per part, labels in a column of ten. */
static void print_text(const json_t *all, struct mlagen_buf *out)
{
    static const char *const lines[] = {"mlagen", "lua", "libyaml", "jansson"};
    const char *home = json_string_value(json_object_get(all, "cuda_home"));

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        mlagen_buf_printf(out, "%-10s%s\n", lines[i],
                          mlagen_json_text(all, lines[i]));
    mlagen_buf_printf(out, "%-10ssha256 %s\n", "templates",
                      mlagen_json_text(all, "templates_sha256"));
    mlagen_buf_printf(out, "%-10s%s\n", "CUDA_HOME", home ? home : "not set");
    print_part("NVRTC", json_object_get(all, "nvrtc"), out);
    print_part("driver", json_object_get(all, "driver"), out);
}

enum mlagen_status mlagen_env(const struct mlagen *g, bool json,
                              struct mlagen_buf *out, struct mlagen_diags *d)
{
    json_t *all = make_report(g);
    enum mlagen_status status = all ? MLAGEN_OK : mlagen_no_memory(d);

    if (status == MLAGEN_OK && json)
        status = mlagen_json_print(all, out, d);
    else if (status == MLAGEN_OK)
        print_text(all, out);
    json_decref(all);
    return status;
}
