#!/usr/bin/env python3
"""Times whole runs of `draftsmith train` over several devices: random weights of a named shape, documents of fixed or of
varied lengths, all roles. Prints a JSON object a case: steps, tokens and blocks a second, waits, copies, memory.

    python3 bench/pipeline/pipeline_bench.py --draftsmith build/release/draftsmith --folder /dev/shm/bench \
        --shape qwen3-8b fixed varied one_gpu two_gpus
"""
import argparse
import json
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import time

import numpy

SHAPES = {
    "qwen3-8b": dict(layers=36, width=4096, intermediate=12288, heads=32, kv_heads=8, head_dim=128, vocabulary=151936,
                     drafter=dict(layers=5, block_size=16, mask_token_id=151669), length=3072, least=704,
                     train=dict(context_tokens=12288, blocks=2048, anchors_per_document=512)),
    "small": dict(layers=6, width=128, intermediate=256, heads=4, kv_heads=2, head_dim=32, vocabulary=4200,
                  drafter=dict(layers=2, block_size=8, mask_token_id=4150), length=256, least=64,
                  train=dict(context_tokens=512, blocks=64, anchors_per_document=16)),
}
CASES = {  # lengths, targets, drafters, further overrides
    "fixed": ("fixed", [0], [1], []),
    "varied": ("varied", [0], [1], []),
    "host": ("fixed", [0], [1], ["devices.queue.path=host"]),
    "peer": ("fixed", [0], [1], ["devices.queue.path=peer"]),
    "one_gpu": ("fixed", [0], [0], []),
    "two_gpus": ("fixed", [0, 1], [0, 1], []),
    "two_gpus_sharded": ("fixed", [0, 1], [0, 1], ["train.optimizer.shard=true"]),
}


def tensors(shape):
    """Name and dimensions of every weight of a dense Qwen3."""
    width, query, kv = shape["width"], shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    yield "model.embed_tokens.weight", (shape["vocabulary"], width)
    for layer in range(shape["layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (width,)
        yield at + "post_attention_layernorm.weight", (width,)
        for name, rows, columns in (("q", query, width), ("k", kv, width), ("v", kv, width), ("o", width, query)):
            yield at + f"self_attn.{name}_proj.weight", (rows, columns)
        for name in ("q", "k"):
            yield at + f"self_attn.{name}_norm.weight", (shape["head_dim"],)
        for name, rows, columns in (("gate", shape["intermediate"], width), ("up", shape["intermediate"], width),
                                    ("down", width, shape["intermediate"])):
            yield at + f"mlp.{name}_proj.weight", (rows, columns)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (shape["vocabulary"], width)


def bf16_bytes(values):
    return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()


def write_target(folder, shape, tokenizer_from):
    """A folder as Hugging Face's: norms of ones, matrices of one repeated tile of random numbers."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_from / name, folder / name)
    config = json.loads((tokenizer_from / "config.json").read_text())
    config.update(hidden_size=shape["width"], intermediate_size=shape["intermediate"], num_hidden_layers=shape["layers"],
                  num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"], head_dim=shape["head_dim"],
                  vocab_size=shape["vocabulary"], max_position_embeddings=40960, tie_word_embeddings=False,
                  layer_types=["full_attention"] * shape["layers"])
    (folder / "config.json").write_text(json.dumps(config))
    tile = bf16_bytes(numpy.random.default_rng(0).normal(0, 0.02, 1 << 25))
    header, offset = {}, 0
    for name, dimensions in tensors(shape):
        size = 2 * int(numpy.prod(dimensions))
        header[name] = dict(dtype="BF16", shape=list(dimensions), data_offsets=[offset, offset + size])
        offset += size
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, dimensions in tensors(shape):
            left = 2 * int(numpy.prod(dimensions))
            source = bf16_bytes(numpy.ones(left // 2)) if len(dimensions) == 1 else tile
            while left > 0:
                left -= file.write(source[:left])


def write_documents(path, lengths):
    """Answers of single-token words, so that a document has about the tokens asked for."""
    words, draw = [" the", " of", " and", " to", " in", " that"], random.Random(1)
    with open(path, "w") as file:
        for number, length in enumerate(lengths):
            answer = "".join(draw.choices(words, k=length)).strip()
            messages = [dict(role="user", content="Go on."), dict(role="assistant", content=answer)]
            file.write(json.dumps(dict(id=str(number), messages=messages)) + "\n")


def prepare(a, shape):
    folder = pathlib.Path(a.folder)
    if not (folder / "target").exists():
        write_target(folder / "target", shape, a.tokenizer)
    longest, draw = shape["length"], random.Random(2)
    write_documents(folder / "fixed.jsonl", [longest + 64] * 64)  # cut to the longest
    write_documents(folder / "varied.jsonl", [draw.randint(shape["least"], longest) for _ in range(256)])
    return folder


def configuration(a, shape, case, folder):
    lengths, targets, drafters, _ = CASES[case]
    return dict(target=str(folder / "target"), drafter=shape["drafter"],
                data=dict(train=str(folder / f"{lengths}.jsonl"), max_length=shape["length"]),
                train=dict(shape["train"], steps=a.steps, compute=a.compute, checkpoint=dict(every=0)),
                devices=dict(targets=[f"{a.kind}:{i}" for i in targets], drafters=[f"{a.kind}:{i}" for i in drafters]),
                output=str(folder / "run"))


def median(steps, name):
    return round(statistics.median(step[name] for step in steps), 1)


def run_case(a, shape, case, folder):
    """Runs until the report is there, and not on to the export."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    (folder / "run.yaml").write_text(json.dumps(configuration(a, shape, case, folder)))
    began = time.time()
    line_by_line = ["stdbuf", "-oL"]  # or the export would have been made before its line is seen
    process = subprocess.Popen(line_by_line + [a.draftsmith, "train", str(folder / "run.yaml")] + CASES[case][3] + a.override,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if line.startswith("checkpoint:"):
            process.kill()
    process.wait()
    report_path = folder / "run" / "report.json"
    if not report_path.exists():
        print(json.dumps(dict(case=case, failed=lines[-5:])), flush=True)
        return
    report = json.loads(report_path.read_text())
    steps = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    settled = [step for step in steps if step["kind"] == "step"][a.warm_up:]
    waits = {thread["name"]: {name: round(100 * seconds / thread["total_s"], 2) for name, seconds in thread["waits_s"].items()}
             for thread in report["threads"]}
    print(json.dumps(dict(
        impl="draftsmith", case=case, shape=a.shape, steps=len(settled),
        step_ms=round(1e3 * statistics.median(step["tokens"] / step["tokens_per_second"] for step in settled), 1),
        tokens_per_s=median(settled, "tokens_per_second"), blocks_per_s=median(settled, "blocks_per_second"),
        waits_percent=waits, memory=report["memory"], after_seal=report["after_seal"], balance=report["balance"],
        loss=[settled[0]["loss"], settled[-1]["loss"]], trained_s=round(report["seconds"], 1),
        whole_run_s=round(time.time() - began, 1))), flush=True)
    if a.verbose:
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=sorted(CASES))
    parser.add_argument("--draftsmith", default="build/release/draftsmith")
    parser.add_argument("--folder", required=True, help="for a target of random weights and a run; kept")
    parser.add_argument("--shape", default="qwen3-8b", choices=sorted(SHAPES))
    parser.add_argument("--tokenizer", type=pathlib.Path, default=pathlib.Path("examples/demo/target"))
    parser.add_argument("--kind", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--compute", default="bf16")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=5, help="steps that are not counted")
    parser.add_argument("--override", action="append", default=[], help="further options, name=value")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    chosen = SHAPES[arguments.shape]
    place = prepare(arguments, chosen)
    for one in arguments.cases:
        run_case(arguments, chosen, one, place)
