#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# mla_header.sh: the runtime's public header is plain C99 and C++, needs no
# CUDA, and the library exports exactly what it declares.
. "$(dirname "$0")/lib.sh"

header=$root/runtime/include/mla.h
cat >use.c <<'C'
#include "mla.h"
int main(void)
{
    mla_options options = MLA_OPTIONS_INIT;
    mla_context *ctx;
    return mla_context_create(&options, &ctx) != MLA_OK ||
           mla_version() != MLA_VERSION_NUMBER;
}
C
cp use.c use.cpp

run "${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror \
    -I"$root/runtime/include" -fsyntax-only use.c
expect_exit 0 "mla.h compiles as C99 -pedantic"
run "${CXX:-c++}" -std=c++11 -pedantic -Wall -Wextra -Werror \
    -I"$root/runtime/include" -fsyntax-only use.cpp
expect_exit 0 "mla.h compiles as C++11 -pedantic"
ok "mla.h includes nothing but stddef and stdint" \
    [ "$(grep -c '^#include' "$header")" -eq 2 ]

run "${CC:-cc}" use.c -I"$root/runtime/include" "$BUILD/libmla.so" -o use
expect_exit 0 "a program links with libmla.so alone"
cp "$BUILD/libmla.so" libmla.so.0
run env LD_LIBRARY_PATH=. ./use
expect_exit 0 "and runs where there is no GPU"

nm -D --defined-only "$BUILD/libmla.so" | awk '$2 == "T" { print $3 }' |
    sort >exported
grep -ohE '\bmla_[a-z0-9_]+\(' "$header" | tr -d '(' | sort -u >named
ok "every exported name is in the header" \
    [ -z "$(comm -23 exported named)" ]
expect_lines exported "$(grep -c '^MLA_API' "$header")" \
    "and every declaration is exported"
ok "libmla.so exports functions and nothing else" \
    [ "$(nm -D --defined-only "$BUILD/libmla.so" | grep -vc ' T ')" -eq 0 ]
ok "libmla.so needs libc and its parts only" sh -c \
    "! readelf -d '$BUILD/libmla.so' | grep NEEDED | grep -vE 'lib(c|m|dl|pthread)\.so'"

finish
