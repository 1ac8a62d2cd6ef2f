#!/usr/bin/env python3
"""Make the golden files of tests/data: tiny random models, and their logits.

    golden.py -o tests/data            all of them
    golden.py -o tests/data --only gpt2-learned

A case of golden_models.py, golden_spelled.py, golden_families.py, golden_layered.py or
golden_experts.py gives NAME.gguf, an F32 checkpoint, and NAME.logits, what transformers computes
from it. The cases of golden_schemes.py are position schemes, by SPEC, of checkpoints that many of
them share, those of golden_policies.py cache policies, those of golden_places.py coordinates that
the caller gives. Logits are computed in double precision; a file is, in little-endian order:

    int32    magic       0x484C4F4C, the bytes "LOLH"
    int32    n_prompt    tokens of the prompt
    int32    n_tokens    tokens of the whole text, the prompt's first
    int32    n_vocab
    char     model       [64], the checkpoint's name without .gguf, padded with NULs
    char     position    [192], the SPEC to run it with, then " -A " and that of a policy, if it
                         isn't full; empty: its own
    int32    tokens      [n_tokens]
    float32  logits      [n_tokens, n_vocab]; row i follows from tokens 0 .. i
    int32    coordinates [n_tokens, n_axes]; absent: tokens are at their positions

The files depend on the versions of the libraries in the last bits of the logits only.
"""

from __future__ import annotations

import argparse
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import nn

from checkpoint import Tensor, write
from golden_experts import EXPERT_CASES
from golden_families import FAMILY_CASES
from golden_layered import LAYERED_CASES
from golden_models import GENERIC_CASES, N_VOCAB, Case
from golden_places import PLACED_CASES, PLACES, placed_logits
from golden_policies import POLICY_CASES, policy_logits
from golden_schemes import BASES, SCHEME_CASES, decoder_logits, llama_logits
from golden_spelled import SPELLED_CASES
from output import Failure, open_output, run

OF_BASES = SCHEME_CASES | POLICY_CASES | PLACED_CASES
CASES = GENERIC_CASES | SPELLED_CASES | FAMILY_CASES | LAYERED_CASES | EXPERT_CASES
MAGIC = 0x484C4F4C
N_PROMPT, N_DECODED = 24, 20
AGREEMENT = 2e-5  # of decoder.py and transformers, whose frequencies are float32


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


def make_tokens(n_vocab: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, n_vocab, N_PROMPT + N_DECODED, dtype=np.int32)


def write_logits(
    path: Path,
    model: str,
    position: str | None,
    tokens: np.ndarray,
    logits: np.ndarray,
    coordinates: np.ndarray | None = None,
) -> None:
    """tokens int32 [n], logits [n, n_vocab], coordinates [n, n_axes]."""
    name = path.name
    if not np.all(np.isfinite(logits)) or logits.std() < 0.1:
        raise Failure(f"{name}: the logits say nothing (their deviation is {logits.std():g})")
    head = struct.pack(
        "<4i64s192s", MAGIC, N_PROMPT, len(tokens), logits.shape[1], model.encode(),
        (position or "").encode(),
    )  # fmt: skip
    with open_output(path, binary=True) as file:
        file.write(head)
        file.write(tokens.astype("<i4").tobytes())
        file.write(logits.astype("<f4").tobytes())
        if coordinates is not None:
            file.write(coordinates.astype("<i4").tobytes())
    print(f"{name}: logits {logits.min():.3g} .. {logits.max():.3g}, deviation {logits.std():.3g}")


def make(name: str, folder: Path) -> None:
    case = make_case(name)
    tokens = make_tokens(N_VOCAB)
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
    write_logits(folder / f"{name}.logits", name, case.position, tokens, logits)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """max|a - b| / max|b| of the worst row."""
    return float((np.abs(a - b).max(axis=1) / np.abs(b).max(axis=1)).max())


def make_scheme(name: str, folder: Path) -> None:
    case = OF_BASES[name]
    base = BASES[case.base]
    tensors = base.tensors(case.base, randomise)
    parts = [Tensor.of(n, values) for n, values in tensors.items()]
    metadata = {"general.name": case.base, **base.metadata()}
    write(folder / f"{case.base}.gguf", "locus", metadata, parts)
    tokens = make_tokens(base.config.n_vocab)
    text = torch.from_numpy(tokens.astype(np.int64))
    torch.set_default_dtype(torch.float64)
    read = llama_logits if case.rope is not None else decoder_logits
    if case.distance is not None:
        read = policy_logits
    elif case.angles is not None:
        read = placed_logits
    logits = read(case, tensors, text).numpy()
    if case.rope is not None and not case.layers:
        apart = difference(decoder_logits(case, tensors, text).numpy(), logits)
        if apart > AGREEMENT:
            raise Failure(f"{name}: decoder.py and transformers differ by {apart:.2g}")
    torch.set_default_dtype(torch.float32)
    write_logits(
        folder / f"{name}.logits",
        case.base,
        case.position,
        tokens,
        logits,
        PLACES if case.angles else None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="where to write them")
    parser.add_argument(
        "--only", metavar="NAME", choices=(*CASES, *OF_BASES), help="this case alone"
    )
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    args = parser.parse_args()
    if args.list:
        for name, case in CASES.items():
            print(f"{name:24} {' '.join((case.__doc__ or '').split())}")
        for name, scheme in OF_BASES.items():
            print(f"{name:24} {scheme.base}: {scheme.position or 'its own'}")
        return
    if args.output is None:
        parser.error("-o FOLDER is required")
    transformers.logging.set_verbosity_error()
    for name in [args.only] if args.only else (*CASES, *OF_BASES):
        (make if name in CASES else make_scheme)(name, args.output)


if __name__ == "__main__":
    run(main)
