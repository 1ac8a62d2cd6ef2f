"""A Hugging Face model folder: its config.json and its weights. (hf_tokenizer.py has the rest.)

Weights are found by name without being read; a tensor's values are read when they are asked for.
"""

from __future__ import annotations

import functools
import json
import math
import pickle
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint import refuse_pointer
from output import Failure

import numpy as np  # isort: skip (checkpoint says what to install when it is missing)

try:
    import safetensors
except ImportError as missing:
    sys.exit(f"error: {missing}; scripts/setup.sh python installs what is needed in .venv")

ROWS_BYTES = 4 << 20  # of float32 that are read at a time: what a cache holds

LARGEST_FLOAT = float(np.finfo(np.float32).max)


def say(note: str) -> None:
    print(f"note: {note}", file=sys.stderr)


def shown(value: object) -> str:
    """A value from a file as a part of a line: short, and without control characters."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested without end; an integer of thousands of digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def read_json(path: Path) -> dict[str, Any]:
    refuse_pointer(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise Failure(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Failure(f"{path}: an object is expected, not a {type(value).__name__}")
    return value


class Config:
    """config.json, or an object in it, whose values are checked as they are asked for. What was
    asked for is remembered, so that what nobody knows can be told."""

    def __init__(
        self, path: Path | str, section: str = "", values: dict[str, Any] | None = None
    ) -> None:
        self.path = f"{path}: {section}" if section else path
        self.values = read_json(Path(path)) if values is None else values
        self.asked: set[str] = set()

    def has(self, key: str) -> bool:
        """Whether `key` is there, and not null."""
        self.asked.add(key)
        return self.values.get(key) is not None

    def section(self, key: str) -> Config:
        """The object of that name; an empty one where it is absent or null."""
        return Config(self.path, key, self.get(key, dict, {}))

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The value of `key`, or `default` where it is absent or null."""
        value = self.values.get(key) if self.has(key) else None
        if value is None:
            value = default
        if value is None:
            raise Failure(f"{self.path}: {key} is missing")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < LARGEST_FLOAT else math.inf
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise Failure(f"{self.path}: {key} is {shown(value)}, expected {kind.__name__}")
        if kind is float and not abs(value) <= LARGEST_FLOAT:
            raise Failure(f"{self.path}: {key} is {value}, expected a 32-bit number")
        return value

    def count(self, key: str, default: int | None = None, most: int = (1 << 31) - 1) -> int:
        """A dimension: an integer from 1 to `most`."""
        value = self.get(key, int, default)
        if not 1 <= value <= most:
            raise Failure(f"{self.path}: {key} is {shown(value)}, expected 1 to {most}")
        return value

    def positive(self, key: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self.get(key, float, default)
        if not value > 0:
            raise Failure(f"{self.path}: {key} is {value}, expected a number above 0")
        return value

    def flags(self, key: str, n: int, names: Mapping[Any, bool]) -> list[bool] | None:
        """One of `names` a layer, n of them, as what it stands for; None where it is absent."""
        if not self.has(key):
            return None
        values = self.get(key, list)
        for value in values:
            if not isinstance(value, int | str) or value not in names:
                known = ", ".join(map(str, names))
                raise Failure(f"{self.path}: {key} has {shown(value)}; known: {known}")
        if len(values) < n:
            raise Failure(f"{self.path}: {key} has {len(values)} entries, but there are {n} layers")
        return [names[value] for value in values[:n]]

    def choose(self, key: str, choices: Mapping[str, str], default: str) -> str:
        """What a name stands for; `default` is for an absent one, no class has one for null."""
        known = ", ".join(choices)
        if self.values.get(key, default) is None:
            raise Failure(f"{self.path}: {key} is null; known: {known}")
        name = self.get(key, str, default)
        if name not in choices:
            raise Failure(f"{self.path}: {key} {shown(name)} is unknown; known: {known}")
        return choices[name]

    def refuse(self, key: str, why: str, default: bool = False, wanted: bool = False) -> None:
        """Refuse a model whose option `key` is not as `wanted`."""
        value = self.get(key, bool, default)
        if value != wanted:
            raise Failure(f"{self.path}: {key} is {str(value).lower()}; {why}")

    def rename(self, other: str, key: str) -> None:
        """`other` is another name of `key`."""
        value = self.values.pop(other, None)
        if value is not None and self.values.setdefault(key, value) != value:
            mine = shown(self.values[key])
            raise Failure(f"{self.path}: {key} is {mine}, and {other}, its other name, is another")

    def token_ids(self, key: str) -> list[int]:
        """Token ids: one, several or none."""
        value = self.values.get(key)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        for i in ids:
            if not isinstance(i, int) or isinstance(i, bool):
                raise Failure(f"{self.path}: {key} is {shown(value)}, expected token ids")
        return ids

    def refuse_unknown(self, ignored: re.Pattern[str]) -> None:
        """What was not asked for, and isn't without effect, may change what the model computes."""
        for key, value in self.values.items():
            if value is not None and key not in self.asked and not ignored.fullmatch(key):
                raise Failure(
                    f"{self.path}: {shown(key)} is {shown(value)}, which is unknown here; "
                    "take it out if it doesn't change what the model computes"
                )


# ---- weights -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """A tensor in a file; `kind` is F32, F16, BF16, F64, U8, or an element type that isn't read."""

    shape: tuple[int, ...]
    kind: str
    rows: Callable[[int, int], np.ndarray]  # of the first dimension, as float32; U8: as it is

    def read(self) -> np.ndarray:
        return self.rows(0, self.shape[0]) if self.shape else self.rows(0, 1).reshape(())

    def blocks(self) -> Iterator[np.ndarray]:
        """The same, some rows after others."""
        row = 4 * math.prod(self.shape[1:])
        step = max(ROWS_BYTES // max(row, 1), 1)
        for first in range(0, self.shape[0], step):
            yield self.rows(first, min(first + step, self.shape[0]))


FLOATS = ("F32", "F16", "BF16", "F64")
WRAPPERS = ("_orig_mod", "module")  # of torch.compile and DistributedDataParallel
QUANTISED = {  # how names of tensors end: what made them
    ".qweight": "GPTQ or AWQ",
    ".qzeros": "GPTQ or AWQ",
    ".SCB": "bitsandbytes",
    ".absmax": "bitsandbytes",
    ".quant_map": "bitsandbytes",
    ".weight_scale": "FP8 or integers",
    ".weight_scale_inv": "FP8",
    ".weight_packed": "compressed-tensors",
}


class Weights:
    """The tensors of a checkpoint, a folder or a file, by name. What has been taken is remembered,
    so that what nobody knew can be told."""

    def __init__(
        self,
        folder: Path,
        tensors: Iterable[tuple[str, Found]],
        rename: Callable[[str], str | None] = str,
    ) -> None:
        """`rename`: a tensor's name as it is looked for; None: it isn't wanted."""
        self.folder = folder
        self.found: dict[str, Found] = {}
        self.taken: set[str] = set()
        wrapped: set[str] = set()
        for given, tensor in tensors:
            parts = given.split(".")
            wrapped |= {part for part in parts if part in WRAPPERS}
            name = rename(".".join(part for part in parts if part not in WRAPPERS))
            if name is None:
                continue
            if name in self.found:
                raise Failure(f"{folder}: tensor {shown(name)} is there twice")
            self.found[name] = tensor
        if wrapped:
            say(f"left {' and '.join(sorted(wrapped))} out of the names of tensors")
        for name in self.found:
            for end, maker in QUANTISED.items():
                if name.endswith(end):
                    raise Failure(f"{folder}: quantised by {maker} ({name}); floats are expected")

    @classmethod
    def of_folder(cls, folder: Path, rename: Callable[[str], str | None] = str) -> Weights:
        def tensors() -> Iterator[tuple[str, Found]]:
            for path in weight_files(folder):
                yield from (safetensors_file if path.suffix == ".safetensors" else torch_file)(path)

        return cls(folder, tensors(), rename)

    def __contains__(self, name: str) -> bool:
        return name in self.found

    def take(self, name: str, shape: tuple[int, ...]) -> Found:
        """A tensor that must be there with that shape, as floats."""
        return self.take_of(FLOATS, name, shape)

    def take_of(self, kinds: Sequence[str], name: str, shape: tuple[int, ...]) -> Found:
        """The same of other element types."""
        if name not in self.found:
            raise Failure(f"{self.folder}: tensor {name} is missing")
        found = self.found[name]
        if found.kind not in kinds:
            wanted = "one of " * (len(kinds) > 1) + ", ".join(kinds)
            raise Failure(f"{self.folder}: {name} is {found.kind}, expected {wanted}")
        if found.shape != shape:
            raise Failure(f"{self.folder}: {name} is {list(found.shape)}, expected {list(shape)}")
        self.taken.add(name)
        return found

    def left(self) -> list[str]:
        return sorted(self.found.keys() - self.taken)


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights: one, or those that an index names."""
    for base in ("model.safetensors", "pytorch_model.bin"):
        if (folder / base).is_file():
            return [folder / base]
        index = folder / f"{base}.index.json"
        if not index.is_file():
            continue
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or not all(isinstance(n, str) for n in names.values()):
            raise Failure(f"{index}: weight_map is missing or odd")
        for name in names.values():
            if Path(name).name != name or "\0" in name:
                raise Failure(f"{index}: {shown(name)} is not a file of this folder")
            if not (folder / name).is_file():
                raise Failure(f"{index}: names {name}, which is not there")
        return [folder / name for name in sorted(set(names.values()))]
    others = (".safetensors", ".bin", ".pt", ".pth", ".msgpack", ".h5", ".ckpt", ".onnx", ".gguf")
    there = sorted(path.name for path in folder.iterdir() if path.suffix in others)
    what = f", only {', '.join(there[:3])}" if there else ""
    raise Failure(f"{folder}: neither model.safetensors nor pytorch_model.bin is there{what}")


STORED = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8", "U8": "u1"}


def stored_rows(
    path: Path, kind: str, shape: tuple[int, ...], start: int
) -> Callable[[int, int], np.ndarray]:
    """The reader of rows of a tensor that lies in a file from byte `start` on."""

    def rows(first: int, end: int) -> np.ndarray:
        stored = np.dtype(STORED[kind])
        row = math.prod(shape[1:])
        offset = start + first * row * stored.itemsize
        values = np.fromfile(path, stored, (end - first) * row, offset=offset)
        values = values.reshape(end - first, *shape[1:])
        if kind == "U8":
            return values
        if kind == "BF16":  # the upper half of a float32
            return (values.astype("<u4") << 16).view("<f4")
        with np.errstate(over="ignore"):  # what float32 can't hold is told by who writes it
            return values.astype(np.float32, copy=False)

    return rows


def safetensors_file(path: Path) -> Iterator[tuple[str, Found]]:
    """Name and tensor, one after another. The library checks the file; numbers are read from where
    its header says that they are, so that no more than a few rows need be in memory."""
    refuse_pointer(path)
    try:
        with safetensors.safe_open(path, "np"), path.open("rb") as file:
            (n_bytes,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(n_bytes))
    except safetensors.SafetensorError as error:
        raise Failure(f"{path}: {one_line(error)}") from None

    for name, entry in sorted(header.items()):
        if name != "__metadata__":
            shape, kind, start = tuple(entry["shape"]), entry["dtype"], entry["data_offsets"][0]
            yield name, Found(shape, kind, stored_rows(path, kind, shape, 8 + n_bytes + start))


TORCH_KINDS = {
    **{"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"},
    "uint8": "U8",
}


def torch_file(path: Path) -> Iterator[tuple[str, Found]]:
    """The same of a file that torch.save wrote."""
    yield from state_tensors(path, load_torch(path))


def load_torch(path: Path) -> Any:
    """What torch.save wrote; nothing is unpickled but tensors, and numbers and texts in lists and
    dictionaries. Mapped where the file is one of those that can be (from 2020 on)."""
    refuse_pointer(path)
    torch = import_torch(path)
    with path.open("rb") as file:
        mapped = file.read(4) == b"PK\3\4"
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:  # its text advises to run what the file holds
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f"it holds {found[1]}" if found else "it is none, or holds more than tensors"
        raise Failure(f"{path}: expected a file of tensors by torch.save; {what}") from None
    except (OSError, MemoryError):
        raise
    except Exception:  # whatever unpickling makes of a foreign file
        raise Failure(f"{path}: cut, or no file that torch.save wrote") from None


def state_tensors(path: Path, state: object) -> Iterator[tuple[str, Found]]:
    torch = import_torch(path)
    if not isinstance(state, dict):
        raise Failure(f"{path}: a dictionary of tensors is expected")
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise Failure(f"{path}: {shown(name)} is no tensor; a state dict of a model is wanted")
        kind = str(tensor.dtype).removeprefix("torch.")
        if tensor.layout != torch.strided:
            kind = f"a {tensor.layout} tensor".replace("torch.", "")
        found = Found(
            tuple(tensor.shape), TORCH_KINDS.get(kind, kind), functools.partial(torch_rows, tensor)
        )
        yield name, found


def torch_rows(tensor: Any, first: int, end: int) -> np.ndarray:
    rows = tensor.detach()
    rows = rows[first:end] if rows.dim() else rows[None]
    return (rows if str(rows.dtype) == "torch.uint8" else rows.float()).numpy()


def import_torch(path: Path) -> Any:
    try:
        import torch
    except ImportError:
        raise Failure(f"{path}: reading it needs torch: pip install torch") from None
    return torch


def one_line(error: Exception) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
