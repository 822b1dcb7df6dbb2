/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c: see args.h.  Short flags take their value glued or as the next word
 * (-j4, -j 4), long ones after "=" or as the next word; "--" ends the flags;
 * flags may stand before and after the operand.
 */
#include "args.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "schema_internal.h"

/* Verbs as bits: a flag lists those that take it. */
#define BIT(verb) (1u << MLAGEN_VERB_##verb)

enum {
    ALL = (1u << MLAGEN_VERBS) - 1,
    SPEC_VERBS = BIT(CHECK) | BIT(PLAN) | BIT(GEN) | BIT(BUILD),
    OUT_VERBS = BIT(GEN) | BIT(BUILD),
    TREE_VERBS = SPEC_VERBS | BIT(IMPORT) | BIT(VERIFY) | BIT(LIST) |
                 BIT(ENV) | BIT(EXPLAIN)
};

/* What may follow a verb besides flags: nothing, one word, the name of a verb,
 * or anything, which is then another program's to read. */
enum operand { NO_OPERAND, ONE_OPERAND, VERB_OPERAND, ALL_OPERANDS };

static const struct verb {
    const char *name;
    enum operand operand;
    const char *usage; /* what follows the name */
    const char *does;  /* one line */
} verbs[MLAGEN_VERBS] = {
    [MLAGEN_VERB_IMPORT] = {"import", ONE_OPERAND, "CONFIG.json",
                            "turn a Hugging Face config into a spec"},
    [MLAGEN_VERB_CHECK] = {"check", ONE_OPERAND, "SPEC", "validate a spec"},
    [MLAGEN_VERB_PLAN] = {"plan", ONE_OPERAND, "SPEC",
                          "print the plan of every kernel and the analysis"},
    [MLAGEN_VERB_GEN] = {"gen", ONE_OPERAND, "SPEC",
                         "write sources, header and manifest"},
    [MLAGEN_VERB_BUILD] = {"build", ONE_OPERAND, "SPEC",
                           "gen, and compile a cubin of every kernel"},
    [MLAGEN_VERB_VERIFY] = {"verify", ONE_OPERAND, "DIR",
                            "find edited, missing and extra files"},
    [MLAGEN_VERB_BUNDLE] = {"bundle", ONE_OPERAND, "DIR",
                            "put all kernels into one .cu and one .h"},
    [MLAGEN_VERB_EXPLAIN] = {"explain", ONE_OPERAND, "FILE:LINE",
                             "find the template that made a line"},
    [MLAGEN_VERB_RUN_CHECK] = {"run-check", ALL_OPERANDS, "DIR [ARGS]",
                               "run every kernel against the fp64 reference"},
    [MLAGEN_VERB_LIST] = {"list", NO_OPERAND, "",
                          "list built-in specs, families, archs, dtypes"},
    [MLAGEN_VERB_ENV] = {"env", NO_OPERAND, "",
                         "show versions, compiler and device"},
    [MLAGEN_VERB_HELP] = {"help", VERB_OPERAND, "[VERB]",
                          "explain a verb, or list them"},
    [MLAGEN_VERB_VERSION] = {"version", NO_OPERAND, "", "print the version"},
};

/* How a flag's value is read, and with it the type of its field: bool, text,
 * list of texts, unsigned, and bool for json. */
enum kind { SWITCH, TEXT, LIST, NUMBER, COUNT, FORMAT };

#define FIELD(f) offsetof(struct mlagen_args, f)

static const struct flag {
    const char *name;
    enum kind kind;
    size_t field;
    unsigned verbs;
    const char *value; /* what the help calls it; NULL for a switch */
    const char *does;
} flags[] = {
    {"-o", TEXT, FIELD(out), OUT_VERBS, "DIR",
     "output folder (default out/MODEL)"},
    {"-o", TEXT, FIELD(out), BIT(BUNDLE), "NAME",
     "write NAME.cu and NAME.h (default: the model's name)"},
    {"--cubins", SWITCH, FIELD(cubins), BIT(BUNDLE), NULL,
     "the cubins too, as C arrays"},
    {"--ptx", SWITCH, FIELD(ptx), BIT(BUNDLE), NULL,
     "PTX too, compiled now, as C arrays"},
    {"--sources", SWITCH, FIELD(sources), BIT(BUNDLE), NULL,
     "the sources too, as C arrays"},
    {"--arch", TEXT, FIELD(archs), SPEC_VERBS, "A,B",
     "architectures in place of the spec's (sm_80,9.0a)"},
    {"-D", LIST, FIELD(settings), SPEC_VERBS, "KEY=VALUE",
     "override a key of the spec; recorded; repeatable"},
    {"-I", TEXT, FIELD(templates), TREE_VERBS, "DIR",
     "templates from DIR instead of the built-in ones"},
    {"--symbol-prefix", TEXT, FIELD(symbol_prefix), BIT(PLAN) | OUT_VERBS,
     "TEXT", "put TEXT before every symbol"},
    {"--check", SWITCH, FIELD(check), OUT_VERBS, NULL,
     "write nothing; exit 1 if anything would change"},
    {"--list-outputs", SWITCH, FIELD(list_outputs), OUT_VERBS, NULL,
     "print the names of the output files and stop"},
    {"-MD", SWITCH, FIELD(depend), OUT_VERBS, NULL,
     "write DIR.d, a dependency file for make"},
    {"-MF", TEXT, FIELD(depfile), OUT_VERBS, "FILE",
     "write the dependency file to FILE"},
    {"-j", NUMBER, FIELD(jobs), BIT(BUILD) | BIT(BUNDLE), "N",
     "threads that compile (default: one per CPU)"},
    {"--plot", TEXT, FIELD(plot), BIT(PLAN), "FILE",
     "draw what bounds each kernel (.svg, .png, .gp), by gnuplot"},
    {"--batch", COUNT, FIELD(batch), BIT(PLAN), "N",
     "with --plot: requests (default 128)"},
    {"--seq-len", COUNT, FIELD(seq_len), BIT(PLAN), "N",
     "with --plot: tokens of each (default 4096)"},
    {"--q-len", COUNT, FIELD(q_len), BIT(PLAN), "N",
     "with --plot: new tokens of each (default 1)"},
    {"--counters", TEXT, FIELD(counters), BIT(PLAN), "FILE",
     "with --plot: counters of kernel-bench in place of the plans"},
    {"--strict", SWITCH, FIELD(strict), BIT(IMPORT), NULL,
     "features beyond dense MLA are errors"},
    {"--models", SWITCH, FIELD(models), BIT(LIST), NULL,
     "a table of the built-in models instead"},
    {"--results", TEXT, FIELD(results), BIT(LIST), "FILE",
     "with --models: errors from what run-check --json printed"},
    {"--json", SWITCH, FIELD(json),
     BIT(PLAN) | OUT_VERBS | BIT(VERIFY) | BIT(LIST) | BIT(ENV) |
         BIT(EXPLAIN),
     NULL, "results as JSON"},
    {"--error-format", FORMAT, FIELD(json_errors), ALL, "gnu|json",
     "form of the diagnostics"},
    {"-q", SWITCH, FIELD(quiet), ALL, NULL,
     "no summary, no progress; diagnostics only"},
    {"-v", SWITCH, FIELD(verbose), OUT_VERBS, NULL,
     "name every file that is written or removed"},
    {"-h", SWITCH, FIELD(help), ALL, NULL, "this help"},
    {"--help", SWITCH, FIELD(help), ALL, NULL, NULL},
};

enum { FLAGS = sizeof flags / sizeof *flags };

/* A command line has no file and no line. */
static const struct mlagen_where nowhere = {NULL, 0, 0};

/* --- errors ---------------------------------------------------------------
 */

static enum mlagen_status usage_error(struct mlagen_diags *d,
                                      const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum mlagen_status usage_error(struct mlagen_diags *d,
                                      const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    mlagen_vdiag(d, MLAGEN_ERROR, nowhere, format, ap);
    va_end(ap);
    return MLAGEN_USAGE;
}

/* A word that is none of `among`: with the nearest one, if any is near.
 * Error USAGE. */
static enum mlagen_status unknown(const char *what, const char *word,
                                  const char *const *among, size_t count,
                                  struct mlagen_diags *d)
{
    const char *near = mlagen_closest(word, among, count);

    if (near)
        return usage_error(d, "unknown %s '%s'; did you mean '%s'?", what,
                           word, near);
    return usage_error(d, "unknown %s '%s'; see 'mlagen help'", what, word);
}

/* --- verbs ----------------------------------------------------------------
 */

/* Verbs are not abbreviated. */
static enum mlagen_status find_verb(const char *word, enum mlagen_verb *verb,
                                    struct mlagen_diags *d)
{
    const char *names[MLAGEN_VERBS];

    for (size_t i = 0; i < MLAGEN_VERBS; i++) {
        names[i] = verbs[i].name;
        if (strcmp(word, names[i]) == 0) {
            *verb = (enum mlagen_verb)i;
            return MLAGEN_OK;
        }
    }
    return unknown("verb", word, names, MLAGEN_VERBS, d);
}

/* --- flags ----------------------------------------------------------------
 */

/* --flag, as against -f. */
static bool is_long(const struct flag *f)
{
    return f->name[1] == '-';
}

/* True when `word` is this flag, perhaps with its value behind it. */
static bool matches(const struct flag *f, const char *word)
{
    size_t n = strlen(f->name);

    if (strncmp(word, f->name, n) != 0)
        return false;
    if (word[n] == '\0')
        return true;
    return is_long(f) ? word[n] == '='
                      : f->kind != SWITCH && f->name[2] == '\0';
}

/* Exact names win over glued values: -MD is not -M with the value D.  NULL
 * when none of these verbs has such a flag. */
static const struct flag *find_among(const char *word, unsigned verb_bits)
{
    for (size_t i = 0; i < FLAGS; i++)
        if ((flags[i].verbs & verb_bits) && strcmp(word, flags[i].name) == 0)
            return &flags[i];
    for (size_t i = 0; i < FLAGS; i++)
        if ((flags[i].verbs & verb_bits) && matches(&flags[i], word))
            return &flags[i];
    return NULL;
}

/* The verb's own flag, else another verb's, to be refused by name. */
static const struct flag *find_flag(const char *word, unsigned verb_bit)
{
    const struct flag *own = find_among(word, verb_bit);

    return own ? own : find_among(word, ALL);
}

/* Suggests only what this verb takes. */
static enum mlagen_status unknown_flag(const char *word, unsigned verb_bit,
                                       struct mlagen_diags *d)
{
    const char *names[FLAGS];
    size_t count = 0;

    for (size_t i = 0; i < FLAGS; i++)
        if (flags[i].verbs & verb_bit)
            names[count++] = flags[i].name;
    return unknown("flag", word, names, count, d);
}

/* The value of a flag: behind "=", glued, or the next word (then *used). */
static const char *value_of(const struct flag *f, const char *word,
                            const char *next, bool *used)
{
    size_t n = strlen(f->name);

    *used = false;
    if (word[n] == '=' && is_long(f))
        return word + n + 1;
    if (word[n] != '\0')
        return word + n;
    *used = next != NULL;
    return next;
}

/* -D may be given any number of times; the order is kept, as later ones win. */
static enum mlagen_status add_setting(struct mlagen_args *a, const char *value,
                                      struct mlagen_diags *d)
{
    const char **grown = mlagen_grow(a->settings, a->setting_count,
                                     &a->setting_cap, sizeof *grown);

    if (!grown)
        return mlagen_no_memory(d);
    a->settings = grown;
    a->settings[a->setting_count++] = value;
    return MLAGEN_OK;
}

/* Digits only, from 1 on: strtoul alone would take "-1" and " 7". */
static enum mlagen_status store_number(const struct flag *f, const char *value,
                                       unsigned *slot, struct mlagen_diags *d)
{
    unsigned long largest = f->kind == COUNT ? 1ul << 24 : 4096;
    size_t digits = strspn(value, "0123456789");
    unsigned long number = strtoul(value, NULL, 10);

    if (digits == 0 || digits > 8 || value[digits] != '\0' || number == 0 ||
        number > largest)
        return usage_error(d, "'%s' takes a number from 1 to %lu, not '%s'",
                           f->name, largest, value);
    *slot = (unsigned)number;
    return MLAGEN_OK;
}

/* Puts a value into the field of its flag; the kind says the field's type. */
static enum mlagen_status store(const struct flag *f, const char *value,
                                struct mlagen_args *a, struct mlagen_diags *d)
{
    void *slot = (char *)a + f->field;

    switch (f->kind) {
    case SWITCH:
        *(bool *)slot = true;
        return MLAGEN_OK;
    case TEXT:
        *(const char **)slot = value;
        return *value ? MLAGEN_OK
                      : usage_error(d, "'%s' has an empty value", f->name);
    case LIST:
        return add_setting(a, value, d);
    case NUMBER:
    case COUNT:
        return store_number(f, value, slot, d);
    case FORMAT:
        *(bool *)slot = strcmp(value, "json") == 0;
        if (*(bool *)slot || strcmp(value, "gnu") == 0)
            return MLAGEN_OK;
        return usage_error(d, "'%s' takes gnu or json, not '%s'", f->name,
                           value);
    }
    return MLAGEN_INTERNAL;
}

/* Takes the flag at *argv; moves *argv on when its value is the next word. */
static enum mlagen_status take_flag(char ***argv, struct mlagen_args *a,
                                    struct mlagen_diags *d)
{
    const char *word = **argv;
    const struct flag *f = find_flag(word, 1u << a->verb);
    const char *value = NULL;
    bool used;

    if (!f)
        return unknown_flag(word, 1u << a->verb, d);
    if (!(f->verbs & (1u << a->verb)))
        return usage_error(d, "'%s' takes no flag '%s'", verbs[a->verb].name,
                           f->name);
    if (f->kind == SWITCH && word[strlen(f->name)] != '\0')
        return usage_error(d, "'%s' takes no value", f->name);
    if (f->kind != SWITCH) {
        value = value_of(f, word, (*argv)[1], &used);
        if (!value)
            return usage_error(d, "'%s' needs a value (%s)", f->name,
                               f->value);
        *argv += used;
    }
    return store(f, value, a, d);
}

/* --- reading --------------------------------------------------------------
 */

/* What is no flag is the operand; there is room for one. */
static enum mlagen_status take_operand(const char *word, struct mlagen_args *a,
                                       struct mlagen_diags *d)
{
    const struct verb *v = &verbs[a->verb];

    if (v->operand == NO_OPERAND)
        return usage_error(d, "'%s' takes no argument, got '%s'", v->name,
                           word);
    if (a->operand)
        return usage_error(d, "'%s' takes one %s, got '%s' and '%s'", v->name,
                           v->usage, a->operand, word);
    a->operand = word;
    return MLAGEN_OK;
}

/* Flags and operands in any order, up to "--"; "-" alone is an operand,
 * standard input. */
static enum mlagen_status read_words(char **argv, struct mlagen_args *a,
                                     struct mlagen_diags *d)
{
    enum mlagen_status status = MLAGEN_OK;
    bool flags_end = false;

    for (; *argv && status == MLAGEN_OK; argv++) {
        const char *word = *argv;

        if (!flags_end && strcmp(word, "--") == 0)
            flags_end = true;
        else if (!flags_end && word[0] == '-' && word[1] != '\0')
            status = take_flag(&argv, a, d);
        else
            status = take_operand(word, a, d);
    }
    return status;
}

/* What must be there unless help was asked for, once all words are known. */
static enum mlagen_status check_operands(struct mlagen_args *a,
                                         struct mlagen_diags *d)
{
    const struct verb *v = &verbs[a->verb];
    enum mlagen_verb verb;

    if (a->help)
        return MLAGEN_OK;
    if (a->results && !a->models)
        return usage_error(d, "'--results' goes with '--models'");
    if (!a->plot && (a->counters || a->batch || a->seq_len || a->q_len))
        return usage_error(d, "'--%s' goes with '--plot'",
                           a->counters ? "counters"
                           : a->batch  ? "batch"
                           : a->q_len  ? "q-len"
                                       : "seq-len");
    if (v->operand == ONE_OPERAND && !a->operand)
        return usage_error(d, "'%s' needs %s; see 'mlagen %s -h'", v->name,
                           v->usage, v->name);
    return v->operand == VERB_OPERAND && a->operand
               ? find_verb(a->operand, &verb, d)
               : MLAGEN_OK;
}

/* --error-format is honoured wherever it stands, also behind an error. */
static void find_error_format(char **argv, struct mlagen_args *a)
{
    for (; *argv; argv++)
        if (strcmp(*argv, "--error-format=json") == 0 ||
            (strcmp(*argv, "--error-format") == 0 && argv[1] &&
             strcmp(argv[1], "json") == 0))
            a->json_errors = true;
}

/* -h and --version in the verb's place are words of their own.  run-check's
 * words are not read here: they are its program's. */
enum mlagen_status mlagen_args_read(char **argv, struct mlagen_args *out,
                                    struct mlagen_diags *d)
{
    static const char *const aliases[][2] = {
        {"-h", "help"}, {"--help", "help"}, {"--version", "version"}};
    const char *word = argv[0] ? argv[1] : NULL;
    enum mlagen_status status;

    *out = (struct mlagen_args){0};
    if (!word)
        return usage_error(d, "no verb given; see 'mlagen help'");
    find_error_format(argv + 1, out);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(word, aliases[i][0]) == 0)
            word = aliases[i][1];
    status = find_verb(word, &out->verb, d);
    if (status != MLAGEN_OK)
        return status;
    out->rest = argv + 2;
    if (verbs[out->verb].operand == ALL_OPERANDS)
        return MLAGEN_OK;
    status = read_words(argv + 2, out, d);
    return status ? status : check_operands(out, d);
}

void mlagen_args_free(struct mlagen_args *a)
{
    mlagen_free(a->settings);
    a->settings = NULL;
}

/* --- help -----------------------------------------------------------------
 */

/* Made from the table of verbs and the list of statuses, so that neither can
 * be forgotten. */
void mlagen_args_overview(struct mlagen_buf *out)
{
    mlagen_buf_str(out, "usage: mlagen VERB [flags]\n\n"
                        "Generates CUDA kernels for Multi-head Latent "
                        "Attention from a model's spec.\n\n");
    for (size_t i = 0; i < MLAGEN_VERBS; i++)
        mlagen_buf_printf(out, "  %-9s %-12s %s\n", verbs[i].name,
                          verbs[i].usage, verbs[i].does);
    mlagen_buf_str(out,
                   "\nSPEC is a file, - for standard input, or a built-in "
                   "name (mlagen list).\n"
                   "'mlagen VERB -h' lists the flags of a verb.\n\n"
                   "exit codes:\n");
#define PRINT_STATUS(name, code, meaning)                                     \
    mlagen_buf_printf(out, "  %2d  %s\n", code, meaning);
    MLAGEN_STATUSES(PRINT_STATUS)
#undef PRINT_STATUS
}

/* A flag without a description is an alias and is left out. */
void mlagen_args_help(enum mlagen_verb verb, struct mlagen_buf *out)
{
    const struct verb *v = &verbs[verb];

    mlagen_buf_printf(out, "usage: mlagen %s [flags]%s%s\n\n%s\n\n", v->name,
                      *v->usage ? " " : "", v->usage, v->does);
    for (size_t i = 0; i < FLAGS; i++) {
        const struct flag *f = &flags[i];
        const char *gap = is_long(f) ? "=" : " ";
        struct mlagen_buf left = {0};

        if (!(f->verbs & (1u << verb)) || !f->does)
            continue;
        mlagen_buf_printf(&left, "%s%s%s", f->name, f->value ? gap : "",
                          f->value ? f->value : "");
        mlagen_buf_printf(out, "  %-24s %s\n", mlagen_buf_text(&left),
                          f->does);
        mlagen_buf_free(&left);
    }
}
