#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The figures of `make bench` for one spec per kind of model, and those of
# the runtime's pool and dispatcher:
#     bench.sh [--json] [SPEC ...]
# On a virtual A100 unless VGPU_DEVICE says otherwise.
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
for spec in "$@"; do
    mkdir "$scratch/one"
    build/kernel-bench build/mlagen "$spec" "$scratch/one" $json || status=1
    rm -rf "$scratch/one"
done
for program in pool-bench dispatch-bench; do
    "build/$program" $json || status=1
done
# Cold and warm start, one architecture.
build/mlagen gen deepseek-v3 --arch sm_80 -o "$scratch/start" -q
MLA_CACHE=$scratch/cache build/start-bench $json "$scratch/start" || status=1
exit $status
