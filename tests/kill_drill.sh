#!/usr/bin/env bash
# kill_drill.sh [COUNT [SEED]]: kills a small training run with SIGKILL at COUNT random moments, inside checkpoints and
# start-up too, resumes each until it ends, and compares the final checkpoint with that of a run that was never killed.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-20}
RANDOM=${2:-1}
draftsmith=build/release/draftsmith
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

steps=40
small_run=(train examples/demo/run.yaml train.steps=$steps data.max_length=128 train.context_tokens=128 train.blocks=16
  train.anchors_per_document=8 train.checkpoint.every=2 train.eval.every=10 train.eval.conversations=4 devices.threads=1)
bits() { sha256sum < "$1/checkpoints/step-$(printf %08d $steps)/state.safetensors"; }
fail() {
  echo "kill drill: $1" >&2
  tail -n 20 "$folder/log" >&2
  exit 1
}

began=$(date +%s%N)
"$draftsmith" "${small_run[@]}" output="$folder/straight" > "$folder/log" 2>&1 || fail "the run that is never killed failed"
whole_ms=$((($(date +%s%N) - began) / 1000000))
expected=$(bits "$folder/straight")

kills=0
while ((kills < count)); do
  run=$folder/killed
  rm -rf "$run"
  arguments=()
  for ((attempt = 0; attempt < 50; ++attempt)); do
    "$draftsmith" "${small_run[@]}" output="$run" "${arguments[@]}" > "$folder/log" 2>&1 &
    process=$!
    if ((kills < count && attempt < 4)); then
      sleep "$(awk -v ms=$((RANDOM % (whole_ms + 1))) 'BEGIN { print ms / 1000 }')"
      if kill -KILL $process 2> /dev/null; then kills=$((kills + 1)); fi
    fi
    if wait $process 2> /dev/null; then break; fi
    arguments=(--overwrite)
    if compgen -G "$run/checkpoints/step-*/checksums.json" > /dev/null; then arguments=(--resume); fi
    [[ -e $run/config.yaml ]] || arguments=()
  done
  [[ $(bits "$run") == "$expected" ]] || fail "after $kills kills the bits of the weights differ"
done
echo "kill drill: $kills kills at random moments of ${whole_ms} ms; every run ended with the same bits"
