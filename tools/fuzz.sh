#!/usr/bin/env bash
# Builds the fuzzers and runs each:
#   tools/fuzz.sh [--seconds-per-target N] [--preset fuzz|asan] [--folder DIR] [--built DIR] [TARGET...]
# A fuzzer is an executable build/PRESET/bin/NAME_fuzz; its seeds lie in tests/fuzz/corpus/NAME/. In --folder (default
# build/fuzz) are corpus/NAME/, what it finds new, found/, inputs that broke it, NAME.log, what it said, and ledger.txt, to which each run
# adds a line "DATE NAME SECONDS EXECUTIONS passed|FAILED", seconds of a CPU (script/fuzz sums them up). --built names a folder of fuzzers; then none is
# built. The preset asan has most of it built already where its tests ran; the preset fuzz runs three times as fast.
# Runs the targets named, all if none is, PENSTOCK_JOBS (default: all cores) at once; fails if one failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=20 preset=fuzz jobs=${PENSTOCK_JOBS:-$(nproc)} folder=build/fuzz built='' targets=()
while (($#)); do
  case $1 in
    --seconds-per-target) seconds=${2:?} && shift 2 ;;
    --preset) preset=${2:?} && shift 2 ;;
    --folder) folder=${2:?} && shift 2 ;;
    --built) built=${2:?} && shift 2 ;;
    -*) echo "tools/fuzz.sh: unknown argument '$1'" >&2 && exit 2 ;;
    *) targets+=("$1") && shift ;;
  esac
done

if [[ -z $built ]]; then
  built=build/$preset/bin
  cmake --preset "$preset" --log-level=WARNING >/dev/null
  [[ -t 1 ]] && quiet=() || quiet=(-- --quiet)
  cmake --build --preset "$preset" --parallel "$jobs" --target fuzzers "${quiet[@]}"
fi

[[ $preset == asan ]] && slowest=30 || slowest=10 # Seconds an input may take; -O0 is slower.
export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-16/bin/llvm-symbolizer
shopt -s nullglob
fuzzers=("$built"/*_fuzz)
if ((${#fuzzers[@]} == 0)); then
  echo "tools/fuzz.sh: no fuzzers $built/*_fuzz" >&2
  exit 1
fi
if ((${#targets[@]})); then
  known=("${fuzzers[@]##*/}")
  fuzzers=()
  for target in "${targets[@]}"; do
    [[ -x $built/${target}_fuzz ]] || { echo "tools/fuzz.sh: no target '$target'; there are: ${known[*]%_fuzz}" >&2 && exit 2; }
    fuzzers+=("$built/${target}_fuzz")
  done
fi
mkdir -p "$folder/found"
run() { # fuzzer; what it says goes to NAME.log
  local name=${1##*/} result=passed spent executions TIMEFORMAT='%U %S'
  name=${name%_fuzz}
  local corpus=("$folder/corpus/$name") log=$folder/$name.log
  mkdir -p "${corpus[0]}"
  [[ -d tests/fuzz/corpus/$name ]] && corpus+=(tests/fuzz/corpus/"$name")
  # Seconds that it computed: at idle priority it may have waited for most of its time.
  spent=$({ time "$1" -max_total_time="$seconds" -timeout="$slowest" -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$folder/found/$name-" "${corpus[@]}" >"$log" 2>&1; } 2>&1) || result=FAILED
  spent=$(awk '{ printf "%.1f", $1 + $2 }' <<<"$spent")
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  printf '%s %s %s %s %s\n' "$(date -u +%F)" "$name" "$spent" "${executions:-0}" "$result" >>"$folder/ledger.txt"
  [[ $result == passed ]]
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
      grep -E '^(Done|stat::number_of_executed_units)' "$folder/$name.log" || tail -n 3 "$folder/$name.log"
    else
      tail -n 40 "$folder/$name.log"
      failed+=("$name")
    fi
  done
  unset running
done
if ((${#failed[@]})); then
  printf '\nfuzz: failed: %s (inputs in %s/found/)\n' "${failed[*]}" "$folder"
  exit 1
fi
printf '\nfuzz: %d fuzzers, none failed\n' "${#fuzzers[@]}"
