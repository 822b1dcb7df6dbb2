/* SPDX-License-Identifier: Apache-2.0
 *
 * equivalent.c: mutants that nothing can notice, and why.
 */
#include <string.h>

#include "mutation.h"

/* nth: among the sites of that opcode and kind. */
static const struct equivalent {
    const char *family, *variant, *opcode;
    int nth;
    enum mutation_kind kind;
    const char *reason;
} equivalents[] = {
#define UPPER_WORDS "a unit has less than 2^31 tiles, items and slots: of one "\
                    "or two the upper word is 0"
    {"decode_plan", "", "shfl.sync.up.b32", 21, MUTATION_OWN_VALUE,
     UPPER_WORDS},
    {"decode_plan", "", "shfl.sync.up.b32", 23, MUTATION_OWN_VALUE,
     UPPER_WORDS},
    {"decode_plan", "", "shfl.sync.up.b32", 41, MUTATION_OWN_VALUE,
     UPPER_WORDS},
    {"decode_plan", "", "shfl.sync.up.b32", 43, MUTATION_OWN_VALUE,
     UPPER_WORDS},
    {"decode_plan", "", "shfl.sync.up.b32", 61, MUTATION_OWN_VALUE,
     UPPER_WORDS},
    {"decode_plan", "", "shfl.sync.up.b32", 63, MUTATION_OWN_VALUE,
     UPPER_WORDS},
#undef UPPER_WORDS
};

const char *mutation_equivalent(const char *family, const char *variant,
                                const struct mutation_site *s)
{
    for (size_t i = 0; i < sizeof(equivalents) / sizeof(equivalents[0]); i++) {
        const struct equivalent *e = &equivalents[i];
        if (strcmp(e->family, family) == 0 &&
            strcmp(e->variant, variant) == 0 &&
            strcmp(e->opcode, s->opcode) == 0 && e->nth == s->nth &&
            e->kind == s->kind)
            return e->reason;
    }
    return NULL;
}
