#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tap.sh PROGRAM...: runs test programs and counts what they say.
#
# A test program prints TAP: "ok N - name" or "not ok N - name", and a plan
# "1..N" at the beginning or the end.  This script shows the failures as they
# happen, each with the lines that explain it, and ends with one line
#
#     213 passed, 0 failed
#
# Beside a "not ok", these are failures too: a program that cannot be run, that
# dies of a signal, that exits with an error although every test passed, that
# prints no TAP at all, or whose plan and tests do not agree.  Exit status 1
# when anything failed.
#
# TAP_TIMEOUT (seconds, default 600) bounds each program; TAP_JOBS (default: the
# cores) of them run at the same time, and are reported in the order given.  On
# a terminal a line says meanwhile how far they are.
set -u

# cmocka's programs print TAP when told so.
export CMOCKA_MESSAGE_OUTPUT=TAP

passed=0
failed=0
here=$0
TAP_DIR=${TAP_DIR:-}

# tap.sh --run "N PROGRAM", for ourselves: its output to N.log, then its exit
# code to N.code.
if [ "${1:-}" = --run ]; then
    n=${2%% *}
    program=${2#* }
    case $program in
    */*) ;;
    *) program=./$program ;;
    esac
    code=-1
    if [ -x "$program" ]; then
        timeout -k 10 "${TAP_TIMEOUT:-600}" "$program" </dev/null \
            >"$TAP_DIR/$n.log" 2>&1
        code=$?
    fi
    echo "$code" >"$TAP_DIR/$n.new"
    mv "$TAP_DIR/$n.new" "$TAP_DIR/$n.code"
    exit 0
fi

TAP_DIR=$(mktemp -d) || exit 1
export TAP_DIR
trap 'rm -rf "$TAP_DIR"' EXIT
trap 'exit 1' HUP INT TERM

# Prints each "not ok" and the lines up to the next result; then, as the last
# line, the numbers: ok, not ok, planned (-1 without a plan).
summarise() {
    awk -v program="$1" '
        /^ok([ \t]|$)/ { ok++; show = 0; next }
        /^not ok([ \t]|$)/ { bad++; show = 1; print program ": " $0; next }
        /^1\.\.[0-9]+/ {
            split($1, part, "\\.\\."); planned += part[2]; plan = 1; next
        }
        show { print "    " $0 }
        END { print ok + 0, bad + 0, plan ? planned : -1 }
    ' "$log"
}

fault() {
    failed=$((failed + 1))
    echo "$1: $2"
    # What it printed last is the best hint there is.
    tail -n 12 "$log" | sed 's/^/    /'
}

# wait_for PROGRAM TOTAL: until it has ended; what it did last, on a terminal.
wait_for() {
    tick=0
    until [ -f "${log%.log}.code" ]; do
        if [ -t 2 ] && [ $((tick % 10)) -eq 0 ]; then
            ended=$(find "$TAP_DIR" -name '*.code' | wc -l)
            last=$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-60)
            printf '\r\033[K%s of %s; %s: %s' "$ended" "$2" "${1##*/}" \
                "$last" >&2
        fi
        tick=$((tick + 1))
        sleep 0.1
    done
    [ ! -t 2 ] || printf '\r\033[K' >&2
}

n=0
for program in "$@"; do
    n=$((n + 1))
    : >"$TAP_DIR/$n.log"
    printf '%s %s\0' "$n" "$program"
done >"$TAP_DIR/list"
xargs -0 -n 1 -P "${TAP_JOBS:-$(nproc)}" sh "$here" --run <"$TAP_DIR/list" &

n=0
for program in "$@"; do
    n=$((n + 1))
    log=$TAP_DIR/$n.log
    wait_for "$program" $#
    code=$(cat "$TAP_DIR/$n.code")
    if [ "$code" -lt 0 ]; then
        fault "$program" "cannot be run"
        continue
    fi
    report=$(summarise "$program")
    counts=${report##*
}
    ok=${counts%% *}
    rest=${counts#* }
    bad=${rest%% *}
    planned=${rest#* }
    [ "$report" = "$counts" ] || printf '%s\n' "${report%
*}"
    passed=$((passed + ok))
    failed=$((failed + bad))
    if [ "$code" -eq 124 ]; then
        fault "$program" "timed out"
    elif [ "$code" -gt 128 ]; then
        fault "$program" "died of signal $((code - 128))"
    elif [ $((ok + bad)) -eq 0 ]; then
        fault "$program" "printed no TAP (exit $code)"
    elif [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then
        fault "$program" "exit $code although every test passed"
    elif [ "$planned" -ge 0 ] && [ "$planned" -ne $((ok + bad)) ]; then
        fault "$program" "planned $planned tests, ran $((ok + bad))"
    fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
