#!/usr/bin/env python3
r"""Times whole runs of `draftsmith train` over several devices, with targets of random weights and made-up documents. One
call gives every number that the pipeline is judged by: a JSON object a case, as soon as it ends, and then a table of the
goals. A case that fails or takes too long costs none of the others theirs.

    python3 bench/pipeline/pipeline_bench.py --draftsmith build/release/draftsmith --folder /dev/shm/bench \
        --torch torch.jsonl

Without names, all cases that the devices allow:
  fixed, varied, chat     a target and a drafter; documents of one length, of evenly drawn ones, of lengths like chats'
  host, peer              fixed, with features through the host or straight into the drafter's memory
  one_gpu, two_gpus       both roles on one device, on each of two; two_gpus_sharded: with the sharded optimizer
  long                    a small shape for thousands of steps, lengths from 64 to 3,072: does memory stay where it is
  kill                    a small shape, killed at two moments and resumed: are the bits those of an unkilled run
"""
import argparse
import dataclasses
import hashlib
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

from goals import goals_table
from made_up import SHAPES, lengths_of, write_documents, write_target


@dataclasses.dataclass(frozen=True)
class Case:
    documents: str = "fixed"
    targets: tuple = (0,)
    drafters: tuple = (1,)
    overrides: tuple = ()
    shape: str = ""  # empty: the one asked for
    steps: int = 40
    limit_s: int = 300


CASES = {
    "fixed": Case(),
    "varied": Case(documents="varied"),
    "one_gpu": Case(drafters=(0,)),
    "two_gpus": Case(targets=(0, 1), drafters=(0, 1)),
    "two_gpus_sharded": Case(targets=(0, 1), drafters=(0, 1), overrides=("train.optimizer.shard=true",)),
    "chat": Case(documents="chat", steps=60),
    "host": Case(overrides=("devices.queue.path=host",)),
    "peer": Case(overrides=("devices.queue.path=peer",)),
    "kill": Case(shape="small", documents="varied", steps=400),
    "long": Case(shape="small-long", documents="varied", steps=2000, limit_s=600),
}


class Run:
    """A process of `draftsmith train`, and the folder that it leaves."""

    def __init__(self, a, case, name, **train):
        self.a, self.case = a, case
        self.shape = SHAPES[case.shape or a.shape]
        self.folder = a.folder / name
        self.config = a.folder / f"{name}.yaml"
        documents = a.folder / f"{case.documents}-{case.shape or a.shape}.jsonl"
        target = a.folder / self.shape.target()
        write_target(target, self.shape, a.tokenizer)
        write_documents(documents, lengths_of(case.documents, self.shape))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.config.write_text(json.dumps(dict(
            target=str(target), drafter=self.shape.drafter,
            data=dict(train=str(documents), max_length=self.shape.longest),
            train=dict(self.shape.train, steps=a.steps or case.steps, compute=a.compute, **train),
            devices=dict(targets=[f"{a.device}:{i}" for i in case.targets],
                         drafters=[f"{a.device}:{i}" for i in case.drafters]),
            output=str(self.folder))))
        self.until = time.time() + (a.limit or case.limit_s)
        self.lines = []

    def go(self, *arguments, end_when=lambda line: False, kill_when=None):
        """Runs until it ends, or a line says so; kill_when() is asked again and again, and kills. Raises when the time is
        up or the run has failed."""
        line_by_line = ["stdbuf", "-oL"]  # or what follows a line would have been done before it is seen
        command = [self.a.draftsmith, "train", str(self.config), *self.case.overrides, *self.a.override, *arguments]
        process = subprocess.Popen(line_by_line + command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ended = threading.Event()
        outcome = dict(killed=False, late=False)

        def look():
            while not ended.wait(0.001 if kill_when else 0.1):
                outcome["late"] = time.time() > self.until
                outcome["killed"] = kill_when is not None and kill_when()
                if outcome["late"] or outcome["killed"]:
                    process.kill()
                    return

        watcher = threading.Thread(target=look)
        watcher.start()
        enough = False
        for line in process.stdout:
            self.lines.append(line.rstrip())
            if end_when(line):
                enough = True
                process.kill()
        code = process.wait()
        ended.set()
        watcher.join()
        if outcome["late"]:
            raise RuntimeError(f"the time is up: {self.lines[-3:]}")
        if code != 0 and not enough and not outcome["killed"]:
            raise RuntimeError(f"ended with {code}: {self.lines[-5:]}")
        return outcome["killed"] and code == -signal.SIGKILL

    def log(self):
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []  # a last line may be half written
        return [step for step in map(json.loads, lines) if step["kind"] == "step"]

    def report(self):
        return json.loads((self.folder / "report.json").read_text())


def share(thread, wait):
    """Of a drafter's time from its first features on, in percent."""
    steady = thread["from_first_features"]
    return 100 * steady["waits_s"].get(wait, 0) / max(steady["total_s"], 1e-9)


def moved_bytes(memory):
    """What each row moved by between the samples."""
    rows = {f"{name} by the driver": row for name, row in memory["gpu_bytes"].items()}
    rows.update(pinned=memory["pinned_bytes"], anonymous=memory["anonymous_bytes_after_step_20"], files=memory["file_bytes"])
    return {name: row["most"] - row["least"] if row else None for name, row in rows.items()}


def time_case(a, case):
    run = Run(a, case, "run", checkpoint=dict(every=0))
    began = time.time()
    run.go(end_when=lambda line: line.startswith("checkpoint:"))  # without the export
    seconds = time.time() - began
    report, log = run.report(), run.log()
    settled = log[min(a.warm_up, len(log) // 2):]
    drafters = [thread for thread in report["threads"] if "from_first_features" in thread]
    waits = {thread["name"]: {name: round(100 * waited / max(thread["total_s"], 1e-9), 2)
                              for name, waited in thread["waits_s"].items()} for thread in report["threads"]}
    if a.verbose:
        print("\n".join(run.lines), file=sys.stderr)
    return dict(
        steps=len(settled),
        step_ms=round(1e3 * statistics.median(step["tokens"] / step["tokens_per_second"] for step in settled), 1),
        tokens_per_s=round(statistics.median(step["tokens_per_second"] for step in settled), 1),
        blocks_per_s=round(statistics.median(step["blocks_per_second"] for step in settled), 1),
        first_features_s=max(round(thread["from_first_features"]["after_s"], 3) for thread in drafters),
        drafter_waits_percent=max(round(share(thread, "features"), 2) for thread in drafters),
        exchange_exposed_percent=max(round(share(thread, "the exchange"), 2) for thread in drafters),
        moved_bytes=moved_bytes(report["memory"]), waits_percent=waits, memory=report["memory"],
        after_seal=report["after_seal"], balance=report["balance"], loss=[settled[0]["loss"], settled[-1]["loss"]],
        trained_s=round(report["seconds"], 1), whole_run_s=round(seconds, 1))


def results_of(run, steps):
    """All that must not depend on kills."""
    digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
    losses = [(step["step"], step["loss"], step["gradient_norm"]) for step in run.log()]
    return dict(state=digest(run.folder / "checkpoints" / f"step-{steps:08d}" / "state.safetensors"),
                drafter=digest(run.folder / "export" / "model.safetensors"), losses=losses)


def kill_case(a, case):
    steps = a.steps or case.steps
    every = max(1, steps // 8)
    straight = Run(a, case, "straight", checkpoint=dict(every=every))
    straight.go()
    expected = results_of(straight, steps)
    killed, moments = Run(a, case, "killed", checkpoint=dict(every=every)), []

    def reached(step):
        def look():
            log = killed.log()
            return bool(log) and log[-1]["step"] >= step and len(log) == log[-1]["step"]
        return look

    arguments = ()
    for moment in (steps // 3, 2 * steps // 3):
        if killed.go(*arguments, kill_when=reached(moment)):
            moments.append(killed.log()[-1]["step"])
        arguments = ("--resume",)
    killed.go(*arguments)
    found = results_of(killed, steps)
    different = [name for name in expected if expected[name] != found[name]]
    return dict(steps=steps, killed_after_steps=moments, different=different,
                equal=len(moments) == 2 and not different)


def run_case(a, name):
    case = CASES[name]
    facts = dict(impl="draftsmith", case=name, shape=case.shape or a.shape, device=a.device, commit=a.commit)
    began = time.time()
    try:
        result = dict(facts, **(kill_case if name == "kill" else time_case)(a, case))
    except Exception as failure:  # whatever it is, the other cases go on
        result = dict(facts, failed=f"{type(failure).__name__}: {failure}", after_s=round(time.time() - began, 1))
    print(json.dumps(result), flush=True)
    return result


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="of: " + ", ".join(CASES))
    parser.add_argument("--draftsmith", default="build/release/draftsmith")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for targets of random weights and runs; kept")
    parser.add_argument("--shape", default="qwen3-8b", choices=sorted(SHAPES))
    parser.add_argument("--tokenizer", type=pathlib.Path, default=pathlib.Path("examples/demo/target"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--devices", type=int, default=2, help="how many there are: cases that need more are left out")
    parser.add_argument("--compute", default="bf16")
    parser.add_argument("--steps", type=int, help="of every case, instead of its own number")
    parser.add_argument("--limit", type=float, help="seconds of every run, instead of its case's own")
    parser.add_argument("--warm-up", type=int, default=5, help="steps that are not counted")
    parser.add_argument("--override", action="append", default=[], help="further options, name=value")
    parser.add_argument("--torch", type=pathlib.Path, help="JSON lines of bench/reference/dflash_torch.py pipeline")
    parser.add_argument("--commit", default="")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    unknown = set(a.cases) - set(CASES)
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    possible = [name for name, case in CASES.items() if max(case.targets + case.drafters) < a.devices]
    a.cases = [name for name in a.cases or possible if name in possible]
    a.folder.mkdir(parents=True, exist_ok=True)
    return a


if __name__ == "__main__":
    read = read_arguments()
    print(goals_table([run_case(read, name) for name in read.cases], read.torch), flush=True)
