#!/usr/bin/env bash
# Builds the fuzzers and runs each: tools/fuzz.sh [--seconds-per-target N] [--preset fuzz|asan]
# A fuzzer is an executable build/PRESET/bin/NAME_fuzz; its seeds lie in tests/fuzz/corpus/NAME/, what
# it finds new goes to build/fuzz/corpus/NAME/, an input that broke it to build/fuzz/found/. The preset
# asan has most of it built already where its tests ran; the preset fuzz runs three times as fast.
# Runs all, PENSTOCK_JOBS (default: all cores) at once; fails if one failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=20 preset=fuzz jobs=${PENSTOCK_JOBS:-$(nproc)}
while (($#)); do
  case $1 in
    --seconds-per-target) seconds=${2:?} && shift 2 ;;
    --preset) preset=${2:?} && shift 2 ;;
    *) echo "tools/fuzz.sh: unknown argument '$1'" >&2 && exit 2 ;;
  esac
done

cmake --preset "$preset" --log-level=WARNING >/dev/null
[[ -t 1 ]] && quiet=() || quiet=(-- --quiet)
cmake --build --preset "$preset" --parallel "$jobs" --target fuzzers "${quiet[@]}"

[[ $preset == asan ]] && slowest=30 || slowest=10 # Seconds an input may take; -O0 is slower.
export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-16/bin/llvm-symbolizer
shopt -s nullglob
fuzzers=(build/"$preset"/bin/*_fuzz)
if ((${#fuzzers[@]} == 0)); then
  echo "tools/fuzz.sh: the preset $preset built no build/$preset/bin/*_fuzz" >&2
  exit 1
fi
mkdir -p build/fuzz/found
run() { # fuzzer; what it says goes to build/fuzz/NAME.log
  local name=${1##*/}
  name=${name%_fuzz}
  local corpus=(build/fuzz/corpus/"$name")
  mkdir -p "${corpus[0]}"
  [[ -d tests/fuzz/corpus/$name ]] && corpus+=(tests/fuzz/corpus/"$name")
  "$1" -max_total_time="$seconds" -timeout="$slowest" -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$name-" "${corpus[@]}" >"build/fuzz/$name.log" 2>&1
}

failed=()
for ((first = 0; first < ${#fuzzers[@]}; first += jobs)); do
  declare -A running=()
  for fuzzer in "${fuzzers[@]:first:jobs}"; do
    run "$fuzzer" &
    running[$fuzzer]=$!
  done
  for fuzzer in "${!running[@]}"; do
    name=${fuzzer##*/}
    name=${name%_fuzz}
    passed=true
    wait "${running[$fuzzer]}" || passed=false
    printf '\n== fuzz %s, %s s\n' "$name" "$seconds"
    # libFuzzer's own last lines tell the runs done; all that it said is in the log.
    if $passed; then
      grep -E '^(Done|stat::number_of_executed_units)' "build/fuzz/$name.log" || tail -n 3 "build/fuzz/$name.log"
    else
      tail -n 40 "build/fuzz/$name.log"
      failed+=("$name")
    fi
  done
  unset running
done
if ((${#failed[@]})); then
  printf '\nfuzz: failed: %s (inputs in build/fuzz/found/)\n' "${failed[*]}"
  exit 1
fi
printf '\nfuzz: %d fuzzers, none failed\n' "${#fuzzers[@]}"
