#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mqa_decode for sm_90a (docs/hopper.md): every geometry that has a
# warp-specialised plan, and those that have not, page sizes that TMA takes and
# those that cp.async has to bring, one block and pairs, and the knobs of the
# schedule: built without a spill and without serialised wgmmas, right on the
# virtual H200; and the two groups that alternate, where each warp vouches for
# its own part of a wgmma only.  CASES=full takes more heads, more knobs and the
# wide set of cases.
cd "$(dirname "$0")/../.." || exit 1
cases=${CASES:-quick}
work=${WORK:-build/matrix}/hopper
families=decode_plan,mqa_decode,mqa_combine
. tests/row.sh
mkdir -p "$work"
log=$work/log
spec=$work/hopper.yaml

cat >"$spec" <<'SPEC'
model: hopper
heads: 16
tp: [1]
kv_lora_rank: 128
qk_nope_head_dim: 32
qk_rope_head_dim: 64
v_head_dim: 32
rope: {style: neox, theta: 10000}
dtype: bf16
kv_cache: {page_size: 64}
decode: {max_q_len: 2}
lse: {base: e, empty: -inf}
arch: [sm_90a]
SPEC

# Nothing but the decode kernels, so that nothing else is compiled.
rm -rf "$work/templates"
cp -r templates "$work/templates"
cat >"$work/templates/families.lua" <<'LUA'
local function family(name, variants)
    return { family = name, variants = variants, plan = "plan/" .. name,
             template = "kernel/" .. name .. ".cu.tpl" }
end
return { family("decode_plan", { "" }),
         family("mqa_decode", { "m16", "m32", "m64", "m128" }),
         family("mqa_combine", { "" }) }
LUA

# The two groups that alternate keep their warps together themselves.
strictly_on_h200() {
    VGPU_CHECKS=strict on_h200 "$1"
}

on_h200() {
    VGPU_DEVICE=h200 build/mlagen run-check "$1" --cases "$cases" \
        --family "$families" -q
}

# The mqa_decode sources of a directory are all of one kind.
all_are() {
    for f in "$2"/src/mla_mqa_decode_*.cu; do
        case $1 in
        hopper) grep -q wgmma "$f" || return 1 ;;
        alternating) grep -q 'groups .* that alternate' "$f" || return 1 ;;
        portable) grep -q wgmma "$f" && return 1 ;;
        esac
    done
    return 0
}

# prove KIND NAME -D key=value...
prove() {
    kind=$1
    dir=$work/$2
    shift 2
    name=$(basename "$dir")
    row "$name: builds, no spill, nothing serialised" \
        build/mlagen build -q "$spec" -I "$work/templates" -o "$dir" "$@"
    row "$name: the $kind kernel" all_are "$kind" "$dir"
    if [ "$kind" = alternating ]; then
        row "$name: right on h200" strictly_on_h200 "$dir"
    else
        row "$name: right on h200" on_h200 "$dir"
    fi
}

# Nothing turns where there is no rope.
style() {
    [ "$1" = 0 ] && echo none || echo neox
}

# alternate NAME -D key=value...
alternate() {
    name=$1
    shift
    prove alternating "alternating-$name" \
        -D decode.hopper.schedule=alternating "$@"
}

# reason WHY key=value...: why the plan is portable, of its cost block.
reason() {
    why=$1
    shift
    build/mlagen plan "$spec" -D "$@" | tr -s ' \n' ' ' | grep -q "$why"
}

# refused WHY -D key=value...
refused() {
    why=$1
    shift
    ! build/mlagen check "$spec" "$@" 2>"$log.refused" &&
        grep -q "$why" "$log.refused"
}

for page in 1 4 8 256; do
    prove hopper page-$page -D kv_cache.page_size=$page -D heads=40
done
prove hopper page-1-row-576 -D kv_cache.page_size=1 -D kv_lora_rank=512 \
    -D heads=20 -D dtype=fp16
prove hopper row-160-fp16 -D qk_rope_head_dim=32 -D dtype=fp16 -D heads=12
prove hopper row-288 -D kv_lora_rank=256 -D qk_rope_head_dim=32 -D heads=5 \
    -D decode.row_sum=rounded
prove hopper row-512 -D kv_lora_rank=512 -D qk_rope_head_dim=0 \
    -D rope.style=none -D heads=8 -D lse.base=2 -D lse.empty=+inf \
    -D decode.hopper.p_buffers=2
prove hopper row-576 -D kv_lora_rank=512 -D heads=20
prove portable rank-160 -D kv_lora_rank=160 -D heads=5
prove hopper late-scores -D decode.hopper.early_scores=false \
    -D decode.hopper.first_steps=4
prove hopper no-pairs -D heads=70 -D decode.hopper.cluster=false \
    -D decode.hopper.first_steps=0 -D decode.max_q_len=1
prove hopper tokens-16 -D heads=1 -D decode.max_q_len=16
alternate page-64 -D kv_lora_rank=512 -D heads=20
alternate page-256 -D kv_cache.page_size=256 -D kv_lora_rank=384 \
    -D qk_rope_head_dim=32 -D dtype=fp16 -D heads=70 -D decode.max_q_len=1
alternate row-256 -D kv_lora_rank=256 -D qk_rope_head_dim=0 \
    -D rope.style=none -D heads=5 -D decode.row_sum=rounded \
    -D lse.base=2 -D lse.empty=+inf
for knob in first_steps=0 early_scores=false p_buffers=2 cluster=false; do
    row "alternating: no $knob" refused \
        "${knob%=*} is of schedule specialised" \
        -D decode.hopper.schedule=alternating -D "decode.hopper.$knob"
done
row "alternating, pages of 4: the plan says why" reason "pages of 4 keys" \
    kv_cache.page_size=4 -D decode.hopper.schedule=alternating
row "rank 160: the plan says why" reason "latent 160" kv_lora_rank=160
row "rank 1024: the plan says why" reason "1024 columns is beyond" \
    kv_lora_rank=1024

if [ "$cases" = full ]; then
    for page in 2 16 32 64; do
        prove hopper page-$page -D kv_cache.page_size=$page -D heads=40
    done
    for heads in 1 3 9 33 64 65 96 127 128 200; do
        prove hopper heads-$heads -D heads=$heads -D decode.max_q_len=3
    done
    for steps in 0 2 3; do
        prove hopper first-$steps -D decode.hopper.first_steps=$steps \
            -D heads=40
    done
    for rank in 128 256 384 512; do
        for rope in 0 32 64; do
            prove hopper page-2-$rank-$rope -D kv_cache.page_size=2 \
                -D kv_lora_rank=$rank -D qk_rope_head_dim=$rope \
                -D rope.style="$(style $rope)" -D heads=70 \
                -D decode.max_q_len=1
        done
    done
    prove hopper page-4-knobs -D kv_cache.page_size=4 -D heads=1 \
        -D decode.max_q_len=16 -D decode.hopper.p_buffers=2 \
        -D decode.hopper.early_scores=false -D decode.hopper.first_steps=0
    prove hopper page-1-two-buffers -D kv_cache.page_size=1 -D heads=128 \
        -D decode.hopper.p_buffers=2 -D decode.row_sum=rounded
    prove hopper row-320 -D kv_lora_rank=256 -D heads=96 -D dtype=fp16
    prove hopper row-384 -D kv_lora_rank=384 -D qk_rope_head_dim=0 \
        -D rope.style=none -D heads=12
    prove hopper row-448 -D kv_lora_rank=384 -D heads=40
    prove hopper row-544 -D kv_lora_rank=512 -D qk_rope_head_dim=32 \
        -D heads=12 -D decode.max_q_len=16
    prove hopper row-576-fp16 -D kv_lora_rank=512 -D heads=128 -D dtype=fp16 \
        -D decode.row_sum=rounded
    for heads in 1 3 9 33 64 65 96 127 128 200; do
        alternate heads-$heads -D heads=$heads -D decode.max_q_len=3
    done
    for page in 8 16 32; do
        alternate page-$page -D kv_cache.page_size=$page -D heads=16
    done
    alternate row-512 -D kv_lora_rank=512 -D qk_rope_head_dim=0 \
        -D rope.style=none -D heads=8 -D decode.row_sum=rounded
    alternate row-544 -D kv_lora_rank=512 -D qk_rope_head_dim=32 \
        -D heads=12 -D decode.max_q_len=16
    alternate row-576-fp16 -D kv_lora_rank=512 -D heads=128 -D dtype=fp16 \
        -D decode.row_sum=rounded
    alternate row-640 -D kv_lora_rank=384 -D qk_rope_head_dim=256 \
        -D heads=10
    prove hopper row-640 -D kv_lora_rank=384 -D qk_rope_head_dim=256 \
        -D heads=10
fi
echo "1..$n"
exit $bad
