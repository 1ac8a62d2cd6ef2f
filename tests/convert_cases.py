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
import math
import shutil
import struct
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import gguf
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


def wrapped(wrapper: str, named: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Names as torch.compile and DistributedDataParallel leave them."""
    return {f"{wrapper}{name}": values for name, values in named.items()}


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
        "compiled": gpt2_folder(work / "compiled", wrapped("_orig_mod.", prefixed(plain))),
        "distributed": gpt2_folder(work / "ddp", wrapped("module._orig_mod.", plain)),
        "inside": gpt2_folder(work / "inside", wrapped("transformer._orig_mod.", plain)),
        "float64": gpt2_folder(work / "f64", {n: v.astype(np.float64) for n, v in plain.items()}),
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


def check_said(checks: Checks, work: Path) -> None:
    """What is left out is said; what changes nothing is not."""
    plain, output = tensors(), work / "said.gguf"
    folder = gpt2_folder(work / "said", plain)
    wanted = convert(folder, output)

    def notes(words: str, same: bool = True) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            convert_hf.convert(folder, output, "f32", "tiny")
        right = words in said.getvalue() if words else not said.getvalue()
        checks.that(right, f"{words!r} is said: {said.getvalue()!r}")
        checks.that(not same or output.read_bytes() == wanted, f"{words}: other bytes")

    neutral = {
        **dict.fromkeys(("attn_pdrop", "resid_pdrop", "embd_pdrop", "summary_first_dropout"), 0.1),
        **{"initializer_range": 0.02, "use_cache": True, "torch_dtype": "float32", "n_ctx": 16},
        **{"architectures": ["GPT2LMHeadModel"], "transformers_version": "4.40.0", "prefix": ""},
        **{"reorder_and_upcast_attn": True, "rope_scaling": None, "label2id": {"a": 0}},
        **{"task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}},
        **{"hidden_size": WIDTH, "pad_token_id": None, "is_decoder": True},
    }
    write_config(folder, **neutral)
    notes("")
    for name in ("GPT2DoubleHeadsModel", "GPT2ForSequenceClassification"):
        write_config(folder, architectures=[name])
        notes(f"of a {name} the decoder alone is converted")
    write_config(folder)
    save_file(plain | {"score.weight": plain["ln_f.weight"]}, folder / "model.safetensors")
    notes("left out score.weight")
    write_config(folder, eos_token_id=50256)
    notes("eos_token_id 50256 is no token, and left out")


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

    def with_more(name: str) -> Change:
        more = {name: plain["ln_f.weight"]}
        return lambda folder: save_file(plain | more, folder / "model.safetensors")

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
    refused("activation_function 'tanh'", lambda f: write_config(f, activation_function="tanh"))
    refused("layer_norm_epsilon", lambda folder: write_config(folder, layer_norm_epsilon="x"))
    refused("wpe.weight is missing", without("wpe.weight"))
    refused("unexpected tensor h.0.attn.c_extra", with_more("h.0.attn.c_extra.weight"))
    refused("unexpected tensor lm_head.bias", with_more("lm_head.bias"))
    refused("unexpected tensor transformer.ln_f.x", with_more("transformer.ln_f.x"))
    refused("neither model.safetensors", lambda folder: (folder / "model.safetensors").unlink())
    refused("model.safetensors:", cut)
    refused("model.safetensors:", text("model.safetensors", "version https://git-lfs"))
    refused("neither tokenizer.json", lambda folder: (folder / "merges.txt").unlink())
    refused("is no pair of tokens", text("merges.txt", "a b c\n"))
    refused("has id 'x'", text("vocab.json", '{"a": "x"}'))
    refused("has id 300", text("vocab.json", json.dumps(vocabulary() | {"a": 300})))
    refused("both have id 0", text("vocab.json", json.dumps(vocabulary() | {"a": 0})))
    refused("'h' is no token", text("vocab.json", '{"a": 0}'))
    refused("not a tokenizer", text("tokenizer.json", "{}"))
    tokenizer = {"model": {"vocab": ["abc"], "merges": []}, "pre_tokenizer": {"type": "ByteLevel"}}
    refused("not a tokenizer", text("tokenizer.json", json.dumps(tokenizer)))
    refused("model is 'WordPiece'", text("tokenizer.json", '{"model": {"type": "WordPiece"}}'))
    refused_folders(refused)
    refused_configs(refused)
    refused_weights(refused, plain)
    folder = gpt2_folder(work / "right", plain)
    nowhere = output / "missing" / "x.gguf"
    checks.refused("no folder", "there is no folder", lambda: convert(folder, nowhere), output)
    checks.refused("a folder", "is a folder", lambda: convert(folder, output), output)
    refused_values(checks, folder, output / "x.gguf", plain)


Change = Callable[[Path], object]
Refused = Callable[[str, Change], None]


def file_of(name: str, content: str) -> Change:
    """Writes a file of the folder."""
    return lambda folder: (folder / name).write_text(content)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


def refused_folders(refused: Refused) -> None:
    """What is no folder with a whole model is called what it is."""

    def only(*names: str) -> Change:
        def drop(folder: Path) -> None:
            for path in folder.iterdir():
                if path.name not in names:
                    path.unlink()

        return drop

    def without_weights(name: str) -> Change:
        return lambda folder: (folder / "model.safetensors").rename(folder / name)

    def index(part: str) -> Change:
        def write(folder: Path) -> None:
            (folder / "model.safetensors").unlink()
            content = json.dumps({"weight_map": {"wte.weight": part}})
            (folder / "model.safetensors.index.json").write_text(content)

        return write

    def pointed(folder: Path) -> None:
        index("part.safetensors")(folder)
        (folder / "part.safetensors").write_text(POINTER)

    for name in ("model.safetensors", "config.json", "vocab.json", "merges.txt", "tokenizer.json"):
        refused(f"{name}: a Git LFS pointer", file_of(name, POINTER))
    refused("tokenizer_config.json: a Git LFS", file_of("tokenizer_config.json", POINTER))
    refused("part.safetensors: a Git LFS pointer", pointed)
    refused("names part.safetensors, which is not there", index("part.safetensors"))
    refused("'../x' is not a file of this folder", index("../x"))
    base = {"peft_type": "LORA", "base_model_name_or_path": "openai-community/gpt2"}
    adapter = json.dumps(base)
    refused("a LoRA adapter of 'openai-c", file_of("adapter_config.json", adapter))
    refused("a LoRA adapter;", without_weights("adapter_model.safetensors"))
    refused("a 'IA3' adapter", file_of("adapter_config.json", '{"peft_type": "IA3"}'))
    refused("but a tokenizer", only("vocab.json", "merges.txt"))
    refused("no config.json there;", only("model.safetensors"))
    refused("bin is there, only flax_model.msgpack", without_weights("flax_model.msgpack"))


def refused_configs(refused: Refused) -> None:
    """A key that changes what is computed is refused by its name, and so is an unknown one."""

    def key(name: str, value: object) -> Change:
        return lambda folder: write_config(folder, **{name: value})

    refused("add_cross_attention is true", key("add_cross_attention", True))
    refused("is_encoder_decoder is true", key("is_encoder_decoder", True))
    refused("pruned_heads", key("pruned_heads", {"0": [1]}))
    refused("'rope_theta' is 10000.0, which is unknown", key("rope_theta", 10000.0))
    refused("'sliding_window' is 128, which is unknown", key("sliding_window", 128))
    refused("'logit_scale' is 0, which is unknown", key("logit_scale", 0))
    refused("hidden_size, its other name", key("hidden_size", 16))
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        refused("a mixture of 2 experts", key(name, 2))
    refused("quantised by 'gptq'", key("quantization_config", {"quant_method": "gptq", "bits": 4}))
    refused("weights are quantised;", key("quantization_config", {"load_in_8bit": True}))
    refused("auto_map", key("auto_map", {"AutoModel": "x.Y"}))
    refused("architecture 'GPTNeoModel'", key("architectures", ["GPTNeoModel"]))
    refused("architectures is 3", key("architectures", 3))
    refused("layer_norm_epsilon is inf", key("layer_norm_epsilon", 10**400))
    refused("layer_norm_epsilon is 1e+300", key("layer_norm_epsilon", 1e300))
    refused("layer_norm_epsilon is -1.0", key("layer_norm_epsilon", -1))
    refused("n_layer is 36893488147419103232", key("n_layer", 2**65))
    refused("eos_token_id is 'x'", key("eos_token_id", "x"))


def refused_weights(refused: Refused, plain: dict[str, np.ndarray]) -> None:
    """Weights that are no floats, and files that hold something else than a state dict."""

    def saved(**changes: np.ndarray) -> Change:
        return lambda folder: save_file(plain | changes, folder / "model.safetensors")

    def as_kind(kind: str) -> Change:
        """wte.weight as an element type of one byte."""

        def write(folder: Path) -> None:
            save_file(plain | {"wte.weight": np.zeros((VOCAB, WIDTH), np.int8)}, folder / "m")
            head = (folder / "m").read_bytes().replace(b'"I8"', f'"{kind}"'.encode())
            size = struct.unpack_from("<Q", head)[0] + len(kind) - 2
            (folder / "model.safetensors").write_bytes(struct.pack("<Q", size) + head[8:])
            (folder / "m").unlink()

        return write

    def pickled(value: Callable[[], object]) -> Change:
        def write(folder: Path) -> None:
            import torch

            (folder / "model.safetensors").unlink()
            torch.save(value(), folder / "pytorch_model.bin")

        return write

    zero = np.zeros(1, np.float32)
    for kind in ("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"):
        refused(f"wte.weight is {kind}, expected one of F32", as_kind(kind))
    refused("quantised by GPTQ or AWQ", saved(**{"h.0.attn.c_attn.qweight": zero}))
    refused("quantised by bitsandbytes", saved(**{"h.0.attn.c_attn.SCB": zero}))
    refused("quantised by FP8", saved(**{"h.0.attn.c_attn.weight_scale_inv": zero}))
    refused("'wte.weight' is there twice", saved(**{"module.wte.weight": plain["wte.weight"]}))
    refused("header", file_of("model.safetensors", "x" * 100))
    if not has_torch():
        return
    refused("'model' is no tensor", pickled(lambda: {"model": {}, "epoch": 3}))
    refused("a dictionary of tensors", pickled(lambda: [1, 2]))
    refused("it holds fractions.Fraction", pickled(lambda: {"wte.weight": Fraction(1, 2)}))
    refused("wte.weight is int64", pickled(lambda: as_integers(plain)))


def has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def as_integers(plain: dict[str, np.ndarray]) -> dict[str, object]:
    import torch

    return {name: torch.from_numpy(values.astype(np.int64)) for name, values in plain.items()}


def refused_values(
    checks: Checks, folder: Path, output: Path, plain: dict[str, np.ndarray]
) -> None:
    """A value that the file can't hold as it is: refused by its tensor, nothing left behind."""

    def refused(words: str, kind: str, value: float, dtype: type = np.float32) -> None:
        named = {name: values.astype(dtype) for name, values in plain.items()}
        named["h.1.mlp.c_proj.weight"][3, 2] = value
        save_file(named, folder / "model.safetensors")
        checks.refused(words, words, lambda: convert(folder, output, kind), output.parent)

    refused("blk.1.ffn_down.weight holds nan at [2, 3]", "f32", np.nan)
    refused("blk.1.ffn_down.weight holds nan at [2, 3]", "f16", np.nan)
    refused("blk.1.ffn_down.weight holds -inf at [2, 3]", "bf16", -np.inf)
    refused("blk.1.ffn_down.weight holds inf at [2, 3]", "f32", 1e39, np.float64)
    refused("blk.1.ffn_down.weight holds 65520, too large for f16", "f16", -65520)
    refused("blk.1.ffn_down.weight holds 3.4e+38, too large for bf16", "bf16", 3.4e38)
    for kind, value in (("f16", 65519.0), ("bf16", 3.39e38)):
        named = {name: values.copy() for name, values in plain.items()}
        named["h.1.mlp.c_proj.weight"][3, 2] = value
        save_file(named, folder / "model.safetensors")
        convert(folder, output, kind)
        held = next(t for t in gguf.GGUFReader(output).tensors if t.name == "blk.1.ffn_down.weight")
        values = gguf.quants.dequantize(held.data, held.tensor_type)
        near = np.isfinite(values).all() and abs(values[2, 3] / value - 1) < 0.01
        checks.that(bool(near), f"{kind}: {value} became {values[2, 3]}")
    output.unlink()


# ---- llama2.c ------------------------------------------------------------------------------


def llama2c_header(weights: bytes, version: int, group: int = 0) -> bytes:
    """Of version 1 or 2, for a model of version 0 whose head is tied."""
    start = struct.pack("<Ii", 0x616B3432, version) + weights[:28] + b"\1"
    return (start + (struct.pack("<i", group) if version == 2 else b"")).ljust(256, b"\0")


def check_llama2c_versions(checks: Checks, work: Path, data: Path) -> None:
    """A model as llama2.c's export.py writes it in each version: the same file, or in the last one
    that of the numbers which its groups stand for."""
    model, output, tokenizer = work / "versions.bin", work / "versions.gguf", data / "tok512.bin"
    weights = (data / "stories260K.bin").read_bytes()
    n_layer = struct.unpack_from("<i", weights, 8)[0]

    def converted(content: bytes) -> dict[str, np.ndarray]:
        model.write_bytes(content)
        convert_llama2c.convert(model, tokenizer, output, "f32", "x")
        return {t.name: np.array(t.data) for t in gguf.GGUFReader(output).tensors}

    found = converted(weights)
    norms = [f"blk.{i}.{part}_norm.weight" for part in ("attn", "ffn") for i in range(n_layer)]
    norms.append("output_norm.weight")
    parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_down", "ffn_up")
    matrices = [f"blk.{i}.{part}.weight" for part in parts for i in range(n_layer)]
    matrices.insert(0, "token_embd.weight")
    floats = b"".join(found[name].tobytes() for name in norms)
    plain = b"".join(found[name].tobytes() for name in matrices)
    again = converted(llama2c_header(weights, 1) + floats + plain)
    same = all(np.array_equal(found[name], again[name]) for name in found)
    checks.that(same and found.keys() == again.keys(), "version 1 gives other numbers")
    group, content, wanted = 16, llama2c_header(weights, 2, 16) + floats, {}
    for name in matrices:
        groups = found[name].reshape(-1, group)
        scales = np.abs(groups).max(axis=1, keepdims=True) / np.float32(127)
        levels = np.round(groups / scales).astype(np.int8)
        content += levels.tobytes() + scales.tobytes()
        wanted[name] = (levels.astype(np.float32) * scales).reshape(found[name].shape)
    again = converted(content)
    for name, values in wanted.items():
        checks.that(np.array_equal(again[name], values), f"version 2: {name} is another")


def check_llama2c_refusals(checks: Checks, work: Path, data: Path) -> None:
    output, model, tokenizer = work / "llama2c", work / "weights.bin", work / "tokenizer.bin"
    output.mkdir()
    weights = (data / "stories260K.bin").read_bytes()
    pieces = (data / "tok512.bin").read_bytes()

    def into(path: Path) -> None:
        convert_llama2c.convert(model, tokenizer, path, "f32", "x")

    def refused(words: str, weights: bytes, pieces: bytes) -> None:
        model.write_bytes(weights)
        tokenizer.write_bytes(pieces)
        checks.refused(words, words, lambda: into(output / "x.gguf"), output)

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
    refused("format version 3", struct.pack("<Ii", 0x616B3432, 3) + weights[8:], pieces)
    for group, words in ((0, "groups of 0"), (-8, "groups of -8"), (3, "groups of 3 don't divide")):
        start = llama2c_header(weights, 2, group)
        refused(words, start + weights[28:], pieces)
    refused("no llama2.c model", b"<!DOCTYPE html>" + bytes(100), pieces)
    refused("0 tokens", weights, b"")
    refused("is cut or no token", weights, pieces[:-1])
    refused("513 tokens", weights, pieces + struct.pack("<fi", 0.0, 1) + b"x")
    refused("weights.bin: a Git LFS pointer", POINTER.encode() * 9, pieces)
    refused("tokenizer.bin: a Git LFS pointer", weights, POINTER.encode())
    nan = struct.pack("<f", math.nan)
    refused("token_embd.weight holds nan at [0, 1]", weights[:32] + nan + weights[36:], pieces)
    refused("token 0 has the score nan", weights, pieces[:4] + nan + pieces[8:])
    for path in (model, tokenizer):
        words = f"this is {path}, which is read"
        checks.refused(words, words, lambda p=path: into(p), output)
    refused("token 0 is cut", weights, pieces[:8] + struct.pack("<i", -5) + pieces[12:])
    refused("token 0 is cut", weights, pieces[:8] + struct.pack("<i", 2**31 - 1) + pieces[12:])


def main() -> None:
    work = Path(sys.argv[1])
    checks = Checks()
    check_shapes(checks, work)
    check_gpt2_refusals(checks, work)
    check_said(checks, work)
    if len(sys.argv) > 2:
        check_llama2c_versions(checks, work, Path(sys.argv[2]))
        check_llama2c_refusals(checks, work, Path(sys.argv[2]))
    checks.report()


if __name__ == "__main__":
    main()
