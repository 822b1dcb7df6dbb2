#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `mlagen import` on the attention part of 58 released configs: the 54 that are
# MLA become specs that pass `check`, with the widths that their papers and
# releases state; the others are refused with the reason.
. "$(dirname "$0")/lib.sh"
configs=$root/tests/data/configs

# imported NAME: the spec of a config, in $work/NAME.yaml
imported() {
    mlagen import "$configs/$1.json" >"$work/$1.yaml" 2>"$work/$1.err"
}

# importable FILE: imports, and the result checks
importable() {
    name=$(basename "$1" .json)
    imported "$name" && mlagen check "$work/$name.yaml"
}

accepted=0
for config in "$configs"/*.json; do
    case $config in
    */DeepSeek-V4*.json | */NOT-MLA-*.json)
        run mlagen import "$config"
        expect_exit 3 "$(basename "$config") is refused"
        ok "... and nothing is printed" [ ! -s "$stdout" ]
        ;;
    *)
        ok "$(basename "$config") imports, and the spec checks" \
            importable "$config"
        accepted=$((accepted + 1))
        ;;
    esac
done
ok "54 configs are accepted" [ "$accepted" -eq 54 ]

run mlagen import "$configs/NOT-MLA-DeepSeek-OCR.json"
expect_stderr_line1 'OCR.json:.*error: .*use_mla is false' \
    "a model without MLA is refused for what it is"
run mlagen import "$configs/DeepSeek-V4-Flash.json"
expect_stderr_line1 'error: no kv_lora_rank: DeepSeek-V4' \
    "DeepSeek-V4 is refused by name"

# has NAME PATTERN...: every pattern is a line of the imported spec
has() {
    file=$work/$1.yaml
    shift
    for pattern in "$@"; do
        grep -qE -e "^ *$pattern\$" "$file" || {
            echo "no line '$pattern' in $file"
            return 1
        }
    done
}
# warns NAME PATTERN
warns() {
    grep -qE -e "warning: .*$2" "$work/$1.err"
}

ok "V3: YaRN 40, interleaved" has DeepSeek-V3 'heads: 128' \
    'q_lora_rank: 1536' 'style: interleaved' 'type: yarn' 'factor: 40' \
    'mscale_all_dim: 1'
ok "V2-Lite: no query compression" has DeepSeek-V2-Lite 'q_lora_rank: null' \
    'mscale: 0.707'
ok "K3: nested config, rope stored but not rotated, 24 of 93 layers" \
    has Kimi-K3 'heads: 96' 'qk_rope_head_dim: 64' 'style: none' 'layers: 24'
ok "K3: the gate is named" warns Kimi-K3 'gate on the attention output'
ok "MiniCPM3: halves, v from the class default" has MiniCPM3-4B \
    'style: neox' 'v_head_dim: 64' 'kv_lora_rank: 256'
ok "MiniCPM3: missing longrope factors are named" \
    warns MiniCPM3-4B 'longrope factors'
ok "K2.7: rope_parameters with both type and rope_type" \
    has Kimi-K2.7-Code-NVFP4 'type: yarn' 'factor: 64' 'theta: 50000'
ok "Mistral-Large-3: own names, no scale" has Mistral-Large-3-675B \
    'heads: 128' 'factor: 36' 'apply_scale: false'
ok "LongCat: two attentions per counted layer" has LongCat-Flash-Chat \
    'layers: 56'
ok "LongCat-LSA: deepseek_yarn is yarn" has LongCat-LSA 'type: yarn' \
    'factor: 120'
ok "GLM-5.3-Flash: no rotary part" has GLM-5.3-Flash 'qk_rope_head_dim: 0' \
    'style: none'
ok "Pangu Pro: rope_interleaved false is neox" has openPangu-2.0-Pro \
    'style: neox'
ok "Pangu Pro: sinks are named" warns openPangu-2.0-Pro '128 learned sink'
ok "dots3: the window is named" warns dots3-note-swa 'sliding window of 512'
ok "Motif-3: grouped heads are named" warns Motif-3 \
    '80 query heads over 16'
ok "LongCat: sqrt(hidden / rank) on both sides" has LongCat-Flash-Chat \
    'q_lora_scale: 2' 'kv_lora_scale: 3\.46410161513775[0-9]*'
ok "LongCat-Lite: sqrt 2 and sqrt 6" has LongCat-Flash-Lite \
    'q_lora_scale: 1\.41421356237309[0-9]*' \
    'kv_lora_scale: 2\.44948974278317[0-9]*'
ok "dots3: one key for both sides" has dots3-note-swa \
    'q_lora_scale: 2\.2360679774997[0-9]*' \
    'kv_lora_scale: 2\.2360679774997[0-9]*'
ok "Mistral-Large-3: a factor of q by position" has Mistral-Large-3-675B \
    'q_position_scale:' 'beta: 0\.1' 'original_max_position_embeddings: 8192'
ok "Mistral-Small-4: the same, beside the rope's keys" \
    has Mistral-Small-4-119B 'q_position_scale:' 'beta: 0\.1'
ok "V3: neither" not grep -qE '_scale' "$work/DeepSeek-V3.yaml"
ok "V3.2: the index is named" warns DeepSeek-V3.2 'DSA index.*2048'

run mlagen import --strict "$configs/DeepSeek-V3.json"
expect_exit 0 "plain MLA imports under --strict"
run mlagen import --strict "$configs/LongCat-Flash-Chat.json"
expect_exit 0 "so does LongCat: its factors are the kernels'"
run mlagen import --strict "$configs/DeepSeek-V3.2.json"
expect_exit 3 "a feature beyond dense MLA is an error under --strict"
ok "... and prints no spec" [ ! -s "$stdout" ]

# scale NAME VALUE: the softmax scale that `plan` derives.  Values: (nope +
# rope)^-1/2 times (0.1 mscale_all_dim ln factor + 1)^2, worked by hand from
# each config.
scale() {
    mlagen plan "$work/$1.yaml" --json >"$work/plan.json" &&
        grep -qE "\"softmax_scale\": $2" "$work/plan.json"
}
ok "scale of V3" scale DeepSeek-V3 0.13523377
ok "scale of V2-Lite" scale DeepSeek-V2-Lite 0.11472138
ok "scale of K2" scale Kimi-K2-Instruct 0.13086079
ok "scale of K2.5" scale Kimi-K2.5 0.14467962
ok "scale of LongCat-LSA" scale LongCat-LSA 0.15781141
ok "scale of Mistral-Large-3, without YaRN's factor" \
    scale Mistral-Large-3-675B 0.07216878
ok "scale of MiniCPM3" scale MiniCPM3-4B 0.10206207
ok "scale of GLM-4.7-Flash" scale GLM-4.7-Flash 0.0625

cat >"$work/bad.json" <<'JSON'
{"num_attention_heads": 8, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
 "qk_rope_head_dim": 32, "rope_scaling": {"type": "dynamic", "factor": 2}}
JSON
run mlagen import "$work/bad.json"
expect_exit 3 "an unknown scaling type is refused"
expect_stderr_line1 "error: .*'dynamic'" "... by name"
echo '{"kv_lora_rank": 64}' >"$work/bad.json"
run mlagen import "$work/bad.json"
expect_stderr_line1 'error: .*num_attention_heads' \
    "a missing width is named"
printf '{"kv_lora_rank": 64,' >"$work/bad.json"
run mlagen import "$work/bad.json"
expect_stderr_line1 '^[^ ]*bad\.json:[0-9]+:[0-9]+: error: ' \
    "truncated JSON has a position"
expect_exit 3 "... and exit code 3"
finish
