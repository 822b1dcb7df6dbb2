/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 against the examples of FIPS 180-2, appendix B, and the lengths
 * around a block where padding goes wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"

static void expect(const void *data, size_t bytes, const char *want)
{
    char hex[MLA__SHA256_HEX + 1];
    mla__sha256_hex(data, bytes, hex);
    assert_string_equal(hex, want);
}

static void published_examples_agree(void **state)
{
    char *million = malloc(1000000);
    (void)state;
    expect("", 0,
           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", 3,
           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_non_null(million);
    memset(million, 'a', 1000000);
    expect(million, 1000000,
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* Checked with coreutils: printf 'a%.0s' $(seq 55) | sha256sum, and so on. */
static void lengths_around_the_padding_agree(void **state)
{
    char text[64];
    (void)state;
    memset(text, 'a', sizeof(text));
    expect(text, 55,
           "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    expect(text, 56,
           "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    expect(text, 63,
           "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    expect(text, 64,
           "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_examples_agree),
        cmocka_unit_test(lengths_around_the_padding_agree),
    };
    return cmocka_run_group_tests_name("sha256", tests, NULL, NULL);
}
