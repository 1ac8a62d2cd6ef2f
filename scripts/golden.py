#!/usr/bin/env python3
"""Make the golden files of tests/data: tiny random models of transformers, and their logits.

    golden.py -o tests/data            all of them
    golden.py -o tests/data --only gpt2-learned

Each case gives NAME.gguf, an F32 checkpoint, and NAME.logits, what transformers computes from it
in double precision, in little-endian order:

    int32    magic       0x474C4F4C, the bytes "LOLG"
    int32    n_prompt    tokens of the prompt
    int32    n_tokens    tokens of the whole text, the prompt's first
    int32    n_vocab
    int32    tokens      [n_tokens]
    float32  logits      [n_tokens, n_vocab]; row i follows from tokens 0 .. i

The files depend on the versions of the libraries in the last bits of the logits only.
"""

from __future__ import annotations

import argparse
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import nn

from checkpoint import Failure, run, write
from golden_models import CASES, N_VOCAB, Case

MAGIC = 0x474C4F4C
N_PROMPT, N_DECODED = 24, 20


def randomise(model: nn.Module, rng: np.random.Generator) -> None:
    """Weights so large that logits spread, attention is sharp and every position matters."""
    for name, parameter in model.named_parameters():
        values = rng.standard_normal(parameter.shape)
        if parameter.dim() == 1:
            values = 1 + 0.2 * values if name.endswith("weight") else 0.1 * values
        else:
            values *= 0.2
        parameter.data = torch.from_numpy(values.astype(np.float32))


def make_case(name: str) -> Case:
    torch.manual_seed(0)
    case = CASES[name]()
    seed = "llama" if name.startswith("llama") else name  # the llamas share their weights
    randomise(case.model, np.random.default_rng(zlib.crc32(seed.encode())))
    case.model.eval()
    return case


def write_logits(path: Path, tokens: np.ndarray, logits: np.ndarray) -> None:
    """tokens int32 [n], logits float32 [n, n_vocab]."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(struct.pack("<4i", MAGIC, N_PROMPT, len(tokens), logits.shape[1]))
            file.write(tokens.astype("<i4").tobytes())
            file.write(logits.astype("<f4").tobytes())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def make(name: str, folder: Path) -> None:
    case = make_case(name)
    tokens = np.random.default_rng(1).integers(0, N_VOCAB, N_PROMPT + N_DECODED, dtype=np.int32)
    # The checkpoint is written first: the model is then widened where it stands.
    write(
        folder / f"{name}.gguf",
        case.architecture,
        {"general.name": name, **case.metadata},
        case.tensors(),
    )
    case.model.double()
    torch.set_default_dtype(torch.float64)  # for the constants that forward passes make
    with torch.no_grad():
        logits = case.logits(torch.from_numpy(tokens.astype(np.int64))[None])[0].numpy()
    torch.set_default_dtype(torch.float32)
    if not np.all(np.isfinite(logits)) or logits.std() < 0.1:
        raise Failure(f"{name}: the logits say nothing (their deviation is {logits.std():g})")
    write_logits(folder / f"{name}.logits", tokens, logits)
    print(f"{name}: logits {logits.min():.3g} .. {logits.max():.3g}, deviation {logits.std():.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="where to write them")
    parser.add_argument("--only", metavar="NAME", choices=tuple(CASES), help="this case alone")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    args = parser.parse_args()
    if args.list:
        for name, case in CASES.items():
            print(f"{name:18} {' '.join((case.__doc__ or '').split())}")
        return
    if args.output is None:
        parser.error("-o FOLDER is required")
    transformers.logging.set_verbosity_error()
    for name in [args.only] if args.only else CASES:
        make(name, args.output)


if __name__ == "__main__":
    run(main)
