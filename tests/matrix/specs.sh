#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every spec in specs/: compiled without a spill, then every kernel proven on
# the virtual GPU.
#
# Quick: DeepSeek-V3 for every architecture and head count; of the other specs
# the smallest local head count, for one architecture of data-centre and one of
# consumer parts; numerics of one spec of each kind.  CASES=full: everything.
cd "$(dirname "$0")/../.." || exit 1
cases=${CASES:-quick}
work=${WORK:-build/matrix}
. tests/row.sh
log=$work/log

unchanged() {
    said=$(build/mlagen build "$1" -o "$2") || return 1
    echo "$said"
    case $said in *': 0 written'*) ;; *) return 1 ;; esac
}

# The largest tensor-parallel size of a spec: it leaves the fewest heads.
widest() {
    sed -n 's/^tp: \[\(.*, *\)*\([0-9]*\)\]$/\2/p' "$1"
}

# on_device DEVICE DIR [FLAGS]
on_device() {
    device=$1
    shift
    VGPU_DEVICE=$device build/mlagen run-check "$@" --cases "$cases" -q
}

# whole SPEC MODEL DEVICES: every architecture and head count
whole() {
    dir=$work/$2
    row "$2: builds for every architecture, zero spills" \
        build/mlagen build "$1" -o "$dir"
    row "$2: a second build writes nothing" unchanged "$1" "$dir"
    row "$2: verifies" build/mlagen verify "$dir"
    for device in $3; do
        row "$2: right on $device" on_device "$device" "$dir"
    done
}

# part SPEC MODEL: two architectures, the fewest heads
part() {
    dir=$work/$2
    row "$2: builds for sm_80 and sm_120, zero spills" \
        build/mlagen build "$1" -o "$dir" --arch sm_80,sm_120 \
        -D "tp=[$(widest "$1")]"
    case " $proven " in
    *" $2 "*) row "$2: right on $turn" on_device "$turn" "$dir" ;;
    esac
}

# One spec of each kind: no query compression, 12 heads unrotated, wide v, NeoX,
# nope as wide as rope, no rope, rank 16, rank 1024.
proven="deepseek-v2-lite kimi-k3 glm-4.7-flash minicpm3-4b mistral-small-4
glm-5.3-flash x-ecomla-smollm-135m dots3-note-swa"
proven=$(echo $proven)

mkdir -p "$work"
turn=a100
for spec in specs/*.yaml; do
    model=$(basename "$spec" .yaml)
    case $model in schema | arch | arch.schema) continue ;; esac
    if [ "$cases" = full ]; then
        whole "$spec" "$model" "a100 rtx4090 rtx5090 h200"
    elif [ "$model" = deepseek-v3 ]; then
        whole "$spec" "$model" h200
        # Of the tiles of all architectures, those of this one.
        row "$model: decode right on a100" on_device a100 "$work/$model" \
            --family decode_plan,mqa_decode,mqa_combine
    else
        part "$spec" "$model"
        if [ "$turn" = a100 ]; then turn=rtx5090; else turn=a100; fi
    fi
done
echo "1..$n"
exit $bad
