#!/usr/bin/env bash
# The demo: trains a drafter for the bundled target, exports it, decodes the evaluation conversations with it and shows
# one generation. Leaves everything in runs/demo; may be run again. Arguments are overrides, e.g. train.steps=100.
set -euo pipefail
cd "$(dirname "$0")/.."
draftsmith=build/release/draftsmith

"$draftsmith" train examples/demo/run.yaml --overwrite "$@"
echo
"$draftsmith" eval runs/demo --output runs/demo/eval.json
echo
"$draftsmith" generate runs/demo --show-blocks --prompt "Write the times table of 7 up to 9."
