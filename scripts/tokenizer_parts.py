"""What a folder says of its tokenizer, and how the parts of tokenizer.json are read.

Its parts are a normalizer, a pre-tokenizer, the model, added tokens, a post-processor (tokens
before and after a text) and a decoder; hf_tokenizer.py has the rest of the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hf_folder import shown
from output import Failure


def spelling() -> list[str]:
    """GPT-2's characters of the bytes 0 to 255."""
    shown_bytes = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in shown_bytes else chr(next(others)) for b in range(256)]


@dataclass(frozen=True)
class Added:
    """An added token and its flags, as the tokenizers library has them."""

    content: str
    special: bool = False
    normalized: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False

    @classmethod
    def of(cls, value: Any, where: Path, special: bool | None = None) -> Added:
        """From a text, or an object of a JSON file; `special` overrides."""
        if isinstance(value, str):
            return cls(value, special=bool(special), normalized=not special)
        if not isinstance(value, dict) or not isinstance(value.get("content"), str):
            raise Failure(f"{where}: {shown(value)} is no token")
        flags = {k: v for k, v in value.items() if k not in ("content", "id", "__type")}
        unknown = flags.keys() - {"special", "normalized", "single_word", "lstrip", "rstrip"}
        if unknown or not all(isinstance(flag, bool) for flag in flags.values()):
            raise Failure(f"{where}: {shown(value)} is no token, or has unknown flags")
        if special is not None:
            flags["special"] = special
        flags.setdefault("normalized", not flags.get("special", False))
        return cls(value["content"], **flags)


@dataclass
class Tokenizer:
    """What a folder says of its tokenizer."""

    vocab: dict[str, int] = field(default_factory=dict)
    merges: list[tuple[str, str]] = field(default_factory=list)
    kind: str = "gpt2"  # tokenizer.ggml.model: gpt2, llama or t5
    pre: str = "gpt-2"
    prefix_space: bool = False  # gpt2: before each stretch
    ignore_merges: bool = False
    by_ids: bool = False  # gpt2: any two tokens merge that make one, the least id first
    normalizer: list[str] = field(default_factory=list)  # steps of locus.tokenizer.normalizer
    charsmap: bytes = b""
    # llama and t5:
    prefix: str = "none"  # which stretches get a space: none, first or each
    split: bool = False  # nothing is joined across a space
    suffix: bool = False  # words end with a space, instead of beginning with one
    scores: dict[int, float] = field(default_factory=dict)
    bytes: set[int] = field(default_factory=set)  # tokens of bytes, for what has no token
    unknown: int | None = None
    # Of SentencePiece's own file: it is read as SentencePiece runs it, not the tokenizers library.
    own: bool = False
    unused: set[int] = field(default_factory=set)
    spaced: bool = False  # a space is put before a text
    squeezed: bool = False  # spaces at its ends are dropped, and all but one of a run
    begin: int | None = None  # put before a text
    end: int | None = None  # and after it
    added: dict[str, tuple[int, Added]] = field(default_factory=dict)
    rebuilt: bool = False  # GPT2Tokenizer builds it anew
    padding: str | None = None  # the token that tokenizer.json fills texts up with
    named: dict[str, str | None] = field(default_factory=dict)  # bos_token, eos_token, ...

    def puts_space(self) -> bool:
        """Whether a space is put before a text that has none."""
        steps = self.normalizer
        before = (("prepend", " "), ("prepend", "\u2581"))
        prepends = any(pair in before for pair in pairwise(steps))
        return self.spaced or self.prefix != "none" or prepends or "words" in steps

    def id_of(self, token: str | None) -> int | None:
        if token is None:
            return None
        return self.added[token][0] if token in self.added else self.vocab.get(token)

    def add(self, token: Added, where: Path, expected: object = None) -> None:
        """As the library adds it: a known token keeps its id, a new one gets the next."""
        i = self.id_of(token.content)
        if i is None:
            most = max((i for i, _ in self.added.values()), default=-1)
            i = most + 1 if most >= len(self.vocab) else len(self.vocab)
        if expected is not None and i != expected:
            raise Failure(
                f"{where}: token {shown(token.content)} has id {shown(expected)}, "
                f"but the tokenizers library would give it {i}"
            )
        if token.content:
            self.added[token.content] = i, token


# ---- vocabulary and merges ----------------------------------------------------------------


def flag(values: dict[str, Any], key: str, where: Path) -> bool:
    value = values.get(key)
    if not isinstance(value, bool | None):
        raise Failure(f"{where}: {key} is {shown(value)}, expected true or false")
    return bool(value)


def missing_bytes(vocab: dict[str, int]) -> list[int]:
    return [byte for byte, character in enumerate(spelling()) if character not in vocab]


def check_vocab(vocab: object, where: Path) -> dict[str, int]:
    if not isinstance(vocab, dict):
        raise Failure(f"{where}: not a tokenizer: its vocabulary is {shown(vocab)}")
    for token, i in vocab.items():
        if not is_id(i):
            raise Failure(f"{where}: token {shown(token)} has id {shown(i)}")
    return vocab


def is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def check_merges(
    merges: Iterable[object], vocab: dict[str, int], where: Path
) -> Iterator[tuple[str, str]]:
    """Pairs of tokens that make a token; a file holds them with a space between."""
    seen: set[tuple[str, str]] = set()
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(part, str) and part and " " not in part for part in pair)
        ):
            raise Failure(f"{where}: {shown(merge)} is no pair of tokens")
        left, right = pair
        for token in (left, right, left + right):
            if token not in vocab:
                raise Failure(f"{where}: merge {shown(merge)}: {shown(token)} is no token")
        if (left, right) in seen:
            raise Failure(f"{where}: merge {shown(merge)} is there twice")
        seen.add((left, right))
        yield left, right
    if not seen:
        raise Failure(f"{where}: there are no merges")


# ---- the parts of tokenizer.json -----------------------------------------------------------


def parts(value: object, plural: str, where: Path) -> list[dict[str, Any]]:
    """The steps of a pre-tokenizer, a normalizer, ...: none, one, or those of a Sequence."""
    if value is None:
        return []
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise Failure(f"{where}: not a tokenizer: {shown(value)} has no type")
    if value["type"] != "Sequence":
        return [value]
    steps = value.get(plural)
    if not isinstance(steps, list):
        raise Failure(f"{where}: not a tokenizer: {shown(value)} has no {plural}")
    try:
        return [part for step in steps for part in parts(step, plural, where)]
    except RecursionError:
        raise Failure(f"{where}: not a tokenizer: {plural} nested without end") from None
