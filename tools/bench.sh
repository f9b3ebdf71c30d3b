#!/usr/bin/env bash
# Times the CPU's work beside oneDNN's packed products of the same shapes, in one run: drafter step and target prefill of
# the demo and of a 1,024-wide target of 28 layers, its plain decoding, and the demo's memory. Medians of 9 rounds in which
# ours and the yardstick take turns, after one that warms up. The goals stand together at the end. Two to three minutes on
# two idle cores; other programs spoil launches that are split over threads, so on a busy machine take --threads 1, which
# counts the time that the thread itself ran. Further arguments go to both calls, for example --json bench.jsonl --runs 21.
#   tools/bench.sh BUILD-FOLDER [step_bench's options]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
output=$(mktemp)
trap 'rm -f "$output"' EXIT
step_bench() {
  "$build"/bench/step_bench --commit "$(git rev-parse --short HEAD 2> /dev/null || echo unknown)" "$@" | tee -a "$output"
}

step_bench --shape demo --work demo-memory --work drafter --work prefill --program "$build"/draftsmith "$@"
echo
step_bench --shape wide --work drafter --work prefill --work decode "$@"
echo
echo "All goals:"
grep -E '^[^ ].*, shape |\(goal ' "$output"
