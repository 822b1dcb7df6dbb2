#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# roofline.sh: what bounds each kernel, as a drawing (`plan --plot`).  The
# numbers are checked against a calculation by hand for a few kernels; the
# files are valid; what cannot be drawn is said.
. "$(dirname "$0")/lib.sh"

small_spec >tiny.yaml

# --- numbers -----------------------------------------------------------------
# 4 heads, R 32, nope, rope and v 16; an A100 has 108 SMs at 1410 MHz, 1446
# bytes and 108 x 1024 multiply-adds a clock.
run mlagen plan tiny.yaml --plot tiny.gp --json --batch 3 --seq-len 100 \
    --q-len 2
expect_exit 0 "the numbers are printed as JSON"
cp "$stdout" data

# value LABEL KEY: of that kernel, its times aside.
value() {
    tr -d '\n' <data | sed 's/"ns": {[^}]*}//g;s/{ *"arch"/\n&/g' |
        grep -F "\"label\": \"$1\"" | sed "s/.*\"$2\": \([0-9]*\).*/\1/"
}
# is LABEL KEY NUMBER WHY
is() {
    ok "$1: $4" [ "$(value "$1" "$2")" = "$3" ]
}
is "mqa_decode m16, 4" bytes 32736 \
    "2 x 3 x (100 x 48 + 8 x (48 + 32)) bytes and 3 x 8 LSE"
is "mqa_decode m16, 4" fmas 491520 "3 x 2 tiles of 16 x 64 x (48 + 32)"
# A tile of 64 keys and 16 rows by 4 warps: K written and read, V, P written
# and read four times, partial sums: 12288 + 4096 + 10240 + 8192 bytes.
is "mqa_decode m16, 4" port 1632 "6 tiles x 34816 bytes / 128"
is "mqa_decode m16, 4" flops 382080 "2 x 3 x 4 x (99 + 100) x 80"
is "mqa_decode m16, 4" predicted_ns 16 "32736 / 1446 clocks at 1410 MHz"
is "mha, 4" bytes 68800 "q, k_nope, v, out, k_rope and LSE of 100 tokens"
# Warps of 32 rows see 1, 1, 2 and 2 tiles of 64 keys, the block 2.
is "mha, 4" fmas 2359296 "4 heads x 6 tiles of 32 x 64 x 48"
# K and V of a tile are 6144 bytes, Q of a warp 2048; Q in and O there and back.
is "mha, 4" port 2320 "4 x (2 x 6144 + 6 x 8192 + 100 x 128) bytes / 128"
is "mha, 4" flops 1939200 "2 x 4 x 5050 pairs x 48"
is "concat_mla_k, 4" bytes 41600 "2 x 100 x (4 x 48 + 16)"
is "absorb_q, 4" flops 24576 "2 x 6 x 4 x 16 x 32"
is "kv_append, 4" bytes 1696 "6 x (4 x 48 + 64 + 16) and the weights"
is "merge_state latent, 4" bytes 4896 "3 x 24 rows of 68 bytes"
ok "the largest time is the limit" \
    grep -q '"limit": "bytes"' data
ok "the work is stated" grep -q '"batch": 3' data

run mlagen plan tiny.yaml --plot tiny.gp --json
ok "without flags it is 128 requests of 4096 keys" \
    grep -q '"batch": 128' "$stdout"
cp "$stdout" data
is "mqa_decode m16, 4" flops 335544320 "2 x 128 x 4 x 4096 x 80"
is "mqa_decode m16, 4" fmas 671088640 "128 x 64 tiles of 16 x 64 x 80"

# On sm_90a the port is what the plan counts for 64 rows and 64 keys: K by TMA
# and to S, V, P stored once and read twice, 5 of 36 k-steps of Q.
mlagen plan deepseek-v3 -D 'tp=[8]' --arch sm_90a --plot x.gp --json \
    --seq-len 6400 --batch 1 >data
is "mqa_decode m64, 16" port 193600 "100 tiles x 1936"
is "mqa_decode m64, 16" fmas 445644800 "100 tiles x 64 x 64 x 1088"

# The rows of the work decide which tile of mqa_decode takes it.
mlagen plan deepseek-v3 --arch sm_80 --plot v3.gp --q-len 2 -q
ok "32 rows of 16 heads go to tiles of 32 rows" \
    grep -q '^"mqa_decode m32, 16"' v3.gp
ok "and to no other" not grep -q '^"mqa_decode m16, 16"' v3.gp

# --- files -------------------------------------------------------------------
run mlagen plan deepseek-v3 --arch sm_80,sm_90 --plot v3.svg
expect_exit 0 "an SVG is drawn"
expect_stdout "^v3.svg: written$" "and named"
if command -v xmllint >/dev/null 2>&1; then
    ok "it is XML" xmllint --noout v3.svg
fi
ok "it ends as SVG does" grep -q '</svg>' v3.svg
for text in "A100 (sm_80)" "H200 (sm_90)" "mqa_decode m64, 128" \
    "shared-memory port" "FlashMLA, H800 (README)" "decode of 128 x 1 tokens"; do
    ok "it says '$text'" grep -qF "$text" v3.svg
done
run mlagen plan tiny.yaml --plot tiny.png -q
expect_exit 0 "a PNG is drawn"
expect_lines "$stdout" 0 "-q says nothing"
ok "it is PNG" [ "$(head -c 4 tiny.png | tail -c 3)" = PNG ]
ok "nobody's figures stand beside other widths" \
    not grep -q FlashMLA tiny.gp
mlagen plan deepseek-v3 --plot one.gp -q
mlagen plan deepseek-v3 --plot two.gp -q
ok "the script is the same each time" cmp one.gp two.gp
ok "every architecture of the spec has its panels" \
    [ "$(grep -c '^set origin 0,' one.gp)" = \
        "$(mlagen plan deepseek-v3 --json | grep '"arch": ' | sort -u |
            wc -l)" ]
ok "the script draws what the verb drew" \
    sh -c "gnuplot one.gp >one.svg && grep -q '</svg>' one.svg"

# --- counters ----------------------------------------------------------------
cat >counters.json <<'COUNTERS'
{"device": "x", "arch": "sm_80", "launches": [
 {"kernel": "mla_mha_tiny_bf16_h4_p16_sm_80", "work": "causal",
  "bytes": 1446000, "flops": 442368000, "port": 216000, "insns": 864000}]}
COUNTERS
run mlagen plan tiny.yaml --plot counted.gp --counters counters.json --json
expect_exit 0 "counters are drawn in place of the plans"
cp "$stdout" data
# 1000 clocks of bytes, 2000 of MMA, 2000 of port and 2000 of issue, at 1.41.
ok "each total by what the device does in a clock" grep -qF \
    '"ns": {"bytes": 709, "issue": 1418, "mma": 1418, "port": 1418}' data
is "mha, 4: causal" predicted_ns 1418 "the largest of the four"
ok "nothing else is drawn" [ "$(grep -c '^"' counted.gp)" -eq 2 ]
ok "and the title says so" grep -q 'counters of the virtual GPU' counted.gp
sed 's/_tiny_/_other_/' counters.json >other.json
run mlagen plan tiny.yaml --plot x.gp --counters other.json
expect_exit 4 "counters of a kernel that the spec does not have"
expect_stderr "mla_mha_other_bf16_h4_p16_sm_80" "by name"
echo '{"launches": 3}' >bad.json
run mlagen plan tiny.yaml --plot x.gp --counters bad.json
expect_exit 3 "a file without counters"
expect_stderr_line1 "^bad.json: error: not the counters" "by name"
run mlagen plan tiny.yaml --plot x.gp --counters nowhere.json
expect_exit 5 "no file"

# --- what goes wrong ---------------------------------------------------------
run mlagen plan tiny.yaml --plot x.pdf
expect_exit 2 "another format"
expect_stderr_line1 "'x.pdf' ends in none of .svg, .png and .gp" "by name"
run mlagen plan tiny.yaml --plot nowhere/x.gp
expect_exit 5 "no folder"
mkdir empty
run env PATH="$work/empty" "$BUILD/mlagen" plan tiny.yaml --plot x.svg
expect_exit 5 "gnuplot is not installed"
expect_stderr_line1 "error: cannot run gnuplot: .*--plot FILE\.gp" \
    "the message says what to do"
ok "nothing is written" [ ! -e x.svg ]
run env PATH="$work/empty" "$BUILD/mlagen" plan tiny.yaml --plot x.gp
expect_exit 0 "the script takes no gnuplot"
mkdir fake
printf '#!/bin/sh\necho "it is broken" >&2\nexit 3\n' >fake/gnuplot
chmod +x fake/gnuplot
run env PATH="$work/fake:$PATH" "$BUILD/mlagen" plan tiny.yaml --plot x.svg
expect_exit 5 "gnuplot fails"
expect_stderr_line1 "gnuplot has failed: it is broken" "in its own words"
printf '#!/bin/sh\nexit 0\n' >fake/gnuplot
run env PATH="$work/fake:$PATH" "$BUILD/mlagen" plan tiny.yaml --plot x.svg
expect_exit 5 "a drawing that is none is not written"
run mlagen plan tiny.yaml --plot x.gp --q-len 9 --seq-len 8
expect_exit 4 "more new tokens than keys"
for args in "--batch 2" "--seq-len 2" "--q-len 2" "--counters x" \
    "--plot x.gp --batch 0" "--plot x.gp --batch x" \
    "--plot x.gp --seq-len 16777217" "--plot"; do
    # shellcheck disable=SC2086 # words are meant to split
    run mlagen plan tiny.yaml $args
    expect_exit 2 "refused as usage: '$args'"
done
run mlagen gen tiny.yaml --plot x.svg
expect_exit 2 "only plan draws"

finish
