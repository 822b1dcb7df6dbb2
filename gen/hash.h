/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h: SHA-256 as hexadecimal text, and the length-prefixed form that keeps
 * ("ab", "c") and ("a", "bc") apart when several texts go into one hash.
 */
#ifndef MLAGEN_HASH_H
#define MLAGEN_HASH_H

#include <stddef.h>
#include <stdint.h>

#define MLAGEN_HASH_HEX 65 /* 64 digits and the NUL */

struct mlagen_hash {
    uint64_t state[14];
};

void mlagen_hash_init(struct mlagen_hash *h);
/* Adds the length (8 bytes, little endian), then the bytes. */
void mlagen_hash_add(struct mlagen_hash *h, const void *bytes, size_t len);
void mlagen_hash_end(struct mlagen_hash *h, char hex[MLAGEN_HASH_HEX]);

/* Plain SHA-256 of one text, as sha256sum prints it. */
void mlagen_sha256(const void *bytes, size_t len, char hex[MLAGEN_HASH_HEX]);

#endif
