#!/usr/bin/env python3
"""Write the table of models/README.md from the checkpoints themselves.

    models_readme.py models            rewrite the table between its two marks
    models_readme.py models --check    fail if that would change anything

A row is a checkpoint: its SPEC and mixer, parameters, data, tokens, loss, command and SHA-256, as
its metadata and bytes say.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from checkpoint import open_gguf
from output import Failure, run, write_text

BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"
COLUMNS = ("file", "position", "parameters", "length", "tokens", "loss", "exact", "SHA-256")


class Model:
    """What a checkpoint says about itself."""

    def __init__(self, path: Path) -> None:
        self.path, self.reader = path, open_gguf(path, "locus")

    def get(self, key: str) -> Any:
        field = self.reader.get_field(key)
        return None if field is None else field.contents()

    def number(self, key: str, pattern: str) -> str:
        value = self.get(key)
        return "" if value is None else format(value, pattern)

    def order(self) -> str:
        """What tells tokens' order: the SPEC, and what mixes tokens where that isn't attention."""
        mixers = self.get("locus.mixer") or "attention"
        names = [mixers] if isinstance(mixers, str) else list(dict.fromkeys(mixers))
        own = "" if names == ["attention"] else f", {' and '.join(names)}"
        return f"`{self.get('locus.position')}`{own}"

    def row(self) -> tuple[str, ...]:
        parameters = sum(int(np.prod(t.shape)) for t in self.reader.tensors)
        length = self.get("locus.task_length") or self.get("locus.context_length")
        return (
            self.path.name,
            self.order(),
            f"{parameters:,}",
            str(length),
            self.number("locus.training.tokens", ","),
            self.number("locus.training.loss", ".3f"),
            self.number("locus.training.exact_match", ".0%"),
            f"`{hashlib.sha256(self.path.read_bytes()).hexdigest()}`",
        )


def table(models: list[Model]) -> str:
    """The table, the commands, and the data, as Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(model.row()) + " |" for model in models]
    commands: dict[str, str] = {}
    for model in models:
        command = model.get("locus.training.command")
        commands[model.path.name] = command or "(not kept in the file)"
    lines += ["", "Made by, with `$TEXT` and `$EVAL` the texts:", "", "```"]
    lines += [f"{name}: {command}" for name, command in commands.items()]
    lines += ["```", ""]
    by_data: dict[str, list[str]] = {}
    for model in models:
        if data := model.get("locus.training.data"):
            by_data.setdefault(data, []).append(model.path.stem)
    lines += [f"- {', '.join(names)}: {data}." for data, names in by_data.items()]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the models and README.md")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if it would")
    args = parser.parse_args()
    readme = args.folder / "README.md"
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise Failure(f"{readme}: expected one line '{BEGIN}' and one '{END}'")
    paths = sorted(args.folder.glob("*.gguf"))
    if not paths:
        raise Failure(f"{args.folder}: there is no .gguf file")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    made = f"{before}{BEGIN}\n\n{table([Model(p) for p in paths])}\n{END}{after}"
    if args.check:
        if made != text:
            raise Failure(f"{readme}: not what the checkpoints say; run scripts/models_readme.py")
    elif made != text:
        write_text(readme, made)


if __name__ == "__main__":
    run(main)
