#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The figures of `make bench` for one spec per kind of model, and those of
# the runtime's pool and dispatcher:
#     bench.sh [--json] [SPEC ...]
# On a virtual A100 unless VGPU_DEVICE says otherwise.  What bounds each kernel
# is drawn into build/bench/roofline-DEVICE.svg, from the counters of these
# runs; of further specs with their name behind the device's.
set -eu

cd "$(dirname "$0")/../.."
json=
if [ "${1:-}" = --json ]; then
    json=--json
    shift
fi
[ $# -gt 0 ] || set -- specs/deepseek-v3.yaml

: "${VGPU_DEVICE:=a100}"
: "${MLA_DRIVER:=$PWD/build/libvgpu.so}"
export VGPU_DEVICE MLA_DRIVER

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
mkdir -p build/bench

# draw SPEC NAME: for the architectures that the counted kernels are for.
draw() {
    archs=$(grep -o '_sm_[0-9]*a\{0,1\}"' "$scratch/counters" |
        sed 's/^_//;s/"$//' | sort -u | tr '\n' ',')
    build/mlagen plan "$1" --arch "${archs%,}" --counters "$scratch/counters" \
        --plot "build/bench/roofline-$2.svg" -q
}

for spec in "$@"; do
    mkdir "$scratch/one"
    build/kernel-bench build/mlagen "$spec" "$scratch/one" $json \
        --counters "$scratch/counters" || status=1
    name=$VGPU_DEVICE
    [ "$spec" = "$1" ] || name=$name-$(basename "$spec" .yaml)
    draw "$spec" "$name" || status=1
    rm -rf "$scratch/one"
done
# The schedules of mqa_decode on sm_90a.
mkdir "$scratch/hopper"
VGPU_DEVICE=h200 build/hopper-bench build/mlagen specs/deepseek-v3.yaml \
    "$scratch/hopper" $json || status=1
for program in pool-bench dispatch-bench; do
    "build/$program" $json || status=1
done
# Cold and warm start, one architecture.
build/mlagen gen deepseek-v3 --arch sm_80 -o "$scratch/start" -q
MLA_CACHE=$scratch/cache build/start-bench $json "$scratch/start" || status=1
exit $status
