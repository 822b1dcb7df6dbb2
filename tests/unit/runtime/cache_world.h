/* SPDX-License-Identifier: Apache-2.0
 *
 * cache_world.h: what the tests of the cache stand on: an empty folder for it,
 * sets of one kernel in memory, told apart by a number in their source, and a
 * context with a driver and a compiler that are not real.
 */
#ifndef CACHE_WORLD_H
#define CACHE_WORLD_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_nvrtc.h"
#include "fixture.h"

#include "cache.h"

struct set {
    char source[160];
    char *manifest;
    mla_file files[2];
    mla_kernels *kernels;
    mla_kernel *kernel;
};

struct world {
    char folder[4096]; /* the cache */
    int lines;         /* of log about the cache */
    char last[512];
};

static struct world world;

static void world_log(void *user, int level, const char *text)
{
    struct world *w = user;
    (void)level;
    if (!strstr(text, "cache"))
        return;
    w->lines++;
    snprintf(w->last, sizeof(w->last), "%s", text);
}

/* A context whose compiler has this identity. */
static mla_context *world_context_of(const char *identity)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_context *ctx;

    options.cache = world.folder;
    options.log = world_log;
    options.log_user = &world;
    ctx = fake_context(&options);
    fake_nvrtc(ctx, identity);
    return ctx;
}

static mla_context *world_context(void)
{
    return world_context_of("compiler one");
}

/* Loads the set whose source has this number; `more` is text to go with it. */
static void set_load(struct set *s, mla_context *ctx, int number,
                     const char *arch, const char *more)
{
    const struct fixture_kernel shape = {arch, 16, 0};
    char hash[MLA__SHA256_HEX + 1], kernel[8192];
    size_t size = 16384;

    snprintf(s->source, sizeof(s->source), "// source %d\n%s", number, more);
    mla__sha256_hex(s->source, strlen(s->source), hash);
    fixture_kernel_text(kernel, sizeof(kernel), &shape, hash);
    s->manifest = malloc(size);
    snprintf(s->manifest, size,
             "{\"format\": 1, \"model\": \"fixture\", \"files\": [{\"path\": "
             "\"src/k.cu\", \"bytes\": 1, \"sha256\": \"%s\"}], "
             "\"kernels\": [%s]}",
             hash, kernel);
    s->files[0] = (mla_file){"manifest.json", s->manifest, strlen(s->manifest)};
    s->files[1] = (mla_file){"src/k.cu", s->source, strlen(s->source)};
    if (mla_load_files(ctx, "memory", s->files, 2, &s->kernels) != MLA_OK)
        abort();
    s->kernel = mla_kernels_at(s->kernels, 0);
}

static void set_free(struct set *s)
{
    mla_kernels_free(s->kernels);
    free(s->manifest);
}

/* True if the image is the one that this source is compiled to. */
static bool image_is(const struct mla__image *image, int number)
{
    char want[32];
    snprintf(want, sizeof(want), "// source %d\n", number);
    return image->data && strlen(image->data) > 5 &&
           strncmp(image->data + 5, want, strlen(want)) == 0;
}

/* As a program does that needs one kernel: the cache, then the compiler. */
static mla_status world_get(mla_context *ctx, int number, const char *arch,
                            enum mla__kind kind)
{
    struct set s;
    struct mla__image image;
    bool found;
    mla_status status;

    set_load(&s, ctx, number, arch, "");
    status = mla__image_find(ctx, s.kernel, kind, &image, &found);
    if (!status && !found)
        status = mla__image_begin(ctx);
    if (!status && !found)
        status = mla__image_compile(ctx, s.kernel, kind, &image);
    if (!status && !image_is(&image, number))
        status = MLA_CORRUPT;
    mla__image_free(ctx, &image);
    set_free(&s);
    return status;
}

/* The same in a context of its own. */
__attribute__((unused)) static mla_status world_start(int number)
{
    mla_context *ctx = world_context();
    mla_status status = world_get(ctx, number, "sm_80", MLA__CUBIN);
    mla_context_destroy(ctx);
    return status;
}

/* The cache's folder ------------------------------------------------------ */

/* Calls visit for every name in the cache that begins so. */
typedef void (*name_fn)(const char *path);
static int each_name(const char *prefix, name_fn visit)
{
    char path[8192];
    struct dirent *e;
    DIR *list = opendir(world.folder);
    int count = 0;

    while (list && (e = readdir(list))) {
        if (*e->d_name == '.' || strncmp(e->d_name, prefix, strlen(prefix)))
            continue;
        count++;
        snprintf(path, sizeof(path), "%s/%s", world.folder, e->d_name);
        if (visit)
            visit(path);
    }
    if (list)
        closedir(list);
    return count;
}

/* Entries, which are folders named by 64 digits. */
__attribute__((unused)) static int entry_count(void)
{
    return each_name("", NULL) - each_name("lock", NULL) -
           each_name("tmp.", NULL);
}

/* The path of the only entry, or of a file in it. */
static char entry_path[8192];
static void keep_path(const char *path)
{
    if (!strstr(path, "/lock"))
        snprintf(entry_path, sizeof(entry_path), "%s", path);
}

__attribute__((unused)) static const char *only_entry(const char *file)
{
    each_name("", keep_path);
    if (file)
        strcat(strcat(entry_path, "/"), file);
    return entry_path;
}

static void remove_tree(const char *path)
{
    char command[8300];
    snprintf(command, sizeof(command),
             "chmod -R u+rwx '%s' 2>/dev/null; "
             "rm -rf '%s'",
             path, path);
    if (system(command))
        abort();
}

static int world_up(void **state)
{
    (void)state;
    snprintf(world.folder, sizeof(world.folder), "%s/c", fake_directory());
    world.lines = 0;
    fake_compiler_reset();
    return 0;
}

static int world_down(void **state)
{
    (void)state;
    *strrchr(world.folder, '/') = 0;
    remove_tree(world.folder);
    return 0;
}

#endif
