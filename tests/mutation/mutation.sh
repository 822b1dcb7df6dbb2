#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every barrier, wait, vote and shuffle of the kernels that have any, taken out
# in turn, must be noticed (tests/mutation/mutation.h).  DeepSeek-V3's 16 heads
# give each tile of the decode kernel: 16, 32 and 64 rows, two and three stages;
# rank 1024 on a part with 99 KiB gives the one with helper warps.  On sm_90a
# decode's one block and pair of blocks share a schedule, and the two groups
# that alternate are another; both are quickest at rank 128.
# CASES=full: also the normal path's, with Q through K's ring in one stage and in
# two, or beside it, and more parts and ranks.
cd "$(dirname "$0")/../.." || exit 1
work=${WORK:-build/mutants}
export MLA_DRIVER="${MLA_DRIVER:-$PWD/build/libvgpu.so}"
bad=0

# mutate DEVICE ARCH NAME FAMILIES [-D key=value]...
mutate() {
    VGPU_DEVICE=$1
    export VGPU_DEVICE
    arch=$2
    dir=$work/$3
    families=$4
    shift 4
    if ! build/mlagen gen -q specs/deepseek-v3.yaml --arch "$arch" \
        -D 'tp=[1]' -D heads=16 "$@" -o "$dir" >"$work/log" 2>&1; then
        echo "not ok 1 - $dir: generates"
        sed 's/^/# /' "$work/log"
        echo "1..1"
        bad=1
        return
    fi
    # shellcheck disable=SC2086  # a list of words
    build/mutation "$dir" $families || bad=1
}

# The same where each warp vouches for its own part of a wgmma only, as
# kernels may be read that keep a warpgroup's warps together themselves.
mutate_strictly() {
    export VGPU_CHECKS=strict
    mutate "$@"
    unset VGPU_CHECKS
}

mkdir -p "$work"
mutate a100 sm_80 a100 "decode_plan mqa_decode mqa_combine kv_append
    derive_weights absorb_v gemm rms_norm"
mutate rtx4090 sm_89 helped mqa_decode -D kv_lora_rank=1024
mutate h200 sm_90a hopper mqa_decode -D kv_lora_rank=128 -D heads=40 \
    -D decode.max_q_len=2
mutate_strictly h200 sm_90a alternating mqa_decode -D kv_lora_rank=128 \
    -D heads=40 -D decode.max_q_len=2 -D decode.hopper.schedule=alternating
if [ "${CASES:-quick}" = full ]; then
    mutate h200 sm_90a wgmma "mha kv_b" -D heads=2
    mutate h200 sm_90a hopper-copies mqa_decode -D kv_lora_rank=128 \
        -D kv_cache.page_size=1 -D heads=40 -D decode.max_q_len=2
    mutate h200 sm_90a hopper-copies-wide mqa_decode -D kv_cache.page_size=4 \
        -D heads=40 -D decode.max_q_len=2
    mutate h200 sm_90a hopper-wide mqa_decode -D heads=40 -D decode.max_q_len=2
    mutate_strictly h200 sm_90a alternating-wide mqa_decode -D heads=40 \
        -D decode.max_q_len=2 -D decode.hopper.schedule=alternating
    mutate h200 sm_90a wgmma-192 mha -D heads=2 -D qk_nope_head_dim=192
    mutate h200 sm_90a wgmma-256 mha -D heads=1 -D qk_nope_head_dim=192 \
        -D v_head_dim=256
    mutate rtx4090 sm_89 rtx4090 mqa_decode
    mutate h200 sm_90 h200 "decode_plan mqa_decode mqa_combine"
    mutate rtx5090 sm_120 odd mqa_decode -D kv_lora_rank=48 -D dtype=fp16 \
        -D heads=5
fi
exit $bad
