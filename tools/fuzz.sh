#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz and runs each on top of its corpus in the tree. What one finds it leaves in
# build/fuzz/found/<name>/, and the script fails.
#   tools/fuzz.sh SECONDS [NAME ...]     SECONDS for each; NAME as in tests/fuzz/NAME_fuzz.cpp, all by default
set -euo pipefail
cd "$(dirname "$0")/.."

[[ "${1:-}" =~ ^[1-9][0-9]*$ ]] || { echo "usage: tools/fuzz.sh SECONDS [NAME ...]" >&2; exit 2; }
seconds=$1
shift
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for source in tests/fuzz/*_fuzz.cpp; do names+=("$(basename "$source" _fuzz.cpp)"); done
fi

mkdir -p build
cmake --preset fuzz > build/fuzz-configure.log 2>&1 || { cat build/fuzz-configure.log >&2; exit 1; }
cmake --build build/fuzz --target "${names[@]/%/_fuzz}" -- -j "$(nproc)"

failed=()
for name in "${names[@]}"; do
  echo "fuzzing $name for $seconds s"
  found=build/fuzz/found/$name
  grown=build/fuzz/corpus/$name
  mkdir -p "$found" "$grown"
  # Leaks are looked for once, at the end; a single input may take 20 s and 2 GB.
  if ! "build/fuzz/tests/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$found/" "$grown" "tests/fuzz/corpus/$name" > "$found/log.txt" 2>&1; then
    tail -n 40 "$found/log.txt" >&2
    failed+=("$name")
  else
    grep -E '^(Done|stat::number_of_executed_units)' "$found/log.txt" || true
  fi
done
[[ ${#failed[@]} -eq 0 ]] || { echo "found something: ${failed[*]}; inputs and logs are in build/fuzz/found" >&2; exit 1; }
