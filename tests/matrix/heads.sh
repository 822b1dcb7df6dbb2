#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Head counts that no shipped model has.  Merge kernels that give every head a
# row of the block have failed beyond 64 heads and at odd counts, tiles of a
# product at columns that end inside one: merge_state and kv_b at 5 to 200
# heads, with results as wide as 128, 256 and 512; kv_b of 200 heads with
# CASES=full.
cd "$(dirname "$0")/../.." || exit 1
work=${WORK:-build/heads}
. tests/row.sh
log=$work/log
mkdir -p "$work"

# spec HEADS V
spec() {
    cat <<SPEC
model: heads-$1
heads: $1
kv_lora_rank: 48
qk_nope_head_dim: 16
qk_rope_head_dim: 16
v_head_dim: $2
rope: {style: interleaved}
kv_cache: {page_size: 16}
arch: [sm_80]
SPEC
}

right() {
    families=merge_state,kv_b
    [ "$1" = 200 ] && [ "${CASES:-quick}" = quick ] && families=merge_state
    build/mlagen gen "$work/$1.yaml" -o "$work/$1" &&
        VGPU_DEVICE=a100 build/mlagen run-check "$work/$1" --family "$families"
}

for case in 5:512 65:256 97:128 200:128; do
    heads=${case%:*}
    spec "$heads" "${case#*:}" >"$work/$heads.yaml"
    row "$heads heads, ${case#*:} wide" right "$heads"
done
echo "1..$n"
exit $bad
