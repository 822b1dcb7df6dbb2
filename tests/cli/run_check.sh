#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run_check.sh: the verb that proves a folder's kernels.  A right kernel
# passes, a wrong one fails and is named, and nothing that could not run counts
# as a success.
. "$(dirname "$0")/lib.sh"

MLA_DRIVER=$BUILD/libvgpu.so
VGPU_DEVICE=a100
export MLA_DRIVER VGPU_DEVICE
check="$BUILD/mlagen-run-check"

small_spec >tiny.yaml
run mlagen gen tiny.yaml -o out
expect_exit 0 "a small folder is generated"

# --- what passes ------------------------------------------------------------
run mlagen run-check out --family kv_gather,concat_mla_k --seed 7
expect_exit 0 "right kernels pass"
expect_stdout "^device .*\(8\.0\), driver .*libvgpu\.so, seed 7$" \
    "the device, the driver and the seed are printed"
expect_stdout "^mla_kv_gather_tiny_.* far .* ok +exact" \
    "each kernel has a row per group of cases"
expect_stdout "^[1-9][0-9]* passed, 0 failed$" "and a last line with the sum"
ok "families that were not asked for do not run" \
    not grep -q mla_absorb "$stdout"
cp "$stdout" first
run "$check" out --family=kv_gather,concat_mla_k --seed=7
ok "a seed reproduces a run" cmp first "$stdout"

run "$check" out --family kv_append --json --seed 3
expect_exit 0 "--json passes as well"
ok "--json is one JSON object with a row per group" \
    sh -c "sed -n '/\"rows\"/,\$p' '$stdout' | grep -q '\"pass\": true'"
ok "and holds nothing else" \
    sh -c "head -c 1 '$stdout' | grep -q '{' && tail -n 1 '$stdout' |
           grep -qE '\"passed\": [0-9]+, \"failed\": 0}\$'"
run "$check" out -q --family merge_state
expect_lines "$stdout" 1 "-q prints the sum alone"

# --- cubins come first, PTX when the driver has no use for them -------------
run mlagen build tiny.yaml -o built
run "$check" built -v --family concat_mla_k
expect_exit 0 "a folder with cubins passes"
expect_stderr "refuses the cubin \(209\); compiling the source" \
    "-v says that the source was compiled instead"

# --- a wrong kernel ---------------------------------------------------------
# The stride of k_rope is assumed rather than read; the manifest agrees with
# the edited source.
cp -R out wrong
source=$(cd wrong && echo src/mla_concat_mla_k_tiny_*_sm_80.cu)
sed -i 's/a\.k_rope_stride/32/' "wrong/$source"
old=$(sha256sum "out/$source" | cut -d ' ' -f 1)
new=$(sha256sum "wrong/$source" | cut -d ' ' -f 1)
ok "the source was edited" [ "$old" != "$new" ]
sed -i "s/$old/$new/" wrong/manifest.json
run "$check" wrong --family concat_mla_k --seed 1
expect_exit 1 "a wrong kernel fails"
expect_stdout "^mla_concat_mla_k_tiny_.* strides .* FAIL " "by its group"
expect_stdout "wrong; first: .*k\[[0-9]+\]\[[0-9]+\]\[[0-9]+\] is .* should" \
    "with the first wrong element"
expect_stdout "^[0-9]+ passed, [1-9][0-9]* failed$" "and is counted"

# An access outside every buffer: the virtual GPU says where.
cp -R out outside
sed -i 's/a\.k_rope_stride/(a.k_rope_stride + 4096)/' "outside/$source"
new=$(sha256sum "outside/$source" | cut -d ' ' -f 1)
sed -i "s/$old/$new/" outside/manifest.json
run "$check" outside --family concat_mla_k --seed 1
expect_exit 1 "an access outside its buffers fails"
expect_stdout "global memory" "with the virtual GPU's report"
expect_stdout "\.cu:[0-9]+" "and the line of the source"

# --- what cannot run has not passed -----------------------------------------
cp -R out edited
echo "// edited" >>"edited/$source"
run "$check" edited --family concat_mla_k
expect_exit 1 "a source that differs from its hash fails"
expect_stdout "SHA-256" "because of the hash"

run env VGPU_DEVICE=rtx5090 "$check" out --family concat_mla_k
expect_exit 0 "PTX of an older architecture runs on a newer device"
run "$check" out --heads 3
expect_exit 7 "no kernel of that head count is no success"
run "$check" out --family no_such_family
expect_exit 7 "neither is an unknown family"
run env MLA_DRIVER=/nonexistent/libcuda.so "$check" out
expect_exit 7 "no device"
expect_stderr_line1 "error: no device: .*/nonexistent/libcuda\.so" \
    "names the driver that was tried"
run "$check" nowhere
expect_exit 5 "a folder that is not there is an I/O error"
expect_stderr_line1 "^nowhere: error: .*manifest\.json" "that names it"
head -c 1000 out/manifest.json >wrong/manifest.json
run "$check" wrong
expect_exit 5 "so is half a manifest"
expect_stderr_line1 "manifest\.json:[0-9]+:[0-9]+: " "with its place"

# --- the command line -------------------------------------------------------
for args in "" "out twice" "out --seeds 1" "out --seeds x" "out --heads 0" \
    "out --cases some" "out --seed" "out --what 1" "out --seed=-1"; do
    # shellcheck disable=SC2086 # words are meant to split
    run "$check" $args
    expect_exit 2 "refused as usage: '$args'"
done
run "$check" -h
expect_exit 0 "-h succeeds"
expect_stdout "^usage: mlagen-run-check DIR" "and prints the usage"

finish
