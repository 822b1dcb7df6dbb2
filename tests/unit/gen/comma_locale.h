/* SPDX-License-Identifier: Apache-2.0
 *
 * comma_locale.h: a locale in which 1.5 is written 1,5, for tests that numbers
 * do not care.  Machines that run tests seldom have one installed, so this
 * makes its own: localedef is part of libc, and a definition of LC_NUMERIC
 * alone needs no locale sources.
 */
#ifndef TESTS_GEN_COMMA_LOCALE_H
#define TESTS_GEN_COMMA_LOCALE_H

#include <locale.h>

#include "support.h"

/* glibc never frees the list it makes of LOCPATH; told to the leak sanitizer,
 * which calls this where it is linked in. */
__attribute__((visibility("default"))) const char *
__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:argz_add_sep";
}

static void run(const char *format, const char *folder) {
    char command[1024];
    snprintf(command, sizeof command, format, folder);
    if (system(command) == -1)
        fail_msg("cannot run: %s", command);
}

/* A locale with a decimal comma, compiled in a folder of its own.  localedef
 * warns about the categories that are not defined and says so in its status;
 * whether it worked shows when the locale is used. */
static locale_t comma_locale(void) {
    char folder[256];
    temp_folder(folder, sizeof folder);
    run("cd '%s' && printf 'LC_NUMERIC\\ndecimal_point \",\"\\n"
        "thousands_sep \".\"\\ngrouping 3;3\\nEND LC_NUMERIC\\n' > source && "
        "localedef -c -i source ./xx_XX > log 2>&1",
        folder);
    setenv("LOCPATH", folder, 1);
    locale_t comma = newlocale(LC_NUMERIC_MASK, "xx_XX", (locale_t)0);
    unsetenv("LOCPATH");
    run("rm -rf '%s'", folder);
    assert_non_null(comma);
    return comma;
}

/* Runs `body` under a decimal comma. */
static void with_comma_locale(void (*body)(void)) {
    char text[8];
    locale_t comma = comma_locale();
    locale_t before = uselocale(comma);
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5");
    body();
    uselocale(before);
    freelocale(comma);
}

#endif
