#!/usr/bin/env bash
# Compares with PyTorch what was trained here:
#   - drafters: the PyTorch reference computes one training batch with the exported weights in float64, and our float32
#     step must agree with it (loss 1e-5, every gradient 1e-4);
#   - targets: transformers decodes the same prompts greedily in float32, and our tokens must be the same. The imported
#     target of make smollm2 is compared too, when it is there.
#   tools/parity.sh            uses the python3 that has PyTorch; says so and skips when none has
#   INSTALL=1 tools/parity.sh  installs PyTorch from PyPI into .venv first
# EXPORT=folder and TARGET=folder name the drafter and its target; the demo's by default.
set -euo pipefail
cd "$(dirname "$0")/.."
export_folder=${EXPORT:-runs/demo/export}
target=${TARGET:-examples/demo/target}
packages=(torch safetensors numpy transformers)

python=python3
[[ -x .venv/bin/python ]] && python=.venv/bin/python
if [[ "${INSTALL:-0}" == 1 ]] && ! "$python" -c 'import torch, safetensors, transformers' 2> /dev/null; then
  echo "Installing ${packages[*]} from PyPI into .venv ..."
  python3 -m venv .venv
  .venv/bin/pip install --quiet "${packages[@]}"
  python=.venv/bin/python
fi
if ! "$python" -c 'import torch, safetensors' 2> /dev/null; then
  echo "parity: SKIPPED, no python3 with torch and safetensors. To install them into .venv: make parity INSTALL=1"
  exit 0
fi
if [[ ! -f "$export_folder/model.safetensors" ]]; then
  echo "parity: there is no drafter in $export_folder; run make demo first, or name one: make parity EXPORT=folder" >&2
  exit 1
fi

cases=build/parity
rm -rf "$cases"
mkdir -p "$cases"
"$python" tools/make_parity_case.py "$export_folder" "$target" "$cases/train_parity.safetensors"
make --no-print-directory golden DIR="$cases"

if ! "$python" -c 'import transformers' 2> /dev/null; then
  echo "parity of targets: SKIPPED, no python3 with transformers. To install it into .venv: make parity INSTALL=1"
  exit 0
fi
echo "$target, greedy:"
"$python" tools/parity_target.py build/release/draftsmith "$target" "$export_folder"
if [[ -d .cache/smollm2/target && -d runs/smollm2/export ]]; then
  echo ".cache/smollm2/target, greedy:"
  "$python" tools/parity_target.py build/release/draftsmith .cache/smollm2/target runs/smollm2
else
  echo "parity of the imported target: SKIPPED, it is not there. To make it: make smollm2"
fi
