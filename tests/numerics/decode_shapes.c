/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_shapes.c: the cases of the decode kernels.
 *
 * The quick set is small enough for 128 heads on a virtual GPU; what it lacks
 * in length, splits and tokens the full set has.  Lengths sit around the sizes
 * of tiles (16, 32, 64 keys) and pages.
 *
 * What each group is there for:
 *   lengths         every remainder of a tile and a page; empty requests
 *   tokens          several queries per request, each with its own last key
 *   short requests  fewer keys than queries: refused, the others unharmed
 *   splits          from one block to more blocks than tiles
 *   foreign pages   poison in every page that is not the request's
 *   block table     garbage behind the used entries; ids below 0
 *   strides, far    layouts, and offsets beyond 2^31 and 2^32
 *   last keys       lengths at the end of 32 bits
 *   growing, spikes the running maximum has to move, and the sums with it
 *   constant        a key left out or counted twice shows in its column
 *   huge scores     exponentials of differences only
 *   verify          the newest key must be seen
 *   replay, graph   nothing may be left over from the step before
 *   alone           a request's bits do not depend on its company
 *   capacity        a work list that does not fit is refused as a whole
 */
#include "decode.h"

#define LENGTHS DECODE_LENGTHS

const struct decode_shape decode_shapes[] = {
    {.group = "lengths", LENGTHS(0, 1, 15, 16, 17, 63, 64, 65), .q_len = 1,
     .ctas = 5},
    {.group = "lengths", LENGTHS(130, 33), .q_len = 1, .ctas = 3},
    {.group = "lengths", LENGTHS(1000, 0, 130), .q_len = 1, .ctas = 7,
     .full_only = true},
    {.group = "lengths", LENGTHS(4097, 65), .q_len = 1, .ctas = 16,
     .min_tiles = 8, .full_only = true},
    {.group = "lengths", LENGTHS(0, 0, 0), .q_len = 2, .ctas = 4},

    {.group = "tokens", LENGTHS(2, 3, 40), .q_len = 2, .ctas = 4},
    {.group = "tokens", LENGTHS(65, 0, 3), .q_len = 3, .ctas = 2},
    {.group = "tokens", LENGTHS(64, 4, 7), .q_len = 4, .ctas = 5,
     .full_only = true},
    {.group = "tokens", LENGTHS(130, 17, 65, 8), .q_len = 8, .ctas = 7,
     .full_only = true},
    {.group = "tokens", LENGTHS(1000, 16), .q_len = 16, .ctas = 9,
     .full_only = true},
    {.group = "short requests", LENGTHS(1, 3, 34, 0, 2), .q_len = 3,
     .ctas = 3},
    {.group = "short requests", LENGTHS(1, 40, 1), .q_len = 2, .ctas = 2,
     .split_tiles = 1},

    {.group = "splits", LENGTHS(97, 0, 40), .q_len = 1, .ctas = 1},
    {.group = "splits", LENGTHS(97), .q_len = 1, .ctas = 2},
    {.group = "splits", LENGTHS(97, 65), .q_len = 1, .ctas = 7},
    {.group = "splits", LENGTHS(70, 1), .q_len = 2, .ctas = 32},
    {.group = "splits", LENGTHS(97, 1), .q_len = 1, .ctas = 7,
     .min_tiles = 2},
    {.group = "splits", LENGTHS(130), .q_len = 1, .ctas = 3,
     .split_tiles = 1},
    {.group = "splits", LENGTHS(1000), .q_len = 1, .ctas = 3,
     .full_only = true},
    {.group = "splits", LENGTHS(1000, 65), .q_len = 1, .ctas = 7,
     .full_only = true},
    {.group = "splits", LENGTHS(1000, 65), .q_len = 2, .ctas = 32,
     .full_only = true},
    {.group = "splits", LENGTHS(1000, 65, 0), .q_len = 1, .ctas = 6,
     .split_tiles = 1, .full_only = true},
    {.group = "splits", LENGTHS(4097, 130), .q_len = 1, .ctas = 5,
     .split_tiles = 40, .full_only = true},

    {.group = "foreign pages", LENGTHS(13, 64, 1), .q_len = 1, .ctas = 2,
     .flags = NUM_ALL_POISONS},
    {.group = "foreign pages", LENGTHS(33, 2), .q_len = 2, .ctas = 5,
     .q = NUM_PADDED, .out = NUM_PADDED, .pool = NUM_PADDED,
     .flags = NUM_ALL_POISONS},
    {.group = "block table", LENGTHS(65, 16, 0), .q_len = 1, .ctas = 3,
     .flags = DECODE_TAILS},
    {.group = "block table", LENGTHS(130, 40, 64), .q_len = 1, .ctas = 3,
     .flags = NUM_HOLES | DECODE_TAILS},

    {.group = "strides", LENGTHS(3, 18), .q_len = 2, .ctas = 3,
     .q = NUM_PADDED, .out = NUM_SWAPPED, .lse = NUM_TIGHT,
     .pool = NUM_INTERLEAVED},
    {.group = "strides", LENGTHS(20, 5), .q_len = 2, .ctas = 2,
     .q = NUM_SWAPPED, .out = NUM_PADDED, .lse = NUM_SWAPPED,
     .pool = NUM_SWAPPED, .split_tiles = 1},
    {.group = "strides", LENGTHS(33), .q_len = 3, .ctas = 2,
     .q = NUM_INTERLEAVED, .out = NUM_INTERLEAVED, .lse = NUM_PADDED,
     .pool = NUM_PADDED, .full_only = true},
    {.group = "far", LENGTHS(20, 5, 33), .q_len = 1, .ctas = 4,
     .q = NUM_FAR_OUTER, .out = NUM_FAR_OUTER, .lse = NUM_FAR_OUTER,
     .pool = NUM_FAR_OUTER},
    {.group = "far", LENGTHS(3, 34), .q_len = 1, .ctas = 3,
     .q = NUM_FAR_INNER, .out = NUM_FAR_INNER, .lse = NUM_FAR_INNER,
     .pool = NUM_FAR_INNER},
    {.group = "far", LENGTHS(40, 70), .q_len = 1, .ctas = 2,
     .flags = NUM_FAR_IDS},
    {.group = "last keys", LENGTHS(70), .q_len = 1, .ctas = 2,
     .flags = DECODE_LAST_KEYS},
    {.group = "last keys", LENGTHS(3, 40), .q_len = 2, .ctas = 3,
     .flags = DECODE_LAST_KEYS, .full_only = true},

    {.group = "growing", LENGTHS(130, 40), .q_len = 1, .ctas = 3,
     .values = DECODE_GROWING},
    {.group = "growing", LENGTHS(1000), .q_len = 2, .ctas = 5,
     .values = DECODE_GROWING, .full_only = true},
    {.group = "spikes", LENGTHS(130, 75), .q_len = 1, .ctas = 3,
     .values = DECODE_SPIKES},
    {.group = "spikes", LENGTHS(1000, 300), .q_len = 3, .ctas = 5,
     .values = DECODE_SPIKES, .full_only = true},
    {.group = "constant", LENGTHS(130, 33), .q_len = 1, .ctas = 3,
     .values = DECODE_CONSTANT},
    {.group = "constant", LENGTHS(4097), .q_len = 1, .ctas = 7,
     .values = DECODE_CONSTANT, .full_only = true},
    {.group = "huge scores", LENGTHS(130, 64, 1), .q_len = 1, .ctas = 3,
     .values = DECODE_HUGE},
    {.group = "huge scores", LENGTHS(1000), .q_len = 1, .ctas = 2,
     .values = DECODE_HUGE, .full_only = true},
    {.group = "verify", LENGTHS(65, 2), .q_len = 2, .ctas = 2,
     .values = DECODE_VERIFY},
    {.group = "verify", LENGTHS(4, 33), .q_len = 4, .ctas = 3,
     .values = DECODE_VERIFY},
    {.group = "two keys", LENGTHS(2), .q_len = 1, .ctas = 1,
     .values = DECODE_TWO_KEYS},

    {.group = "no lse", LENGTHS(40, 5, 0), .q_len = 1, .ctas = 3,
     .flags = DECODE_NO_LSE},
    {.group = "replay", LENGTHS(65, 0, 97, 1), .q_len = 1, .ctas = 4,
     .flags = DECODE_REPLAY},
    {.group = "replay", LENGTHS(65, 2, 0), .q_len = 1, .ctas = 4,
     .split_tiles = 1, .flags = DECODE_REPLAY},
    {.group = "graph", LENGTHS(34, 0, 66), .q_len = 1, .ctas = 4,
     .flags = DECODE_REPLAY | DECODE_GRAPH},
    {.group = "alone", LENGTHS(1, 40, 97, 64, 33), .q_len = 1, .ctas = 4,
     .split_tiles = 1, .flags = NUM_WINDOWS},
    {.group = "alone", LENGTHS(3, 130, 1000, 2, 40), .q_len = 2, .ctas = 7,
     .split_tiles = 2, .flags = NUM_WINDOWS, .full_only = true},
    {.group = "capacity", LENGTHS(97, 65), .q_len = 1, .ctas = 3,
     .flags = DECODE_FEW_ITEMS},
    {.group = "capacity", LENGTHS(65, 0, 97), .q_len = 1, .ctas = 7,
     .flags = DECODE_FEW_SLOTS},
    {.group = "capacity", LENGTHS(97, 65), .q_len = 2, .ctas = 2,
     .split_tiles = 1, .flags = DECODE_FEW_ITEMS},
};

/* Capacities in invariant mode for lengths that no memory could hold. */
static const int endless[] = {2147483647, 5, 2147483647, 2147483646};

const struct decode_list_shape decode_list_shapes[] = {
    {.group = "balanced", .batch = 1, .longest = 4097, .q_len = 1, .rows = 64,
     .keys = 32, .ctas = 108},
    {.group = "balanced", .batch = 7, .longest = 300, .q_len = 2, .rows = 16,
     .keys = 64, .ctas = 13},
    {.group = "balanced", .batch = 33, .longest = 1000, .q_len = 4,
     .rows = 32, .keys = 16, .ctas = 108},
    {.group = "balanced", .batch = 300, .longest = 9000, .q_len = 1,
     .rows = 64, .keys = 32, .ctas = 132},
    {.group = "balanced", .batch = 5, .longest = 40, .q_len = 8, .rows = 16,
     .keys = 32, .ctas = 1},
    {.group = "balanced", .batch = 4000, .longest = 60, .q_len = 1,
     .rows = 64, .keys = 32, .ctas = 170, .full_only = true},
    {.group = "balanced", .batch = 70000, .longest = 2000, .q_len = 1,
     .rows = 64, .keys = 32, .ctas = 108, .full_only = true},
    {.group = "few tiles", .batch = 3, .longest = 500, .q_len = 1, .rows = 64,
     .keys = 32, .ctas = 108, .min_tiles = 8},
    {.group = "few tiles", .batch = 1, .longest = 2, .q_len = 1, .rows = 64,
     .keys = 32, .ctas = 170, .min_tiles = 8},
    {.group = "invariant", .batch = 9, .longest = 3000, .q_len = 1,
     .rows = 64, .keys = 32, .ctas = 108, .split_tiles = 3},
    {.group = "invariant", .batch = 130, .longest = 500, .q_len = 3,
     .rows = 16, .keys = 64, .ctas = 57, .split_tiles = 1},
    {.group = "invariant", .batch = 5000, .longest = 500, .q_len = 1,
     .rows = 64, .keys = 32, .ctas = 108, .split_tiles = 4,
     .full_only = true},
    {.group = "longest", .batch = 4, .lengths = endless, .q_len = 3,
     .rows = 64, .keys = 16, .ctas = 300},
    {.group = "longest", .batch = 4, .lengths = endless, .q_len = 1,
     .rows = 32, .keys = 32, .ctas = 5, .split_tiles = 1 << 20},
    {.group = "capacity", .batch = 6, .longest = 900, .q_len = 1, .rows = 64,
     .keys = 32, .ctas = 40, .item_capacity = 7},
    {.group = "capacity", .batch = 6, .longest = 900, .q_len = 1, .rows = 64,
     .keys = 32, .ctas = 40, .slot_capacity = 3},
    {.group = "capacity", .batch = 6, .longest = 900, .q_len = 1, .rows = 64,
     .keys = 32, .ctas = 4, .split_tiles = 1, .item_capacity = 1,
     .slot_capacity = 1},
    {.group = "capacity", .batch = 4, .lengths = endless, .q_len = 1,
     .rows = 64, .keys = 16, .ctas = 8, .split_tiles = 1,
     .item_capacity = 100, .slot_capacity = 100},
};

/* Slots of the units, dealt out in turn: none, one, the sizes around a warp,
 * and hundreds. */
static const int two[] = {2, 0, 3}, ladder[] = {1, 2, 31, 32, 33, 0},
                 many[] = {300, 1, 161}, one[] = {1}, none[] = {0};

#define SPLITS(list)                                                         \
    .splits = (list), .kinds = sizeof(list) / sizeof((list)[0])

const struct decode_merge_shape decode_merge_shapes[] = {
    {.group = "splits", SPLITS(two), .batch = 3, .q_len = 1, .rows = 64},
    {.group = "splits", SPLITS(ladder), .batch = 2, .q_len = 2, .rows = 16},
    {.group = "splits", SPLITS(many), .batch = 1, .q_len = 1, .rows = 16},
    {.group = "splits", SPLITS(one), .batch = 2, .q_len = 3, .rows = 32},
    {.group = "splits", SPLITS(many), .batch = 3, .q_len = 4, .rows = 64,
     .full_only = true},
    {.group = "empty slots", SPLITS(ladder), .batch = 2, .q_len = 1,
     .rows = 32, .flags = NUM_EMPTY_LSE | NUM_ALL_POISONS},
    {.group = "huge lse", SPLITS(ladder), .batch = 1, .q_len = 1, .rows = 64,
     .flags = NUM_HUGE_LSE},
    {.group = "huge lse", SPLITS(two), .batch = 2, .q_len = 2, .rows = 16,
     .flags = NUM_HUGE_LSE | NUM_EMPTY_LSE},
    {.group = "strides", SPLITS(two), .batch = 3, .q_len = 2, .rows = 16,
     .out = NUM_SWAPPED, .lse = NUM_PADDED},
    {.group = "strides", SPLITS(two), .batch = 2, .q_len = 3, .rows = 64,
     .out = NUM_PADDED, .lse = NUM_SWAPPED},
    {.group = "far", SPLITS(two), .batch = 3, .q_len = 1, .rows = 16,
     .out = NUM_FAR_OUTER, .lse = NUM_FAR_INNER},
    {.group = "no lse", SPLITS(two), .batch = 2, .q_len = 1, .rows = 32,
     .flags = DECODE_NO_LSE},
    {.group = "nothing split", SPLITS(none), .batch = 2, .q_len = 2,
     .rows = 64},
    {.group = "capacity", SPLITS(two), .batch = 2, .q_len = 1, .rows = 64,
     .status = 1},
    {.group = "capacity", SPLITS(two), .batch = 2, .q_len = 1, .rows = 64,
     .status = 2},
};

const int decode_shape_count = sizeof(decode_shapes) / sizeof(decode_shapes[0]);
const int decode_list_shape_count =
    sizeof(decode_list_shapes) / sizeof(decode_list_shapes[0]);
const int decode_merge_shape_count =
    sizeof(decode_merge_shapes) / sizeof(decode_merge_shapes[0]);
