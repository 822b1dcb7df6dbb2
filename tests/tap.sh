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
# TAP_TIMEOUT (seconds, default 600) bounds each program.
set -u

# cmocka's programs print TAP when told so.
export CMOCKA_MESSAGE_OUTPUT=TAP

passed=0
failed=0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
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

for program in "$@"; do
    case $program in
    */*) path=$program ;;
    *) path=./$program ;;
    esac
    if [ ! -x "$path" ]; then
        : >"$log"
        fault "$program" "cannot be run"
        continue
    fi
    timeout -k 10 "${TAP_TIMEOUT:-600}" "$path" >"$log" 2>&1 </dev/null
    code=$?
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
