#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh: a generated folder as two files: what is in them, that C, C++ and
# nvcc take them as they are, and what is refused.
. "$(dirname "$0")/lib.sh"
small_spec >tiny.yaml
run mlagen gen tiny.yaml -o gen
run mlagen build tiny.yaml -o one
expect_exit 0 "a folder to bundle"
kernels=$(find one/src -name '*.cu' | wc -l)

c99() {
    "${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror -I. "$@"
}

# The CUDA compiler: CUDA_HOME, PATH, or what scripts/setup.sh fetched.
find_nvcc() {
    for d in "${CUDA_HOME:-}/bin" /usr/local/cuda/bin "$root/build/cuda/bin"; do
        [ -x "$d/nvcc" ] && echo "$d/nvcc" && return
    done
    command -v nvcc
}
nvcc=$(find_nvcc)

# --- without files -----------------------------------------------------------
run mlagen bundle gen
expect_exit 0 "bundle needs no cubins"
expect_stdout "^tiny\.cu, tiny\.h: $kernels kernels, 0 files$" \
    "its names are the model's"
ok "every kernel is in the source" \
    [ "$(grep -c '^extern "C" __global__' tiny.cu)" -eq "$kernels" ]
ok "the source includes nothing" not grep -q '^ *# *include' tiny.cu
ok "the header has no table of files" not grep -q mla_file tiny.h
echo '#include "tiny.h"' >use.c
cp use.c use.cpp
run c99 -c use.c
expect_exit 0 "the header is C99"
run "${CXX:-c++}" -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only \
    use.cpp
expect_exit 0 "and C++"
run "$nvcc" -arch=sm_80 -Werror all-warnings -c tiny.cu -o tiny.o
expect_exit 0 "nvcc compiles the source"

# --- with files --------------------------------------------------------------
run mlagen bundle one -o all --cubins --ptx --sources -q
expect_exit 0 "bundle with cubins, PTX and sources"
ok "-q: silence" [ ! -s "$stdout" ]
cat >dump.c <<'C'
/* Writes every file of the bundle to where it came from. */
#define MLA_TINY_IMPLEMENTATION
#include "all.h"
#include "all.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    for (int i = 0; i < mla_tiny_file_count; i++) {
        const mla_file *f = &mla_tiny_files[i];
        FILE *out;
        char path[512];
        if (((const char *)f->data)[f->bytes] != 0)
            return 1;
        sprintf(path, "dump/%s", f->path);
        out = fopen(path, "wb");
        if (!out || fwrite(f->data, 1, f->bytes, out) != f->bytes ||
            fclose(out))
            return 2;
    }
    return mla_tiny_kernel_count < 1;
}
C
mkdir -p dump/src dump/cubin dump/ptx
run c99 dump.c -o dump.bin -lm
expect_exit 0 "the definitions are C99, and the header may come twice"
run ./dump.bin
expect_exit 0 "the arrays are readable, and end in a zero"
ok "manifest: byte for byte" cmp dump/manifest.json one/manifest.json
ok "sources: byte for byte" diff -r dump/src one/src
ok "cubins: byte for byte" diff -r dump/cubin one/cubin
ok "PTX of every kernel" \
    [ "$(grep -lE '^\.target sm_80' dump/ptx/*.ptx | wc -l)" -eq "$kernels" ]
echo '#include "all.h"' >use.cpp
run "${CXX:-c++}" -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only \
    use.cpp
expect_exit 0 "the declarations are C++"
printf '#include "mla.h"\n#include "all.h"\n' >use.c
run c99 "-I$root/runtime/include" -c use.c
expect_exit 0 "and go with mla.h, in this order"
printf '#include "all.h"\n#include "mla.h"\n' >use.c
run c99 "-I$root/runtime/include" -c use.c
expect_exit 0 "and in that"
cp all.h first.h
run mlagen bundle one -o all --cubins --ptx --sources -j 1
ok "the same folder: the same bytes" cmp all.h first.h

# --- several architectures, names --------------------------------------------
run mlagen gen tiny.yaml --arch sm_80,sm_90 --symbol-prefix my_ -o two
run mlagen bundle two -o sub
expect_exit 0 "a folder of two architectures"
run "$nvcc" -arch=sm_90 -c sub.cu -o sub.o
ok "its source asks which one" [ "$code" -ne 0 ]
expect_stderr 'with its macro: MLA_SM_80, MLA_SM_90' "and names the macros"
run "$nvcc" -arch=sm_90 -DMLA_SM_90 -Werror all-warnings -c sub.cu -o sub.o
expect_exit 0 "and compiles for each"
ok "only that one's kernels" sh -c \
    "nm sub.o | grep -q _sm_90_launch && ! nm sub.o | grep -q _sm_80_launch"
ok "a prefix of the symbols goes before the macros too" \
    grep -q 'MY_MLA_TINY_IMPLEMENTATION' sub.h
sed 's/^model: tiny/model: 9x-y.z/' tiny.yaml >odd.yaml
run mlagen gen odd.yaml -o odd
if [ "$code" -eq 0 ]; then
    run mlagen bundle odd -o odd/b
    ok "a model's odd name becomes a C name" grep -q 'MLA_9X_Y_Z_IMPL' odd/b.h
fi

# --- what is refused ---------------------------------------------------------
run mlagen bundle gen --cubins -o no
expect_exit 5 "no cubins to bundle: 5"
expect_stderr_line1 "no cubin; run 'mlagen build' first" "and says what to do"
ok "and writes nothing" [ ! -e no.cu ]
source=$(cd gen && find src -name '*kv_append*')
echo '// edited' >>"gen/$source"
run mlagen bundle gen -o no
expect_exit 1 "an edited folder: 1"
expect_stderr_line1 "^gen/$source: error: not what the manifest lists" \
    "with the file"
rm "gen/$source"
run mlagen bundle gen -o no
expect_exit 5 "a missing file: 5"
run mlagen bundle nowhere -o no
expect_exit 5 "no folder: 5"
expect_stderr_line1 '^nowhere/manifest.json: error: ' "with the manifest"
run mlagen bundle one -o missing/name
expect_exit 5 "a name that cannot be written: 5"
run env "MLA_NVRTC=$work/none.so" "$BUILD/mlagen" bundle one --ptx -o no
expect_exit 6 "--ptx without NVRTC: 6"
run mlagen bundle
expect_exit 2 "no folder named: 2"

finish
