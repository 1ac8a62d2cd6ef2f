#!/usr/bin/env python3
"""Convert a llama2.c model (.bin, versions 0 to 2) and its tokenizer.bin to GGUF.

    convert_llama2c.py stories260K.bin tok512.bin -o stories260K.gguf

llama2.c rotates adjacent pairs, as GGUF's llama files do, so no weight is permuted. Version 2 holds
8-bit numbers with a scale for each group of them; they are read as the floats that they stand for.
"""

from __future__ import annotations

import argparse
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checkpoint import (
    BYTE,
    CONTROL,
    KINDS,
    NORMAL,
    TYPE_HELP,
    UNKNOWN,
    Tensor,
    Value,
    refuse_pointer,
    write,
)
from output import Failure, refuse_inputs, run

import numpy as np  # isort: skip (checkpoint says what to install when it is missing)

MAGIC_V1 = 0x616B3432  # "ak42"
HEADER_BYTES_V1 = 256
BYTE_PIECE = re.compile(rb"<0x[0-9A-Fa-f]{2}>")
MAX_DIMENSION = 1 << 24  # above any model; keeps products far from overflow


@dataclass(frozen=True)
class Config:
    """The seven integers of a llama2.c header, and what follows from them."""

    n_embd: int
    n_ff: int
    n_layer: int
    n_head: int
    n_head_kv: int
    n_vocab: int
    n_context: int
    tied: bool
    group: int = 0  # numbers that share a scale; 0: they are floats

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head

    @property
    def n_kv(self) -> int:
        """Columns of the keys and of the values."""
        return self.head_dim * self.n_head_kv

    def check(self, path: Path) -> None:
        names = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
        values = (self.n_embd, self.n_ff, self.n_layer, self.n_head, self.n_head_kv)
        for name, value in zip(names, (*values, self.n_vocab, self.n_context), strict=True):
            if not 1 <= value <= MAX_DIMENSION:
                raise Failure(f"{path}: {name} is {value}; this is no llama2.c model")
        if self.n_embd % self.n_head != 0 or self.head_dim % 2 != 0:
            raise Failure(f"{path}: dim {self.n_embd} doesn't divide into {self.n_head} even heads")
        if self.n_head % self.n_head_kv != 0:
            raise Failure(f"{path}: {self.n_head} heads can't share {self.n_head_kv} kv heads")
        if self.group and (self.group < 0 or self.n_embd % self.group != 0):
            raise Failure(f"{path}: groups of {self.group} don't divide dim {self.n_embd}")


def read_header(path: Path, start: bytes) -> tuple[Config, int, int]:
    """The configuration, the version and where the weights begin."""
    if len(start) < 28:
        raise Failure(f"{path}: {len(start)} bytes, too short for a llama2.c header of 28")
    magic, version = struct.unpack_from("<Ii", start)
    if magic != MAGIC_V1:
        *sizes, n_vocab, n_context = struct.unpack_from("<7i", start)
        config = Config(*sizes, abs(n_vocab), n_context, tied=n_vocab > 0)
        offset, version = 28, 0
    elif version not in (1, 2):
        raise Failure(f"{path}: llama2.c format version {version}; versions 0 to 2 are read")
    elif len(start) < HEADER_BYTES_V1:
        raise Failure(f"{path}: {len(start)} bytes, too short for a header of {HEADER_BYTES_V1}")
    else:
        group = struct.unpack_from("<i", start, 37)[0] if version == 2 else 0
        if version == 2 and group == 0:
            raise Failure(f"{path}: groups of 0 numbers; expected 1 or more")
        config = Config(*struct.unpack_from("<7i", start, 8), tied=start[36] != 0, group=group)
        offset = HEADER_BYTES_V1
    config.check(path)
    return config, version, offset


def layout(c: Config, version: int) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    """The file's tensors in order: name and shape of one layer's part, {} being the layer. A name
    of None is skipped (version 0 keeps tables of RoPE angles, which follow from the header)."""
    d, kv, ff = c.n_embd, c.n_kv, c.n_ff
    norms = {"blk.{}.attn_norm.weight": (d,), "blk.{}.ffn_norm.weight": (d,)}
    attention = {
        "blk.{}.attn_q.weight": (d, d),
        "blk.{}.attn_k.weight": (kv, d),
        "blk.{}.attn_v.weight": (kv, d),
        "blk.{}.attn_output.weight": (d, d),
    }
    mlp = {
        "blk.{}.ffn_gate.weight": (ff, d),
        "blk.{}.ffn_down.weight": (d, ff),
        "blk.{}.ffn_up.weight": (ff, d),
    }
    embedding = ("token_embd.weight", (c.n_vocab, d))
    attention_norm, mlp_norm = norms.items()
    if version == 0:
        yield from (embedding, attention_norm, *attention.items(), mlp_norm, *mlp.items())
        yield "output_norm.weight", (d,)
        yield None, (c.n_context, c.head_dim // 2)  # freq_cis_real
        yield None, (c.n_context, c.head_dim // 2)  # freq_cis_imag
    else:
        yield from (attention_norm, mlp_norm, ("output_norm.weight", (d,)), embedding)
        yield from (*attention.items(), *mlp.items())
    if not c.tied:
        yield "output.weight", (c.n_vocab, d)


def bytes_of(c: Config, shape: tuple[int, ...]) -> int:
    """Of a tensor: version 2 has 8 bits a number of a matrix, and a float a group."""
    n = math.prod(shape)
    return n + 4 * (n // c.group) if c.group and len(shape) > 1 else 4 * n


def read_model(path: Path) -> tuple[Config, list[Tensor]]:
    """The configuration and the tensors, mapped, not read."""
    refuse_pointer(path)
    with path.open("rb") as file:
        config, version, offset = read_header(path, file.read(HEADER_BYTES_V1))
    spans = [
        (name, shape, config.n_layer if name and "{}" in name else 1, bytes_of(config, shape))
        for name, shape in layout(config, version)
    ]
    size, end = path.stat().st_size, offset + sum(n * n_bytes for _, _, n, n_bytes in spans)
    if size != end:
        raise Failure(f"{path}: {size} bytes, but its header makes {end} (format {version})")
    parts: list[tuple[str | None, tuple[int, ...], int]] = []
    for name, shape, n, n_bytes in spans:
        parts += [(name and name.format(i), shape, offset + i * n_bytes) for i in range(n)]
        offset += n * n_bytes
    mapped = np.memmap(path, dtype=np.uint8, mode="r")

    def reader(shape: tuple[int, ...], start: int) -> np.ndarray:
        n, stored = math.prod(shape), mapped[start : start + bytes_of(config, shape)]
        if len(stored) == 4 * n:
            return stored.view("<f4").reshape(shape)
        scales = np.frombuffer(stored[n:].tobytes(), "<f4")  # which needn't be aligned
        groups = stored[:n].view(np.int8).reshape(-1, config.group)
        return (groups.astype(np.float32) * scales[:, None]).reshape(shape)

    tensors = [
        Tensor(name, shape, lambda shape=shape, start=start: reader(shape, start))
        for name, shape, start in parts
        if name is not None
    ]
    return config, sorted(tensors, key=lambda t: order(t.name))


def order(name: str) -> tuple[int, int, str]:
    """Embedding first, then layer by layer, then the output: the order a forward pass has."""
    if name.startswith("blk."):
        return 1, int(name.split(".")[1]), name
    return (0 if name.startswith("token_embd") else 2), 0, name


def read_tokenizer(path: Path, n_vocab: int) -> tuple[list[bytes], list[float]]:
    """Pieces and scores: int32 longest piece, then per token a float32 score, an int32 length and
    the piece's bytes."""
    refuse_pointer(path)
    data = path.read_bytes()
    pieces: list[bytes] = []
    scores: list[float] = []
    offset = 4
    while offset < len(data):
        entry = data[offset : offset + 8]
        score, length = struct.unpack("<fi", entry) if len(entry) == 8 else (0.0, -1)
        piece = data[offset + 8 : offset + 8 + max(length, 0)]
        if len(piece) != length:
            raise Failure(f"{path}: token {len(pieces)} is cut or no token; is it a tokenizer.bin?")
        if not math.isfinite(score):
            raise Failure(f"{path}: token {len(pieces)} has the score {score}, expected a number")
        pieces.append(piece)
        scores.append(score)
        offset += 8 + length
    if len(pieces) != n_vocab:
        raise Failure(f"{path}: {len(pieces)} tokens, but the model has {n_vocab}")
    return pieces, scores


def vocabulary(pieces: list[bytes], scores: list[float]) -> dict[str, Value]:
    """The tokenizer's metadata. llama2.c keeps spaces as they are and <s>, </s> with a newline
    before and after them; SentencePiece has U+2581 for a space, and plain names."""
    space = "\u2581".encode()
    tokens = [piece.replace(b" ", space) for piece in pieces]
    kinds = [BYTE if BYTE_PIECE.fullmatch(piece) else NORMAL for piece in pieces]
    for i, (name, kind) in enumerate(((b"<unk>", UNKNOWN), (b"<s>", CONTROL), (b"</s>", CONTROL))):
        if i < len(tokens) and tokens[i].strip() == name:
            tokens[i], kinds[i] = name, kind
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.add_space_prefix": True,
    }


def convert(model: Path, tokenizer: Path, output: Path, kind: str, name: str) -> None:
    refuse_inputs(output, (model, tokenizer))
    c, tensors = read_model(model)
    metadata: dict[str, Value] = {
        "general.name": name,
        ".context_length": c.n_context,
        ".embedding_length": c.n_embd,
        ".block_count": c.n_layer,
        ".feed_forward_length": c.n_ff,
        ".attention.head_count": c.n_head,
        ".attention.head_count_kv": c.n_head_kv,
        ".attention.layer_norm_rms_epsilon": 1e-5,
        ".rope.dimension_count": c.head_dim,
        ".rope.freq_base": 10000.0,
        ".vocab_size": c.n_vocab,
    }
    metadata |= vocabulary(*read_tokenizer(tokenizer, c.n_vocab))
    write(output, "llama", metadata, tensors, kind)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="llama2.c model, e.g. stories260K.bin")
    parser.add_argument("tokenizer", type=Path, help="its tokenizer.bin, e.g. tok512.bin")
    parser.add_argument("-o", "--output", type=Path, required=True, help="GGUF file to write")
    parser.add_argument(
        "--type", type=str.lower, choices=tuple(KINDS), default="f32", help=TYPE_HELP
    )
    parser.add_argument("--name", help="general.name (default: the model's file name)")
    args = parser.parse_args()
    convert(args.model, args.tokenizer, args.output, args.type, args.name or args.model.stem)


if __name__ == "__main__":
    run(main)
