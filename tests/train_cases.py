#!/usr/bin/env python3
"""Cases of train.py, in one process: train_cases.py FOLDER LOCUS TEXT.

FOLDER is an empty one to work in; LOCUS the program that reads what is exported; TEXT to train on.
Prints a line for each check that fails and "NN%: Checks: N, Failures: N, Errors: 0" at the end;
exits 1 if any failed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import gguf
import numpy as np
import torch

import train
from checkpoint import Tensor, write
from checks import Checks
from decoder import (
    SCHEMES,
    Decoder,
    DecoderConfig,
    metadata_of,
    parse_position,
    read_gguf,
)
from mixers import MIXERS
from selective_scan import scan
from texts import Windows
from training import LEARNING_RATES, Training, command_of
from vocabulary import metadata_of_tokenizer

SHAPE = [
    *("--n-embd", "16", "--n-layer", "2", "--n-head", "2", "--n-ff", "24"),
    *("--batch", "4", "--warmup", "500", "--threads", "1", "--report", "2", "--eval-every", "4"),
]
CONTEXT, STEPS = 32, 6
TOKENS = STEPS * 4 * CONTEXT


class Bench:
    """A folder with texts, and the trainer run in it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        self.text, self.held_out = folder / "text.txt", folder / "held-out.txt"
        half = len(text) // 2
        self.text.write_text(text[:half], encoding="utf-8")
        self.held_out.write_text(text[half : half + 3000], encoding="utf-8")
        self.other = folder / "other.txt"
        self.other.write_text(text[half + 3000 :], encoding="utf-8")
        self.texts = ["--text", str(self.text), "--eval", str(self.held_out), "--vocab", "300"]
        self.texts += ["--context", str(CONTEXT)]

    def path(self, name: str) -> Path:
        return self.folder / name

    def run(self, *options: str) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of train.py."""
        out, err, old = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["train.py", *options]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = train.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            sys.argv = old
        return status, out.getvalue(), err.getvalue()

    def train(self, name: str, *options: str) -> tuple[int, str, str]:
        """Trains NAME.gguf on the texts."""
        export = ["--export", str(self.path(f"{name}.gguf"))]
        return self.run(*self.texts, *SHAPE, "--tokens", str(TOKENS), *export, *options)


def contents(path: Path) -> tuple[dict[str, object], dict[str, bytes]]:
    """Metadata but for the command and the name, and tensors."""
    reader = gguf.GGUFReader(path)
    keys = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    for key in ("locus.training.command", "general.name"):
        keys.pop(key, None)
    return keys, {t.name: t.data.tobytes() for t in reader.tensors}


def log_of(path: Path) -> list[dict[str, str]]:
    """The rows of a log, but for the clock's columns."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in r.items() if k not in ("seconds", "tokens_per_second")} for r in rows]


def loss_of(bench: Bench, path: Path) -> float:
    """The held-out loss that --evaluate finds for a file."""
    _, out, _ = bench.run("--load", str(path), "--eval", str(bench.held_out), "--evaluate")
    words = out.split()
    return float(words[1]) if words[:1] == ["loss"] else math.nan


def check_learns(checks: Checks, bench: Bench) -> None:
    """The loss on held-out text falls, far below that of guessing, by either optimiser; what is
    read from the file has the same loss, and goes on as the text would."""
    text, words = bench.path("rhyme.txt"), "one two three four five six seven eight "
    text.write_text("\n<|endoftext|>\n".join(words * n for n in range(3, 40)))
    held_out = bench.path("rhyme-held-out.txt")
    held_out.write_text(words * 40)
    for optimiser in LEARNING_RATES:
        path = bench.path(f"{optimiser}.gguf")
        status, _, err = bench.run(
            "--text", str(text), "--eval", str(held_out), "--vocab", "300", "--context", "32",
            *SHAPE, "--optimiser", optimiser, "--tokens", "40k", "--report", "100",
            "--eval-every", "30", "--log", str(bench.path("rhyme.csv")), "--export", str(path),
        )  # fmt: skip
        rows = log_of(bench.path("rhyme.csv"))
        losses = [float(row["heldout_loss"]) for row in rows if row["heldout_loss"]]
        falls = status == 0 and len(losses) > 3 and losses[-1] < 0.5 < 2 < losses[0]
        checks.that(falls, f"{optimiser}: {losses}, {err[-300:]}")
        _, out, _ = bench.run("--load", str(path), "--eval", str(held_out), "--evaluate")
        near = out.startswith("loss ") and abs(float(out.split()[1]) - losses[-1]) < 0.02
        checks.that(near, f"{optimiser}: {out}, the log {losses[-1]}")
        _, out, _ = bench.run("--load", str(path), "--generate", "one two three four",
                              "--temperature", "0", "--n-tokens", "8")  # fmt: skip
        checks.that(out.startswith("one two three four five six seven"), f"{optimiser}: {out!r}")
    windows = Windows(np.arange(1000), 16, seed=3)
    steps = windows.per_epoch // 4
    inputs, targets = zip(*(windows.batch(i, 4) for i in range(steps)), strict=True)
    seen = torch.cat(inputs).flatten()
    checks.that(len(seen.unique()) == len(seen), "an epoch sees no token twice")
    checks.that(torch.equal(torch.cat(targets).flatten(), seen + 1), "a target is the next token")


def check_parameters(checks: Checks) -> None:
    """FIRE's threshold is learned as a multiple, KERPLE's limits hold and don't trap."""
    shape = DecoderConfig(n_vocab=40, n_embd=16, n_head=2, n_head_kv=2, head_dim=8, n_layer=1)
    fire = parse_position("fire", shape)
    name = "blk.0.position_fire.threshold"
    checks.that(float(fire.weight("position_fire.threshold", 0).detach()) == 1, "FIRE starts at 1")
    checks.that(float(fire.tensors()[name].detach()) == shape.n_context / 4, "the file has 64")
    again = parse_position("fire", shape, fire.tensors())
    positions = torch.arange(100)
    biases = [p.bias(0, *4 * [positions]).detach() for p in (fire, again)]
    checks.that(torch.equal(*biases), "and FIRE from a file is the same")
    for kind, most in (("log", 3.0), ("power", 2.0)):
        given = {
            "position_kerple.p": torch.tensor([0.001, 3.0]),
            "position_kerple.a": torch.tensor([-1.0, 1.0]),
        }
        kerple = parse_position(f"kerple:kind={kind}", shape, given)
        bias = kerple.by_distance(0, 3)
        p, a = torch.tensor([0.01, most]), torch.tensor([0.01, 1.0])
        expected = -p * torch.log1p(2 * a) if kind == "log" else -a * 2**p
        checks.that(torch.allclose(bias[:, 2], expected), f"kerple {kind}: {bias}")
        bias[:, 2].sum().backward()
        gradient = kerple.weight("position_kerple.a").grad
        checks.that(bool((gradient != 0).all()), f"kerple {kind}: gradients {gradient}")


def check_scan(checks: Checks) -> None:
    """The scan is its formula token by token, its gradients those of finite differences."""
    torch.manual_seed(5)
    n, batch, channels, state = 6, 2, 3, 4
    shapes = [(n, batch, channels)] * 2 + [(state, channels)] + [(n, batch, state)] * 2
    dt, x, a, b, c = given = [torch.randn(s, dtype=torch.float64) for s in shapes]
    dt.abs_()
    a.abs_().neg_()
    h, y = torch.zeros(batch, channels, state, dtype=torch.float64), []
    for t in range(n):
        h = torch.exp(dt[t, ..., None] * a.T) * h + x[t, ..., None] * b[t, :, None]
        y.append((h * c[t, :, None]).sum(-1))
    found = scan(*given, compiled=False)
    checks.that(torch.allclose(found, torch.stack(y), rtol=1e-12), f"scan: {found}, {y}")
    for values in given:
        values.requires_grad_()
    right = torch.autograd.gradcheck(
        lambda *t: scan(*t, compiled=False), given, raise_exception=False
    )
    checks.that(right, "scan: gradients")


def check_drawn(checks: Checks) -> None:
    """Positions that are drawn are a sorted sample, another one for each step of a training."""
    shape = DecoderConfig(n_vocab=40, n_embd=16, n_head=2, n_head_kv=2, head_dim=8, n_layer=1)
    rope, cpu = parse_position("rope:random=64", shape), torch.device("cpu")
    drawn = [rope.places(32, cpu).tolist() for _ in range(4)]
    checks.that(all(sorted(set(p)) == p and 0 <= p[0] <= p[-1] < 64 for p in drawn), f"{drawn}")
    checks.that(len({tuple(p) for p in drawn}) == 4, f"the same draws: {drawn}")
    rope.eval()
    checks.that(torch.equal(rope.places(32, cpu), rope.places(32, cpu)), "one draw to measure by")


def check_not_finite(checks: Checks, bench: Bench) -> None:
    """A run whose weights blow up says so, exports nothing, and keeps the state from before."""
    state = bench.path("blown.state")
    options = ("--position", "rope", "--state", str(state), "--lr", "1e30")
    status, _, err = bench.train("blown", *options, "--save-seconds", "0", "--report", "1")
    failed = status == 2 and "not finite" in err and not bench.path("blown.gguf").exists()
    checks.that(failed, f"blown: status {status}, {err[-300:]}")
    weights = torch.load(state, weights_only=True)["model"].values()
    checks.that(all(bool(w.isfinite().all()) for w in weights), "blown: the state is from before")


def check_commands(checks: Checks) -> None:
    """The command that a file keeps can be typed, and names nothing of the machine."""
    given = ["--text=a/b.txt", "c.txt", "--eval", "d.txt", "--state", "x/y", "--position", "t5",
             "--export=out/my model.gguf", "--name", "two words", "--about", "mine"]  # fmt: skip
    expected = (
        "train.py --text $TEXT --eval $EVAL --position t5 --export 'my model.gguf' "
        "--name 'two words'"
    )
    checks.that(command_of(given) == expected, command_of(given))


def check_same_start(checks: Checks) -> None:
    """All schemes start from the same weights but for their own."""
    kept: dict[str, torch.Tensor] | None = None
    for scheme in SCHEMES:
        torch.manual_seed(7)
        model = Decoder(DecoderConfig(n_vocab=40, n_embd=16, n_head=2, n_head_kv=2, head_dim=8,
                                      n_layer=2, n_ff=24, position=scheme.name))  # fmt: skip
        own = {k: v for k, v in model.state_dict().items() if not k.startswith("position.")}
        kept = kept or own
        same = own.keys() == kept.keys() and all(torch.equal(own[k], kept[k]) for k in own)
        checks.that(same, f"{scheme.name}: starts from the same weights")


def check_agrees(
    checks: Checks, bench: Bench, locus: Path, name: str, options: Sequence[str], served: int = 3
) -> None:
    """A model trains, and the program agrees with PyTorch about what came of it."""
    lengths = "16,32,80"
    status, _, err = bench.train(name, *options)
    checks.that(status == 0 and "nan" not in err, f"{name}: {err[-300:]}")
    path = bench.path(f"{name}.gguf")
    evaluate = ["--load", str(path), "--eval", str(bench.held_out), "--evaluate"]
    _, out, _ = bench.run(*evaluate, "--lengths", lengths)
    ours = subprocess.run(
        [locus, "extrapolate", "-q", "-m", path, "-f", bench.held_out, "--lengths", lengths,
         "--csv", bench.path("out.csv"), "--force"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    checks.that(ours.returncode == 0, f"{name}: locus extrapolate: {ours.stderr}")
    theirs = {r["length"]: r for r in csv.DictReader(io.StringIO(out))}
    with bench.path("out.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["nll"]]
    checks.that(len(rows) == len(theirs) == served, f"{name}: {len(rows)} lengths")
    for row in rows:
        other = theirs[row["length"]]
        near = abs(float(row["nll"]) - float(other["nll"])) < 2e-5
        same = near and row["tokens"] == other["tokens"]
        checks.that(same, f"{name}: locus {row}, PyTorch {other}")


def check_schemes(checks: Checks, bench: Bench, locus: Path) -> None:
    """Every scheme, and every mixer, alone and between layers of attention."""
    for scheme in SCHEMES:
        served = 2 if scheme.name == "learned" else 3  # its table ends at the trained length
        check_agrees(checks, bench, locus, scheme.name, ["--position", scheme.name], served)
    for mixer in MIXERS:
        check_agrees(checks, bench, locus, mixer, ["--mixer", mixer])
        check_agrees(checks, bench, locus, f"{mixer}-mixed", ["--mixer", f"attention,{mixer}"])
    check_agrees(checks, bench, locus, "mamba-alone", ["--mixer", "mamba", "--n-ff", "0"])


def check_resumed(checks: Checks, bench: Bench) -> None:
    """A run that is stopped, or whose export fails, and resumed is one that never was."""
    # A scheme with weights and draws.
    options = ("--position", "learned:beyond=wrap,random=64", "--about", "a text")
    bench.train("whole", *options, "--log", str(bench.path("whole.csv")))
    name = gguf.GGUFReader(bench.path("whole.gguf")).get_field("general.name").contents()
    checks.that(name == "whole", f"a file is called after itself: {name}")
    keys, _ = contents(bench.path("whole.gguf"))
    expected = {"training.tokens": TOKENS, "training.data": "a text"}
    found = {key: keys.get(f"locus.{key}") for key in expected}
    checks.that(found == expected, f"what the file says: {found}")
    loss = float(log_of(bench.path("whole.csv"))[-1]["heldout_loss"])
    checks.that(abs(keys["locus.training.loss"] - loss) < 1e-5, "the loss is the log's")

    state = bench.path("run.state")
    advance = Training.advance

    def stop_after(step: int, number: int) -> None:
        def advance_and_stop(self: Training) -> float:
            rate = advance(self)
            if self.step == step:
                os.kill(os.getpid(), number)
            return rate

        Training.advance = advance_and_stop

    resumable = (*options, "--state", str(state), "--log", str(bench.path("run.csv")))
    for step, number in ((3, signal.SIGINT), (5, signal.SIGTERM)):
        stop_after(step, number)
        status, _, err = bench.train("resumed", *resumable)
        checks.that(status == 128 + number, f"stopped at step {step}: status {status}, {err}")
        checks.that(not bench.path("resumed.gguf").exists(), "and nothing exported")
    bench.run("--state", str(state), "--export-only", "--export", str(bench.path("half.gguf")))
    keys, _ = contents(bench.path("half.gguf"))
    checks.that(keys.get("locus.training.tokens") == 5 * 4 * CONTEXT, "exported half-way")
    checks.that("locus.training.loss" not in keys, "without a loss of other weights")
    stop_after(STEPS, signal.SIGINT)  # in the last step: done all the same
    status, _, err = bench.train("resumed", *resumable)
    Training.advance = advance
    checks.that(status == 0, f"resumed: status {status}, {err}")
    same = contents(bench.path("resumed.gguf")) == contents(bench.path("whole.gguf"))
    checks.that(same, "the resumed model is the other")
    logs = [log_of(bench.path(f"{name}.csv")) for name in ("run", "whole")]
    same = logs[0] == logs[1] and [row["step"] for row in logs[0]] == ["2", "4", "6"]
    checks.that(same, f"the logs differ: {logs}")

    status, _, err = bench.train("x/resumed", *resumable)
    checks.that(status == 2 and "there is no folder" in err, f"an export to nowhere: {err}")
    bench.path("resumed.gguf").unlink()
    bench.train("resumed", *resumable)
    same = contents(bench.path("resumed.gguf")) == contents(bench.path("whole.gguf"))
    checks.that(same, "the finished state exports the same again")
    for other, words in (
        (("--position", "rope"), "asked rope:pairs=half"),
        (("--weight-decay", "0.5"), "weight-decay 0.1, asked 0.5"),
        (("--text", str(bench.other)), "other texts"),
        (("--tokens", "200"), f"tokens {TOKENS}, asked 200"),
        (("--eval", str(bench.other)), "other texts"),
        (("--tokenizer", str(bench.path("whole.csv"))), "is not the tokenizer of"),
    ):
        before = state.read_bytes()
        status, _, err = bench.train("other", *resumable, *other)
        one = status == 2 and words in err and err.count("\n") == 1
        checks.that(one and state.read_bytes() == before, f"{other}: {err}")


def check_best(checks: Checks, bench: Bench) -> None:
    """--weights best exports the weights of the lowest held-out loss, and says what they had."""
    # A warmup without end: the loss falls, then rises with the rate.
    options = ("--lr", "2", "--warmup", "4k", "--tokens", "2k", "--eval-every", "2")
    status, _, err = bench.train(
        "best", *options, "--weights", "best", "--log", str(bench.path("best.csv"))
    )
    checks.that(status == 0, err)
    keys, _ = contents(bench.path("best.gguf"))
    with bench.path("best.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["heldout_loss"]]
    row = min(rows, key=lambda row: float(row["heldout_loss"]))
    checks.that(row is not rows[-1], "the best isn't the last, or this shows nothing")
    loss = loss_of(bench, bench.path("best.gguf"))
    checks.that(abs(loss - float(row["heldout_loss"])) < 0.02, f"its weights: {loss}, {row}")
    same = keys["locus.training.tokens"] == int(row["tokens"])
    same = same and abs(keys["locus.training.loss"] - float(row["heldout_loss"])) < 1e-5
    checks.that(same, f"best: {keys['locus.training.tokens']}, {row}")


def check_short_held_out(checks: Checks, bench: Bench) -> None:
    """A held-out text shorter than a window has a loss all the same."""
    short = bench.path("tale.txt")
    short.write_text("Once upon a time there was a fox.")
    status, _, err = bench.train("short", "--position", "rope", "--eval", str(short))
    keys, _ = contents(bench.path("short.gguf"))
    checks.that(status == 0 and keys["locus.training.loss"] > 1, f"short: {err}")


def check_tasks(checks: Checks, bench: Bench) -> None:
    """Every task trains, and its file says which it was and how long."""
    for task, length in (("copy", 4), ("reverse", 4), ("addition", 2), ("passkey", 160)):
        path = bench.path(f"{task}.gguf")
        status, _, err = bench.run(
            "--task", task, "--task-length", str(length), *SHAPE, "--tokens", "500",
            "--export", str(path),
        )  # fmt: skip
        checks.that(status == 0, f"{task}: {err}")
        keys, _ = contents(path)
        says = (keys.get("locus.task"), keys.get("locus.task_length"))
        checks.that(says == (task, length), f"{task}: the file says {says}")
        checks.that("locus.training.exact_match" in keys, f"{task}: exact match is kept")


def check_links(checks: Checks, bench: Bench) -> None:
    """A link leads to what is written, and old files keep their modes."""
    for name in ("state", "csv", "json", "gguf"):
        bench.path(f"linked.{name}").symlink_to(f"behind.{name}")
    places = {"state": "--state", "csv": "--log", "json": "--tokenizer"}
    options = [part for k, v in places.items() for part in (v, str(bench.path(f"linked.{k}")))]
    for mode in (None, 0o640):
        status, _, err = bench.train("linked", *options)
        checks.that(status == 0, f"linked: {err}")
        for name in (*places, "gguf"):
            link, behind = bench.path(f"linked.{name}"), bench.path(f"behind.{name}")
            checks.that(link.is_symlink() and behind.stat().st_size > 0, f"linked.{name}")
            if mode is not None:
                checks.that(stat.S_IMODE(behind.stat().st_mode) == mode, f"{name}: its mode")
            behind.chmod(0o640)
    left = [path.name for path in bench.folder.iterdir() if path.name.startswith(".locus-")]
    checks.that(not left, f"temporary files {left}")


def check_refused(checks: Checks, bench: Bench) -> None:
    """Wrong requests end in one line that says what was found."""
    empty, binary, short = (bench.path(f"{name}.txt") for name in ("empty", "binary", "short"))
    empty.write_text("")
    binary.write_bytes(bytes(range(256)))
    short.write_text("Once upon a time.")
    letters = bench.path("letters.json")
    letters.write_text('{"tokens": ["a", "<|endoftext|>"], "merges": []}')
    run, half = bench.path("run.state"), bench.path("half.state")
    half.write_bytes(run.read_bytes()[: run.stat().st_size // 2])
    notes = bench.path("notes.state")
    notes.write_text("not a state")
    pointer = bench.path("pointer.gguf")
    pointer.write_text("version https://git-lfs.github.com/spec/v1\n")
    cut = bench.path("cut.state")
    whole = bench.path("whole.gguf").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    alone = [*SHAPE, "--tokens", "500"]
    load = ["--load", str(bench.path("whole.gguf"))]
    no_scheme = ["--load", str(bench.path("none.gguf"))]
    cases: list[tuple[Sequence[str], str]] = [
        ([], "--text FILE or --task NAME"),
        (["--text", str(bench.path("none.txt")), *alone], "No such file"),
        (["--text", str(bench.folder), *alone], "Is a directory"),
        (["--text", str(empty), *alone], "no document"),
        (["--text", str(binary), *alone], "not UTF-8"),
        (["--text", str(short), *alone], "tokens; a window of"),
        ([*bench.texts, *SHAPE, "--n-head", "3"], "--n-embd 16 is no multiple of --n-head 3"),
        ([*bench.texts, *SHAPE, "--position", "t6"], "unknown position scheme 't6'"),
        ([*bench.texts, *SHAPE, "--position", "t5:buckets=x"], "buckets=x is not an integer"),
        ([*bench.texts, *SHAPE, "--state", str(notes)], "not a state"),
        ([*bench.texts, *SHAPE, "--state", "-"], "expected the name of a file"),
        (["--load", str(pointer), "--generate", "x"], "a Git LFS pointer"),
        ([*bench.texts, *SHAPE, "--tokenizer", str(notes)], "no tokenizer"),
        ([*bench.texts, *SHAPE, "--device", "abacus"], "--device abacus"),
        ([*bench.texts, "--task", "copy", *alone], "expected one"),
        (["--task", "copy", "--context", "64", *alone], "--context"),
        (["--task", "passkey", "--task-length", "3", *alone], "the shortest"),
        ([*bench.texts, *SHAPE, "--export", str(bench.text)], "is a text, too"),
        ([*bench.texts, *SHAPE, "--state", str(cut), "--log", str(cut)], "is the state, too"),
        ([*bench.texts, *SHAPE, "--tokens", "1k", "--log", str(notes)], "is no log of train.py"),
        ([*bench.texts, *SHAPE, "--tokenizer", str(letters)], "no token '!'"),
        ([*bench.texts, *SHAPE, "--vocab", "257"], "at least 258"),
        ([*bench.texts, *SHAPE, "--position", "rope:factor=4"], "factor without a scaling"),
        ([*bench.texts, *SHAPE, "--position", "sandwich:dim=7"], "dim=7 is not even"),
        ([*bench.texts, *SHAPE, "--position", "learned:factor=2"], "beyond=interpolate"),
        ([*bench.texts, *SHAPE, "--mixer", "attention,wine"], "--mixer wine"),
        ([*bench.texts, *SHAPE, "--mixer", "retention", "--position", "rope"], "no layer attends"),
        ([*bench.texts, *SHAPE, "--value-dim", "8"], "no layer is retention"),
        ([*load, *SHAPE], "--load needs"),
        ([*load, "--export-only", "--export", str(bench.path("x"))], "exports a --state"),
        (["--state", str(half), "--generate", "x"], "not a state"),
        (["--state", str(run), "--position", "alibi", "--generate", "x"], "--position overrides"),
        (["--state", str(run), "--export-only", "--export", str(run)], "is the state, too"),
        (["--state", str(run), "--export-only"], "belong together"),
        ([*load, "--task", "copy", "--evaluate"], "tokens are bytes"),
        ([*load, "--evaluate", "--eval", str(empty)], "nothing to predict"),
        ([*load, "--evaluate", "--eval", str(empty), "--lengths", "16"], "nothing to predict"),
        ([*load, "--evaluate", "--eval", str(binary), "--lengths", "16"], "not UTF-8"),
        (["--load", str(notes), "--generate", "x"], "not a GGUF file"),
        (["--load", str(cut), "--generate", "x"], "not a GGUF file"),
        (["--state", str(bench.path("no.state")), "--generate", "x"], "no such state"),
        ([*load, "--evaluate"], "--eval FILE"),
        ([*no_scheme, "--position", "relative", "--generate", "x"], "has no position_bias.weight"),
        ([*load, "--position", "kerple", "--generate", "x"], "has no position_kerple.p"),
    ]
    for options, words in cases:
        before = {p: p.read_bytes() for p in bench.folder.iterdir()}
        status, out, err = bench.run(*options)
        one = status == 2 and not out and err.count("\n") == 1 and words in err
        checks.that(one, f"{' '.join(options)}: status {status}, {err[-400:]!r}")
        after = {p: p.read_bytes() for p in bench.folder.iterdir()}
        checks.that(before == after, f"{' '.join(options)}: left {set(after) - set(before)}")


def check_unknown_keys(checks: Checks, bench: Bench) -> None:
    """A file that means something this decoder can't compute is refused, not computed wrongly."""
    reader = gguf.GGUFReader(bench.path("none.gguf"))
    for key, value in (("attention.window", 8), ("norm_position", "post"), ("gated", None)):
        path = bench.path("odd.gguf")
        writer = gguf.GGUFWriter(path, "locus")
        for name, field in reader.fields.items():
            if name.startswith("locus.") and name != f"locus.{key}":
                writer.add_key_value(name, field.contents(), field.types[0])
        if isinstance(value, int):
            writer.add_uint32(f"locus.{key}", value)
        elif isinstance(value, str):
            writer.add_string(f"locus.{key}", value)
        for tensor in reader.tensors:
            writer.add_tensor(tensor.name, np.array(tensor.data))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        try:
            read_gguf(path)
            found = "nothing"
        except ValueError as error:
            found = str(error)
        # Without `gated` the default is false, and ffn_gate has no place.
        checks.that((key if value else "ffn_gate") in found, f"{key}: {found}")


def check_tokenizers(checks: Checks, bench: Bench) -> None:
    """A file whose tokenizer does more than the trainer's is refused."""
    model, tokenizer = read_gguf(bench.path("none.gguf"))
    last = len(tokenizer.tokens) - 1
    for key, value in (
        ("pre", "llama-bpe"),
        ("model", "llama"),
        ("add_bos_token", True),
        ("add_eos_token", True),
        ("add_space_prefix", True),
        ("token_type", [1] * last + [4]),
    ):
        path = bench.path("odd.gguf")
        made = metadata_of_tokenizer(tokenizer) | {f"tokenizer.ggml.{key}": value}
        metadata = metadata_of(model.config, model.position.spec()) | made
        tensors = [
            Tensor.of(name, values.detach().numpy())
            for name, values in model.checkpoint_tensors().items()
        ]
        write(path, "locus", metadata, tensors)
        try:
            read_gguf(path)
            found = "nothing"
        except ValueError as error:
            found = str(error)
        words = "user-defined" if key == "token_type" else str(value) if key == "pre" else key
        checks.that(words in found or "llama" in found, f"{key}: {found}")


def main() -> None:
    folder, locus, text = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    checks, bench = Checks(), Bench(folder, text.read_text(encoding="utf-8"))
    check_commands(checks)
    check_parameters(checks)
    check_learns(checks, bench)
    check_scan(checks)
    check_drawn(checks)
    check_not_finite(checks, bench)
    check_same_start(checks)
    check_schemes(checks, bench, locus)
    check_resumed(checks, bench)
    check_best(checks, bench)
    check_short_held_out(checks, bench)
    check_tasks(checks, bench)
    check_links(checks, bench)
    check_refused(checks, bench)
    check_unknown_keys(checks, bench)
    check_tokenizers(checks, bench)
    checks.report()


if __name__ == "__main__":
    main()
