#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mla_layer.sh: the layer through its public face: what it refuses, by name,
# what workspace it asks for, and allocations that fail.
. "$(dirname "$0")/lib.sh"

MLA_DRIVER=${MLA_DRIVER:-$BUILD/libvgpu.so}
VGPU_DEVICE=${VGPU_DEVICE:-a100}
export MLA_DRIVER VGPU_DEVICE

small_spec >tiny.yaml
echo "q_lora_rank: 24" >>tiny.yaml
run mlagen gen tiny.yaml -o out
expect_exit 0 "a set with query compression is generated"
run "${CC:-cc}" -std=c99 -Wall -Wextra -Wno-missing-field-initializers \
    -Werror "$root/tests/cli/mla_layer.c" -I"$root/runtime/include" \
    "$BUILD/libmla.so" -lm -o layer
expect_exit 0 "a program that uses the layer compiles as C99"
cp "$BUILD/libmla.so" libmla.so.0
run env LD_LIBRARY_PATH=. ./layer out
expect_exit 0 "and runs"
while read -r line; do
    case $line in *": ok") ok "${line%: ok}" true ;; *WRONG) ok "$line" false ;; esac
done <"$stdout"
expect_stdout "^0 wrong$" "nothing is wrong"

finish
