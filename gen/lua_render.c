/* SPDX-License-Identifier: Apache-2.0
 *
 * lua_render.c: runs compiled templates (template.h) inside the sandbox.
 *
 * A template's chunk is loaded once and called with two arguments: a fresh
 * environment that shows the parameters over the sandbox's globals, and __emit
 * bound to this rendering.  include() renders into a text of its own, so a
 * fragment is a value like any other; when line origins are wanted, the map of
 * each included text is kept beside it and woven into the map of the text that
 * takes it in.
 */
#include <stdio.h>
#include <string.h>

#include "lua_internal.h"

const char mlagen_lua_cache;
const char mlagen_lua_maps;

/* Names of the metatables whose __gc frees what the C side allocated. */
#define RENDERING "mlagen.rendering"
#define TEMPLATE "mlagen.template"
#define MAX_VALUES 250 /* Lua itself allows fewer arguments than 255 */

/* __gc of a rendering; an error may have left its text behind. */
static int free_rendering(lua_State *L) {
    struct lua_rendering *r = lua_touserdata(L, 1);
    mlagen_buf_free(&r->out);
    mlagen_linemap_free(&r->map);
    return 0;
}

/* __gc of a compiled template. */
static int free_template(lua_State *L) {
    struct mlagen_template **t = lua_touserdata(L, 1);
    mlagen_template_free(*t);
    *t = NULL;
    return 0;
}

/* Raises for memory that the C side could not get. */
static void no_memory(lua_State *L) {
    mlagen_lua_host(L)->memory_error = true;
    mlagen_lua_host(L)->capped = false;
    luaL_error(L, "not enough memory");
}

/* How a line of text reaches the output: its Lua line calls __emit with the
 * line's number and the values; emit() checks them and hands them to
 * mlagen_template_put, which has the text between them. */

/* ---- __emit -------------------------------------------------------------- */

/* Raises for the value at `arg` of expression `piece`, in the author's own
 * words: the expression, and what to write instead where there is something. */
static void bad_value(lua_State *L, int arg, const struct mlagen_piece *piece) {
    lua_pushlstring(L, piece->text, piece->len);
    const char *expression = lua_tostring(L, -1);
    if (lua_type(L, arg) == LUA_TNUMBER)
        luaL_error(L,
                   "${%s} is a float (%s): use // for integers, f32() for a "
                   "float literal",
                   expression, luaL_tolstring(L, arg, NULL));
    luaL_error(L, "${%s} is a %s: only strings and integers become text",
               expression,
               lua_islightuserdata(L, arg) ? "null" : luaL_typename(L, arg));
}

/* The origins of an included text, or NULL.  Found by the text itself: equal
 * strings are one value in Lua, and a map fits any text that is equal. */
static const struct mlagen_linemap *map_of(lua_State *L, int arg) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_maps);
    lua_pushvalue(L, arg);
    lua_rawget(L, -2);
    struct lua_rendering *r = lua_touserdata(L, -1);
    lua_pop(L, 2);
    return r ? &r->map : NULL;
}

/* The value at `arg` as text; an integer's digits go to `room`. */
static struct mlagen_value take_value(lua_State *L, int arg,
                                      const struct mlagen_piece *piece,
                                      char room[MLAGEN_DIGITS]) {
    struct mlagen_value v = {0};
    if (lua_isinteger(L, arg)) {
        v.text = mlagen_digits(lua_tointeger(L, arg), room, &v.len);
        return v;
    }
    if (lua_type(L, arg) != LUA_TSTRING)
        bad_value(L, arg, piece);
    v.text = lua_tolstring(L, arg, &v.len);
    v.map = mlagen_lua_host(L)->want_map ? map_of(L, arg) : NULL;
    return v;
}

/* __emit(line, value, ...): upvalues are the template and the rendering. */
static int emit(lua_State *L) {
    struct mlagen_template **t = lua_touserdata(L, lua_upvalueindex(1));
    struct lua_rendering *r = lua_touserdata(L, lua_upvalueindex(2));
    struct mlagen_host *host = mlagen_lua_host(L);
    struct mlagen_value values[MAX_VALUES];
    char digits[MAX_VALUES][MLAGEN_DIGITS];
    size_t number = (size_t)luaL_checkinteger(L, 1);
    if (number == 0 || number > (*t)->count || !(*t)->lines[number - 1].pieces)
        return luaL_error(L, "__emit belongs to the template engine");
    const struct mlagen_line *line = &(*t)->lines[number - 1];
    if (line->values > MAX_VALUES || line->values + 1 != (size_t)lua_gettop(L))
        return luaL_error(L, "more than %d ${} in one line", MAX_VALUES);
    for (size_t i = 0; i < line->values; i++)
        values[i] =
            take_value(L, (int)i + 2, &line->pieces[2 * i + 1], digits[i]);
    if (!mlagen_template_put(*t, number, values, &r->out,
                             host->want_map ? &r->map : NULL))
        no_memory(L);
    if (r->out.len > host->limits.memory)
        return luaL_error(L, "the text grows beyond %I bytes",
                          (LUAI_UACINT)host->limits.memory);
    return 0;
}

/* ---- templates ----------------------------------------------------------- */

/* Compiles and loads template `path`; pushes {chunk, template userdata}. */
static void load_template(lua_State *L, const char *path) {
    struct mlagen_diags d = {0};
    const char *chunk = lua_pushfstring(L, "@templates/%s", path);
    const struct mlagen_text *text =
        mlagen_tree_find(mlagen_lua_host(L)->tree, chunk + 1);
    if (!text)
        luaL_error(L, "no template '%s' (%s is missing)", path, chunk + 1);
    lua_createtable(L, 2, 0);
    struct mlagen_template **t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = NULL;
    luaL_setmetatable(L, TEMPLATE);
    enum mlagen_status status =
        mlagen_template_compile(text->data, text->size, chunk + 1, t, &d);
    if (status) {
        char message[160] = "not enough memory", place[40] = "";
        if (status == MLAGEN_TEMPLATE && d.count) {
            snprintf(place, sizeof place, ":%u:%u", d.items->where.line,
                     d.items->where.col);
            snprintf(message, sizeof message, "%s", d.items->message);
        }
        mlagen_diags_free(&d);
        if (status == MLAGEN_INTERNAL)
            no_memory(L);
        lua_pushfstring(L, "%s%s: %s", chunk + 1, place, message);
        lua_error(L);
    }
    lua_rawseti(L, -2, 2);
    if (luaL_loadbufferx(L, (*t)->lua.data, (*t)->lua.len, chunk, "t"))
        lua_error(L);
    lua_rawseti(L, -2, 1);
    lua_replace(L, -2);
}

/* Pushes chunk and userdata of template `path`, from the cache if possible. */
static void push_template(lua_State *L, const char *path) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_cache);
    if (lua_getfield(L, -1, path) == LUA_TNIL) {
        lua_pop(L, 1);
        load_template(L, path);
        lua_pushvalue(L, -1);
        lua_setfield(L, -3, path);
    }
    lua_replace(L, -2);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    lua_remove(L, -3);
}

/* Copies the parameters into a new table and pushes it.  A copy, because the
 * caller's table gets no metatable and may change while the template runs; a
 * name that would hide a built-in is refused, as it would change what the rest
 * of the template means. */
static void copy_params(lua_State *L, int params) {
    lua_newtable(L);
    if (!params)
        return;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_base);
    for (lua_pushnil(L); lua_next(L, params);) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "a template parameter's name is a %s",
                       luaL_typename(L, -2));
        lua_pushvalue(L, -2);
        if (lua_rawget(L, -4) != LUA_TNIL)
            luaL_error(L, "parameter '%s' hides the built-in of that name",
                       lua_tostring(L, -3));
        lua_pop(L, 1);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -5); /* copy, base, key | key, value */
    }
    lua_pop(L, 1);
}

/* Pushes the environment of one rendering: nothing of its own, the parameters
 * behind it, the sandbox's globals behind those. */
static void push_environment(lua_State *L, int params) {
    lua_newtable(L);
    lua_createtable(L, 0, 3);
    copy_params(L, params);
    lua_createtable(L, 0, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_base);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, mlagen_lua_no_write);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}

/* The userdata stays on the stack, so that the result outlives the call. */
struct lua_rendering *mlagen_lua_render(lua_State *L, const char *path,
                                        int params) {
    luaL_checkstack(L, 24, NULL);
    struct mlagen_host *host = mlagen_lua_host(L);
    if (host->includes == HOST_INCLUDES)
        luaL_error(L, "includes nest deeper than %d", HOST_INCLUDES);
    struct lua_rendering *r = lua_newuserdatauv(L, sizeof *r, 0);
    *r = (struct lua_rendering){0};
    luaL_setmetatable(L, RENDERING);
    int rendering = lua_gettop(L);
    push_template(L, path); /* chunk, userdata */
    push_environment(L, params);
    lua_insert(L, -2); /* chunk, environment, userdata */
    lua_pushvalue(L, rendering);
    lua_pushcclosure(L, emit, 2);
    host->includes++;
    lua_call(L, 2, 0);
    host->includes--;
    return r;
}

/* include(path, params): the rendered text without its last newline, as the
 * line that takes it in has one. */
static int include(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    bool none = lua_isnoneornil(L, 2);
    if (!none)
        luaL_checktype(L, 2, LUA_TTABLE);
    struct lua_rendering *r = mlagen_lua_render(L, path, none ? 0 : 2);
    size_t len = r->out.len;
    lua_pushlstring(L, mlagen_buf_text(&r->out), len ? len - 1 : 0);
    if (mlagen_lua_host(L)->want_map) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_maps);
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -4);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
    mlagen_buf_free(&r->out);
    return 1;
}

/* Registers a metatable with nothing but __gc. */
static void add_collector(lua_State *L, const char *name, lua_CFunction gc) {
    luaL_newmetatable(L, name);
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}

/* Comes after the sandbox, to whose base table include is added. */
void mlagen_lua_render_setup(lua_State *L) {
    add_collector(L, RENDERING, free_rendering);
    add_collector(L, TEMPLATE, free_template);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &mlagen_lua_cache);
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &mlagen_lua_maps);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_base);
    lua_pushliteral(L, "include");
    lua_pushcfunction(L, include);
    lua_rawset(L, -3); /* the base table is sealed already */
    lua_pop(L, 1);
}
