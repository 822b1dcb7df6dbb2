/* SPDX-License-Identifier: Apache-2.0
 *
 * lua_sandbox.c: the globals that rules, plans and templates see (lua_host.h
 * lists them).
 *
 * Chunks get an empty table as _ENV whose reads go to the base table and whose
 * writes raise, so that no chunk can change what another one sees.  Of Lua's
 * own library only what gives the same answer everywhere is let in: nothing
 * that iterates in hash order, prints an address, asks a clock, or runs when
 * the collector pleases.
 *
 *     _ENV of a chunk   {}        __newindex raises
 *       template only   params    the fields of the parameter table
 *     base              assert, string, use, ...   __index raises
 *
 * Libraries are shown through empty views for the same reason: `string.rep = x`
 * would reach every template.  Methods of strings (s:rep(3)) find the real
 * library, which no name leads to.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lualib.h>

#include "lua_internal.h"

/* Addresses that no other code can have as registry keys; the values do
 * not matter. */
const char mlagen_lua_base;
const char mlagen_lua_env;
const char mlagen_lua_loaded;

/* ---- strictness ---------------------------------------------------------- */

/* __index at the end of every chain of names. */
static int unknown_name(lua_State *L) {
    return luaL_error(L, "unknown name '%s'", luaL_tolstring(L, 2, NULL));
}

/* A typo in an assignment would otherwise make a global that nobody reads. */
int mlagen_lua_no_write(lua_State *L) {
    return luaL_error(L, "assignment to '%s', which is not a local variable",
                      luaL_tolstring(L, 2, NULL));
}

/* __newindex of the library views. */
static int read_only(lua_State *L) {
    return luaL_error(L, "the library is read-only ('%s')",
                      luaL_tolstring(L, 2, NULL));
}

/* __index and __newindex of null: names the field that was asked for. */
static int index_null(lua_State *L) {
    return luaL_error(L, "attempt to index null (field '%s')",
                      luaL_tolstring(L, 2, NULL));
}

/* ---- functions that replace Lua's own ------------------------------------ */

/* True when text made of the value at `index` would be an address. */
static bool prints_address(lua_State *L, int index) {
    switch (lua_type(L, index)) {
    case LUA_TTABLE:
    case LUA_TFUNCTION:
    case LUA_TUSERDATA:
    case LUA_TLIGHTUSERDATA:
    case LUA_TTHREAD:
        if (luaL_getmetafield(L, index, "__tostring") == LUA_TNIL)
            return true;
        lua_pop(L, 1);
    }
    return false;
}

/* tostring; numbers print as Lua prints them, in the C locale. */
static int safe_tostring(lua_State *L) {
    luaL_checkany(L, 1);
    if (prints_address(L, 1))
        return luaL_error(L, "a %s has no text form", luaL_typename(L, 1));
    luaL_tolstring(L, 1, NULL);
    return 1;
}

/* __tostring of null. */
static int null_tostring(lua_State *L) {
    lua_pushliteral(L, "null");
    return 1;
}

/* string.format without %p and without addresses under %s.  Lua's own function,
 * upvalue 1, is called as C so that its errors name the caller's line. */
static int safe_format(lua_State *L) {
    size_t len;
    const char *p = luaL_checklstring(L, 1, &len), *end = p + len;
    while ((p = memchr(p, '%', (size_t)(end - p))) && ++p < end) {
        p += strspn(p, "-+ #0123456789.");
        if (*p == 'p')
            return luaL_error(L, "string.format: %%p prints an address");
        if (p < end)
            p++;
    }
    for (int i = 2; i <= lua_gettop(L); i++)
        if (prints_address(L, i))
            return luaL_error(L, "string.format: argument %d is a %s", i,
                              luaL_typename(L, i));
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* setmetatable without the fields that act when the collector runs: when it
 * does depends on the machine's memory and on Lua's version. */
static int safe_setmetatable(lua_State *L) {
    static const char *const timed[] = {"__gc", "__mode"};
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnoneornil(L, 2) || lua_istable(L, 2), 2,
                     "nil or table");
    for (size_t i = 0; lua_istable(L, 2) && i < 2; i++) {
        lua_pushstring(L, timed[i]);
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L, "%s depends on the collector", timed[i]);
        lua_pop(L, 1);
    }
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

/* pcall that lets a spent budget and a full memory through. */
static int safe_pcall(lua_State *L) {
    struct mlagen_host *host = mlagen_lua_host(L);
    unsigned includes = host->includes;
    luaL_checkany(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
    host->includes = includes;
    if (status == LUA_ERRMEM)
        host->memory_error = true;
    if (status == LUA_OK)
        return lua_gettop(L);
    if (host->memory_error || host->left == 0)
        return lua_error(L);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

/* Pushes line `line` of the text whose chunk is `source`, without the template
 * mark; false when there is no such line. */
static bool push_source_line(lua_State *L, const char *source, int line) {
    const struct mlagen_text *text =
        mlagen_tree_find(mlagen_lua_host(L)->tree, source + 1);
    const char *p = text ? text->data : "", *end = p + (text ? text->size : 0);
    for (; line > 1 && p < end; line--) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        p = newline ? newline + 1 : end;
    }
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    end = newline ? newline : end;
    while (p < end && strchr(" \t@", *p))
        p++;
    lua_pushlstring(L, p, (size_t)(end - p));
    return p < end;
}

/* assert whose message carries the caller's position, and whose default
 * message shows the line. */
static int safe_assert(lua_State *L) {
    luaL_checkany(L, 1);
    if (lua_toboolean(L, 1))
        return lua_gettop(L);
    lua_Debug ar;
    if (lua_isstring(L, 2))
        return luaL_error(L, "%s", lua_tostring(L, 2));
    if (!lua_isnoneornil(L, 2)) {
        lua_settop(L, 2);
        return lua_error(L);
    }
    if (lua_getstack(L, 1, &ar) && lua_getinfo(L, "Sl", &ar) &&
        ar.currentline > 0 && push_source_line(L, ar.source, ar.currentline))
        return luaL_error(L, "assertion failed: %s", lua_tostring(L, -1));
    return luaL_error(L, "assertion failed");
}

/* ---- table.sort, stable -------------------------------------------------- */

/* True when the value at index a belongs before that at b, by `order` (a
 * function's index) or by <; leaves the stack as it was. */
static bool before(lua_State *L, int a, int b, int order) {
    if (!order)
        return lua_compare(L, a, b, LUA_OPLT);
    lua_pushvalue(L, order);
    lua_pushvalue(L, a);
    lua_pushvalue(L, b);
    lua_call(L, 2, 1);
    bool yes = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return yes;
}

/* Merges from[lo, mid) and from[mid, hi) into to[lo, hi), 1-based. */
static void merge(lua_State *L, int from, int to, lua_Integer lo,
                  lua_Integer mid, lua_Integer hi, int order) {
    lua_Integer left = lo, right = mid;
    for (lua_Integer at = lo; at < hi; at++) {
        bool take_right = left == mid;
        if (left < mid && right < hi) {
            lua_rawgeti(L, from, left);
            lua_rawgeti(L, from, right);
            int top = lua_gettop(L);
            take_right = before(L, top, top - 1, order);
            lua_pop(L, 2);
        }
        lua_rawgeti(L, from, take_right ? right++ : left++);
        lua_rawseti(L, to, at);
    }
}

/* table.sort(t, before): bottom-up merge sort.  Lua's own is unstable and picks
 * pivots by the clock, so equal elements could come out in any order. */
static int stable_sort(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    int order = lua_isnoneornil(L, 2) ? 0 : 2;
    if (order)
        luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_Integer size = luaL_len(L, 1);
    lua_createtable(L, 0, 0);
    lua_createtable(L, 0, 0);
    for (lua_Integer i = 1; i <= size; i++) {
        lua_rawgeti(L, 1, i);
        lua_rawseti(L, 3, i);
    }
    int from = 3, to = 4;
    for (lua_Integer run = 1; run < size; run *= 2) {
        for (lua_Integer lo = 1; lo <= size; lo += 2 * run) {
            lua_Integer mid = lo + run, hi = mid + run, end = size + 1;
            merge(L, from, to, lo, mid < end ? mid : end, hi < end ? hi : end,
                  order);
        }
        int other = from;
        from = to;
        to = other;
    }
    for (lua_Integer i = 1; i <= size; i++) {
        lua_rawgeti(L, from, i);
        lua_rawseti(L, 1, i);
    }
    return 0;
}

/* ---- functions of our own ------------------------------------------------ */

/* fail(fmt, ...): an error for the user at the caller's line; upvalue 1 is
 * Lua's string.format. */
static int fail(lua_State *L) {
    safe_format(L);
    return luaL_error(L, "%s", lua_tostring(L, -1));
}

/* f32(x): the fewest digits that strtof (and so any C compiler) reads back as
 * (float)x, with a point or an exponent, and f.  The host runs in the C
 * locale. */
static int f32(lua_State *L) {
    char text[40];
    luaL_checktype(L, 1, LUA_TNUMBER);
    float x = lua_isinteger(L, 1) ? (float)lua_tointeger(L, 1)
                                  : (float)lua_tonumber(L, 1);
    if (!isfinite(x))
        return luaL_error(L, "f32: %s is not a finite float",
                          luaL_tolstring(L, 1, NULL));
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text - 4, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            break;
    }
    strcat(text, strpbrk(text, ".e") ? "f" : ".0f");
    lua_pushstring(L, text);
    return 1;
}

/* Bytewise, shorter first: strcoll would ask the locale. */
static int by_key(const void *a, const void *b) {
    const struct mlagen_piece *x = a, *y = b;
    size_t common = x->len < y->len ? x->len : y->len;
    int order = common ? memcmp(x->text, y->text, common) : 0;
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Appends the string keys of the table at `index`, sorted bytewise, to the
 * array on top, which has `count` items already. */
static void append_string_keys(lua_State *L, int index, size_t strings,
                               lua_Integer count) {
    struct mlagen_piece *names =
        lua_newuserdatauv(L, (strings + 1) * sizeof *names, 0);
    size_t n = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING) {
            names[n].text = lua_tolstring(L, -2, &names[n].len);
            n++;
        }
    if (n)
        qsort(names, n, sizeof *names, by_key);
    for (size_t i = 0; i < n; i++) {
        lua_pushlstring(L, names[i].text, names[i].len);
        lua_rawseti(L, -3, count + (lua_Integer)i + 1);
    }
    lua_pop(L, 1);
}

/* Pushes the sorted array of the keys of the table at `index`.  Lua code sees
 * nothing of the order in which a table is walked. */
static void push_keys(lua_State *L, int index) {
    size_t strings = 0;
    lua_Integer numbers = 0;
    luaL_checkstack(L, 8, NULL);
    lua_createtable(L, 0, 0);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        int type = lua_type(L, -2);
        if (type == LUA_TSTRING)
            strings++;
        else if (type != LUA_TNUMBER)
            luaL_error(L, "keys: a key is a %s", lua_typename(L, type));
        else {
            lua_pushvalue(L, -2);
            lua_rawseti(L, -4, ++numbers);
        }
    }
    if (numbers) {
        lua_pushcfunction(L, stable_sort);
        lua_pushvalue(L, -2);
        lua_call(L, 1, 0);
    }
    append_string_keys(L, index, strings, numbers);
}

/* keys(t) */
static int keys(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    push_keys(L, 1);
    return 1;
}

/* ---- modules ------------------------------------------------------------- */

/* Raises when the main chunk `source` is running already, naming the way from
 * it back to itself. */
static void check_cycle(lua_State *L, const char *source, const char *name) {
    lua_Debug ar;
    luaL_Buffer chain;
    bool found = false;
    for (int level = 0; !found && lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "S", &ar);
        found = !strcmp(ar.what, "main") && !strcmp(ar.source, source);
    }
    if (!found)
        return;
    luaL_buffinit(L, &chain);
    luaL_addstring(&chain, name);
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "S", &ar);
        if (strcmp(ar.what, "main"))
            continue;
        luaL_addstring(&chain, " <- ");
        luaL_addstring(&chain, ar.source + strlen("@templates/"));
        if (!strcmp(ar.source, source))
            break;
    }
    luaL_pushresult(&chain);
    luaL_error(L, "module cycle: %s", lua_tostring(L, -1));
}

/* The chunk is text only ("t"): compiled Lua could break the sandbox. */
void mlagen_lua_use(lua_State *L, const char *name) {
    luaL_checkstack(L, 16, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_loaded);
    if (lua_getfield(L, -1, name) != LUA_TNIL) {
        lua_remove(L, -2);
        return;
    }
    lua_pop(L, 1);
    const char *chunk = lua_pushfstring(L, "@templates/%s.lua", name);
    const struct mlagen_text *text =
        mlagen_tree_find(mlagen_lua_host(L)->tree, chunk + 1);
    if (!text)
        luaL_error(L, "no module '%s' (%s is missing)", name, chunk + 1);
    check_cycle(L, chunk, name);
    if (luaL_loadbufferx(L, text->data, text->size, chunk, "t"))
        lua_error(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_env);
    lua_setupvalue(L, -2, 1);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1))
        luaL_error(L, "module '%s' returns nothing", name);
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, name); /* loaded, chunk name, value, value */
    lua_replace(L, -3);
    lua_pop(L, 1);
}

/* use(name) */
static int use(lua_State *L) {
    mlagen_lua_use(L, luaL_checkstring(L, 1));
    return 1;
}

/* ---- assembly ------------------------------------------------------------ */

/* Sets metatable {__index = value on top (popped), __newindex = write,
 * __metatable = false} on the table at `index`. */
static void seal(lua_State *L, int index, lua_CFunction write) {
    index = lua_absindex(L, index);
    lua_createtable(L, 0, 3);
    lua_insert(L, -2);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, write);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, index);
}

/* Loads a library, takes `banned` out of it and puts a read-only view of it
 * into the table on top. */
static void add_library(lua_State *L, const char *name, lua_CFunction open,
                        const char *const *banned) {
    lua_newtable(L);
    luaL_requiref(L, name, open, 0);
    for (; *banned; banned++) {
        lua_pushnil(L);
        lua_setfield(L, -2, *banned);
    }
    seal(L, -2, read_only);
    lua_setfield(L, -2, name);
}

/* Puts our table.sort and string.format into the real libraries, and fail into
 * the table on top. */
static void patch_libraries(lua_State *L) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, LUA_TABLIBNAME);
    lua_pushcfunction(L, stable_sort);
    lua_setfield(L, -2, "sort");
    lua_getfield(L, -2, LUA_STRLIBNAME);
    lua_getfield(L, -1, "format");
    lua_pushvalue(L, -1);
    lua_pushcclosure(L, fail, 1);
    lua_setfield(L, -6, "fail");
    lua_pushcclosure(L, safe_format, 1);
    lua_setfield(L, -2, "format");
    lua_pop(L, 3);
}

/* io, os, package, coroutine and debug are never opened. */
static void add_libraries(lua_State *L) {
    static const char *const none[] = {NULL};
    static const char *const dump[] = {"dump", NULL};
    static const char *const random[] = {"random", "randomseed", NULL};
    add_library(L, LUA_STRLIBNAME, luaopen_string, dump);
    add_library(L, LUA_MATHLIBNAME, luaopen_math, random);
    add_library(L, LUA_TABLIBNAME, luaopen_table, none);
    add_library(L, LUA_UTF8LIBNAME, luaopen_utf8, none);
    patch_libraries(L);
}

/* Copies the functions of Lua's base library that are let in, then ours. */
static void add_functions(lua_State *L) {
    static const char *const let_in[] = {"error",    "ipairs", "select",
                                         "tonumber", "type",   "getmetatable",
                                         "rawget",   "rawlen", "rawequal"};
    static const luaL_Reg ours[] = {{"assert", safe_assert},
                                    {"tostring", safe_tostring},
                                    {"pcall", safe_pcall},
                                    {"setmetatable", safe_setmetatable},
                                    {"use", use},
                                    {"keys", keys},
                                    {"f32", f32},
                                    {NULL, NULL}};
    luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
    for (size_t i = 0; i < sizeof let_in / sizeof *let_in; i++) {
        lua_getfield(L, -1, let_in[i]);
        lua_setfield(L, -3, let_in[i]);
    }
    lua_pop(L, 1);
    luaL_setfuncs(L, ours, 0);
}

/* Gives `null` a text and an error of its own, and hides what strings share.
 * All light userdata have one metatable; null is the only one that Lua code
 * ever sees. */
static void add_metatables(lua_State *L) {
    lua_pushlightuserdata(L, (void *)&mlagen_lua_null);
    lua_pushcfunction(L, index_null);
    seal(L, -2, index_null);
    lua_getmetatable(L, -1);
    lua_pushcfunction(L, null_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    lua_setfield(L, -2, "null");
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

/* The base table stays unnamed: chunks reach it through their _ENV only. */
void mlagen_lua_sandbox(lua_State *L) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &mlagen_lua_base);
    add_libraries(L);
    add_functions(L);
    add_metatables(L);
    lua_newtable(L);
    lua_pushvalue(L, -2);
    seal(L, -2, mlagen_lua_no_write);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &mlagen_lua_env);
    lua_pushcfunction(L, unknown_name);
    seal(L, -2, mlagen_lua_no_write);
    lua_pop(L, 1);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &mlagen_lua_loaded);
}
