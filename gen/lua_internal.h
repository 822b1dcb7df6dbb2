/* SPDX-License-Identifier: Apache-2.0
 *
 * lua_internal.h: what the files lua_*.c share; nobody else includes it.
 *
 *   lua_host.c     the state, its limits, protected calls, errors to diags
 *   lua_sandbox.c  the globals that Lua code sees
 *   lua_render.c   include, __emit, templates
 *   lua_json.c     values across the border
 *
 * Every function here that takes a lua_State may raise a Lua error, and must
 * therefore run under mlagen_host's one protected call; memory that such a
 * function owns across a possible error lives in userdata with a __gc.
 */
#ifndef MLAGEN_LUA_INTERNAL_H
#define MLAGEN_LUA_INTERNAL_H

#include <lauxlib.h>
#include <lua.h>

#include "lua_host.h"

#define HOST_FRAMES 8      /* notes shown below an error */
#define HOST_INCLUDES 32   /* include() inside include() */
#define HOST_JSON_DEPTH 64 /* nesting of values across the border */

/* A place in Lua code, copied out of the state. */
struct host_frame {
    char source[160];
    unsigned line;
};

struct mlagen_host {
    const struct mlagen_tree *tree;
    lua_State *L;
    struct mlagen_limits limits;
    size_t memory;           /* bytes the state holds now */
    bool capped;             /* the last refused request hit the cap */
    bool memory_error;       /* a memory error passed through pcall */
    unsigned long long left; /* instructions of the call at hand */
    unsigned includes;       /* depth of include() */
    bool want_map;           /* the rendering at hand records origins */
    struct host_frame frames[HOST_FRAMES]; /* of the last error */
    size_t frame_count;
};

/* Registry keys (the addresses matter). */
extern const char mlagen_lua_base;   /* table of the sandbox's globals */
extern const char mlagen_lua_env;    /* _ENV of modules */
extern const char mlagen_lua_loaded; /* use(): module name -> value */
extern const char mlagen_lua_cache;  /* template path -> {function, userdata} */
extern const char mlagen_lua_maps;   /* rendered text -> its line map */
extern const char mlagen_lua_object; /* metatable of an empty JSON object */
extern const char mlagen_lua_null;   /* its address is `null` */

struct mlagen_host *mlagen_lua_host(lua_State *L);

/* lua_sandbox.c: fills the registry's base and env tables. */
void mlagen_lua_sandbox(lua_State *L);
/* Pushes the value of module `name`, loading it if needed. */
void mlagen_lua_use(lua_State *L, const char *name);
/* __newindex of every environment: raises. */
int mlagen_lua_no_write(lua_State *L);

/* lua_render.c: registers include; renders "kernel/x.cu.tpl" with the table at
 * `params` (an absolute index, or 0 for none) and pushes a userdata that holds
 * the result until it is collected. */
struct lua_rendering {
    struct mlagen_buf out;
    struct mlagen_linemap map;
};
void mlagen_lua_render_setup(lua_State *L);
struct lua_rendering *mlagen_lua_render(lua_State *L, const char *path,
                                        int params);

/* lua_json.c: pushes a value; builds *out (released by the caller, also after
 * an error) from the value at `index`, which errors call `what`. */
void mlagen_lua_push_json(lua_State *L, const json_t *value);
void mlagen_lua_to_json(lua_State *L, int index, const char *what,
                        json_t **out);

#endif
