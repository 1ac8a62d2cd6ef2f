#!/usr/bin/env python3
"""Cases of the converters, in one process: convert_cases.py FOLDER [DATA].

FOLDER is an empty one to work in; DATA, if given, holds stories260K.bin and tok512.bin. Prints a
line for each check that fails and "NN%: Checks: N, Failures: N, Errors: 0" at the end; exits 1 if
any failed. FOLDER keeps gpt2.gguf for the program to read.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import numpy as np
from safetensors.numpy import save_file

import convert_hf
import convert_llama2c
from checks import Checks

VOCAB, CONTEXT, WIDTH, LAYERS = 300, 16, 8, 2


# ---- GPT-2 folders -------------------------------------------------------------------------


def spelling() -> list[str]:
    """GPT-2's characters of the bytes 0 to 255."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    characters = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}
    return [characters[b] for b in range(256)]


MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello")]


def vocabulary() -> dict[str, int]:
    tokens = [*spelling(), *(left + right for left, right in MERGES), "<|endoftext|>"]
    return {token: i for i, token in enumerate(tokens)}


def tensors() -> dict[str, np.ndarray]:
    """Random weights by their names in a folder, without a prefix."""
    generator = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        return generator.normal(0, 0.3, shape).astype(np.float32)

    found = {"wte.weight": draw(VOCAB, WIDTH), "wpe.weight": draw(CONTEXT, WIDTH)}
    shapes = {
        "ln_1.weight": (WIDTH,),
        "ln_1.bias": (WIDTH,),
        "attn.c_attn.weight": (WIDTH, 3 * WIDTH),
        "attn.c_attn.bias": (3 * WIDTH,),
        "attn.c_proj.weight": (WIDTH, WIDTH),
        "attn.c_proj.bias": (WIDTH,),
        "ln_2.weight": (WIDTH,),
        "ln_2.bias": (WIDTH,),
        "mlp.c_fc.weight": (WIDTH, 4 * WIDTH),
        "mlp.c_fc.bias": (4 * WIDTH,),
        "mlp.c_proj.weight": (4 * WIDTH, WIDTH),
        "mlp.c_proj.bias": (WIDTH,),
    }
    for i in range(LAYERS):
        found |= {f"h.{i}.{name}": draw(*shape) for name, shape in shapes.items()}
    return found | {"ln_f.weight": draw(WIDTH), "ln_f.bias": draw(WIDTH)}


def write_config(folder: Path, **changes: object) -> None:
    values: dict[str, object] = {
        "model_type": "gpt2",
        "n_embd": WIDTH,
        "n_head": 2,
        "n_layer": LAYERS,
        "n_positions": CONTEXT,
        "vocab_size": VOCAB,
        "bos_token_id": 261,
        "eos_token_id": 261,
    }
    values |= changes
    text = json.dumps({key: value for key, value in values.items() if value is not None})
    (folder / "config.json").write_text(text)


def write_vocabulary(folder: Path, as_json: bool) -> None:
    if not as_json:
        (folder / "vocab.json").write_text(json.dumps(vocabulary()))
        lines = "".join(f"{left} {right}\n" for left, right in MERGES)
        (folder / "merges.txt").write_text(f"#version: 0.2\n{lines}")
        return
    tokenizer = {
        "added_tokens": [{"id": 261, "content": "<|endoftext|>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary(), "merges": [list(pair) for pair in MERGES]},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def gpt2_folder(folder: Path, named: dict[str, np.ndarray], as_json: bool = False) -> Path:
    folder.mkdir()
    write_config(folder)
    write_vocabulary(folder, as_json)
    save_file(named, folder / "model.safetensors")
    return folder


def prefixed(named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"transformer.{name}": values for name, values in named.items()}


def buffers() -> dict[str, np.ndarray]:
    mask = np.tril(np.ones((1, 1, CONTEXT, CONTEXT), dtype=np.float32))
    low = np.array(-1e4, dtype=np.float32)
    found: dict[str, np.ndarray] = {}
    for i in range(LAYERS):
        found |= {f"h.{i}.attn.bias": mask, f"h.{i}.attn.masked_bias": low}
    return found


def write_parts(folder: Path, named: dict[str, np.ndarray]) -> Path:
    """The same in two files and an index."""
    gpt2_folder(folder, named)
    (folder / "model.safetensors").unlink()
    names = sorted(named)
    parts = {"model-00001-of-00002.safetensors": names[::2]}
    parts |= {"model-00002-of-00002.safetensors": names[1::2]}
    for part, held in parts.items():
        save_file({name: named[name] for name in held}, folder / part)
    index = {name: part for part, held in parts.items() for name in held}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


def write_pickle(folder: Path, named: dict[str, np.ndarray], old: bool) -> Path | None:
    """The same as torch.save writes it, now or before 2020; None without torch."""
    try:
        import torch
    except ImportError:
        return None
    gpt2_folder(folder, named)
    (folder / "model.safetensors").unlink()
    state = {name: torch.from_numpy(values.copy()) for name, values in named.items()}
    path = folder / "pytorch_model.bin"
    torch.save(state, path, _use_new_zipfile_serialization=not old)
    return folder


def convert(folder: Path, output: Path, kind: str = "f32") -> bytes:
    with contextlib.redirect_stderr(io.StringIO()):
        convert_hf.convert(folder, output, kind, "tiny")
    return output.read_bytes()


def check_shapes(checks: Checks, work: Path) -> None:
    """Every published shape of one model gives the same bytes."""
    plain, head = tensors(), {"lm_head.weight": tensors()["wte.weight"]}
    wanted = convert(gpt2_folder(work / "plain", plain), work / "gpt2.gguf")
    folders: dict[str, Path | None] = {
        "prefix": gpt2_folder(work / "prefix", prefixed(plain)),
        "buffers": gpt2_folder(work / "buffers", plain | buffers()),
        "prefixed buffers": gpt2_folder(work / "both", prefixed(plain | buffers())),
        "tied head": gpt2_folder(work / "tied", prefixed(plain) | head),
        "tokenizer.json": gpt2_folder(work / "json", plain, as_json=True),
        "parts": write_parts(work / "parts", prefixed(plain)),
        "pickle": write_pickle(work / "pickle", prefixed(plain | buffers()), old=False),
        "old pickle": write_pickle(work / "old", plain, old=True),
    }
    for name, folder in folders.items():
        if folder is not None:
            checks.that(convert(folder, work / "other.gguf") == wanted, f"{name}: other bytes")
    head = {"lm_head.weight": 2 * plain["wte.weight"]}
    separate = gpt2_folder(work / "separate", prefixed(plain) | head)
    size = len(convert(separate, work / "other.gguf")) - len(wanted)
    checks.that(size >= 4 * VOCAB * WIDTH, f"a head of its own adds {size} bytes")
    halves = {name: values.astype(np.float16) for name, values in plain.items()}
    folder = gpt2_folder(work / "halves", halves)
    half = convert(folder, work / "other.gguf", "f16")
    checks.that(0.4 * len(wanted) < len(half) < 0.9 * len(wanted), "f16 is not smaller")


def check_gpt2_refusals(checks: Checks, work: Path) -> None:
    plain, output = tensors(), work / "refused"
    output.mkdir()

    def refused(words: str, change: Callable[[Path], object]) -> None:
        folder = work / "wrong"
        shutil.rmtree(folder, ignore_errors=True)
        gpt2_folder(folder, plain)
        change(folder)
        checks.refused(words, words, lambda: convert(folder, output / "x.gguf"), output)

    def without(name: str) -> Callable[[Path], object]:
        return lambda folder: save_file(
            {key: values for key, values in plain.items() if key != name},
            folder / "model.safetensors",
        )

    def text(name: str, content: str) -> Callable[[Path], object]:
        return lambda folder: (folder / name).write_text(content)

    def cut(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-100])

    def with_more(folder: Path) -> None:
        more = {"h.0.attn.c_extra.weight": plain["ln_f.weight"]}
        save_file(plain | more, folder / "model.safetensors")

    refused("no config.json", lambda folder: (folder / "config.json").unlink())
    refused("not JSON", text("config.json", "<html>"))
    refused("not JSON", text("config.json", "[" * 100000))
    refused("an object is expected", text("config.json", "[]"))
    refused("model_type", lambda folder: write_config(folder, model_type="bert"))
    refused("model_type is missing", lambda folder: write_config(folder, model_type=None))
    refused("n_embd is missing", lambda folder: write_config(folder, n_embd=None))
    refused("n_head is 0", lambda folder: write_config(folder, n_head=0))
    refused("n_layer is -1", lambda folder: write_config(folder, n_layer=-1))
    refused("n_layer is '2'", lambda folder: write_config(folder, n_layer="2"))
    refused("n_embd 8 doesn't divide", lambda folder: write_config(folder, n_head=3))
    refused("h.2.ln_1.weight is missing", lambda folder: write_config(folder, n_layer=3))
    refused("expected [301, 8]", lambda folder: write_config(folder, vocab_size=301))
    refused("unexpected tensor h.1.", lambda folder: write_config(folder, n_layer=1))
    refused("activation_function tanh", lambda f: write_config(f, activation_function="tanh"))
    refused("layer_norm_epsilon", lambda folder: write_config(folder, layer_norm_epsilon="x"))
    refused("wpe.weight is missing", without("wpe.weight"))
    refused("unexpected tensor h.0.attn.c_extra", with_more)
    refused("neither model.safetensors", lambda folder: (folder / "model.safetensors").unlink())
    refused("model.safetensors:", cut)
    refused("model.safetensors:", text("model.safetensors", "version https://git-lfs"))
    refused("neither tokenizer.json", lambda folder: (folder / "merges.txt").unlink())
    refused("is no pair of tokens", text("merges.txt", "a b c\n"))
    refused("has id 'x'", text("vocab.json", '{"a": "x"}'))
    refused("has id 300", text("vocab.json", '{"a": 300}'))
    refused("both have id 0", text("vocab.json", '{"a": 0, "b": 0}'))
    refused("not a tokenizer", text("tokenizer.json", "{}"))
    tokenizer = {"model": {"vocab": ["abc"], "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}
    refused("not a tokenizer", text("tokenizer.json", json.dumps(tokenizer)))
    refused("no byte-level BPE", text("tokenizer.json", '{"model": {"type": "Unigram"}}'))
    folder = gpt2_folder(work / "right", plain)
    nowhere = output / "missing" / "x.gguf"
    checks.refused("no folder", "there is no folder", lambda: convert(folder, nowhere), output)
    checks.refused("a folder", "is a folder", lambda: convert(folder, output), output)
    inf = plain | {"wte.weight": plain["wte.weight"] * np.float32(1e6)}
    save_file(inf, folder / "model.safetensors")
    large = output / "x.gguf"
    checks.refused("f16", "too large for f16", lambda: convert(folder, large, "f16"), output)


# ---- llama2.c ------------------------------------------------------------------------------


def check_llama2c_refusals(checks: Checks, work: Path, data: Path) -> None:
    output, model, tokenizer = work / "llama2c", work / "model.bin", work / "tokenizer.bin"
    output.mkdir()
    weights = (data / "stories260K.bin").read_bytes()
    pieces = (data / "tok512.bin").read_bytes()

    def refused(words: str, weights: bytes, pieces: bytes) -> None:
        model.write_bytes(weights)
        tokenizer.write_bytes(pieces)

        def action() -> None:
            convert_llama2c.convert(model, tokenizer, output / "x.gguf", "f32", "x")

        checks.refused(words, words, action, output)

    def header(index: int, value: int) -> bytes:
        return weights[: 4 * index] + struct.pack("<i", value) + weights[4 * index + 4 :]

    refused("too short", b"", pieces)
    refused("too short", weights[:27], pieces)
    refused("but its header makes", weights[:28], pieces)
    refused("but its header makes", weights[:-1], pieces)
    refused("but its header makes", weights + b"\0", pieces)
    names = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
    for i, name in enumerate(names):
        for value in (0, -(2**31), 2**31 - 1):
            refused(f"{name} is", header(i, value), pieces)
    for i in range(7):
        refused("", header(i, 1 << 24), pieces)
        refused("", header(i, 1), pieces)
    refused("format version 2", struct.pack("<Ii", 0x616B3432, 2) + weights[8:], pieces)
    refused("no llama2.c model", b"<!DOCTYPE html>" + bytes(100), pieces)
    refused("0 tokens", weights, b"")
    refused("is cut or no token", weights, pieces[:-1])
    refused("513 tokens", weights, pieces + struct.pack("<fi", 0.0, 1) + b"x")
    refused("token 0 is cut", weights, pieces[:8] + struct.pack("<i", -5) + pieces[12:])
    refused("token 0 is cut", weights, pieces[:8] + struct.pack("<i", 2**31 - 1) + pieces[12:])


def main() -> None:
    work = Path(sys.argv[1])
    checks = Checks()
    check_shapes(checks, work)
    check_gpt2_refusals(checks, work)
    if len(sys.argv) > 2:
        check_llama2c_refusals(checks, work, Path(sys.argv[2]))
    checks.report()


if __name__ == "__main__":
    main()
