#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The decode kernels beyond the shipped specs: head counts that fill no tile,
# every page size, and the geometries that are known or may come, each compiled
# for every architecture without a spill and proven on the virtual GPU, one
# device per geometry in turn.  CASES=full proves them on every device and with
# the wide set of cases.
cd "$(dirname "$0")/../.." || exit 1
cases=${CASES:-quick}
work=${WORK:-build/matrix}/decode
families=decode_plan,mqa_decode,mqa_combine
. tests/row.sh
mkdir -p "$work"
log=$work/log
spec=$work/decode.yaml

cat >"$spec" <<'SPEC'
model: decode
heads: 16
tp: [1]
kv_lora_rank: 64
qk_nope_head_dim: 32
qk_rope_head_dim: 32
v_head_dim: 32
rope: {style: neox, theta: 10000}
dtype: bf16
kv_cache: {page_size: 64}
decode: {max_q_len: 8}
lse: {base: e, empty: -inf}
arch: [sm_80, sm_86, sm_89, sm_90, sm_100, sm_120]
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
         family("mqa_decode", { "m16", "m32", "m64" }),
         family("mqa_combine", { "" }) }
LUA

on_profile() {
    VGPU_DEVICE=$1 build/mlagen run-check "$2" --cases "$cases" \
        --family "$families" -q
}

# prove NAME DEVICES -D key=value...: builds without a spill, right on devices
prove() {
    dir=$work/$1
    devices=$2
    shift 2
    row "$(basename "$dir"): builds, zero spills" \
        build/mlagen build -q "$spec" -I "$work/templates" -o "$dir" "$@"
    for d in $devices; do
        row "$(basename "$dir"): right on $d" on_profile "$d" "$dir"
    done
}

# The architectures of devices, as a list.
archs_of() {
    echo "$1" | sed 's/a100/sm_80,/;s/rtx4090/sm_89,/;s/h200/sm_90,/
        s/rtx5090/sm_120,/;s/,$//;s/.*/[&]/'
}

# geometry NAME DEVICES LATENT ROPE -D key=value...: on these devices; in the
# full set for all architectures and on all devices
geometry() {
    style=neox
    [ "$4" = 0 ] && style=none
    dir=$1
    devices=$2
    latent=$3
    rope=$4
    shift 4
    if [ "$cases" = full ]; then
        devices="a100 rtx4090 h200 rtx5090"
    else
        set -- -D arch="$(archs_of "$devices")" "$@"
    fi
    prove "$dir" "$devices" -D kv_lora_rank="$latent" \
        -D qk_rope_head_dim="$rope" -D rope.style=$style "$@"
}

# Heads of a rank: 1, 3, 5, 6, 8, 10, 12; 16, 20, 40, 96; 128.
prove heads-small a100 -D heads=240 -D 'tp=[240, 80, 48, 40, 30, 24, 20]' \
    -D 'arch=[sm_80]'
prove heads-large rtx4090 -D heads=960 -D 'tp=[60, 48, 24, 10]' \
    -D 'arch=[sm_89]' -D decode.max_q_len=2
prove heads-128 rtx5090 -D heads=128 -D 'arch=[sm_120]' -D decode.max_q_len=1

for page in 1 2 4 8 16 32 128 256; do
    case $page in
    1 | 16) device=a100 arch=sm_80 ;;
    2 | 32) device=rtx4090 arch=sm_89 ;;
    4 | 128) device=h200 arch=sm_90 ;;
    *) device=rtx5090 arch=sm_120 ;;
    esac
    prove "page-$page" $device -D kv_cache.page_size=$page -D heads=8 \
        -D decode.max_q_len=2 -D "arch=[$arch]"
done

geometry rank-16 rtx4090 16 32 -D heads=9
geometry rank-16-bare h200 16 0 -D heads=12 -D dtype=fp16
geometry rank-48 a100 48 16 -D heads=6 -D dtype=fp16
geometry rank-128 h200 128 64 -D heads=10
geometry rank-160 rtx5090 160 32 -D heads=5
geometry rank-480 rtx4090 480 16 -D heads=3 -D dtype=fp16
geometry row-288 a100 256 32
geometry row-320 rtx4090 256 64 -D heads=40 -D dtype=fp16 \
    -D decode.row_sum=rounded
geometry row-512 h200 512 0 -D heads=8 -D lse.base=2 -D lse.empty=+inf
geometry row-544 rtx5090 512 32 -D heads=12
geometry row-576 h200 512 64 -D heads=1 -D decode.row_sum=rounded
geometry row-1088 "a100 rtx4090" 1024 64 -D heads=20 -D decode.max_q_len=2
echo "1..$n"
exit $bad
