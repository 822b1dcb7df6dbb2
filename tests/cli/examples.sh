#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# examples.sh: the example programs on the virtual GPU.  Each compares its
# result with a reference of its own and exits with 1 if they differ.
. "$(dirname "$0")/lib.sh"

MLA_DRIVER=${MLA_DRIVER:-$BUILD/libvgpu.so}
MLA_CACHE=$work/cache
export MLA_DRIVER MLA_CACHE
small_spec >tiny.yaml

run "$BUILD/examples/serve-start" tiny.yaml
expect_exit 0 "serve-start: from a spec to a decode step"
expect_stdout '^check .*: ok$' "with the reference's result"
entries=$(find "$work/cache" -mindepth 1 -maxdepth 1 -type d | wc -l)
ok "its kernels are in the cache" [ "$entries" -gt 5 ]
find "$work/cache" -type f -exec stat -c '%n %i %Y' {} + | sort >before

run "$BUILD/examples/serve-start" tiny.yaml
expect_exit 0 "a second start"
find "$work/cache" -type f -exec stat -c '%n %i %Y' {} + | sort >after
ok "compiles nothing" cmp before after
run env MLA_CACHE= "$BUILD/examples/serve-start" tiny.yaml
expect_exit 0 "a start without a cache"
run env "MLA_DRIVER=$work/none.so" "$BUILD/examples/serve-start" tiny.yaml
expect_exit 1 "no driver: 1"
expect_stderr 'none\.so' "and it is named"
run "$BUILD/examples/serve-start" none.yaml
expect_exit 1 "no spec: 1"
expect_stderr 'none\.yaml.*error' "with the generator's message"

run "$BUILD/examples/vendored"
expect_exit 0 "vendored: the same from a bundle alone"
expect_stdout ': ok$' "with the reference's result"
ok "vendored needs libc alone" sh -c \
    "! readelf -d '$BUILD/examples/vendored' | grep NEEDED |
        grep -vE 'lib(c|m|dl)\.so'"
ok "and has nothing of ours in it but kernels" sh -c \
    "! nm '$BUILD/examples/vendored' | grep -E ' T mla(gen)?_' |
        grep -v _rope_table"

finish
