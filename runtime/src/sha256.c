/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256.c: the hash of a file's bytes, as a manifest writes it, and of a
 * list of texts.
 *
 * The computation is libmd's, linked statically; it allocates nothing.
 */
#include <sha2.h>
#include <string.h>

#include "internal.h"

void mla__sha256_hex(const void *data, size_t bytes,
                     char hex[MLA__SHA256_HEX + 1])
{
    SHA256Data(data, bytes, hex);
}

void mla__sha256_texts(const char *const *texts, size_t count,
                       char hex[MLA__SHA256_HEX + 1])
{
    SHA2_CTX hash;

    SHA256Init(&hash);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = strlen(texts[i]);
        SHA256Update(&hash, (const uint8_t *)&bytes, sizeof(bytes));
        SHA256Update(&hash, (const uint8_t *)texts[i], (size_t)bytes);
    }
    SHA256End(&hash, hex);
}
