"""The tokenizer of a Hugging Face model folder: byte-level BPE, or SentencePiece's BPE or Unigram.

tokenizer.json is what counts, as the tokenizers library reads it, and what AutoTokenizer of
transformers 5 makes of the other files beside it. GPT2Tokenizer takes vocabulary, merges, added
tokens and the post-processor, and builds the rest anew: add_prefix_space as tokenizer_config.json
says. It is followed where tokenizer.json has no other pattern than GPT-2's.

What a GGUF file has no key for is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from checkpoint import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Value,
    refuse_pointer,
)
from hf_folder import Config, read_json, say, shown
from output import Failure
from sentencepiece_model import from_sentencepiece
from tokenizer_json import from_tokenizer_json
from tokenizer_parts import (
    Added,
    Tokenizer,
    check_merges,
    check_vocab,
    flag,
    missing_bytes,
    spelling,
)
from tokenizer_pieces import MARK

END_OF_TEXT = "<|endoftext|>"
REBUILT = "GPT2Tokenizer"
CLASSES = {  # of tokenizers that tokenizer.json says all of; Fast at the end says the same
    *("PreTrainedTokenizer", "TokenizersBackend", "GPTNeoXTokenizer", "CodeGenTokenizer"),
    *("BloomTokenizer", "LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "XGLMTokenizer"),
    *("Qwen2Tokenizer", "CohereTokenizer", "Cohere2Tokenizer", "InternLM2Tokenizer"),
    *("BaichuanTokenizer", "ChatGLM4Tokenizer", "T5Tokenizer", "AlbertTokenizer"),
    *("OpenAIGPTTokenizer", REBUILT),
}

GPT2_TYPES = ("gpt2", "gpt_neo", "gptj", "codegen", "opt", "phi", "starcoder2")  # read by GPT2's

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


def add_tokens(made: Tokenizer, settings: dict[str, Any], from_json: list, folder: Path) -> None:
    """All added tokens, in the order in which transformers adds them."""
    path = folder / ("tokenizer.json" if from_json else "tokenizer_config.json")
    special = specials_of(settings, folder, made.rebuilt, made.padding)
    named, others = special.named, special.others
    tokens = declared(settings, from_json, folder, special.known)
    if not made.rebuilt:
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
    made.named |= {key: token and token.content for key, token in named.items()}


# ---- the tokenizer -------------------------------------------------------------------------


def tokenizer_class(settings: dict[str, Any], config: Config, folder: Path) -> str:
    """The name of the class that transformers reads the folder with."""
    path = folder / "tokenizer_config.json"
    as_it_is = any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model"))
    if settings.get("auto_map") is not None:
        if not as_it_is:
            raise Failure(f"{path}: auto_map: a tokenizer with code of its own doesn't fit")
        say(f"{path}: auto_map: code of its own isn't run; the tokenizer's file is taken")
    default = REBUILT
    if as_it_is and config.values.get("model_type") not in GPT2_TYPES:
        default = "TokenizersBackend"
    name = settings.get("tokenizer_class") or config.values.get("tokenizer_class") or default
    plain = name.removesuffix("Fast") if isinstance(name, str) else ""
    if plain not in CLASSES:
        raise Failure(
            f"{path}: tokenizer_class {shown(name)} is unknown; if tokenizer.json says all of it, "
            "PreTrainedTokenizerFast is its name"
        )
    return plain


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
    class_name = tokenizer_class(settings, config, folder)
    check_settings(settings, path)
    prefix_space = flag(settings, "add_prefix_space", path)
    flags = {side: flag(settings, f"add_{side}_token", path) for side in ("bos", "eos")}
    from_json: list = []
    if (folder / "tokenizer.json").is_file():
        made, from_json = from_tokenizer_json(folder / "tokenizer.json", class_name, prefix_space)
        of_bytes = made.kind == "gpt2" and not made.rebuilt
        if of_bytes and prefix_space != made.prefix_space and "add_prefix_space" in settings:
            say(f"{path}: add_prefix_space is {prefix_space}; tokenizer.json's is taken")
        for side, put in (("bos", made.begin), ("eos", made.end)):
            if f"add_{side}_token" in settings and flags[side] != (put is not None):
                say(f"{path}: add_{side}_token is {flags[side]}; tokenizer.json's way is taken")
    elif (folder / "tokenizer.model").is_file():
        made = from_sentencepiece(folder / "tokenizer.model")
    elif not (folder / "vocab.json").is_file() or not (folder / "merges.txt").is_file():
        raise Failure(
            f"{folder}: neither tokenizer.json nor tokenizer.model nor vocab.json with merges.txt "
            "is there"
        )
    elif class_name != REBUILT:
        raise Failure(f"{folder}: tokenizer.json is missing; tokenizer_class wants it")
    else:
        made = from_vocab_and_merges(folder)
        made.prefix_space, made.rebuilt = prefix_space, True
    add_tokens(made, settings, from_json, folder)
    if not from_json and not (folder / "tokenizer.json").is_file():
        begins = flags["bos"] or (made.kind == "llama" and "add_bos_token" not in settings)
        made.begin = made.id_of(made.named.get("bos_token")) if begins else None
        made.end = made.id_of(made.named.get("eos_token")) if flags["eos"] else None
    return made


def refuse_reached(made: Tokenizer, folder: Path) -> None:
    """Refuses added tokens that the model could give where they don't stand by themselves."""
    joined = {part for pair in made.merges for part in (*pair, "".join(pair))}
    joined |= {*spelling()} if made.kind == "gpt2" else set()
    for content, (_, token) in made.added.items():
        if content not in made.vocab:
            continue
        if made.kind == "gpt2":
            whole = content.isascii() and not token.single_word
            reached = not whole and (content in joined or made.ignore_merges)
        else:
            reached = token.single_word or (token.special and content in joined)
        if reached:
            raise Failure(f"{folder}: the added token {shown(content)} is one that BPE gives, too")


def normalized_ids(made: Tokenizer) -> list[int]:
    """Added tokens that are looked for after the normalizer, where it makes a difference."""
    later = {content: i for content, (i, token) in made.added.items() if token.normalized}
    first = made.added.keys() - later.keys()
    starts = {content[:n] for content in first for n in range(1, len(content))}
    wordy = any(re.search(r"^\w|\w$", content) for content in first)

    def apart(content: str) -> bool:
        ends = (content[i:] for i in range(1, len(content)))
        overlaps = any(end in starts for end in ends) or any(other in content for other in first)
        return not overlaps and not (wordy and made.added[content][1].single_word)

    if made.own or (not made.normalizer and all(map(apart, later))):
        return []
    return sorted(later.values())


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


def kinds_of(made: Tokenizer, by_id: dict[int, str], n_vocab: int) -> list[int]:
    """The types of all ids."""
    kinds = {i: CONTROL if token.special else USER_DEFINED for i, token in made.added.values()}
    if made.kind != "gpt2":
        for content, (i, token) in made.added.items():
            # U+2581 stands for a space there: such a token is made by the model, not looked for.
            if MARK in content and not token.special and not made.own:
                kinds[i] = NORMAL
        for content, i in made.vocab.items():  # no text has a space left
            if " " in content:
                kinds.setdefault(i, UNUSED)
        kinds |= dict.fromkeys(made.unused, UNUSED)
        kinds |= dict.fromkeys(made.bytes, BYTE)
        if made.unknown is not None:
            kinds[made.unknown] = UNKNOWN
    return [kinds.get(i, NORMAL if i in by_id else UNUSED) for i in range(n_vocab)]


def refuse_twins(tokens: list[str], kinds: list[int], folder: Path) -> None:
    """Refuses two tokens that a text could have for one piece, with U+2581 as a space."""
    seen: dict[str, str] = {}
    for token, kind in zip(tokens, kinds, strict=True):
        piece = token.replace(MARK, " ")
        if kind in (NORMAL, USER_DEFINED) and seen.setdefault(piece, token) != token:
            raise Failure(f"{folder}: {shown(seen[piece])} and {shown(token)} are the same piece")


def exact_scores(scores: list[float]) -> dict[str, Value]:
    """The scores as llama.cpp reads them, and as they are where these are others."""
    metadata: dict[str, Value] = {"tokenizer.ggml.scores": scores}
    exact = np.array(scores, dtype=np.float64)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise Failure(f"a score is {exact[~np.isfinite(rounded)][0]}, expected a 32-bit number")
    if (rounded != exact).any():
        metadata["locus.tokenizer.scores"] = exact
    return metadata


def of_pieces(
    made: Tokenizer, tokens: list[str], kinds: list[int], folder: Path
) -> dict[str, Value]:
    """What SentencePiece's kinds have besides."""
    refuse_twins(tokens, kinds, folder)
    least = min(made.scores.values())
    metadata = exact_scores([made.scores.get(i, least) for i in range(len(tokens))])
    metadata["tokenizer.ggml.add_space_prefix"] = made.puts_space()
    if made.unknown is not None:
        metadata["tokenizer.ggml.unknown_token_id"] = made.unknown
    if made.own:
        return metadata | {"tokenizer.ggml.remove_extra_whitespaces": made.squeezed}
    metadata["locus.tokenizer.prefix"] = made.prefix
    for key, value in (("split", made.split), ("suffix", made.suffix)):
        if value:
            metadata[f"locus.tokenizer.{key}"] = True
    if made.kind == "llama":
        metadata["tokenizer.ggml.merges"] = [" ".join(pair) for pair in made.merges]
        metadata["locus.tokenizer.merges"] = True
    return metadata


def of_bytes(made: Tokenizer, folder: Path) -> dict[str, Value]:
    """What byte-level BPE has besides."""
    if lacking := missing_bytes(made.vocab):
        say(f"{folder}: no token for byte 0x{lacking[0]:02X}: texts with it will be refused")
    metadata: dict[str, Value] = {"tokenizer.ggml.add_space_prefix": made.prefix_space}
    if made.by_ids:
        metadata["locus.tokenizer.merges"] = False
    else:
        metadata["tokenizer.ggml.merges"] = [" ".join(pair) for pair in made.merges]
    if made.ignore_merges or made.pre != "gpt-2":  # other names may stand for it
        metadata["locus.tokenizer.ignore_merges"] = made.ignore_merges
    return metadata


def chat_template(folder: Path) -> dict[str, Value]:
    """The template of messages, which is kept for programs that run it."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        refuse_pointer(path)
        try:
            return {"tokenizer.chat_template": path.read_text(encoding="utf-8")}
        except UnicodeDecodeError as error:
            raise Failure(f"{path}: {error}") from None
    path = folder / "tokenizer_config.json"
    given = read_optional(path).get("chat_template")
    if isinstance(given, list):  # of several by name
        named = {t.get("name"): t.get("template") for t in given if isinstance(t, dict)}
        given = named.get("default")
        say(f"{path}: of {len(named)} chat templates the default is kept alone")
    if given is not None and not isinstance(given, str):
        raise Failure(f"{path}: chat_template is {shown(given)}, expected a text")
    if not given:
        return {}
    try:
        given.encode()
    except UnicodeEncodeError:
        raise Failure(f"{path}: chat_template is no valid text") from None
    return {"tokenizer.chat_template": given}


def vocabulary(folder: Path, config: Config, n_vocab: int) -> dict[str, Value]:
    """The metadata of a folder's tokenizer."""
    made = read_tokenizer(folder, config)
    return tokenizer_metadata(made, folder, config, n_vocab) | chat_template(folder)


def tokenizer_metadata(
    made: Tokenizer, folder: Path, config: Config, n_vocab: int
) -> dict[str, Value]:
    """The same, whatever its kind. Rows of the embedding without a token get [PADn] tokens of type
    unused."""
    for key, token in made.named.items():  # one that the model has no row for
        if token in made.added and token not in made.vocab and made.added[token][0] >= n_vocab:
            say(f"{folder}: {key} {shown(token)} has no row in the model, and is left out")
            del made.added[token]
    by_id = check_ids(made, n_vocab, folder)
    refuse_reached(made, folder)
    for i in (made.begin, made.end):
        if i is not None and i not in by_id:
            raise Failure(f"{folder}: the template puts token {i}, which is none")
    kinds = kinds_of(made, by_id, n_vocab)
    tokens = [by_id.get(i, f"[PAD{i}]") for i in range(n_vocab)]
    metadata: dict[str, Value] = {
        "tokenizer.ggml.model": made.kind,
        "tokenizer.ggml.pre": made.pre if made.kind == "gpt2" else "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.add_bos_token": made.begin is not None,
        "tokenizer.ggml.add_eos_token": made.end is not None,
    }
    if made.kind == "gpt2":
        metadata |= of_bytes(made, folder)
    else:
        metadata |= of_pieces(made, tokens, kinds, folder)
    if made.normalizer:
        metadata["locus.tokenizer.normalizer"] = made.normalizer
    if made.charsmap:
        metadata["tokenizer.ggml.precompiled_charsmap"] = made.charsmap
    if later := normalized_ids(made):
        metadata["locus.tokenizer.normalized"] = later
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
