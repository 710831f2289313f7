#!/usr/bin/env python3
"""Writes matrix_layouts.json from AMD's Matrix Instruction Calculator.

    tests/matrix_layouts.py <checkout of ROCm/amd_matrix_instruction_calculator> > tests/matrix_layouts.json

For each instruction that the kernels use: which element [row, column] of A, B and D every lane's
registers hold, 16-bit elements in order. Instructions with the same layouts share an entry.
"""

import json
import re
import subprocess
import sys

INSTRUCTIONS = [
    ("cdna2", "v_mfma_f32_32x32x8f16"),
    ("cdna2", "v_mfma_f32_32x32x8bf16_1k"),
    ("cdna3", "v_mfma_f32_32x32x8_f16"),
    ("cdna3", "v_mfma_f32_32x32x8_bf16"),
    ("cdna2", "v_mfma_f32_16x16x16f16"),
    ("cdna2", "v_mfma_f32_16x16x16bf16_1k"),
    ("cdna3", "v_mfma_f32_16x16x16_f16"),
    ("cdna3", "v_mfma_f32_16x16x16_bf16"),
    ("rdna3", "v_wmma_f32_16x16x16_f16"),
    ("rdna3", "v_wmma_f32_16x16x16_bf16"),
    ("rdna4", "v_wmma_f32_16x16x16_f16"),
    ("rdna4", "v_wmma_f32_16x16x16_bf16"),
]


def run(calculator, *arguments):
    command = [sys.executable, f"{calculator}/matrix_calculator.py", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def layout(calculator, arch, instruction, matrix):
    """[lane][element] -> [row, column]"""
    text = run(calculator, "-a", arch, "-i", instruction, "-M", f"-{matrix}", "--csv")
    lanes = [line for line in text.splitlines() if re.match(r"\d+,", line)]
    return [[[int(n) for n in entry] for entry in re.findall(r"\[(\d+)\]\[(\d+)\]", line)] for line in lanes]


def main():
    calculator = sys.argv[1]
    commit = subprocess.run(["git", "-C", calculator, "rev-parse", "HEAD"], check=True,
                            capture_output=True, text=True).stdout.strip()
    entries = []
    for arch, instruction in INSTRUCTIONS:
        maps = {matrix: layout(calculator, arch, instruction, matrix) for matrix in "ABD"}
        name = f"{arch} {instruction}"
        same = next((entry for entry in entries if all(entry[m] == maps[m] for m in "ABD")), None)
        if same:
            same["instructions"].append(name)
        else:
            entries.append({"instructions": [name], **maps})
    origin = {
        "tool": run(calculator, "--version").strip(),
        "repository": "https://github.com/ROCm/amd_matrix_instruction_calculator",
        "commit": commit,
        "written_by": "tests/matrix_layouts.py",
    }
    print(json.dumps({"origin": origin, "layouts": entries}, separators=(",", ":")).replace("]],[[", "]],\n[["))


if __name__ == "__main__":
    main()
