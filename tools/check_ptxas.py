#!/usr/bin/env python3
"""Compiles CUDA sources for Hopper and fails when ptxas spills registers, uses a stack frame or serialises wgmma.

    check_ptxas.py NVCC SOURCE.cu ...
"""
import re
import subprocess
import sys
import tempfile

WARNING = re.compile(r"\(C75\d\d\)")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def problems(nvcc, source):
    with tempfile.NamedTemporaryFile(suffix=".o") as out:
        command = [nvcc, "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-gencode", "arch=compute_90a,code=sm_90a",
                   "-Isrc", "-Xptxas", "-v", "-c", source, "-o", out.name]
        result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        return [f"{source} does not compile:\n{result.stderr}"]
    found, function = [], ""
    for line in result.stderr.splitlines():
        if "Function properties for" in line:
            function = line.split()[-1]
        match = STACK.search(line)
        if WARNING.search(line):
            found.append(f"{source}: {line.strip()}")
        elif match and any(int(count) for count in match.groups()):
            found.append(f"{source}: {function}: {line.strip()}")
    return found


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    all_problems = [problem for source in sys.argv[2:] for problem in problems(sys.argv[1], source)]
    print("\n".join(all_problems) or "no spill, no stack frame, no serialised product")
    sys.exit(bool(all_problems))
