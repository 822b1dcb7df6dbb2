#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every spec in specs/: compiled without a spill, then every kernel proven on
# the virtual GPU.
#
# Quick: DeepSeek-V3 for every architecture and head count, proven with 16 heads,
# its decode kernels with 128, too; of the other specs the smallest local head
# count, for one architecture of data-centre and one of consumer parts; numerics
# of one spec of each kind.
#
# CASES=full: every spec is built for every architecture and head count, and
# proven on a100 and rtx5090 with each of them, on rtx4090 and h200 with the
# fewest (more of them differ in constants); and one spec of each kind with the
# full set of cases.  Some two hours on two cores; SPECS="a b" takes these files
# only.
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

# The local head counts of a directory, the fewest first.
head_counts() {
    sed -n 's/^      "heads": \([0-9]*\),$/\1/p' "$1/manifest.json" | sort -nu
}

# on_device DEVICE DIR [FLAGS]
on_device() {
    device=$1
    shift
    VGPU_DEVICE=$device build/mlagen run-check "$@" -q
}

# whole SPEC MODEL: every architecture and head count
whole() {
    dir=$work/$2
    row "$2: builds for every architecture, zero spills" \
        build/mlagen build "$1" -o "$dir"
    row "$2: a second build writes nothing" unchanged "$1" "$dir"
    row "$2: verifies" build/mlagen verify "$dir"
}

# The device whose turn it is.
next_device() {
    case $turn in
    a100) turn=rtx4090 ;;
    rtx4090) turn=rtx5090 ;;
    rtx5090) turn=h200 ;;
    *) turn=a100 ;;
    esac
}

# proof MODEL: a whole directory
proof() {
    dir=$work/$1
    devices="a100 rtx5090 rtx4090 h200"
    for heads in $(head_counts "$dir"); do
        for device in $devices; do
            row "$1: $heads heads right on $device" \
                on_device "$device" "$dir" --heads "$heads"
        done
        devices="a100 rtx5090"
    done
    case " $proven " in
    *" $1 "*)
        next_device
        row "$1: all cases right on $turn" on_device "$turn" "$dir" \
            --heads "$(head_counts "$dir" | head -n 1)" --cases full
        ;;
    esac
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

decode=decode_plan,mqa_decode,mqa_combine
mkdir -p "$work"
turn=a100
for spec in ${SPECS:-specs/*.yaml}; do
    model=$(basename "$spec" .yaml)
    case $model in schema | arch | arch.schema) continue ;; esac
    if [ "$cases" = full ]; then
        whole "$spec" "$model"
        proof "$model"
    elif [ "$model" = deepseek-v3 ]; then
        whole "$spec" "$model"
        row "$model: right on h200" on_device h200 "$work/$model" --heads 16
        # The tiles of decode are for so and so many heads; on a100 its own.
        row "$model: decode of 128 heads right on h200" \
            on_device h200 "$work/$model" --heads 128 --family "$decode"
        row "$model: decode right on a100" \
            on_device a100 "$work/$model" --family "$decode"
    else
        part "$spec" "$model"
        if [ "$turn" = a100 ]; then turn=rtx5090; else turn=a100; fi
    fi
done
echo "1..$n"
exit $bad
