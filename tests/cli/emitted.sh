#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The emitted text as a stranger uses it: the header and the descriptor table
# under strict C99 and C++, headers of several models together, the cos/sin
# table against angles worked by hand, kernels under nvcc as they are, and the
# launchers' checks, which need no GPU.
cd "$(dirname "$0")/../.." || exit 1
work=build/emitted
. tests/row.sh
rm -rf "$work"
mkdir -p "$work"
log=$work/log

c99="cc -std=c99 -pedantic -Wall -Wextra -Werror"
cxx="c++ -std=c++11 -pedantic -Wall -Wextra -Werror"

# The CUDA compiler: CUDA_HOME, PATH, or what scripts/setup.sh fetched.
find_nvcc() {
    for d in "$CUDA_HOME/bin" /usr/local/cuda/bin build/cuda/bin; do
        [ -x "$d/nvcc" ] && echo "$d/nvcc" && return
    done
    command -v nvcc
}

narrow() {
    awk 'length > 100 { print FILENAME ":" FNR ": " length " columns"; f = 1 }
         END { exit f }' "$1"/*.[ch] "$1"/src/*.cu
}

# Directives other than those of the host launcher's guard and unrolling mean
# an include.
include_free() {
    ! grep -nE '^[[:space:]]*#' "$1"/src/*.cu |
        grep -vE ':[[:space:]]*#(ifndef __CUDACC_RTC__|endif|pragma unroll( 1)?)$'
}

# Comment lines among all lines of a model's kernels, in per cent.
commented() {
    cat "$1"/src/*.cu | awk '/^[[:space:]]*\/\// { c++ }
        END { p = 100 * c / NR; print p " %"; exit !(p >= 8 && p < 16) }'
}

models=$(ls specs/*.yaml | grep -vE 'specs/(schema|arch|arch\.schema)\.yaml')
for spec in $models; do
    m=$(basename "$spec" .yaml)
    row "$m: generates" build/mlagen gen "$spec" -o "$work/$m"
    row "$m: descriptor compiles as strict C99" \
        $c99 -c "$work/$m/$m.c" -o "$work/$m.o"
    row "$m: header compiles as C++" $cxx -fsyntax-only -x c++ "$work/$m/$m.h"
    row "$m: at most 100 columns" narrow "$work/$m"
    row "$m: kernels include nothing" include_free "$work/$m"
    row "$m: comments explain and do not narrate" commented "$work/$m"
done

# All headers in one program, in C and in C++.
for spec in $models; do
    m=$(basename "$spec" .yaml)
    echo "#include \"$m/$m.h\""
done >"$work/all.c"
echo 'int main(void) { return 0; }' >>"$work/all.c"
row "headers of all models stand together in C" \
    $c99 -I"$work" -fsyntax-only "$work/all.c"
row "headers of all models stand together in C++" \
    $cxx -I"$work" -fsyntax-only -x c++ "$work/all.c"

row "rope tables have the angles of the papers" sh -c "
    $c99 -I$work tests/emitted/rope_table.c $work/deepseek-v3.o \
        $work/deepseek-v2-lite.o $work/kimi-k2.o $work/minicpm3-4b.o \
        $work/glm-4.7-flash.o -lm -o $work/rope_table && $work/rope_table"

# Every family of one model through nvcc, and the launchers linked and called.
nvcc=$(find_nvcc)
small=$work/x-ecomla-smollm-135m
row "nvcc is there" test -n "$nvcc"
# -arch=sm_90a alone would make PTX for plain sm_90 as well.
target="-gencode arch=compute_90a,code=sm_90a"
for cu in "$small"/src/*_sm_90a.cu; do
    row "nvcc compiles $(basename "$cu" .cu) without a warning" \
        "$nvcc" $target -Werror all-warnings -Xcompiler -Wall,-Wextra \
        -c "$cu" -o "$work/$(basename "$cu" .cu).o"
done
cat "$small"/src/*_sm_90a.cu >"$work/one.cu"
row "all kernels of a model stand in one file" \
    "$nvcc" $target -Werror all-warnings -c "$work/one.cu" \
    -o "$work/one.o"
row "launchers refuse what kernels cannot do, and do nothing for nothing" sh -c "
    $c99 -I$work -c tests/emitted/launchers.c -o $work/launchers.o &&
    '$nvcc' $work/launchers.o $work/one.o -o $work/launchers &&
    $work/launchers"
echo "1..$n"
exit $bad
