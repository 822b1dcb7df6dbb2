#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh: what `make install` leaves is enough to build against: the shared
# library with its names and SONAME, pkg-config's file, the headers.
. "$(dirname "$0")/lib.sh"

version=$(cat "$root/VERSION")
major=${version%%.*}
prefix=$work/dest/opt/mla
run make -s -C "$root" B="$BUILD" install "DESTDIR=$work/dest" PREFIX=/opt/mla
expect_exit 0 "make install"
ok "the library has its version in its name" \
    [ -f "$prefix/lib/libmla.so.$version" ]
ok "and is reached by its SONAME" [ -e "$prefix/lib/libmla.so.$major" ]
run readelf -d "$prefix/lib/libmla.so"
expect_stdout "SONAME.*\[libmla\.so\.$major\]" "which has the ABI's number"

PKG_CONFIG_PATH=$prefix/lib/pkgconfig
PKG_CONFIG_SYSROOT_DIR=$work/dest
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
run pkg-config --modversion mla
expect_stdout "^$version\$" "pkg-config knows the version"
cat >use.c <<'C'
#include <mla.h>
#include <stdio.h>
int main(void)
{
    mla_context *ctx;
    printf("%s\n", mla_version_text());
    return mla_context_create(NULL, &ctx) != MLA_OK;
}
C
# shellcheck disable=SC2046  # a list of flags
run "${CC:-cc}" use.c $(pkg-config --cflags --libs mla) -o use
expect_exit 0 "a program builds by pkg-config alone"
run env "LD_LIBRARY_PATH=$prefix/lib" ./use
expect_stdout "^$version\$" "and runs; header, library and VERSION agree"

echo '#include <mlagen.h>' >gen.c
run "${CC:-cc}" -std=c11 "-I$prefix/include/mlagen" -fsyntax-only gen.c
expect_exit 0 "the generator's header has all that it includes"
run "$prefix/bin/mlagen" --version
expect_stdout "^mlagen $version\$" "the command runs from there"

finish
