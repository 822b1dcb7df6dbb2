#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every spec in specs/: compiled without a spill, then every kernel proven on
# the virtual GPU.
#
# Quick: DeepSeek-V3 for every architecture and head count, on a device of each
# family; the other specs for one architecture of data-centre and one of
# consumer parts, their smallest local head count on one of the two.
# CASES=full: every spec as DeepSeek-V3, with more cases.
cd "$(dirname "$0")/../.." || exit 1
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

# The smallest local head count of a generated folder.
fewest_heads() {
    ls "$1/src" | sed 's/.*_h\([0-9]*\)_p.*/\1/' | sort -n | head -n 1
}

# on_device DEVICE DIR [FLAGS]
on_device() {
    device=$1
    shift
    VGPU_DEVICE=$device build/mlagen run-check "$@" --cases "$cases" -q
}

# whole SPEC MODEL: every architecture, head count and family of devices
whole() {
    dir=$work/$2
    row "$2: builds for every architecture, zero spills" \
        build/mlagen build "$1" -o "$dir"
    row "$2: a second build writes nothing" unchanged "$1" "$dir"
    row "$2: verifies" build/mlagen verify "$dir"
    for device in a100 rtx4090 rtx5090 h200; do
        row "$2: right on $device" on_device "$device" "$dir"
    done
}

# part SPEC MODEL DEVICE: two architectures, the smallest head count
part() {
    dir=$work/$2
    row "$2: builds for sm_80 and sm_120, zero spills" \
        build/mlagen build "$1" -o "$dir" --arch sm_80,sm_120
    row "$2: right on $3" \
        on_device "$3" "$dir" --heads "$(fewest_heads "$dir")"
}

mkdir -p "$work"
turn=a100
for spec in specs/*.yaml; do
    model=$(basename "$spec" .yaml)
    case $model in schema | arch | arch.schema) continue ;; esac
    if [ "$cases" = full ] || [ "$model" = deepseek-v3 ]; then
        whole "$spec" "$model"
    else
        part "$spec" "$model" "$turn"
        if [ "$turn" = a100 ]; then turn=rtx5090; else turn=a100; fi
    fi
done
echo "1..$n"
exit $bad
