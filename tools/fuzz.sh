#!/usr/bin/env bash
# Builds the fuzz preset and runs each of its fuzzers: tools/fuzz.sh [--seconds-per-target N]
# A fuzzer is an executable build/fuzz/bin/NAME_fuzz; its seeds lie in tests/fuzz/corpus/NAME/, what
# it finds new goes to build/fuzz/corpus/NAME/, an input that broke it to build/fuzz/found/.
# Runs all, fails if one failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=20
while (($#)); do
  case $1 in
    --seconds-per-target) seconds=${2:?} && shift 2 ;;
    *) echo "tools/fuzz.sh: unknown argument '$1'" >&2 && exit 2 ;;
  esac
done

cmake --preset fuzz --log-level=WARNING
cmake --build --preset fuzz --parallel "${PENSTOCK_JOBS:-$(nproc)}" --target fuzzers

shopt -s nullglob
fuzzers=(build/fuzz/bin/*_fuzz)
if ((${#fuzzers[@]} == 0)); then
  echo "tools/fuzz.sh: the fuzz preset built no build/fuzz/bin/*_fuzz" >&2
  exit 1
fi
mkdir -p build/fuzz/found
failed=()
for fuzzer in "${fuzzers[@]}"; do
  name=${fuzzer##*/}
  name=${name%_fuzz}
  printf '\n== fuzz %s, %s s\n' "$name" "$seconds"
  corpus=(build/fuzz/corpus/"$name")
  mkdir -p "${corpus[0]}"
  [[ -d tests/fuzz/corpus/$name ]] && corpus+=(tests/fuzz/corpus/"$name")
  log=build/fuzz/$name.log
  # libFuzzer's own last lines tell the runs done; all that it said is in the log.
  if "$fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$name-" "${corpus[@]}" >"$log" 2>&1; then
    grep -E '^(Done|stat::number_of_executed_units)' "$log" || tail -n 3 "$log"
  else
    tail -n 40 "$log"
    failed+=("$name")
  fi
done
if ((${#failed[@]})); then
  printf '\nfuzz: failed: %s (inputs in build/fuzz/found/)\n' "${failed[*]}"
  exit 1
fi
printf '\nfuzz: %d fuzzers, none failed\n' "${#fuzzers[@]}"
