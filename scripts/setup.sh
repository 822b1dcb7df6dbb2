#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh: install what building and testing need and the machine lacks.
#
#   Debian packages   compiler, Lua, libyaml, jansson, OpenSSL, cmocka, ...
#   CUDA              where no toolkit with NVRTC is found (CUDA_HOME, PATH, the
#                     usual places), NVIDIA's PyPI wheels, into build/cuda
#
# Does nothing, and needs no network and no root, when all of it is there.
set -eu
cd "$(dirname "$0")/.."

PACKAGES="gcc make pkg-config libc6-dev liblua5.4-dev libyaml-dev
libjansson-dev libssl-dev libcmocka-dev gnuplot-nox"
# Wheels of one toolkit release, so that NVRTC, its builtins and the headers
# agree.
CUDA_RELEASE=13.0
WHEELS="nvidia-cuda-nvrtc nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm
nvidia-cuda-runtime nvidia-cuda-cccl"

have_package() {
    dpkg-query -W -f='${Status}' "$1" 2>/dev/null |
        grep -q 'install ok installed'
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "setup: not root and no sudo; please run: $*" >&2
        exit 1
    fi
}

install_packages() {
    missing=
    for p in "$@"; do
        have_package "$p" || missing="$missing $p"
    done
    [ -n "$missing" ] || return 0
    echo "setup: installing$missing"
    as_root apt-get update -qq
    # shellcheck disable=SC2086  # a list of package names
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

have_nvrtc() {
    for dir in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda \
        /usr/local/cuda-* /opt/cuda \
        "$(dirname "$(dirname "$(command -v nvcc || echo /)")")"; do
        for lib in "$dir"/lib64/libnvrtc.so* "$dir"/lib/libnvrtc.so* \
            "$dir"/targets/*/lib/libnvrtc.so*; do
            [ -n "$dir" ] && [ -e "$lib" ] && return 0
        done
    done
    ls build/cuda/nvidia/*/lib/libnvrtc.so* >/dev/null 2>&1
}

install_wheels() {
    echo "setup: no CUDA toolkit found; fetching NVRTC from PyPI to build/cuda"
    install_packages python3 python3-venv
    mkdir -p build
    python3 -m venv build/venv
    versions=
    for w in $WHEELS; do
        versions="$versions $w==$CUDA_RELEASE.*"
    done
    # shellcheck disable=SC2086  # a list of requirements
    build/venv/bin/pip install -q --disable-pip-version-check --no-deps \
        --target build/cuda $versions
}

# shellcheck disable=SC2086  # a list of package names
install_packages $PACKAGES
have_nvrtc || install_wheels
echo "setup: ready"
