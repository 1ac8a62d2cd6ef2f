#!/usr/bin/env python3
"""Train a small `locus` model, on plain text or on a task, and write it as GGUF.

Texts are cut into documents at lines that read `<|endoftext|>`; exact duplicates, and documents
that are also in the held-out texts, are dropped. A byte-level BPE is trained on them, and the
decoder on contiguous windows of the encoded stream. With --task, examples are made as they are
needed (tasks.py has the formats). Everything follows from --seed: an interrupted run that resumes
from its --state sees the same batches in the same order, and so do the runs of two position
schemes, which also start from the same weights but for the schemes' own.

    train.py --text stories.txt --eval held-out.txt --tokens 30M --state run.pt --log run.csv \\
             --position alibi --export model.gguf
    train.py --task copy --position rope --tokens 10M --export copy-rope.gguf
    train.py --load model.gguf --eval book.txt --evaluate --lengths 64:4096
    train.py --load model.gguf --generate "Once upon a time"
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

try:
    import torch
except ImportError as missing:
    sys.exit(f"train.py: {missing}; scripts/setup.sh python-train installs what is needed in .venv")

from checkpoint import Value
from decoder import ACTIVATIONS, NORMS, SCHEMES, Decoder, read_gguf, write_gguf
from evaluation import generate, print_documents, print_lengths, print_task
from mixers import MIXERS
from output import Failure, descriptor
from progress import load_state, model_from_state
from tasks import TASKS
from training import LEARNING_RATES, Training, say
from vocabulary import ByteBpe, Bytes

MOST_THREADS = 1024


def export(
    args: argparse.Namespace,
    model: Decoder,
    tokenizer: ByteBpe | Bytes,
    remarks: dict[str, Value],
) -> None:
    """Write --export, called as --name says or as the file is."""
    unnamed = "model" if descriptor(args.export) is not None else args.export.name
    name = args.name or unnamed.removesuffix(".gguf")
    write_gguf(args.export, model, tokenizer, name, args.type, remarks)
    say(f"wrote {args.export}")


def check_files(args: argparse.Namespace) -> None:
    """Before the work: every file that is to be written has a folder, and is no other's."""
    seen = {path.resolve(): "a text" for path in (*args.text, *args.eval)}
    if args.load is not None:
        seen[args.load.resolve()] = "the model"
    for option in ("state", "log", "tokenizer", "export"):
        path: Path | None = getattr(args, option)
        if path is None:
            continue
        if option == "state" and descriptor(path) is not None:
            raise Failure(f"--state {path}: expected the name of a file, to resume from")
        if path.is_dir() or not path.parent.is_dir():
            wrong = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise Failure(f"--{option} {path}: {wrong}; expected the name of a file")
        if path.resolve() in seen:
            raise Failure(f"--{option} {path}: is {seen[path.resolve()]}, too")
        seen[path.resolve()] = f"the {option}"


def train(args: argparse.Namespace, device: torch.device) -> int:
    """Train, from the state if there is one, and export; returns the exit status."""
    if args.load is not None:
        raise Failure("--load needs --evaluate or --generate")
    if not args.text and args.task is None:
        raise Failure("--text FILE or --task NAME is needed to train")
    if args.text and args.task is not None:
        raise Failure("--text and --task are two ways to train, expected one")
    if args.context is not None and args.task is not None:
        raise Failure("--context: a task's follows from --task-length")
    if args.weights == "best" and args.task is None and not args.eval:
        raise Failure("--weights best needs --eval FILE to tell by")
    args.context = args.context or 256
    for name in args.mixer.split(","):
        if name not in ("attention", *MIXERS):
            raise Failure(f"--mixer {name}: expected one of attention, {', '.join(MIXERS)}")
    if args.position is None:
        args.position = "rope" if "attention" in args.mixer.split(",") else "none"
    state = load_state(args.state) if args.state is not None and args.state.exists() else None
    run = Training(args, device, state)
    stopped_by = run.run()
    if stopped_by != 0:
        say(f"stopped at step {run.step} of {run.last_step}")
        return 128 + stopped_by
    if args.export is not None:
        model, tokenizer, remarks = model_from_state(run.state(), args.weights)
        export(args, model, tokenizer, remarks)
    return 0


def use(args: argparse.Namespace, device: torch.device) -> int:
    """Export, evaluate or sample a model that exists."""
    remarks: dict[str, Value] = {}
    if args.export_only != (args.export is not None):
        raise Failure("--export-only and --export FILE belong together where nothing is trained")
    if args.load is not None and args.export_only:
        raise Failure("--export-only exports a --state; `locus quantize` converts a file")
    if args.load is not None:
        model, tokenizer = read_gguf(args.load, args.position)
    elif args.state is not None and args.position is not None:
        raise Failure("--position overrides the scheme of a --load, not of a --state")
    elif args.state is not None:
        model, tokenizer, remarks = model_from_state(load_state(args.state), args.weights)
    else:
        raise Failure("--export-only, --evaluate and --generate need --state or --load")
    model.to(device).eval()
    if args.export_only:
        export(args, model, tokenizer, remarks)
    if args.evaluate:
        if args.task is not None and tokenizer.kind != Bytes.kind:
            raise Failure("--task needs a model whose tokens are bytes")
        if args.task is not None:
            print_task(model, args.task, args.lengths, device, trials=args.trials, seed=args.seed)
        elif not args.eval:
            raise Failure("--evaluate needs --eval FILE, or --task")
        elif args.lengths:
            print_lengths(model, tokenizer, args.eval, args.lengths, device)
        else:
            print_documents(model, tokenizer, args.eval, device)
    for i in range(args.samples if args.generate is not None else 0):
        if i > 0:
            print("\n---\n")
        print(
            generate(
                model,
                tokenizer,
                args.generate,
                device,
                n_tokens=args.n_tokens,
                temperature=args.temperature,
                top_k=args.top_k,
                seed=args.seed + i,
            ),
            flush=True,
        )
    return 0


def count(text: str) -> int:
    """A whole number from 1 to 2^32 - 1, with k or K, M or G for powers of a thousand."""
    scales = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
    scale = scales.get(text[-1:], 1)
    try:
        value = float(text.removesuffix(text[-1:]) if scale > 1 else text) * scale
    except ValueError:
        value = 0.0
    if not (1 <= value < 2**32 and value.is_integer()):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a whole number from 1 to 2^32 - 1, such as 64, 500k or 30M"
        )
    return int(value)


def at_least(least: float, *, itself: bool = True) -> Callable[[str], float]:
    """Finite numbers from `least` on, itself among them or not."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < least or (value == least and not itself):
            bound = "at least" if itself else "more than"
            raise argparse.ArgumentTypeError(f"'{text}' is not a number of {bound} {least:g}")
        return value

    return parse


def whole_number(text: str) -> int:
    """0 to 2^31 - 1."""
    if not (text.isascii() and text.isdigit() and int(text) < 2**31):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to 2^31 - 1")
    return int(text)


def lengths(text: str) -> list[int]:
    """64,96,128 as it is; 64:4096 doubles."""
    first, colon, last = text.partition(":")
    if not colon:
        return [count(part) for part in text.split(",")]
    out = [count(first)]
    if count(last) < out[0]:
        raise argparse.ArgumentTypeError(f"'{text}' ends before it starts")
    while 2 * out[-1] <= count(last):
        out.append(2 * out[-1])
    return out


def make_parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n\n")
    p = argparse.ArgumentParser(
        description=summary,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="%(prog)s [OPTION]...",
    )
    switch = argparse.BooleanOptionalAction
    positive = at_least(0, itself=False)

    g = p.add_argument_group("texts")
    g.add_argument("--text", nargs="+", type=Path, default=[], metavar="FILE", help="to train on")
    g.add_argument("--eval", nargs="+", type=Path, default=[], metavar="FILE", help="held out")
    g.add_argument("--vocab", type=count, default=1024, help="vocabulary size (%(default)s)")
    g.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="take the tokenizer from FILE, or make FILE"
    )
    g.add_argument("--task", choices=TASKS, help="instead of texts (tasks.py)")
    g.add_argument("--task-length", type=count, help="longest example (20; 8 digits; 256)")

    g = p.add_argument_group("model")
    names = ", ".join(s.name for s in SCHEMES)
    g.add_argument(
        "--position",
        metavar="SPEC",
        help=f"NAME[:key=value[,key=value]...], NAME one of {names} (rope; --load: the file's)",
    )
    g.add_argument(
        "--mixer", metavar="NAME", default="attention",
        help=f"attention, {', '.join(MIXERS)}; NAME,NAME: one a layer, in turn (%(default)s)",
    )  # fmt: skip
    g.add_argument("--context", type=count, help="trained length (256; the task's)")
    g.add_argument("--n-embd", type=count, default=160, help="width (%(default)s)")
    g.add_argument("--n-layer", type=count, default=6, help="layers (%(default)s)")
    g.add_argument("--n-head", type=count, default=5, help="query heads (%(default)s)")
    g.add_argument("--n-head-kv", type=count, help="key-value heads (as many as query heads)")
    g.add_argument("--head-dim", type=count, help="head width (n-embd / n-head)")
    g.add_argument("--value-dim", type=count, help="of a head of retention (twice the head's)")
    g.add_argument(
        "--n-ff", type=whole_number, default=400, help="feed-forward width; 0: none (%(default)s)"
    )
    g.add_argument("--norm", choices=NORMS, default="rmsnorm", help="(%(default)s)")
    g.add_argument("--activation", choices=ACTIVATIONS, default="silu", help="(%(default)s)")
    g.add_argument("--gated", action=switch, default=True, help="gated feed-forward")
    g.add_argument("--tied", action=switch, default=True, help="head tied to the embeddings")
    g.add_argument("--parallel-residual", action=switch, default=False, help="GPT-J's residual")
    g.add_argument("--embedding-norm", action=switch, default=False, help="BLOOM's norm")
    g.add_argument(
        "--embedding-scale", type=positive, default=1.0, help="token embeddings times this (1)"
    )

    g = p.add_argument_group("training")
    g.add_argument("--tokens", type=count, default=30_000_000, help="budget, e.g. 30M (30M)")
    g.add_argument("--batch", type=count, default=32, help="windows a step (%(default)s)")
    g.add_argument(
        "--optimiser", choices=LEARNING_RATES, default="muon",
        help="muon: for the matrices inside the blocks, adamw for the rest (%(default)s)",
    )  # fmt: skip
    g.add_argument("--lr", type=positive, help="highest learning rate (muon 5e-3, adamw 2e-3)")
    g.add_argument("--warmup", type=count, default=500_000, help="tokens of warmup (500k)")
    g.add_argument(
        "--weight-decay", type=at_least(0), default=0.1, help="on matrices (%(default)s)"
    )
    g.add_argument("--clip", type=positive, default=1.0, help="gradient norm limit (%(default)s)")
    g.add_argument("--seed", type=whole_number, default=1, help="(%(default)s)")
    g.add_argument("--device", default="auto", help="auto, cpu, cuda, ... (%(default)s)")
    g.add_argument("--threads", type=count, help="CPU threads (torch's choice)")
    g.add_argument(
        "--precision", choices=("auto", "f32", "bf16"), default="auto", help="auto: bf16 on a GPU"
    )
    g.add_argument("--compile", action=switch, default=False, help="torch.compile")
    g.add_argument("--state", type=Path, metavar="FILE", help="saved here, resumed from here")
    g.add_argument(
        "--save-seconds", type=at_least(0), default=300, help="between saves (%(default)s)"
    )
    g.add_argument("--log", type=Path, metavar="FILE", help="losses as CSV")
    g.add_argument("--report", type=count, default=50, help="steps between reports (%(default)s)")
    g.add_argument("--eval-every", type=count, default=250, help="steps (%(default)s)")
    g.add_argument("--eval-windows", type=count, default=128, help="windows (%(default)s)")

    g = p.add_argument_group("the file")
    g.add_argument("--export", type=Path, metavar="FILE", help="write a GGUF file at the end")
    g.add_argument("--type", choices=("f16", "f32"), default="f16", help="of matrices")
    g.add_argument("--name", help="general.name (the file's, without .gguf)")
    g.add_argument("--about", metavar="TEXT", help="the data in words, kept in the file")

    g = p.add_argument_group("instead of training")
    g.add_argument("--export-only", action="store_true", help="export the state as it is")
    g.add_argument("--evaluate", action="store_true", help="measure on --eval, or on --task")
    g.add_argument(
        "--lengths", type=lengths, metavar="LIST",
        help="64,96,128 or 64:4096 (doubling): perplexity in windows of each, texts byte for byte; "
        "of a task, exact match at each",
    )  # fmt: skip
    g.add_argument("--trials", type=count, default=200, help="of a task (%(default)s)")
    g.add_argument("--generate", metavar="TEXT", help="continue TEXT")
    g.add_argument("--load", type=Path, metavar="FILE", help="a GGUF file, not the state")
    g.add_argument("--weights", choices=("last", "best"), default="last", help="of the state")
    g.add_argument("--samples", type=count, default=1, help="(%(default)s)")
    g.add_argument("--n-tokens", type=count, default=300, help="at most (%(default)s)")
    g.add_argument("--temperature", type=at_least(0), default=0.8, help="(%(default)s)")
    g.add_argument("--top-k", type=whole_number, default=40, help="0: all (%(default)s)")
    return p


def choose_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise Failure(f"--device {name}: {reason}") from None


def main() -> int:
    args = make_parser().parse_args()
    if args.lr is None:
        args.lr = LEARNING_RATES[args.optimiser]
    try:
        if args.threads is not None:
            if args.threads > MOST_THREADS:
                raise Failure(f"--threads {args.threads}: expected at most {MOST_THREADS}")
            torch.set_num_threads(args.threads)
        check_files(args)
        device = choose_device(args.device)
        if args.export_only or args.evaluate or args.generate is not None:
            return use(args, device)
        return train(args, device)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"train.py: {where}{error.strerror or error}", file=sys.stderr)
    except (Failure, ValueError) as error:
        print(f"train.py: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
