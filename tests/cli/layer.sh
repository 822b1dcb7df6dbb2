#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# layer.sh: run-check's last suite, the attention of a whole layer by every way
# there is.  With the built-in templates every way runs; a kernel that is wrong
# shows in the ways that use it and in no other; a way that could not run is
# named.
. "$(dirname "$0")/lib.sh"

MLA_DRIVER=$BUILD/libvgpu.so
VGPU_DEVICE=a100
export MLA_DRIVER VGPU_DEVICE

small_spec >tiny.yaml
run mlagen gen tiny.yaml -o out
expect_exit 0 "a small folder is generated"

# --- all ways ---------------------------------------------------------------
run mlagen run-check out --family layer --seed 7
expect_exit 0 "all ways agree with each other and with the reference"
for way in "one shot" "chunks" "page chunks" "absorbed" "shot/chunks" \
    "shot/absorbed" "chunks/absorbed"; do
    expect_stdout "^layer_tiny_bf16_h4_p16 +$way +1 .* ok " \
        "a row says so: $way"
done
expect_stdout "^7 passed, 0 failed$" "and there are no others"
cp "$stdout" first
run mlagen run-check out --family layer --seed 7
ok "a seed reproduces a run" cmp first "$stdout"
run mlagen run-check out --family layer --seed 7 --seeds 5 --cases full
expect_exit 0 "other schedules and poisons change no bit"
expect_stdout "^layer_.* page chunks +3 " "full runs more batches"
run mlagen run-check out --family kv_gather --seed 7
ok "who asks for other families does not get it" \
    not grep -q '^layer' "$stdout"
run mlagen run-check out --family layer --heads 3
expect_exit 7 "no kernel of that head count is no success"

# --- a wrong kernel ---------------------------------------------------------
# edit DIR FAMILY SED: changes the source of a family, and its hash.
edit() {
    cp -R out "$1"
    file=$(cd "$1" && echo src/mla_"$2"_tiny_*_sm_80.cu)
    sed -i "$3" "$1/$file"
    old=$(sha256sum "out/$file" | cut -d ' ' -f 1)
    new=$(sha256sum "$1/$file" | cut -d ' ' -f 1)
    ok "the source of $2 was edited" [ "$old" != "$new" ]
    sed -i "s/$old/$new/" "$1/manifest.json"
}

edit heads absorb_v 's/a\.o_head_stride/(0 * a.o_head_stride)/g'
run mlagen run-check heads --family layer --seed 7
expect_exit 1 "absorb_v that reads one head for all fails"
expect_stdout "^layer_.* absorbed .* FAIL " "the absorbed way"
expect_stdout "^layer_.* shot/absorbed .* FAIL " "and the comparison with it"
expect_stdout "^layer_.* one shot .* ok " "but not the other way"
expect_stdout "token [0-9]+, head [1-9]: relative error" "by token and head"

edit starts kv_gather 's/+= a\.starts\[/+= 0 * a.starts[/'
run mlagen run-check starts --family layer --seed 7
expect_exit 1 "kv_gather that starts at 0 whatever it is told fails"
expect_stdout "^layer_.* chunks .* FAIL " "the way that cuts the prefix"
expect_stdout "^layer_.* one shot .* ok " "but not the one that does not"

# --- a way without kernels --------------------------------------------------
cp -R "$root/templates" less
awk '/^    \{/ { entry = ""; } { entry = entry $0 "\n" }
    /^    \},?$/ || /^return/ || !/^    / {
        if (entry !~ /"(mha|decode_plan|mqa_decode|mqa_combine)"/)
            printf "%s", entry
        entry = ""
    }' "$root/templates/families.lua" >less/families.lua
run mlagen gen tiny.yaml -I less -o few
expect_exit 0 "templates without mha and decode generate"
run mlagen run-check few --family layer,kv_gather --seed 7
expect_exit 1 "a layer that was asked for and cannot run is a failure"
expect_stdout "not run, no kernel of mha$" "that names the missing family"
expect_stdout "not run, no kernel of decode_plan mqa_combine mqa_decode$" \
    "or all of them"
run mlagen run-check few --seed 7
expect_exit 0 "without being asked for it is none"
expect_stdout "^layer_.* one shot .* not run, no kernel of mha$" \
    "but is named all the same"

finish
