/* SPDX-License-Identifier: Apache-2.0
 *
 * What a decode step refuses, before any of its kernels is launched: steps and
 * tensors that are wrong, kernels that are not there during a capture; and how
 * a step that the device could not compute is explained.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "decode_calls.h"

/* Refusals -----------------------------------------------------------------
 */

/* Both calls refuse the step for the same reason, and launch nothing. */
static void both_calls(struct world *w, const mla_decode_step *s,
                       mla_status want, const char *names)
{
    mla_decode_tensors t = good_tensors();
    expect_error(w, mla_decode_plan(w->decode, s, NULL), want, names);
    expect_error(w, mla_decode_run(w->decode, s, &t, NULL), want, names);
    assert_int_equal(fake.launches, 0);
}

/* One byte less is too little, and the exact size is not. */
static void a_workspace_that_is_too_small_is_refused_with_both_sizes(
    void **state)
{
    struct world w;
    mla_decode_step s;
    char names[160];

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 3, 4);
    snprintf(names, sizeof(names),
             "has %lld bytes, and batch 3, q_len 4, max_seq_len 1000 need "
             "%lld",
             (long long)s.workspace_bytes - 1, (long long)s.workspace_bytes);
    s.workspace_bytes--;
    both_calls(&w, &s, MLA_RANGE, names);
    s.workspace_bytes++;
    assert_int_equal(mla_decode_plan(w.decode, &s, NULL), MLA_OK);
    close_world(&w);
}

/* seq_lens is of interest to the plan alone. */
static void a_wrong_step_is_refused_by_name(void **state)
{
    struct world w;
    mla_decode_step good, s;

    (void)state;
    open_world(&w, &right, 0, true);
    good = good_step(&w, 3, 4);
    s = good, s.workspace = 0;
    both_calls(&w, &s, MLA_NULL_POINTER, "'workspace'");
    s = good, s.workspace += 128;
    both_calls(&w, &s, MLA_MISALIGNED, "0x100080 is not a multiple of 256");
    s = good, s.batch = -1;
    both_calls(&w, &s, MLA_RANGE, "'batch': -1");
    s = good, s.q_len = -1;
    both_calls(&w, &s, MLA_RANGE, "'q_len': -1");
    s = good, s.max_seq_len = -1;
    both_calls(&w, &s, MLA_RANGE, "'max_seq_len': -1");
    s = good, s.seq_lens = 0;
    expect_error(&w, mla_decode_plan(w.decode, &s, NULL), MLA_NULL_POINTER,
                 "'seq_lens'");
    s = good, s.seq_lens = 0x5002;
    expect_error(&w, mla_decode_plan(w.decode, &s, NULL), MLA_MISALIGNED,
                 "'seq_lens'");
    assert_int_equal(fake.launches, 0);
    close_world(&w);
}

/* With a step that is right. */
static void refuse_tensors(struct world *w, mla_decode_tensors t,
                           mla_status want, const char *names)
{
    mla_decode_step s = good_step(w, 3, 4);
    expect_error(w, mla_decode_run(w->decode, &s, &t, NULL), want, names);
    assert_int_equal(fake.launches, 0);
}

/* The last of them is one that mqa_combine alone minds: mqa_decode must not
 * have been launched before it is found. */
static void wrong_tensors_are_refused_before_any_launch(void **state)
{
    struct world w;
    mla_decode_tensors t;

    (void)state;
    open_world(&w, &right, 0, true);
    t = good_tensors(), t.q = 0;
    refuse_tensors(&w, t, MLA_NULL_POINTER, "'q'");
    t = good_tensors(), t.kv_cache = 0x20008;
    refuse_tensors(&w, t, MLA_MISALIGNED, "'kv_cache'");
    t = good_tensors(), t.block_table_stride = 0;
    refuse_tensors(&w, t, MLA_RANGE, "'block_table_stride'");
    t = good_tensors(), t.block_table_stride = 6;
    refuse_tensors(&w, t, MLA_MISALIGNED, "'block_table_stride'");
    t = good_tensors(), t.softmax_scale = 0;
    refuse_tensors(&w, t, MLA_RANGE, "'softmax_scale': 0");
    t = good_tensors(), t.softmax_scale = NAN;
    refuse_tensors(&w, t, MLA_RANGE, "'softmax_scale'");
    t = good_tensors(), t.softmax_scale = 1e300;
    refuse_tensors(&w, t, MLA_RANGE, "'softmax_scale': 1e+300");
    t = good_tensors(), t.out += 16;
    refuse_tensors(&w, t, MLA_MISALIGNED, "mqa_combine_sm_80: argument 'out'");
    close_world(&w);
}

/* Every pointer of every call; and a struct too short for its own size. */
static void nulls_are_refused(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();
    mla_decode_layout l = {.size = sizeof(l)};
    int64_t bytes;

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 1, 1);
    const mla_status got[] = {mla_decode_plan(NULL, &s, NULL),
                              mla_decode_plan(w.decode, NULL, NULL),
                              mla_decode_run(NULL, &s, &t, NULL),
                              mla_decode_run(w.decode, NULL, &t, NULL),
                              mla_decode_run(w.decode, &s, NULL, NULL),
                              mla_decode_check(NULL, &s, NULL),
                              mla_decode_check(w.decode, NULL, NULL),
                              mla_decode_describe(w.decode, &s, NULL),
                              mla_decode_describe(NULL, &s, &l),
                              mla_decode_workspace(NULL, &s, &bytes),
                              mla_decode_workspace(w.decode, NULL, &bytes),
                              mla_decode_workspace(w.decode, &s, NULL),
                              mla_decode_prepare(NULL)};
    for (size_t i = 0; i < sizeof(got) / sizeof(got[0]); i++)
        assert_int_equal(got[i], MLA_INVALID_ARGUMENT);
    t.size = 3;
    assert_int_equal(mla_decode_run(w.decode, &s, &t, NULL),
                     MLA_INVALID_ARGUMENT);
    assert_int_equal(fake.launches, 0);
    close_world(&w);
}

/* The call stops there: mqa_combine does not follow a failed mqa_decode. */
static void a_failed_launch_is_reported(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 1, 1);
    fake.launch_result = 719;
    expect_error(&w, mla_decode_plan(w.decode, &s, NULL), MLA_CUDA,
                 "decode_plan_sm_80: cuLaunchKernel: CUDA_ERROR_LAUNCH");
    expect_error(&w, mla_decode_run(w.decode, &s, &t, NULL), MLA_CUDA,
                 "mqa_decodem16_sm_80: cuLaunchKernel");
    assert_int_equal(fake.launches, 2);
    close_world(&w);
}

/* Capture ------------------------------------------------------------------
 */

/* Only the kernel of that family and variant is still to be loaded. */
static void all_but(struct world *w, const char *family, const char *variant)
{
    static int anything;
    for (int i = 0; i < w->set->count; i++) {
        mla_kernel *k = &w->set->kernel[i];
        bool missing = strcmp(k->family, family) == 0 &&
                       strcmp(k->variant, variant) == 0;
        k->function = missing ? NULL : &anything;
    }
}

/* Each of the three in turn; the refusal comes before the first launch, and
 * a tile that the step does not take may be missing. */
static void a_capture_refuses_kernels_that_are_not_loaded(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 2, 3); /* m32 */
    fake.capture_status = 1;
    all_but(&w, "decode_plan", "");
    expect_error(&w, mla_decode_plan(w.decode, &s, (void *)1), MLA_CAPTURING,
                 "decode_plan_sm_80: is not on the device");
    expect_error(&w, mla_decode_plan(w.decode, &s, (void *)1), MLA_CAPTURING,
                 "call mla_prepare before");
    all_but(&w, "mqa_decode", "m32");
    expect_error(&w, mla_decode_run(w.decode, &s, &t, (void *)1),
                 MLA_CAPTURING, "mqa_decodem32_sm_80: is not");
    all_but(&w, "mqa_combine", "");
    expect_error(&w, mla_decode_run(w.decode, &s, &t, (void *)1),
                 MLA_CAPTURING, "mqa_combine_sm_80: is not");
    assert_int_equal(fake.launches + fake.loads + fake.ptx_loads, 0);
    all_but(&w, "mqa_decode", "m64"); /* which this step does not need */
    assert_int_equal(mla_decode_run(w.decode, &s, &t, (void *)1), MLA_OK);
    assert_int_equal(fake.launches, 2);
    all_but(&w, "", "");
    close_world(&w);
}

/* Not only a decode step's: any launch in a capture. */
static void any_launch_in_a_capture_wants_its_kernel_loaded(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_layout l = {.size = sizeof(l)};
    size_t bytes = world_offset(world_plan, NULL);

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 2, 3);
    mla_decode_describe(w.decode, &s, &l);
    assert_int_equal(mla_decode_plan(w.decode, &s, NULL), MLA_OK);
    all_but(&w, "decode_plan", "");
    fake.capture_status = 1;
    expect_error(&w,
                 mla_launch_struct(l.plan, world_launched[0].block, bytes,
                                   NULL),
                 MLA_CAPTURING, "call mla_prepare before");
    assert_int_equal(fake.launches, 1);
    all_but(&w, "", "");
    close_world(&w);
}

/* Asking about the default stream while another one is captured. */
static void a_capture_next_to_the_default_stream_counts(void **state)
{
    struct world w;
    mla_decode_step s;

    (void)state;
    open_world(&w, &right, 0, false);
    s = good_step(&w, 2, 3);
    fake.capture_result = MLA__CUDA_CAPTURE_IMPLICIT;
    expect_error(&w, mla_decode_plan(w.decode, &s, NULL), MLA_CAPTURING,
                 "call mla_prepare before");
    fake.capture_result = 400;
    expect_error(&w, mla_decode_plan(w.decode, &s, NULL), MLA_CUDA,
                 "cuStreamIsCapturing");
    assert_int_equal(fake.launches, 0);
    close_world(&w);
}

/* Launches are recorded; what waits is refused. */
static void a_prepared_step_may_be_captured(void **state)
{
    struct world w;
    mla_decode_step s;
    mla_decode_tensors t = good_tensors();

    (void)state;
    open_world(&w, &right, 0, true);
    s = good_step(&w, 2, 3);
    fake.capture_status = 1;
    assert_int_equal(mla_decode_plan(w.decode, &s, (void *)1), MLA_OK);
    assert_int_equal(mla_decode_run(w.decode, &s, &t, (void *)1), MLA_OK);
    assert_int_equal(fake.launches, 3);
    expect_error(&w, mla_decode_check(w.decode, &s, (void *)1), MLA_CAPTURING,
                 "mla_decode_check");
    close_world(&w);
}

/* Checking -----------------------------------------------------------------
 */

/* A header as decode_plan leaves it, in memory that the fake device shares. */
static mla_status check_header(struct world *w, int items, int slots,
                               int status)
{
    static _Alignas(256) unsigned char memory[1 << 22];
    int32_t header[8] = {items, slots, status, 99, -1, -1, -1, -1};
    mla_decode_layout l = {.size = sizeof(l)};
    mla_decode_step s = good_step(w, 2, 3);

    s.workspace = (uint64_t)(uintptr_t)memory;
    assert_true(s.workspace_bytes <= (int64_t)sizeof(memory));
    mla_decode_describe(w->decode, &s, &l);
    memcpy(memory + l.header, header, sizeof(header));
    return mla_decode_check(w->decode, &s, NULL);
}

/* By the bits of docs/decode.md; an overflow is the graver one. */
static void a_step_that_was_not_computed_is_explained(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, &right, 0, true);
    assert_int_equal(check_header(&w, 5, 4, 0), MLA_OK);
    expect_error(&w, check_header(&w, 500, 4, 1), MLA_RANGE,
                 "longer than max_seq_len: 500 items and 4 slots, room for ");
    expect_error(&w, check_header(&w, 5, 400, 2), MLA_RANGE,
                 "5 items and 400 slots");
    expect_error(&w, check_header(&w, 5, 4, 4), MLA_RANGE,
                 "0 < seq_len < q_len");
    expect_error(&w, check_header(&w, 5, 400, 7), MLA_RANGE, "all outputs");
    close_world(&w);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_workspace_that_is_too_small_is_refused_with_both_sizes),
        TEST(a_wrong_step_is_refused_by_name),
        TEST(wrong_tensors_are_refused_before_any_launch),
        TEST(nulls_are_refused),
        TEST(a_failed_launch_is_reported),
        TEST(a_capture_refuses_kernels_that_are_not_loaded),
        TEST(any_launch_in_a_capture_wants_its_kernel_loaded),
        TEST(a_capture_next_to_the_default_stream_counts),
        TEST(a_prepared_step_may_be_captured),
        TEST(a_step_that_was_not_computed_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
