"""Texts for training: documents, and windows of their tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vocabulary import END_OF_TEXT

END_OF_TEXT_LINE = re.compile(rf"^[ \t]*{re.escape(END_OF_TEXT)}[ \t]*$", re.MULTILINE)


def read_text(path: Path) -> str:
    """A text byte for byte; ValueError where it isn't UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from None


def read_documents(paths: list[Path]) -> list[str]:
    """The documents of `paths` in order, stripped, without empty ones and duplicates. Lines that
    read `<|endoftext|>` part them."""
    seen: dict[str, None] = {}
    for path in paths:
        text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")
        for part in END_OF_TEXT_LINE.split(text):
            if document := part.strip():
                seen.setdefault(document)
    return list(seen)


@dataclass(frozen=True)
class Windows:
    """Training windows of n_context + 1 tokens. An epoch cuts the stream at a random phase and
    visits the pieces in a random order; both follow from (seed, epoch) alone."""

    stream: np.ndarray
    n_context: int
    seed: int

    @property
    def per_epoch(self) -> int:
        return (len(self.stream) - 1 - (self.n_context - 1)) // self.n_context

    def starts(self, epoch: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, epoch])
        phase = rng.integers(self.n_context)
        return phase + self.n_context * rng.permutation(self.per_epoch)

    def batch(self, step: int, n_batch: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a step, int64 [n_batch, n_context]."""
        numbers = np.arange(step * n_batch, (step + 1) * n_batch)
        epochs, places = numbers // self.per_epoch, numbers % self.per_epoch
        orders = {int(e): self.starts(int(e)) for e in np.unique(epochs)}
        rows = np.stack(
            [
                self.stream[s : s + self.n_context + 1]
                for e, p in zip(epochs, places, strict=True)
                for s in (orders[int(e)][p],)
            ]
        )
        tokens = torch.from_numpy(rows.astype(np.int64))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
