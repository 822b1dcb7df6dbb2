#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# harness.sh: tests/tap.sh itself: a failure must not be able to hide.
. "$(dirname "$0")/lib.sh"
tap=$root/tests/tap.sh

# program NAME TEXT: a test program that is this shell script.
program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

program good 'echo 1..2; echo "ok 1 - a"; echo "ok 2 - b"'
program late 'echo "ok 1 - a"; echo 1..1'
program bad 'echo 1..2; echo "ok 1"; echo "not ok 2 - b"; echo "# why"; exit 1'
program quiet 'echo 1..1; echo "not ok 1 - hidden by exit 0"'
program crash 'echo "ok 1 - a"; kill -SEGV $$'
program mute 'echo hello'
program short 'echo 1..3; echo "ok 1 - a"'
program odd 'echo 1..1; echo "ok 1 - a"; exit 3'
program slow 'echo "ok 1 - a"; sleep 60'
program unplanned 'echo "ok 1 - a"; echo "ok 2 - b"'

run "$tap" good late unplanned
expect_exit 0 "all passed: 0"
ok "one line and no more" [ "$(cat "$stdout")" = "5 passed, 0 failed" ]
run "$tap" good bad late
expect_exit 1 "a failure: 1"
expect_stdout "^4 passed, 1 failed$" "counted"
expect_stdout "^bad: not ok 2 - b$" "and shown with its program"
expect_stdout "^ *# why$" "and what explains it"
run "$tap" quiet
expect_exit 1 "a failure counts, whatever the exit code"
run "$tap" crash good
expect_exit 1 "a crash is a failure"
expect_stdout "^crash: died of signal 11$" "and is named"
expect_stdout "^3 passed, 1 failed$" "the tests before it and after it count"
run "$tap" mute
expect_exit 1 "a program without TAP is a failure"
expect_stdout "^mute: printed no TAP" "and is named"
expect_stdout "hello" "with what it said"
run "$tap" short
expect_exit 1 "fewer tests than planned is a failure"
expect_stdout "planned 3 tests, ran 1" "and says so"
run "$tap" odd
expect_exit 1 "an exit code without a failed test is a failure"
run "$tap" absent
expect_exit 1 "a program that is not there is a failure"
run env TAP_TIMEOUT=1 "$tap" slow
expect_exit 1 "a program that hangs is a failure"
expect_stdout "^slow: timed out$" "and is named"
run "$tap"
expect_exit 1 "no program at all is a failure"

# And the helpers of lib.sh: a script whose expectation fails fails.
sed "s|\$(dirname \"\$0\")|$root/tests/cli|" >fails.sh <<'SH'
#!/bin/sh
. "$(dirname "$0")/lib.sh"
run false
expect_exit 0 "false is true"
run echo hello
expect_stdout goodbye "hello is goodbye"
expect_exit 0 "echo works"
finish
SH
chmod +x fails.sh
run "$tap" fails.sh
expect_exit 1 "an expectation that is not met fails the script"
expect_stdout "^1 passed, 2 failed$" "each of them"
finish
