"""Writing GGUF checkpoints.

A converter turns its input into metadata and a list of `Tensor`s, which are read one at a time,
large ones some rows at a time, while `write` streams them to the file; a model larger than memory
is no trouble. The file appears whole or not at all, and its bytes depend on the arguments only.

Quantised blocks are rounded as the gguf package does; `locus quantize` looks for better scales, and
writes the types of blocks of 256.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

QUANTIZATION_VERSION = 2


@dataclass(frozen=True)
class Kind:
    """An element type: values of a block are stored in `n_bytes`."""

    raw: gguf.GGMLQuantizationType
    file_type: int  # general.file_type of a file whose matrices have it
    block: int
    n_bytes: int
    least_too_large: float  # from here on a value rounds to infinity


F16_LIMIT = 65520.0
KINDS = {  # by the name that --type and `locus quantize` have for it
    "f32": Kind(gguf.GGMLQuantizationType.F32, 0, 1, 4, np.inf),
    "f16": Kind(gguf.GGMLQuantizationType.F16, 1, 1, 2, F16_LIMIT),
    "bf16": Kind(gguf.GGMLQuantizationType.BF16, 32, 1, 2, 2.0**128 - 2.0**119),
    "q8_0": Kind(gguf.GGMLQuantizationType.Q8_0, 7, 32, 34, 127 * F16_LIMIT),
    "q5_1": Kind(gguf.GGMLQuantizationType.Q5_1, 9, 32, 24, F16_LIMIT),
    "q5_0": Kind(gguf.GGMLQuantizationType.Q5_0, 8, 32, 22, 16 * F16_LIMIT),
    "q4_1": Kind(gguf.GGMLQuantizationType.Q4_1, 3, 32, 20, F16_LIMIT),
    "q4_0": Kind(gguf.GGMLQuantizationType.Q4_0, 2, 32, 18, 8 * F16_LIMIT),
}
HELD = {  # that only weights have which had it before: it is passed on, never made
    "mxfp4": Kind(gguf.GGMLQuantizationType.MXFP4, 38, 32, 17, np.inf),
}
SMALL = ("q5_1", "q5_0", "q4_1", "q4_0")  # less than 8 bits a value
TYPE_HELP = "of the matrices (default f32); `locus quantize` writes q6_k, q5_k_m, q4_k_m and others"
KEPT = (  # few values, which matter
    *("position_", "rope_", "_norm.", "ffn_gate_inp", "ssm_conv1d", ".bias"),
    *("hyena_conv1d", "hyena_filter_"),
)


@dataclass(frozen=True)
class Tensor:
    """A tensor by its name in the checkpoint; `shape` is row-major, [rows, cols] for a matrix."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]  # float32 of that shape, made when it is asked for
    # The same as rows after rows, where that takes less memory.
    rows: Callable[[], Iterable[np.ndarray]] | None = None
    held: str = ""  # of HELD: the values are its blocks, as bytes, and stay so

    @classmethod
    def of(cls, name: str, values: np.ndarray) -> Tensor:
        """A tensor whose values are in memory already."""
        return cls(name, values.shape, lambda: values)

    def kind(self, matrices: str) -> str:
        """How it is stored where matrices are of that kind, as `locus quantize` has it: vectors,
        position tables, routers and biases stay f32; beside smaller types, embedding and head have
        8 bits; rows that are no whole blocks are f16."""
        if self.held:
            return self.held
        if len(self.shape) < 2 or self.shape[-2] < 2 or any(part in self.name for part in KEPT):
            return "f32"
        if matrices in SMALL and self.name in ("token_embd.weight", "output.weight"):
            matrices = "q8_0"
        return "f16" if self.shape[-1] % KINDS[matrices].block else matrices

    def blocks(self) -> Iterator[np.ndarray]:
        """The values, as arrays of rows."""
        yield from self.rows() if self.rows else (self.read(),)


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


def largest_of(name: str, values: np.ndarray, first: int) -> float:
    """The largest magnitude; refuses what is no number. Row `first` of the tensor is the first of
    `values`."""
    largest = float(max(np.max(values, initial=0), -np.min(values, initial=0)))  # NaN if one is
    if not np.isfinite(largest):
        at = np.argmin(np.isfinite(values))  # the first that is not
        where = [int(i) for i in np.unravel_index(at, values.shape)]
        if where:
            where[0] += first
        raise Failure(f"{name} holds {values.flat[at]} at {where}, expected finite numbers")
    return largest


def to_bf16(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32, rounded to the nearest, ties to even."""
    bits = values.view("<u4")
    odd = (bits >> 16) & 1
    odd += 0x7FFF
    odd += bits
    return (odd >> 16).astype("<u2")


def encode(tensor: Tensor, kind: str) -> Iterator[np.ndarray]:
    """The tensor's values in the element type `kind`, some rows after others."""
    if tensor.held:
        yield from map(np.ascontiguousarray, tensor.blocks())
        return
    n_rows = 0
    for values in tensor.blocks():
        with np.errstate(over="ignore"):  # float64 past its range is infinite here
            values = np.ascontiguousarray(values, dtype=np.float32)
        largest = largest_of(tensor.name, values, n_rows)
        n_rows += len(values) if values.shape else 1
        if values.shape[1:] != tensor.shape[1:] or n_rows > (*tensor.shape, 1)[0]:
            raise Failure(f"{tensor.name} is {list(values.shape)}, expected {list(tensor.shape)}")
        if largest >= KINDS[kind].least_too_large:
            raise Failure(f"{tensor.name} holds {largest:g}, too large for {kind}; use f32")
        if kind == "f32":
            yield values
        elif kind == "f16":
            yield values.astype("<f2")
        elif kind == "bf16":
            yield to_bf16(values)
        else:
            yield gguf.quants.quantize(values, KINDS[kind].raw)
    if n_rows != (*tensor.shape, 1)[0]:
        raise Failure(f"{tensor.name} has {n_rows} rows, expected {list(tensor.shape)}")


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
    elif isinstance(value, np.ndarray):  # of float64
        array, kind = gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.FLOAT64
        writer.add_key_value(key, value.tolist(), array, kind)
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
    """Write a GGUF file whose matrices are of type `kind`, but for those that are held in another.
    Keys of `metadata` that start with a dot belong to the architecture: `.block_count` becomes
    `gpt2.block_count`."""
    types = KINDS | HELD
    writer = gguf.GGUFWriter(None, architecture)
    for key, value in metadata.items():
        add_metadata(writer, architecture + key if key.startswith(".") else key, value)
    most = next((tensor.held for tensor in tensors if tensor.held), kind)
    writer.add_file_type(types[most].file_type)
    if types[most].block > 1 or types[kind].block > 1:
        writer.add_quantization_version(QUANTIZATION_VERSION)
    for tensor in tensors:
        stored = types[tensor.kind(kind)]
        n_bytes = int(np.prod(tensor.shape, dtype=np.int64)) // stored.block * stored.n_bytes
        element = np.dtype(np.float32)  # of the shape
        writer.add_tensor_info(tensor.name, tensor.shape, element, n_bytes, stored.raw)
    with open_output(path, binary=True) as stream:
        file = Counted(stream)
        writer.fout, writer.state = [file], WriterState.EMPTY
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in tensors:
            file.pad(writer.data_alignment)
            for block in encode(tensor, tensor.kind(kind)):
                file.write(memoryview(block).cast("B"))
        file.pad(writer.data_alignment)
