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
        libgmock-dev "tests"
}

# NVRTC compiles CUDA kernels, also for GPUs that are not here. Where the tool just built finds none,
# the wheel goes into <build folder>/nvrtc.
provide_nvrtc() {
    local folder=$1/nvrtc attune=$1/tools/attune
    local lib=$folder/nvidia/cu13/lib
    if doctor_finds "$attune" libnvrtc; then return 0; fi
    if [ -e "$lib/libnvrtc.so.13" ]; then
        export ATTUNE_NVRTC=$lib
        return 0
    fi
    say "no NVRTC here: fetching the nvidia-cuda-nvrtc wheel from PyPI into $folder"
    install_missing python3-pip "fetches the wheel"
    mkdir -p "$folder"
    if python3 -m pip download -q --no-deps --only-binary=:all: -d "$folder" \
        'nvidia-cuda-nvrtc>=13,<14' &&
        python3 -m zipfile -e "$folder"/nvidia_cuda_nvrtc-*.whl "$folder"; then
        export ATTUNE_NVRTC=$lib
    else
        echo "NVRTC could not be fetched: kernels for NVIDIA GPUs cannot be compiled here" >&2
    fi
    rm -f "$folder"/*.whl
}

# hiprtc compiles kernels for AMD GPUs, none of which is here. Where the tool just built finds none,
# Debian's packages are unpacked into <build folder>/rocm. Soft: Debian's mirrors need not have them.
provide_hiprtc() {
    local folder=$1/rocm attune=$1/tools/attune
    if doctor_finds "$attune" hiprtc; then return 0; fi
    if [ ! -e "$folder" ]; then say "no hiprtc here: unpacking Debian's packages into $folder"; fi
    if bash "$root/tools/rocm-prefix.sh" "$folder"; then
        export ATTUNE_HIPRTC=$folder
    else
        echo "hiprtc could not be had: kernels for AMD GPUs are not compiled here, their tests skip" >&2
    fi
}

# doctor_finds <attune> <name of a check>
doctor_finds() {
    { "$1" doctor --json || true; } | python3 -c '
import json, sys
sys.exit(not any(c["name"] == sys.argv[1] and c["ok"] for c in json.load(sys.stdin)["checks"]))' "$2"
}

# build <preset> [target...]
build() {
    local preset=$1
    shift
    say "build-$preset"
    cmake --preset "$preset" >/dev/null
    cmake --build --preset "$preset" ${1:+--target "$@"}
}
