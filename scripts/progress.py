"""What a training run leaves on the way: a state to resume from, and a log of losses."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import torch

from checkpoint import Value
from decoder import Decoder, DecoderConfig
from output import is_regular, open_output, opened
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
    """The file holds the whole state or stays as it was."""
    with open_output(path, binary=True) as stream:
        torch.save(state, stream)


def load_state(path: Path) -> dict[str, Any]:
    """What save_state wrote; ValueError for any other file."""
    if not path.exists():
        raise ValueError(f"{path}: no such state")
    data = io.BytesIO(path.read_bytes())
    try:
        state = torch.load(data, map_location="cpu", weights_only=True)
    except Exception:  # torch has no type of its own for what is none of its files
        state = None
    if not isinstance(state, dict) or "kept" not in state:
        raise ValueError(f"{path}: not a state that train.py saved, or a part of one")
    return state


def model_from_state(
    state: dict[str, Any], weights: str
) -> tuple[Decoder, ByteBpe | Bytes, dict[str, Value]]:
    """The model with its last or best weights, and what its file is to say of its making: what
    was measured of these weights, and no others."""
    model = Decoder(DecoderConfig(**state["config"]))
    chosen, measured = state["model"], state["measured"]
    if weights == "best":
        if state["best"] is None:
            raise ValueError("no weights are the best: nothing held out was measured yet")
        chosen, measured = state["best"]["model"], state["best"]["measured"]
    elif measured.get("training.tokens") != state["tokens"]:
        measured = {"training.tokens": state["tokens"]}
    model.load_state_dict(chosen)
    return model, tokenizer_from_json(state["tokenizer"]), {**state["remarks"], **measured}


class Log:
    """Losses as CSV, a row at a time. A resumed run drops the rows past its state, a new one all
    of them."""

    def __init__(self, path: Path | None, step: int) -> None:
        self.file = None
        if path is None:
            return
        rows: list[list[str]] = []
        if path.exists() and path.stat().st_size > 0:
            with path.open(newline="", errors="replace") as old:
                if next(csv.reader(old), None) != list(LOG_COLUMNS):
                    raise ValueError(f"{path}: is no log of train.py, and is left as it is")
                rows = [r for r in csv.reader(old) if r and r[0].isdigit() and int(r[0]) <= step]
        target = path if is_regular(path) else opened(path)
        self.file = open(target, "w", newline="")  # noqa: SIM115 (close closes it)
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
