#!/usr/bin/env python3
"""Make the golden file of quantised weights: what the package gguf reads from blocks of any bytes.

    golden_blocks.py -o tests/data [--blocks N]

weight_types.csv has a line for each type: its name, N, and the SHA-256 of the values, as float32,
of N blocks. Their bytes are those of splitmix64's outputs, little-endian, for the state 0; a value
that is no number is written as 0x7FC00000. With another N the line is the same claim about more
blocks, which LOCUS_TEST_BLOCKS=FILE has tests/test_weight_types.c check.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import gguf
import numpy as np

from output import run

TYPES = (
    "Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1", "IQ4_NL", "MXFP4",
    "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K",
)  # fmt: skip
AT_ONCE = 1 << 14  # blocks


def random_bytes(first: int, n: int) -> np.ndarray:
    """n bytes, from byte `first` (a multiple of 8) of all outputs on."""
    index = np.arange(first // 8 + 1, (first + n + 7) // 8 + 1, dtype=np.uint64)
    x = index * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return (x ^ x >> np.uint64(31)).astype("<u8").view(np.uint8)[:n]


def digest(name: str, n_blocks: int) -> str:
    """The SHA-256 of the values of that many blocks."""
    kind = gguf.GGMLQuantizationType[name]
    n_bytes = gguf.GGML_QUANT_SIZES[kind][1]
    values = hashlib.sha256()
    for first in range(0, n_blocks, AT_ONCE):
        n = min(AT_ONCE, n_blocks - first)
        stored = random_bytes(first * n_bytes, n * n_bytes).reshape(n, n_bytes)
        with np.errstate(all="ignore"):
            floats = gguf.quants.dequantize(stored, kind).astype("<f4")
        floats[np.isnan(floats)] = np.nan
        values.update(floats.tobytes())
    return values.hexdigest()


def write(folder: Path, n_blocks: int) -> None:
    lines = ["type,blocks,sha256"]
    lines += [f"{name},{n_blocks},{digest(name, n_blocks)}" for name in TYPES]
    (folder / "weight_types.csv").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write into")
    parser.add_argument("--blocks", type=int, default=10000, help="of each type (default 10000)")
    options = parser.parse_args()
    write(options.output, options.blocks)


if __name__ == "__main__":
    run(main)
