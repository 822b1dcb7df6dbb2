#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# gpu_check.sh: what a machine with a GPU can show and no other, in eight
# minutes:
#
#   1. the tests of PTX instructions, on the GPU and on the virtual GPU, with
#      their results compared bit for bit;
#   2. every kernel of five specs against the fp64 oracle;
#   3. how fast the kernels are, as a table, JSON and a plot.
#
# Exit status: 0 all well, 1 a failure, 2 usage, 5 a file, 7 no device.
set -u

usage() {
    cat <<'USAGE'
usage: gpu_check.sh [flags]
  --only a,b      of: isa, numerics, measure
  --seconds n     of wall time for everything (default 480)
  --out DIR       results (default tests/gpu/results)
  --bench SPEC    spec that is measured (default deepseek-v3)
  --heads LIST    its local head counts, as heads/tp (default 1,2,8)
  --arch LIST     only kernels of these (default: sm_CC and sm_CCa)
  --group LIST    only these groups are measured (gpu-bench -h)
  --specs LIST    specs for the numerics, as NAME:TP,...
  --family LIST   only these families in the numerics
  --isa LIST      only these ISA tests (int,mma,...)
  --override K=V  in every spec, say decode.hopper.schedule=alternating
  --no-build      take what is in BUILD (default build)
  --tiny          small cases, for trying this script on a virtual GPU
The GPU is that of $MLA_DRIVER, else libcuda.so.1.
USAGE
}

root=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$root/build}
export BUILD
driver=${MLA_DRIVER:-libcuda.so.1}

# --isa-one NAME, for ourselves: one test on both devices, and the comparison.
if [ "${1:-}" = --isa-one ]; then
    name=$2
    test=$BUILD/tests/vgpu/test_isa_$name
    CMOCKA_MESSAGE_OUTPUT=TAP
    export CMOCKA_MESSAGE_OUTPUT
    MLA_DRIVER=$driver GPU_TRACE=$work/isa/$name.real \
        timeout "$limit" "$test" >"$work/isa/$name.log" 2>&1
    real=$?
    if [ -n "$profile" ]; then
        env -u MLA_DRIVER VGPU_DEVICE="$profile" \
            GPU_TRACE="$work/isa/$name.virtual" \
            timeout "$limit" "$test" >"$work/isa/$name.vlog" 2>&1
        "$BUILD/gpu-trace" "$work/isa/$name.real" "$work/isa/$name.virtual" \
            >"$work/isa/$name.cmp" 2>&1
        compared=$?
    else
        echo "no virtual device of this architecture" >"$work/isa/$name.cmp"
        compared=0
    fi
    passed=$(grep -c '^ok' "$work/isa/$name.log")
    [ "$real" = 0 ] && [ "$compared" = 0 ] && verdict=ok || verdict=FAIL
    {
        printf '%-10s %4s passed on the device; %s  %s\n' "$name" "$passed" \
            "$(tail -n 1 "$work/isa/$name.cmp")" "$verdict"
        [ "$verdict" = ok ] || {
            grep -A 3 '^not ok' "$work/isa/$name.log" | head -n 20
            [ "$real" -le 1 ] || echo "exit status $real"
            sed '$d' "$work/isa/$name.cmp"
        }
    } >"$work/isa/$name.out"
    exit 0
fi

only=isa,numerics,measure
seconds=480
out=$root/tests/gpu/results
bench=deepseek-v3
heads=1,2,8
specs=deepseek-v3:8,deepseek-v2-lite:1,minicpm3-4b:1,glm-4.7-flash:2
specs=$specs,x-ecomla-smollm-135m:1
family=
group=
arch=
isa=
override=
build=yes
tiny=

wrong() {
    echo "gpu_check.sh: error: $1" >&2
    usage >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --no-build) build= ;;
    --tiny) tiny=--tiny ;;
    -h | --help)
        usage
        exit 0
        ;;
    --only | --seconds | --out | --bench | --heads | --specs | --family | \
        --group | --arch | --isa | --override)
        [ $# -gt 1 ] && [ -n "$2" ] || wrong "'$1' needs a value"
        eval "$(echo "${1#--}")=\$2"
        shift
        ;;
    *) wrong "'$1' is not understood" ;;
    esac
    shift
done
case $seconds in
'' | *[!0-9]* | 0*) wrong "'--seconds' takes a number, not '$seconds'" ;;
esac
for stage in $(echo "$only" | tr ',' ' '); do
    case $stage in
    isa | numerics | measure) ;;
    *) wrong "'--only' takes isa, numerics and measure, not '$stage'" ;;
    esac
done

begun=$(date +%s)
left() {
    echo $((seconds - $(date +%s) + begun))
}

wants() {
    case ,$only, in
    *,"$1",*) return 0 ;;
    esac
    return 1
}

# absolute PATH: a relative one is the caller's.
absolute() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$caller/$1" ;;
    esac
}

# spec_of NAME: a file, or the name of a built-in spec.
spec_of() {
    if [ -f "$(absolute "$1")" ]; then absolute "$1"; else echo "$1"; fi
}

caller=$(pwd)
out=$(absolute "$out")
bench=$(spec_of "$bench")
# Seconds that a test before the measuring may take: it leaves time for that.
share() {
    rest=$(($(left) - 10))
    if wants measure; then rest=$((rest - 150)); fi
    [ "$rest" -ge 20 ] || rest=20
    echo "$rest"
}

cd "$root" || exit 5
work=$(mktemp -d) || exit 5
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

section() {
    echo
    echo "== $1 ($(left) s left)"
}

fail() {
    echo "FAIL  $1"
    failed=$((failed + 1))
}

# --- device -----------------------------------------------------------------
if [ -n "$build" ]; then
    make -s "$BUILD/gpu-bench" B="$BUILD" || exit 1
fi
"$BUILD/gpu-bench" --device >"$work/device" || exit $?
name=$(cut -f 1 "$work/device")
cc=$(cut -f 2 "$work/device")
kind=$(cut -f 3 "$work/device")
date=$(date -u +%Y-%m-%d)
slug=$(echo "$name" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/^-//;s/-$//')
echo "device $name, sm_$cc, $kind; driver $driver; mlagen $(cat VERSION)"

profile=
for pair in 80:a100 86:rtx3090 87:orin 89:rtx4090 90:h200 100:b200 \
    120:rtx5090; do
    [ "${pair%%:*}" = "$cc" ] && profile=${pair##*:}
done

# --- build ------------------------------------------------------------------
tests=$(cd tests/unit/vgpu && ls test_isa_*.c | sed 's/^test_isa_//;s/\.c$//')
[ -z "$isa" ] || tests=$(echo "$isa" | tr ',' ' ')
if [ -n "$build" ]; then
    section build
    targets=
    for t in $tests; do
        targets="$targets $BUILD/tests/vgpu/test_isa_$t"
    done
    # shellcheck disable=SC2086 # a list of targets
    make -s B="$BUILD" all "$BUILD/gpu-trace" $targets || exit 1
fi

# The architectures of this device that there are kernels for.
tags=
for tag in $(echo "${arch:-sm_$cc,sm_${cc}a}" | tr ',' ' '); do
    if "$BUILD/mlagen" check -q "$bench" --arch "$tag" 2>/dev/null; then
        tags="$tags $tag"
    fi
done
if [ -z "$tags" ] && { wants numerics || wants measure; }; then
    echo "gpu_check.sh: error: no kernels for ${arch:-sm_$cc} (mlagen list)" >&2
    exit 7
fi

# generate SPEC TP ARCH DIR: with cubins, whose log is shown if it fails.
generate() {
    "$BUILD/mlagen" build "$1" -D "tp=[$2]" ${override:+-D "$override"} \
        --arch "$3" -o "$4" -q >"$4.log" 2>&1 || {
        cat "$4.log"
        return 1
    }
}

# --- 1. instructions --------------------------------------------------------
if wants isa; then
    section "PTX instructions, on the device and on the virtual GPU"
    mkdir "$work/isa"
    limit=$(share)
    export work driver profile limit
    # shellcheck disable=SC2086 # a list of names
    printf '%s\0' $tests | xargs -0 -n 1 -P 4 sh "$0" --isa-one
    for t in $tests; do
        cat "$work/isa/$t.out" || fail "$t left no result"
        grep -q 'FAIL$' "$work/isa/$t.out" 2>/dev/null &&
            failed=$((failed + 1))
    done
fi

# --- 2. numerics ------------------------------------------------------------
# check_spec NAME:TP TAG: one folder, proved; its verdict in a file.
check_spec() {
    spec=$(spec_of "${1%%:*}")
    dir=$work/numerics/$(basename "$spec" .yaml)-$2
    {
        generate "$spec" "${1##*:}" "$2" "$dir" &&
            MLA_DRIVER=$driver timeout "$(share)" "$BUILD/mlagen-run-check" \
                "$dir" -q --seed 1 ${family:+--family "$family"} &&
            echo "ok" || echo "FAIL"
    } >"$dir.out" 2>&1
}

if wants numerics; then
    section "numerics against the fp64 oracle"
    mkdir "$work/numerics"
    running=
    for spec in $(echo "$specs" | tr ',' ' '); do
        for tag in $tags; do
            check_spec "$spec" "$tag" &
            running="$running $!"
        done
    done
    # shellcheck disable=SC2086 # a list of numbers
    wait $running
    for spec in $(echo "$specs" | tr ',' ' '); do
        for tag in $tags; do
            name_of=$(basename "${spec%%:*}" .yaml)-$tag
            log=$work/numerics/$name_of.out
            verdict=$(tail -n 1 "$log")
            printf '%-36s %-24s %s\n' "$name_of" \
                "$(grep ' passed, ' "$log" | tail -n 1)" "$verdict"
            [ "$verdict" = ok ] || {
                head -n 20 "$log"
                failed=$((failed + 1))
            }
        done
    done
fi

# --- 3. speed ---------------------------------------------------------------
if wants measure; then
    section "measuring"
    mkdir -p "$out" || exit 5
    json=$out/$slug-$date.json
    measured=$(echo "$tags" | sed 's/^ *//;s/ /,/g')
    rest=$(($(left) - 10))
    if ! generate "$bench" "$heads" "$measured" "$work/bench"; then
        fail "the kernels to be measured do not build"
    elif [ "$rest" -lt 1 ]; then
        fail "no time left to measure"
    else
        MLA_DRIVER=$driver "$BUILD/gpu-bench" "$work/bench" $tiny \
            --seconds "$rest" --date "$date" --json "$json" \
            ${group:+--group "$group"} --plot "$work/plot.gp" || fail "gpu-bench ended with $?"
    fi
    if [ -f "$json" ]; then
        echo "wrote $json"
        if ! command -v gnuplot >/dev/null 2>&1; then
            fail "no plot: gnuplot is not installed"
        elif gnuplot -e "FILE='${json%.json}.svg'" "$work/plot.gp"; then
            echo "wrote ${json%.json}.svg"
        else
            fail "gnuplot has refused the plot"
        fi
    fi
fi

echo
echo "gpu-check: $failed failures, $((seconds - $(left))) s"
[ "$failed" -eq 0 ]
