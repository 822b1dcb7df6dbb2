#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# explain.sh: from a generated line to the template's line, from the folder
# alone; and no answer where it would be a guess.
. "$(dirname "$0")/lib.sh"
small_spec >tiny.yaml
run mlagen gen tiny.yaml -D lse.base=2 --symbol-prefix my_ -o one
expect_exit 0 "a folder to ask about"
rm tiny.yaml
file=one/$(cd one && find src -name '*kv_append*')
lines=$(wc -l <"$file")

# line_of FILE N
line_of() {
    sed -n "$2p" "$1"
}

# Every line has an origin, and where the template's line has no expression it
# is the emitted one.
same=0
odd=0
n=1
while [ "$n" -le "$lines" ]; do
    mlagen explain "$file:$n" >answer 2>&1 || odd=$((odd + 1))
    where=$(sed -n '1s/.*: from //p' answer)
    text=$(line_of "$root/${where%:*}" "${where##*:}")
    case $text in
    *'${'*) ;;
    *)
        want=$(printf '%s' "$text" | sed 's/^ *//')
        have=$(line_of "$file" "$n" | sed 's/^ *//')
        if [ "$want" = "$have" ]; then same=$((same + 1)); else odd=$((odd + 1)); fi
        ;;
    esac
    n=$((n + 7))
done
ok "every line has an origin, and fixed text is the template's" [ "$odd" -eq 0 ]
ok "much of the text is fixed" [ "$same" -gt 10 ]

run mlagen explain "$file:1"
expect_exit 0 "the first line"
expect_stdout ": from templates/kernel/kv_append\.cu\.tpl:[0-9]+$" \
    "comes from the kernel's template"
expect_stdout '^  Lua       emit\.head\(' "by this expression"
at=$(grep -n 'extern "C" __global__' "$file" | cut -d: -f1)
run mlagen explain "$file:$at" --json
expect_stdout '"expressions": \["emit\.signature\(plan\)"\]' "JSON has it too"
expect_stdout '"template": "templates/kernel/kv_append\.cu\.tpl"' \
    "with the template"
run mlagen explain one/tiny.h:20
expect_stdout ': from templates/host/header\.h\.tpl' "the header"
run mlagen explain one/tiny.c:20
expect_stdout ': from templates/host/descriptor\.c\.tpl' "the descriptors"
run sh -c "cd one/src && '$BUILD/mlagen' explain $(basename "$file"):3"
expect_exit 0 "from inside the folder"

# --- templates of one's own --------------------------------------------------
cp -r "$root/templates" mine
printf '// mine\n' >>mine/kernel/kv_append.cu.tpl
run mlagen explain "$file:1" -I mine
expect_exit 1 "other templates: 1"
expect_stderr_line1 'made by templates [0-9a-f]+, these are' "both are named"
small_spec >tiny.yaml
run mlagen gen tiny.yaml -I mine -o two
file2=two/$(cd two && find src -name '*kv_append*')
run mlagen explain "$file2:$(wc -l <"$file2")" -I mine
expect_stdout ': from mine/kernel/kv_append\.cu\.tpl' \
    "with -I the folder's own templates are named"
run mlagen explain "$file2:1"
expect_exit 1 "and without it there is no answer"

# --- what is refused ---------------------------------------------------------
run mlagen explain "$file:99999"
expect_exit 2 "a line that is not there: 2"
expect_stderr_line1 "there is no line 99999; it has $lines$" "with the number"
run mlagen explain one/manifest.json:1
expect_exit 5 "the manifest is not a template's: 5"
run mlagen explain one/src/none.cu:1
expect_exit 5 "a file that the manifest does not list: 5"
run mlagen explain nowhere/x.cu:1
expect_exit 5 "no folder: 5"
expect_stderr_line1 '^nowhere/x.cu: error: no manifest.json' "by name"
for place in "$file" "$file:" "$file:x" "$file:0" :3 "$file:-1"; do
    run mlagen explain "$place"
    expect_exit 2 "'${place#one/src/}' is no place: 2"
done
echo '// edited' >>"$file"
run mlagen explain "$file:1"
expect_exit 1 "an edited file: 1"
expect_stderr_line1 'not what the manifest lists' "and says so"

finish
