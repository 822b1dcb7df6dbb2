/* SPDX-License-Identifier: Apache-2.0
 *
 * test_race_agent.c: asynchronous agents and proxy fences in the race
 * detector (PTX ISA 8.9.5, proxy-preserved base causality order).
 */
#include "race.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

enum { WARPS = 3, AGENTS = 4, BYTES = 1024 };
static const uint32_t live[WARPS] = {~0u, ~0u, ~0u};

static int begin(void **state)
{
    struct vg_race *r = vg_race_new();
    *state = r;
    return !r || !vg_race_begin_agents(r, WARPS, live, BYTES, AGENTS);
}

static int end(void **state)
{
    vg_race_free(*state);
    return 0;
}

/* Lane 0 of a warp accesses 16 bytes at off; false: a race. */
static bool access(struct vg_race *r, unsigned warp, enum vg_race_kind kind,
                   uint32_t off, bool record)
{
    uint32_t at[32] = {off};
    struct vg_race_op op = {
        .warp = warp, .mask = 1, .kind = kind, .size = 16, .off = at};
    struct vg_race_hit hit;
    return record ? vg_race_access(r, &op, &hit)
                  : vg_race_check(r, &op, &hit);
}

/* Everything that warp `from` knows reaches warp `to`. */
static void hand_over(struct vg_race *r, unsigned from, unsigned to)
{
    uint32_t *clock = calloc(vg_race_clock_words(r), sizeof *clock);
    assert_non_null(clock);
    vg_race_release(r, from, ~0u, clock);
    vg_race_acquire(r, to, ~0u, clock);
    free(clock);
}

static bool proxied(struct vg_race *r, unsigned warp, uint32_t off)
{
    unsigned thread;
    uint32_t inst;
    return vg_race_proxied(r, warp, off, 16, &thread, &inst);
}

static void an_agent_is_known_to_who_waited(void **state)
{
    struct vg_race *r = *state;
    uint32_t epoch = vg_race_agent_epoch(r, 2);
    vg_race_agent_step(r, 2);
    assert_false(vg_race_agent_known(r, 0, 2, epoch));
    vg_race_agent_learn(r, 0, 2, epoch);
    assert_true(vg_race_agent_known(r, 0, 2, epoch));
    assert_false(vg_race_agent_known(r, 0, 2, vg_race_agent_epoch(r, 2)));
    assert_false(vg_race_agent_known(r, 0, 1, epoch));
    assert_false(vg_race_agent_known(r, 1, 2, epoch));
}

static void knowledge_of_agents_travels_with_clocks(void **state)
{
    struct vg_race *r = *state;
    uint32_t *clock = calloc(vg_race_clock_words(r), sizeof *clock);
    uint32_t epoch = vg_race_agent_epoch(r, 3);
    assert_non_null(clock);
    vg_race_agent_publish(r, 3, epoch, clock);
    vg_race_acquire(r, 1, ~0u, clock);
    free(clock);
    assert_true(vg_race_agent_known(r, 1, 3, epoch));
    assert_false(vg_race_agent_known(r, 2, 3, epoch));
    hand_over(r, 1, 2);
    assert_true(vg_race_agent_known(r, 2, 3, epoch));
}

static void a_fence_counts_only_after_the_write(void **state)
{
    struct vg_race *r = *state;
    vg_race_proxy_fence(r, 0, ~0u);
    assert_true(access(r, 0, VG_RACE_WRITE, 64, true));
    assert_false(proxied(r, 0, 64));
    hand_over(r, 0, 1);
    assert_false(proxied(r, 1, 64));
}

static void a_writers_fence_travels_with_its_release(void **state)
{
    struct vg_race *r = *state;
    assert_true(access(r, 0, VG_RACE_WRITE, 64, true));
    vg_race_proxy_fence(r, 0, ~0u);
    assert_true(proxied(r, 0, 64));
    assert_false(proxied(r, 1, 64));
    hand_over(r, 0, 1);
    hand_over(r, 1, 2);
    assert_true(proxied(r, 2, 64));
}

static void a_fence_after_the_acquire_counts_too(void **state)
{
    struct vg_race *r = *state;
    assert_true(access(r, 0, VG_RACE_WRITE, 64, true));
    hand_over(r, 0, 1);
    vg_race_proxy_fence(r, 1, ~0u);
    assert_true(proxied(r, 1, 64));
    assert_false(proxied(r, 0, 64));
}

static void a_fence_by_another_lane_does_not_count(void **state)
{
    struct vg_race *r = *state;
    assert_true(access(r, 0, VG_RACE_WRITE, 64, true));
    vg_race_proxy_fence(r, 0, 2);
    assert_false(proxied(r, 0, 64));
    vg_race_warp_sync(r, 0, ~0u);
    vg_race_proxy_fence(r, 0, 2);
    assert_true(proxied(r, 0, 64));
}

static void reads_are_fenced_alike(void **state)
{
    struct vg_race *r = *state;
    assert_true(access(r, 0, VG_RACE_READ, 128, true));
    assert_false(vg_race_reads_proxied(r, 1, 128, 16));
    vg_race_proxy_fence(r, 0, ~0u);
    hand_over(r, 0, 1);
    assert_true(vg_race_reads_proxied(r, 1, 128, 16));
}

static void a_check_leaves_no_trace(void **state)
{
    struct vg_race *r = *state;
    assert_true(access(r, 0, VG_RACE_WRITE, 0, false));
    assert_true(access(r, 1, VG_RACE_WRITE, 0, true));
    assert_false(access(r, 0, VG_RACE_READ, 0, false));
    assert_false(access(r, 0, VG_RACE_READ, 0, false));
}

static void forgotten_bytes_have_no_history(void **state)
{
    struct vg_race *r = *state;
    assert_true(access(r, 0, VG_RACE_WRITE, 0, true));
    assert_true(access(r, 0, VG_RACE_WRITE, 16, true));
    vg_race_forget(r, 0, 16);
    assert_true(access(r, 1, VG_RACE_WRITE, 0, true));
    assert_false(access(r, 1, VG_RACE_WRITE, 16, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
        TEST(an_agent_is_known_to_who_waited),
        TEST(knowledge_of_agents_travels_with_clocks),
        TEST(a_fence_counts_only_after_the_write),
        TEST(a_writers_fence_travels_with_its_release),
        TEST(a_fence_after_the_acquire_counts_too),
        TEST(a_fence_by_another_lane_does_not_count),
        TEST(reads_are_fenced_alike),
        TEST(a_check_leaves_no_trace),
        TEST(forgotten_bytes_have_no_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
