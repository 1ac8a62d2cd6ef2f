"""Writing GGUF checkpoints, and the manners the converters share.

A converter turns its input into metadata and a list of `Tensor`s, which are read one at a time
while `write` streams them to the file; a model larger than memory is no trouble. The file appears
whole or not at all, and its bytes depend on the arguments only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    import gguf
    import numpy as np
except ImportError as missing:
    sys.exit(f"error: {missing}; scripts/setup.sh python installs what is needed in .venv")

Value = bool | int | float | str | list

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # token types

KINDS = {  # name: type of the matrices, bytes an element, general.file_type
    "f32": (gguf.GGMLQuantizationType.F32, 4, 0),
    "f16": (gguf.GGMLQuantizationType.F16, 2, 1),
    "bf16": (gguf.GGMLQuantizationType.BF16, 2, 32),
}


class Failure(Exception):
    """Something is wrong with the input; the message is one line for the user."""


@dataclass(frozen=True)
class Tensor:
    """A tensor by its name in the checkpoint; `shape` is row-major, [rows, cols] for a matrix."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]  # float32 of that shape, made when it is asked for

    @classmethod
    def of(cls, name: str, values: np.ndarray) -> Tensor:
        """A tensor whose values are in memory already."""
        return cls(name, values.shape, lambda: values)

    def kind(self, matrices: str) -> str:
        """How it is stored: vectors and position tables stay f32, as llama.cpp has them."""
        return "f32" if len(self.shape) < 2 or "position_" in self.name else matrices


def open_gguf(path: Path, architecture: str) -> gguf.GGUFReader:
    """A GGUF file of that architecture; Failure for any other file."""
    try:
        reader = gguf.GGUFReader(path)
    except OSError:
        raise
    except Exception as error:  # gguf has no type of its own for what is no GGUF file
        raise Failure(f"{path}: not a GGUF file: {error}") from None
    field = reader.get_field("general.architecture")
    found = None if field is None else field.contents()
    if found != architecture:
        raise Failure(f"{path}: architecture {found}, expected {architecture}")
    return reader


def encode(tensor: Tensor, kind: str) -> np.ndarray:
    """The tensor's values in the element type `kind`."""
    values = tensor.read()
    if values.shape != tensor.shape:
        raise Failure(f"{tensor.name} is {list(values.shape)}, expected {list(tensor.shape)}")
    values = np.ascontiguousarray(values, dtype=np.float32)
    if kind == "f16":
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if np.any(np.isinf(half) & np.isfinite(values)):
            largest = float(np.max(np.abs(values[np.isfinite(values)])))
            raise Failure(f"{tensor.name} holds {largest:g}, too large for f16; use f32 or bf16")
        return half
    if kind == "bf16":
        return gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)
    return values


def add_metadata(writer: gguf.GGUFWriter, key: str, value: Value) -> None:
    """Add one key; Python's own type decides the GGUF type (bool, uint32, float32, string)."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write(
    path: Path,
    architecture: str,
    metadata: Mapping[str, Value],
    tensors: Sequence[Tensor],
    kind: str = "f32",
) -> None:
    """Write a GGUF file whose matrices are of type `kind`. Keys of `metadata` that start with a
    dot belong to the architecture: `.block_count` becomes `gpt2.block_count`."""
    if path.is_dir():
        raise Failure(f"{path} is a folder; a file name is wanted")
    if not path.parent.is_dir():
        raise Failure(f"{path}: there is no folder {path.parent}")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    writer = gguf.GGUFWriter(temporary, architecture)
    for key, value in metadata.items():
        add_metadata(writer, architecture + key if key.startswith(".") else key, value)
    writer.add_file_type(KINDS[kind][2])
    for tensor in tensors:
        raw, size, _ = KINDS[tensor.kind(kind)]
        n_bytes = int(np.prod(tensor.shape, dtype=np.int64)) * size
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), n_bytes, raw)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in tensors:
            writer.write_tensor_data(encode(tensor, tensor.kind(kind)))
        writer.close()
        os.replace(temporary, path)
    finally:
        if writer.fout is not None:
            writer.close()
        temporary.unlink(missing_ok=True)


def run(main: Callable[[], None]) -> None:
    """Run a script's main: a failure is one line on stderr and exit status 1."""
    program = Path(sys.argv[0]).name
    try:
        main()
    except Failure as failure:
        sys.exit(f"{program}: error: {failure}")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"{program}: error: {where}{error.strerror or error}")
    except MemoryError:
        sys.exit(f"{program}: error: out of memory")
    except KeyboardInterrupt:
        sys.exit(130)
