"""A training run: what it learns from, its optimisers, and its steps.

    batch -> loss -> gradients, clipped -> optimisers     a step
    every --report steps: a line and a row of the log; every --eval-every: the held-out loss, too

What a step sees follows from the arguments and its number, so that a run that goes on from its
state is the one that was never stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import math
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from checkpoint import Value
from decoder import Decoder, DecoderConfig
from evaluation import window_loss
from mixers import HEADLESS
from output import Failure, write_text
from progress import Log, save_state
from tasks import IGNORED, TASKS, UNSEEN, TaskBatches, exact_match
from texts import Windows, read_documents
from vocabulary import ByteBpe, Bytes, tokenizer_from_json

LEARNING_RATES = {"adamw": 2e-3, "muon": 5e-3}

# Options, beside the shape, that a resumed run must have the same.
KEPT = (
    "tokens", "batch", "optimiser", "lr", "warmup", "weight_decay", "clip", "seed", "precision",
    "eval_windows", "vocab", "task",
)  # fmt: skip


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --------------------------------------------------------------------------------------------
# What it learns from
# --------------------------------------------------------------------------------------------


def make_tokenizer(
    args: argparse.Namespace, documents: list[str], state: dict[str, Any] | None
) -> ByteBpe | Bytes:
    """The state's tokenizer, or that in the file --tokenizer; a new one where there is no file,
    kept there."""
    if state is not None:
        text: str = state["tokenizer"]
        other = args.tokenizer is not None and args.tokenizer.exists()
        if other and args.tokenizer.read_text(encoding="utf-8", errors="replace") != text:
            raise Failure(f"{args.tokenizer}: is not the tokenizer of {args.state}")
        return tokenizer_from_json(text)
    if args.tokenizer is not None and args.tokenizer.exists():
        try:
            return tokenizer_from_json(args.tokenizer.read_text(encoding="utf-8"))
        except ValueError as error:
            raise Failure(f"{args.tokenizer}: no tokenizer of train.py: {error}") from None
    tokenizer = ByteBpe.train(documents, args.vocab)
    if args.tokenizer is not None:
        write_text(args.tokenizer, tokenizer.to_json())
    return tokenizer


class TextSource:
    """Windows of texts, and the loss on held-out ones."""

    def __init__(self, args: argparse.Namespace, state: dict[str, Any] | None) -> None:
        held_out = read_documents(args.eval)
        known = set(held_out)
        documents = [d for d in read_documents(args.text) if d not in known]
        if not documents:
            raise Failure("the texts hold no document that isn't in the held-out ones, too")
        self.tokenizer = make_tokenizer(args, documents, state)
        self.n_context, self.n_windows = args.context, args.eval_windows
        stream = self.tokenizer.encode_documents(documents)
        self.windows = Windows(stream, self.n_context, args.seed)
        if self.windows.per_epoch < 1:
            raise Failure(
                f"the texts have {len(stream)} tokens; a window of {self.n_context} and its random "
                f"start take {2 * self.n_context}"
            )
        self.batch = self.windows.batch
        self.per_step = args.batch * self.n_context
        self.held_out = self.tokenizer.encode_documents(held_out)
        self.hash = hashlib.sha256("\0".join((*documents, "", *held_out)).encode()).hexdigest()
        self.remarks: dict[str, Value] = {}
        self.about = (
            f"{len(documents)} documents, {len(stream)} tokens; held out {len(self.held_out)}"
        )

    def measure(self, model: Decoder, device: torch.device) -> dict[str, float]:
        """The held-out loss in nats a token, if there is a held-out text."""
        if len(self.held_out) < 2:
            return {}
        loss, _ = window_loss(model, self.held_out, self.n_context, device, self.n_windows)
        return {"loss": loss}


class TaskSource:
    """Examples of a task, and the loss and exact matches on others."""

    N_BATCH, N_TRIALS = 64, 64

    def __init__(self, args: argparse.Namespace) -> None:
        self.task = TASKS[args.task]
        self.length = args.task_length or self.task.trained
        if self.length < self.task.shortest:
            raise Failure(
                f"--task-length {self.length}: the shortest of {args.task} is {self.task.shortest}"
            )
        self.n_context = self.task.longest(self.length)
        self.tokenizer, self.seed = Bytes(), args.seed
        self.batch = TaskBatches(self.task, self.length, args.seed).batch
        self.per_step = args.batch * (self.n_context - 1)
        self.hash = ""  # the task's name and length say all
        self.remarks: dict[str, Value] = {"task": args.task, "task_length": self.length}
        self.about = f"{args.task} up to length {self.length}"

    def measure(self, model: Decoder, device: torch.device) -> dict[str, float]:
        """The loss in nats a token, and the share of exact matches at the trained length."""
        unseen = self.seed + UNSEEN
        inputs, targets = TaskBatches(self.task, self.length, unseen).batch(0, self.N_BATCH)
        with torch.no_grad():
            logits = model(inputs.to(device)).flatten(0, 1).float()
            loss = F.cross_entropy(logits, targets.to(device).flatten(), ignore_index=IGNORED)
        right = exact_match(
            model, self.task, self.length, trials=self.N_TRIALS, seed=unseen, device=device
        )
        return {"loss": loss.item(), "exact_match": right}


# --------------------------------------------------------------------------------------------
# The model and its optimisers
# --------------------------------------------------------------------------------------------


def config_from(args: argparse.Namespace, n_vocab: int, n_context: int) -> DecoderConfig:
    n_head, head_dim = args.n_head, args.head_dim
    if {*args.mixer.split(",")} <= {*HEADLESS}:
        n_head, head_dim = 1, args.n_embd
    elif head_dim is None and args.n_embd % n_head != 0:
        raise Failure(
            f"--n-embd {args.n_embd} is no multiple of --n-head {args.n_head}; give --head-dim, too"
        )
    return DecoderConfig(
        n_vocab=n_vocab,
        n_embd=args.n_embd,
        n_layer=args.n_layer,
        n_head=n_head,
        n_head_kv=args.n_head_kv or n_head,
        head_dim=head_dim or args.n_embd // n_head,
        n_ff=args.n_ff,
        n_context=n_context,
        norm=args.norm,
        activation=args.activation,
        gated=args.gated,
        parallel_residual=args.parallel_residual,
        embedding_norm=args.embedding_norm,
        embedding_scale=args.embedding_scale,
        tied=args.tied,
        position=args.position,
        mixer=args.mixer,
        value_dim=args.value_dim,
    )


def learning_rate(tokens: int, args: argparse.Namespace) -> float:
    """After so many tokens: linear warmup, then a cosine to a tenth of --lr at --tokens."""
    if tokens < args.warmup:
        return args.lr * (tokens + 1) / args.warmup
    done = min(1.0, (tokens - args.warmup) / max(1, args.tokens - args.warmup))
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def make_optimisers(model: Decoder, args: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """AdamW for everything; or Muon for the matrices inside the blocks, with updates as large as
    AdamW's, and AdamW for the rest. Vectors, what is no matrix that rows are multiplied by, and the
    position scheme's weights, its matrices too, are AdamW's and don't decay."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }
    inner = {name for name in matrices if name.startswith("blocks.")}
    by_muon = inner if args.optimiser == "muon" else set()
    decay = [p for name, p in named if name in matrices - by_muon]
    no_decay = [p for name, p in named if name not in matrices]
    groups = [
        {"params": decay, "weight_decay": args.weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    out: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=True)
    ]
    if by_muon:
        out.append(
            torch.optim.Muon(
                [p for name, p in named if name in by_muon],
                lr=args.lr, weight_decay=args.weight_decay, adjust_lr_fn="match_rms_adamw",
            )
        )  # fmt: skip
    return out


# --------------------------------------------------------------------------------------------
# The run
# --------------------------------------------------------------------------------------------


class Training:
    """A run, where it is, and what was measured last."""

    def __init__(
        self, args: argparse.Namespace, device: torch.device, state: dict[str, Any] | None
    ) -> None:
        self.args, self.device = args, device
        self.source = TaskSource(args) if args.task is not None else TextSource(args, state)
        config = config_from(args, len(self.source.tokenizer.tokens), self.source.n_context)
        torch.manual_seed(args.seed)
        self.model = Decoder(config).to(device)
        self.optimisers = make_optimisers(self.model, args)
        self.last_step = math.ceil(args.tokens / self.source.per_step)
        self.step, self.seconds = 0, 0.0
        self.measured: dict[str, Value] = {}  # by its keys in the file
        self.best: dict[str, Any] | None = None
        # Since the last report: losses; when that was, or this process began, and the steps since.
        self.sum_loss, self.n_summed = torch.zeros((), device=device), 0
        self.clock, self.n_timed = time.monotonic(), 0
        if state is not None:
            self.resume(state)
        bf16 = args.precision == "bf16" or (args.precision == "auto" and device.type == "cuda")
        self.precision = (
            torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()
        )
        self.loss_of = torch.compile(self.plain_loss) if args.compile else self.plain_loss

    def plain_loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        logits = self.model(inputs).flatten(0, 1).float()
        return F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED)

    # ---- the state

    def kept(self) -> dict[str, Any]:
        """What a resumed run must have the same, by the names of options."""
        kept = dataclasses.asdict(self.model.config)
        kept["context"] = kept.pop("n_context")
        kept["position"] = self.model.position.spec()
        kept |= {key: getattr(self.args, key) for key in KEPT}
        return {"task": kept.pop("task"), **kept, "texts": self.source.hash}

    def state(self) -> dict[str, Any]:
        return {
            "config": dataclasses.asdict(self.model.config),
            "kept": self.kept(),
            "tokenizer": self.source.tokenizer.to_json(),
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
            "tokens": self.step * self.source.per_step,
            "since_report": (self.sum_loss.item(), self.n_summed),
            "seconds": self.seconds + time.monotonic() - self.clock,
            "best": self.best,
            "measured": self.measured,
            "remarks": self.remarks(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        for key, value in self.kept().items():
            if key not in state["kept"]:
                raise Failure(f"{self.args.state}: is of another train.py: it has no {key}")
            made = state["kept"][key]
            if key == "texts" and value != made:
                raise Failure(f"{self.args.state}: was made with other texts")
            if value != made:
                name = key.replace("_", "-")
                raise Failure(f"{self.args.state}: was made with {name} {made}, asked {value}")
        self.model.load_state_dict(state["model"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.step, self.seconds, self.best = state["step"], state["seconds"], state["best"]
        self.measured = state["measured"]
        sum_loss, self.n_summed = state["since_report"]
        self.sum_loss.fill_(sum_loss)

    def save(self) -> None:
        """Nothing that isn't finite replaces a good state."""
        self.check_finite()
        if self.args.state is not None:
            save_state(self.args.state, self.state())

    def check_finite(self) -> None:
        values = (self.sum_loss, *self.model.parameters())
        if not all(torch.isfinite(value).all() for value in values):
            raise Failure(f"weights are not finite after step {self.step}: try a smaller --lr")

    # ---- a step

    def advance(self) -> float:
        """One step; returns its learning rate."""
        rate = learning_rate(self.step * self.source.per_step, self.args)
        for group in (group for o in self.optimisers for group in o.param_groups):
            group["lr"] = rate
        inputs, targets = self.source.batch(self.step, self.args.batch)
        torch.manual_seed((self.args.seed << 32) + self.step)  # of positions that are drawn
        with self.precision:
            loss = self.loss_of(inputs.to(self.device), targets.to(self.device))
        self.model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        for optimiser in self.optimisers:
            optimiser.step()
        self.step += 1
        self.sum_loss += loss.detach()
        self.n_summed += 1
        self.n_timed += 1
        return rate

    def measure(self) -> dict[str, float]:
        found = self.source.measure(self.model.eval(), self.device)
        self.model.train()
        self.measured = {"training.tokens": self.step * self.source.per_step}
        self.measured |= {f"training.{key}": value for key, value in found.items()}
        if "loss" in found and (self.best is None or found["loss"] < self.best["loss"]):
            weights = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
            self.best = {
                "loss": found["loss"],
                "model": weights,
                "measured": self.measured,
            }
        return found

    def report(self, log: Log, rate: float) -> None:
        """A line and a row of the log, with what is measured every --eval-every steps and at the
        end."""
        self.check_finite()
        mean = self.sum_loss.item() / self.n_summed
        spell = time.monotonic() - self.clock
        self.seconds += spell
        tokens, per_step = self.step * self.source.per_step, self.source.per_step
        speed = self.n_timed * per_step / spell
        at_end = self.step == self.last_step
        found = self.measure() if at_end or self.step % self.args.eval_every == 0 else {}
        held_out, exact = found.get("loss"), found.get("exact_match")
        left = (self.last_step - self.step) * per_step / speed / 60
        say(
            f"step {self.step} tokens {tokens} loss {mean:.4f}"
            + ("" if held_out is None else f" held out {held_out:.5f}")
            + ("" if exact is None else f" exact {exact:.3f}")
            + f" lr {rate:.2e} {speed:.0f} tokens/s {left:.0f} min left"
        )
        log.row(
            self.step,
            tokens,
            f"{self.seconds:.1f}",
            f"{rate:.4e}",
            f"{mean:.5f}",
            "" if held_out is None else f"{held_out:.5f}",
            "" if exact is None else f"{exact:.4f}",
            f"{speed:.0f}",
        )
        self.sum_loss.zero_()
        self.n_summed = self.n_timed = 0
        self.clock = time.monotonic()

    def run(self) -> int:
        """To the last step, or to SIGINT or SIGTERM; returns the signal's number or 0."""
        log = Log(self.args.log, self.step)
        n_parameters = sum(p.numel() for p in self.model.parameters())
        say(
            f"{self.source.about}; {n_parameters} parameters; {self.model.position.spec()}; "
            f"{self.device}, {torch.get_num_threads()} threads; {self.args.optimiser}; "
            f"step {self.step} of {self.last_step}"
        )
        stopped_by = 0

        def stop(number: int, _frame: object) -> None:
            nonlocal stopped_by
            stopped_by = number

        signals = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, stop) for number in signals]
        self.clock = saved_at = time.monotonic()
        try:
            while self.step < self.last_step and stopped_by == 0:
                rate = self.advance()
                every = (self.args.report, self.args.eval_every, self.last_step)
                if any(self.step % n == 0 for n in every):
                    self.report(log, rate)
                if time.monotonic() - saved_at >= self.args.save_seconds:
                    self.save()
                    saved_at = time.monotonic()
            self.save()
        finally:
            log.close()
            for number, handler in zip(signals, before, strict=True):
                signal.signal(number, handler)
        return stopped_by if self.step < self.last_step else 0

    # ---- what is kept of it

    def remarks(self) -> dict[str, Value]:
        """What the file says of its making, but for what was measured."""
        remarks: dict[str, Value] = {"training.command": command_of(sys.argv[1:])}
        if self.args.about:
            remarks["training.data"] = self.args.about
        return remarks | self.source.remarks


def command_of(argv: list[str]) -> str:
    """What to type for the same model: without what doesn't change it, texts as variables."""
    left_out = ("--state", "--log", "--threads", "--save-seconds", "--device", "--about")
    files = ("--tokenizer", "--export")
    words, option = ["train.py"], ""
    for given in argv:
        for word in given.split("=", 1) if given.startswith("--") else [given]:
            if word.startswith("--"):
                option = word
            if option in ("--text", "--eval"):
                words += [option, f"${option[2:].upper()}"] if word == option else []
            elif option not in left_out:
                words.append(shlex.quote(Path(word).name if option in files else word))
    return " ".join(words)
