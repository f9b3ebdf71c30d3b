"""What the pipeline is judged by, as a table over the results of pipeline_bench.py."""
import json

FASTER_THAN_TORCH = 1.5  # blocks a second, in fixed
VARIED_WITHIN = 0.02  # of fixed's blocks a second
TWO_DEVICES = 1.9  # times one device's
EXPOSED_PERCENT = 2  # of a drafter's time, of the exchange
ANONYMOUS_MOVES = 4 << 20  # bytes, of anonymous memory after step 20
WAIT_PERCENT = 1  # of the time of a drafter that is the bottleneck


def torch_blocks_per_s(path):
    for line in path.read_text().splitlines():
        if line.startswith("{") and json.loads(line).get("impl") == "torch-pipeline":
            return json.loads(line)["blocks_per_s"]
    raise SystemExit(f"{path}: expected a line of `dflash_torch.py pipeline` (impl torch-pipeline)")


def drafter_is_bottleneck(result):
    """The targets then wait for a free slot, and so for the feeder's micro-batch."""
    split = result["balance"]
    return split["drafter_busy_s"] > split["target_busy_s"]


def rows_of(results, torch_path):
    """(case, what, found, goal, met)."""
    by_case = {result["case"]: result for result in results if "failed" not in result}

    def both(case, other):
        return case in by_case and other in by_case

    if torch_path and "fixed" in by_case:
        ratio = by_case["fixed"]["blocks_per_s"] / torch_blocks_per_s(torch_path)
        yield "fixed", "blocks/s to PyTorch's", f"{ratio:.2f}", f">= {FASTER_THAN_TORCH}", ratio >= FASTER_THAN_TORCH
    for varied in ("varied", "chat"):
        if both("fixed", varied):
            ratio = by_case[varied]["blocks_per_s"] / by_case["fixed"]["blocks_per_s"]
            goal = varied == "varied"
            yield (varied, "blocks/s to fixed's", f"{ratio:.3f}", f">= {1 - VARIED_WITHIN}" if goal else "",
                   ratio >= 1 - VARIED_WITHIN if goal else None)
    for two in ("two_gpus", "two_gpus_sharded"):
        if both("one_gpu", two):
            ratio = by_case[two]["blocks_per_s"] / by_case["one_gpu"]["blocks_per_s"]
            yield two, "blocks/s to one_gpu's", f"{ratio:.2f}", f">= {TWO_DEVICES}", ratio >= TWO_DEVICES
    for case, result in by_case.items():
        if case == "kill":
            yield case, "bits after kills", "equal" if result["equal"] else "DIFFERENT", "equal", result["equal"]
            continue
        if case.startswith("two_gpus"):
            exposed = result["exchange_exposed_percent"]
            yield case, "exchange, exposed", f"{exposed} %", f"<= {EXPOSED_PERCENT} %", exposed <= EXPOSED_PERCENT
        if case not in ("one_gpu", "two_gpus", "two_gpus_sharded"):
            waits, bound = result["drafter_waits_percent"], drafter_is_bottleneck(result)
            yield (case, "drafter's wait for features", f"{waits} %",
                   f"<= {WAIT_PERCENT} %" if bound else "(the target is slower)", waits <= WAIT_PERCENT if bound else None)
        moved = {name: bytes_ for name, bytes_ in result["moved_bytes"].items() if bytes_ != 0}
        text = ", ".join(f"{name} {'not sampled' if bytes_ is None else bytes_}" for name, bytes_ in moved.items())
        allowed = {"files": float("inf"), "anonymous": ANONYMOUS_MOVES}  # files: pages of the program and its libraries
        judged = [None if bytes_ is None else bytes_ <= allowed.get(name, 0) for name, bytes_ in moved.items()]
        met = False if False in judged else None if None in judged else True
        yield case, "bytes that memory moved by", text or "0", "0; anonymous 4 MiB, files any", met


def goals_table(results, torch_path=None):
    rows = list(rows_of(results, torch_path))
    rows += [(result["case"], "did not end", result["failed"].splitlines()[0][:120], "", False)
             for result in results if "failed" in result]
    lines = ["| case | | found | goal | |", "|---|---|---|---|---|"]
    verdict = {True: "met", False: "NOT met", None: ""}
    return "\n".join(lines + [f"| {' | '.join(row[:4])} | {verdict[row[4]]} |" for row in rows])
