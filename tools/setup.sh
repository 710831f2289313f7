# What quickstart.sh, test.sh and .ci/run share; sourced, not run. Debian 12 or Ubuntu 24.04.
# Works as root or through sudo, installs only what is missing, and says what and why.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '\n== %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "needs root to run: $*; run as root or install sudo" >&2
        return 1
    fi
}

# install_missing <package> <why> ...
install_missing() {
    local missing=()
    while [ $# -gt 0 ]; do
        if ! dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; then
            printf '  %-22s %s\n' "$1" "$2"
            missing+=("$1")
        fi
        shift 2
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "installing the packages above with apt-get"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

install_build_packages() {
    say "packages"
    if ! command -v apt-get >/dev/null; then
        echo "no apt-get here: this set-up knows Debian 12 and Ubuntu 24.04" >&2
        return 1
    fi
    install_missing \
        g++ "C++20 compiler; also builds kernels for the emulator" \
        libc6-dev "C headers" \
        cmake "build" \
        ninja-build "build" \
        pkg-config "finds the libraries" \
        git "lists the files that the layer test reads" \
        libfmt-dev "text formatting" \
        nlohmann-json3-dev "JSON" \
        libcli11-dev "command line" \
        libsqlite3-dev "the store" \
        libsqlitecpp-dev "the store, from C++" \
        libzstd-dev "compressed binaries in the store" \
        libmd-dev "SHA-256" \
        libboost-context-dev "the emulator's fibers" \
        python3 "reads JSON in these scripts; the peers script"
}

install_test_packages() {
    install_missing \
        libgtest-dev "tests" \
        libgmock-dev "tests" \
        libbenchmark-dev "micro benchmarks"
}

# NVRTC compiles CUDA kernels, also for GPUs that are not here. The library's own search order finds
# a toolkit or a wheel; where there is none, the wheel goes into <build folder>/nvrtc.
provide_nvrtc() {
    local build=$1 found
    [ -z "${ATTUNE_NVRTC:-}" ] || return 0
    found=$(find_nvrtc "$build/nvrtc")
    if [ -z "$found" ]; then
        say "no NVRTC here: fetching the nvidia-cuda-nvrtc wheel from PyPI into $build/nvrtc"
        install_missing python3-pip "fetches the wheel"
        mkdir -p "$build/nvrtc"
        if ! python3 -m pip download -q --no-deps --only-binary=:all: -d "$build/nvrtc" \
            'nvidia-cuda-nvrtc>=13,<14' ||
            ! python3 -m zipfile -e "$build"/nvrtc/nvidia_cuda_nvrtc-*.whl "$build/nvrtc"; then
            echo "NVRTC could not be fetched: kernels for NVIDIA GPUs cannot be compiled here" >&2
            return 0
        fi
        rm -f "$build"/nvrtc/*.whl
        found=$(find_nvrtc "$build/nvrtc")
    fi
    case $found in "$build"/*) export ATTUNE_NVRTC=$found ;; esac
    echo "NVRTC: $found"
}

# find_nvrtc <folder of ours>: prints the folder of the first libnvrtc; nothing if there is none.
find_nvrtc() {
    local library
    for library in "$1"/nvidia/*/lib/libnvrtc.so.1[23] \
        ${CUDA_HOME:+"$CUDA_HOME"/lib64/libnvrtc.so.1[23]} \
        /usr/local/cuda*/lib64/libnvrtc.so.1[23] /opt/cuda/lib64/libnvrtc.so.1[23] \
        /usr/lib/x86_64-linux-gnu/libnvrtc.so.1[23]; do
        [ -e "$library" ] && dirname "$library" && return 0
    done
    return 0
}

# build <preset> [target...]
build() {
    local preset=$1
    shift
    say "build-$preset"
    cmake --preset "$preset" >/dev/null
    cmake --build --preset "$preset" ${1:+--target "$@"}
}
