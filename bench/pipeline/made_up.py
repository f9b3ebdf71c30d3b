"""Targets of random weights and documents of single-token words, for benchmarks of whole runs."""
import array
import concurrent.futures
import dataclasses
import json
import math
import os
import random
import shutil
import struct


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    drafter: dict  # options of run.yaml
    train: dict
    longest: int  # of a document, in tokens
    least: int  # where lengths vary
    chat_median: int

    def target(self):
        """What decides the target's weights: shapes that agree in it share one folder."""
        return (f"target-{self.layers}x{self.width}x{self.intermediate}-{self.heads}-{self.kv_heads}-{self.head_dim}"
                f"-{self.vocabulary}")


SMALL = Shape(layers=6, width=128, intermediate=256, heads=4, kv_heads=2, head_dim=32, vocabulary=4200,
              drafter=dict(layers=2, block_size=8, mask_token_id=4150), longest=256, least=64, chat_median=128,
              train=dict(context_tokens=512, blocks=64, anchors_per_document=16))
SHAPES = {
    "qwen3-8b": Shape(layers=36, width=4096, intermediate=12288, heads=32, kv_heads=8, head_dim=128, vocabulary=151936,
                      drafter=dict(layers=5, block_size=16, mask_token_id=151669), longest=3072, least=704, chat_median=600,
                      train=dict(context_tokens=12288, blocks=2048, anchors_per_document=512)),
    "small": SMALL,
    "small-long": dataclasses.replace(SMALL, longest=3072, least=64, chat_median=600,
                                      train=dict(context_tokens=3072, blocks=64, anchors_per_document=16)),
}
WORDS = [" the", " of", " and", " to", " in", " that"]  # a token each, in the demo's tokenizer
CHAT_SPREAD = 0.8  # standard deviation of the logarithm of a length: a tenth is longer than 2.8 medians


def tensors(shape):
    """Name and dimensions of every weight of a dense Qwen3."""
    width, query, kv = shape.width, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "model.embed_tokens.weight", (shape.vocabulary, width)
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (width,)
        yield at + "post_attention_layernorm.weight", (width,)
        for name, rows, columns in (("q", query, width), ("k", kv, width), ("v", kv, width), ("o", width, query)):
            yield at + f"self_attn.{name}_proj.weight", (rows, columns)
        for name in ("q", "k"):
            yield at + f"self_attn.{name}_norm.weight", (shape.head_dim,)
        for name, rows, columns in (("gate", shape.intermediate, width), ("up", shape.intermediate, width),
                                    ("down", width, shape.intermediate)):
            yield at + f"mlp.{name}_proj.weight", (rows, columns)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (shape.vocabulary, width)


def bf16(values):
    """The upper half of each float's bytes, on a little-endian machine."""
    floats = array.array("f", values).tobytes()
    halves = bytearray(len(floats) // 2)
    halves[0::2], halves[1::2] = floats[2::4], floats[3::4]
    return bytes(halves)


def random_tile():
    """64 MiB of normal numbers of deviation 0.02: a million of them, again and again from another, odd place."""
    draw = random.Random(0)
    numbers = bf16(draw.gauss(0, 0.02) for _ in range(1 << 20))
    places = [2 * (2 * draw.randrange(1 << 19) + 1) for _ in range(32)]
    return memoryview(b"".join(numbers[place:] + numbers[:place] for place in places))


def write_weights(path, shape):
    """Norms of ones; matrices of one tile of random numbers, each piece from another, odd place in it. Threads write the
    pieces: in memory's file system, a thread alone is slower than all of them by far."""
    header, size = {}, 0
    for name, dimensions in tensors(shape):
        bytes_ = 2 * math.prod(dimensions)
        header[name] = dict(dtype="BF16", shape=list(dimensions), data_offsets=[size, size + bytes_])
        size += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    begin = 8 + len(text)
    tile = random_tile()
    ones = memoryview(bf16([1.0] * max(shape.width, shape.head_dim)))
    draw = random.Random(0)

    def write(at, piece):
        while piece:
            written = os.pwrite(file, piece, at)
            at, piece = at + written, piece[written:]

    def write_piece(at, length, place):
        first = tile[place:place + length]
        write(at, first)
        write(at + len(first), tile[:length - len(first)])

    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.ftruncate(file, begin + size)
        write(0, struct.pack("<Q", len(text)) + text)
        with concurrent.futures.ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads:
            jobs = []
            for tensor in header.values():
                at, end = tensor["data_offsets"]
                if len(tensor["shape"]) == 1:
                    jobs.append(threads.submit(write, begin + at, ones[:end - at]))
                    continue
                while at < end:
                    length = min(len(tile), end - at)
                    place = 2 * (2 * draw.randrange(len(tile) // 4) + 1)
                    jobs.append(threads.submit(write_piece, begin + at, length, place))
                    at += length
            for job in jobs:
                job.result()
    finally:
        os.close(file)


def write_target(folder, shape, tokenizer_from):
    """A folder as Hugging Face's; nothing when it is there."""
    if folder.exists():
        return
    aside = folder.with_name(folder.name + ".part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_from / name, aside / name)
    config = json.loads((tokenizer_from / "config.json").read_text())
    config.update(hidden_size=shape.width, intermediate_size=shape.intermediate, num_hidden_layers=shape.layers,
                  num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim,
                  vocab_size=shape.vocabulary, max_position_embeddings=40960, tie_word_embeddings=False,
                  layer_types=["full_attention"] * shape.layers)
    (aside / "config.json").write_text(json.dumps(config))
    write_weights(aside / "model.safetensors", shape)
    aside.rename(folder)


def lengths_of(kind, shape):
    """How long the documents of a file are, in tokens."""
    draw = random.Random(2)
    if kind == "fixed":
        return [shape.longest + 64] * 64  # cut to the longest
    if kind == "varied":
        return [draw.randint(shape.least, shape.longest) for _ in range(256)]
    assert kind == "chat"
    drawn = (round(draw.lognormvariate(math.log(shape.chat_median), CHAT_SPREAD)) for _ in range(1024))
    return [min(max(length, 64), shape.longest) for length in drawn]


def write_documents(path, lengths):
    draw = random.Random(1)
    with open(path, "w") as file:
        for number, length in enumerate(lengths):
            answer = "".join(draw.choices(WORDS, k=length)).strip()
            messages = [dict(role="user", content="Go on."), dict(role="assistant", content=answer)]
            file.write(json.dumps(dict(id=str(number), messages=messages)) + "\n")
