#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every spec in specs/: generated and compiled for every architecture it names
# without a spill, then every kernel proven on the virtual GPU.  The specs take
# turns with one device per family of architectures; CASES=full proves each on
# all of them, with more cases.
cd "$(dirname "$0")/../.." || exit 1
devices="a100 rtx4090 rtx5090 h200"
cases=${CASES:-quick}
work=${WORK:-build/matrix}
n=0
bad=0
log=$work/log

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
    said=$(build/mlagen build "$1" -o "$2") || return 1
    echo "$said"
    case $said in *': 0 written'*) ;; *) return 1 ;; esac
}

on_device() {
    VGPU_DEVICE=$1 build/mlagen run-check "$2" --cases "$cases" -q
}

# turn COUNT: the devices of the COUNT-th spec
turn() {
    if [ "$cases" = full ]; then
        echo "$devices"
    else
        echo "$devices" | cut -d' ' -f$(($1 % 4 + 1))
    fi
}

mkdir -p "$work"
count=0
for spec in specs/*.yaml; do
    model=$(basename "$spec" .yaml)
    case $model in schema | arch | arch.schema) continue ;; esac
    dir=$work/$model
    row "$model: builds for every architecture, zero spills" \
        build/mlagen build "$spec" -o "$dir"
    row "$model: a second build writes nothing" unchanged "$spec" "$dir"
    row "$model: verifies" build/mlagen verify "$dir"
    for device in $(turn $count); do
        row "$model: right on $device" on_device "$device" "$dir"
    done
    count=$((count + 1))
done
echo "1..$n"
exit $bad
