#!/usr/bin/env bash
# From a bare Debian 12 or Ubuntu 24.04 to a tuned kernel launched through the C API: installs what
# is missing, builds, and does the main job on the best device found (a GPU, else emulated).
# A second run is quick. Ends with the example's exit code: 0 only if its error is under the bar.
#   tools/quickstart.sh [device]        cuda:0, hip:0, emu:h200, ...
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build=$root/build-release
attune=$build/tools/attune
export ATTUNE_STORE=$build/quickstart.sqlite

install_build_packages
build release attune_cli attune_example_launch
provide_nvrtc "$build"

say "devices"
"$attune" doctor
best='import json, sys
ids = [d["id"] for d in json.load(sys.stdin)["devices"]]
print(next((i for i in ids if not i.startswith("emu:")), "emu:h200"))'
device=${1:-$("$attune" devices --json | python3 -c "$best")}
echo "using $device"

say "tune"
# An emulated GPU has nothing to measure: the best by the model that compiles and checks will do.
case $device in emu:*) effort=estimate ;; *) effort=measure ;; esac
rm -f "$ATTUNE_STORE"*  # kernels of an older checkout may be in it
"$attune" tune --device "$device" --shapes smoke --effort "$effort"

say "export"
"$attune" export --device "$device" --output "$build/quickstart.json"
echo "$build/quickstart.json: $(wc -c <"$build/quickstart.json") bytes"

say "lookup"
"$attune" lookup smoke --device "$device"

say "launch through the C API"
"$build/tools/examples/launch" "$device" bf16.d64.causal/b1.h4.kv2.q113.k128
