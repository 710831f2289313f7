#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Fails if no test ran.
#   tools/test.sh [preset] [ctest arguments]        preset: dev (default), asan
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
preset=${1:-dev}
shift $(($# > 0 ? 1 : 0))

install_build_packages
install_test_packages
build "$preset"
provide_nvrtc "$root/build-$preset"
provide_hiprtc "$root/build-$preset"

say "tests"
ctest --preset "$preset" -j2 "$@"
