"""Character-level tasks with one right answer, made at random from a seed.

A text is an end-of-text token, a prompt, an answer and a line feed. A token is a byte
(tokenizer.ggml.model `bytes`, the end of text is 256). What must be predicted is the answer with
its line feed; a trial is right if greedy decoding after the prompt gives exactly these.

    task      prompt and answer                 length
    copy      copy:abcab=abcab                  letters, here 5
    reverse   reverse:abcab=bacba               letters
    addition  add:123+989=2111                  digits of each summand, here 3
    passkey   see below                         tokens of the whole text

Letters are a-z, each drawn alone. Summands have exactly `length` digits, the first not 0 unless it
is the only one; the sum is written from its last digit to its first, without padding (123 + 989 is
1112). A passkey text of `length` tokens, at a depth from 0 to 1, is

    INTRODUCTION, the first `before` bytes of FILLER repeated, KEY, the `after` bytes of FILLER
    that follow those, QUESTION, five digits, line feed

where KEY holds the same five digits, each drawn alone, before + after is what `length` leaves, and
before = floor(depth (before + after) + 1/2). The shortest passkey text has no filler.

Training draws the length evenly from 1 (passkey: the shortest) to the trained length, and the depth
evenly from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vocabulary import Bytes

LETTERS = "abcdefghijklmnopqrstuvwxyz"
INTRODUCTION = "There is an important info hidden inside a lot of irrelevant text. "
FILLER = (
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. "
)
KEY = "The pass key is {}. Remember it. "
QUESTION = "What is the pass key? The pass key is "
N_KEY = 5
PASSKEY_BARE = 1 + len(INTRODUCTION + KEY.format("0" * N_KEY) + QUESTION) + N_KEY + 1
IGNORED = -100  # a target that has no part in the loss
UNSEEN = 1_000_000  # added to a seed: examples that training on the seed doesn't make

Random = np.random.Generator
Example = tuple[str, str]  # prompt, answer without the line feed


def letters(rng: Random, length: int) -> str:
    return "".join(LETTERS[i] for i in rng.integers(len(LETTERS), size=length))


def digits(rng: Random, length: int) -> str:
    return "".join(str(i) for i in rng.integers(10, size=length))


def copy(rng: Random, length: int, _depth: float) -> Example:
    text = letters(rng, length)
    return f"copy:{text}=", text


def reverse(rng: Random, length: int, _depth: float) -> Example:
    text = letters(rng, length)
    return f"reverse:{text}=", text[::-1]


def addition(rng: Random, length: int, _depth: float) -> Example:
    def summand() -> str:
        first = rng.integers(0 if length == 1 else 1, 10)
        return str(first) + digits(rng, length - 1)

    a, b = summand(), summand()
    return f"add:{a}+{b}=", str(int(a) + int(b))[::-1]


def passkey(rng: Random, length: int, depth: float) -> Example:
    filler = length - PASSKEY_BARE
    if filler < 0:
        raise ValueError(f"passkey: {length} tokens, at least {PASSKEY_BARE} are needed")
    before = math.floor(depth * filler + 0.5)
    text = FILLER * (filler // len(FILLER) + 1)
    key = digits(rng, N_KEY)
    parts = (INTRODUCTION, text[:before], KEY.format(key), text[before:filler], QUESTION)
    return "".join(parts), key


@dataclass(frozen=True)
class Task:
    """`longest(length)`: the most tokens that a text of that length has."""

    make: Callable[[Random, int, float], Example]
    shortest: int
    trained: int
    longest: Callable[[int], int]


TASKS = {
    "copy": Task(copy, 1, 20, lambda n: len("?copy:=?") + 2 * n),
    "reverse": Task(reverse, 1, 20, lambda n: len("?reverse:=?") + 2 * n),
    "addition": Task(addition, 1, 8, lambda n: len("?add:+=?") + 3 * n + 1),
    "passkey": Task(passkey, PASSKEY_BARE, 256, lambda n: n),
}


@dataclass(frozen=True)
class TaskBatches:
    """Batches of fresh examples; a step's follow from (seed, step) alone."""

    task: Task
    length: int
    seed: int

    def batch(self, step: int, n_batch: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets, int64 [n_batch, longest - 1], padded on the right; only answers and
        their line feeds are targets."""
        rng = np.random.default_rng([self.seed, step])
        tokenizer, rows = Bytes(), []
        for length in rng.integers(self.task.shortest, self.length + 1, size=n_batch):
            prompt, answer = self.task.make(rng, int(length), rng.random())
            text = [tokenizer.end_of_text, *tokenizer.encode(prompt + answer + "\n")]
            rows.append((text, len(text) - len(answer) - 1))
        columns = self.task.longest(self.length) - 1
        inputs = torch.zeros(n_batch, columns, dtype=torch.int64)
        targets = torch.full((n_batch, columns), IGNORED)
        for i, (text, start) in enumerate(rows):
            row = torch.tensor(text)
            inputs[i, : len(text) - 1] = row[:-1]
            targets[i, start - 1 : len(text) - 1] = row[start:]
        return inputs, targets


@torch.no_grad()
def exact_match(
    model: Callable[[Tensor], Tensor], task: Task, length: int, *, trials: int, seed: int,
    device: torch.device, depth: float | None = None,
) -> float:  # fmt: skip
    """The share of `trials` texts of `length` that greedy decoding answers exactly. As every
    token is compared, feeding the right answer finds the same: a first error ends the trial."""
    rng = np.random.default_rng([seed, length])
    tokenizer, right = Bytes(), 0
    for _ in range(trials):
        where = rng.random() if depth is None else depth
        prompt, answer = task.make(rng, length, where)
        text = [tokenizer.end_of_text, *tokenizer.encode(prompt + answer + "\n")]
        row = torch.tensor([text], device=device)
        n_answer = len(answer) + 1
        chosen = model(row[:, :-1])[0, -n_answer:].argmax(-1)
        right += int(torch.equal(chosen, row[0, -n_answer:]))
    return right / trials
