#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# House style that a machine can see: licence line, line width, tabs, and that
# no developer's machine shows through.
cd "$(dirname "$0")/../.." || exit 1
n=0
bad=0

# none NAME OUTPUT: ok when the list of offenders is empty
none() {
    n=$((n + 1))
    if [ -z "$2" ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        echo "$2" | sed 's/^/# /'
        bad=1
    fi
}

c_files=$(find gen runtime tests -name '*.[ch]')
code="$c_files $(find templates -name '*.lua' -o -name '*.tpl')
$(find specs -name '*.yaml') $(find scripts tests .ci -name '*.sh') Makefile"

echo "1..4"
# shellcheck disable=SC2086  # file names without blanks
none "every source file names its licence" \
    "$(grep -L 'SPDX-License-Identifier' $code)"
# shellcheck disable=SC2086
none "C lines have at most 80 columns" \
    "$(grep -nE '^.{81,}$' $c_files | cut -c1-120)"
# shellcheck disable=SC2086
none "no tabs in C, Lua and templates" "$(grep -nP '\t' $c_files \
    $(find templates -name '*.lua' -o -name '*.tpl') | cut -c1-120)"
# shellcheck disable=SC2086
none "no path of a developer's machine" \
    "$(grep -nE '(/home/|/root/|/tmp/mlagen|/work/)' $code ./*.md docs/*.md |
        grep -v 'tests/house/text.sh' | cut -c1-120)"
exit $bad
