#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage.sh: verbs, flags and exit codes: what is refused is refused by name,
# with exit code 2 and one line; results go to standard output, diagnostics to
# standard error.
. "$(dirname "$0")/lib.sh"
small_spec >tiny.yaml

# one_line_usage PATTERN NAME ARGS...: exit 2, one line, nothing on stdout.
one_line_usage() {
    pattern=$1 what=$2
    shift 2
    run mlagen "$@"
    expect_exit 2 "$what: exit 2"
    expect_stderr_line1 "^mlagen: error: .*$pattern" "$what: named"
    expect_lines "$stderr" 1 "$what: one line"
    ok "$what: nothing on standard output" [ ! -s "$stdout" ]
}

one_line_usage "no verb" "no verb"
one_line_usage "unknown verb 'xyzzy'.*mlagen help" "an unknown verb" xyzzy
one_line_usage "did you mean 'build'" "a mistyped verb" biuld
one_line_usage "'explain' needs FILE:LINE" "explain without a place" explain
one_line_usage "'x' is no FILE:LINE" "a place that is none" explain x
one_line_usage "'x:0' is no FILE:LINE" "a place at line 0" explain x:0
one_line_usage "'bundle' takes no flag '--arch'" "--arch with bundle" \
    bundle --arch sm_80 out
one_line_usage "unknown flag '--arhc'.*'--arch'" "a mistyped flag" \
    gen --arhc sm_80 tiny.yaml
one_line_usage "'check' takes no flag '-o'" "-o with check" \
    check -o x tiny.yaml
one_line_usage "'gen' takes no flag '-j'" "-j with gen" gen -j 2 tiny.yaml
one_line_usage "'gen' takes no flag '--strict'" "--strict with gen" \
    gen --strict tiny.yaml
one_line_usage "'import' takes no flag '--arch'" "--arch with import" \
    import --arch sm_80 config.json
one_line_usage "'verify' takes no flag '-D'" "-D with verify" \
    verify -Dheads=1 out
one_line_usage "'version' takes no flag '--json'" "--json with version" \
    version --json
one_line_usage "'gen' needs SPEC" "a missing operand" gen
one_line_usage "one SPEC, got 'a' and 'b'" "two operands" gen a b
one_line_usage "takes no argument, got 'x'" "an operand for list" list x
one_line_usage "'-o' needs a value" "a flag without its value" gen tiny.yaml -o
one_line_usage "'-j' takes a number.*'0'" "-j 0" build -j 0 tiny.yaml
one_line_usage "'-j' takes a number.*'x'" "-j x" build -jx tiny.yaml
one_line_usage "'--check' takes no value" "a switch with a value" \
    gen --check=yes tiny.yaml
one_line_usage "takes gnu or json, not 'xml'" "an unknown error format" \
    check --error-format=xml tiny.yaml
one_line_usage "symbol prefix '9x'" "a prefix that begins with a digit" \
    gen --symbol-prefix 9x tiny.yaml
one_line_usage "nonsense: expected key" "a -D without a value" plan -D nonsense tiny.yaml
one_line_usage "unknown verb 'gne'.*'gen'" "help for an unknown verb" help gne

# Architecture names (all spellings that people use).
for arch in 9 "" 9.0a+PTX sm_ sm_8 8.10 a100 10.0af -80 "80 "; do
    run mlagen plan "--arch=sm_80,$arch" tiny.yaml
    expect_exit 2 "--arch '$arch' is refused"
done
for arch in sm_80 80 8.0 compute_80 sm_120,8.6,100; do
    run mlagen plan --arch "$arch" tiny.yaml
    expect_exit 0 "--arch $arch is understood"
done
run mlagen plan --arch 9.0f tiny.yaml
expect_exit 3 "an architecture that arch.yaml does not list is a spec error"
expect_stderr_line1 "error: .*sm_90f" "and is named"

# Help and version.
for verb in import check plan gen build verify bundle explain list env \
    help version; do
    run mlagen "$verb" -h
    expect_exit 0 "'$verb -h' succeeds"
    expect_stdout "^usage: mlagen $verb" "'$verb -h' shows its usage"
    run mlagen help "$verb"
    expect_stdout "^usage: mlagen $verb" "'help $verb' shows the same"
done
run mlagen help
expect_exit 0 "help succeeds"
for verb in import check plan gen build verify bundle explain run-check list \
    env version; do
    expect_stdout "^  $verb " "help lists $verb"
done
run mlagen --version
expect_stdout '^mlagen [0-9]+\.[0-9]+\.[0-9]+$' "--version prints the version"

# Exit codes that differ by cause.
run mlagen check tiny.yaml
expect_exit 0 "a good spec: 0"
run mlagen check absent.yaml
expect_exit 5 "a missing spec: 5"
expect_stderr_line1 "^absent.yaml: error: " "and it is named"
echo "heads: no" >bad.yaml
run mlagen check bad.yaml
expect_exit 3 "a bad spec: 3"
expect_stderr_line1 "^bad.yaml:1:[0-9]+: error: " "with line and column"
run mlagen check -D heads=x tiny.yaml
expect_exit 3 "a bad override: 3"
expect_stderr_line1 "^<-D heads>:" "placed at the override"
mkdir templates
echo 'return { check = function() error("boom") end }' >templates/main.lua
run mlagen check -I templates tiny.yaml
expect_exit 4 "a fault in a template: 4"
expect_stderr_line1 "^templates/main.lua:1: error: .*boom" "at its line"

# Standard input, built-in specs, the form of errors.
run sh -c "\"$BUILD/mlagen\" check - <tiny.yaml"
expect_exit 0 "- reads standard input"
run sh -c "echo 'x: 1' | \"$BUILD/mlagen\" check -"
expect_stderr_line1 "^<stdin>:1:1: error: " "and names it in errors"
run mlagen check deepseek-v3
expect_exit 0 "a built-in spec is found by name"
run mlagen check --error-format=json bad.yaml
expect_stderr_line1 '^\{"severity":"error","file":"bad.yaml","line":1,' \
    "--error-format=json makes JSON"
run mlagen gen --wrong --error-format=json
expect_stderr_line1 '^\{"severity":"error","file":null' \
    "also for an error that stands before the flag"
run mlagen check -q tiny.yaml
ok "-q prints nothing" [ ! -s "$stdout" ]

# Output that cannot be written is an error, not silence.
run sh -c "\"$BUILD/mlagen\" list >&-"
expect_exit 5 "a closed standard output: 5"
expect_stderr_line1 "^<stdout>: error: " "and it is named"
if [ -w /dev/full ]; then
    run sh -c "\"$BUILD/mlagen\" list >/dev/full"
    expect_exit 5 "a full device behind standard output: 5"
fi
mkfifo pipe
run sh -c "exec 3<>pipe; exec 4>pipe 3<&-; \"$BUILD/mlagen\" list >&4"
expect_exit 5 "a reader that went away: 5, not a silent death by SIGPIPE"
expect_stderr_line1 "Broken pipe" "and it is named"

# list and env.
run mlagen list --json
expect_exit 0 "list --json succeeds"
for key in specs families archs dtypes; do
    expect_stdout "\"$key\": \\[" "list --json has $key"
done
run mlagen list
expect_stdout "^  sm_90 " "list names architectures"
sed -n '/^archs/,/^dtypes/s/^  sm_\([0-9]*\).*/\1/p' "$stdout" >archs
ok "architectures are in numeric order" sort -n -c archs
run mlagen env --json
expect_exit 0 "env --json succeeds"
for key in mlagen lua libyaml jansson nvrtc driver cuda_home; do
    expect_stdout "\"$key\": " "env --json has $key"
done
MLA_NVRTC=$work/none.so
MLA_DRIVER=$work/none.so
export MLA_NVRTC MLA_DRIVER
run mlagen env
expect_exit 0 "env succeeds without compiler and driver"
expect_stdout "^NVRTC *missing: .*none.so" "and says what it looked for"
expect_stdout "^driver *missing: " "for the driver too"
unset MLA_NVRTC MLA_DRIVER

# run-check is another program: beside mlagen, then on PATH.
mkdir beside path
cp "$BUILD/mlagen" beside/
printf '#!/bin/sh\necho "beside $*"\nexit 7\n' >beside/mlagen-run-check
printf '#!/bin/sh\necho "path $*"\nexit 1\n' >path/mlagen-run-check
chmod +x beside/mlagen-run-check path/mlagen-run-check
run beside/mlagen run-check out --json -h x
expect_exit 7 "run-check's exit code is the program's"
expect_stdout "^beside out --json -h x$" "all arguments are passed on"
rm beside/mlagen-run-check
run env "PATH=$work/path:$PATH" beside/mlagen run-check out
expect_stdout "^path out$" "the one on PATH is second"
run env "PATH=/nonexistent" beside/mlagen run-check out
expect_exit 5 "without one: 5"
expect_stderr_line1 "^mlagen: error: .*mlagen-run-check" "and it is named"

finish
