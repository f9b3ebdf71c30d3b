#!/usr/bin/env python3
"""Says whether one run's loss curve is another's but for rounding.

    python3 tests/tools/loss_curves.py RUN REFERENCE ROUNDED      three metrics.jsonl of the same data and seed

ROUNDED differs from REFERENCE in rounding alone (float32 instead of bf16), so the distance between their curves is the
noise that rounding makes: training amplifies it, step after step. RUN passes when its distance from REFERENCE is at most
twice that noise (both are samples of it, and a run of 400 steps is a small one), in the step-by-step losses and in the
held-out loss at the end. Exit code 1 when it is more.
"""
import json
import math
import pathlib
import sys

FACTOR = 2.0


def curve(path):
    steps, held_out = {}, {}
    for line in pathlib.Path(path).read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"] == "step":
            steps[entry["step"]] = entry["loss"]
        elif entry["kind"] == "evaluation":
            held_out[entry["step"]] = entry["loss"]
    return steps, held_out


def distance(some, others):
    """Root mean square of the relative differences."""
    if some.keys() != others.keys() or not some:
        raise SystemExit("the runs do not have the same steps: are all three whole?")
    return math.sqrt(sum(((some[step] - others[step]) / others[step]) ** 2 for step in some) / len(some))


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    run, reference, rounded = (curve(path) for path in sys.argv[1:])
    steps = sorted(reference[0])
    parts = 8
    print(f"{'steps':>12}{'run':>10}{'reference':>11}{'rounded':>10}   mean loss")
    for part in range(parts):
        some = steps[len(steps) * part // parts:len(steps) * (part + 1) // parts]
        means = [sum(losses[step] for step in some) / len(some) for losses, _ in (run, reference, rounded)]
        print(f"{some[0]:>6}-{some[-1]:<5}{means[0]:>10.4f}{means[1]:>11.4f}{means[2]:>10.4f}")
    passed = True
    for name, index in (("loss of the steps", 0), ("held-out loss", 1)):
        found, noise = distance(run[index], reference[index]), distance(rounded[index], reference[index])
        passed = passed and found <= FACTOR * noise
        print(f"{name}: {100 * found:.2f} % from the reference, rounding alone {100 * noise:.2f} %")
    print("within the noise of rounding" if passed else f"more than {FACTOR:g} times the noise of rounding")
    return 0 if passed else 1


sys.exit(main())
