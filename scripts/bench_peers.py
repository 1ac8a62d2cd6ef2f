#!/usr/bin/env python3
"""Compare locus with other engines on the same GGUF files, in one run.

Every engine is run on every file in turn, round after round, so that a machine whose speed drifts
is fair to all; medians are printed, with each engine's ratio to locus and the fraction of what the
machine allows (from `locus bench`). A peer is a `llama-bench` program that you have built, with
options of its own after its path:

    bench_peers.py --locus build/locus --peer llama.cpp=/path/to/llama-bench \\
                   --peer "ik repacked=/path/to/other/llama-bench -rtr 1" \\
                   -m model-f32.gguf model-q8_0.gguf -t 1 2
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT = 900  # seconds a run


class RunError(Exception):
    """A program that could not be run or understood; the message is one line."""


@dataclass
class Engine:
    """A program that measures tokens a second: `locus bench` or a `llama-bench`."""

    name: str
    command: list[str]
    is_locus: bool = False


@dataclass
class Rates:
    """Tokens a second of one engine on one file at one number of threads, a value a round."""

    prompt: list[float] = field(default_factory=list)
    generation: list[float] = field(default_factory=list)
    fractions: list[tuple[float, float]] = field(default_factory=list)
    error: str = ""


def run_json(command: list[str]) -> Any:
    """The JSON that `command` prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise RunError(f"exit status {done.returncode}: {lines[-1][:120]}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise RunError("printed no JSON") from None


def measure(engine: Engine, model: Path, threads: int, args: argparse.Namespace) -> dict[str, Any]:
    """One round: tokens a second of both kinds, and locus's fractions of its ceilings."""
    sizes = ["-p", str(args.prompt), "-n", str(args.tokens), "-t", str(threads)]
    if engine.is_locus:
        out = run_json([*engine.command, "bench", "-m", str(model), *sizes, "-r", "1", "--json"])
        return {
            "prompt": out["prompt"]["tokens_per_second"]["median"],
            "generation": out["generation"]["tokens_per_second"]["median"],
            "fractions": tuple(out[k]["fraction_of_ceiling"] for k in ("prompt", "generation")),
        }
    out = run_json([*engine.command, "-m", str(model), *sizes, "-r", "1", "-o", "json"])
    return {
        "prompt": next(row["avg_ts"] for row in out if row["n_gen"] == 0),
        "generation": next(row["avg_ts"] for row in out if row["n_prompt"] == 0),
    }


def measure_all(
    engines: list[Engine], model: Path, threads: int, args: argparse.Namespace
) -> dict[str, Rates]:
    """Rounds of all engines in turn on one file. An engine that fails is not asked again."""
    rates = {engine.name: Rates() for engine in engines}
    for _ in range(args.rounds):
        for engine in engines:
            mine = rates[engine.name]
            if mine.error:
                continue
            try:
                got = measure(engine, model, threads, args)
            except RunError as error:
                mine.error = str(error)
                print(f"{engine.name} on {model.name}: {error}", file=sys.stderr)
                continue
            mine.prompt.append(got["prompt"])
            mine.generation.append(got["generation"])
            if "fractions" in got:
                mine.fractions.append(got["fractions"])
    return rates


def table(model: Path, threads: int, rates: dict[str, Rates], locus: str) -> str:
    """A Markdown table; a ratio is locus's speed over the engine's."""
    plural = "" if threads == 1 else "s"
    lines = [
        f"### {model.name}, {threads} thread{plural}",
        "",
        "| engine | prompt | locus is | generation | locus is |",
        "|---|---|---|---|---|",
    ]
    base = rates[locus]
    for name, mine in rates.items():
        if mine.error or not mine.prompt:
            lines.append(f"| {name} | - | | - | |")
            continue
        cells = [name]
        for kind in ("prompt", "generation"):
            speed = statistics.median(getattr(mine, kind))
            own = getattr(base, kind)
            cells.append(f"{speed:.1f}")
            cells.append(f"{statistics.median(own) / speed:.2f} x" if own and name != locus else "")
        lines.append(f"| {' | '.join(cells)} |")
    if base.fractions:
        fractions = [statistics.median(f[i] for f in base.fractions) for i in (0, 1)]
        lines.append(
            f"\nOf the machine's ceiling: prompt {fractions[0]:.2f}, generation {fractions[1]:.2f}."
        )
    return "\n".join(lines)


def parse_peer(text: str) -> Engine:
    name, equals, command = text.partition("=")
    words = shlex.split(command)
    if not name or not equals or not words:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=PROGRAM [OPTIONS]")
    return Engine(name, words)


def make_parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n\n")
    p = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("-m", "--models", nargs="+", type=Path, required=True, metavar="FILE")
    p.add_argument("--locus", default="build/locus", help="(%(default)s)")
    p.add_argument("--peer", type=parse_peer, action="append", default=[], metavar="NAME=PROGRAM")
    p.add_argument("-t", "--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    p.add_argument("-p", "--prompt", type=int, default=512, help="tokens (%(default)s)")
    p.add_argument("-n", "--tokens", type=int, default=64, help="generated (%(default)s)")
    p.add_argument("-r", "--rounds", type=int, default=3, help="(%(default)s)")
    p.add_argument("--json", type=Path, metavar="FILE", help="all measurements, too")
    return p


def main() -> int:
    args = make_parser().parse_args()
    engines = [Engine("locus", [args.locus], is_locus=True), *args.peer]
    if len({engine.name for engine in engines}) < len(engines):
        print("bench_peers.py: two engines have the same name", file=sys.stderr)
        return 2
    everything = []
    for model in args.models:
        if not model.is_file():
            print(f"bench_peers.py: {model}: no such file", file=sys.stderr)
            return 2
        for threads in args.threads:
            rates = measure_all(engines, model, threads, args)
            print(table(model, threads, rates, "locus"), end="\n\n", flush=True)
            for name, mine in rates.items():
                everything.append(
                    {"model": str(model), "threads": threads, "engine": name, **vars(mine)}
                )
    if args.json is not None:
        args.json.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    failed = [row for row in everything if row["engine"] == "locus" and row["error"]]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
