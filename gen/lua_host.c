/* SPDX-License-Identifier: Apache-2.0
 *
 * lua_host.c: see lua_host.h.
 *
 * Whatever may raise runs under one lua_pcall in `enter`, with the "C" locale
 * in force for this thread (Lua reads and prints numbers through the locale,
 * and a program that links the generator may have set another).  An error comes
 * back as text with the position in front, the way Lua writes it; here it is
 * taken apart again into a diagnostic.
 *
 * Three limits hold for any Lua code.  Memory: the allocator refuses beyond the
 * cap, and Lua raises.  Instructions: a hook looks at the budget every
 * thousand. C stack: Lua's own limit, and HOST_INCLUDES for include().  pcall
 * inside the sandbox does not catch the first two (lua_sandbox.c), so they end
 * the call for good, and the host is usable again afterwards.
 */
#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "lua_internal.h"

#define DEFAULT_MEMORY ((size_t)256 << 20)
#define DEFAULT_INSTRUCTIONS 2000000000ull
#define HOOK_EVERY 1000 /* instructions between two looks at the budget */

struct mlagen_host *mlagen_lua_host(lua_State *L) {
    return *(struct mlagen_host **)lua_getextraspace(L);
}

/* ---- limits -------------------------------------------------------------- */

/* lua_Alloc with the host's cap.  `capped` tells afterwards whose limit it
 * was: ours, which is a fault of the templates, or the machine's. */
static void *allocate(void *user, void *ptr, size_t old, size_t size) {
    struct mlagen_host *host = user;
    size_t before = ptr ? old : 0; /* without ptr, `old` is a kind of object */
    if (size > before && size - before > host->limits.memory - host->memory) {
        host->capped = true;
        return NULL;
    }
    void *moved = mlagen_realloc(ptr, size);
    if (moved || size == 0)
        host->memory += size - before;
    else
        host->capped = false;
    return moved;
}

/* The hook; once the budget is spent it raises at every look, so that no pcall
 * outlives it. */
static void count_instructions(lua_State *L, lua_Debug *ar) {
    struct mlagen_host *host = mlagen_lua_host(L);
    (void)ar;
    if (host->left > HOOK_EVERY) {
        host->left -= HOOK_EVERY;
        return;
    }
    host->left = 0;
    luaL_where(L, 0);
    lua_pushfstring(L, "%sthe budget of %I instructions is spent",
                    lua_tostring(L, -1),
                    (LUAI_UACINT)host->limits.instructions);
    lua_error(L);
}

/* ---- errors -------------------------------------------------------------- */

/* Message handler: notes the Lua frames that led to the error, innermost
 * first, while the stack still has them. */
static int note_frames(lua_State *L) {
    struct mlagen_host *host = mlagen_lua_host(L);
    lua_Debug ar;
    host->frame_count = 0;
    for (int level = 0;
         host->frame_count < HOST_FRAMES && lua_getstack(L, level, &ar);
         level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline <= 0 || ar.source[0] != '@')
            continue;
        struct host_frame *f = &host->frames[host->frame_count++];
        snprintf(f->source, sizeof f->source, "%s", ar.source + 1);
        f->line = (unsigned)ar.currentline;
    }
    return 1;
}

/* The text a chunk's name stands for.  Lua shortens long names in messages to
 * "...tail". */
static const struct mlagen_text *find_chunk(const struct mlagen_tree *tree,
                                            const char *name, size_t len) {
    bool cut = len > 3 && !memcmp(name, "...", 3);
    if (cut) {
        name += 3;
        len -= 3;
    }
    for (size_t i = 0; i < mlagen_tree_count(tree); i++) {
        const struct mlagen_text *text = mlagen_tree_at(tree, i);
        size_t size = strlen(text->path);
        if ((size == len || (cut && size > len)) &&
            !memcmp(text->path + size - len, name, len))
            return text;
    }
    return NULL;
}

/* Reads ":digits" at p; NULL when it is not there. */
static const char *read_number(const char *p, unsigned *value) {
    if (*p != ':' || !isdigit((unsigned char)p[1]))
        return NULL;
    char *end;
    *value = (unsigned)strtoul(p + 1, &end, 10);
    return end;
}

/* Takes "chunk:line: " or "chunk:line:col: " off the message; returns the
 * rest.  The colon to split at is the first that a number follows: chunk names
 * hold none such. */
static const char *split_position(const struct mlagen_tree *tree,
                                  const char *message,
                                  struct mlagen_where *where) {
    for (const char *p = strchr(message, ':'); p; p = strchr(p + 1, ':')) {
        struct mlagen_where at = {0};
        const char *after = read_number(p, &at.line);
        if (!after)
            continue;
        const char *column = read_number(after, &at.col);
        after = column ? column : after;
        const struct mlagen_text *text =
            find_chunk(tree, message, (size_t)(p - message));
        if (!text || strncmp(after, ": ", 2))
            return message;
        at.file = text->shown;
        *where = at;
        return after + 2;
    }
    return message;
}

/* Frame i of the last error as a place; valid as long as the host. */
static struct mlagen_where frame_where(const struct mlagen_host *host,
                                       size_t i) {
    const struct host_frame *f = &host->frames[i];
    const struct mlagen_text *text = mlagen_tree_find(host->tree, f->source);
    return (struct mlagen_where){text ? text->shown : f->source, f->line, 0};
}

/* Spares the note that would repeat the error's own place. */
static bool same_line(struct mlagen_where a, struct mlagen_where b) {
    return a.file && b.file && !strcmp(a.file, b.file) && a.line == b.line;
}

/* Turns the error on top of the stack into diagnostics and pops it. */
static enum mlagen_status report(struct mlagen_host *host, int status,
                                 struct mlagen_diags *d) {
    struct mlagen_where where = {0};
    if (status == LUA_ERRMEM || host->memory_error) {
        lua_pop(host->L, 1);
        if (!host->capped)
            return mlagen_no_memory(d);
        mlagen_diag(d, MLAGEN_ERROR, where,
                    "templates use more than the limit of %zu bytes of memory",
                    host->limits.memory);
        return MLAGEN_TEMPLATE;
    }
    const char *message = lua_tostring(host->L, -1);
    if (message)
        message = split_position(host->tree, message, &where);
    else
        message = "an error was raised whose value is no text";
    if (!where.file && host->frame_count)
        where = frame_where(host, 0);
    mlagen_diag(d, MLAGEN_ERROR, where, "%s", message);
    for (size_t i = 0; i < host->frame_count; i++)
        if (i || !same_line(where, frame_where(host, i)))
            mlagen_diag(d, MLAGEN_NOTE, frame_where(host, i),
                        "reached from here");
    lua_pop(host->L, 1);
    return MLAGEN_TEMPLATE;
}

/* Runs `body(request)` protected, under the C locale and a fresh budget.
 * The stack is empty before and after, so a host can be used again
 * whatever happened. */
static enum mlagen_status enter(struct mlagen_host *host, lua_CFunction body,
                                void *request, struct mlagen_diags *d) {
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        return mlagen_no_memory(d);
    locale_t caller_locale = uselocale(c_locale);
    host->left = host->limits.instructions;
    host->includes = 0;
    host->frame_count = 0;
    host->memory_error = false;
    lua_settop(host->L, 0);
    lua_pushcfunction(host->L, note_frames);
    lua_pushcfunction(host->L, body);
    lua_pushlightuserdata(host->L, request);
    int status = lua_pcall(host->L, 1, 0, 1);
    enum mlagen_status result =
        status == LUA_OK ? MLAGEN_OK : report(host, status, d);
    lua_settop(host->L, 0);
    uselocale(caller_locale);
    freelocale(c_locale);
    return result;
}

/* ---- the face ------------------------------------------------------------ */

/* Everything about a new state that may raise. */
static int body_setup(lua_State *L) {
    lua_newtable(L);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &mlagen_lua_object);
    mlagen_lua_sandbox(L);
    mlagen_lua_render_setup(L);
    lua_sethook(L, count_instructions, LUA_MASKCOUNT, HOOK_EVERY);
    /* A host lives for one generation, whose garbage is a few MB.  Lua still
     * collects, in one go, before it gives up at the memory cap. */
    lua_gc(L, LUA_GCSTOP);
    return 0;
}

/* Until setup is done only the allocator knows the host. */
enum mlagen_status mlagen_host_new(const struct mlagen_tree *tree,
                                   const struct mlagen_limits *limits,
                                   struct mlagen_host **out,
                                   struct mlagen_diags *d) {
    *out = NULL;
    struct mlagen_host *host = mlagen_calloc(1, sizeof *host);
    if (!host)
        return mlagen_no_memory(d);
    host->tree = tree;
    if (limits)
        host->limits = *limits;
    if (!host->limits.memory)
        host->limits.memory = DEFAULT_MEMORY;
    if (!host->limits.instructions)
        host->limits.instructions = DEFAULT_INSTRUCTIONS;
    host->L = lua_newstate(allocate, host);
    if (!host->L) {
        mlagen_free(host);
        return mlagen_no_memory(d);
    }
    *(struct mlagen_host **)lua_getextraspace(host->L) = host;
    enum mlagen_status status = enter(host, body_setup, NULL, d);
    if (status) {
        mlagen_host_free(host);
        return status;
    }
    *out = host;
    return MLAGEN_OK;
}

void mlagen_host_free(struct mlagen_host *host) {
    if (!host)
        return;
    lua_close(host->L);
    mlagen_free(host);
}

/* What body_call and body_render take and give: a lua_CFunction has no other
 * way in than one light userdata. */
struct call {
    const char *entry;
    json_t *const *args;
    size_t count;
    json_t **result;
};

/* use("main")[entry](args...); the result is converted under the same
 * protection. */
static int body_call(lua_State *L) {
    struct call *call = lua_touserdata(L, 1);
    mlagen_lua_host(L)->want_map = false;
    mlagen_lua_use(L, "main");
    if (lua_type(L, -1) != LUA_TTABLE)
        return luaL_error(L, "templates/main.lua does not return a table");
    lua_pushstring(L, call->entry);
    if (lua_rawget(L, -2) != LUA_TFUNCTION)
        return luaL_error(L, "templates/main.lua has no function '%s'",
                          call->entry);
    luaL_checkstack(L, (int)call->count + 8, NULL);
    for (size_t i = 0; i < call->count; i++) {
        if (call->args[i])
            mlagen_lua_push_json(L, call->args[i]);
        else
            lua_pushnil(L);
    }
    lua_call(L, (int)call->count, 1);
    mlagen_lua_to_json(L, -1, call->entry, call->result);
    return 0;
}

/* What was converted before an error is released here. */
enum mlagen_status mlagen_host_call(struct mlagen_host *host, const char *entry,
                                    json_t *const *args, size_t count,
                                    json_t **result, struct mlagen_diags *d) {
    struct call call = {entry, args, count, result};
    *result = NULL;
    enum mlagen_status status = enter(host, body_call, &call, d);
    if (status) {
        json_decref(*result);
        *result = NULL;
    }
    return status;
}

/* What body_render takes and gives. */
struct render {
    const char *path;
    const json_t *params;
    struct mlagen_buf *out;
    struct mlagen_linemap *map;
};

/* Hands the text and its map over before the state can collect them. */
static int body_render(lua_State *L) {
    struct render *render = lua_touserdata(L, 1);
    mlagen_lua_host(L)->want_map = render->map != NULL;
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &mlagen_lua_maps);
    mlagen_lua_push_json(L, render->params);
    if (!lua_istable(L, -1))
        return luaL_error(L, "the parameters of '%s' are no table",
                          render->path);
    struct lua_rendering *r = mlagen_lua_render(L, render->path, lua_gettop(L));
    mlagen_buf_add(render->out, mlagen_buf_text(&r->out), r->out.len);
    mlagen_buf_free(&r->out);
    if (render->map) {
        *render->map = r->map;
        r->map = (struct mlagen_linemap){0};
    }
    return 0;
}

enum mlagen_status mlagen_host_render(struct mlagen_host *host,
                                      const char *path, const json_t *params,
                                      struct mlagen_buf *out,
                                      struct mlagen_linemap *map,
                                      struct mlagen_diags *d) {
    struct render render = {path, params, out, map};
    if (map)
        *map = (struct mlagen_linemap){0};
    enum mlagen_status status = enter(host, body_render, &render, d);
    if (!status && out->failed)
        return mlagen_no_memory(d);
    return status;
}
