"""The tokenizer of a Hugging Face model folder: byte-level BPE as GPT-2 has it.

What `AutoTokenizer` of transformers 5 makes of the folder is what counts, and there are two ways:

    GPT2Tokenizer            takes vocabulary, merges, added tokens and the post-processor, and
                             builds the rest anew: GPT-2's pattern, add_prefix_space as
                             tokenizer_config.json says
    PreTrainedTokenizerFast  is tokenizer.json as it is (TokenizersBackend is another name)

What a GGUF file has no key for is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkpoint import CONTROL, NORMAL, UNUSED, USER_DEFINED, Value, refuse_pointer
from hf_folder import Config, read_json, say, shown
from output import Failure
from tokenizer_json import (
    Added,
    Tokenizer,
    check_merges,
    check_vocab,
    flag,
    from_tokenizer_json,
    missing_bytes,
    spelling,
)

END_OF_TEXT = "<|endoftext|>"
REBUILT = ("GPT2Tokenizer",)
AS_IT_IS = ("PreTrainedTokenizer", "TokenizersBackend")

SETTINGS_USED = {
    "add_prefix_space", "add_bos_token", "add_eos_token", "added_tokens_decoder", "tokenizer_class",
    "additional_special_tokens", "extra_special_tokens", "split_special_tokens", "auto_map",
    "init_inputs",
}  # fmt: skip
SETTINGS_IGNORED = re.compile(  # none changes the ids of a text
    "model_max_length|max_len|clean_up_tokenization_spaces|errors|chat_template|padding_side"
    "|truncation_side|special_tokens_map_file|name_or_path|tokenizer_file|vocab_file|merges_file"
    "|use_fast|model_input_names|backend|is_local|local_files_only|legacy|max_length|stride"
    "|truncation_strategy|pad_to_multiple_of|pad_token_type_id|processor_class|from_slow"
)
LONGEST = 4096  # characters of a token
NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


# ---- the files -----------------------------------------------------------------------------


def read_optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def from_vocab_and_merges(folder: Path) -> Tokenizer:
    path = folder / "merges.txt"
    refuse_pointer(path)
    try:
        lines = path.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: {error}") from None
    vocab = check_vocab(read_json(folder / "vocab.json"), folder / "vocab.json")
    pairs = [line for line in lines if line and not line.startswith("#version")]
    return Tokenizer(vocab, list(check_merges(pairs, vocab, path)))


# ---- added tokens --------------------------------------------------------------------------


def declared(
    settings: dict[str, Any], from_json: list, folder: Path, specials: set[str]
) -> dict[int, Added]:
    """Added tokens by their ids: tokenizer_config.json's; without such, added_tokens.json's and
    tokenizer.json's."""
    path = folder / "tokenizer_config.json"
    if "added_tokens_decoder" in settings:
        given = settings["added_tokens_decoder"]
        if not isinstance(given, dict) or not all(re.fullmatch(r"\d{1,10}", k) for k in given):
            raise Failure(f"{path}: added_tokens_decoder is {shown(given)}")
        return {int(i): Added.of(token, path) for i, token in given.items()}
    path = folder / "added_tokens.json"
    found = {
        i: Added(token, special=token in specials, normalized=token not in specials)
        for token, i in check_vocab(read_optional(path), path).items()
    }
    return found | dict(from_json)


@dataclass(frozen=True)
class Specials:
    """Special tokens of tokenizer_config.json and special_tokens_map.json."""

    named: dict[str, Added | None]  # by bos_token, ...
    others: list[Added]
    known: set[str]  # texts that added_tokens.json's tokens are special by


def listed_tokens(values: dict[str, Any], key: str, path: Path) -> list | dict:
    value = values.get(key)
    if not isinstance(value, list | dict | None):
        raise Failure(f"{path}: {key} is {shown(value)}, expected tokens")
    return [] if value is None else value


def specials_of(
    settings: dict[str, Any], folder: Path, rebuilt: bool, padding: str | None
) -> Specials:
    path = folder / "tokenizer_config.json"
    more = {}
    if "added_tokens_decoder" not in settings:
        more = read_optional(folder / "special_tokens_map.json")
    values = settings | more
    if padding is not None and not rebuilt:
        values.setdefault("pad_token", padding)
    named: dict[str, Added | None] = {}
    known: set[str] = set()
    for name in NAMED:
        key = f"{name}_token"
        if rebuilt and name in ("bos", "eos", "unk"):
            named[key] = Added.of(END_OF_TEXT, path, True)
        if key in values:
            value = values.pop(key)
            token = None if value is None else Added.of(value, path, True)
            named[key] = token
            known |= {token.content} if token else set()
    of_model = {k: v for k, v in values.items() if k.endswith("_token") and isinstance(v, str)}
    texts: list[Any] = []
    for source in (settings, more):
        extra = listed_tokens(source, "extra_special_tokens", path)
        if not extra and (source is settings or not texts):
            extra = listed_tokens(source, "additional_special_tokens", path)
            known |= {t for t in extra if isinstance(t, str) and source is settings}
        if isinstance(extra, dict):
            of_model |= extra
        else:
            texts += [token for token in extra if token not in texts]
    others = [Added.of(value, path, True) for value in (*of_model.values(), *texts)]
    return Specials(named, others, known)


def add_tokens(
    made: Tokenizer, settings: dict[str, Any], from_json: list, folder: Path, rebuilt: bool
) -> None:
    """All added tokens, in the order in which transformers adds them."""
    path = folder / ("tokenizer.json" if from_json else "tokenizer_config.json")
    special = specials_of(settings, folder, rebuilt, made.padding)
    named, others = special.named, special.others
    tokens = declared(settings, from_json, folder, special.known)
    if not rebuilt:
        for i, token in from_json:
            made.add(token, path, i)
    names = {token.content for token in named.values() if token is not None}
    for i, token in sorted(tokens.items()):
        made.add(replace(token, special=token.special or token.content in names), path, i)
    known = set(made.added)
    late: list[Added] = []
    for token in (*named.values(), *others):
        if token is not None and token.content not in known and token not in late:
            late.append(token)
            made.add(token, path)
    made.named = {key: token and token.content for key, token in named.items()}


# ---- the tokenizer -------------------------------------------------------------------------


def tokenizer_class(settings: dict[str, Any], config: Config, folder: Path) -> bool:
    """Whether GPT2Tokenizer builds it anew."""
    path = folder / "tokenizer_config.json"
    if settings.get("auto_map") is not None:
        raise Failure(f"{path}: auto_map: a tokenizer with code of its own doesn't fit")
    name = settings.get("tokenizer_class") or config.values.get("tokenizer_class") or REBUILT[0]
    plain = name.removesuffix("Fast") if isinstance(name, str) else ""
    if plain not in (*REBUILT, *AS_IT_IS):
        known = ", ".join((*REBUILT, "PreTrainedTokenizerFast", "TokenizersBackend"))
        raise Failure(f"{path}: tokenizer_class {shown(name)} is unknown; known: {known}")
    return plain in REBUILT


def check_settings(settings: dict[str, Any], path: Path) -> None:
    if flag(settings, "split_special_tokens", path):
        raise Failure(f"{path}: split_special_tokens is true; special tokens are not split here")
    if settings.get("init_inputs"):
        raise Failure(f"{path}: init_inputs {shown(settings['init_inputs'])} is unknown")
    for key, value in settings.items():
        named = key.endswith("_token") and not isinstance(value, bool)
        if not named and key not in SETTINGS_USED and not SETTINGS_IGNORED.fullmatch(key):
            say(f"{path}: {shown(key)} is unknown, and left out")


def read_tokenizer(folder: Path, config: Config) -> Tokenizer:
    """What AutoTokenizer makes of the folder."""
    path = folder / "tokenizer_config.json"
    settings = read_optional(path)
    rebuilt = tokenizer_class(settings, config, folder)
    check_settings(settings, path)
    prefix_space = flag(settings, "add_prefix_space", path)
    flags = {side: flag(settings, f"add_{side}_token", path) for side in ("bos", "eos")}
    from_json: list = []
    if (folder / "tokenizer.json").is_file():
        made, from_json = from_tokenizer_json(folder / "tokenizer.json", rebuilt, prefix_space)
        if not rebuilt and prefix_space != made.prefix_space and "add_prefix_space" in settings:
            say(f"{path}: add_prefix_space is {prefix_space}; tokenizer.json's is taken")
        for side, put in (("bos", made.begin), ("eos", made.end)):
            if f"add_{side}_token" in settings and flags[side] != (put is not None):
                say(f"{path}: add_{side}_token is {flags[side]}; tokenizer.json's way is taken")
    elif not (folder / "vocab.json").is_file() or not (folder / "merges.txt").is_file():
        raise Failure(f"{folder}: neither tokenizer.json nor vocab.json with merges.txt is there")
    elif not rebuilt:
        raise Failure(f"{folder}: tokenizer.json is missing; tokenizer_class wants it")
    else:
        made = from_vocab_and_merges(folder)
        made.prefix_space = prefix_space
    add_tokens(made, settings, from_json, folder, rebuilt)
    if not from_json and not (folder / "tokenizer.json").is_file():
        made.begin = made.id_of(made.named.get("bos_token")) if flags["bos"] else None
        made.end = made.id_of(made.named.get("eos_token")) if flags["eos"] else None
    return made


def refuse_reached(made: Tokenizer, folder: Path) -> None:
    """Added tokens that BPE could give where they don't stand by themselves, or that two passes of
    the tokenizers library would find in another order than one does."""
    joined = {part for pair in made.merges for part in (*pair, "".join(pair))} | {*spelling()}
    for content, (_, token) in made.added.items():
        plain = content.isascii() and not token.single_word
        if content in made.vocab and not plain and (content in joined or made.ignore_merges):
            raise Failure(f"{folder}: the added token {shown(content)} is one that BPE gives, too")
    first = {content for content, (_, token) in made.added.items() if not token.normalized}
    starts = {content[:n] for content in first for n in range(1, len(content))}
    wordy = any(re.search(r"^\w|\w$", content) for content in first)
    for content in made.added.keys() - first:
        ends = (content[i:] for i in range(1, len(content)))
        overlaps = any(end in starts for end in ends) or any(other in content for other in first)
        if overlaps or (wordy and made.added[content][1].single_word):
            raise Failure(
                f"{folder}: the added token {shown(content)} overlaps others, which are looked "
                "for before it (normalized is false)"
            )


def check_ids(made: Tokenizer, n_vocab: int, folder: Path) -> dict[int, str]:
    """The tokens by their ids."""
    by_id: dict[int, str] = {}
    for token, i in [*made.vocab.items(), *((t, i) for t, (i, _) in made.added.items())]:
        if i >= n_vocab:
            raise Failure(
                f"{folder}: token {shown(token)} has id {i}, but the model has {n_vocab} ids"
            )
        if len(token) > LONGEST:
            raise Failure(f"{folder}: token {i} has {len(token)} characters; at most {LONGEST} fit")
        if by_id.setdefault(i, token) != token:
            raise Failure(f"{folder}: tokens {shown(by_id[i])} and {shown(token)} both have id {i}")
        try:
            token.encode()
        except UnicodeEncodeError:
            raise Failure(f"{folder}: token {i}, {shown(token)}, is no valid text") from None
    return by_id


def end_tokens(
    made: Tokenizer, config: Config, folder: Path, by_id: dict[int, str]
) -> tuple[int | None, list[int]]:
    """The token that begins a text, and those that end it: generation_config.json's, config.json's
    or the tokenizer's own."""
    path = folder / "generation_config.json"
    generation = Config(path) if path.is_file() else None
    found: dict[str, list[int]] = {}
    for name in ("bos", "eos"):
        key = f"{name}_token_id"
        ids = (generation.token_ids(key) if generation else []) or config.token_ids(key)
        own = made.id_of(made.named.get(f"{name}_token"))
        if unknown := [i for i in ids if i not in by_id]:
            say(f"{folder}: {key} {unknown[0]} is no token, and left out")
        ids = list(dict.fromkeys(i for i in ids if i in by_id))
        own = own if own is not None else {"bos": made.begin, "eos": made.end}[name]
        if not ids and own is None and END_OF_TEXT in made.vocab:
            say(f"{folder}: no {name}_token is named; {END_OF_TEXT} is taken")
            own = made.vocab[END_OF_TEXT]
        found[name] = ids or ([own] if own is not None else [])
    begin = made.begin if made.begin is not None else next(iter(found["bos"]), None)
    ends = found["eos"]
    if made.end is not None and made.end not in ends:
        raise Failure(f"{folder}: texts end with token {made.end}, the model's with {ends}")
    if made.end is not None:
        ends = [made.end, *(i for i in ends if i != made.end)]
    return begin, ends


def byte_level_bpe(folder: Path, config: Config, n_vocab: int) -> dict[str, Value]:
    """The metadata of the tokenizer. Rows of the embedding without a token get [PADn] tokens of
    type unused."""
    made = read_tokenizer(folder, config)
    for key, token in made.named.items():  # one that the model has no row for
        if token in made.added and token not in made.vocab and made.added[token][0] >= n_vocab:
            say(f"{folder}: {key} {shown(token)} has no row in the model, and is left out")
            del made.added[token]
    by_id = check_ids(made, n_vocab, folder)
    refuse_reached(made, folder)
    for i in (made.begin, made.end):
        if i is not None and i not in by_id:
            raise Failure(f"{folder}: the template puts token {i}, which is none")
    if lacking := missing_bytes(made.vocab):
        say(f"{folder}: no token for byte 0x{lacking[0]:02X}: texts with it will be refused")
    kinds = {i: CONTROL if token.special else USER_DEFINED for i, token in made.added.values()}
    for i in range(n_vocab):
        kinds.setdefault(i, NORMAL if i in by_id else UNUSED)
    metadata: dict[str, Value] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": made.pre,
        "tokenizer.ggml.tokens": [by_id.get(i, f"[PAD{i}]") for i in range(n_vocab)],
        "tokenizer.ggml.token_type": [kinds[i] for i in range(n_vocab)],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in made.merges],
        "tokenizer.ggml.add_bos_token": made.begin is not None,
        "tokenizer.ggml.add_eos_token": made.end is not None,
        "tokenizer.ggml.add_space_prefix": made.prefix_space,
    }
    if made.ignore_merges or made.pre != "gpt-2":  # other names may stand for it
        metadata["locus.tokenizer.ignore_merges"] = made.ignore_merges
    for name in ("lstrip", "rstrip", "single_word"):
        if ids := sorted(i for i, token in made.added.values() if getattr(token, name)):
            metadata[f"locus.tokenizer.{name}"] = ids
    begin, ends = end_tokens(made, config, folder, by_id)
    if begin is not None:
        metadata["tokenizer.ggml.bos_token_id"] = begin
    if ends:
        metadata["tokenizer.ggml.eos_token_id"] = ends[0]
    if ends[1:]:
        metadata["locus.end_token_ids"] = ends[1:]
    return metadata
