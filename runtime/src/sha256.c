/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256.c: the hash of a file's bytes, as a manifest writes it.
 *
 * The computation is libmd's, linked statically; it allocates nothing.
 */
#include <sha2.h>

#include "internal.h"

void mla__sha256_hex(const void *data, size_t bytes,
                     char hex[MLA__SHA256_HEX + 1])
{
    SHA256Data(data, bytes, hex);
}
