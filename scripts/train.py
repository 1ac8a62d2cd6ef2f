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
import contextlib
import dataclasses
import math
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from decoder import ACTIVATIONS, NORMS, SCHEMES, Decoder, DecoderConfig, read_gguf, write_gguf
from evaluation import generate, print_documents, print_lengths, print_task, window_loss
from progress import Log, load_state, model_from_state, save_state
from tasks import IGNORED, TASKS, TaskBatches, exact_match
from texts import Windows, read_documents
from vocabulary import ByteBpe, Bytes, tokenizer_from_json

LEARNING_RATES = {"adamw": 2e-3, "muon": 5e-3}


class UsageError(Exception):
    """A request that cannot be served; the message is one line."""


# --------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------


def learning_rate(tokens: int, args: argparse.Namespace) -> float:
    """Linear warmup, then a cosine to a tenth, both over tokens."""
    if tokens < args.warmup:
        return args.lr * (tokens + 1) / args.warmup
    done = min(1.0, (tokens - args.warmup) / max(1, args.tokens - args.warmup))
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimisers(model: Decoder, args: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """AdamW for everything; or Muon for the matrices inside the blocks, with updates as large as
    AdamW's, and AdamW for the rest. Vectors and the position scheme's weights don't decay."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    inner = {name for name, p in named if p.dim() == 2 and name.startswith("blocks.")}
    by_muon = inner if args.optimiser == "muon" else set()
    decay = [
        p
        for name, p in named
        if name not in by_muon and p.dim() >= 2 and not name.startswith("position.")
    ]
    no_decay = [p for name, p in named if p.dim() < 2 or name.startswith("position.")]
    groups = [
        {"params": decay, "weight_decay": args.weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    out: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=True)
    ]
    if by_muon:
        matrices = [p for name, p in named if name in by_muon]
        out.append(
            torch.optim.Muon(
                matrices, lr=args.lr, weight_decay=args.weight_decay, adjust_lr_fn="match_rms_adamw"
            )
        )
    return out


def config_from(args: argparse.Namespace, n_vocab: int) -> DecoderConfig:
    return DecoderConfig(
        n_vocab=n_vocab,
        n_embd=args.n_embd,
        n_layer=args.n_layer,
        n_head=args.n_head,
        n_head_kv=args.n_head_kv or args.n_head,
        head_dim=args.head_dim or args.n_embd // args.n_head,
        n_ff=args.n_ff,
        n_context=args.context,
        norm=args.norm,
        activation=args.activation,
        gated=args.gated,
        parallel_residual=args.parallel_residual,
        embedding_norm=args.embedding_norm,
        embedding_scale=args.embedding_scale,
        tied=args.tied,
        position=args.position,
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def make_tokenizer(
    args: argparse.Namespace, documents: list[str], state: dict[str, Any] | None
) -> ByteBpe | Bytes:
    if state is not None:
        return tokenizer_from_json(state["tokenizer"])
    if args.task is not None:
        return Bytes()
    if args.tokenizer is not None and args.tokenizer.exists():
        return tokenizer_from_json(args.tokenizer.read_text(encoding="utf-8"))
    tokenizer = ByteBpe.train(documents, args.vocab)
    if args.tokenizer is not None:
        args.tokenizer.write_text(tokenizer.to_json(), encoding="utf-8")
    return tokenizer


def make_model(args: argparse.Namespace, n_vocab: int, state: dict[str, Any] | None) -> Decoder:
    config = config_from(args, n_vocab)
    if state is not None and dataclasses.asdict(config) != state["config"]:
        for key, value in dataclasses.asdict(config).items():
            if value != state["config"][key]:
                raise UsageError(f"{args.state}: has {key}={state['config'][key]}, asked {value}")
    torch.manual_seed(args.seed)
    model = Decoder(config)
    if state is not None:
        model.load_state_dict(state["model"])
    return model


class TextSource:
    """Windows of texts, and the loss on held-out ones."""

    def __init__(self, args: argparse.Namespace, state: dict[str, Any] | None) -> None:
        held_out = read_documents(args.eval)
        known = set(held_out)
        documents = [d for d in read_documents(args.text) if d not in known]
        self.args, self.tokenizer = args, make_tokenizer(args, documents, state)
        stream = self.tokenizer.encode_documents(documents)
        self.windows = Windows(stream, args.context, args.seed)
        if self.windows.per_epoch < 1:
            raise UsageError(f"the texts have {len(stream)} tokens, too few for one window")
        self.batch = self.windows.batch
        self.per_step = args.batch * args.context
        self.held_out = self.tokenizer.encode_documents(held_out)
        self.about = (
            f"{len(documents)} documents, {len(stream)} tokens; held out {len(self.held_out)}"
        )

    def measure(self, model: Decoder, device: torch.device) -> tuple[float | None, float | None]:
        """The held-out loss, and the share of exact matches."""
        if len(self.held_out) < 2:
            return None, None
        n_windows = self.args.eval_windows
        loss, _ = window_loss(model, self.held_out, self.args.context, device, n_windows)
        return loss, None


class TaskSource:
    """Examples of a task, and the loss and exact matches on others."""

    N_BATCH, N_TRIALS = 64, 64

    def __init__(self, args: argparse.Namespace) -> None:
        self.task = TASKS[args.task]
        self.length = args.task_length or self.task.trained
        args.context = self.task.longest(self.length)
        self.tokenizer, self.seed = Bytes(), args.seed
        self.batch = TaskBatches(self.task, self.length, args.seed).batch
        self.per_step = args.batch * (args.context - 1)
        self.about = f"{args.task} up to length {self.length}"

    def measure(self, model: Decoder, device: torch.device) -> tuple[float | None, float | None]:
        unseen = self.seed + 1_000_000
        inputs, targets = TaskBatches(self.task, self.length, unseen).batch(0, self.N_BATCH)
        with torch.no_grad():
            logits = model(inputs.to(device)).flatten(0, 1).float()
            loss = F.cross_entropy(logits, targets.to(device).flatten(), ignore_index=IGNORED)
        right = exact_match(
            model, self.task, self.length, trials=self.N_TRIALS, seed=unseen, device=device
        )
        return loss.item(), right


def command_of(argv: list[str]) -> str:
    """What to type for the same model: without what is this machine's, texts as variables."""
    machine = ("--state", "--log", "--threads", "--save-seconds", "--device", "--about")
    words, option = ["train.py"], ""
    for word in argv:
        if word.startswith("--"):
            option = word.partition("=")[0]
        if option in machine:
            continue
        if option not in ("--text", "--eval"):
            words.append(Path(word).name)
        elif word == option:
            words += [option, f"${option[2:].upper()}"]
    return " ".join(words)


def train(args: argparse.Namespace, device: torch.device) -> int:
    state = load_state(args.state) if args.state is not None and args.state.exists() else None
    source = TaskSource(args) if args.task is not None else TextSource(args, state)
    model = make_model(args, len(source.tokenizer.tokens), state)
    model.to(device)
    optimisers = make_optimisers(model, args)
    step, seconds, best = 0, 0.0, None
    if state is not None:
        for key in ("seed", "batch", "optimiser"):
            if state[key] != getattr(args, key):
                raise UsageError(f"{args.state}: was made with --{key} {state[key]}")
        for optimiser, saved in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        step, seconds, best = state["step"], state["seconds"], state["best"]

    per_step = source.per_step
    last_step = math.ceil(args.tokens / per_step)
    n_parameters = sum(p.numel() for p in model.parameters())
    say(
        f"{source.about}; {n_parameters} parameters; {model.position.spec()}; {device}, "
        f"{torch.get_num_threads()} threads; {args.optimiser}; step {step} of {last_step}"
    )

    about: dict[str, str | int | float] = {"training.command": command_of(sys.argv[1:])}
    about |= {"training.data": args.about} if args.about else {}
    if args.task is not None:
        about |= {"task": args.task, "task_length": source.length}

    def loss_of(inputs: Tensor, targets: Tensor) -> Tensor:
        logits = model(inputs).flatten(0, 1).float()
        return F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED)

    forward = torch.compile(loss_of) if args.compile else loss_of
    bf16 = args.precision == "bf16" or (args.precision == "auto" and device.type == "cuda")
    precision = torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()
    stopped_by = 0

    def stop(number: int, _frame: object) -> None:
        nonlocal stopped_by
        stopped_by = number

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)

    def save() -> None:
        if args.state is not None:
            made = {
                "config": dataclasses.asdict(model.config),
                "tokenizer": source.tokenizer.to_json(),
                "model": model.state_dict(),
                "optimisers": [optimiser.state_dict() for optimiser in optimisers],
                "step": step,
                "seconds": seconds,
                "seed": args.seed,
                "batch": args.batch,
                "optimiser": args.optimiser,
                "best": best,
                "about": about,
            }
            save_state(args.state, made)

    log = Log(args.log, step)
    clock = saved_at = time.monotonic()
    sum_loss, n_loss, spell = torch.zeros((), device=device), 0, 0.0
    while step < last_step and stopped_by == 0:
        rate = learning_rate(step * per_step, args)
        for group in (group for optimiser in optimisers for group in optimiser.param_groups):
            group["lr"] = rate
        inputs, targets = (t.to(device) for t in source.batch(step, args.batch))
        with precision:
            loss = forward(inputs, targets)
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for optimiser in optimisers:
            optimiser.step()
        step += 1
        sum_loss += loss.detach()
        n_loss += 1
        now = time.monotonic()
        seconds, spell, clock = seconds + now - clock, spell + now - clock, now
        if step % args.report == 0 or step == last_step:
            mean, speed = sum_loss.item() / n_loss, n_loss * per_step / spell
            if not math.isfinite(mean):
                raise UsageError(f"the loss is {mean} at step {step}: try a smaller --lr")
            held, right = None, None
            if step % args.eval_every == 0 or step == last_step:
                held, right = source.measure(model.eval(), device)
                model.train()
                about["training.tokens"] = step * per_step
                about |= {} if held is None else {"training.loss": held}
                about |= {} if right is None else {"training.exact_match": right}
                if held is not None and (best is None or held < best["loss"]):
                    weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
                    best = {"loss": held, "step": step, "model": weights}
            left = (last_step - step) * per_step / speed / 60
            say(
                f"step {step} tokens {step * per_step} loss {mean:.4f}"
                + ("" if held is None else f" held out {held:.5f}")
                + ("" if right is None else f" exact {right:.3f}")
                + f" lr {rate:.2e} {speed:.0f} tokens/s {left:.0f} min left"
            )
            log.row(
                step,
                step * per_step,
                f"{seconds:.1f}",
                f"{rate:.4e}",
                f"{mean:.5f}",
                "" if held is None else f"{held:.5f}",
                "" if right is None else f"{right:.4f}",
                f"{speed:.0f}",
            )
            sum_loss.zero_()
            n_loss, spell = 0, 0.0
        if time.monotonic() - saved_at >= args.save_seconds:
            save()
            saved_at = time.monotonic()
    save()
    log.close()
    if stopped_by != 0:
        say(f"stopped at step {step} of {last_step}")
        return 128 + stopped_by
    if args.export is not None:
        chosen = model
        if args.weights == "best" and best is not None:
            chosen = Decoder(model.config)
            chosen.load_state_dict(best["model"])
            about |= {"training.loss": best["loss"]}
        export(args, chosen, source.tokenizer, about)
    return 0


# --------------------------------------------------------------------------------------------
# Models that exist
# --------------------------------------------------------------------------------------------


def export(
    args: argparse.Namespace,
    model: Decoder,
    tokenizer: ByteBpe | Bytes,
    about: dict[str, str | int | float],
) -> None:
    write_gguf(args.export, model, tokenizer, args.name, args.type, about)
    say(f"wrote {args.export}")


def use(args: argparse.Namespace, device: torch.device) -> int:
    """Export, evaluate or sample a model that exists."""
    about: dict[str, str | int | float] = {}
    if args.load is not None:
        model, tokenizer = read_gguf(args.load, args.position)
    elif args.state is not None:
        state = load_state(args.state)
        model, tokenizer = model_from_state(state, args.weights)
        about = state.get("about", {})
    else:
        raise UsageError("--export-only, --evaluate and --generate need --state or --load")
    model.to(device).eval()
    if args.export_only:
        if args.export is None:
            raise UsageError("--export-only needs --export FILE")
        export(args, model, tokenizer, about)
    if args.evaluate:
        if args.task is not None:
            print_task(model, args.task, args.lengths, device, trials=args.trials, seed=args.seed)
        elif not args.eval:
            raise UsageError("--evaluate needs --eval FILE, or --task")
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
    """A positive whole number, with k or K, M or G for powers of a thousand."""
    scales = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
    scale = scales.get(text[-1:], 1)
    try:
        value = round(float(text.removesuffix(text[-1:]) if scale > 1 else text) * scale)
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number such as 500k or 30M")
    return value


def lengths(text: str) -> list[int]:
    """64,96,128 as it is; 64:4096 doubles."""
    first, colon, last = text.partition(":")
    if not colon:
        return [count(part) for part in text.split(",")]
    out = [count(first)]
    while 2 * out[-1] <= count(last):
        out.append(2 * out[-1])
    return out


def make_parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n\n")
    p = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    switch = argparse.BooleanOptionalAction

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
    g.add_argument("--context", type=count, default=256, help="trained length (%(default)s)")
    g.add_argument("--n-embd", type=count, default=160, help="width (%(default)s)")
    g.add_argument("--n-layer", type=count, default=6, help="layers (%(default)s)")
    g.add_argument("--n-head", type=count, default=5, help="query heads (%(default)s)")
    g.add_argument("--n-head-kv", type=count, help="key-value heads (as many as query heads)")
    g.add_argument("--head-dim", type=count, help="head width (n-embd / n-head)")
    g.add_argument("--n-ff", type=count, default=400, help="feed-forward width (%(default)s)")
    g.add_argument("--norm", choices=NORMS, default="rmsnorm", help="(%(default)s)")
    g.add_argument("--activation", choices=ACTIVATIONS, default="silu", help="(%(default)s)")
    g.add_argument("--gated", action=switch, default=True, help="gated feed-forward")
    g.add_argument("--tied", action=switch, default=True, help="head tied to the embeddings")
    g.add_argument("--parallel-residual", action=switch, default=False, help="GPT-J's residual")
    g.add_argument("--embedding-norm", action=switch, default=False, help="BLOOM's norm")
    g.add_argument(
        "--embedding-scale", type=float, default=1.0, help="token embeddings times this (1)"
    )

    g = p.add_argument_group("training")
    g.add_argument("--tokens", type=count, default=30_000_000, help="budget, e.g. 30M (30M)")
    g.add_argument("--batch", type=count, default=32, help="windows a step (%(default)s)")
    g.add_argument(
        "--optimiser", choices=LEARNING_RATES, default="muon",
        help="muon: for the matrices inside the blocks, adamw for the rest (%(default)s)",
    )  # fmt: skip
    g.add_argument("--lr", type=float, help="highest learning rate (muon 5e-3, adamw 2e-3)")
    g.add_argument("--warmup", type=count, default=500_000, help="tokens of warmup (500k)")
    g.add_argument("--weight-decay", type=float, default=0.1, help="on matrices (%(default)s)")
    g.add_argument("--clip", type=float, default=1.0, help="gradient norm limit (%(default)s)")
    g.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    g.add_argument("--device", default="auto", help="auto, cpu, cuda, ... (%(default)s)")
    g.add_argument("--threads", type=count, help="CPU threads (torch's choice)")
    g.add_argument(
        "--precision", choices=("auto", "f32", "bf16"), default="auto", help="auto: bf16 on a GPU"
    )
    g.add_argument("--compile", action=switch, default=False, help="torch.compile")
    g.add_argument("--state", type=Path, metavar="FILE", help="saved here, resumed from here")
    g.add_argument("--save-seconds", type=float, default=300, help="between saves (%(default)s)")
    g.add_argument("--log", type=Path, metavar="FILE", help="losses as CSV")
    g.add_argument("--report", type=count, default=50, help="steps between reports (%(default)s)")
    g.add_argument("--eval-every", type=count, default=250, help="steps (%(default)s)")
    g.add_argument("--eval-windows", type=count, default=128, help="windows (%(default)s)")

    g = p.add_argument_group("the file")
    g.add_argument("--export", type=Path, metavar="FILE", help="write a GGUF file at the end")
    g.add_argument("--type", choices=("f16", "f32"), default="f16", help="of matrices")
    g.add_argument("--name", default="tales", help="general.name (%(default)s)")
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
    g.add_argument("--temperature", type=float, default=0.8, help="(%(default)s)")
    g.add_argument("--top-k", type=int, default=40, help="0: all (%(default)s)")
    return p


def main() -> int:
    args = make_parser().parse_args()
    args.lr = args.lr or LEARNING_RATES[args.optimiser]
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    name = args.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if args.export_only or args.evaluate or args.generate is not None:
            return use(args, device)
        if not args.text and args.task is None:
            raise UsageError("--text FILE or --task NAME is needed to train")
        args.position = args.position or "rope"
        return train(args, device)
    except OSError as error:
        print(f"train.py: {error.filename}: {error.strerror}", file=sys.stderr)
    except (UsageError, ValueError) as error:
        print(f"train.py: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
