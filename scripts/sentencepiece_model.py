"""SentencePiece's own file, tokenizer.model: for folders without a tokenizer.json.

It is a message of Google's Protocol Buffers (sentencepiece_model.proto); what is read of it are the
pieces, and how a text is normalised before it is cut into them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from checkpoint import BYTE, CONTROL, UNKNOWN, UNUSED, USER_DEFINED, refuse_pointer
from hf_folder import shown
from output import Failure
from tokenizer_parts import Added, Tokenizer

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a field is written
PIECES, TRAINER, NORMALIZER = 1, 2, 3  # fields of the whole
KINDS = {1: "t5", 2: "llama"}  # TrainerSpec.model_type: tokenizer.ggml.model
MODEL_TYPE, SUFFIX, BOS_ID, EOS_ID = 3, 24, 41, 42  # of TrainerSpec
CHARSMAP, DUMMY_PREFIX, REMOVE_EXTRA, ESCAPE = 2, 3, 4, 5  # of NormalizerSpec


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(10):
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError("a number of more than 10 bytes")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by their numbers; IndexError or ValueError: it is none."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, way = tag >> 3, tag & 7
        if way == VARINT:
            value, at = varint(data, at)
            yield number, value
            continue
        if way == BYTES:
            length, at = varint(data, at)
        elif way in (FIXED64, FIXED32):
            length = 8 if way == FIXED64 else 4
        else:
            raise ValueError(f"a field of kind {way}")
        if length > len(data) - at:
            raise IndexError
        yield number, data[at : at + length]
        at += length


def message(data: bytes) -> dict[int, int | bytes]:
    """A message whose fields are there once; of others the last."""
    return dict(fields(data))


def setting(values: dict[int, int | bytes], number: int, default: int) -> int:
    value = values.get(number, default)
    if not isinstance(value, int):
        raise ValueError(f"field {number} is no number")
    return value


def add_piece(made: Tokenizer, i: int, data: bytes, where: Path) -> None:
    values = message(data)
    text, score, kind = values.get(1, b""), values.get(2, bytes(4)), setting(values, 3, 1)
    if not isinstance(text, bytes) or not isinstance(score, bytes) or len(score) != 4:
        raise ValueError("a piece without text and score")
    piece = text.decode()
    made.scores[i] = struct.unpack("<f", score)[0]
    if not math.isfinite(made.scores[i]):
        raise Failure(f"{where}: piece {shown(piece)} has the score {made.scores[i]}")
    if not 1 <= kind <= BYTE:
        raise Failure(f"{where}: piece {shown(piece)} has the type {kind}, expected 1 to {BYTE}")
    if piece in made.vocab:
        raise Failure(f"{where}: piece {shown(piece)} is there twice")
    made.vocab[piece] = i
    if kind in (CONTROL, USER_DEFINED):
        made.added[piece] = i, Added(piece, special=kind == CONTROL, normalized=False)
    elif kind == UNKNOWN:
        made.unknown = i
    elif kind == UNUSED:
        made.unused.add(i)
    elif kind == BYTE:
        made.bytes.add(i)


def read_normalizer(made: Tokenizer, values: dict[int, int | bytes], where: Path) -> None:
    table = values.get(CHARSMAP, b"")
    if not isinstance(table, bytes):
        raise ValueError("precompiled_charsmap is no bytes")
    made.charsmap = table
    made.spaced = bool(setting(values, DUMMY_PREFIX, 1))
    made.squeezed = bool(setting(values, REMOVE_EXTRA, 1))
    if not setting(values, ESCAPE, 1):
        raise Failure(f"{where}: escape_whitespaces is false; spaces are U+2581 here")
    if made.kind == "llama" and (table or made.squeezed):
        what = "precompiled_charsmap" if table else "remove_extra_whitespaces"
        raise Failure(f"{where}: BPE with {what}, which is read for Unigram alone")


RANKS = re.compile(rb"[A-Za-z0-9+/]+=* \d+\n")  # a line of tiktoken's file


def from_sentencepiece(path: Path) -> Tokenizer:
    """The tokenizer that the file describes, as SentencePiece runs it."""
    refuse_pointer(path)
    with path.open("rb") as file:
        if RANKS.match(file.read(256)):
            raise Failure(f"{path}: tiktoken's ranks of tokens; tokenizer.json is expected")
    made = Tokenizer(own=True)
    pieces: list[bytes] = []
    parts: dict[int, dict[int, int | bytes]] = {TRAINER: {}, NORMALIZER: {}}
    try:
        for number, value in fields(path.read_bytes()):
            if number == PIECES and isinstance(value, bytes):
                pieces.append(value)
            elif number in parts and isinstance(value, bytes):
                parts[number] = message(value)
        kind = setting(parts[TRAINER], MODEL_TYPE, 1)
        if kind not in KINDS:
            raise Failure(f"{path}: model_type is {kind}, expected 1 (Unigram) or 2 (BPE)")
        if setting(parts[TRAINER], SUFFIX, 0):
            raise Failure(f"{path}: treat_whitespace_as_suffix is true, which isn't read")
        made.kind = KINDS[kind]
        read_normalizer(made, parts[NORMALIZER], path)
        for i, data in enumerate(pieces):
            add_piece(made, i, data, path)
        user = next((piece for piece, (_, t) in made.added.items() if not t.special), None)
        if user is not None and made.kind == "t5" and (made.spaced or made.squeezed):
            what = "add_dummy_prefix" if made.spaced else "remove_extra_whitespaces"
            raise Failure(f"{path}: Unigram with {what} and a user-defined piece, {shown(user)}")
        by_id = {i: piece for piece, i in made.vocab.items()}
        for name, number, default in (("bos", BOS_ID, 1), ("eos", EOS_ID, 2)):
            made.named[f"{name}_token"] = by_id.get(setting(parts[TRAINER], number, default))
    except (IndexError, ValueError, struct.error) as error:
        raise Failure(f"{path}: no model of SentencePiece's: {error or 'it is cut'}") from None
    if not pieces:
        raise Failure(f"{path}: no model of SentencePiece's: it has no pieces")
    return made
