#!/bin/sh
# Installs the runtime into an empty prefix and builds the example against it in every documented way;
# each build is run on the store given. Usage: install_test.sh BUILD_DIR EXAMPLES_DIR STORE
set -eu
build=$1 examples=$2
export ATTUNE_STORE=$3
CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
export CMAKE_GENERATOR # CMake's default needs make, which nothing else does
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --component runtime --prefix "$prefix" >"$work/log"

for file in include/attune/attune.h include/attune/attune_emu.h; do
    test -f "$prefix/$file" || { echo "$file was not installed"; exit 1; }
done
libdir=$(dirname "$(find "$prefix" -name libattune.so)")
export LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig

for library in attune attune_emu; do
    others=$(nm -D --defined-only "$libdir/lib$library.so" | awk '{print $3}' | grep -v '^attune_' || true)
    test -z "$others" || { echo "lib$library.so also exports: $others"; exit 1; }
    needed=$(readelf -d "$libdir/lib$library.so" | grep NEEDED | grep -E 'sqlite|SQLite|zstd|libmd|boost|fmt' || true)
    test -z "$needed" || { echo "lib$library.so needs: $needed"; exit 1; }
done

run() { # the example must find the kernel and agree with fp64
    "$1" emu:h200 bf16.d64.causal/b1.h2.kv2.q128.k128 | tee "$work/out"
    grep -q 'good$' "$work/out" && grep -q 'match exact' "$work/out"
}

echo "find_package:"
cmake -S "$examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" >>"$work/log"
cmake --build "$work/cmake" >>"$work/log"
run "$work/cmake/launch"

echo "pkg-config:"
cc ${CFLAGS-} -std=c11 -Wall -Wextra -pedantic -Werror "$examples/launch.c" -o "$work/launch" \
    $(pkg-config --cflags --libs attune) -lattune_emu -lm
run "$work/launch"
test "$(pkg-config --modversion attune)" = "$("$work/launch" emu:h200 | sed -n 's/^attune \([0-9.]*\),.*/\1/p')" ||
    { echo "attune.pc and attune_version() differ"; exit 1; }

echo "attune::static:"
mkdir "$work/static"
cat >"$work/static/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(uses_static LANGUAGES C CXX)
find_package(attune 0.1 REQUIRED)
add_executable(launch $examples/launch.c)
target_link_libraries(launch PRIVATE attune::static attune::emu m)
END
cmake -S "$work/static" -B "$work/static/build" -DCMAKE_PREFIX_PATH="$prefix" >>"$work/log"
cmake --build "$work/static/build" >>"$work/log"
run "$work/static/build/launch"
if readelf -d "$work/static/build/launch" | grep -q 'libattune\.so'; then
    echo "attune::static linked the shared library"
    exit 1
fi
