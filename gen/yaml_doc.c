/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml_doc.c: see yaml_doc.h.
 *
 * libyaml delivers events; a builder keeps the stack of open lists and maps and
 * hangs finished nodes into them.  Nodes live in an arena that is freed whole,
 * so no path through an error has to take a half-built tree apart.
 *
 * The limits are here to bound time and memory for any input.  libyaml's own
 * work grows with the square of the nesting, but it reads at most 1024 bytes
 * ahead of the event it delivers, so that stopping at the event of level
 * MLAGEN_YAML_DEPTH + 1 stops it early.  Aliases are refused before they are
 * followed: nothing can grow beyond the text that was written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "alloc.h"
#include "source.h"
#include "surrogates.h"
#include "yaml_internal.h"

/* ---- arena --------------------------------------------------------------- */

/* A block of the arena, newest first. */
struct mlagen_chunk {
    struct mlagen_chunk *next;
    size_t used, size;
    max_align_t bytes[];
};

/* Aligned for anything; a request larger than a chunk gets one of its own. */
void *mlagen_arena_get(struct mlagen_doc *doc, size_t size) {
    size = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    struct mlagen_chunk *c = doc->chunks;
    if (!c || c->size - c->used < size) {
        size_t room = size > 8192 ? size : 8192;
        c = mlagen_realloc(NULL, sizeof *c + room);
        if (!c)
            return NULL;
        *c = (struct mlagen_chunk){doc->chunks, 0, room};
        doc->chunks = c;
    }
    void *p = (char *)c->bytes + c->used;
    c->used += size;
    return p;
}

/* A copy with a NUL behind it. */
const char *mlagen_arena_text(struct mlagen_doc *doc, const char *text,
                              size_t len) {
    char *copy = mlagen_arena_get(doc, len + 1);
    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

/* Nodes and texts go with the chunks that hold them. */
void mlagen_doc_free(struct mlagen_doc *doc) {
    if (!doc)
        return;
    for (struct mlagen_chunk *c = doc->chunks, *next; c; c = next) {
        next = c->next;
        mlagen_free(c);
    }
    mlagen_free(doc);
}

/* ---- building ------------------------------------------------------------ */

/* One run over one text.  `open` is the way from the root to where the next
 * value belongs. */
struct builder {
    struct mlagen_doc *doc;
    struct mlagen_diags *d;
    const char *file; /* in the arena */
    struct mlagen_node *open[MLAGEN_YAML_DEPTH];
    size_t depth;
    struct mlagen_node *root;
    /* the key read last in the innermost map, NULL when a key comes next */
    const char *key;
    struct mlagen_where key_where;
};

static enum mlagen_status
refuse(struct mlagen_diags *d, struct mlagen_where where, const char *message) {
    mlagen_diag(d, MLAGEN_ERROR, where, "%s", message);
    return MLAGEN_SPEC;
}

/* libyaml counts from 0, editors from 1. */
static struct mlagen_where mark_where(const char *file, yaml_mark_t mark) {
    return (struct mlagen_where){file, (unsigned)mark.line + 1,
                                 (unsigned)mark.column + 1};
}

void mlagen_node_append(struct mlagen_node *parent, struct mlagen_node *child) {
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

/* True when the next scalar is a key of the innermost map. */
static bool expects_key(const struct builder *b) {
    return b->depth && b->open[b->depth - 1]->kind == MLAGEN_MAP && !b->key;
}

/* Makes a node and hangs it where the next value belongs.  It takes the key
 * that was read last, so the next scalar of a map is a key again. */
static enum mlagen_status add_node(struct builder *b,
                                   enum mlagen_node_kind kind,
                                   struct mlagen_where where,
                                   struct mlagen_node **out) {
    if (expects_key(b))
        return refuse(b->d, where, "a key must be a scalar");
    if (b->doc->nodes++ == MLAGEN_YAML_NODES)
        return refuse(b->d, where, "too many values in one file");
    struct mlagen_node *node = mlagen_arena_get(b->doc, sizeof *node);
    if (!node)
        return mlagen_no_memory(b->d);
    *node = (struct mlagen_node){
        .kind = kind, .where = where, .key = b->key, .key_where = b->key_where};
    b->key = NULL;
    if (b->depth)
        mlagen_node_append(b->open[b->depth - 1], node);
    else
        b->root = node;
    *out = node;
    return MLAGEN_OK;
}

/* Begins a list or a map; values go into it until close_node. */
static enum mlagen_status open_node(struct builder *b,
                                    enum mlagen_node_kind kind,
                                    struct mlagen_where where) {
    if (b->depth == MLAGEN_YAML_DEPTH) {
        mlagen_diag(b->d, MLAGEN_ERROR, where, "values nest deeper than %d",
                    MLAGEN_YAML_DEPTH);
        return MLAGEN_SPEC;
    }
    struct mlagen_node *node;
    enum mlagen_status status = add_node(b, kind, where, &node);
    if (!status)
        b->open[b->depth++] = node;
    return status;
}

/* A scalar is the next key or the next value, by where it stands. */
static enum mlagen_status add_scalar(struct builder *b, const yaml_event_t *e,
                                     struct mlagen_where where) {
    const char *value = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    if (expects_key(b) && strlen(value) != len)
        return refuse(b->d, where, "a key holds a NUL character");
    bool is_key = expects_key(b);
    const char *text = mlagen_arena_text(b->doc, value, len);
    if (!text)
        return mlagen_no_memory(b->d);
    if (is_key) {
        b->key = text;
        b->key_where = where;
        return MLAGEN_OK;
    }
    struct mlagen_node *node;
    enum mlagen_status status = add_node(b, MLAGEN_SCALAR, where, &node);
    if (status)
        return status;
    node->text = text;
    node->len = len;
    node->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return MLAGEN_OK;
}

/* Order by key, then by place, so that the first of two is the one written
 * first. */
static int by_key(const void *a, const void *b) {
    const struct mlagen_node *x = *(struct mlagen_node *const *)a;
    const struct mlagen_node *y = *(struct mlagen_node *const *)b;
    int order = strcmp(x->key, y->key);
    if (order)
        return order;
    if (x->key_where.line != y->key_where.line)
        return x->key_where.line < y->key_where.line ? -1 : 1;
    return (x->key_where.col > y->key_where.col) -
           (x->key_where.col < y->key_where.col);
}

/* Reports the first key, by name, that a finished map has twice. */
static enum mlagen_status check_duplicates(struct builder *b,
                                           const struct mlagen_node *map) {
    struct mlagen_node **sorted =
        mlagen_realloc(NULL, (map->count + 1) * sizeof(struct mlagen_node *));
    if (!sorted)
        return mlagen_no_memory(b->d);
    size_t n = 0;
    for (struct mlagen_node *c = map->first; c; c = c->next)
        sorted[n++] = c;
    qsort(sorted, n, sizeof *sorted, by_key);
    enum mlagen_status status = MLAGEN_OK;
    for (size_t i = 1; i < n && !status; i++)
        if (!strcmp(sorted[i - 1]->key, sorted[i]->key)) {
            mlagen_diag(b->d, MLAGEN_ERROR, sorted[i]->key_where,
                        "key '%s' is given twice; the first is at line %u",
                        sorted[i]->key, sorted[i - 1]->key_where.line);
            status = MLAGEN_SPEC;
        }
    mlagen_free(sorted);
    return status;
}

/* Ends the innermost list or map. */
static enum mlagen_status close_node(struct builder *b) {
    const struct mlagen_node *node = b->open[--b->depth];
    return node->kind == MLAGEN_MAP ? check_duplicates(b, node) : MLAGEN_OK;
}

/* ---- events -------------------------------------------------------------- */

/* Anchors could only serve aliases, and tags would type what the schema types.
 */
static enum mlagen_status check_properties(struct builder *b,
                                           struct mlagen_where where,
                                           const yaml_char_t *anchor,
                                           const yaml_char_t *tag) {
    if (anchor)
        return refuse(b->d, where, "anchors are not allowed");
    if (tag)
        return refuse(b->d, where, "tags are not allowed");
    return MLAGEN_OK;
}

/* One event of the parser; those without content need no action. */
static enum mlagen_status take_event(struct builder *b, const yaml_event_t *e) {
    struct mlagen_where where = mark_where(b->file, e->start_mark);
    enum mlagen_status status;
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return b->root ? refuse(b->d, where, "a second document begins here")
                       : MLAGEN_OK;
    case YAML_ALIAS_EVENT:
        return refuse(b->d, where, "aliases are not allowed");
    case YAML_SCALAR_EVENT:
        status = check_properties(b, where, e->data.scalar.anchor,
                                  e->data.scalar.tag);
        return status ? status : add_scalar(b, e, where);
    case YAML_SEQUENCE_START_EVENT:
        status = check_properties(b, where, e->data.sequence_start.anchor,
                                  e->data.sequence_start.tag);
        return status ? status : open_node(b, MLAGEN_LIST, where);
    case YAML_MAPPING_START_EVENT:
        status = check_properties(b, where, e->data.mapping_start.anchor,
                                  e->data.mapping_start.tag);
        return status ? status : open_node(b, MLAGEN_MAP, where);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_node(b);
    default:
        return MLAGEN_OK;
    }
}

/* Line and column of byte `offset`, columns counted in characters: libyaml's
 * reader gives a byte, and its marks count characters. */
static struct mlagen_where offset_where(const char *file, const char *text,
                                        size_t len, size_t offset) {
    struct mlagen_where where = {file, 1, 1};
    for (size_t i = 0; i < offset && i < len; i++) {
        if (text[i] == '\n') {
            where.line++;
            where.col = 1;
        } else if ((text[i] & 0xC0) != 0x80) {
            where.col++;
        }
    }
    return where;
}

/* Words the parser's failure: libyaml says what it was doing and what was
 * wrong. */
static enum mlagen_status parser_error(struct builder *b,
                                       const yaml_parser_t *p, const char *text,
                                       size_t len) {
    if (p->error == YAML_MEMORY_ERROR)
        return mlagen_no_memory(b->d);
    const char *problem = p->problem ? p->problem : "malformed YAML";
    if (p->error == YAML_READER_ERROR) {
        mlagen_diag(b->d, MLAGEN_ERROR,
                    offset_where(b->file, text, len, p->problem_offset),
                    "not UTF-8 text: %s", problem);
        return MLAGEN_SPEC;
    }
    /* At the end of a text without a last newline libyaml is one line on. */
    struct mlagen_where where = mark_where(b->file, p->problem_mark);
    struct mlagen_where end = offset_where(b->file, text, len, len);
    if (where.line > end.line)
        where = end;
    char begun[48] = "";
    if (p->context && p->context_mark.line + 1 < where.line)
        snprintf(begun, sizeof begun, " begun at line %zu",
                 p->context_mark.line + 1);
    mlagen_diag(b->d, MLAGEN_ERROR, where, "%s%s%s%s",
                p->context ? p->context : "", begun, p->context ? ": " : "",
                problem);
    return MLAGEN_SPEC;
}

/* Takes events until the stream ends or something is refused. */
static enum mlagen_status run_events(struct builder *b, yaml_parser_t *parser,
                                     const char *text, size_t len) {
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return parser_error(b, parser, text, len);
        more = event.type != YAML_STREAM_END_EVENT;
        enum mlagen_status status = take_event(b, &event);
        yaml_event_delete(&event);
        if (status)
            return status;
    }
    if (b->root)
        return MLAGEN_OK;
    return refuse(b->d, (struct mlagen_where){b->file, 1, 1},
                  "there is nothing in it");
}

enum mlagen_status mlagen_yaml_build(struct mlagen_doc *doc, const char *text,
                                     size_t len, const char *file,
                                     struct mlagen_node **root,
                                     struct mlagen_diags *d) {
    struct builder b = {.doc = doc, .d = d};
    yaml_parser_t parser;
    b.file = mlagen_arena_text(doc, file, strlen(file));
    if (!b.file || !yaml_parser_initialize(&parser))
        return mlagen_no_memory(d);
    /* Named, so that a UTF-16 mark is an error and not another encoding; the
     * mark of UTF-8 would count as a column. */
    if (len >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) {
        text += 3;
        len -= 3;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const yaml_char_t *)text, len);
    enum mlagen_status status = run_events(&b, &parser, text, len);
    yaml_parser_delete(&parser);
    *root = b.root;
    return status;
}

/* mlagen_yaml_build(), after the escapes that only JSON has were rewritten.
 * Columns behind such an escape on its line may then be off. */
static enum mlagen_status build_any(struct mlagen_doc *doc, const char *text,
                                    size_t len, const char *file,
                                    struct mlagen_diags *d) {
    if (!mlagen_has_surrogates(text, len))
        return mlagen_yaml_build(doc, text, len, file, &doc->root, d);
    struct mlagen_buf joined = {0};
    mlagen_join_surrogates(text, len, &joined);
    enum mlagen_status status =
        joined.failed ? mlagen_no_memory(d)
                      : mlagen_yaml_build(doc, joined.data, joined.len, file,
                                          &doc->root, d);
    mlagen_buf_free(&joined);
    return status;
}

enum mlagen_status mlagen_yaml_parse(const char *text, size_t len,
                                     const char *file, struct mlagen_doc **out,
                                     struct mlagen_diags *d) {
    *out = NULL;
    if (len > MLAGEN_YAML_BYTES)
        return refuse(d, (struct mlagen_where){file, 1, 1},
                      "the file is larger than 8 MiB");
    struct mlagen_doc *doc = mlagen_calloc(1, sizeof *doc);
    if (!doc)
        return mlagen_no_memory(d);
    enum mlagen_status status = build_any(doc, text, len, file, d);
    if (status) {
        mlagen_doc_free(doc);
        return status;
    }
    *out = doc;
    return MLAGEN_OK;
}

/* The text is freed at once: nodes hold copies of what they need. */
enum mlagen_status mlagen_yaml_read(const char *path, struct mlagen_doc **doc,
                                    struct mlagen_diags *d) {
    struct mlagen_buf text = {0};
    *doc = NULL;
    enum mlagen_status status =
        mlagen_read_file(path, MLAGEN_YAML_BYTES, &text, d);
    if (!status)
        status =
            mlagen_yaml_parse(mlagen_buf_text(&text), text.len,
                              strcmp(path, "-") ? path : "<stdin>", doc, d);
    mlagen_buf_free(&text);
    return status;
}
