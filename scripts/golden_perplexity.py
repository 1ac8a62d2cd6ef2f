#!/usr/bin/env python3
"""Make the golden files of perplexity: a tiny random model, a text, and what PyTorch finds.

    golden_perplexity.py -o tests/data

perplexity.gguf is a byte-level decoder of decoder.py, perplexity.txt the text, and perplexity.csv a
line for each of CASES: the protocol, L, S (0: none), the SPEC that --position has ("": the model's
own), whether begin-of-text goes over a window's first token, the tokens that count and their mean
loss in nats, from a forward pass in double precision for every window.

divergence.csv has a line for each of PAIRS, what the model under one SPEC makes of the text against
what it makes of it under another: the protocol, L, S, both SPECs, the tokens that count, the mean
loss under the reference, the mean, median, 99 % quantile and maximum of the Kullback-Leibler
divergence, and the share of tokens whose likeliest token is the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from decoder import Decoder, DecoderConfig, read_gguf, write_gguf
from output import run, write_text
from vocabulary import Bytes

TEXT = """The keeper of the lamp counted the ships that went by: seven before noon, and then none.
She wrote each name in a long grey book, with the hour and the wind.

"Where do they go?" asked the boy, who had come up with the bread.
"Past the trained length," she said, and turned the page.

When the fog came she rang the bell, once for every mile, until the last of the ships had answered.
After that it was quiet, and the two of them ate, and the light went round and round above them.
"""

CONFIG = DecoderConfig(
    n_vocab=257, n_embd=32, n_layer=2, n_head=4, n_head_kv=2, head_dim=8, n_ff=48, n_context=32,
    position="rope:pairs=half,dim=8,base=1000",
)  # fmt: skip

Window = tuple[int, int, int]  # first token fed, tokens fed, first row that counts


@dataclass(frozen=True)
class Case:
    protocol: str
    length: int
    stride: int = 0
    position: str = ""
    over: bool = False


CASES = (
    Case("windows", 16),
    Case("windows", 32),
    Case("windows", 100),
    Case("windows", 1000),
    Case("sliding", 32, 8),
    Case("sliding", 48, 32),
    Case("half", 32),
    Case("half", 33),
    Case("half", 32, over=True),
    Case("windows", 64, position="none"),
    Case("windows", 64, position="alibi"),
    Case("windows", 64, position="rope:scaling=linear,factor=2"),
    Case("windows", 64, position="rope:scaling=dynamic,factor=2"),
    Case("sliding", 128, 64, position="rope:scaling=yarn,factor=4"),
)

# A case, and the SPEC of its reference.
PAIRS = (
    (Case("windows", 32), "rope:base=1100"),
    (Case("windows", 100), "alibi"),
    (Case("sliding", 48, 32, position="none"), ""),
    (Case("half", 32, position="rope:scaling=linear,factor=2"), ""),
)


def windows(case: Case, n_tokens: int) -> Iterator[Window]:
    length = case.length
    if case.protocol == "half":  # as llama.cpp's perplexity
        for first in range(0, n_tokens - length + 1, length):
            yield first, length - 1, length // 2
        return
    scored = 0
    for first in range(0, n_tokens - 1, case.stride or length):
        end = min(first + length, n_tokens - 1)
        yield first, end - first, scored - first
        scored = end
        if end == n_tokens - 1:
            return


@torch.no_grad()
def predict(case: Case, path: Path, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """ln of the share of every token, a row a prediction that counts, and the tokens there."""
    model, tokenizer = read_gguf(path, case.position or None)
    model.eval()
    model.position.at_length(case.length)
    rows, targets = [], []
    for first, n, start in windows(case, len(tokens)):
        fed = tokens[first : first + n].clone()
        if case.over:
            fed[0] = tokenizer.end_of_text
        rows.append(model(fed[None])[0, start:].log_softmax(-1))
        targets.append(tokens[first + start + 1 : first + n + 1])
    return torch.cat(rows), torch.cat(targets)


def loss_line(case: Case, path: Path, tokens: torch.Tensor) -> str:
    rows, targets = predict(case, path, tokens)
    return (
        f'{case.protocol},{case.length},{case.stride},"{case.position}",{int(case.over)},'
        f"{len(targets)},{F.nll_loss(rows, targets).item():.9f}"
    )


def divergence_line(case: Case, reference: str, path: Path, tokens: torch.Tensor) -> str:
    rows, targets = predict(case, path, tokens)
    theirs, _ = predict(replace(case, position=reference), path, tokens)
    kl = F.kl_div(rows, theirs, reduction="none", log_target=True).sum(-1)
    same = (rows.argmax(-1) == theirs.argmax(-1)).double()
    numbers = (
        F.nll_loss(theirs, targets), kl.mean(), kl.quantile(0.5), kl.quantile(0.99), kl.max(),
        same.mean(),
    )  # fmt: skip
    return (
        f'{case.protocol},{case.length},{case.stride},"{case.position}","{reference}",'
        f"{len(targets)}," + ",".join(f"{number.item():.9g}" for number in numbers)
    )


def make(folder: Path) -> None:
    torch.manual_seed(1)
    model, tokenizer = Decoder(CONFIG), Bytes()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data.mul_(12)  # so that attention is sharp and every position matters
    path = folder / "perplexity.gguf"
    write_gguf(path, model, tokenizer, "perplexity", "f32")
    write_text(folder / "perplexity.txt", TEXT)
    torch.set_default_dtype(torch.float64)
    tokens = torch.tensor(tokenizer.encode(TEXT))
    lines = ["protocol,length,stride,position,over,tokens,nll"]
    lines += [loss_line(case, path, tokens) for case in CASES]
    write_text(folder / "perplexity.csv", "\n".join(lines) + "\n")
    lines = ["protocol,length,stride,position,reference,tokens,nll,mean,median,99,max,same_top"]
    lines += [divergence_line(case, reference, path, tokens) for case, reference in PAIRS]
    write_text(folder / "divergence.csv", "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="where to write them"
    )
    make(parser.parse_args().output)


if __name__ == "__main__":
    run(main)
