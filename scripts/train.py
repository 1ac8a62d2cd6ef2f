#!/usr/bin/env python3
"""Train a small `locus` model on plain text and write it as GGUF.

Texts are cut into documents at lines that read `<|endoftext|>`; exact duplicates, and documents
that are also in the held-out texts, are dropped. A byte-level BPE is trained on them, and the
decoder on contiguous windows of the encoded stream. Everything follows from --seed: an
interrupted run that resumes from its --state sees the same batches in the same order.

    train.py --text stories.txt --eval held-out.txt --tokens 30M --state run.pt --log run.csv \\
             --export model.gguf
    train.py --state run.pt --eval held-out.txt --evaluate
    train.py --load model.gguf --generate "Once upon a time"
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import json
import math
import os
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor

from decoder import (
    ACTIVATIONS,
    END_OF_TEXT,
    NORMS,
    SCHEMES,
    ByteBpe,
    Decoder,
    DecoderConfig,
    read_gguf,
    write_gguf,
)

END_OF_TEXT_LINE = re.compile(rf"^[ \t]*{re.escape(END_OF_TEXT)}[ \t\r]*$", re.MULTILINE)
LOG_COLUMNS = (
    "step",
    "tokens",
    "seconds",
    "learning_rate",
    "train_loss",
    "heldout_loss",
    "tokens_per_second",
)


class UsageError(Exception):
    """A request that cannot be served; the message is one line."""


# --------------------------------------------------------------------------------------------
# Texts and tokens
# --------------------------------------------------------------------------------------------


def read_documents(paths: list[Path]) -> list[str]:
    """The documents of `paths` in order, stripped, without empty ones and duplicates."""
    seen: dict[str, None] = {}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for part in END_OF_TEXT_LINE.split(text):
            if document := part.strip():
                seen.setdefault(document)
    return list(seen)


def train_tokenizer(documents: list[str], n_vocab: int) -> ByteBpe:
    """GPT-2's kind of BPE: the 256 bytes first, then the merges, the end of text last."""
    if n_vocab < 257:
        raise UsageError(f"--vocab {n_vocab}: at least 257 are needed")
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=n_vocab - 1, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(documents, trainer)
    vocab = backend.get_vocab()
    tokens = sorted(vocab, key=vocab.__getitem__)
    pairs = json.loads(backend.to_str())["model"]["merges"]
    return ByteBpe([*tokens, END_OF_TEXT], [f"{a} {b}" for a, b in pairs])


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


# --------------------------------------------------------------------------------------------
# Evaluation and samples
# --------------------------------------------------------------------------------------------


@torch.no_grad()
def evaluate(
    model: Decoder, stream: np.ndarray, device: torch.device, max_windows: int = 0
) -> tuple[float, int]:
    """Mean loss in nats a token over non-overlapping windows of the trained length, and the
    number of tokens it is over: all but the first, or those of `max_windows` windows."""
    n = model.config.n_context
    tokens = torch.from_numpy(stream.astype(np.int64))
    starts = range(0, len(stream) - 1, n)
    whole = [s for s in starts if s + n < len(stream)]
    groups = [whole[i : i + 32] for i in range(0, len(whole), 32)]
    groups += [[s] for s in starts if s + n >= len(stream)]
    if max_windows > 0:
        spread = whole[:: max(1, len(whole) // max_windows)][:max_windows]
        groups = [spread[i : i + 32] for i in range(0, len(spread), 32)]
    total, count = 0.0, 0
    for group in groups:
        rows = torch.stack([tokens[s : s + n + 1] for s in group]).to(device)
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten(), reduction="sum")
        total += loss.item()
        count += rows[:, 1:].numel()
    return total / count, count


@torch.no_grad()
def generate(
    model: Decoder,
    tokenizer: ByteBpe,
    prompt: str,
    device: torch.device,
    *,
    n_tokens: int,
    temperature: float,
    top_k: int,
    seed: int,
) -> str:
    """Continue `prompt` up to an end of text. Contexts past the trained length lose their start."""
    rng = torch.Generator().manual_seed(seed)
    ids = [tokenizer.end_of_text, *tokenizer.encode(prompt)]
    for _ in range(n_tokens):
        window = torch.tensor([ids[-model.config.n_context :]], device=device)
        logits = model(window)[0, -1].float().cpu() / temperature
        if 0 < top_k < len(logits):
            logits[logits < logits.topk(top_k).values[-1]] = -math.inf
        token = int(torch.multinomial(logits.softmax(-1), 1, generator=rng))
        if token == tokenizer.end_of_text:
            break
        ids.append(token)
    return tokenizer.decode(ids[1:])


# --------------------------------------------------------------------------------------------
# State
# --------------------------------------------------------------------------------------------


def save_state(path: Path, state: dict[str, Any]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def load_state(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise UsageError(f"{path}: no such state")
    return torch.load(path, map_location="cpu", weights_only=True)


def model_from_state(state: dict[str, Any], weights: str) -> tuple[Decoder, ByteBpe]:
    model = Decoder(DecoderConfig(**state["config"]))
    chosen = state["model"]
    if weights == "best" and state["best"] is not None:
        chosen = state["best"]["model"]
    model.load_state_dict(chosen)
    return model, ByteBpe.from_json(state["tokenizer"])


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


# --------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------


def learning_rate(tokens: int, args: argparse.Namespace) -> float:
    """Linear warmup, then a cosine to a tenth, both over tokens."""
    if tokens < args.warmup:
        return args.lr * (tokens + 1) / args.warmup
    done = min(1.0, (tokens - args.warmup) / max(1, args.tokens - args.warmup))
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimiser(model: Decoder, args: argparse.Namespace) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": args.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=True)


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


def prepare(
    args: argparse.Namespace, documents: list[str], state: dict[str, Any] | None
) -> tuple[Decoder, ByteBpe]:
    """The tokenizer and the model to train: from the state, or new."""
    if state is not None:
        tokenizer = ByteBpe.from_json(state["tokenizer"])
    elif args.tokenizer is not None and args.tokenizer.exists():
        tokenizer = ByteBpe.from_json(args.tokenizer.read_text(encoding="utf-8"))
    else:
        tokenizer = train_tokenizer(documents, args.vocab)
        if args.tokenizer is not None:
            args.tokenizer.write_text(tokenizer.to_json(), encoding="utf-8")
    config = config_from(args, len(tokenizer.tokens))
    if state is not None and dataclasses.asdict(config) != state["config"]:
        for key, value in dataclasses.asdict(config).items():
            if value != state["config"][key]:
                raise UsageError(f"{args.state}: has {key}={state['config'][key]}, asked {value}")
    torch.manual_seed(args.seed)
    model = Decoder(config)
    if state is not None:
        model.load_state_dict(state["model"])
    return model, tokenizer


def train(args: argparse.Namespace, device: torch.device) -> int:
    held_out = read_documents(args.eval)
    known = set(held_out)
    documents = [d for d in read_documents(args.text) if d not in known]
    state = load_state(args.state) if args.state is not None and args.state.exists() else None
    model, tokenizer = prepare(args, documents, state)
    model.to(device)
    optimiser = make_optimiser(model, args)
    step, seconds, best = 0, 0.0, None
    if state is not None:
        if (state["seed"], state["batch"]) != (args.seed, args.batch):
            raise UsageError(f"{args.state}: was made with another --seed or --batch")
        optimiser.load_state_dict(state["optimiser"])
        step, seconds, best = state["step"], state["seconds"], state["best"]

    windows = Windows(tokenizer.encode_documents(documents), args.context, args.seed)
    if windows.per_epoch < 1:
        raise UsageError(f"the texts have {len(windows.stream)} tokens, too few for one window")
    eval_stream = tokenizer.encode_documents(held_out)
    per_step = args.batch * args.context
    last_step = math.ceil(args.tokens / per_step)
    n_parameters = sum(p.numel() for p in model.parameters())
    say(
        f"{len(documents)} documents, {len(windows.stream)} tokens; held out {len(eval_stream)}; "
        f"{n_parameters} parameters; {model.position.spec()}; {device}, "
        f"{torch.get_num_threads()} threads; step {step} of {last_step}"
    )

    forward = torch.compile(model) if args.compile else model
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
                "tokenizer": tokenizer.to_json(),
                "model": model.state_dict(),
                "optimiser": optimiser.state_dict(),
                "step": step,
                "seconds": seconds,
                "seed": args.seed,
                "batch": args.batch,
                "best": best,
            }
            save_state(args.state, made)

    log = Log(args.log, step)
    clock = saved = time.monotonic()
    sum_loss, n_loss, spell = torch.zeros((), device=device), 0, 0.0
    while step < last_step and stopped_by == 0:
        rate = learning_rate(step * per_step, args)
        for group in optimiser.param_groups:
            group["lr"] = rate
        inputs, targets = (t.to(device) for t in windows.batch(step, args.batch))
        with precision:
            logits = forward(inputs)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimiser.step()
        step += 1
        sum_loss += loss.detach()
        n_loss += 1
        now = time.monotonic()
        seconds, spell, clock = seconds + now - clock, spell + now - clock, now
        if step % args.report == 0 or step == last_step:
            mean, speed = sum_loss.item() / n_loss, n_loss * per_step / spell
            held = ""
            if len(eval_stream) > 1 and (step % args.eval_every == 0 or step == last_step):
                value, _ = evaluate(model, eval_stream, device, args.eval_windows)
                held = f"{value:.5f}"
                if best is None or value < best["loss"]:
                    weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
                    best = {"loss": value, "step": step, "model": weights}
            if not math.isfinite(mean):
                raise UsageError(f"the loss is {mean} at step {step}: try a smaller --lr")
            left = (last_step - step) * per_step / speed / 60
            say(
                f"step {step} tokens {step * per_step} loss {mean:.4f}"
                + (f" held out {held}" if held else "")
                + f" lr {rate:.2e} {speed:.0f} tokens/s {left:.0f} min left"
            )
            log.row(
                step,
                step * per_step,
                f"{seconds:.1f}",
                f"{rate:.4e}",
                f"{mean:.5f}",
                held,
                f"{speed:.0f}",
            )
            sum_loss.zero_()
            n_loss, spell = 0, 0.0
        if time.monotonic() - saved >= args.save_seconds:
            save()
            saved = time.monotonic()
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
        write_gguf(args.export, chosen, tokenizer, args.name, args.type)
        say(f"wrote {args.export}")
    return 0


def use(args: argparse.Namespace, device: torch.device) -> int:
    """Export, evaluate or sample a model that exists."""
    if args.load is not None:
        model, tokenizer = read_gguf(args.load)
    elif args.state is not None:
        model, tokenizer = model_from_state(load_state(args.state), args.weights)
    else:
        raise UsageError("--export-only, --evaluate and --generate need --state or --load")
    model.to(device).eval()
    if args.export_only:
        if args.export is None:
            raise UsageError("--export-only needs --export FILE")
        write_gguf(args.export, model, tokenizer, args.name, args.type)
        say(f"wrote {args.export}")
    if args.evaluate:
        documents = read_documents(args.eval)
        if not documents:
            raise UsageError("--evaluate needs --eval FILE")
        stream = tokenizer.encode_documents(documents)
        loss, count = evaluate(model, stream, device)
        n_bytes = sum(len(d.encode()) + 1 for d in documents)
        print(
            f"loss {loss:.5f} nats/token, perplexity {math.exp(loss):.4f}, "
            f"{loss * count / n_bytes / math.log(2):.4f} bits/byte, {count} tokens, "
            f"windows of {model.config.n_context}"
        )
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
    """A positive whole number, with k, M or G for powers of a thousand."""
    scales = {"k": 10**3, "M": 10**6, "G": 10**9}
    scale = scales.get(text[-1:], 1)
    try:
        value = round(float(text.rstrip("kMG")) * scale)
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number such as 500k or 30M")
    return value


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

    g = p.add_argument_group("model")
    names = ", ".join(s.name for s in SCHEMES)
    g.add_argument(
        "--position",
        metavar="SPEC",
        default="rope:pairs=half,base=10000",
        help=f"NAME[:key=value[,key=value]...], NAME one of {names} (%(default)s)",
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
    g.add_argument("--lr", type=float, default=2e-3, help="highest learning rate (%(default)s)")
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

    g = p.add_argument_group("instead of training")
    g.add_argument("--export-only", action="store_true", help="export the state as it is")
    g.add_argument("--evaluate", action="store_true", help="loss and perplexity on --eval")
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
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    name = args.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if args.export_only or args.evaluate or args.generate is not None:
            return use(args, device)
        if not args.text:
            raise UsageError("--text FILE is needed to train")
        return train(args, device)
    except OSError as error:
        print(f"train.py: {error.filename}: {error.strerror}", file=sys.stderr)
    except (UsageError, ValueError) as error:
        print(f"train.py: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
