/* SPDX-License-Identifier: Apache-2.0
 *
 * ptxas_log: see ptxas_log.h.  The lines that matter, as CUDA 12 and 13 print
 * them (nvcc writes the continuation without the dot):
 *
 *   ptxas info    : Function properties for k
 *   ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes ...
 *   ptxas info    : Used 32 registers, used 1 barriers, 512 bytes smem, ...
 *   ptxas warning : Registers are spilled to local memory in function 'k', ...
 *   ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored
 *
 * A quantity is recognised by the words behind its number, not by its place:
 * the order and the set differ between versions.
 */
#include "ptxas_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

/* The number that stands before `unit` in the line; -1 when there is none. */
static long number_before(const char *line, const char *unit)
{
    const char *at = strstr(line, unit);

    if (!at)
        return -1;
    while (at > line && at[-1] == ' ')
        at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return *at >= '0' && *at <= '9' ? strtol(at, NULL, 10) : -1;
}

/* Appends a copy of the remark; false without memory. */
static bool add_finding(struct mlagen_ptxas *r, const char *code,
                        const char *text)
{
    struct mlagen_finding *f =
        mlagen_grow(r->findings, r->finding_count, &r->finding_cap, sizeof *f);

    if (!f)
        return false;
    r->findings = f;
    f += r->finding_count;
    snprintf(f->code, sizeof f->code, "%s", code);
    f->text = mlagen_strndup(text, strlen(text));
    r->finding_count += f->text != NULL;
    return f->text != NULL;
}

/* "(C7508) ..." anywhere in a ptxas line: copies C7508. */
static bool find_number_code(const char *line, char code[MLAGEN_FINDING_CODE])
{
    for (const char *p = line; (p = strstr(p, "(C")) != NULL; p += 2) {
        size_t n = strspn(p + 2, "0123456789");

        if (n > 0 && n < MLAGEN_FINDING_CODE - 1 && p[n + 2] == ')') {
            snprintf(code, MLAGEN_FINDING_CODE, "C%.*s", (int)n, p + 2);
            return true;
        }
    }
    return false;
}

/* The code of a remark, or false for a line that is not one.  Spills and
 * stack frames are judged from their numbers, so the warnings that repeat
 * them are passed over. */
static bool classify(const char *line, char code[MLAGEN_FINDING_CODE])
{
    const char *fixed = NULL;

    if (strncmp(line, "ptxas", 5) != 0) {
        if (!strstr(line, ": warning"))
            return false;
        fixed = "compiler";
    } else if (find_number_code(line, code)) {
        return true;
    } else if (strstr(line, "Potential Performance Loss")) {
        fixed = "loss";
    } else if (strncmp(line, "ptxas warning", 13) == 0) {
        if (strstr(line, "are spilled to local memory") ||
            strstr(line, "Local memory used for function"))
            return false;
        fixed = "warning";
    } else {
        return false;
    }
    snprintf(code, MLAGEN_FINDING_CODE, "%s", fixed);
    return true;
}

/* Adds a number that was found; -1, "not in this line", adds nothing. */
static void add_positive(long *sum, long value)
{
    if (value > 0)
        *sum += value;
}

/* Takes the numbers of one line; true for the "Used N registers" line. */
static bool read_numbers(const char *line, struct mlagen_ptxas *r)
{
    long stack = number_before(line, "bytes stack frame");

    if (stack > r->stack)
        r->stack = stack;
    add_positive(&r->spill_stores, number_before(line, "bytes spill stores"));
    add_positive(&r->spill_loads, number_before(line, "bytes spill loads"));
    if (!strstr(line, ": Used "))
        return false;
    r->registers = number_before(line, "registers");
    add_positive(&r->barriers, number_before(line, "barriers"));
    add_positive(&r->smem_static, number_before(line, "bytes smem"));
    return r->registers >= 0;
}

/* Spilled lines repeat their numbers in a warning; only the property lines
 * (which name the stack frame) and the usage line are counted. */
static bool holds_numbers(const char *line)
{
    return strncmp(line, "ptxas", 5) == 0 &&
           strncmp(line, "ptxas warning", 13) != 0 && !strstr(line, "(C");
}

/* Judges the numbers: a spill, or a stack frame without one (a local array
 * that is indexed at run time), each with its bytes. */
static bool add_memory_findings(struct mlagen_ptxas *r)
{
    char text[128];

    if (r->spill_stores > 0 || r->spill_loads > 0) {
        snprintf(text, sizeof text,
                 "registers spilled: %ld bytes stored, %ld bytes loaded",
                 r->spill_stores, r->spill_loads);
        return add_finding(r, "spill", text);
    }
    if (r->stack > 0) {
        snprintf(text, sizeof text,
                 "local memory used: %ld bytes of stack frame", r->stack);
        return add_finding(r, "stack", text);
    }
    return true;
}

bool mlagen_ptxas_read(const char *log, struct mlagen_ptxas *out)
{
    char *copy = mlagen_strndup(log, strlen(log));
    char *save = NULL;
    bool used = false;
    bool ok = copy != NULL;

    *out = (struct mlagen_ptxas){0};
    for (char *line = ok ? strtok_r(copy, "\n", &save) : NULL; line && ok;
         line = strtok_r(NULL, "\n", &save)) {
        char code[MLAGEN_FINDING_CODE];

        if (classify(line, code))
            ok = add_finding(out, code, line);
        else if (holds_numbers(line))
            used |= read_numbers(line, out);
    }
    ok = ok && used && add_memory_findings(out);
    if (!ok)
        mlagen_ptxas_free(out);
    mlagen_free(copy);
    return ok;
}

void mlagen_ptxas_free(struct mlagen_ptxas *report)
{
    for (size_t i = 0; i < report->finding_count; i++)
        mlagen_free(report->findings[i].text);
    mlagen_free(report->findings);
    *report = (struct mlagen_ptxas){0};
}
