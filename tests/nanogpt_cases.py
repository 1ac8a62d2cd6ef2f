#!/usr/bin/env python3
"""Cases of convert_nanogpt.py, in one process: nanogpt_cases.py FOLDER LOCUS.

FOLDER is an empty one to work in, LOCUS the program. Checkpoints of nanoGPT and llm.c are written
as those do, converted, and run beside a forward pass that is written out here. Needs PyTorch.
Prints a line for each check that fails and "NN%: Checks: N, Failures: N, Errors: 0" at the end;
exits 1 if any failed.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import gguf
import numpy as np
import torch
from torch.nn import functional

import convert_nanogpt
from checks import Checks
from convert_cases import spelling

N_VOCAB, CONTEXT, WIDTH, LAYERS, HEADS = 300, 32, 32, 2, 4
TOLERANCE = 1e-5  # of the largest logit
TEXT = "hello, hell! he said: 12 more."


def draw(bias: bool, n_vocab: int = N_VOCAB) -> dict[str, torch.Tensor]:
    """A state dict of nanoGPT."""
    torch.manual_seed(3)
    shapes = {
        "ln_1.weight": (WIDTH,), "ln_1.bias": (WIDTH,),
        "attn.c_attn.weight": (3 * WIDTH, WIDTH), "attn.c_attn.bias": (3 * WIDTH,),
        "attn.c_proj.weight": (WIDTH, WIDTH), "attn.c_proj.bias": (WIDTH,),
        "ln_2.weight": (WIDTH,), "ln_2.bias": (WIDTH,),
        "mlp.c_fc.weight": (4 * WIDTH, WIDTH), "mlp.c_fc.bias": (4 * WIDTH,),
        "mlp.c_proj.weight": (WIDTH, 4 * WIDTH), "mlp.c_proj.bias": (WIDTH,),
    }  # fmt: skip
    state = {"transformer.wte.weight": torch.randn(n_vocab, WIDTH) * 0.3}
    state["transformer.wpe.weight"] = torch.randn(CONTEXT, WIDTH) * 0.3
    for i in range(LAYERS):
        for name, shape in shapes.items():
            state[f"transformer.h.{i}.{name}"] = torch.randn(shape) * 0.3
    state["transformer.ln_f.weight"] = 1 + 0.2 * torch.randn(WIDTH)
    state["transformer.ln_f.bias"] = 0.2 * torch.randn(WIDTH)
    return {name: values for name, values in state.items() if bias or not name.endswith("bias")}


def forward(state: dict[str, torch.Tensor], tokens: list[int], tanh: bool) -> np.ndarray:
    """Logits [n, n_vocab] of a GPT-2, in double precision."""
    w = {name.removeprefix("transformer."): t.double() for name, t in state.items()}
    n = len(tokens)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w.get(f"{name}.bias"), 1e-5)

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    x = w["wte.weight"][tokens] + w["wpe.weight"][:n]
    mask = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)
    for i in range(LAYERS):
        block = f"h.{i}"
        qkv = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.c_attn")
        q, k, v = (part.view(n, HEADS, -1).transpose(0, 1) for part in qkv.split(WIDTH, 1))
        scores = q @ k.transpose(1, 2) / (WIDTH // HEADS) ** 0.5 + mask
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, WIDTH)
        x = x + linear(mixed, f"{block}.attn.c_proj")
        inner = linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.c_fc")
        inner = functional.gelu(inner, approximate="tanh" if tanh else "none")
        x = x + linear(inner, f"{block}.mlp.c_proj")
    return (norm(x, "ln_f") @ w["wte.weight"].T).numpy()


class Bench:
    def __init__(self, checks: Checks, work: Path, program: str) -> None:
        self.checks, self.work, self.program = checks, work, program
        self.tokenizer = work / "tokenizer"
        self.tokenizer.mkdir()
        tokens = [*spelling(), "he", "ll", "hell", "hello", "<|endoftext|>"]
        vocab = {token: i for i, token in enumerate(tokens)}
        (self.tokenizer / "vocab.json").write_text(json.dumps(vocab))
        (self.tokenizer / "merges.txt").write_text("h e\nl l\nhe ll\nhell o\n")
        self.meta = work / "meta.pkl"
        characters = sorted(set(TEXT + "\n\u00e9\u4f60"))
        self.stoi = {c: i for i, c in enumerate(characters)}
        itos = dict(enumerate(characters))
        with self.meta.open("wb") as file:
            pickle.dump({"vocab_size": len(itos), "itos": itos, "stoi": self.stoi}, file)

    def convert(self, path: Path, kind: str = "f32", **options: Any) -> Path:
        output = self.work / "model.gguf"
        with contextlib.redirect_stderr(io.StringIO()):
            convert_nanogpt.convert(path, output, kind, "tiny", **options)
        return output

    def run(self, *arguments: str | Path) -> str:
        command = [self.program, *map(str, arguments), "-q"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def is_alike(self, what: str, file: Path, state: dict[str, torch.Tensor], tanh: bool) -> None:
        """The program's logits are those of the forward pass above."""
        path, out = self.work / "text.txt", self.work / "logits.npy"
        path.write_text(TEXT, encoding="utf-8")
        ids = list(map(int, self.run("tokenize", "-m", file, "--ids", "-f", path).split()))
        self.run("perplexity", "-m", file, "-f", path, "--length", str(len(ids) - 1),
                 "--logits", out)  # fmt: skip
        theirs = forward(state, ids[:-1], tanh)
        apart = np.abs(np.load(out) - theirs).max() / np.abs(theirs).max()
        self.checks.that(apart <= TOLERANCE, f"{what}: logits differ by {apart:.2g}")


# ---- nanoGPT -------------------------------------------------------------------------------


def model_args(bias: bool, **changes: object) -> dict[str, object]:
    return {
        "n_layer": LAYERS, "n_head": HEADS, "n_embd": WIDTH, "block_size": CONTEXT, "bias": bias,
        "vocab_size": N_VOCAB, "dropout": 0.1,
    } | changes  # fmt: skip


def save(path: Path, state: dict[str, torch.Tensor], sizes: dict[str, object],
         prefix: str = "") -> Path:  # fmt: skip
    """As train.py of nanoGPT does."""
    named = {prefix + name: values for name, values in state.items()}
    named[f"{prefix}lm_head.weight"] = named[f"{prefix}transformer.wte.weight"]
    torch.save(
        {
            "model": named, "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}},
            "model_args": sizes, "iter_num": 5, "best_val_loss": torch.tensor(3.0),
            "config": {"dataset": "x", "compile": True},
        },
        path,
    )  # fmt: skip
    return path


def check_nanogpt(bench: Bench) -> None:
    path = bench.work / "ckpt.pt"
    for bias in (True, False):
        for tanh in (False, True):
            state = draw(bias)
            save(path, state, model_args(bias), "_orig_mod." if tanh else "")
            activation = "gelu_tanh" if tanh else "gelu_erf"
            file = bench.convert(path, tokenizer=bench.tokenizer, activation=activation)
            bench.is_alike(f"bias {bias}, tanh {tanh}", file, state, tanh)
            field = gguf.GGUFReader(file).fields["general.architecture"].contents()
            bench.checks.that(field == ("gpt2" if tanh else "locus"), f"as architecture {field}")
    buffers = {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 4, 4) for i in range(LAYERS)}
    old = {key: value for key, value in model_args(True).items() if key != "dropout"}
    state = draw(True)
    save(path, state | buffers, old)
    bench.is_alike("with masks", bench.convert(path, tokenizer=bench.tokenizer), state, False)
    n = len(bench.stoi)
    state = draw(False, n + 2)
    save(path, state, model_args(False, vocab_size=n + 2))
    file = bench.convert(path, meta=bench.meta)
    text = "  h\u00e9llo \u4f60\n"
    bench.is_alike("characters", file, state, False)
    (bench.work / "text.txt").write_text(text, encoding="utf-8")
    ids = bench.run("tokenize", "-m", file, "--ids", "-f", bench.work / "text.txt").split()
    bench.checks.that(ids == [str(bench.stoi[c]) for c in text], f"characters are {ids}")
    back = bench.run("tokenize", "-m", file, "--decode", *ids)
    bench.checks.that(back == text, f"and back {back!r}")


def check_refusals(bench: Bench) -> None:
    path, output = bench.work / "wrong.pt", bench.work / "none"
    output.mkdir()

    def refused(words: str, make: Callable[[], object], **options: Any) -> None:
        make()
        options = options or {"tokenizer": bench.tokenizer}
        bench.checks.refused(
            words, words,
            lambda: convert_nanogpt.convert(path, output / "x.gguf", "f32", "tiny", **options),
            output,
        )  # fmt: skip

    state, sizes = draw(True), model_args(True)
    refused("no checkpoint of nanoGPT", lambda: torch.save(state, path))
    refused("cut, or no file", lambda: path.write_bytes(b"PK\3\4"))
    refused("n_head is None", lambda: save(path, state, sizes | {"n_head": None}))
    refused("doesn't divide into 5", lambda: save(path, state, sizes | {"n_head": 5}))
    refused("has rope, which", lambda: save(path, state, sizes | {"rope": True}))
    refused("h.2.ln_1.weight is missing", lambda: save(path, state, sizes | {"n_layer": 3}))
    refused("unexpected tensor", lambda: save(path, state, sizes | {"n_layer": 1}))
    refused("expected [64, 32]", lambda: save(path, state, sizes | {"block_size": 64}))
    less = {key: values for key, values in state.items() if "wpe" not in key}
    refused("wpe.weight is missing", lambda: save(path, less, sizes))

    def meta(value: object) -> Callable[[], object]:
        def write() -> None:
            save(path, state, sizes)
            (bench.work / "bad.pkl").write_bytes(pickle.dumps(value))

        return write

    bad = {"meta": bench.work / "bad.pkl"}
    refused("holds fractions.Fraction", meta(Fraction(1, 2)), **bad)
    refused("itos is None", meta({}), **bad)
    refused("itos is {1: 'a'}", meta({"itos": {1: "a"}}), **bad)
    refused("character 0 is 'ab'", meta({"itos": {0: "ab"}}), **bad)
    refused("301 characters", meta({"itos": {i: chr(256 + i) for i in range(301)}}), **bad)
    refused("expected the pickle", lambda: (bench.work / "bad.pkl").write_bytes(b"x"), **bad)


# ---- llm.c ---------------------------------------------------------------------------------

LLMC_ORDER = [
    *("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias"),
    *("attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias"),
    *("mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"),
]


def write_llmc(path: Path, state: dict[str, torch.Tensor], version: int) -> bytes:
    """As llm.c's train_gpt2.py does."""
    padded = (N_VOCAB + 127) // 128 * 128
    header = [20240326, version, CONTEXT, N_VOCAB, LAYERS, HEADS, WIDTH]
    header += [] if version == 1 else [padded]
    table = state["transformer.wte.weight"]
    if version > 1:
        table = functional.pad(table, (0, 0, 0, padded - N_VOCAB))
    parts = [table, state["transformer.wpe.weight"]]
    for name in LLMC_ORDER:
        parts += [state[f"transformer.h.{i}.{name}"] for i in range(LAYERS)]
    parts += [state["transformer.ln_f.weight"], state["transformer.ln_f.bias"]]
    kind = torch.bfloat16 if version == 5 else torch.float32
    flat = torch.cat([part.flatten() for part in parts]).to(kind)
    data = struct.pack("<256i", *header, *[0] * (256 - len(header)))
    data += flat.view(torch.int16 if version == 5 else torch.int32).numpy().tobytes()
    path.write_bytes(data)
    return data


def check_llmc(bench: Bench) -> None:
    path, state = bench.work / "gpt2.bin", draw(True)
    rounded = {name: values.bfloat16().float() for name, values in state.items()}
    for version in (1, 3, 5):
        write_llmc(path, state, version)
        file = bench.convert(path, tokenizer=bench.tokenizer)
        bench.is_alike(f"llm.c {version}", file, rounded if version == 5 else state, True)
    data, output = write_llmc(path, state, 3), bench.work / "none"

    def refused(words: str, changed: bytes) -> None:
        path.write_bytes(changed)
        bench.checks.refused(
            words, words,
            lambda: convert_nanogpt.convert(path, output / "x.gguf", "f32", "tiny",
                                            bench.tokenizer),
            output,
        )  # fmt: skip

    def header(index: int, value: int) -> bytes:
        return data[: 4 * index] + struct.pack("<i", value) + data[4 * index + 4 :]

    refused("too short for a header", data[:1000])
    refused("llm.c format version 2", header(1, 2))
    refused("n_layer is 0", header(4, 0))
    refused("n_embd is -1", header(6, -1))
    refused("padded_vocab_size is 200, for 300", header(7, 200))
    refused("bytes, but its header makes", data[:-4])
    refused("bytes, but its header makes", data + bytes(4))
    refused("bytes, but its header makes", header(4, 1))


def main() -> None:
    checks = Checks()
    bench = Bench(checks, Path(sys.argv[1]), sys.argv[2])
    check_nanogpt(bench)
    check_refusals(bench)
    check_llmc(bench)
    checks.report()


if __name__ == "__main__":
    main()
