/* SPDX-License-Identifier: Apache-2.0
 *
 * comma_locale.h: a locale in which 1.5 is written 1,5, for tests that numbers
 * do not care.  Taken from the machine if it has one, else compiled with
 * localedef; when neither works the test says so and sees the C locale only.
 */
#ifndef TESTS_GEN_COMMA_LOCALE_H
#define TESTS_GEN_COMMA_LOCALE_H

#include <locale.h>

#include "support.h"

/* glibc never frees the list it makes of LOCPATH; told to the leak sanitizer,
 * which calls this where it is linked in. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:argz_add_sep";
}

/* A German locale made by localedef in a folder of its own, or 0. */
static locale_t compiled_locale(void) {
    char dir[] = "/tmp/mlagen-locale-XXXXXX", command[256];
    if (!mkdtemp(dir))
        return (locale_t)0;
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s/log 2>&1", dir,
             dir);
    int made = system(command);
    setenv("LOCPATH", dir, 1);
    locale_t found = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) || made)
        print_message("# localedef: status %d\n", made);
    return found;
}

/* Runs `body` under a decimal comma. */
static void with_comma_locale(void (*body)(void)) {
    char text[8];
    locale_t comma = newlocale(LC_ALL_MASK, "de_DE.UTF-8", (locale_t)0);
    if (!comma)
        comma = compiled_locale();
    if (!comma)
        print_message("# no locale with a decimal comma on this machine\n");
    locale_t before = uselocale(comma);
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, comma ? "1,5" : "1.5");
    body();
    uselocale(before);
    if (comma)
        freelocale(comma);
}

#endif
