#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpu_check.sh: what `make gpu-check` runs on a machine with a GPU, run here on
# a virtual one.  The figures of time mean nothing there; that every case has
# its kernel, that operations and bytes are counted right, and what the
# programs say when something is wrong, shows without a GPU.
. "$(dirname "$0")/lib.sh"

MLA_DRIVER=$BUILD/libvgpu.so
VGPU_DEVICE=h200
export MLA_DRIVER VGPU_DEVICE
bench=$BUILD/gpu-bench
trace=$BUILD/gpu-trace

small_spec | sed 's/sm_80/sm_90/' >tiny.yaml
mlagen gen tiny.yaml -o out -q

# --- what there is -----------------------------------------------------------
run "$bench" --device
expect_exit 0 "the device is named"
expect_stdout "^NVIDIA H200 \(virtual\)	90	virtual$" "by three words"
run "$bench" --list
ok "decode has 1, 16, 128 requests x 3 head counts x 2 tokens x 4 lengths" \
    [ "$(grep -c '^decode' "$stdout")" -eq 72 ]
ok "mha has two head counts x 4 lengths" \
    [ "$(grep -c '^mha' "$stdout")" -eq 8 ]
for group in concat append absorb_q absorb_v kv_b plan; do
    expect_stdout "^$group " "there are cases of $group"
done

# Every case of the full list binds every argument of the kernels of a whole
# model, whatever their architecture, and has all its bytes counted.
mlagen gen deepseek-v3 -D 'tp=[1,2,8]' --arch sm_90 -o v3 -q
run "$bench" v3 --dry
expect_exit 0 "all cases can be made for DeepSeek-V3"
expect_stdout "rehearsed, 0 failed, 0 cases without a kernel$" "none is missing"
# 128 requests of 4096 keys, 128 heads: 2 (576 + 512) operations a key and
# head; keys, queries and O once.
expect_stdout "^decode +b128 h128 q1 s4096 .* flops 146028888064 bytes 639631360 " \
    "operations and bytes are those of a calculation by hand"
expect_stdout "^absorb_v +h128 T1 .* flops 16777216 bytes 16941056 " \
    "weights are among the bytes"
mlagen gen deepseek-v3 -D 'tp=[8]' --arch sm_90 -o v3h16 -q
run "$bench" v3h16 --dry --group decode
expect_stdout " 48 cases without a kernel$" "cases without a kernel are counted"

# --- measuring ---------------------------------------------------------------
run "$bench" out --tiny --json t.json --plot t.gp --date 2026-01-02
expect_exit 0 "the small cases are measured"
expect_stdout "^12 measured, 0 failed, 0 left out" "all of them"
expect_stdout "host times of a virtual GPU" "and are called what they are"
expect_stdout "the best kv_b" "without cuBLAS the best product is the ceiling"

# value GROUP BATCH Q_LEN KEY: of the first such row.
value() {
    tr -d '\n' <t.json | sed 's/{"group"/\n&/g' |
        grep "^{\"group\": \"$1\"" |
        grep "\"batch\": $2, \"q_len\": $3," | head -n 1 |
        sed "s/.*\"$4\": \([^,}]*\).*/\1/"
}
# 4 heads, R 32, rope, nope and v 16.
ok "decode: 2 x 3 requests x 4 heads x (69 + 70) keys x (48 + 32)" \
    [ "$(value decode 3 2 flops)" = 266880 ]
ok "decode: 2 x 3 x (70 x 48 + 8 x (48 + 32)) bytes" \
    [ "$(value decode 3 2 bytes)" = 24000 ]
ok "mha: 2 x 2 x 4 x 820 pairs x (32 + 16)" \
    [ "$(value mha 2 40 flops)" = 629760 ]
ok "mha: q, k_nope, k_rope, v and out" [ "$(value mha 2 40 bytes)" = 53760 ]
ok "concat: k_nope, k_rope and k" [ "$(value concat 1 1 bytes)" = 2080 ]
ok "append: rows in and out, cos, sin, position and slot" \
    [ "$(value append 1 1 bytes)" = 1632 ]
ok "absorb_q: 2 x 9 x 4 x 16 x 32" \
    [ "$(value absorb_q 1 1 flops)" = 36864 ]
ok "kv_b: 2 x 16 x 32 x 4 x 32" [ "$(value kv_b 1 1 flops)" = 131072 ]
ok "copies take turns" [ "$(value concat 1 1 copies)" -ge 2 ]
ok "the median lies between the extremes" awk \
    "BEGIN { exit !($(value mha 2 40 us_least) <= $(value mha 2 40 us) &&
        $(value mha 2 40 us) <= $(value mha 2 40 us_most) &&
        $(value mha 2 40 us_least) > 0) }"
ok "rates are operations and bytes over the time" awk \
    "BEGIN { t = $(value kv_b 1 1 us); g = $(value kv_b 1 1 gbs)
             x = $(value kv_b 1 1 bytes) / t / 1000
             exit !(g > 0.99 * x - 0.001 && g < 1.01 * x + 0.001) }"
ok "the date is as told" grep -q '"date": "2026-01-02"' t.json
if command -v python3 >/dev/null 2>&1; then
    ok "the results are JSON" python3 -m json.tool t.json
fi
ok "the script makes a plot" gnuplot -e "FILE='t.svg'" t.gp
ok "which is SVG" grep -q '</svg>' t.svg
ok "and names whose figures stand beside" grep -q 'FlashMLA, H800' t.svg

run "$bench" out --tiny --group concat,plan --arch sm_90
expect_stdout "^2 measured" "groups and architecture select"
run "$bench" out --tiny --seconds 0
expect_exit 0 "without time nothing is measured"
expect_stdout "out of time: 11 cases from kv_b on are left out" \
    "and what is left out is said"

# --- what goes wrong ---------------------------------------------------------
run "$bench" out --tiny --arch sm_80
expect_exit 7 "a directory without kernels for it is no success"
run env MLA_DRIVER=/nonexistent/libcuda.so "$bench" out
expect_exit 7 "no device"
expect_stderr "needs a machine with an NVIDIA GPU" "says what is needed"
expect_stderr "make check" "and what can be done without"
run "$bench" nowhere
expect_exit 5 "no directory"
run "$bench" out --tiny --group plan --json nowhere/t.json
expect_exit 5 "no folder for the results"
expect_stderr_line1 "^nowhere/t.json: error: " "by name"
for args in "" "out twice" "out --seconds x" "out --seconds" "out --what 1" \
    "out --json"; do
    # shellcheck disable=SC2086 # words are meant to split
    run "$bench" $args
    expect_exit 2 "refused as usage: '$args'"
done

# A kernel that reads beyond its buffers ends in a row that says so.
cp -R out wrong
source=$(cd wrong && echo src/mla_concat_mla_k_tiny_*_sm_90.cu)
old=$(sha256sum "wrong/$source" | cut -d ' ' -f 1)
sed -i 's/a\.k_rope_stride/(a.k_rope_stride + (1 << 30))/' "wrong/$source"
new=$(sha256sum "wrong/$source" | cut -d ' ' -f 1)
sed -i "s/$old/$new/" wrong/manifest.json
run "$bench" wrong --tiny --group concat --json wrong.json
expect_exit 1 "a kernel that fails is no success"
expect_stdout "^concat .* FAIL  mla_concat" "and has its row"
ok "in JSON, too" grep -q '"error": ' wrong.json

# --- comparing two drivers ---------------------------------------------------
# record NAME KIND TEXT
record() {
    printf '%s\t%s\t%s\n%s' "$1" "$2" "${#3}" "$3"
}
{
    record "add #1" strict abcdefgh
    record "ex2 #2" loose 1234
} >a
run "$trace" a a
expect_exit 0 "a trace is like itself"
expect_stdout "^1 kernels alike bit for bit, 0 differ, 0 in one" "in numbers"
{
    record "ex2 #2" loose 1235
    record "add #1" strict abcdefgh
} >b
run "$trace" a b
expect_exit 0 "loose results may differ, order does not matter"
expect_stdout "of 1 loose ones 1 differ" "and are counted"
record "add #1" strict abcdefgX >b
run "$trace" a b
expect_exit 1 "strict results may not"
expect_stdout "differs: add #1" "by name"
expect_stdout "1 of 8 bytes; at byte 4 68676665 and 58676665" "place and value"
expect_stdout "missing: ex2 #2 is not in b" "neither may one be missing"
head -c 20 a >half
run "$trace" a half
expect_exit 5 "half a record is no trace"
run "$trace" a
expect_exit 2 "two files are compared"
: >empty
run "$trace" empty empty
expect_exit 1 "nothing compared is no success"

# --- the whole script --------------------------------------------------------
check="$root/tests/gpu/gpu_check.sh"
run env BUILD="$BUILD" sh "$check" --no-build --tiny --bench tiny.yaml \
    --heads 1 --specs tiny.yaml:1 --family concat_mla_k --isa warp \
    --arch sm_90 --group concat,plan --out results
expect_exit 0 "the script passes on a virtual GPU"
expect_stdout "^warp +40 passed on the device; 40 kernels alike .* ok$" \
    "instructions agree"
expect_stdout "^tiny-sm_90 .* passed, 0 failed +ok$" "kernels are right"
expect_stdout "^gpu-check: 0 failures" "nothing has failed"
ok "results and plot are where they should be" \
    [ "$(echo results/nvidia-h200-virtual-*.json | wc -w)" -eq 1 ]
ok "with a plot" grep -q '</svg>' results/nvidia-h200-virtual-*.svg
run env BUILD="$BUILD" MLA_DRIVER=/nonexistent/libcuda.so sh "$check" \
    --no-build
expect_exit 7 "no device"
expect_stderr "needs a machine with an NVIDIA GPU" "is said in so many words"
run env BUILD="$BUILD" sh "$check" --no-build --only numerics --arch sm_10
expect_exit 7 "an architecture without kernels"
expect_stderr "no kernels for sm_10" "by name"
run env BUILD="$BUILD" sh "$check" --no-build --only numerics --specs \
    "$work/nowhere.yaml:1"
expect_exit 1 "a spec that is not there fails"
run env BUILD="$BUILD" sh "$check" --no-build --tiny --seconds 1 \
    --only measure --bench tiny.yaml --heads 1 --arch sm_90 --out late
expect_exit 1 "no time left is a failure"
expect_stdout "FAIL  no time left to measure" "by name"
run env BUILD="$BUILD" sh "$check" --no-build --only numerics \
    --specs tiny.yaml:1 --family concat_mla_k --arch sm_90 \
    --override decode.hopper.p_buffers=3
expect_exit 1 "an override reaches the specs"
expect_stdout "p_buffers>:1:1: error: p_buffers: " "which refuse a wrong one"
for args in "--only speed" "--seconds" "--seconds x" "--seconds 0" "what"; do
    # shellcheck disable=SC2086 # words are meant to split
    run sh "$check" $args
    expect_exit 2 "refused as usage: '$args'"
done

finish
