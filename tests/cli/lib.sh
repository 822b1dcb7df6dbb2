# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# lib.sh: what the command-line tests share.  A test is a POSIX shell script
# that sources this file, runs the command and states what it expects:
#
#     . "$(dirname "$0")/lib.sh"
#     run mlagen check nowhere.yaml
#     expect_exit 5 "a missing spec is an I/O error"
#     finish
#
# `run` keeps the exit code in $code and the two streams in the files $stdout
# and $stderr.  Every expectation prints one line of TAP, and on failure what was
# seen.  Each script works in a fresh folder, $work, which is also its current
# folder, and needs nothing of the machine but the build.
set -u

LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$root/build}
case $BUILD in
/*) ;;
*) BUILD=$root/$BUILD ;;
esac
work=$(mktemp -d) || exit 1
seen=$(mktemp -d) || exit 1
stdout=$seen/stdout
stderr=$seen/stderr
trap 'chmod -R u+rwX "$work" 2>/dev/null; rm -rf "$work" "$seen"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work" || exit 1

count=0
failures=0
code=

mlagen() {
    "$BUILD/mlagen" "$@"
}

# run COMMAND...: keeps its exit code and its output.
run() {
    "$@" >"$stdout" 2>"$stderr" </dev/null
    code=$?
}

# ok NAME COMMAND...: passes when the command succeeds.
ok() {
    name=$1
    shift
    count=$((count + 1))
    if "$@" >"$seen/why" 2>&1; then
        echo "ok $count - $name"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $count - $name"
    {
        echo "failed: $*"
        head -n 5 "$seen/why"
        echo "exit: $code"
        if [ -f "$stdout" ]; then head -n 5 "$stdout" | sed 's/^/out: /'; fi
        if [ -f "$stderr" ]; then head -n 5 "$stderr" | sed 's/^/err: /'; fi
    } | sed 's/^/# /'
}

not() {
    ! "$@"
}

# expect_exit CODE NAME: of the latest run.
expect_exit() {
    ok "$2" [ "$code" -eq "$1" ]
}

# expect_stdout PATTERN NAME: some line of standard output matches.
expect_stdout() {
    ok "$2" grep -qE -e "$1" "$stdout"
}

# expect_stderr PATTERN NAME: some line of standard error matches.
expect_stderr() {
    ok "$2" grep -qE -e "$1" "$stderr"
}

# expect_stderr_line1 PATTERN NAME: the first line of standard error matches.
expect_stderr_line1() {
    head -n 1 "$stderr" >"$seen/line1"
    ok "$2" grep -qE -e "$1" "$seen/line1"
}

# expect_lines FILE COUNT NAME
expect_lines() {
    ok "$3" [ "$(wc -l <"$1")" -eq "$2" ]
}

# A spec with few, small kernels: four heads, rank 32, one arch.
small_spec() {
    cat <<'SPEC'
model: tiny
heads: 4
kv_lora_rank: 32
qk_nope_head_dim: 16
qk_rope_head_dim: 16
v_head_dim: 16
rope: {style: neox, theta: 10000}
kv_cache: {page_size: 16}
arch: [sm_80]
SPEC
}

# digest DIR: one line per file, to compare folders by.
digest() {
    (cd "$1" && find . -type f | LC_ALL=C sort | while read -r file; do
        sha256sum "$file"
    done)
}

finish() {
    echo "1..$count"
    [ "$failures" -eq 0 ]
    exit
}
