"""A Hugging Face model folder: its config.json, its weights and its vocabulary.

Weights are found by name without being read; a tensor's values are read when they are asked for.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from checkpoint import CONTROL, NORMAL, UNUSED, USER_DEFINED, Failure, Value

import numpy as np  # isort: skip (checkpoint says what to install when it is missing)

try:
    import safetensors
except ImportError as missing:
    sys.exit(f"error: {missing}; scripts/setup.sh python installs what is needed in .venv")

Read = Callable[[], np.ndarray]

END_OF_TEXT = "<|endoftext|>"


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise Failure(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Failure(f"{path}: an object is expected, not a {type(value).__name__}")
    return value


class Config:
    """config.json, whose values are checked as they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.values = path, read_json(path)

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The value of `key`, or `default` where it is absent or null."""
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise Failure(f"{self.path}: {key} is missing")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise Failure(f"{self.path}: {key} is {value!r}, expected {kind.__name__}")
        if kind is float and not math.isfinite(value):
            raise Failure(f"{self.path}: {key} is {value}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """A dimension: an integer from 1 to 2^31 - 1."""
        value = self.get(key, int, default)
        if not 1 <= value < 1 << 31:
            raise Failure(f"{self.path}: {key} is {value}, expected 1 to {(1 << 31) - 1}")
        return value

    def refuse(self, key: str, why: str) -> None:
        """Refuse a model that has the option `key` on."""
        if self.get(key, bool, False):
            raise Failure(f"{self.path}: {key} is true; {why}")

    def token(self, key: str) -> int | None:
        """A token id, or the first of several."""
        value = self.values.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        return value if isinstance(value, int) and not isinstance(value, bool) else None


# ---- weights -------------------------------------------------------------------------------


class Weights:
    """The tensors of a checkpoint by name. What has been taken is remembered, so that what nobody
    knew can be told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, tuple[tuple[int, ...], Read]] = {}
        self.taken: set[str] = set()
        for path in weight_files(folder):
            reader = safetensors_file if path.suffix == ".safetensors" else torch_file
            for name, shape, read in reader(path):
                if name in self.found:
                    raise Failure(f"{path}: tensor {name} is in two files")
                self.found[name] = shape, read

    def __contains__(self, name: str) -> bool:
        return name in self.found

    def take(self, name: str, shape: tuple[int, ...]) -> Read:
        """The reader of a tensor that must be there with that shape."""
        if name not in self.found:
            raise Failure(f"{self.folder}: tensor {name} is missing")
        found, read = self.found[name]
        if found != shape:
            raise Failure(f"{self.folder}: {name} is {list(found)}, expected {list(shape)}")
        self.taken.add(name)
        return read

    def left(self) -> list[str]:
        return sorted(self.found.keys() - self.taken)


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights: one, or those that an index names."""
    for base in ("model.safetensors", "pytorch_model.bin"):
        if (folder / base).is_file():
            return [folder / base]
        index = folder / f"{base}.index.json"
        if index.is_file():
            names = read_json(index).get("weight_map")
            if not isinstance(names, dict) or not all(isinstance(n, str) for n in names.values()):
                raise Failure(f"{index}: weight_map is missing or odd")
            if outside := [n for n in names.values() if Path(n).name != n]:
                raise Failure(f"{index}: {outside[0]} is not a file of this folder")
            return [folder / name for name in sorted(set(names.values()))]
    raise Failure(f"{folder}: neither model.safetensors nor pytorch_model.bin is there")


def safetensors_file(path: Path) -> Iterator[tuple[str, tuple[int, ...], Read]]:
    """Name, shape and reader of each tensor. bfloat16, which numpy lacks, is read with torch."""

    def read(name: str, framework: str) -> np.ndarray:
        with safetensors.safe_open(path, framework) as file:
            tensor = file.get_tensor(name)
        return (tensor.float().numpy() if framework == "pt" else tensor).astype(np.float32)

    if not path.is_file():
        raise Failure(f"{path}: no such file")
    try:
        with safetensors.safe_open(path, "np") as file:
            for name in file.keys():  # noqa: SIM118 (no mapping)
                view = file.get_slice(name)
                framework = "pt" if view.get_dtype() == "BF16" else "np"
                if framework == "pt":
                    import_torch(path)
                yield name, tuple(view.get_shape()), lambda n=name, f=framework: read(n, f)
    except safetensors.SafetensorError as error:
        raise Failure(f"{path}: {one_line(error)}") from None


def torch_file(path: Path) -> Iterator[tuple[str, tuple[int, ...], Read]]:
    """The same of a file that torch.save wrote; nothing but tensors is unpickled."""
    torch = import_torch(path)
    if not path.is_file():
        raise Failure(f"{path}: no such file")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever unpickling makes of a foreign file
        raise Failure(f"{path}: {one_line(error)}") from None
    if not isinstance(state, dict):
        raise Failure(f"{path}: a dictionary of tensors is expected")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise Failure(f"{path}: {name} is no tensor")
        yield name, tuple(tensor.shape), lambda t=tensor: t.float().numpy()


def import_torch(path: Path) -> Any:
    try:
        import torch
    except ImportError:
        raise Failure(f"{path}: reading it needs torch: pip install torch") from None
    return torch


def one_line(error: Exception) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# ---- vocabulary ----------------------------------------------------------------------------


def byte_level_bpe(folder: Path, config: Config, n_vocab: int) -> dict[str, Value]:
    """The metadata of a GPT-2 tokenizer, from tokenizer.json or from vocab.json and merges.txt.
    Rows of the embedding without a token get [PADn] tokens of type unused."""
    if (folder / "tokenizer.json").is_file():
        vocab, merges, added = from_tokenizer_json(folder / "tokenizer.json")
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        vocab, merges, added = from_vocab_and_merges(folder)
    else:
        raise Failure(f"{folder}: neither tokenizer.json nor vocab.json with merges.txt is there")
    by_id: dict[int, str] = {}
    for token, i in [*vocab.items(), *((token, i) for token, (i, _) in added.items())]:
        if not isinstance(i, int) or not 0 <= i < n_vocab:
            raise Failure(
                f"{folder}: token {token!r} has id {i!r}, but the model has {n_vocab} ids"
            )
        if by_id.setdefault(i, token) != token:
            raise Failure(f"{folder}: tokens {by_id[i]!r} and {token!r} both have id {i}")
    kinds = {i: CONTROL if special else USER_DEFINED for i, special in added.values()}
    if END_OF_TEXT in vocab:
        kinds[vocab[END_OF_TEXT]] = CONTROL
    for i in range(n_vocab):
        kinds.setdefault(i, NORMAL if i in by_id else UNUSED)
    metadata: dict[str, Value] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [by_id.get(i, f"[PAD{i}]") for i in range(n_vocab)],
        "tokenizer.ggml.token_type": [kinds[i] for i in range(n_vocab)],
        "tokenizer.ggml.merges": merges,
    }
    end_of_text = next((i for i, token in by_id.items() if token == END_OF_TEXT), None)
    for name in ("bos", "eos"):
        i = config.token(f"{name}_token_id")
        i = i if i in by_id else end_of_text
        if i is not None:
            metadata[f"tokenizer.ggml.{name}_token_id"] = i
    return metadata


Vocabulary = tuple[dict[str, int], list[str], dict[str, tuple[int, bool]]]
"""Ids of the tokens, merges as "left right", and the added tokens: id, and whether special."""


def from_tokenizer_json(path: Path) -> Vocabulary:
    data = read_json(path)
    try:
        model, pre = data["model"], data.get("pre_tokenizer") or {}
        if model.get("type", "BPE") != "BPE" or pre.get("type") != "ByteLevel":
            raise Failure(f"{path}: this is no byte-level BPE of GPT-2's kind")
        if data.get("normalizer") is not None or not pre.get("use_regex", True):
            raise Failure(f"{path}: it normalises or cuts text in another way than GPT-2")
        merges = [m if isinstance(m, str) else f"{m[0]} {m[1]}" for m in model["merges"]]
        added = {
            token["content"]: (token["id"], bool(token.get("special")))
            for token in data.get("added_tokens") or []
        }
        return dict(model["vocab"]), merges, added
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Failure(f"{path}: not a tokenizer of the tokenizers library ({error})") from None


def from_vocab_and_merges(folder: Path) -> Vocabulary:
    vocab = read_json(folder / "vocab.json")
    try:
        lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise Failure(f"{folder / 'merges.txt'}: {error}") from None
    merges = [line for line in lines if line and not line.startswith("#version")]
    for line in merges:
        if len(line.split(" ")) != 2:
            raise Failure(f"{folder / 'merges.txt'}: {line!r} is no pair of tokens")
    added: dict[str, tuple[int, bool]] = {}
    if (folder / "added_tokens.json").is_file():
        special = special_tokens(folder)
        for token, i in read_json(folder / "added_tokens.json").items():
            added[token] = i, token in special
    return vocab, merges, added


def special_tokens(folder: Path) -> set[str]:
    """The texts of special_tokens_map.json."""
    path = folder / "special_tokens_map.json"
    names: set[str] = set()
    for value in read_json(path).values() if path.is_file() else []:
        for token in value if isinstance(value, list) else [value]:
            names.add(str(token["content"]) if isinstance(token, dict) else str(token))
    return names
