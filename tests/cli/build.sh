#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh: compiling through NVRTC: what is recorded, what is compiled again
# and what is not, how failures are told, and what a killed build leaves.
. "$(dirname "$0")/lib.sh"
small_spec >tiny.yaml

# --- a build -----------------------------------------------------------------
run mlagen build tiny.yaml -o one
expect_exit 0 "build succeeds"
kernels=$(find one/src -name '*.cu' | wc -l)
expect_stdout "; $kernels kernels: $kernels compiled, 0 up to date$" \
    "every kernel is compiled"
ok "one cubin for each source" \
    [ "$(find one/cubin -name '*.cubin' | wc -l)" -eq "$kernels" ]
# shellcheck disable=SC2016
ok "cubins are ELF files" sh -c '
    for f in one/cubin/*; do
        [ "$(head -c 4 "$f" | tail -c 3)" = ELF ] || exit 1
    done'
for key in cubin cubin_bytes cubin_sha256 compiler registers spill_stores \
    spill_loads smem_static stack barriers options source_sha256; do
    ok "the manifest records $key of each kernel" \
        [ "$(grep -c "^ *\"$key\": [^{]" one/manifest.json)" -ge "$kernels" ]
done
ok "with the compiler's patch level" \
    grep -qE '"compiler": "NVRTC [0-9]+\.[0-9]+\.[0-9]+"' one/manifest.json
ok "no kernel spills" \
    not grep -qE '"spill_(stores|loads)": [1-9]' one/manifest.json
ok "no path of this machine is in a cubin" \
    not grep -rqF -e "$work" -e "$root" one
run mlagen verify one
expect_exit 0 "verify: right"
run mlagen build tiny.yaml -o one --list-outputs
sort "$stdout" >listed
find one -type f | sort >present
ok "--list-outputs names exactly the files of a build" cmp listed present

mkdir there
run sh -c "cd there && '$BUILD/mlagen' build ../tiny.yaml -j 1 -o two"
ok "another folder, another number of threads: the same bytes" \
    diff -r one there/two

# --- what is compiled again --------------------------------------------------
find one -type f -exec stat -c '%n %i %Y %Z' {} + | sort >before
sleep 1.1
run mlagen build tiny.yaml -o one
expect_stdout "^one: 0 written, .*: 0 compiled, $kernels up to date$" \
    "a second build compiles and writes nothing"
find one -type f -exec stat -c '%n %i %Y %Z' {} + | sort >after
ok "and touches no file" cmp before after
run mlagen build tiny.yaml -o one --check
expect_exit 0 "build --check: nothing to do: 0"
run mlagen gen tiny.yaml -o one
expect_stdout "^one: 0 written" "gen keeps the cubins of a build"
cubin=$(cd one && find cubin -name 'mla_absorb_q*')
printf x >>"one/$cubin"
run mlagen verify one
expect_stdout "^changed +$cubin$" "verify finds a damaged cubin"
run mlagen build tiny.yaml -o one --check
expect_exit 1 "build --check: a damaged cubin: 1"
run mlagen build tiny.yaml -o one
expect_stdout ": 1 compiled" "and build compiles that one again"
ok "to the same bytes" diff -r one there/two
rm "one/$cubin"
run mlagen build tiny.yaml -o one
expect_stdout "^one: 1 written.*: 1 compiled" "a missing cubin is made again"
sed 's/"compiler": "NVRTC [0-9.]*"/"compiler": "NVRTC 1.2.3"/' \
    one/manifest.json >edited
cp edited one/manifest.json
run mlagen build tiny.yaml -o one
expect_stdout ": $kernels compiled" "another compiler compiles everything"
cp -r "$root/templates" templates
printf '// changed\n' >>templates/kernel/merge_state.cu.tpl
run mlagen build tiny.yaml -I templates -o one
expect_stdout ": $kernels compiled|: 2 compiled" \
    "a changed template compiles what changed with it"
run mlagen gen tiny.yaml -o one
ok "gen drops cubins whose source changed" \
    [ "$(find one -name '*.cubin' | wc -l)" -lt "$kernels" ]
run mlagen verify one
expect_exit 0 "and the folder is right without them"

# --- failures ----------------------------------------------------------------
printf 'int broken = missing_name;\n' >>templates/kernel/merge_state.cu.tpl
printf 'syntax error here\n' >>templates/kernel/kv_append.cu.tpl
run mlagen build tiny.yaml -I templates -o fail
expect_exit 6 "kernels that do not compile: 6"
expect_stderr_line1 '^fail/src/mla_.*\.cu:[0-9]+: error: ' \
    "the first line has file and line of an error"
expect_stderr 'mla_kv_append.*: error: ' "one failing kernel is named"
expect_stderr 'mla_merge_state_t.*missing_name' "and so is the other"
expect_stderr 'note: log: .*missing_name' "with NVRTC's log"
expect_stdout ', 3 failed$' "the summary counts them"
ok "the others are there" sh -c 'ls fail/cubin/mla_absorb_q*'
ok "and those are not" sh -c '! ls fail/cubin/mla_kv_append* 2>/dev/null'
run mlagen verify fail
expect_exit 0 "the manifest records what is there"
run mlagen build tiny.yaml -o fail
expect_exit 0 "a build with good templates completes it"
ok "to the same bytes as a clean one" diff -r fail there/two

run mlagen build tiny.yaml --arch sm_87,sm_103 -o archs
expect_exit 0 "other architectures compile"

# A kernel that spills, which no plan allows.
cp "$root/templates/kernel/merge_state.cu.tpl" templates/kernel/
cp "$root/templates/kernel/kv_append.cu.tpl" templates/kernel/
cat >>templates/kernel/kv_append.cu.tpl <<'CUDA'
extern "C" __global__ void __launch_bounds__(1024) spilling(float *p)
{
    float v[96];
#pragma unroll
    for (int i = 0; i < 96; i++) v[i] = p[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; i++) p[i * 1024] = v[i] * v[95 - i] + v[i / 2];
}
CUDA
run mlagen build tiny.yaml -I templates -o spill
expect_exit 6 "a kernel that spills is refused: 6"
expect_stderr_line1 'mla_kv_append.*: error: .*\[spill\].*bytes' \
    "and named with the bytes"
ok "its cubin is not kept" sh -c '! ls spill/cubin/mla_kv_append* 2>/dev/null'

# Unless the plan says that it may, and why.
sed 's/plans\[#plans + 1\] = plan$/plan.allow = {{code = "spill",'\
' reason = "a test"}}; &/' templates/main.lua >main.lua
cp main.lua templates/main.lua
run mlagen build tiny.yaml -I templates -o spill
expect_exit 0 "a spill that the plan allows is no failure"
ok "but it is recorded" grep -q '"findings": \["spill"\]' spill/manifest.json
run mlagen build tiny.yaml -I templates -o spill
expect_stdout ": 0 compiled" "and it is up to date the next time"
cp "$root/templates/main.lua" templates/main.lua

# --- environments ------------------------------------------------------------
run env "MLA_NVRTC=$work/none.so" "$BUILD/mlagen" build tiny.yaml -o none
expect_exit 6 "no NVRTC: 6"
expect_stderr_line1 'error: NVRTC .*none\.so' "and what was tried is named"
ok "nothing is written" [ ! -d none/src ]
run env "MLA_NVRTC=$work/none.so" "$BUILD/mlagen" gen tiny.yaml -o none
expect_exit 0 "gen needs no NVRTC"
run env -u CUDA_HOME "MLA_NVRTC=$(command -v true)" "$BUILD/mlagen" build \
    tiny.yaml -o none
expect_exit 6 "MLA_NVRTC that is no NVRTC: 6"

# --- killed builds -----------------------------------------------------------
# Between two specs of the same folder, so that files change and go.  Whenever
# it dies, verify can tell, and the next build puts everything right.
run mlagen build tiny.yaml -D kv_cache.page_size=8 -o killed
for delay in 0.05 0.15 0.25 0.35 0.45 0.6; do
    for size in 32 8; do
        "$BUILD/mlagen" build tiny.yaml -D "kv_cache.page_size=$size" \
            -o killed >/dev/null 2>&1 &
        victim=$!
        sleep "$delay"
        kill -9 "$victim" 2>/dev/null
        wait "$victim" 2>/dev/null
    done
done
run mlagen build tiny.yaml -o killed
expect_exit 0 "after builds that were killed, a build succeeds"
run mlagen verify killed
expect_exit 0 "and the folder is right"
ok "and equal to one that was never interrupted" diff -r killed there/two

# Two at once: one does it, the other says why not; or both, one after another.
mlagen build tiny.yaml -o both >/dev/null 2>first.err &
first=$!
run mlagen build tiny.yaml -o both
second=$code
wait "$first"
ok "two builds into one folder: at least one succeeds" \
    [ $(($? * second)) -eq 0 ]
# shellcheck disable=SC2016
ok "the other says that the folder is taken" sh -c '
    [ ! -s first.err ] && [ ! -s "$1" ] ||
        cat first.err "$1" | grep -q "^both: error: another mlagen"
' sh "$stderr"
ok "the result is right" diff -r both there/two

finish
