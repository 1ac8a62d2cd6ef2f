"""What a training run leaves on the way: a state to resume from, and a log of losses."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import torch

from decoder import Decoder, DecoderConfig
from vocabulary import ByteBpe, Bytes, tokenizer_from_json

LOG_COLUMNS = (
    "step",
    "tokens",
    "seconds",
    "learning_rate",
    "train_loss",
    "heldout_loss",
    "exact_match",
    "tokens_per_second",
)


def save_state(path: Path, state: dict[str, Any]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def load_state(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise ValueError(f"{path}: no such state")
    return torch.load(path, map_location="cpu", weights_only=True)


def model_from_state(state: dict[str, Any], weights: str) -> tuple[Decoder, ByteBpe | Bytes]:
    model = Decoder(DecoderConfig(**state["config"]))
    chosen = state["model"]
    if weights == "best" and state["best"] is not None:
        chosen = state["best"]["model"]
    model.load_state_dict(chosen)
    return model, tokenizer_from_json(state["tokenizer"])


class Log:
    """Losses as CSV, a row at a time. A resumed run drops the rows past its state."""

    def __init__(self, path: Path | None, step: int) -> None:
        self.file = None
        if path is None:
            return
        rows: list[list[str]] = []
        if step > 0 and path.exists():
            with path.open(newline="") as old:
                rows = [r for r in list(csv.reader(old))[1:] if r and int(r[0]) <= step]
        self.file = path.open("w", newline="")
        self.writer = csv.writer(self.file, lineterminator="\n")
        self.writer.writerow(LOG_COLUMNS)
        self.writer.writerows(rows)
        self.file.flush()

    def row(self, *values: object) -> None:
        if self.file is not None:
            self.writer.writerow(values)
            self.file.flush()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
