/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs that were compiled against an older mla.h rely on.  A row may
 * be added here, none may change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "mla.h"

static const char *const statuses[] = {"OK",
                                       "INVALID_ARGUMENT",
                                       "OUT_OF_MEMORY",
                                       "IO",
                                       "BAD_MANIFEST",
                                       "CORRUPT",
                                       "NO_DRIVER",
                                       "NO_DEVICE",
                                       "NO_KERNEL",
                                       "AMBIGUOUS",
                                       "NO_COMPILER",
                                       "COMPILE",
                                       "CUDA",
                                       "DEVICE_LIMIT",
                                       "UNKNOWN_FIELD",
                                       "TYPE",
                                       "RANGE",
                                       "UNSET",
                                       "NULL_POINTER",
                                       "MISALIGNED",
                                       "VERSION",
                                       "OUT_OF_PAGES",
                                       "OUT_OF_SEQUENCES",
                                       "TOO_LONG",
                                       "NO_SEQUENCE",
                                       "DROPPED",
                                       "BAD_PAGE",
                                       "DOUBLE_FREE",
                                       "STREAMS",
                                       "CAPTURING",
                                       "BROKEN",
                                       "NO_POLICY",
                                       "NO_METHOD",
                                       "FORKED"};

static void every_status_keeps_its_number(void **state)
{
    const int count = sizeof(statuses) / sizeof(statuses[0]);

    (void)state;
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof(name), "MLA_%s", statuses[i]);
        assert_string_equal(mla_status_name((mla_status)i), name);
        assert_true(strlen(mla_status_text((mla_status)i)) > 3);
    }
    assert_int_equal(MLA_FORKED, 33);
    assert_int_equal(sizeof(mla_status), 4);
}

static void an_unknown_status_has_a_name_too(void **state)
{
    (void)state;
    assert_string_equal(mla_status_name((mla_status)9999), "MLA_?");
    assert_string_equal(mla_status_text((mla_status)-1), "unknown status");
}

#define AT(type, member, offset)                                               \
    assert_int_equal(offsetof(type, member), offset)

static void structs_grow_only_at_their_ends(void **state)
{
    (void)state;
    AT(mla_options, size, 0);
    AT(mla_options, version, 8);
    AT(mla_options, device, 12);
    AT(mla_options, driver, 16);
    AT(mla_options, nvrtc, 24);
    AT(mla_options, alloc, 32);
    AT(mla_options, log, 48);
    AT(mla_options, log_user, 56);
    AT(mla_options, cache, 64);
    AT(mla_file, path, 0);
    AT(mla_file, data, 8);
    AT(mla_file, bytes, 16);
    assert_int_equal(sizeof(mla_file), 24);
    AT(mla_prepare_options, jobs, 8);
    AT(mla_prepare_options, progress, 16);
    AT(mla_prepare_options, user, 24);
    AT(mla_kernel_info, symbol, 8);
    AT(mla_kernel_info, smem_dynamic, 120);
    AT(mla_kernel_info, tile_m, 128);
    AT(mla_field_info, name, 8);
    AT(mla_field_info, offset, 56);
    AT(mla_decode_options, heads, 8);
    AT(mla_decode_options, split_keys, 24);
    AT(mla_decode_step, batch, 8);
    AT(mla_decode_step, max_seq_len, 16);
    AT(mla_decode_step, seq_lens, 24);
    AT(mla_decode_step, workspace_bytes, 40);
    AT(mla_decode_layout, plan, 8);
    AT(mla_decode_layout, rows_per_tile, 32);
    AT(mla_decode_layout, units, 56);
    AT(mla_decode_layout, bytes, 128);
    AT(mla_decode_tensors, q, 8);
    AT(mla_decode_tensors, kv_cache, 40);
    AT(mla_decode_tensors, out, 80);
    AT(mla_decode_tensors, softmax_scale, 144);
}

/* Options of a program that knew nothing of a cache. */
static void older_options_are_taken(void **state)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_context *ctx;

    (void)state;
    options.size = offsetof(mla_options, cache);
    options.cache = (const char *)1; /* beyond what it says it has */
    assert_int_equal(mla_context_create(&options, &ctx), MLA_OK);
    mla_context_destroy(ctx);
    options.size = offsetof(mla_options, device);
    assert_int_equal(mla_context_create(&options, &ctx), MLA_OK);
    mla_context_destroy(ctx);
    options.size = 4;
    assert_int_equal(mla_context_create(&options, &ctx), MLA_INVALID_ARGUMENT);
}

static void a_header_of_another_version_is_refused(void **state)
{
    static const int versions[] = {MLA_VERSION_NUMBER + 1, 10000, -10000};
    mla_context *ctx;

    (void)state;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        mla_options options = MLA_OPTIONS_INIT;
        options.version = versions[i];
        assert_int_equal(mla_context_create(&options, &ctx), MLA_VERSION);
        assert_null(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_keeps_its_number),
        cmocka_unit_test(an_unknown_status_has_a_name_too),
        cmocka_unit_test(structs_grow_only_at_their_ends),
        cmocka_unit_test(older_options_are_taken),
        cmocka_unit_test(a_header_of_another_version_is_refused),
    };
    return cmocka_run_group_tests_name("abi", tests, NULL, NULL);
}
