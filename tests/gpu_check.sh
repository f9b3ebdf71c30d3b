#!/usr/bin/env bash
# What only a machine with a GPU can check, in one table: gpu_check.sh [BUILD-FOLDER [PART…]]
#   kernels   every kernel and target on the GPU against its contract's formula, golden cases in float32, attention's proof
#   memory    compute-sanitizer: memcheck of kernels and of a training run, racecheck of what shares memory
#   demo      the demo on the GPU: twice the same bytes, killed and resumed the same bytes, its loss curve beside the CPU's
#             (of a folder CPU_CURVES with bf16.jsonl and float32.jsonl, or trained here first), greedy equality in float32
#   pair      two GPUs: exchange, shards, faults, both ways of features
# All but `pair` without PARTs. Programs have to be built (build/release by default; targets draftsmith, tests, golden_cases,
# attention_check). Each check ends after LIMIT_S seconds (300). Exit code 1 when a check failed; checks go on after it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=${1:-build/release}
parts=("${@:2}")
[[ ${#parts[@]} -gt 0 ]] || parts=(kernels memory demo)
limit_s=${LIMIT_S:-300}
device=${DEVICE:-cuda:0}
tests=$build/tests
draftsmith=$build/draftsmith
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
table=$folder/table
failures=0

# check NAME COMMAND…: runs it, keeps its output, and adds a line to the table.
check() {
  local name=$1 began=$SECONDS code=0
  shift
  timeout --kill-after=10 "$limit_s" "$@" > "$folder/output" 2>&1 || code=$?
  local said
  said=$(grep -E 'PASSED|SKIPPED  . [0-9]|ERROR SUMMARY|RACECHECK SUMMARY|within the noise|^output equal|all checks|checks passed' \
    "$folder/output" | tail -n 2 | tr '\n' ' ')
  if [[ $said == *" 0 tests"* || $said == *SKIPPED* ]]; then code=77; fi  # nothing ran: nothing is proved
  if [[ $code -ne 0 ]]; then
    failures=$((failures + 1))
    grep -m 4 -A 6 ': Failure' "$folder/output"
    tail -n 20 "$folder/output"
  fi
  printf '%-6s %4d s  %s: %s\n' "$([[ $code -eq 0 ]] && echo ok || echo "FAILED")" $((SECONDS - began)) "$name" \
    "$said" | tee -a "$table"
}
# train FOLDER OVERRIDES…: the demo's run on the GPU.
train() {
  local output=$1
  shift
  "$draftsmith" train examples/demo/run.yaml devices.targets="[\"$device\"]" devices.drafters="[\"$device\"]" \
    output="$output" "$@"
}
same_export() { cmp "$1/export/model.safetensors" "$2/export/model.safetensors"; }

part_kernels() {
  check "device" "$tests/test_device" "--device=$device"
  check "kernels" "$tests/test_kernels" "--device=$device"
  check "kernels, operands aligned as in a run" "$tests/test_kernels" "--device=$device" --aligned
  check "targets" "$tests/test_model" "--device=$device" '--gtest_filter=*GoldenTarget*:TargetMoe*'
  check "golden training cases" "$tests/golden_cases" tests/golden "$device"
  check "runs with GPUs" "$tests/test_train" '--gtest_filter=*Gpu*:*ResumedChoices*-TwoGpus*'
  if [[ -x $build/bench/attention_check ]]; then check "attention" "$build/bench/attention_check"; fi
}

part_memory() {
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  local of="$sanitizer --error-exitcode 1 --target-processes all"
  # shellcheck disable=SC2086 # the tool and its options
  {
    if [[ -x $build/bench/attention_check ]]; then
      check "memcheck, attention" $of --tool memcheck "$build/bench/attention_check" run
      check "racecheck, attention" $of --tool racecheck "$build/bench/attention_check" run
    fi
    check "racecheck, kernels that share memory" $of --tool racecheck "$tests/test_kernels" "--device=$device" \
      '--gtest_filter=*CrossEntropy*:*Distill*:*BlockLoss*:*BlockRows*:*RmsNorm*:*HeadNorm*:*PrepareAttention*'
    check "memcheck, the loss" $of --tool memcheck "$tests/test_kernels" "--device=$device" \
      '--gtest_filter=*CrossEntropy*:*Distill*:*BlockLoss*'
    check "memcheck, three steps of the demo" $of --tool memcheck "$draftsmith" train examples/demo/run.yaml \
      devices.targets="[\"$device\"]" devices.drafters="[\"$device\"]" output="$folder/memcheck" train.steps=3 \
      train.eval.conversations=4
  }
}

cpu_curve() {
  [[ -e $curves/$1.jsonl ]] && return
  "$draftsmith" train examples/demo/run.yaml train.compute="$1" output="$folder/cpu-$1" > /dev/null &&
    cp "$folder/cpu-$1/metrics.jsonl" "$curves/$1.jsonl"
}
# Killed while it runs, then resumed to its end.
killed_run() {
  local run=$folder/killed after
  for after in 1.2 1.6; do
    local how=()
    if compgen -G "$run/checkpoints/step-*/checksums.json" > /dev/null; then how=(--resume); else rm -rf "$run"; fi
    timeout --foreground --preserve-status --signal=KILL "$after" "$draftsmith" train examples/demo/run.yaml \
      devices.targets="[\"$device\"]" devices.drafters="[\"$device\"]" output="$run" train.checkpoint.every=20 "${how[@]}"
  done
  if compgen -G "$run/checkpoints/step-*/checksums.json" > /dev/null; then how=(--resume); else how=(--overwrite); fi
  train "$run" train.checkpoint.every=20 "${how[@]}" && same_export "$folder/first" "$run"
}
# shellcheck disable=SC2016 # what bash -c expands
part_demo() {
  curves=${CPU_CURVES:-$folder/curves}
  mkdir -p "$curves"
  export -f train same_export killed_run
  export draftsmith folder device
  check "the demo" bash -c 'train "$folder/first" train.checkpoint.every=20'
  check "the demo again, the same bytes" bash -c \
    'train "$folder/second" train.checkpoint.every=20 && same_export "$folder/first" "$folder/second"'
  check "killed and resumed, the same bytes" bash -c killed_run
  cpu_curve bf16
  cpu_curve float32
  check "loss curve beside the CPU's" python3 tests/tools/loss_curves.py "$folder/first/metrics.jsonl" \
    "$curves/bf16.jsonl" "$curves/float32.jsonl"
  cat "$folder/output"
  check "decoding equals greedy, float32" "$draftsmith" eval "$folder/first" --device "$device" --output "$folder/eval.json"
  cat "$folder/output"
}

part_pair() {
  check "NCCL's exchange" "$tests/test_fabric" '--gtest_filter=Nccl*'
  check "runs on two GPUs" "$tests/test_train" '--gtest_filter=TwoGpus*'
}

for part in "${parts[@]}"; do
  case $part in
    kernels | memory | demo | pair) "part_$part" ;;
    *) echo "there is no part $part: kernels, memory, demo, pair"; exit 2 ;;
  esac
done
echo
cat "$table"
exit $((failures > 0))
