#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# files.sh: what gen may do to a folder.  A second run writes nothing, equal
# input gives equal bytes, files of others are left alone, and verify finds
# every edit.
. "$(dirname "$0")/lib.sh"
small_spec >tiny.yaml

# --- a fresh folder, and again ---------------------------------------------
run mlagen gen tiny.yaml -o one
expect_exit 0 "gen into a new folder succeeds"
expect_stdout "^one: [0-9]+ written, 0 unchanged$" "and says what it wrote"
for file in manifest.json tiny.h tiny.c; do
    ok "gen writes $file" [ -f "one/$file" ]
done
ok "gen writes sources" sh -c 'ls one/src/mla_absorb_q_tiny_*_sm_80.cu'
ok "gen leaves no temporary and no journal" \
    [ -z "$(find one -name '.*' -type f)" ]

# Dates and inodes show whether a file was touched.
find one -type f -exec stat -c '%n %i %Y %Z' {} + | sort >before
sleep 1.1
run mlagen gen tiny.yaml -o one
expect_stdout "^one: 0 written, [0-9]+ unchanged$" \
    "a second run writes nothing and says so"
find one -type f -exec stat -c '%n %i %Y %Z' {} + | sort >after
ok "a second run touches no file" cmp before after

mkdir -p elsewhere/deep
cp tiny.yaml elsewhere/deep/
run sh -c "cd elsewhere/deep && '$BUILD/mlagen' gen tiny.yaml -o x/two"
expect_exit 0 "gen from another folder succeeds"
ok "two folders are byte-identical" diff -r one elsewhere/deep/x/two
run env LC_ALL=C.UTF-8 TZ=Asia/Tokyo HOME=/nonexistent USER=someone \
    "$BUILD/mlagen" gen tiny.yaml -o three
ok "locale, time zone, home and user do not matter" diff -r one three
ok "no path of this machine is in the output" \
    not grep -rqE "$work|$root|/(home|root)/" one

# --- provenance --------------------------------------------------------------
run mlagen verify one
expect_exit 0 "verify: a fresh folder is right"
expect_stdout "^one: ok$" "and says so"
ok "no note about it" [ ! -s "$stderr" ]
run mlagen gen tiny.yaml -D kv_cache.page_size=32 -D 'tp=[1, 2]' -o over
ok "overrides are recorded in the manifest" \
    grep -q '"overrides": \["kv_cache.page_size=32", "tp=\[1, 2\]"\]' \
    over/manifest.json
ok "and in every source" \
    sh -c '! grep -L "kv_cache.page_size=32" over/src/*.cu | grep .'
# shellcheck disable=SC2016
ok "the command that is recorded makes the same again" sh -c '
    command=$(sed -n "s/^  \"command\": \"\(.*\)\",$/\1/p" over/manifest.json)
    [ -n "$command" ] && cp over/manifest.json saved.json &&
    eval "\"$1\" ${command#mlagen } -o again" && diff -r over again
' sh "$BUILD/mlagen"
run mlagen gen tiny.yaml --arch 86,sm_80 -o archs
ok "--arch replaces the spec's architectures" \
    sh -c 'ls archs/src/*_sm_86.cu && ls archs/src/*_sm_80.cu'
run mlagen gen tiny.yaml --symbol-prefix acme_ -o prefix
expect_exit 0 "--symbol-prefix succeeds"
ok "every source carries the prefix" \
    sh -c '! ls prefix/src | grep -v "^acme_mla_" | grep .'
# shellcheck disable=SC2016
ok "and defines the kernel of that name" sh -c '
    for f in prefix/src/*.cu; do
        grep -q "$(basename "$f" .cu)(" "$f" || exit 1
    done'

# --- --check, --list-outputs, -MD -------------------------------------------
run mlagen gen tiny.yaml -o one --check
expect_exit 0 "--check: nothing would change: 0"
run mlagen gen tiny.yaml -D kv_cache.page_size=32 -o one --check
expect_exit 1 "--check: something would change: 1"
expect_stdout '^\+ src/mla_.*_p32_sm_80\.cu$' "--check lists new files"
expect_stdout '^- src/mla_.*_p16_sm_80\.cu$' "--check lists removals"
expect_stdout '^~ tiny\.h$' "--check lists changes"
run mlagen gen tiny.yaml -o absent/folder --check
expect_exit 1 "--check of a folder that is not there: 1"
ok "and does not make it" [ ! -e absent ]
digest one >after
run mlagen gen tiny.yaml -D kv_cache.page_size=32 -o one --check
digest one >now
ok "--check writes nothing" cmp after now
run mlagen gen tiny.yaml -o one --list-outputs
sort "$stdout" >listed
find one -type f | sort >present
ok "--list-outputs names exactly the files that gen writes" \
    cmp listed present
ok "the manifest is the last of them" \
    [ "$(tail -n 1 "$stdout")" = one/manifest.json ]
run mlagen gen tiny.yaml
ok "the default folder is out/MODEL" diff -r one out/tiny
cp -r "$root/templates" 'my templates'
run mlagen gen tiny.yaml -I 'my templates' -o one -MD
expect_exit 0 "-MD succeeds"
ok "-MD writes the dependency file beside the folder" [ -f one.d ]
ok "it names the target" grep -q '^one/manifest.json:' one.d
printf 'include one.d\none/manifest.json:\n\t@echo remade\n' >Makefile
touch -d '1 hour ago' tiny.yaml
find 'my templates' -type f -exec touch -d '1 hour ago' {} +
ok "make can read it, and all is up to date" make -q one/manifest.json
touch 'my templates/lib/args.lua'
ok "a template that is newer is a reason to run again" \
    not make -q one/manifest.json
run mlagen gen tiny.yaml -o one -MF deps/x.mk
expect_exit 5 "-MF in a folder that is not there: 5"
expect_stderr_line1 "^deps/x.mk: error: " "and it is named"

# --- files that are in the way ----------------------------------------------
mkdir mine
echo keep >mine/tiny.h
run mlagen gen tiny.yaml -o mine
expect_exit 5 "a file that no manifest lists is not overwritten"
expect_stderr_line1 "^mine/tiny.h: error: .*not made by mlagen" "but named"
ok "its text is kept" grep -q keep mine/tiny.h
ok "and nothing else was written" [ "$(find mine -type f | wc -l)" -eq 1 ]
cp one/tiny.h mine/tiny.h
echo keep >mine/notes.txt
run mlagen gen tiny.yaml -o mine
expect_exit 0 "an unlisted file of the right text is no obstacle"
ok "other files in the folder are left alone" grep -q keep mine/notes.txt
mkdir dir
mkdir dir/tiny.c
run mlagen gen tiny.yaml -o dir
expect_exit 5 "a folder where a file belongs: 5"
expect_stderr_line1 "^dir/tiny.c: error: " "and it is named"
mkdir link
echo keep >target
ln -s ../target link/tiny.h
run mlagen gen tiny.yaml -o link
expect_exit 5 "a symbolic link where a file belongs: 5"
ok "what it points to is kept" grep -q keep target
mkdir foreign
echo '{"name": "webpack"}' >foreign/manifest.json
run mlagen gen tiny.yaml -o foreign
expect_exit 5 "a manifest of another program is not overwritten"
expect_stderr_line1 "^foreign/manifest.json: error: not a manifest" "but named"
mkdir damaged
head -c 300 one/manifest.json >damaged/manifest.json
run mlagen gen tiny.yaml -o damaged
expect_exit 5 "a manifest that was cut off: 5"
expect_stderr_line1 "^damaged/manifest.json:[0-9]+:[0-9]+: error: " \
    "at the place where it ends"

# --- edits -------------------------------------------------------------------
source=$(cd one && find src -name 'mla_absorb_q*.cu')
echo '// mine' >>"one/$source"
run mlagen verify one
expect_exit 1 "verify: a hand edit: 1"
expect_stdout "^changed +$source$" "and it is named"
rm one/tiny.c
echo x >one/extra.txt
run mlagen verify one
expect_stdout "^missing +tiny.c$" "verify names a missing file"
expect_stdout "^extra +extra.txt$" "verify names an extra file"
run mlagen verify --json one
expect_exit 1 "verify --json: 1"
expect_stdout '"ok": false' "verify --json says so"
expect_stdout '\{"path": "extra.txt", "what": "extra"\}' "and lists faults"
run mlagen gen tiny.yaml -o one
expect_exit 0 "gen repairs an edited file"
expect_stderr "^one/$source: warning: edited by hand" "and warns about it"
expect_stdout "^one: 2 written" "and writes only what differs"
rm one/extra.txt
sed 's/"heads": 4/"heads": 5/' one/manifest.json >edited
cp edited one/manifest.json
run mlagen verify one
expect_exit 1 "verify: an edited manifest: 1"
expect_stdout "^changed +manifest.json$" "and it is named"
run mlagen gen tiny.yaml -o one
run mlagen verify one
expect_exit 0 "gen repairs it"
run mlagen verify .
expect_exit 5 "verify of a folder without a manifest: 5"
expect_stderr_line1 "^./manifest.json: error: " "and it is named"

# --- stale files -------------------------------------------------------------
edited=$(cd one && find src -name 'mla_kv_append*.cu')
echo '// mine' >>"one/$edited"
run mlagen gen tiny.yaml -D kv_cache.page_size=32 -o one
expect_exit 0 "gen of another spec into the same folder succeeds"
expect_stdout "removed" "and says what it removed"
ok "files of the generation before are gone" \
    sh -c '! ls one/src/mla_absorb_q*_p16_* 2>/dev/null'
ok "but not one that was edited" [ -f "one/$edited" ]
expect_stderr "^one/$edited: warning: .*edited by hand: left" "which is named"
run mlagen verify one
expect_stdout "^extra +$edited$" "verify then calls it an extra file"
rm "one/$edited"
run mlagen gen tiny.yaml -D kv_cache.page_size=32 -o clean
ok "what is left equals a generation into an empty folder" diff -r one clean

# --- staleness against this program ------------------------------------------
run mlagen gen tiny.yaml -o one
printf '\n' >>'my templates/lib/args.lua'
run mlagen verify one -I 'my templates'
expect_exit 0 "verify: another set of templates is no fault"
expect_stderr "manifest.json: note: .*templates" "but a note"
run mlagen gen tiny.yaml -I "$root/templates" -o same
ok "-I with the built-in templates gives the same bytes" diff -r one same

# --- a kernel's template does not see the architecture -------------------------
cp -R "$root/templates" seeing
printf '// ${plan.arch}\n' >>seeing/kernel/kv_append.cu.tpl
run mlagen gen tiny.yaml -I seeing -o seen
expect_exit 4 "a source that names its architecture is refused"
expect_stderr 'kernel/kv_append.cu.tpl:[0-9]+: error: .*plan.arch' "at its line"

finish
