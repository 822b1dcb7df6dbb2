/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c: see hash.h; SHA-256 itself is libmd's.
 */
#include <stdint.h>

#include "hash.h"

/* Finishes a hash and writes it as 64 lower-case digits and a NUL. */
static void end_hex(SHA2_CTX *ctx, char hex[MLAGEN_HASH_HEX]) {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Final(digest, ctx);
    for (size_t i = 0; i < sizeof digest; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    hex[MLAGEN_HASH_HEX - 1] = '\0';
}

void mlagen_hash_init(struct mlagen_hash *h) {
    SHA256Init(&h->ctx);
}

/* The prefix has eight bytes on every machine, so the hash is the same on all.
 * The prefix has eight bytes on every machine, so the hash is the same on all.
 */
void mlagen_hash_add(struct mlagen_hash *h, const void *bytes, size_t len) {
    uint8_t prefix[8];
    for (size_t i = 0; i < sizeof prefix; i++)
        prefix[i] = (uint8_t)((uint64_t)len >> (8 * i));
    SHA256Update(&h->ctx, prefix, sizeof prefix);
    SHA256Update(&h->ctx, bytes, len);
}

void mlagen_hash_end(struct mlagen_hash *h, char hex[MLAGEN_HASH_HEX]) {
    end_hex(&h->ctx, hex);
}

void mlagen_sha256(const void *bytes, size_t len, char hex[MLAGEN_HASH_HEX]) {
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    SHA256Update(&ctx, bytes, len);
    end_hex(&ctx, hex);
}
