#!/usr/bin/env bash
# Times one GPU's work at the shapes of Qwen3-8B's drafter beside the PyTorch reference, each pair on the same card one after
# the other: the drafter's step at four sizes, warm-up, peak memory, the target's prefill, attention alone. About nine
# minutes with all PARTs; needs PyTorch, and the programs draftsmith, step_bench and attention_bench built.
#   bench/gpu_bench.sh BUILD-FOLDER OUTPUT-FOLDER [PART…]      parts: b2 b4 b1 prefill attention
# Leaves OUTPUT-FOLDER/step.jsonl, attention.jsonl and everything printed in log.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=$1
output=$2
parts=("${@:3}")
[[ ${#parts[@]} -gt 0 ]] || parts=(b2 b4 b1 prefill attention)
mkdir -p "$output"
tuning=$(mktemp -d)
trap 'rm -rf "$tuning"' EXIT
commit=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null || echo unknown)}
exec > >(tee "$output/log") 2>&1

torch() { python3 bench/reference/dflash_torch.py "$@" | tee -a "$output/torch.txt"; }
ours() {
  "$build"/bench/step_bench --device cuda:0 --shape qwen3-8b --torch "$output/torch.txt" --json "$output/step.jsonl" \
    --tuning-folder "$tuning" --commit "$commit" "$@"
}
step() {  # step DOCUMENTS LENGTH ANCHORS RUNS
  ours --work drafter --chunk-rows 1920 --documents "$1" --length "$2" --anchors "$3" --runs "$4"
}
attention() {  # attention SEQUENCE ANCHORS, the two in turns
  for _ in 1 2; do
    torch attention --seq "$1" --anchors "$2"
    "$build"/bench/attention_bench "$1" "$2" | tee -a "$output/attention.jsonl"
  done
}

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv
: > "$output/torch.txt"
for part in "${parts[@]}"; do
  echo "== $part, after $SECONDS s"
  case $part in
    b2)  # twice, in turns: the card's temperature and power move by a percent
      for _ in 1 2; do
        torch bench --batch 2 --seq 768 --anchors 256 --steps 16
        step 2 768 256 16
      done
      ;;
    b4) torch bench && torch bench --optimizer && step 4 3072 512 8 ;;
    b1) torch bench --batch 1 --seq 32768 && step 1 32768 512 10 ;;
    prefill) torch prefill && ours --work prefill --runs 8 ;;
    attention) attention 3072 512 && attention 16384 512 ;;
    *) echo "there is no part $part: b2 b4 b1 prefill attention"; exit 2 ;;
  esac
done
echo "== done after $SECONDS s"
