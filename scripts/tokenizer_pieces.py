"""tokenizer.json with SentencePiece's vocabularies: BPE whose spaces are U+2581, and Unigram.

GPT-1's BPE is the same with its spaces, which it writes </w>, at the ends of words.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from hf_folder import say, shown
from output import Failure
from tokenizer_parts import Tokenizer, check_merges, check_vocab, flag, is_id, parts

MARK = "\u2581"
SPACES = ["replace", " ", MARK]
END_OF_WORD = "</w>"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def read_spaces(data: dict[str, Any], made: Tokenizer, where: Path) -> None:
    """How a text is cut and where a space is put before it: `prefix`, `split` and steps."""
    steps = parts(data.get("pre_tokenizer"), "pretokenizers", where)
    kinds = [step["type"] for step in steps]
    marked = any(made.normalizer[i : i + 3] == SPACES for i in range(len(made.normalizer)))
    made.prefix = "none"
    if kinds == ["BertPreTokenizer"] and data["model"].get("end_of_word_suffix") == END_OF_WORD:
        made.normalizer.append("bert-words")
        made.suffix = True
        return
    if not steps or (kinds == ["Split"] and steps[0].get("pattern") == {"String": " "}):
        if marked:  # a text has no spaces left to be split at
            return
        what = "no pre-tokenizer" if not steps else "a Split at spaces"
        raise Failure(f"{where}: it has {what}, and no normalizer that makes spaces {MARK}")
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise Failure(f"{where}: it cuts text in an unknown way: {shown(' and '.join(kinds))}")
    last = steps[-1]
    if last.get("replacement") != MARK:
        raise Failure(f"{where}: Metaspace has {shown(last.get('replacement'))}, expected {MARK}")
    scheme = last.get("prepend_scheme", "always")
    if last.get("add_prefix_space") is False:
        scheme = "never"
    if scheme not in ("always", "first", "never"):
        raise Failure(f"{where}: prepend_scheme {shown(scheme)} is none of always, first, never")
    made.split = flag({"split": True} | last, "split", where)
    made.prefix = {"always": "each", "first": "first", "never": "none"}[scheme]
    if len(steps) == 1:
        return
    if scheme != "always" or not made.split:
        raise Failure(f"{where}: WhitespaceSplit with prepend_scheme {shown(scheme)} isn't read")
    made.normalizer.append("words")
    made.prefix = "none"


def check_decoder(data: dict[str, Any], made: Tokenizer, where: Path) -> None:
    """Tokens come back as text with U+2581 as spaces, the first space dropped if one was put."""
    drops = False
    for step in parts(data.get("decoder"), "decoders", where):
        kind = step["type"]
        if kind == "Metaspace":
            drops = step.get("prepend_scheme", "always") != "never"
            drops &= step.get("add_prefix_space") is not False
        elif kind == "Strip" and step.get("content") == " " and step.get("stop", 0) == 0:
            drops = step.get("start") == 1
        elif kind == "Replace" and step.get("pattern") == {"String": MARK}:
            if step.get("content") != " ":
                raise Failure(f"{where}: the decoder writes {MARK} as {shown(step['content'])}")
        elif kind == "BPEDecoder" and made.suffix:
            if step.get("suffix") != END_OF_WORD:
                raise Failure(f"{where}: the decoder has the suffix {shown(step.get('suffix'))}")
        elif kind not in ("ByteFallback", "Fuse"):
            raise Failure(f"{where}: the decoder {shown(kind)} is unknown")
    if data.get("decoder") is not None and drops != made.puts_space():
        way = "keeps" if drops else "drops"
        say(f"{where}: the decoder isn't followed: what is read here {way} a text's first space")


def mark_bytes(made: Tokenizer, model: dict[str, Any], where: Path) -> None:
    """Tokens of bytes, where characters without a token become those."""
    if not flag(model, "byte_fallback", where):
        return
    made.bytes = {made.vocab[name] for name in BYTES if name in made.vocab}
    if 0 < len(made.bytes) < 256:
        missing = next(name for name in BYTES if name not in made.vocab)
        raise Failure(f"{where}: byte_fallback is true, but there is no token {missing}")


def spell_suffix(token: object, where: Path) -> object:
    """A token of GPT-1's as SentencePiece would write it."""
    if isinstance(token, list):
        return [spell_suffix(part, where) for part in token]
    if not isinstance(token, str):
        return token
    if MARK in token:
        raise Failure(f"{where}: token {shown(token)} has {MARK}, which stands for {END_OF_WORD}")
    return " ".join(re.sub(f"{END_OF_WORD}$", MARK, part) for part in token.split(" "))


def read_bpe(data: dict[str, Any], made: Tokenizer, where: Path) -> None:
    """BPE of characters; what it has that a GGUF file can't say is refused."""
    model = data["model"]
    known = ["type", "vocab", "merges", "unk_token", "fuse_unk", "byte_fallback"]
    if made.suffix:
        known = ["type", "vocab", "merges", "unk_token", "end_of_word_suffix"]
    for key, value in model.items():
        off = value is None or value == "" or value is False or value == 0
        if not off and key not in known:
            raise Failure(f"{where}: the model has {shown(key)} {shown(value)}, which isn't read")
    made.vocab = check_vocab(model.get("vocab"), where)
    merges = model.get("merges")
    if made.suffix and isinstance(merges, list):
        made.vocab = {str(spell_suffix(token, where)): i for token, i in made.vocab.items()}
        merges = [spell_suffix(merge, where) for merge in merges]
    if not isinstance(merges, list):
        raise Failure(f"{where}: not a tokenizer: its merges are {shown(merges)}")
    made.merges = list(check_merges(merges, made.vocab, where))
    mark_bytes(made, model, where)
    unknown = model.get("unk_token")
    if unknown is not None:
        if not isinstance(unknown, str) or unknown not in made.vocab:
            raise Failure(f"{where}: unk_token {shown(unknown)} is no token")
        made.unknown = made.vocab[unknown]
        if not made.bytes and not made.suffix and not flag(model, "fuse_unk", where):
            raise Failure(f"{where}: fuse_unk is false: runs of unknown characters are one token")
    of_bytes = made.bytes | ({made.unknown} if made.unknown is not None else set())
    for left, right in made.merges:
        for token in (left, right, left + right):
            if made.vocab[token] in of_bytes:
                raise Failure(f"{where}: merge {shown((left, right))} is of {shown(token)}")
    best = {}
    for i, (left, right) in enumerate(made.merges):
        best.setdefault(left + right, -float(i))
    least = -float(len(made.merges))
    made.scores = {i: best.get(token, least) for token, i in made.vocab.items()}


def read_unigram(data: dict[str, Any], made: Tokenizer, where: Path) -> None:
    model = data["model"]
    for key, value in model.items():
        if value is not None and key not in ("type", "vocab", "unk_id", "byte_fallback"):
            raise Failure(f"{where}: the model has {shown(key)} {shown(value)}, which isn't read")
    pieces = model.get("vocab")
    if not isinstance(pieces, list) or not pieces:
        raise Failure(f"{where}: not a tokenizer: its vocabulary is {shown(pieces)}")
    for i, piece in enumerate(pieces):
        right = isinstance(piece, list) and len(piece) == 2 and isinstance(piece[0], str)
        score = piece[1] if right else None
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise Failure(f"{where}: {shown(piece)} is no piece with its score")
        if not math.isfinite(score):
            raise Failure(f"{where}: piece {shown(piece[0])} has the score {score}")
        if piece[0] in made.vocab:
            raise Failure(f"{where}: piece {shown(piece[0])} is there twice")
        made.vocab[piece[0]] = i
        made.scores[i] = float(score)
    mark_bytes(made, model, where)
    unknown = model.get("unk_id")
    if unknown is not None and (not is_id(unknown) or unknown >= len(pieces)):
        raise Failure(f"{where}: unk_id is {shown(unknown)}, expected 0 to {len(pieces) - 1}")
    if unknown is None and not made.bytes:
        raise Failure(f"{where}: unk_id is missing: characters without a piece have no token")
    made.unknown = unknown
    of_texts = [s for i, s in made.scores.items() if i not in made.bytes and i != unknown]
    if of_texts and min(made.scores.values()) < min(of_texts):
        raise Failure(f"{where}: the least score, {min(made.scores.values())}, is no piece's")
