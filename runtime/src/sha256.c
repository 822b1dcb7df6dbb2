/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256.c: the hash of bytes, as a manifest writes it, of a file, and of a
 * list of texts.
 *
 * The computation is OpenSSL's, linked statically: of the functions that
 * allocate nothing and need nothing else of that library (gen/hash.c has more
 * about the choice).
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

void mla__hex(const unsigned char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

/* Ends the hash and writes it as lower-case digits. */
static void end_hex(SHA256_CTX *hash, char hex[MLA__SHA256_HEX + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256_Final(digest, hash);
    mla__hex(digest, sizeof(digest), hex);
}

void mla__sha256_hex(const void *data, size_t bytes,
                     char hex[MLA__SHA256_HEX + 1])
{
    SHA256_CTX hash;

    SHA256_Init(&hash);
    SHA256_Update(&hash, data, bytes);
    end_hex(&hash, hex);
}

void mla__sha256_texts(const char *const *texts, size_t count,
                       char hex[MLA__SHA256_HEX + 1])
{
    SHA256_CTX hash;

    SHA256_Init(&hash);
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = strlen(texts[i]);
        SHA256_Update(&hash, &bytes, sizeof(bytes));
        SHA256_Update(&hash, texts[i], (size_t)bytes);
    }
    end_hex(&hash, hex);
}

bool mla__sha256_file(int fd, char hex[MLA__SHA256_HEX + 1])
{
    unsigned char block[65536];
    SHA256_CTX hash;
    ssize_t n;

    SHA256_Init(&hash);
    if (lseek(fd, 0, SEEK_SET) != 0)
        return false;
    while ((n = read(fd, block, sizeof(block))) > 0)
        SHA256_Update(&hash, block, (size_t)n);
    end_hex(&hash, hex);
    return n == 0;
}
