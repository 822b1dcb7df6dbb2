/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c: see hash.h; SHA-256 itself is OpenSSL's.
 *
 * The direct functions, which OpenSSL 3 calls deprecated but keeps: they
 * allocate nothing, and linked statically they bring 30 kB along, where EVP
 * brings the whole library.  They use the CPU's SHA instructions.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <stdint.h>

#include "hash.h"

_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct mlagen_hash),
               "the state fits");

static SHA256_CTX *state_of(struct mlagen_hash *h) {
    return (SHA256_CTX *)h->state;
}

/* Finishes a hash and writes it as 64 lower-case digits and a NUL. */
static void end_hex(SHA256_CTX *ctx, char hex[MLAGEN_HASH_HEX]) {
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, ctx);
    for (size_t i = 0; i < sizeof digest; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    hex[MLAGEN_HASH_HEX - 1] = '\0';
}

void mlagen_hash_init(struct mlagen_hash *h) {
    SHA256_Init(state_of(h));
}

/* The prefix has eight bytes on every machine, so the hash is the same on all.
 */
void mlagen_hash_add(struct mlagen_hash *h, const void *bytes, size_t len) {
    uint8_t prefix[8];
    for (size_t i = 0; i < sizeof prefix; i++)
        prefix[i] = (uint8_t)((uint64_t)len >> (8 * i));
    SHA256_Update(state_of(h), prefix, sizeof prefix);
    SHA256_Update(state_of(h), bytes, len);
}

void mlagen_hash_end(struct mlagen_hash *h, char hex[MLAGEN_HASH_HEX]) {
    end_hex(state_of(h), hex);
}

void mlagen_sha256(const void *bytes, size_t len, char hex[MLAGEN_HASH_HEX]) {
    SHA256_CTX ctx;
    SHA256_Init(&ctx);
    SHA256_Update(&ctx, bytes, len);
    end_hex(&ctx, hex);
}
