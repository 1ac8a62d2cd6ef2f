"""tokenizer.json: byte-level BPE as the tokenizers library writes it.

Its parts are a normaliser, a pre-tokenizer (the pattern that cuts a text into words), the model
(BPE), added tokens, a post-processor (tokens before and after a text) and a decoder. What a GGUF
file has no key for is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_folder import read_json, say, shown
from output import Failure

CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD, LINES = r"[^\r\n\p{L}\p{N}]?", r"\s*[\r\n]+|\s+(?!\S)|\s+"
OTHERS = r" ?[^\s\p{L}\p{N}]+"
PATTERNS = {  # of a Split before ByteLevel: tokenizer.ggml.pre
    rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+|{OTHERS}|\s+(?!\S)|\s+": "gpt-2",
    rf"'(?:[sdmt]|ll|ve|re)| ?\p{{L}}+| ?\p{{N}}+|{OTHERS}|\s+(?!\S)|\s+": "gpt-2",
    rf"(?i:{CONTRACTIONS})|{LEAD}\p{{L}}+|\p{{N}}{{1,3}}|{OTHERS}[\r\n]*|{LINES}": "llama-bpe",
    rf"(?i:{CONTRACTIONS})|{LEAD}\p{{L}}+|\p{{N}}|{OTHERS}[\r\n]*|{LINES}": "qwen2",
    rf"{LEAD}{UPPER}*{LOWER}+(?i:{CONTRACTIONS})?|{LEAD}{UPPER}+{LOWER}*(?i:{CONTRACTIONS})?"
    rf"|\p{{N}}{{1,3}}|{OTHERS}[\r\n/]*|{LINES}": "gpt-4o",
    rf"(?i:{CONTRACTIONS})|{LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{LINES}": "qwen35",
    rf"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*|\p{{N}}|{OTHERS}[\r\n/]*|{LINES}": "tekken",
    " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+": "bloom",
}


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

    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    pre: str = "gpt-2"
    prefix_space: bool = False
    ignore_merges: bool = False
    begin: int | None = None  # put before a text
    end: int | None = None  # and after it
    added: dict[str, tuple[int, Added]] = field(default_factory=dict)
    padding: str | None = None  # the token that tokenizer.json fills texts up with
    named: dict[str, str | None] = field(default_factory=dict)  # bos_token, eos_token, ...

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


# ---- the other parts -----------------------------------------------------------------------


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


def read_pre_tokenizer(data: dict[str, Any], where: Path) -> tuple[str, bool]:
    """tokenizer.ggml.pre, and whether a space is put before a text."""
    steps = parts(data.get("pre_tokenizer"), "pretokenizers", where)
    names = " and ".join(step["type"] for step in steps) or "none"
    if not steps or steps[-1]["type"] != "ByteLevel":
        raise Failure(f"{where}: no byte-level BPE: the pre-tokenizer is {shown(names)}")
    prefix_space = flag(steps[-1], "add_prefix_space", where)
    own = flag({"use_regex": True} | steps[-1], "use_regex", where)
    before = steps[0]
    if len(steps) == 1 and own:
        return "gpt-2", prefix_space
    if len(steps) == 2 and not prefix_space:
        if own and before["type"] == "Digits" and flag(before, "individual_digits", where):
            return "starcoder", False
        pattern = before.get("pattern")
        regex = pattern.get("Regex") if isinstance(pattern, dict) else None
        name = PATTERNS.get(regex) if isinstance(regex, str) else None
        way = before.get("behavior"), before.get("invert")
        kept = way == ("Isolated", False) or (way == ("Removed", True) and name != "bloom")
        if not own and before["type"] == "Split" and name and kept:
            return name, False
        if before["type"] == "Split":
            raise Failure(f"{where}: it cuts text in an unknown way: {shown(regex)}, {shown(way)}")
    raise Failure(f"{where}: it cuts text in an unknown way: {shown(names)}")


def read_template(data: dict[str, Any], where: Path) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that the post-processor puts before a text and after it."""
    before: list[int] = []
    after: list[int] = []
    for step in parts(data.get("post_processor"), "processors", where):
        if step["type"] == "ByteLevel":  # it trims offsets alone
            continue
        if step["type"] != "TemplateProcessing" or before or after:
            raise Failure(f"{where}: the post-processor {shown(step['type'])} is unknown")
        single, known, seen = step.get("single"), step.get("special_tokens"), False
        if not isinstance(single, list) or not isinstance(known, dict):
            raise Failure(f"{where}: not a tokenizer: the template is {shown(single)}")
        for piece in single:
            piece = piece if isinstance(piece, dict) else {}
            if "Sequence" in piece:
                seen = True
                continue
            token = piece.get("SpecialToken")
            name = token.get("id") if isinstance(token, dict) else None
            entry = known.get(name) if isinstance(name, str) else None
            ids = entry.get("ids") if isinstance(entry, dict) else None
            if not isinstance(ids, list) or not all(is_id(i) for i in ids):
                raise Failure(f"{where}: the template puts {shown(piece)}, which is no token")
            (after if seen else before).extend(ids)
        if not seen or sum("Sequence" in piece for piece in single) != 1:
            raise Failure(f"{where}: the template {shown(single)} hasn't the text once")
    return tuple(before), tuple(after)


def check_model(data: dict[str, Any], where: Path) -> dict[str, Any]:
    """The BPE model; what it has that a GGUF file can't say is refused."""
    model = data.get("model")
    if not isinstance(model, dict):
        raise Failure(f"{where}: not a tokenizer of the tokenizers library: no model")
    if model.get("type", "BPE") != "BPE":
        raise Failure(f"{where}: no byte-level BPE, but {shown(model['type'])}")
    for key, value in model.items():
        off = value is None or value == "" or value is False or value == 0
        known = key in ("type", "vocab", "merges", "ignore_merges", "unk_token", "fuse_unk")
        if not off and not known:
            raise Failure(f"{where}: the model has {shown(key)} {shown(value)}, which isn't read")
    return model


def from_tokenizer_json(path: Path, rebuilt: bool, prefix_space: bool) -> tuple[Tokenizer, list]:
    """The tokenizer and its added tokens. `rebuilt`: GPT2Tokenizer loads it, with `prefix_space`
    of its own."""
    data = read_json(path)
    model = check_model(data, path)
    vocab = check_vocab(model.get("vocab"), path)
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise Failure(f"{path}: not a tokenizer: its merges are {shown(merges)}")
    if steps := parts(data.get("normalizer"), "normalizers", path):
        raise Failure(f"{path}: it normalises text by {shown(steps[0]['type'])}; none is read")
    for step in parts(data.get("decoder"), "decoders", path):
        if step["type"] != "ByteLevel":
            raise Failure(f"{path}: the decoder {shown(step['type'])} is unknown")
    for key in ("truncation", "padding"):
        if data.get(key) is not None:
            say(f"{path}: left out {key}, which is done where it is asked for alone")
    pre, with_space = read_pre_tokenizer(data, path)
    ignore_merges = flag(model, "ignore_merges", path)
    if rebuilt and (pre != "gpt-2" or ignore_merges):
        what = "ignore_merges" if pre == "gpt-2" else f"the pattern of {pre}"
        raise Failure(
            f"{path}: has {what}, but GPT2Tokenizer, which loads it, has not; if "
            "tokenizer.json is right, tokenizer_config.json's tokenizer_class is "
            "PreTrainedTokenizerFast"
        )
    if rebuilt and with_space != prefix_space:
        say(f"{path}: add_prefix_space is {with_space}; GPT2Tokenizer takes {prefix_space}")
    made = Tokenizer(vocab, list(check_merges(merges, vocab, path)), pre)
    made.prefix_space = prefix_space if rebuilt else with_space
    made.ignore_merges = ignore_merges
    padding = data.get("padding")
    if isinstance(padding, dict) and isinstance(padding.get("pad_token"), str):
        made.padding = padding["pad_token"]
    if model.get("unk_token") is not None and not rebuilt and missing_bytes(vocab):
        raise Failure(f"{path}: unk_token stands for bytes without a token; it isn't read")
    for side, ids in zip(("begin", "end"), read_template(data, path), strict=True):
        if len(ids) > 1:
            raise Failure(f"{path}: the template puts {len(ids)} tokens at the {side}, not one")
        if ids:
            setattr(made, side, ids[0])
    added = data.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise Failure(f"{path}: not a tokenizer: added_tokens is {shown(added)}")
    for token in added:
        if not is_id(token.get("id")):
            raise Failure(f"{path}: added token {shown(token)} has no id")
    return made, [(token["id"], Added.of(token, path)) for token in added]
