/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c: gpu-bench's command line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu_bench.h"

static const char usage[] =
    "usage: gpu-bench DIR [flags]\n"
    "       gpu-bench --device     what device there is, and stop\n"
    "  --seconds n    begin no case after n seconds (default 300)\n"
    "  --group a,b    only these: decode, plan, mha, concat, append,\n"
    "                 absorb_q, absorb_v, kv_b\n"
    "  --arch a       only kernels of this architecture\n"
    "  --json FILE    every figure\n"
    "  --plot FILE    a gnuplot script\n"
    "  --date text    what the results are dated (default: today)\n"
    "  --list         the cases, and stop\n"
    "  --dry          make every case and bind its arguments; launch nothing\n"
    "  --tiny         small cases, for a virtual GPU\n"
    "The driver is $MLA_DRIVER, else libcuda.so.1.\n";

/* A whole number of seconds up to a day; nothing else is taken for one. */
static bool set_number(const char *text, int *out)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 0 || n > 86400)
        return false;
    *out = (int)n;
    return true;
}

/* A flag with its value; false if it is unknown or the value is not one. */
static bool set_valued(struct gpu_command *c, const char *flag,
                       const char *value)
{
    const struct {
        const char *flag, **slot;
    } text[] = {{"--group", &c->groups}, {"--arch", &c->arch},
                {"--json", &c->json},    {"--plot", &c->plot},
                {"--date", &c->date}};

    if (!value || !*value)
        return false;
    if (strcmp(flag, "--seconds") == 0)
        return set_number(value, &c->seconds);
    for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++)
        if (strcmp(flag, text[i].flag) == 0) {
            *text[i].slot = value;
            return true;
        }
    return false;
}

/* A flag without a value; false if it is none. */
static bool set_plain(struct gpu_command *c, const char *flag)
{
    const struct {
        const char *flag;
        bool *slot;
    } plain[] = {{"--device", &c->device},
                 {"--list", &c->list},
                 {"--dry", &c->dry},
                 {"--tiny", &c->tiny}};

    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        if (strcmp(flag, plain[i].flag) == 0)
            return *plain[i].slot = true;
    return false;
}

/* The word, then what would have been right. */
static bool complain(const char *word)
{
    fprintf(stderr, "gpu-bench: error: '%s' is not understood\n%s", word,
            usage);
    return false;
}

/* Flags take their value as the next word and stand in any order. */
bool gpu_parse(int argc, char **argv, struct gpu_command *c)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            if (c->directory)
                return complain(argv[i]);
            c->directory = argv[i];
        } else if (!set_plain(c, argv[i])) {
            if (!set_valued(c, argv[i], argv[i + 1]))
                return complain(argv[i]);
            i++;
        }
    }
    if (!c->directory && !c->device && !c->list)
        fprintf(stderr, "gpu-bench: error: no directory\n%s", usage);
    return c->directory || c->device || c->list;
}

/* No name is the beginning of another by accident: a whole entry counts. */
bool gpu_is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1
                                                     : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0))
            return true;
    return list == NULL;
}

void gpu_print_usage(void)
{
    fputs(usage, stdout);
}
