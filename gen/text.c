/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c: the third stage: templates/main.lua renders every file of the
 * generation in one call.  The provenance that each of them carries (meta) is
 * made here.
 */
#include <string.h>

#include "alloc.h"
#include "context.h"
#include "manifest.h"

/* Appends one word of a command line, quoted for a POSIX shell if need be. */
static void add_word(struct mlagen_buf *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=.,:/@%";

    mlagen_buf_char(out, ' ');
    if (*word && strspn(word, plain) == strlen(word)) {
        mlagen_buf_str(out, word);
        return;
    }
    mlagen_buf_char(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            mlagen_buf_str(out, "'\\''");
        else
            mlagen_buf_char(out, *word);
    }
    mlagen_buf_char(out, '\'');
}

/* The command that makes this generation again, without the folders of this
 * machine: the same for `gen` and `build`, whatever -o, -I and -j were. */
static char *make_command(const struct mlagen *g) {
    struct mlagen_buf out = {0};
    size_t i;
    json_t *setting;

    mlagen_buf_str(&out, "mlagen gen");
    add_word(&out, strcmp(g->spec_name, "<stdin>") == 0 ? "-" : g->spec_name);
    json_array_foreach(g->overrides, i, setting) {
        mlagen_buf_str(&out, " -D");
        add_word(&out, json_string_value(setting));
    }
    if (g->options.symbol_prefix) {
        mlagen_buf_str(&out, " --symbol-prefix");
        add_word(&out, g->options.symbol_prefix);
    }
    if (out.failed)
        mlagen_buf_free(&out);
    return out.data;
}

static json_t *make_meta(const struct mlagen *g) {
    const char *prefix = g->options.symbol_prefix;

    return json_pack("{s:s,s:s,s:s,s:O,s:s,s:s}", "generator",
                     "mlagen " MLAGEN_VERSION, "spec_sha256", g->spec_sha256,
                     "templates_sha256", g->templates_sha256, "overrides",
                     g->overrides, "command", g->command, "symbol_prefix",
                     prefix ? prefix : "");
}

/* The texts that render() returned, {path, text} each, are the generation. */
static enum mlagen_status take_texts(struct mlagen *g, const json_t *list,
                                     struct mlagen_diags *d) {
    enum mlagen_status status = MLAGEN_OK;
    size_t i;
    json_t *file;

    json_array_foreach(list, i, file) {
        const json_t *text = json_object_get(file, "text");

        if (!json_is_string(text)) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){0},
                        "templates/main.lua: render() returned no text for "
                        "'%s'",
                        mlagen_json_text(file, "path"));
            return MLAGEN_TEMPLATE;
        }
        status = mlagen_outputs_add(&g->texts, mlagen_json_text(file, "path"),
                                    json_string_value(text),
                                    json_string_length(text), d);
        if (status != MLAGEN_OK)
            break;
    }
    return status;
}

/* Each plan's source must be among the files: it is what gets compiled. */
static enum mlagen_status check_sources(const struct mlagen *g,
                                        struct mlagen_diags *d) {
    size_t i;
    json_t *plan;

    json_array_foreach(g->plans, i, plan) {
        const char *source = mlagen_json_text(plan, "source");

        if (!mlagen_outputs_find(&g->texts, source)) {
            mlagen_diag(d, MLAGEN_ERROR, (struct mlagen_where){source, 0, 0},
                        "no template makes this source of kernel %s",
                        mlagen_json_text(plan, "symbol"));
            return MLAGEN_TEMPLATE;
        }
    }
    return MLAGEN_OK;
}

static enum mlagen_status call_render(struct mlagen *g,
                                      struct mlagen_diags *d) {
    json_t *meta = make_meta(g), *list = NULL;
    json_t *args[] = {g->spec, g->plans, meta};
    enum mlagen_status status =
        meta ? mlagen_host_call(g->host, "render", args, 3, &list, d)
             : mlagen_no_memory(d);

    if (status == MLAGEN_OK)
        status = take_texts(g, list, d);
    json_decref(list);
    json_decref(meta);
    return status;
}

enum mlagen_status mlagen_render(struct mlagen *g, struct mlagen_diags *d) {
    enum mlagen_status status;

    if (g->texts.count > 0)
        return MLAGEN_OK;
    status = mlagen_plan(g, d);
    if (status == MLAGEN_OK && !g->command) {
        g->command = make_command(g);
        if (!g->command)
            status = mlagen_no_memory(d);
    }
    if (status == MLAGEN_OK)
        status = call_render(g, d);
    if (status == MLAGEN_OK)
        status = check_sources(g, d);
    if (status != MLAGEN_OK)
        mlagen_outputs_free(&g->texts);
    return status;
}
