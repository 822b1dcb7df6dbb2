#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The dependency paragraph of ARCHITECTURE.md as a test: no #include, use or
# word may point the wrong way between the rooms.
cd "$(dirname "$0")/../.." || exit 1
n=0
bad=0

# absent NAME PATTERN FILES...: the extended regular expression matches nowhere
absent() {
    name=$1
    pattern=$2
    shift 2
    n=$((n + 1))
    if [ $# = 0 ]; then
        echo "not ok $n - $name (no files to look at)"
        bad=1
    elif found=$(grep -nE "$pattern" "$@"); then
        echo "not ok $n - $name"
        echo "$found" | sed 's/^/# /'
        bad=1
    else
        echo "ok $n - $name"
    fi
}

# included_from ROOMS FILES...: every quoted #include is found in these folders
included_from() {
    name=$1
    rooms=$2
    shift 2
    n=$((n + 1))
    wrong=
    for f in "$@"; do
        for h in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f"); do
            hit=
            for r in $(dirname "$f") $rooms; do
                [ -e "$r/$h" ] && hit=1
            done
            [ -n "$hit" ] || wrong="$wrong $f:$h"
        done
    done
    if [ -n "$wrong" ]; then
        echo "not ok $n - $name:$wrong"
        bad=1
    else
        echo "ok $n - $name"
    fi
}

echo "1..10"
included_from "gen includes only gen" gen gen/*.c gen/*.h gen/tools/*.c
included_from "the runtime includes only the runtime" \
    "runtime/include runtime/src" runtime/src/*.c runtime/src/*.h \
    runtime/include/*.h
included_from "the virtual GPU includes only itself" tests/vgpu \
    tests/vgpu/*.c tests/vgpu/*.h
included_from "run-check includes the runtime and the virtual GPU's face" \
    "runtime/include runtime/src tests/vgpu tests/numerics" \
    tests/numerics/*.c tests/numerics/*.h
# shellcheck disable=SC2046  # file names without blanks
absent "gen knows no MLA" \
    '\b(kv_lora|q_lora|nope|rope|absorb|latent|softmax|yarn)\b' \
    gen/*.c gen/*.h gen/tools/*.c
absent "gen holds no CUDA text" '__global__|__device__|blockIdx|threadIdx' \
    gen/*.c gen/*.h
absent "public headers include no CUDA header" '#include.*cuda' \
    runtime/include/*.h gen/mlagen.h
# shellcheck disable=SC2046
absent "templates require nothing outside the sandbox" \
    '\b(require|dofile|loadfile|io\.|os\.)' \
    $(find templates -name '*.lua' -o -name '*.tpl')
# shellcheck disable=SC2046
absent "emitted kernels include nothing" '^[[:space:]]*#include' \
    $(find templates/kernel templates/frag -name '*.tpl')
absent "specs are data" '\$\{|^@ ' specs/*.yaml
exit $bad
