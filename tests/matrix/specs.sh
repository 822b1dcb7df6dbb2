#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every spec in specs/: generated and compiled for every architecture it names
# without a spill, then every kernel proven on the virtual GPU, on one device
# per architecture family.  CASES=full widens the numeric cases.
cd "$(dirname "$0")/../.." || exit 1
profiles="a100 rtx4090 rtx5090 h200"
cases=${CASES:-quick}
work=${WORK:-build/matrix}
n=0
bad=0
log=build/matrix.log

# row NAME COMMAND...: ok when the command succeeds; its output on failure
row() {
    name=$1
    shift
    n=$((n + 1))
    if "$@" >"$log" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        tail -n 40 "$log" | sed 's/^/# /'
        bad=1
    fi
}

unchanged() {
    build/mlagen build "$1" -o "$2" >"$log" &&
        grep -q ' 0 written' "$log"
}

on_profile() {
    VGPU_DEVICE=$1 build/mlagen run-check "$2" --cases "$cases"
}

mkdir -p "$work"
specs=$(ls specs/*.yaml | grep -vE 'specs/(schema|arch|arch\.schema)\.yaml')
echo "1..$(($(echo "$specs" | wc -l) * 7))"
for spec in $specs; do
    model=$(basename "$spec" .yaml)
    dir=$work/$model
    row "$model: builds for every architecture, zero spills" \
        build/mlagen build "$spec" -o "$dir"
    row "$model: a second build writes nothing" unchanged "$spec" "$dir"
    row "$model: verifies" build/mlagen verify "$dir"
    for p in $profiles; do
        row "$model: right on $p" on_profile "$p" "$dir"
    done
done
exit $bad
