#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# decode_step.sh: the decode step of libmla on a driver, captured once and
# replayed with other lengths, against attention in double precision: with the
# portable kernels, and with those for Hopper, whose workers are clusters.
. "$(dirname "$0")/lib.sh"

MLA_DRIVER=${MLA_DRIVER:-$BUILD/libvgpu.so}
export MLA_DRIVER
cp "$BUILD/libmla.so" libmla.so.0

# generate NAME HEADS RANK ARCH
generate() {
    small_spec | sed -e "s/^heads:.*/heads: $2/" \
        -e "s/^kv_lora_rank:.*/kv_lora_rank: $3/" -e "s/sm_80/$4/" >"$1.yaml"
    echo "decode: {max_q_len: 8}" >>"$1.yaml"
    run mlagen gen "$1.yaml" -o "$1"
    expect_exit 0 "$1: a set is generated"
    run "${CC:-cc}" -std=c99 -Wall -Wextra -Wno-missing-field-initializers \
        -Werror -O2 -DHEADS="$2" -DLATENT="$3" "$root/tests/cli/decode_step.c" \
        -I"$root/runtime/include" "$BUILD/libmla.so" -lm -o "$1.bin"
    expect_exit 0 "$1: a program that decodes compiles as C99"
}

# decode NAME DEVICE
decode() {
    run env LD_LIBRARY_PATH=. VGPU_DEVICE="$2" "./$1.bin" "$1"
    expect_exit 0 "$1: it runs"
    for what in "not prepared" "nothing to do" "the capture lives on"; do
        expect_stdout "^$what: ok$" "$1: before mla_decode_prepare: $what"
    done
    for q_len in 1 3 8 11; do
        for mode in balanced "few workers" invariant "wide splits"; do
            expect_stdout "^$mode, q_len $q_len, replays: ok$" \
                "$1: $mode, $q_len queries: every replay is right"
            expect_stdout "^$mode, q_len $q_len, outgrown: ok$" \
                "$1: $mode, $q_len queries: no length is wrong in silence"
        done
        expect_stdout "^q_len $q_len, bits .*: ok$" \
            "$1: invariant, $q_len queries: the batch shows in no bit"
    done
    expect_stdout "^balanced, q_len 3, starved: ok$" \
        "$1: a request shorter than its queries is named"
    expect_stdout "^0 wrong$" "$1: and nothing else is wrong"
}

generate portable 4 32 sm_80
ok "it has tiles of 16 and 32 rows" sh -c \
    "ls portable/src/*mqa_decode_m16* portable/src/*mqa_decode_m32*"
decode portable a100
generate hopper 16 128 sm_90a
ok "it has tiles of a block and of a cluster" sh -c \
    "ls hopper/src/*mqa_decode_m64* hopper/src/*mqa_decode_m128*"
decode hopper h200

finish
