#!/usr/bin/env python3
"""Cases of convert_nanochat.py, in one process: nanochat_cases.py FOLDER LOCUS TEXT.

FOLDER is an empty one to work in, LOCUS the program, TEXT a file to train a tokenizer on.
Checkpoints are written as nanochat does, converted, and run beside a forward pass and an encoder
that are written out here. Needs PyTorch. Prints as convert_cases.py does.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import random
import subprocess
import sys
import types
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import gguf
import numpy as np
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

import convert_nanochat
from checks import Checks
from convert_cases import spelling
from tokenizer_families import any_string

CONTEXT, WIDTH, LAYERS, HEADS, KEYS = 32, 32, 2, 4, 2
TOLERANCE = 1e-5  # of the largest logit
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
SPECIAL = [
    *("<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"),
    *("<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>"),
]
State = dict[str, torch.Tensor]


# ---- the model -----------------------------------------------------------------------------


def draw(n_rows: int) -> State:
    """A state dict of October 2025: the embedding as bfloat16, as on a GPU."""
    torch.manual_seed(7)
    head = WIDTH // HEADS
    shapes = {
        "attn.c_q": (WIDTH, WIDTH),
        "attn.c_k": (KEYS * head, WIDTH),
        "attn.c_v": (KEYS * head, WIDTH),
        "attn.c_proj": (WIDTH, WIDTH),
        "mlp.c_fc": (4 * WIDTH, WIDTH),
        "mlp.c_proj": (WIDTH, 4 * WIDTH),
    }
    state = {"transformer.wte.weight": torch.randn(n_rows, WIDTH).bfloat16()}
    for i in range(LAYERS):
        for name, shape in shapes.items():
            state[f"transformer.h.{i}.{name}.weight"] = torch.randn(shape) * 0.3
    return state | {"lm_head.weight": torch.randn(n_rows, WIDTH)}


def norm(x: torch.Tensor) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 2**-23).sqrt()


def rotated(x: torch.Tensor) -> torch.Tensor:
    """x [n, heads, d] turned backwards: of its halves a and b, a cos + b sin and b cos - a sin."""
    n, d = x.shape[0], x.shape[2]
    angles = torch.outer(
        torch.arange(n, dtype=torch.float64),
        10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d),
    )[:, None]
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat(
        (a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()), dim=-1
    )


def forward(state: State, tokens: list[int], n_vocab: int) -> np.ndarray:
    """Logits [n, n_vocab], in double precision: queries and keys are rotated, then normed."""
    w = {name.removesuffix(".weight"): values.double() for name, values in state.items()}
    n, head = len(tokens), WIDTH // HEADS
    x = norm(w["transformer.wte"][tokens])
    mask = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)
    for i in range(LAYERS):
        block, y = f"transformer.h.{i}.", norm(x)
        q, k, v = ((y @ w[f"{block}attn.c_{part}"].T).view(n, -1, head) for part in "qkv")
        q, k = norm(rotated(q)), norm(rotated(k))
        k, v = (part.repeat_interleave(HEADS // KEYS, dim=1) for part in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / head**0.5 + mask
        mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(n, WIDTH)
        x = x + mixed @ w[f"{block}attn.c_proj"].T
        inner = (norm(x) @ w[f"{block}mlp.c_fc"].T).relu().square()
        x = x + inner @ w[f"{block}mlp.c_proj"].T
    logits = (norm(x) @ w["lm_head"].T)[:, :n_vocab]
    return (15 * (logits / 15).tanh()).numpy()


# ---- the tokenizer -------------------------------------------------------------------------


def train(text: str) -> dict[bytes, int]:
    """Ranks of tokens: those of bytes first, then what merges make, in their order."""
    made = Tokenizer(models.BPE())
    steps = [
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=sorted(spelling()), show_progress=False
    )
    made.train_from_iterator([text[:100000], "abababababa cbabc bcbab " * 30], trainer)
    byte_of = {character: byte for byte, character in enumerate(spelling())}
    ranks = {bytes([byte]): byte for byte in range(256)}
    for left, right in json.loads(made.to_str())["model"]["merges"]:
        token = bytes(byte_of[character] for character in left + right)
        ranks.setdefault(token, len(ranks))
    return ranks


def encode(ranks: dict[bytes, int], text: str) -> list[int]:
    """As tiktoken does: words that are tokens as they are; in others the two neighbours that make
    the token of the least rank become it, the leftmost first."""
    ids: list[int] = []
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    for word, _ in split.pre_tokenize_str(text):
        whole = word.encode()
        parts = [whole] if whole in ranks else [whole[i : i + 1] for i in range(len(whole))]
        while True:
            pairs = enumerate(pairwise(parts))
            found = [(ranks[a + b], i) for i, (a, b) in pairs if a + b in ranks]
            if not found:
                break
            _, i = min(found)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        ids += [ranks[part] for part in parts]
    return ids


def pickled(state: object, name: str = "Encoding") -> bytes:
    """What pickle makes of an object of tiktoken's with that state."""
    module = types.ModuleType("tiktoken.core")
    stored = type(name, (), {"__module__": "tiktoken.core", "__getstate__": lambda _: state})
    setattr(module, name, stored)
    sys.modules |= {"tiktoken": types.ModuleType("tiktoken"), "tiktoken.core": module}
    try:
        return pickle.dumps(stored())
    finally:
        del sys.modules["tiktoken"], sys.modules["tiktoken.core"]


class Bench:
    def __init__(self, checks: Checks, work: Path, program: str, text: Path) -> None:
        self.checks, self.work, self.program = checks, work, program
        self.text = text.read_text(encoding="utf-8")
        self.ranks = train(self.text)
        self.special = {name: len(self.ranks) + i for i, name in enumerate(SPECIAL)}
        self.n_vocab = len(self.ranks) + len(SPECIAL)
        self.encoding: dict[str, Any] = {
            "name": "rustbpe", "pat_str": PATTERN, "mergeable_ranks": self.ranks,
            "special_tokens": self.special,
        }  # fmt: skip
        (work / "tokenizer").mkdir()
        self.tokenizer = work / "tokenizer" / "tokenizer.pkl"
        self.tokenizer.write_bytes(pickled(self.encoding))
        self.path, self.meta = work / "model_000123.pt", work / "meta_000123.json"

    def sizes(self, **changes: object) -> dict[str, object]:
        return {
            "sequence_len": CONTEXT, "vocab_size": self.n_vocab, "n_layer": LAYERS,
            "n_head": HEADS, "n_kv_head": KEYS, "n_embd": WIDTH,
        } | changes  # fmt: skip

    def save(self, state: State, prefix: str = "", **changes: object) -> None:
        torch.save({prefix + name: values for name, values in state.items()}, self.path)
        meta = {"step": 123, "val_bpb": 1.0, "model_config": self.sizes(**changes),
                "user_config": {"run": "dummy", "depth": 2}, "device_batch_size": 32}  # fmt: skip
        self.meta.write_text(json.dumps(meta))

    def convert(self, output: Path, tokenizer: Path | None = None) -> Path:
        with contextlib.redirect_stderr(io.StringIO()):
            convert_nanochat.convert(
                self.path, tokenizer or self.tokenizer, output, "f32", "tiny"
            )  # fmt: skip
        return output

    def run(self, *arguments: str | Path) -> str:
        command = [self.program, *map(str, arguments), "-q"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_model(bench: Bench) -> None:
    checks, path, out = bench.checks, bench.work / "text.txt", bench.work / "logits.npy"
    text = "Once upon a time there were 1234 cats, and 'twas a red ball!"
    path.write_text(text, encoding="utf-8")
    padded = (bench.n_vocab + 63) // 64 * 64
    checks.that(padded != bench.n_vocab, "nothing is padded")
    for n_rows, prefix in ((bench.n_vocab, ""), (padded, "_orig_mod.")):
        state = draw(n_rows)
        bench.save(state, prefix)
        file = bench.convert(bench.work / "model.gguf", bench.tokenizer.parent)
        ids = [bench.special["<|bos|>"], *encode(bench.ranks, text)]
        checks.that(len(ids) > CONTEXT // 2, f"{len(ids)} tokens are few")
        bench.run("perplexity", "-m", file, "-f", path, "--begin", "first", "--length",
                  str(len(ids) - 1), "--logits", out)  # fmt: skip
        theirs = forward(state, ids[:-1], bench.n_vocab)
        ours = np.load(out)
        apart = np.abs(ours - theirs).max() / np.abs(theirs).max()
        alike = ours.shape == theirs.shape and apart <= TOLERANCE
        checks.that(alike, f"{n_rows} rows: logits {ours.shape} differ by {apart:.2g}")
    reader = gguf.GGUFReader(file)
    told = {key: field.contents() for key, field in reader.fields.items()}
    for key, value in {
        "general.architecture": "locus",
        "tokenizer.ggml.pre": "nanochat",
        "tokenizer.ggml.bos_token_id": bench.special["<|bos|>"],
        "tokenizer.ggml.eos_token_id": bench.special["<|assistant_end|>"],
        "locus.end_token_ids": [bench.special["<|bos|>"]],
        "tokenizer.ggml.add_bos_token": True,
        "locus.vocab_size": bench.n_vocab,
    }.items():
        checks.that(told.get(key) == value, f"{key} is {told.get(key)}, expected {value}")


def check_tokens(bench: Bench) -> None:
    """Texts of all sorts have tiktoken's ids, and come back."""
    file, path = bench.work / "model.gguf", bench.work / "text.txt"
    generator = random.Random(11)
    lines = [any_string(generator) for _ in range(3000)]
    lines += ["".join(generator.choice("abcab") for _ in range(40)) for _ in range(300)]
    text = "\n".join([bench.text[-20000:], *lines, "<|bos|> <|user_end|>"])
    path.write_bytes(text.encode())
    ours = list(map(int, bench.run("tokenize", "-m", file, "--ids", "-f", path).split()))
    theirs = encode(bench.ranks, text)
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    bench.checks.that(ours == theirs, f"{len(ours)} and {len(theirs)} ids, unlike from {same} on")
    back = bench.run("tokenize", "-m", file, "--decode", *map(str, theirs[:5000]))
    bench.checks.that(text.startswith(back) and len(back) > 5000, "texts come back otherwise")
    ids = bench.run("tokenize", "-m", file, "--ids", "--special", "-p", "<|user_end|>").split()
    bench.checks.that(ids == [str(bench.special["<|user_end|>"])], f"a special token is {ids}")


def check_refusals(bench: Bench) -> None:
    output, state, wrong = bench.work / "none", draw(bench.n_vocab), bench.work / "wrong.pkl"
    output.mkdir()

    def refused(words: str, tokenizer: Path | None = None) -> None:
        action = lambda: bench.convert(output / "x.gguf", tokenizer)  # noqa: E731
        bench.checks.refused(words, words, action, output)

    def tokenizer(words: str, content: bytes) -> None:
        wrong.write_bytes(content)
        refused(words, wrong)

    for key, value, words in (
        ("window_pattern", "SSSL", "'window_pattern' is 'SSSL', which is unknown"),
        ("n_head", 5, "doesn't divide into 5 heads"),
        ("n_kv_head", 3, "is no multiple of n_kv_head 3"),
        ("n_embd", None, "n_embd is missing"),
        ("n_layer", 0, "n_layer is 0"),
        ("n_layer", 3, "transformer.h.2.attn.c_q.weight is missing"),
        ("n_layer", 1, "unexpected tensor transformer.h.1."),
        ("vocab_size", 100, "expected [100, 32]"),
    ):
        bench.save(state, **{key: value})
        refused(words)
    for name in ("resid_lambdas", "value_embeds.0.weight", "transformer.h.0.attn.ve_gate.weight",
                 "smear_gate.weight", "transformer.h.0.attn.c_q.bias"):  # fmt: skip
        bench.save(state | {name: torch.ones(2)})
        refused(f"tensor '{name}' is unknown")
    bench.save(state)
    bench.path.write_bytes(b"PK\3\4")
    refused("cut, or no file")
    bench.save(state)
    bench.meta.write_text("{}")
    refused("model_config is missing")
    bench.meta.unlink()
    refused("meta_000123.json: there is no such file")
    bench.save(state)
    refused("No such file", bench.work / "nothing.pkl")
    tokenizer("it holds fractions.Fraction", pickle.dumps(Fraction(1, 2)))
    tokenizer("it holds tiktoken.core.Other", pickled(bench.encoding, "Other"))
    tokenizer("it names one, 'o200k_base'", pickled("o200k_base"))
    tokenizer("A load persistent id instruction", b"\x80\x04Pabc\n.")
    tokenizer("expected an Encoding of tiktoken", b"x")
    tokenizer("expected an Encoding of tiktoken", pickle.dumps({"a": 1}))
    tokenizer("expected an Encoding of tiktoken", b"\x80\x04ctiktoken.core\nEncoding\n(I1\ntR.")
    for key, value, words in (
        ("pat_str", r"\w+", "it cuts text in an unknown way: '\\\\w+'"),
        ("pat_str", 3, "it cuts text in an unknown way: 3"),
        ("mergeable_ranks", [b"a"], "mergeable_ranks is [b'a'], expected ids"),
        ("mergeable_ranks", {"a": 0}, "mergeable_ranks has 'a' with id 0"),
        ("mergeable_ranks", bench.ranks | {b"": 9}, "mergeable_ranks has b'' with id 9"),
        ("mergeable_ranks", bench.ranks | {b"zzzz": 5}, "both have id 5"),
        ("mergeable_ranks", bench.ranks | {b"zzzz": 99999}, "has id 99999, but the model has"),
        ("special_tokens", {"<|x|>": 1.5}, "special_tokens has '<|x|>' with id 1.5"),
        ("special_tokens", {}, "special token <|bos|> is missing"),
    ):
        tokenizer(words, pickled(bench.encoding | {key: value}))
    other = bench.path.rename(bench.work / "model.pt")
    bench.path = other
    refused("expected model_NNNNNN.pt")


def main() -> None:
    checks = Checks()
    bench = Bench(checks, Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    check_model(bench)
    check_tokens(bench)
    check_refusals(bench)
    checks.report()


if __name__ == "__main__":
    main()
