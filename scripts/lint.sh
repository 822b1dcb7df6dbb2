#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Static checks that need nothing built: house style, shell scripts, Lua syntax.
# A tool that is not installed is named and counts as a failure, so that a
# green lint means that everything ran.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0

have() {
    command -v "$1" >/dev/null 2>&1 && return 0
    echo "lint: $1 is not installed" >&2
    bad=1
    return 1
}

# C: the compiler's warnings are errors already; this is what it cannot see.
sh tests/house/text.sh >/dev/null || { sh tests/house/text.sh; bad=1; }
sh tests/house/rooms.sh >/dev/null || { sh tests/house/rooms.sh; bad=1; }
if have shellcheck; then
    # shellcheck disable=SC2046
    # lib.sh sets what its users read; file names here have no blanks
    shellcheck -S warning -e SC2154,SC2046,SC2010 $(find scripts tests -name '*.sh') .ci/run || bad=1
fi
if have luac5.4; then
    find templates -name '*.lua' -exec luac5.4 -p {} \; || bad=1
fi
[ $bad = 0 ] && echo "lint: clean"
exit $bad
