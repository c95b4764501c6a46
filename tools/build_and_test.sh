#!/usr/bin/env bash
# Configures, builds and tests one preset: tools/build_and_test.sh PRESET [ctest's arguments]
# PENSTOCK_TARGETS: what to build (default: all). PENSTOCK_JOBS: how many compilers and tests at once (default: all cores).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:?the name of a preset in CMakePresets.json}
shift
jobs=${PENSTOCK_JOBS:-$(nproc)}

# Sanitizers of this age abort at random where addresses are randomised over more bits than they expect.
fixed_addresses=()
if [[ $preset == asan || $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null; then
  fixed_addresses=(setarch --addr-no-randomize)
fi

cmake --preset "$preset" --log-level=WARNING >/dev/null
read -ra targets <<<"${PENSTOCK_TARGETS:-all}"
# Line after line of what was built is for a terminal only.
[[ -t 1 ]] && quiet=() || quiet=(-- --quiet)
cmake --build --preset "$preset" --parallel "$jobs" --target "${targets[@]}" "${quiet[@]}"
"${fixed_addresses[@]}" ctest --preset "$preset" --parallel "$jobs" "$@"
