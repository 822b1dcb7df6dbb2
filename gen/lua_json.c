/* SPDX-License-Identifier: Apache-2.0
 *
 * lua_json.c: values across the border between C (jansson) and Lua.
 *
 * Lua has one kind of table where JSON has two, and no null inside tables.
 * `null` is a light userdata of its own; an empty object carries a metatable so
 * that it stays an object on its way back; any other empty table is an array.
 *
 * Converting to JSON may raise at any moment, and a Lua error passes over C
 * frames without unwinding them.  So every new JSON value is attached to its
 * parent, and the outermost to the caller's variable, before its content is
 * filled in: whatever happens, the caller holds the one reference to release.
 */
#include <math.h>
#include <string.h>

#include "lua_internal.h"

const char mlagen_lua_object;
const char mlagen_lua_null;

/* ---- JSON to Lua --------------------------------------------------------- */

/* Keys and values are raw: no metamethod can see the table grow. */
static void push_object(lua_State *L, const json_t *object) {
    size_t size = json_object_size(object);
    lua_createtable(L, 0, (int)size);
    if (size == 0) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_object);
        lua_setmetatable(L, -2);
    }
    json_t *o = (json_t *)object; /* jansson's iterators are not const */
    for (void *i = json_object_iter(o); i; i = json_object_iter_next(o, i)) {
        lua_pushlstring(L, json_object_iter_key(i),
                        json_object_iter_key_len(i));
        mlagen_lua_push_json(L, json_object_iter_value(i));
        lua_rawset(L, -3);
    }
}

/* null items keep their place, unlike nil. */
static void push_array(lua_State *L, const json_t *array) {
    size_t size = json_array_size(array);
    lua_createtable(L, (int)size, 0);
    for (size_t i = 0; i < size; i++) {
        mlagen_lua_push_json(L, json_array_get(array, i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* Recursion is as deep as the value; luaL_checkstack bounds both stacks. */
void mlagen_lua_push_json(lua_State *L, const json_t *value) {
    luaL_checkstack(L, 8, "value nests too deep");
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT:
        push_object(L, value);
        break;
    case JSON_ARRAY:
        push_array(L, value);
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        lua_pushinteger(L, (lua_Integer)json_integer_value(value));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        lua_pushboolean(L, json_is_true(value));
        break;
    case JSON_NULL:
        lua_pushlightuserdata(L, (void *)&mlagen_lua_null);
        break;
    }
}

/* ---- Lua to JSON --------------------------------------------------------- */

/* Where in the value we are, for messages: result.kernels[3].launch */
struct path {
    const struct path *up;
    const char *key; /* NULL: index */
    lua_Integer index;
};

/* From the outermost name inwards, for a message. */
static void push_path(lua_State *L, const struct path *p) {
    if (p->up) {
        push_path(L, p->up);
        if (p->key)
            lua_pushfstring(L, ".%s", p->key);
        else
            lua_pushfstring(L, "[%I]", (LUAI_UACINT)p->index);
        lua_concat(L, 2);
    } else {
        lua_pushstring(L, p->key);
    }
}

/* Raises "<path> <why>"; does not return. */
static void refuse(lua_State *L, const struct path *p, const char *why) {
    push_path(L, p);
    luaL_error(L, "%s %s", lua_tostring(L, -1), why);
}

/* Raises when jansson had no memory; else passes the reference on. */
static json_t *need(lua_State *L, json_t *value) {
    if (!value) {
        mlagen_lua_host(L)->memory_error = true;
        mlagen_lua_host(L)->capped = false;
        luaL_error(L, "not enough memory");
    }
    return value;
}

/* A container with what to attach its children to.  A child is attached while
 * it is still empty, so that an error on the way loses no reference. */
static json_t *attach(lua_State *L, json_t *parent, const struct path *p,
                      json_t *child, json_t **root) {
    need(L, child);
    int bad = 0;
    if (!parent)
        *root = child;
    else if (p->key)
        bad = json_object_set_new_nocheck(parent, p->key, child);
    else
        bad = json_array_append_new(parent, child);
    if (bad)
        need(L, NULL);
    return child;
}

static void convert(lua_State *L, int index, json_t *parent,
                    const struct path *p, json_t **root, int depth);

/* Items by number, 1..n; is_object made sure that there are no others. */
static void convert_array(lua_State *L, int index, json_t *array,
                          const struct path *p, int depth) {
    lua_Integer size = (lua_Integer)lua_rawlen(L, index);
    for (lua_Integer i = 1; i <= size; i++) {
        struct path item = {p, NULL, i};
        lua_rawgeti(L, index, i);
        convert(L, lua_gettop(L), array, &item, NULL, depth);
        lua_pop(L, 1);
    }
}

/* In Lua's order, which differs from run to run: whoever prints an object sorts
 * its keys (json_print.c). */
static void convert_object(lua_State *L, int index, json_t *object,
                           const struct path *p, int depth) {
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        size_t len;
        struct path item = {p, lua_tolstring(L, -2, &len), 0};
        if (strlen(item.key) != len || !mlagen_utf8_valid(item.key, len))
            refuse(L, p, "has a key with a NUL or that is not UTF-8");
        convert(L, lua_gettop(L), object, &item, NULL, depth);
    }
}

/* True when all keys are strings, false when they are 1..n.  An empty table is
 * an array unless it carries the mark of an object that came in empty. */
static bool is_object(lua_State *L, int index, const struct path *p) {
    size_t strings = 0, others = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING)
            strings++;
        else
            others++;
    }
    if (strings && others)
        refuse(L, p, "mixes list items and named fields");
    if (others != lua_rawlen(L, index))
        refuse(L, p, "is a list with holes");
    if (strings || others)
        return strings > 0;
    if (!lua_getmetatable(L, index))
        return false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &mlagen_lua_object);
    bool marked = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return marked;
}

/* Depth also ends a table that holds itself. */
static void convert_table(lua_State *L, int index, json_t *parent,
                          const struct path *p, json_t **root, int depth) {
    if (depth == HOST_JSON_DEPTH)
        refuse(L, p, "nests too deep (or holds itself)");
    if (is_object(L, index, p)) {
        json_t *object = attach(L, parent, p, json_object(), root);
        convert_object(L, index, object, p, depth + 1);
    } else {
        json_t *array = attach(L, parent, p, json_array(), root);
        convert_array(L, index, array, p, depth + 1);
    }
}

/* An integer stays one; JSON has no word for NaN and infinity. */
static json_t *convert_number(lua_State *L, int index, const struct path *p) {
    if (lua_isinteger(L, index))
        return json_integer(lua_tointeger(L, index));
    lua_Number number = lua_tonumber(L, index);
    if (!isfinite(number))
        refuse(L, p, "is not a finite number");
    return json_real(number);
}

/* Converts the value at `index` (absolute) into `parent`, or into *root. */
static void convert(lua_State *L, int index, json_t *parent,
                    const struct path *p, json_t **root, int depth) {
    luaL_checkstack(L, 16, "value nests too deep");
    size_t len;
    const char *text;
    json_t *leaf = NULL;
    switch (lua_type(L, index)) {
    case LUA_TTABLE:
        convert_table(L, index, parent, p, root, depth);
        return;
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &len);
        if (!mlagen_utf8_valid(text, len))
            refuse(L, p, "is a string that is not UTF-8");
        leaf = json_stringn_nocheck(text, len);
        break;
    case LUA_TNUMBER:
        leaf = convert_number(L, index, p);
        break;
    case LUA_TBOOLEAN:
        leaf = json_boolean(lua_toboolean(L, index));
        break;
    case LUA_TNIL:
        leaf = json_null();
        break;
    default:
        if (lua_touserdata(L, index) != &mlagen_lua_null)
            refuse(L, p, "is a function, which is no data");
        leaf = json_null();
    }
    attach(L, parent, p, leaf, root);
}

/* *out is set as soon as there is anything to release. */
void mlagen_lua_to_json(lua_State *L, int index, const char *what,
                        json_t **out) {
    struct path root = {NULL, what, 0};
    *out = NULL;
    convert(L, lua_absindex(L, index), NULL, &root, out, 0);
}
