# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts whose tests are commands: row() and what it counts in.
# The script says where `log` is, and ends with `echo "1..$n"; exit $bad`.
# shellcheck shell=sh disable=SC2034,SC2154
n=0
bad=0

# row NAME COMMAND...: ok when the command succeeds; its output on failure
row() {
    row_name=$1
    shift
    n=$((n + 1))
    if "$@" >"$log" 2>&1; then
        echo "ok $n - $row_name"
    else
        echo "not ok $n - $row_name"
        tail -n 40 "$log" | sed 's/^/# /'
        bad=1
    fi
}
