#!/usr/bin/env bash
# kill_drill.sh [COUNT [SEED]]: kills a small training run with SIGKILL at COUNT random moments, in start-up, steps,
# checkpoints, evaluations and the export alike, resumes each run until it ends, and compares its last checkpoint, its
# export and its log with those of a run that was never killed.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-20}
RANDOM=${2:-1}
draftsmith=build/release/draftsmith
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

steps=40
most_kills=4  # of one run: then it may end
small_run=(train examples/demo/run.yaml train.steps=$steps data.train=examples/demo/eval.jsonl data.max_length=96
  drafter.layers=1 drafter.block_size=4 drafter.taps=[1] drafter.intermediate=32 train.context_tokens=96 train.blocks=8
  train.anchors_per_document=4 train.loss.gamma=auto train.checkpoint.every=2 train.eval.every=8
  train.eval.conversations=2 train.compute=float32 devices.threads=1)

# All that must not depend on kills; of the log, what was computed, not how long it took, nor whether an evaluation was
# logged before or after the steps beside it.
results() {
  sed -E 's/"(seconds|wall_s|tokens_per_second|blocks_per_second|queue_filled)":[^,}]*//g' "$1/metrics.jsonl" | sort
  sha256sum < "$1/checkpoints/step-$(printf %08d $steps)/state.safetensors"
  sha256sum < "$1/export/model.safetensors"
}
fail() {
  echo "kill drill: $1" >&2
  tail -n 20 "$folder/log" >&2
  exit 1
}
# How a person would go on with what lies in the folder.
next_arguments() {
  if compgen -G "$1/checkpoints/step-*/checksums.json" > /dev/null; then
    echo --resume
  elif [[ -e $1/config.yaml ]]; then
    echo --overwrite
  fi
}
# Trains, at most for so many milliseconds; 137 when it was killed then, and the run's own code (not `timeout`'s 124) when
# it ended at the very moment of the kill. Leaves the time it took in took_ms.
attempt() {
  local limit_ms=$1 code=0 began
  shift
  began=$(date +%s%N)
  timeout --foreground --preserve-status --signal=KILL "$(awk -v ms="$limit_ms" 'BEGIN { print ms / 1000 }')" \
    "$draftsmith" "${small_run[@]}" "$@" > "$folder/log" 2>&1 || code=$?
  took_ms=$((($(date +%s%N) - began) / 1000000))
  return $code
}

unlimited_ms=600000
attempt $unlimited_ms output="$folder/straight" || fail "the run that is never killed failed"
whole_ms=$took_ms
expected=$(results "$folder/straight")

kills=0
runs=0
run=$folder/killed
while ((kills < count)); do
  rm -rf "$run"
  runs=$((runs + 1))
  for ((tries = 0; ; ++tries)); do
    how=$(next_arguments "$run")
    limit_ms=$unlimited_ms
    if ((kills < count && tries < most_kills)); then limit_ms=$((1 + RANDOM * RANDOM % whole_ms)); fi
    code=0
    # shellcheck disable=SC2086 # no argument when there is none
    attempt $limit_ms output="$run" $how || code=$?
    if ((code == 0)); then break; fi
    if ((code != 128 + 9)); then fail "after $kills kills an attempt ended with code $code"; fi
    kills=$((kills + 1))
  done
  if [[ $how != --resume && $took_ms -lt $whole_ms ]]; then whole_ms=$took_ms; fi  # the machine is less busy now
  diff <(echo "$expected") <(results "$run") > "$folder/differences" ||
    fail "after $kills kills the results differ: $(tail -c 2000 "$folder/differences")"
done
echo "kill drill: $kills kills in $runs runs at random moments of ${whole_ms} ms; every run ended with the same bits"
