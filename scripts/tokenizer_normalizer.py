"""The normalizer of tokenizer.json as steps of a checkpoint (locus.tokenizer.normalizer)."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

from hf_folder import shown
from output import Failure
from tokenizer_parts import flag, parts

PLAIN = {
    "NFC": "nfc",
    "NFD": "nfd",
    "NFKC": "nfkc",
    "NFKD": "nfkd",
    "Lowercase": "lowercase",
    "StripAccents": "strip-accents",
}


def string(step: dict[str, Any], key: str, where: Path) -> str:
    value = step.get(key)
    if not isinstance(value, str):
        raise Failure(f"{where}: the normalizer {shown(step['type'])} has {key} {shown(value)}")
    return value


def replacement(step: dict[str, Any], where: Path) -> list[str]:
    """Of a text by another; of patterns, runs of spaces alone."""
    pattern, new = step.get("pattern"), string(step, "content", where)
    if isinstance(pattern, dict) and isinstance(pattern.get("String"), str) and pattern["String"]:
        return ["replace", pattern["String"], new]
    if pattern == {"Regex": " {2,}"}:
        return ["squeeze", " ", new]
    raise Failure(f"{where}: the normalizer Replace has the pattern {shown(pattern)}; not read")


def bert(step: dict[str, Any], where: Path) -> list[str]:
    own = {"clean_text": True, "handle_chinese_chars": True, "lowercase": True} | step
    lowercase = flag(own, "lowercase", where)
    accents = lowercase if step.get("strip_accents") is None else flag(step, "strip_accents", where)
    steps = {
        "bert-clean": flag(own, "clean_text", where),
        "bert-chinese": flag(own, "handle_chinese_chars", where),
        "bert-accents": accents,
        "lowercase": lowercase,
    }
    return [name for name, done in steps.items() if done]


def read_normalizer(data: dict[str, Any], where: Path) -> tuple[list[str], bytes]:
    """The steps, and the table of characters that SentencePiece replaces."""
    steps: list[str] = []
    charsmap = b""
    for step in parts(data.get("normalizer"), "normalizers", where):
        kind = step["type"]
        if kind in PLAIN:
            steps.append(PLAIN[kind])
        elif kind == "Strip":
            sides = ("left", "right")
            steps += [f"strip-{side}" for side in sides if flag(step, f"strip_{side}", where)]
        elif kind == "Prepend":
            steps += ["prepend", string(step, "prepend", where)]
        elif kind == "Replace":
            steps += replacement(step, where)
        elif kind == "BertNormalizer":
            steps += bert(step, where)
        elif kind == "Precompiled":
            table = step.get("precompiled_charsmap")
            try:
                read = base64.b64decode(table or "", validate=True)
            except (ValueError, TypeError, binascii.Error):
                raise Failure(f"{where}: precompiled_charsmap is {shown(table)}") from None
            if charsmap and read and read != charsmap:
                raise Failure(f"{where}: there are two tables of Precompiled; one fits")
            charsmap = charsmap or read
            steps += ["charsmap"] if read else []
        else:
            raise Failure(f"{where}: it normalises text by {shown(kind)}, which isn't read")
    return steps, charsmap
