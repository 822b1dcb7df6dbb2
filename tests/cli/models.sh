#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# models.sh: `list --models`: every spec has a row, with the figures that the
# models' papers and releases give; results of run-check become a column; and
# docs/models.md is what the script would write today.
. "$(dirname "$0")/lib.sh"

run mlagen list --models
expect_exit 0 "list --models succeeds"
ok "nothing on standard error" [ ! -s "$stderr" ]
cp "$stdout" table
rows=$(grep -cE '^\| [a-z]' table)
specs=0
for spec in "$root"/specs/*.yaml; do
    case $spec in
    */schema.yaml | */arch.yaml | */arch.schema.yaml) ;;
    *) specs=$((specs + 1)) ;;
    esac
done
ok "one row for each spec, and the titles" [ "$rows" -eq $((specs + 1)) ]
ok "at least 25 geometries" [ "$rows" -gt 25 ]

# row MODEL PATTERN: that model's row has the cells, in this order.
row() {
    grep -E "^\| $1 \|" table | grep -qE "$2"
}
ok "DeepSeek-V3: 576 elements of cache, scale 0.1352338" \
    row deepseek-v3 '\| 128 \| 128 16 \| 1536 \| 512 \| 128 \| 64 \| 128 .* 0.135234 \| 1152 \|'
ok "MiniCPM3: 288 elements" row minicpm3-4b '\| 256 \| 64 \| 32 \| 64 .* 576 \|'
ok "GLM-5.3-Flash: 512 elements, nothing to rotate" \
    row glm-5.3-flash '\| 512 \| 256 \| 0 \| 256 \| none .* 1024 \|'
ok "Kimi-K3: six head counts, nothing rotated" \
    row kimi-k3 '\| 96 48 24 12 6 3 \|.*stored, not rotated'
ok "LongCat: factors 2 and sqrt 12" row longcat-flash 'q 2, latent 3.464'
ok "Mistral-Large-3: a factor of q" row mistral-large-3 'q by position, 0.1'
ok "concat_mla_k is not for the model without rotary part" \
    grep -q '^\* `concat_mla_k`, not for glm-5.3-flash$' table

# Results: a row of errors for the model they are of, two runs in one file.
result() {
    printf '{"device": "x", "rows": [{"kernel": "%s", "of_bar": %s, "pass": %s}]}\n' \
        "$1" "$2" "$3"
}
{
    result mla_kv_b_kimi_k2_bf16_h8_p64_sm_80 0.25 true
    result mla_kv_b_kimi_k2_bf16_h64_p64_sm_80 0.75 true
    result mla_kv_b_kimi_k3_bf16_h96_p64_sm_80 0.5 false
} >results.json
run mlagen list --models --results results.json
expect_exit 0 "results are read"
expect_stdout '^\| model .* worst error \|$' "and make a column"
expect_stdout '^\| kimi-k2 \|.* 0.75 of the bar \|$' "with the largest error"
expect_stdout '^\| kimi-k3 \|.* 1 of 1 groups FAIL \|$' "with failures"
expect_stdout '^\| kimi-k2.5 \|.* - \|$' "and - where nothing has run"
run mlagen list --models --json --results results.json
expect_stdout '"of_bar": 0.75' "also as JSON"

run mlagen list --models --results absent.json
expect_exit 5 "missing results: 5"
echo '{"rows": [{"kernel": 1}]}' >bad.json
run mlagen list --models --results bad.json
expect_exit 3 "results of something else: 3"
expect_stderr_line1 '^bad.json: error: .*run-check --json' "and they are named"
run mlagen list --results results.json
expect_exit 2 "--results without --models: 2"

# docs/models.md, without its column of errors, is the table of today.
plain() {
    awk '/^\| model / && / worst error \|$/ { cut = 1 }
         /^\| / && cut { sub(/ [^|]* \|$/, "") } { print }' "$1"
}
run env MLAGEN="$BUILD/mlagen" MODELS_MD="$work/now.md" \
    sh "$root/scripts/models.sh" results.json
expect_exit 0 "scripts/models.sh writes the page"
plain "$root/docs/models.md" >was.txt
plain now.md >now.txt
ok "with the table" grep -q '^| deepseek-v3 |' now.txt
ok "docs/models.md is current (sh scripts/models.sh)" diff was.txt now.txt
finish
