#!/usr/bin/env python3
"""Fails when a source file includes upwards or sideways, names CUDA outside a cuda/ folder, or pulls a heavy library
into a header (they cost seconds a file). Usage: check_floors.py [SRC]"""
import pathlib
import re
import sys

FLOORS = ["base", "device", "tensor", "kernels data fabric metrics", "model", "generate", "train", "app"]
HEIGHT = {folder: height for height, floor in enumerate(FLOORS) for folder in floor.split()}
OURS = re.compile(r'^\s*#\s*include\s*"([a-z_]+)/', re.MULTILINE)
CUDA = re.compile(r"^\s*#\s*include\s*<(cuda|cublas|nccl|driver_types)", re.MULTILINE)
HEAVY = re.compile(r"^\s*#\s*include\s*<(fmt|nlohmann|yaml-cpp|CLI|dnnl|oneapi|spdlog)", re.MULTILINE)


def violations(root):
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        text = path.read_text()
        folders = path.relative_to(root).parts[:-1]
        here = folders[0] if folders else "(root)"
        for there in OURS.findall(text):
            if here not in HEIGHT or there not in HEIGHT:
                yield f"{path}: no floor is set for '{here}' or '{there}'"
            elif there != here and HEIGHT[there] >= HEIGHT[here]:
                yield f"{path}: {here} (floor {HEIGHT[here]}) includes {there} (floor {HEIGHT[there]})"
        if "cuda" not in folders and CUDA.search(text):
            yield f"{path}: CUDA headers belong below a cuda/ folder"
        if path.suffix in {".h", ".cuh"} and HEAVY.search(text):
            yield f"{path}: {HEAVY.search(text).group(1)} belongs in a .cpp file"


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src")))
    print("\n".join(found) or "floors hold")
    sys.exit(bool(found))
