#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Golden text: what two small specs become, line by line, and a hash of every
# family of kernels that the shipped specs become.  A change here is a change of what users
# get: read the difference, then accept it with
#
#     GOLDEN=refresh sh tests/cli/golden.sh
#
# The lines that name the generator and the template set change with every
# edit anywhere and are left out.
cd "$(dirname "$0")/../.." || exit 1
golden=tests/golden
work=build/golden
n=0
bad=0
rm -rf "$work"
mkdir -p "$work"

# Takes the lines with versions and hashes out of every text of a folder.  The
# .txt keeps the emitted C apart from the sources of this tree.
normalise() {
    rm -f "$1/manifest.json"
    find "$1" -type f -exec sed -i -E \
        '/^(\/\/| \*) (generator|spec|templates) +(mlagen|sha256) /d' {} +
    for f in "$1"/*.[ch]; do
        mv "$f" "$f.txt"
    done
}

# One line per header, descriptor and kernel family (all heads, all archs).
hashes() {
    m=$(basename "$1")
    id=$(echo "$m" | tr '.-' '__')
    (
        cd "$1" || exit 1
        sha256sum ./*.txt
        for family in $(ls src | sed "s/_${id}_.*//" | LC_ALL=C sort -u); do
            sum=$(cat src/"${family}_${id}"_* | sha256sum)
            echo "${sum%% *}  $family"
        done
    ) | sed "s|  \(\./\)\?|  $m/|"
}

# report NAME STATUS LOG
report() {
    n=$((n + 1))
    if [ "$2" = 0 ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        head -n 40 "$3" | sed 's/^/# /'
        bad=1
    fi
}

for spec in "$golden"/*.yaml; do
    m=$(basename "$spec" .yaml)
    build/mlagen gen "$spec" -o "$work/$m" >"$work/log" 2>&1
    report "$m: generates" $? "$work/log"
    normalise "$work/$m"
    if [ "$GOLDEN" = refresh ]; then
        rm -rf "${golden:?}/$m"
        cp -r "$work/$m" "$golden/$m"
    fi
    diff -ru "$golden/$m" "$work/$m" >"$work/log" 2>&1
    report "$m: text is the golden text" $? "$work/log"
done

for spec in specs/*.yaml; do
    m=$(basename "$spec" .yaml)
    case $m in schema | arch | arch.schema) continue ;; esac
    build/mlagen gen "$spec" -o "$work/all/$m" >"$work/log" 2>&1
    report "$m: generates" $? "$work/log"
    normalise "$work/all/$m"
    hashes "$work/all/$m" >>"$work/hashes"
done
[ "$GOLDEN" = refresh ] && cp "$work/hashes" "$golden/hashes"
diff -u "$golden/hashes" "$work/hashes" >"$work/log" 2>&1
report "every family of every spec has its golden hash" $? "$work/log"
echo "1..$n"
exit $bad
