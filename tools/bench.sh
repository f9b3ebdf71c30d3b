#!/usr/bin/env bash
# Times the CPU's work beside oneDNN's packed products of the same shapes, in one run: drafter step and target prefill of
# the demo and of a 1,024-wide target of 28 layers, its plain decoding, and the demo's memory. A few minutes; wants an
# idle machine. Further arguments go to both calls, for example --json bench.jsonl.
#   tools/bench.sh BUILD-FOLDER [step_bench's options]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
step_bench() {
  "$build"/bench/step_bench --commit "$(git rev-parse --short HEAD 2> /dev/null || echo unknown)" "$@"
}

step_bench --shape demo --work demo-memory --work drafter --work prefill --program "$build"/draftsmith "$@"
echo
step_bench --shape wide --work drafter --work prefill --work decode "$@"
