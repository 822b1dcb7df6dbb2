/* SPDX-License-Identifier: Apache-2.0
 *
 * lua_host.h: the sandbox in which rules, plans and templates run.
 *
 * The C side of the generator knows files and syntax; everything about models
 * and kernels is Lua below templates/.  A host is one Lua state over one set of
 * texts (source.h).  It has no file system, no clock, no randomness, no
 * iteration whose order differs from run to run, a memory cap and an
 * instruction budget: the same input gives the same bytes anywhere.  Values
 * cross the border as JSON (jansson).
 *
 * What Lua code sees, beside the language:
 *   assert error ipairs select tonumber tostring type setmetatable getmetatable
 *   rawget rawlen rawequal pcall, math (no random, randomseed), string (no
 *   dump), table (sort is stable), utf8, and
 *   use(name)        the value of module templates/<name>.lua, loaded once
 *   keys(t)          sorted array of t's keys: numbers, then strings
 *   fail(fmt, ...)   stops with an error for the user, at the caller's line
 *   f32(x)           shortest CUDA float literal that reads back as (float)x
 *   include(path, t) the text of template templates/<path>, no final newline
 *   null             stands for JSON's null inside tables
 * Reading an unknown global and writing any global are errors.  tostring and
 * string.format refuse what would print an address.  One gap is known: a single
 * call of string.find, match, gmatch or gsub with a pathological pattern runs
 * inside C, where no instruction is counted.
 *
 * The border: integers stay integers, reals stay floats.  A Lua table whose
 * keys are 1..n is an array, one with only string keys an object (its keys come
 * out sorted); an empty table is an array, unless it came in as an object.  A
 * function, a mixed table, a NaN or an infinity is an error that names its
 * path.
 */
#ifndef MLAGEN_LUA_HOST_H
#define MLAGEN_LUA_HOST_H

#include <jansson.h>

#include "source.h"
#include "template.h"

/* Zero means the default. */
struct mlagen_limits {
    size_t memory;                   /* bytes of one host; 256 MiB */
    unsigned long long instructions; /* of one call or rendering; 2e9 */
};

struct mlagen_host; /* use from one thread at a time */

/* `tree` must outlive the host.  `limits` may be NULL. */
enum mlagen_status mlagen_host_new(const struct mlagen_tree *tree,
                                   const struct mlagen_limits *limits,
                                   struct mlagen_host **host,
                                   struct mlagen_diags *d);
void mlagen_host_free(struct mlagen_host *host);

/* Calls function `entry` of the table that templates/main.lua returns, with
 * `count` arguments (borrowed; a NULL argument is passed as nil).
 * @return a new reference in *result (JSON null when the function returned
 *         nothing), or MLAGEN_TEMPLATE with an error at file:line followed by
 *         notes that say from where the code was reached. */
enum mlagen_status mlagen_host_call(struct mlagen_host *host, const char *entry,
                                    json_t *const *args, size_t count,
                                    json_t **result, struct mlagen_diags *d);

/* Renders template "kernel/x.cu.tpl" (below templates/) with the fields of
 * object `params` as its globals and appends the text to `out`.  `map`, unless
 * NULL, is filled with the origin of each emitted line and must be freed with
 * mlagen_linemap_free. */
enum mlagen_status mlagen_host_render(struct mlagen_host *host,
                                      const char *path, const json_t *params,
                                      struct mlagen_buf *out,
                                      struct mlagen_linemap *map,
                                      struct mlagen_diags *d);

#endif
