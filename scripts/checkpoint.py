"""Writing GGUF checkpoints.

A converter turns its input into metadata and a list of `Tensor`s, which are read one at a time
while `write` streams them to the file; a model larger than memory is no trouble. The file appears
whole or not at all, and its bytes depend on the arguments only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from output import Failure, open_output

try:
    import gguf
    import numpy as np
    from gguf.gguf_writer import WriterState
except ImportError as missing:
    sys.exit(f"error: {missing}; scripts/setup.sh python installs what is needed in .venv")

Value = bool | int | float | str | list

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # token types

KINDS = {  # name: type of the matrices, bytes an element, general.file_type
    "f32": (gguf.GGMLQuantizationType.F32, 4, 0),
    "f16": (gguf.GGMLQuantizationType.F16, 2, 1),
    "bf16": (gguf.GGMLQuantizationType.BF16, 2, 32),
}
LARGEST = {"f16": 65520.0, "bf16": 2.0**128 - 2.0**119}  # from here on they round to infinity


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


LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def refuse_pointer(path: Path) -> None:
    """A file that git-lfs left in another's place is refused."""
    with path.open("rb") as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            raise Failure(f"{path}: a Git LFS pointer: the file itself was not downloaded")


def open_gguf(path: Path, architecture: str) -> gguf.GGUFReader:
    """A GGUF file of that architecture; Failure for any other file."""
    refuse_pointer(path)
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


def finite_values(tensor: Tensor) -> np.ndarray:
    """The tensor's values as float32, of its shape and finite."""
    values = tensor.read()
    if values.shape != tensor.shape:
        raise Failure(f"{tensor.name} is {list(values.shape)}, expected {list(tensor.shape)}")
    with np.errstate(over="ignore"):  # float64 past its range is infinite here
        values = np.ascontiguousarray(values, dtype=np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        at = np.argmin(finite)  # the first that is not
        where = [int(i) for i in np.unravel_index(at, values.shape)]
        raise Failure(f"{tensor.name} holds {values.flat[at]} at {where}, expected finite numbers")
    return values


def encode(tensor: Tensor, kind: str) -> np.ndarray:
    """The tensor's values in the element type `kind`."""
    values = finite_values(tensor)
    if kind == "f32":
        return values
    limit = LARGEST[kind]
    largest = float(np.max(np.abs(values), initial=0))
    if largest >= limit:
        raise Failure(f"{tensor.name} holds {largest:g}, too large for {kind}; use f32")
    if kind == "f16":
        return values.astype(np.float16)
    return gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16)


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


class Counted:
    """A stream that knows its place where the file can't tell: a pipe, a device."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.place = stream, 0

    def write(self, data: bytes | memoryview) -> None:
        self.stream.write(data)
        self.place += len(data)

    def pad(self, alignment: int) -> None:
        self.write(bytes(-self.place % alignment))

    def tell(self) -> int:
        return self.place

    def flush(self) -> None:
        self.stream.flush()


def write(
    path: Path,
    architecture: str,
    metadata: Mapping[str, Value],
    tensors: Sequence[Tensor],
    kind: str = "f32",
) -> None:
    """Write a GGUF file whose matrices are of type `kind`. Keys of `metadata` that start with a
    dot belong to the architecture: `.block_count` becomes `gpt2.block_count`."""
    writer = gguf.GGUFWriter(None, architecture)
    for key, value in metadata.items():
        add_metadata(writer, architecture + key if key.startswith(".") else key, value)
    writer.add_file_type(KINDS[kind][2])
    for tensor in tensors:
        raw, size, _ = KINDS[tensor.kind(kind)]
        n_bytes = int(np.prod(tensor.shape, dtype=np.int64)) * size
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), n_bytes, raw)
    with open_output(path, binary=True) as stream:
        file = Counted(stream)
        writer.fout, writer.state = [file], WriterState.EMPTY
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in tensors:
            file.pad(writer.data_alignment)
            file.write(memoryview(encode(tensor, tensor.kind(kind))).cast("B"))
        file.pad(writer.data_alignment)
