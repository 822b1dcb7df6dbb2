#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A bad spec gives one `file:line:col: error:` line first, which says what was
# given and what is allowed, and exit code 3.
. "$(dirname "$0")/lib.sh"

# The line on which each base key stands is fixed: later cases count on it.
base() {
    cat <<'SPEC'
model: tiny
heads: 8
kv_lora_rank: 64
qk_nope_head_dim: 32
qk_rope_head_dim: 32
v_head_dim: 32
rope:
  style: interleaved
kv_cache:
  page_size: 16
arch: [sm_80]
SPEC
}

# refused NAME POSITION WORDS [ERRORS]: bad.yaml, with one error (or ERRORS) whose
# first line has the position and, in any order, all WORDS (patterns)
refused() {
    run mlagen check bad.yaml
    expect_exit 3 "$1: exit 3"
    expect_stderr_line1 "^bad\.yaml:$2: error: " "$1: at $2"
    for word in $3; do
        expect_stderr_line1 "error: .*$word" "$1: says $word"
    done
    ok "$1: one error line" \
        [ "$(grep -c 'error: ' "$stderr")" -eq "${4:-1}" ]
}
# edit SCRIPT: bad.yaml is the base, edited by sed
edit() {
    base | sed "$1" >"$work/bad.yaml"
}
# more LINE: bad.yaml is the base and one more line
more() {
    { base; echo "$1"; } >"$work/bad.yaml"
}

base >"$work/good.yaml"
run mlagen check good.yaml
expect_exit 0 "the base spec is good"

edit '2s/heads/haeds/'
refused "unknown key" 2:1 "haeds heads" 2
more 'heads: 16'
refused "duplicate key" 12:1 'heads 2'
edit '2s/8/eight/'
refused "wrong type" 2:8 "eight"
edit '2s/8/8.0/'
refused "a float is no int" 2:8 '8\.0'
edit '2s/8/0x10/'
refused "no hexadecimal" 2:8 '0x10'
edit '2s/8/1_000/'
refused "no underscores" 2:8 '1_000'
edit '2s/8/99999999999999999999/'
refused "overflow" 2:8 '99999999999'
edit '2s/8/-8/'
refused "negative" 2:8 '\-8'
edit '10s/16/48/'
refused "odd page size" 10:14 '48 (32|64)'
edit '10s/16/512/'
refused "page size too large" 10:14 '512 256'
edit '5s/32/24/'
refused "rope 24" 5:19 '24 16 (16|32)'
edit '3s/64/100/'
refused "kv_lora_rank 100" 3:15 '100 16 (96|112)'
edit '3s/64/2048/'
refused "kv_lora_rank 2048" 3:15 '2048 1024'
edit '3s/64/1024/; 5s/32/144/'
refused "a row too wide" 5:19 '1168 1152 128'
edit '8s/interleaved/gptj/'
refused "bad enum" 8:10 'gptj interleaved neox none'
edit '5s/32/0/'
refused "rope 0 with a pairing" 8:10 'must be none'
edit '11s/sm_80/sm_75/'
refused "unknown architecture" 11:8 'sm_75 sm_80 sm_120'
edit '11s/sm_80/9.0/'
refused "an arch as a number" 11:8 '9\.0 did you mean sm_90'
edit '11s/sm_80/sm_89a/'
refused "an arch with a suffix" 11:8 'sm_89a did you mean sm_89'
edit '11s/\[sm_80\]/sm_80/'
refused "a scalar for a list" 11:7 'list'
edit '2s/heads: 8/heads: [8]/'
refused "a list for a scalar" 2:8 'int'
edit '2s/8/null/'
refused "null where a number is due" 2:8 'null'
edit '2d'
refused "a missing key" '[0-9]+:[0-9]+' 'heads'
more 'tp: [3]'
refused "tp does not divide" 12:6 '3 8'
edit '2s/8/512/'
refused "too many local heads" '[0-9]+:[0-9]+' '512 256'
more 'softmax_scale: 1e-50'
refused "scale below float32" 12:16 '1e-50'
more 'softmax_scale: .nan'
refused "scale NaN" 12:16 'nan'
more 'softmax_scale: automatic'
refused "scale word" 12:16 'automatic auto'
more 'q_lora_scale: 2'
refused "a factor of a query that is not compressed" 12:15 'q_lora_rank'
more 'kv_lora_scale: 0'
refused "a factor of zero" 12:16 'kv_lora_scale|1e-06'
more 'q_position_scale: {beta: 0.1}'
refused "a factor by position without its context" '12:[0-9]+' \
    'original_max_position_embeddings'
edit '8s/interleaved/none/;$a\
q_position_scale: {beta: 0.1, original_max_position_embeddings: 8192}'
refused "a factor by position without positions" '[0-9]+:[0-9]+' 'positions'
more 'lse: {base: 10}'
refused "log base" 12:13 '10 e 2'
more 'decode: {max_q_len: 17}'
refused "q_len" 12:21 '17 16'
more 'decode: {hopper: {schedule: alternating, p_buffers: 2}}'
refused "an option of another schedule" '12:[0-9]+' \
    'p_buffers specialised alternating 1'
edit '10s/page_size: 16/dtype: fp8_e4m3/'
refused "fp8 cache" 10:10 'fp8_e4m3 (auto|bf16)'
edit '8a\  scaling: {type: yarn}'
refused "yarn without its numbers" '9:[0-9]+' 'factor' 2
edit '8a\  scaling: {type: longrope, short_factor: [1], long_factor: [1]}'
refused "longrope factor count" '9:[0-9]+' '1 16' 2
edit '1s/tiny/a b/'
refused "model name" 1:8 'a b'
edit '1s/: tiny/: [/'
refused "truncated flow" '[0-9]+:[0-9]+' ''
printf 'model: "tiny\n' >bad.yaml
refused "truncated YAML" '[0-9]+:[0-9]+' ''
printf 'model: *x\n' >bad.yaml
refused "an unknown alias" '[0-9]+:[0-9]+' ''
printf 'a: &a [x]\nb: [*a, *a]\n' >bad.yaml
refused "anchors" '[0-9]+:[0-9]+' '' 1
printf '\t\tmodel: x\n' >bad.yaml
refused "tabs" '[0-9]+:[0-9]+' ''
printf 'model: \377\376\n' >bad.yaml
refused "not UTF-8" '[0-9]+:[0-9]+' ''
head -c 4096 /dev/zero >bad.yaml
refused "zeros" '[0-9]+:[0-9]+' ''
head -c 65536 "$BUILD/mlagen" >bad.yaml
refused "binary junk" '[0-9]+:[0-9]+' ''
: >bad.yaml
refused "an empty file" '[0-9]+:[0-9]+' ''
awk 'BEGIN { for (i = 0; i < 5000; i++) printf "["; print "" }' >bad.yaml
refused "deep nesting" '[0-9]+:[0-9]+' ''
printf '%s\n---\n%s\n' "model: a" "model: b" >bad.yaml
refused "two documents" '[0-9]+:[0-9]+' ''

run mlagen check nowhere.yaml
expect_exit 5 "a missing file is an I/O error"
expect_stderr_line1 'nowhere\.yaml.*error: ' "... that names it"
run mlagen check .
expect_exit 5 "a folder is an I/O error"
finish
