#!/usr/bin/env python3
"""Cases of SentencePiece's own file, tokenizer.model: sentencepiece_cases.py FOLDER.

FOLDER is an empty one to work in. Prints as convert_cases.py does.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from checks import Checks
from hf_folder import Config
from hf_tokenizer import vocabulary
from output import Failure


def proto(number: int, value: int | float | bytes) -> bytes:
    """A field of a message, of a number less than 16 or written in two bytes."""
    way = {int: 0, float: 5, bytes: 2}[type(value)]
    tag = varint(number << 3 | way)
    if isinstance(value, int):
        return tag + varint(value)
    if isinstance(value, float):
        return tag + struct.pack("<f", value)
    return tag + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


PIECES_OF_MODEL = [
    *(("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("<sep>", 0.0, 4), ("none", 0.0, 5)),
    *((f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)),
    *(("\u2581", -1.0, 1), ("a", -2.5, 1), ("\u2581a", -3.0, 1)),
]


def model_file(
    kind: int = 2,
    pieces: list[tuple[str, float, int]] = PIECES_OF_MODEL,
    normalizer: bytes = proto(4, 0),
    trainer: bytes = b"",
) -> bytes:
    listed = (proto(1, p.encode()) + proto(2, score) + proto(3, t) for p, score, t in pieces)
    parts = b"".join(proto(1, piece) for piece in listed)
    return parts + proto(2, proto(3, kind) + trainer) + proto(3, normalizer)


def check_sentencepiece(checks: Checks, work: Path) -> None:
    """tokenizer.model's pieces, scores, types and ways with spaces go along; others are refused."""
    path = work / "folder"
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "llama"}')

    def read(data: bytes, **settings: object) -> dict[str, Any]:
        values = {"tokenizer_class": "LlamaTokenizer"} | settings
        (path / "tokenizer_config.json").write_text(json.dumps(values))
        (path / "tokenizer.model").write_bytes(data)
        with contextlib.redirect_stderr(io.StringIO()):
            found = vocabulary(path, Config(path / "config.json"), 300)
        return {key.removeprefix("tokenizer.ggml."): value for key, value in found.items()}

    def refused(words: str, data: bytes) -> None:
        checks.refused(words, words, lambda: read(data), path)

    n = len(PIECES_OF_MODEL)
    more = {str(n): {"content": "<m>", "special": True}}
    found = read(model_file(), added_tokens_decoder=more)
    wanted = {"model": "llama", "add_space_prefix": True, "add_bos_token": True}
    wanted |= {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    got = {key: found[key] for key in wanted}
    checks.that(got == wanted, f"tokenizer.model: {got}, expected {wanted}")
    kinds = [kind for _, _, kind in PIECES_OF_MODEL]
    checks.that(found["token_type"][: n + 2] == [*kinds, 3, 5], f"types {found['token_type']}")
    checks.that(found["scores"][n - 2 : n] == [-2.5, -3.0], f"scores {found['scores'][n - 2 :]}")
    checks.that(found["tokens"][n - 1 : n + 1] == ["\u2581a", "<m>"], "tokens")
    own = [key for key in found if key.startswith("locus.tokenizer")]
    checks.that(not own, f"SentencePiece's way needs no keys of ours: {own}")
    found = read(model_file(normalizer=proto(4, 0) + proto(3, 0)), add_bos_token=False)
    checks.that(not found["add_space_prefix"] and not found["add_bos_token"], "no prefix")
    plain = [piece for piece in PIECES_OF_MODEL if piece[2] != 4]
    table = proto(2, b"table")
    found = read(model_file(1, plain, table))
    got = [found[key] for key in ("model", "precompiled_charsmap", "remove_extra_whitespaces")]
    checks.that(got == ["t5", b"table", True], f"Unigram: {got}")
    refused("model_type is 4", model_file(4))
    refused("BPE with precompiled_charsmap", model_file(normalizer=table + proto(4, 0)))
    refused("BPE with remove_extra_whitespaces", model_file(normalizer=b""))
    refused("user-defined piece, '<sep>'", model_file(1))
    refused("escape_whitespaces is false", model_file(normalizer=proto(4, 0) + proto(5, 0)))
    refused("treat_whitespace_as_suffix", model_file(trainer=proto(24, 1)))
    refused("'a' is there twice", model_file(pieces=[*PIECES_OF_MODEL, ("a", -1.0, 1)]))
    refused("has the type 7", model_file(pieces=[*PIECES_OF_MODEL, ("b", -1.0, 7)]))
    refused("has the score nan", model_file(pieces=[*PIECES_OF_MODEL, ("b", math.nan, 1)]))
    refused("it has no pieces", model_file(pieces=[]))
    refused("no model of SentencePiece's", b"\xff" * 20)
    refused("tiktoken's ranks of tokens; tokenizer.json", b"IQ== 0\nIg== 1\n")
    whole = model_file(pieces=PIECES_OF_MODEL[:8])
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
            try:
                read(data)
            except Failure as failure:
                one = "\n" not in str(failure) and len(str(failure)) < 400
                checks.that(one, f"tokenizer.model at {at}: {failure}")
            except Exception as error:
                checks.that(False, f"tokenizer.model at {at}: {error!r}")


def main() -> None:
    checks = Checks()
    check_sentencepiece(checks, Path(sys.argv[1]))
    checks.report()


if __name__ == "__main__":
    main()
