"""tokenizer.json: byte-level BPE as the tokenizers library writes it, and what all kinds share.

What a GGUF file has no key for is refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_folder import read_json, say, shown
from output import Failure
from tokenizer_normalizer import read_normalizer
from tokenizer_parts import (
    Added,
    Tokenizer,
    check_merges,
    check_vocab,
    flag,
    is_id,
    missing_bytes,
    parts,
    spelling,
)
from tokenizer_pieces import check_decoder, read_bpe, read_spaces, read_unigram

CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD, LINES = r"[^\r\n\p{L}\p{N}]?", r"\s*[\r\n]+|\s+(?!\S)|\s+"
OTHERS = r" ?[^\s\p{L}\p{N}]+"
PATTERNS = {  # of a Split before ByteLevel: tokenizer.ggml.pre
    rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+|{OTHERS}|\s+(?!\S)|\s+": "gpt-2",
    rf"'(?:[sdmt]|ll|ve|re)| ?\p{{L}}+| ?\p{{N}}+|{OTHERS}|\s+(?!\S)|\s+": "gpt-2",
    rf"(?i:{CONTRACTIONS})|{LEAD}\p{{L}}+|\p{{N}}{{1,3}}|{OTHERS}[\r\n]*|{LINES}": "llama-bpe",
    rf"(?i:{CONTRACTIONS})|{LEAD}\p{{L}}+|\p{{N}}|{OTHERS}[\r\n]*|{LINES}": "qwen2",
    rf"'(?i:[sdmt]|ll|ve|re)|{LEAD}+\p{{L}}+|\p{{N}}{{1,2}}|{OTHERS}+[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+": "nanochat",
    rf"{LEAD}{UPPER}*{LOWER}+(?i:{CONTRACTIONS})?|{LEAD}{UPPER}+{LOWER}*(?i:{CONTRACTIONS})?"
    rf"|\p{{N}}{{1,3}}|{OTHERS}[\r\n/]*|{LINES}": "gpt-4o",
    rf"(?i:{CONTRACTIONS})|{LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{LINES}": "qwen35",
    rf"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*|\p{{N}}|{OTHERS}[\r\n/]*|{LINES}": "tekken",
    " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+": "bloom",
}


def class_text(ranges: str) -> str:
    """A character class as tokenizer.json has it, of code points in hexadecimal: "41-5A B5"."""
    return "".join("-".join(chr(int(n, 16)) for n in part.split("-")) for part in ranges.split())


DEEPSEEK_LETTERS = class_text(  # those that have a case, most of them
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386"
    " 388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA"
    " 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57"
    " 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB"
    " 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D"
    " 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3"
    " A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A"
    " FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943"
)
EAST = f"[{class_text('4E00-9FA5 800-4E00 AC00-D7FF')}]+"
DEEPSEEK_MARKS = class_text("FF01-FF0F FF1A-FF5E 2018-201F 3000-3002")
DIGITS, ONE_DIGIT, PUNCTUATION, GPT2 = "digits", "each digit", "punctuation", "GPT-2's words"
SEQUENCES = {  # of several steps, ByteLevel's own pattern or none at their end: tokenizer.ggml.pre
    (ONE_DIGIT, GPT2): "starcoder",
    (
        r"[\r\n]",
        rf"\s?[{DEEPSEEK_LETTERS}]+",
        rf"\s?[!-/:-~{DEEPSEEK_MARKS}]+",
        r"\s+$",
        EAST,
        ONE_DIGIT,
    ): "deepseek-llm",
    (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST, ONE_DIGIT): "deepseek-coder",
    (
        r"\p{N}{1,3}",
        f"[{class_text('4E00-9FA5 3040-309F 30A0-30FF')}]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"""
        r"""[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
        rf"{LINES}",
    ): "deepseek-v3",
    (PUNCTUATION, GPT2, DIGITS, "[0-9][0-9][0-9]"): "falcon",
}


def step_name(step: dict[str, Any], where: Path) -> str:
    """A step as SEQUENCES has it; one that isn't known there as itself."""
    kind = step["type"]
    if kind == "Digits":
        return ONE_DIGIT if flag(step, "individual_digits", where) else DIGITS
    if kind == "Punctuation" and step.get("behavior") == "Contiguous":
        return PUNCTUATION
    if kind == "ByteLevel" and flag({"use_regex": True} | step, "use_regex", where):
        return GPT2
    pattern = step.get("pattern")
    regex = pattern.get("Regex") if isinstance(pattern, dict) else None
    way = step.get("behavior"), flag(step, "invert", where)
    if kind != "Split" or not isinstance(regex, str):
        return str(kind)
    # What a pattern of words leaves out is nothing: to drop it is the same.
    dropped = way == ("Removed", True) and PATTERNS.get(regex, "bloom") != "bloom"
    return regex if way == ("Isolated", False) or dropped else f"{regex} {way}"


def read_pre_tokenizer(data: dict[str, Any], where: Path) -> tuple[str, bool]:
    """tokenizer.ggml.pre, and whether a space is put before a text."""
    steps = parts(data.get("pre_tokenizer"), "pretokenizers", where)
    spelled = [step for step in steps if step["type"] == "ByteLevel"]
    names = [step_name(step, where) for step in steps]
    if names == [GPT2]:
        return "gpt-2", flag(steps[0], "add_prefix_space", where)
    if len(spelled) == 1 and not flag(spelled[0], "add_prefix_space", where):
        if names[-1] == "ByteLevel" and len(names) > 1:
            names.pop()
        known = PATTERNS.get(names[0]) if len(names) == 1 else SEQUENCES.get(tuple(names))
        if known is not None:
            return known, False
    raise Failure(f"{where}: it cuts text in an unknown way: {shown(' and '.join(names))}")


def check_digits(made: Tokenizer, where: Path) -> None:
    """Refuses merges that the pre-tokenizer prevents and the pattern by its name doesn't."""
    byte_of = {character: byte for byte, character in enumerate(spelling())}
    for left, right in made.merges:
        token = left + right
        if made.pre == "falcon":  # its digits are parted after bytes are spelled
            digits = [character.isnumeric() for character in token]
            joins = any(digits) and not all(digits)
        elif made.pre == "deepseek-llm":  # each digit is a word, but its pattern has runs of them
            spelled = bytes(byte_of.get(character, 0) for character in token)
            text = spelled.decode(errors="ignore")
            joins = text.isnumeric() and len(text[0].encode()) < len(spelled)
        else:
            return
        if joins:
            raise Failure(f"{where}: merge {shown((left, right))} is of what it parts: digits")


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


def check_byte_level(model: dict[str, Any], where: Path) -> None:
    """What byte-level BPE has that a GGUF file can't say is refused."""
    for key, value in model.items():
        off = value is None or value == "" or value is False or value == 0
        known = key in ("type", "vocab", "merges", "ignore_merges", "unk_token", "fuse_unk")
        if not off and not known:
            raise Failure(f"{where}: the model has {shown(key)} {shown(value)}, which isn't read")


def read_byte_level(data: dict[str, Any], made: Tokenizer, where: Path) -> None:
    model = data["model"]
    check_byte_level(model, where)
    made.vocab = check_vocab(model.get("vocab"), where)
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise Failure(f"{where}: not a tokenizer: its merges are {shown(merges)}")
    for step in parts(data.get("decoder"), "decoders", where):
        if step["type"] != "ByteLevel":
            raise Failure(f"{where}: the decoder {shown(step['type'])} is unknown")
    made.pre, made.prefix_space = read_pre_tokenizer(data, where)
    made.ignore_merges = flag(model, "ignore_merges", where)
    made.merges = list(check_merges(merges, made.vocab, where))
    check_digits(made, where)
    if model.get("unk_token") is not None and missing_bytes(made.vocab):
        raise Failure(f"{where}: unk_token stands for bytes without a token; it isn't read")


def model_of(data: dict[str, Any], where: Path) -> tuple[str, str]:
    """What the model is called, and which of GGUF's kinds it is."""
    model = data.get("model")
    if not isinstance(model, dict):
        raise Failure(f"{where}: not a tokenizer of the tokenizers library: no model")
    name = model.get("type", "BPE" if "merges" in model else "without a type")
    if name == "Unigram":
        return name, "t5"
    if name != "BPE":
        raise Failure(f"{where}: the model is {shown(name)}; known: BPE, Unigram")
    steps = parts(data.get("pre_tokenizer"), "pretokenizers", where)
    return name, "gpt2" if any(step["type"] == "ByteLevel" for step in steps) else "llama"


def read_kind(data: dict[str, Any], where: Path) -> Tokenizer:
    made = Tokenizer()
    _, made.kind = model_of(data, where)
    made.normalizer, made.charsmap = read_normalizer(data, where)
    if made.kind == "gpt2":
        read_byte_level(data, made, where)
        return made
    read_spaces(data, made, where)
    if made.kind == "t5":
        read_unigram(data, made, where)
    else:
        read_bpe(data, made, where)
    check_decoder(data, made, where)
    return made


def from_tokenizer_json(path: Path, class_name: str, prefix_space: bool) -> tuple[Tokenizer, list]:
    """The tokenizer and its added tokens. GPT2Tokenizer, if it loads it, takes `prefix_space`
    rather than the file's own."""
    data = read_json(path)
    made = read_kind(data, path)
    for key in ("truncation", "padding"):
        if data.get(key) is not None:
            say(f"{path}: left out {key}, which is done where it is asked for alone")
    if class_name == "GPT2Tokenizer":
        made.rebuilt = made.kind == "gpt2" and made.pre == "gpt-2"
        made.rebuilt &= not made.ignore_merges and not made.normalizer
        if not made.rebuilt:
            say(f"{path}: has more than GPT2Tokenizer, which loads it; it is taken as it is")
        elif made.prefix_space != prefix_space:
            own = made.prefix_space
            say(f"{path}: add_prefix_space is {own}; {class_name} takes {prefix_space}")
            made.prefix_space = prefix_space
    padding = data.get("padding")
    if isinstance(padding, dict) and isinstance(padding.get("pad_token"), str):
        made.padding = padding["pad_token"]
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
