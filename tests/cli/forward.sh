#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# forward.sh: libmla's layer against a layer without a cache, in the geometries
# of real models with few heads: prefill, extend, decode, fork, every policy.
. "$(dirname "$0")/lib.sh"

MLA_DRIVER=$BUILD/libvgpu.so
VGPU_DEVICE=a100
export MLA_DRIVER VGPU_DEVICE

# tell NAME SPEC FLAGS...: builds one and runs its story.
tell() {
    model=$1
    spec=$2
    shift 2
    run mlagen gen "$spec" -o "$model" --arch sm_80 "$@"
    expect_exit 0 "$model is generated"
    run mlagen run-check "$model" --family forward --seed 7
    expect_exit 0 "$model: every policy gives the output of the model"
    expect_stdout "^7 passed, 0 failed$" "$model: seven ways were taken"
}

specs=$root/specs
tell narrow "$specs/x-ecomla-smollm-135m.yaml" -D 'tp=[9]'
tell lite "$specs/deepseek-v2-lite.yaml" -D 'tp=[16]'
tell neox "$specs/minicpm3-4b.yaml" -D 'tp=[40]' -D q_lora_rank=192
tell scaled "$specs/mistral-small-4.yaml" -D 'tp=[32]' -D q_lora_rank=192
tell unrotated "$specs/kimi-k3.yaml" -D 'tp=[96]' -D q_lora_rank=192
tell factors "$specs/longcat-flash.yaml" -D 'tp=[64]' -D q_lora_rank=192 \
    -D dtype=fp16

cat >long.yaml <<'SPEC'
model: long
heads: 4
max_position: 4096
q_lora_rank: 40
kv_lora_rank: 48
qk_nope_head_dim: 32
qk_rope_head_dim: 16
v_head_dim: 16
dtype: fp16
rope:
  style: interleaved
  scaling:
    type: longrope
    original_max_position_embeddings: 1024
    short_factor: [1, 1, 1, 1, 1, 1, 1, 1]
    long_factor: [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5]
lse: {base: "2", empty: +inf}
kv_cache: {page_size: 1}
arch: [sm_80]
SPEC
tell long long.yaml
small_spec | sed 's/rope_head_dim: 16/rope_head_dim: 0/;
    s/style: neox, theta: 10000/style: none/' >norope.yaml
tell norope norope.yaml

# --- kernels of any head count ------------------------------------------------
small_spec >several.yaml
echo "tp: [1, 2, 4]
q_lora_rank: 24" >>several.yaml
run mlagen gen several.yaml -o several
for family in gemm rms_norm rope_q; do
    ok "$family is emitted once for three head counts" \
        [ "$(find several/src -name "mla_${family}_*" | wc -l)" = 1 ]
done
run mlagen run-check several --family forward --heads 2 --seed 7
expect_exit 0 "and serves another than the first"

# --- cuBLAS, or what stands for it ------------------------------------------
run "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -O2 -shared -fPIC \
    "$root/tests/cli/fake_cublas.c" -ldl -o libfake_cublas.so
expect_exit 0 "a library with cuBLAS's face compiles"
MLA_CUBLAS=$PWD/libfake_cublas.so
export MLA_CUBLAS
for model in long; do
    run mlagen run-check "$model" --family forward --seed 7
    expect_exit 0 "$model: the layer calls it as its documentation says"
done
FAKE_CUBLAS_BROKEN=1 run mlagen run-check norope --family forward --seed 7
expect_exit 1 "a library that cannot start is an error where it is wanted"
expect_stdout "NO_CUBLAS: cuBLAS $MLA_CUBLAS: cublasCreate: status 1" \
    "that names it"
FAKE_CUBLAS_VERSION=10200 run mlagen run-check norope --family forward --seed 7
expect_stdout "NO_CUBLAS: .*version 10200, 110000 or newer is needed" \
    "so is one that is too old"
MLA_CUBLAS=$PWD/nothing.so
run mlagen run-check norope --family forward --seed 7
expect_stdout "absorbed .* FAIL" "and one that is not there"
expect_stdout "one shot .* ok " "but a way by our own kernel goes on"
unset MLA_CUBLAS

# --- a wrong kernel ----------------------------------------------------------
# edit DIR FAMILY SED: changes the source of a family, and its hash.
edit() {
    cp -R long "$1"
    file=$(cd "$1" && echo src/mla_"$2"_long_*_sm_80.cu)
    sed -i "$3" "$1/$file"
    old=$(sha256sum "long/$file" | cut -d ' ' -f 1)
    new=$(sha256sum "$1/$file" | cut -d ' ' -f 1)
    ok "the source of $2 was edited" [ "$old" != "$new" ]
    sed -i "s/$old/$new/" "$1/manifest.json"
}

edit turned rope_q 's/a\.positions\[blockIdx\.x\]/0 * a.positions[blockIdx.x]/'
run mlagen run-check turned --family forward --seed 7
expect_exit 1 "queries that are all rotated as the first fail"
expect_stdout "one shot .* FAIL" "where they are expanded for"
expect_stdout "absorbed .* ok " "and not where absorb_q rotates them"

edit normed rms_norm 's/\* a\.factor/* 1.05f * a.factor/'
run mlagen run-check normed --family forward --seed 7
expect_exit 1 "a norm that is five percent off fails"
expect_stdout "^0 passed, 7 failed$" "in every way"

finish
