#!/usr/bin/env python3
"""Compare locus with other engines on the same GGUF files, in one run.

Every engine is run on every file in turn, round after round, so that a machine whose speed drifts
is fair to all; medians are printed, with locus's ratio to each peer and to what the machine allows
(its ceiling, from `locus bench`). A peer is a `llama-bench` program that you have built, with
options of its own after its path; where a name is given twice, those are two ways to run one peer,
and the faster counts, cell by cell. Files are named SHAPE-TYPE.gguf, such as gpt2-q8_0.gguf: a
table has a block of rows a shape and two columns a type. What can't be run is said, and the rest
goes on.

    bench_peers.py --locus build/locus --peer llama.cpp=/path/to/llama-bench \\
                   --peer ik=/path/to/other/llama-bench \\
                   --peer "ik=/path/to/other/llama-bench -rtr 1" \\
                   -m gpt2-f32.gguf gpt2-q8_0.gguf llama-f32.gguf llama-q8_0.gguf -t 1 2
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from output import Failure, descriptor, is_regular, write_text

TIMEOUT = 900  # seconds a run
KINDS = ("prompt", "generation")
FILE_NAME = re.compile(r"(.+)[-_.](b?f16|f32|q\d_(?:\d|k(?:_m)?))", re.IGNORECASE)


class RunError(Exception):
    """A program that could not be run or understood; the message is one line."""


@dataclass
class Engine:
    """A program that measures tokens a second: `locus bench`, or a `llama-bench` in some ways."""

    name: str
    commands: list[list[str]]
    is_locus: bool = False


@dataclass
class Rates:
    """What one command measured on one file at one number of threads, a value a round."""

    command: str
    prompt: list[float] = field(default_factory=list)
    generation: list[float] = field(default_factory=list)
    prompt_ceiling: list[float] = field(default_factory=list)
    generation_ceiling: list[float] = field(default_factory=list)
    error: str = ""


@dataclass
class Measured:
    """All that was measured on one file at one number of threads."""

    model: Path
    threads: int
    engines: dict[str, list[Rates]]  # a Rates a command

    @property
    def shape(self) -> str:
        found = FILE_NAME.fullmatch(self.model.stem)
        return found[1] if found else self.model.stem

    @property
    def type(self) -> str:
        found = FILE_NAME.fullmatch(self.model.stem)
        return found[2].lower() if found else ""

    def speed(self, name: str, kind: str) -> float | None:
        """The median of the fastest command; None where none could be run."""
        values = [getattr(rates, kind) for rates in self.engines[name] if not rates.error]
        return max((statistics.median(v) for v in values if v), default=None)

    def error(self, name: str) -> str:
        return next((rates.error for rates in self.engines[name] if rates.error), "")


# ---- running ---------------------------------------------------------------------------------


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The line of a failed program's output that says most."""
    lines = (done.stderr + "\n" + done.stdout).strip().splitlines() or ["no message"]
    telling = [line for line in lines if re.search(r"assert|error|fail", line, re.IGNORECASE)]
    return (telling[0] if telling else lines[-1]).strip()[:160]


def run_json(command: list[str]) -> Any:
    """The JSON that `command` prints."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"no result after {TIMEOUT} s") from None
    except OSError as error:
        raise RunError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise RunError(f"exit status {done.returncode}: {complaint(done)}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise RunError("printed no JSON") from None


def speed_of(value: object) -> float:
    """Tokens a second, as a program printed them."""
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise RunError(f"printed the speed {value!r}, expected a number above 0")
    return value


def measure(engine: Engine, rates: Rates, command: list[str], options: list[str]) -> None:
    """Adds one round to `rates`."""
    if engine.is_locus:
        out = run_json([*command, "bench", *options, "-r", "1", "--json"])
        for kind in KINDS:
            speed = speed_of(out[kind]["tokens_per_second"]["median"])
            fraction = out[kind]["fraction_of_ceiling"]
            getattr(rates, kind).append(speed)
            if fraction:
                getattr(rates, f"{kind}_ceiling").append(speed / fraction)
        return
    out = run_json([*command, *options, "-r", "1", "-o", "json"])
    rates.prompt.append(speed_of(next(row["avg_ts"] for row in out if row["n_gen"] == 0)))
    rates.generation.append(speed_of(next(row["avg_ts"] for row in out if row["n_prompt"] == 0)))


def measure_all(
    engines: list[Engine], model: Path, threads: int, args: argparse.Namespace
) -> Measured:
    """Rounds of all engines in turn on one file. A command that fails is not run again."""
    measured = Measured(
        model, threads, {e.name: [Rates(shlex.join(c)) for c in e.commands] for e in engines}
    )
    options = ["-m", str(model), "-p", str(args.prompt), "-n", str(args.tokens), "-t", str(threads)]
    turns = [
        (engine, rates, [*args.prefix, *command])
        for engine in engines
        for rates, command in zip(measured.engines[engine.name], engine.commands, strict=True)
    ]
    for _ in range(args.rounds):
        for engine, rates, command in turns:
            if rates.error:
                continue
            try:
                measure(engine, rates, command, options)
            except RunError as error:
                rates.error = str(error)
            except (KeyError, TypeError, StopIteration):
                rates.error = "printed JSON that is not a benchmark's"
    return measured


# ---- the table -------------------------------------------------------------------------------


def show(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


class Notes:
    """Footnotes: why a cell holds no number."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def mark(self, text: str) -> str:
        if text not in self.lines:
            self.lines.append(text)
        return f"fails [{self.lines.index(text) + 1}]"

    def __str__(self) -> str:
        return "\n".join(f"[{i}] {line}\n" for i, line in enumerate(self.lines, 1))


def ceiling(measured: Measured, locus: str, kind: str) -> float | None:
    values = [v for rates in measured.engines[locus] for v in getattr(rates, f"{kind}_ceiling")]
    return statistics.median(values) if values else None


def speed_cell(found: Measured | None, name: str, kind: str, notes: Notes) -> str:
    if found is None:
        return ""
    speed = found.speed(name, kind)
    return show(speed) if speed else notes.mark(f"{name}: {found.error(name)}")


def ratio_cell(ours: float | None, theirs: float | None, digits: str) -> str:
    return f"{ours / theirs:{digits}}" if ours and theirs else ""


def shape_rows(
    shape: str, columns: list[Measured | None], locus: str, notes: Notes
) -> Iterator[list[str]]:
    """The rows of one shape; a column a type, None where there is no such file."""
    names = next(c for c in columns if c is not None).engines
    cells = [(found, kind) for found in columns for kind in KINDS]
    for name in names:
        yield [f"{name}, {shape}", *(speed_cell(found, name, kind, notes) for found, kind in cells)]
    tops = [ceiling(found, locus, kind) if found else None for found, kind in cells]
    own = [found.speed(locus, kind) if found else None for found, kind in cells]
    yield [f"ceiling, {shape}", *(show(top) if top else "" for top in tops)]
    for name in names:
        if name == locus:
            continue
        theirs = [found.speed(name, kind) if found else None for found, kind in cells]
        ratios = [ratio_cell(a, b, ".2f") for a, b in zip(own, theirs, strict=True)]
        yield [f"**locus / {name}, {shape}**", *ratios]
    ratios = [ratio_cell(a, b, ".2f") for a, b in zip(own, tops, strict=True)]
    yield [f"**locus / ceiling, {shape}**", *ratios]


def table(results: list[Measured], locus: str, args: argparse.Namespace) -> str:
    """A Markdown table of what was measured at one number of threads."""
    types = list(dict.fromkeys(r.type for r in results))
    shapes = list(dict.fromkeys(r.shape for r in results))
    threads, notes = results[0].threads, Notes()
    lines = [
        f"### {threads} thread{'' if threads == 1 else 's'}",
        "",
        f"Tokens/s, medians of rounds in turn ({args.rounds}): a prompt of {args.prompt} tokens, "
        f"then {args.tokens} generated.",
        "",
        "| | " + " | ".join(f"{t} {kind}".strip() for t in types for kind in ("prompt", "gen")),
    ]
    lines[-1] += " |"
    lines.append("|---|" + "---|" * (2 * len(types)))
    for shape in shapes:
        by_type = {r.type: r for r in results if r.shape == shape}
        for row in shape_rows(shape, [by_type.get(t) for t in types], locus, notes):
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join([*lines, "", str(notes)])


# ---- the command line ------------------------------------------------------------------------


def parse_peer(text: str) -> tuple[str, list[str]]:
    name, equals, command = text.partition("=")
    words = shlex.split(command)
    if not name or not equals or not words:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=PROGRAM [OPTIONS]")
    return name, words


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not 1 or more")
    return int(text)


def make_parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n\n")
    p = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("-m", "--models", nargs="+", type=Path, required=True, metavar="FILE")
    p.add_argument("--locus", default="build/locus", metavar="PROGRAM", help="(%(default)s)")
    p.add_argument("--peer", type=parse_peer, action="append", default=[], metavar="NAME=PROGRAM")
    p.add_argument("-t", "--threads", nargs="+", type=positive, default=[1, 2], metavar="N")
    p.add_argument("-p", "--prompt", type=positive, default=512, help="tokens (%(default)s)")
    p.add_argument("-n", "--tokens", type=positive, default=64, help="generated (%(default)s)")
    p.add_argument("-r", "--rounds", type=positive, default=3, help="(%(default)s)")
    p.add_argument(
        "--prefix", type=shlex.split, default=[], metavar="COMMAND",
        help='what every program is run by, such as "taskset -c 0,1"',
    )  # fmt: skip
    p.add_argument("--json", type=Path, metavar="FILE", help="all measurements, too (-: alone)")
    return p


def gather(args: argparse.Namespace) -> list[Engine]:
    """The engines, locus first; peers of one name are one."""
    engines = {"locus": Engine("locus", [[args.locus]], is_locus=True)}
    for name, command in args.peer:
        engines.setdefault(name, Engine(name, [])).commands.append(command)
    return list(engines.values())


def write_json(path: Path, everything: list[Measured]) -> bool:
    """Writes what is measured; says so where it can't."""
    rows = [asdict(m) | {"model": str(m.model)} for m in everything]
    try:
        write_text(path, json.dumps(rows, indent=1) + "\n")
    except (OSError, Failure) as error:
        reason = f"{path}: {error.strerror}" if isinstance(error, OSError) else str(error)
        print(f"bench_peers.py: error: {reason}", file=sys.stderr)
        return False
    return True


def main() -> int:
    parser = make_parser()
    args = parser.parse_args()
    if any(name == "locus" for name, _ in args.peer):
        parser.error("a peer has to have another name than locus")
    engines = gather(args)
    for model in args.models:
        if not model.is_file():
            parser.error(f"{model}: no such file")
    if args.json is not None and (args.json.is_dir() or not args.json.parent.is_dir()):
        parser.error(f"--json {args.json}: expected a file in a folder that exists")
    everything: list[Measured] = []
    failed = False
    total = len(args.threads) * len(args.models)
    in_pieces = args.json is not None and is_regular(args.json)  # what is measured so far is kept
    only_json = args.json is not None and descriptor(args.json) == 1
    for threads in args.threads:
        for model in args.models:
            print(f"{model.name}, {threads} threads ...", file=sys.stderr)
            everything.append(measure_all(engines, model, threads, args))
            due = in_pieces or len(everything) == total
            if args.json is not None and due and not write_json(args.json, everything):
                args.json = None
                failed = True
        if not only_json:
            print(table(everything[-len(args.models) :], "locus", args), flush=True)
    return 1 if failed or any(m.error("locus") for m in everything) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
