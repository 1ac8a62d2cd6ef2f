#!/usr/bin/env python3
"""Make the golden files of perplexity: a tiny random model, a text, and what PyTorch finds.

    golden_perplexity.py -o tests/data
    golden_perplexity.py --strided models/tales-rope.gguf models/evaluation.txt 256 128

perplexity.gguf is a byte-level decoder of decoder.py, perplexity.txt the text, and perplexity.csv a
line for each of CASES: the protocol, L, S (0: none), the SPEC that --position has ("": the model's
own), where begin-of-text goes (none, first, every), whether the first window is the only one, the
tokens that count and their mean loss in nats, from a forward pass in double precision for every
window. `sliding` is the recipe of transformers' page "Perplexity of fixed-length models", followed
step by step in `strided`.

divergence.csv has a line for each of PAIRS, what the model under one SPEC makes of the text against
what it makes of it under another: the protocol, L, S, both SPECs, the tokens that count, the mean
loss under the reference, the mean, median, 99 % quantile and maximum of the Kullback-Leibler
divergence, and the share of tokens whose likeliest token is the same.

--strided prints what the recipe finds for a model that decoder.py reads, on a text, with windows of
L tokens that step by S: the mean loss with every prediction counted once, as `locus perplexity
--protocol sliding` has it, and with the weights of the page's code.
"""

from __future__ import annotations

import argparse
import math
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
    begin: str = "none"
    first: bool = False


CASES = (
    Case("windows", 16),
    Case("windows", 32),
    Case("windows", 100),
    Case("windows", 1000),
    Case("sliding", 32, 8),
    Case("sliding", 48, 32),
    Case("sliding", 16, 16),  # of 482 tokens the last window has 2,
    Case("sliding", 37, 37),  # and here 1, that nothing predicts
    Case("sliding", 47, 1),
    Case("sliding", 100, 99),
    Case("sliding", 482, 100),
    Case("sliding", 1000, 256),
    Case("half", 32),
    Case("half", 33),
    Case("half", 32, begin="every"),
    Case("windows", 32, begin="first"),
    Case("windows", 32, begin="every"),
    Case("sliding", 32, 8, begin="first"),
    Case("sliding", 32, 8, begin="every"),
    Case("sliding", 32, 32, begin="every"),
    Case("windows", 64, first=True),
    Case("windows", 64, begin="every", first=True),
    Case("half", 64, first=True),
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


IGNORED = -100  # a label that no loss is taken of


def strided(tokens: torch.Tensor, length: int, stride: int) -> Iterator[tuple[int, torch.Tensor]]:
    """The windows of the recipe: where each begins, and its labels, IGNORED or the token itself,
    which the logits one place before it are to predict."""
    n_tokens, previous_end = len(tokens), 0
    for begin in range(0, n_tokens, stride):
        end = min(begin + length, n_tokens)
        n_targets = end - previous_end
        labels = tokens[begin:end].clone()
        labels[:-n_targets] = IGNORED
        yield begin, labels
        previous_end = end
        if end == n_tokens:
            return


def windows(case: Case, tokens: torch.Tensor) -> Iterator[Window]:
    length, n_tokens = case.length, len(tokens)
    if case.protocol == "half":  # as llama.cpp's perplexity
        for first in range(0, n_tokens - length + 1, length):
            yield first, length - 1, length // 2
    elif case.protocol == "windows":
        for first in range(0, n_tokens - 1, length):
            yield first, min(length, n_tokens - 1 - first), 0
    else:
        for first, labels in strided(tokens, length, case.stride):
            counted = (labels[1:] != IGNORED).nonzero()
            if len(counted) > 0:
                yield first, len(labels) - 1, int(counted[0])


@torch.no_grad()
def predict(case: Case, path: Path, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """ln of the share of every token, a row a prediction that counts, and the tokens there."""
    model, tokenizer = read_gguf(path, case.position or None)
    model.eval()
    model.position.at_length(case.length)
    rows, targets = [], []
    if case.begin != "none":
        tokens = torch.cat([torch.tensor([tokenizer.end_of_text]), tokens])
    for first, n, start in windows(case, tokens):
        if case.first and first > 0:
            break
        fed = tokens[first : first + n].clone()
        if case.begin == "every":
            fed[0] = tokenizer.end_of_text
        rows.append(model(fed[None])[0, start:].log_softmax(-1))
        targets.append(tokens[first + start + 1 : first + n + 1])
    return torch.cat(rows), torch.cat(targets)


def loss_line(case: Case, path: Path, tokens: torch.Tensor) -> str:
    rows, targets = predict(case, path, tokens)
    return (
        f'{case.protocol},{case.length},{case.stride},"{case.position}",{case.begin},'
        f"{int(case.first)},{len(targets)},{F.nll_loss(rows, targets).item():.9f}"
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
    lines = ["protocol,length,stride,position,begin,first,tokens,nll"]
    lines += [loss_line(case, path, tokens) for case in CASES]
    write_text(folder / "perplexity.csv", "\n".join(lines) + "\n")
    lines = ["protocol,length,stride,position,reference,tokens,nll,mean,median,99,max,same_top"]
    lines += [divergence_line(case, reference, path, tokens) for case, reference in PAIRS]
    write_text(folder / "divergence.csv", "\n".join(lines) + "\n")


@torch.no_grad()
def show_strided(path: Path, text: Path, length: int, stride: int) -> None:
    model, tokenizer = read_gguf(path)
    tokens = torch.tensor(tokenizer.encode(text.read_text(encoding="utf-8")))
    model.eval()
    model.position.at_length(length)
    sums, counts, weights = [], [], []
    for begin, labels in strided(tokens, length, stride):
        logits = model(tokens[begin : begin + len(labels)][None])[0, :-1].double()
        loss = F.cross_entropy(logits, labels[1:], ignore_index=IGNORED, reduction="sum")
        sums.append(loss.item())
        counts.append(int((labels[1:] != IGNORED).sum()))
        weights.append(int((labels != IGNORED).sum()) - 1)
    total = sum(counts)
    once = sum(sums) / total
    means = [loss / max(n, 1) for loss, n in zip(sums, counts, strict=True)]
    theirs = sum(w * mean for w, mean in zip(weights, means, strict=True)) / sum(weights)
    print(f"{len(sums)} windows of {length} by {stride}: {total} of {len(tokens)} tokens count")
    print(f"each once:       nll {once:.7f}, perplexity {math.exp(once):.5f}")
    print(f"the page's code: nll {theirs:.7f}, perplexity {math.exp(theirs):.5f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="where to write the golden files"
    )
    parser.add_argument(
        "--strided", nargs=4, metavar=("MODEL", "TEXT", "L", "S"), help="print the recipe's figures"
    )
    given = parser.parse_args()
    if given.strided:
        model, text, length, stride = given.strided
        show_strided(Path(model), Path(text), int(length), int(stride))
    elif given.output:
        make(given.output)
    else:
        parser.error("expected --output or --strided")


if __name__ == "__main__":
    run(main)
