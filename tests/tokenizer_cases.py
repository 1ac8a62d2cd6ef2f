#!/usr/bin/env python3
"""Cases of the tokenizers that convert_hf.py carries, in one process: tokenizer_cases.py FOLDER
[LOCUS].

FOLDER is an empty one to work in. What transformers' AutoTokenizer makes of a folder is the
reference, where there is one. With LOCUS, the program that reads what is converted, random folders
are compared, too: these need transformers. Prints as convert_cases.py does.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))


import hf_tokenizer
from checkpoint import write
from checks import Checks
from hf_folder import Config
from output import Failure
from tokenizer_json import PATTERNS
from tokenizer_parts import spelling

try:
    import tokenizers
    from tokenizers import Regex, models, pre_tokenizers, processors

    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
except ImportError:
    AutoTokenizer = None

MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("t", "he"), ("Ġ", "the")]
MERGES += [("1", "2"), ("Ġ", "Ġ"), ("Ã", "©"), ("Ġ", "t")]
END = "<|endoftext|>"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
WORDS = BYTE_LEVEL | {"use_regex": True}
BYTES = BYTE_LEVEL | {"use_regex": False}
N_VOCAB = 300


def vocabulary(*more: str) -> dict[str, int]:
    tokens = [*spelling(), *(left + right for left, right in MERGES), "Ġhello", END, *more]
    return {token: i for i, token in enumerate(tokens)}


def added(i: int, content: str, **flags: bool) -> dict[str, Any]:
    off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": i, "content": content} | off | flags


def split(regex: str, behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    cut = {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}
    return {"type": "Sequence", "pretokenizers": [cut, BYTES]}


def template(before: list[str], after: list[str], vocab: dict[str, int]) -> dict[str, Any]:
    def put(token: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": 0}}

    text = {"Sequence": {"id": "A", "type_id": 0}}
    single = [*map(put, before), text, *map(put, after)]
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    known = {t: {"id": t, "ids": [vocab[t]], "tokens": [t]} for t in (*before, *after)}
    kind = "TemplateProcessing"
    return {"type": kind, "single": single, "pair": pair, "special_tokens": known}


class Folder:
    """A folder's tokenizer files, to be changed before they are written."""

    def __init__(self, path: Path, as_json: bool = True) -> None:
        self.path, self.as_json = path, as_json
        self.vocab = vocabulary()
        self.model: dict[str, Any] = {"type": "BPE", "merges": [list(pair) for pair in MERGES]}
        self.json: dict[str, Any] = {
            "version": "1.0",
            "added_tokens": [added(self.vocab[END], END, special=True)],
            "normalizer": None,
            "pre_tokenizer": WORDS,
            "post_processor": BYTE_LEVEL,
            "decoder": BYTE_LEVEL,
        }
        self.settings: dict[str, Any] | None = None
        self.config: dict[str, Any] = {"model_type": "gpt2"}
        self.files: dict[str, Any] = {}

    def write(self) -> Path:
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        files = {"config.json": self.config, **self.files}
        if self.settings is not None:
            files["tokenizer_config.json"] = self.settings
        if self.as_json:
            files["tokenizer.json"] = self.json | {"model": self.model | {"vocab": self.vocab}}
        else:
            files["vocab.json"] = self.vocab
            lines = "".join(f"{left} {right}\n" for left, right in MERGES)
            (self.path / "merges.txt").write_text(f"#version: 0.2\n{lines}", encoding="utf-8")
        for name, value in files.items():
            (self.path / name).write_text(json.dumps(value), encoding="utf-8")
        return self.path


def converted(folder: Path) -> dict[str, Any]:
    """The metadata, the notes apart."""
    with contextlib.redirect_stderr(io.StringIO()):
        return hf_tokenizer.vocabulary(folder, Config(folder / "config.json"), N_VOCAB)


def reader(metadata: dict[str, Any]) -> tokenizers.Tokenizer:
    """A tokenizer made of the metadata alone."""
    keys = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}
    pre, kinds = keys["pre"], keys["token_type"]
    last = max(i for i, kind in enumerate(kinds) if kind == 1)
    vocab = {token: i for i, token in enumerate(keys["tokens"][: last + 1])}
    whole = metadata.get("locus.tokenizer.ignore_merges", False)
    pairs = [tuple(line.split(" ")) for line in keys["merges"]]
    made = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=pairs, ignore_merges=whole))
    space = keys["add_space_prefix"]
    words = pre_tokenizers.ByteLevel(add_prefix_space=space)
    if pre == "starcoder":
        words = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), words])
    elif pre != "gpt-2":
        regex = next(regex for regex, name in PATTERNS.items() if name == pre)
        cut = pre_tokenizers.Split(Regex(regex), "isolated")
        bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        words = pre_tokenizers.Sequence([cut, bytes_of])
    made.pre_tokenizer = words
    for i, token in enumerate(keys["tokens"]):
        if kinds[i] in (3, 4):
            has = {n: i in metadata.get(f"locus.tokenizer.{n}", []) for n in FLAGS}
            has["normalized"] = i in metadata.get("locus.tokenizer.normalized", [])
            made.add_tokens([tokenizers.AddedToken(token, **has)])
    sides = []
    for side, key in (("bos", "add_bos_token"), ("eos", "add_eos_token")):
        i = keys[f"{side}_token_id"] if keys[key] else None
        sides.append([] if i is None else [(keys["tokens"][i], i)])
    before, after = sides
    made.post_processor = processors.TemplateProcessing(
        single=[*(t for t, _ in before), "$A", *(t for t, _ in after)],
        special_tokens=[*before, *after],
    )
    return made


FLAGS = ("lstrip", "rstrip", "single_word")
PIECES = [
    *("hello", " hello", "the", "The", "cat", "thecat", "<mask>", "<m>", END, "[PAD]", "x" * 3),
    *(" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "é", "ß", "日本", "🙂", "e\u0301"),
    *("1", "12", "123", "1234", "²", "'s", "'S", "'ll", "don't", ".", ",", "...", "/", "_", "a_b"),
]


def texts(generator: random.Random, n: int) -> list[str]:
    made = ["", " ", "hello the", " hello", "the  <mask>cat thecat", f"a{END} b{END}{END}\n"]
    for _ in range(n):
        made.append("".join(generator.choices(PIECES, k=generator.randint(1, 9))))
    return made


def check_same(checks: Checks, folder: Folder, what: str, generator: random.Random) -> bool:
    """The metadata and AutoTokenizer give the same ids; returns whether it was converted."""
    path = folder.write()
    try:
        metadata = converted(path)
    except Exception as failure:
        checks.that("\n" not in str(failure), f"{what}: {failure}")
        checks.that(type(failure).__name__ == "Failure", f"{what}: {failure!r}")
        return False
    if AutoTokenizer is None:
        return True
    ours, theirs = reader(metadata), AutoTokenizer.from_pretrained(str(path))
    special = {i: t.special for i, t in theirs._tokenizer.get_added_tokens_decoder().items()}
    kinds = enumerate(metadata["tokenizer.ggml.token_type"])
    matched = {i: kind == 3 for i, kind in kinds if kind in (3, 4)}
    within = {i: flag for i, flag in special.items() if i < N_VOCAB}
    checks.that(matched == within, f"{what}: special {matched}, transformers {within}")
    for text in texts(generator, 12):
        found, expected = ours.encode(text).ids, theirs(text).input_ids
        if found != expected:
            checks.that(False, f"{what}: {text!r}: {found}, transformers {expected}")
            return True
    checks.that(True, what)
    return True


# ---- random folders ------------------------------------------------------------------------


class Chance:
    """Draws what a random folder says."""

    def __init__(self, seed: int) -> None:
        self.generator = random.Random(seed)

    def __call__(self, probability: float = 0.5) -> bool:
        return self.generator.random() < probability

    def of(self, *options: Any) -> Any:
        return self.generator.choice(options)


def random_added(chance: Chance, folder: Folder) -> None:
    """Added tokens, in the files that may hold them."""
    names = ["<mask>", "<m>", "cat", "[PAD]", "<|im_end|>", " sp "]
    chosen = chance.generator.sample(names, k=chance.generator.randint(0, 4))
    tokens = [
        added(
            len(folder.vocab) + i,
            name,
            normalized=chance(0.3),
            special=chance(0.3),
            **{flag: chance(0.3) for flag in FLAGS},
        )
        for i, name in enumerate(chosen)
    ]
    if chance(0.1):
        tokens.append(added(folder.vocab["the"], "the", single_word=chance(), special=chance()))
    if chance(0.1):
        folder.json["added_tokens"] = []
    where = chance.of("json", "settings", "both", "file")
    if where in ("json", "both"):
        folder.json["added_tokens"] += tokens
    if where in ("settings", "both") and folder.settings is not None:
        if chance(0.7):
            tokens.append(added(folder.vocab[END], END, special=True))
        listed = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in tokens}
        if chance(0.2):
            for token in listed.values():
                token["lstrip"] = chance()
        folder.settings["added_tokens_decoder"] = listed
    if where == "file":
        folder.files["added_tokens.json"] = {t["content"]: t["id"] for t in tokens}


def random_names(chance: Chance, folder: Folder) -> None:
    """Special tokens by name, flags, and others."""
    flags = {"rstrip": False, "normalized": True, "single_word": False}
    if chance(0.4):
        other = {"content": END, "lstrip": chance(0.3), **flags}
        texts = (END, "<mask>", "[PAD]", "the", other)
        named = ("bos_token", "eos_token", "unk_token", "pad_token")
        names = {key: chance.of(*texts) for key in named if chance()}
        if chance(0.3):
            names["additional_special_tokens"] = ["<m>", "<new>"]
        folder.files["special_tokens_map.json"] = names
    if folder.settings is None:
        return
    for key in ("bos_token", "eos_token", "pad_token"):
        other = {"__type": "AddedToken", "content": END, "lstrip": chance(0.3), **flags}
        if chance(0.3):
            folder.settings[key] = chance.of(END, END, "<mask>", "[PAD]", None, other)
    for key in ("add_bos_token", "add_eos_token", "add_prefix_space"):
        if chance(0.35):
            folder.settings[key] = chance()
    if chance(0.1):
        more = (["<x>"], {"image_token": "<img>"})
        folder.settings["extra_special_tokens"] = chance.of(*more)
    if chance(0.1):
        folder.settings["image_token"] = "<img2>"


def random_folder(chance: Chance, path: Path) -> Folder:
    folder = Folder(path, as_json=chance(0.75))
    names = (None, None, "GPT2Tokenizer", "GPT2TokenizerFast")
    as_it_is = folder.as_json and chance()
    name = chance.of("PreTrainedTokenizerFast", "TokenizersBackend") if as_it_is else None
    name = name or chance.of(*names)
    if name or chance(0.7):
        folder.settings = {"model_max_length": 16}
    if folder.settings is not None and name:
        folder.settings["tokenizer_class"] = name
    random_added(chance, folder)
    random_names(chance, folder)
    if as_it_is and chance(0.6):
        digits = {"type": "Digits", "individual_digits": True}
        ways = ("Isolated", False), ("Removed", True)
        folder.json["pre_tokenizer"] = chance.of(
            split(chance.of(*PATTERNS), *chance.of(*ways)),
            split(chance.of(*PATTERNS)),
            {"type": "Sequence", "pretokenizers": [digits, WORDS]},
        )
        folder.model["ignore_merges"] = chance()
    elif chance(0.4):
        folder.json["pre_tokenizer"] = WORDS | {"add_prefix_space": chance()}
    sides = chance.of(([], []), ([END], []), ([], [END]), ([END], [END]), (["the"], []))
    both = [BYTE_LEVEL, template(*sides, folder.vocab)]
    if chance(0.4):
        sequence = {"type": "Sequence", "processors": both}
        folder.json["post_processor"] = chance.of(None, both[1], sequence)
    if chance(0.1):
        folder.json["truncation"] = dict(TRUNCATION)
    if chance(0.1):
        folder.json["padding"] = dict(PADDING)
    return folder


TRUNCATION = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
PADDING = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None}
PADDING |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "!"}


def check_random(checks: Checks, work: Path, first: int, n: int) -> None:
    """Of folders that say anything at random, what is converted is what transformers reads."""
    n_converted = 0
    for seed in range(first, first + n):
        chance = Chance(seed)
        folder = random_folder(chance, work / "random")
        n_converted += check_same(checks, folder, f"seed {seed}", chance.generator)
    checks.that(n_converted > n // 2, f"{n_converted} of {n} random folders were converted")


def vocabulary_file(path: Path, metadata: dict[str, Any]) -> None:
    """A GGUF file that is a tokenizer alone."""
    write(path, "gpt2", {"general.name": "vocabulary", **metadata}, [])


def check_program(checks: Checks, work: Path, locus: Path, first: int, n: int) -> None:
    """The program reads what is converted as transformers reads the folder."""
    file, text_file = work / "vocabulary.gguf", work / "text"
    for seed in range(first, first + n):
        chance = Chance(seed)
        path = random_folder(chance, work / "random").write()
        try:
            vocabulary_file(file, converted(path))
        except Failure:
            continue
        theirs = AutoTokenizer.from_pretrained(str(path))
        text = "".join(texts(chance.generator, 9))
        text_file.write_bytes(text.encode())
        command = [locus, "tokenize", "-q", "-m", file, "-f", text_file, "--ids", "--special"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [int(word) for word in done.stdout.split()]
        expected = theirs(text, add_special_tokens=False).input_ids
        same = done.returncode == 0 and found == expected
        checks.that(same, f"seed {seed}: {text!r}: {found} {done.stderr}, expected {expected}")


# ---- chosen folders ------------------------------------------------------------------------


def metadata_of(folder: Folder) -> dict[str, Any]:
    """The metadata, keys without tokenizer.ggml. in front."""
    found = converted(folder.write())
    return {key.removeprefix("tokenizer.ggml."): value for key, value in found.items()}


def check_flags(checks: Checks, work: Path) -> None:
    """Each thing that a folder says has its key."""
    generator = random.Random(0)

    def has(folder: Folder, **expected: object) -> None:
        found = metadata_of(folder)
        wanted = {key.replace("__", "."): value for key, value in expected.items()}
        got = {key: found.get(key) for key in wanted}
        checks.that(got == wanted, f"{got}, expected {wanted}")
        if AutoTokenizer is not None:
            check_same(checks, folder, str(wanted), generator)

    plain = Folder(work / "flags")
    end, n = plain.vocab[END], len(plain.vocab)
    has(plain, pre="gpt-2", add_bos_token=False, add_eos_token=False, add_space_prefix=False)
    has(plain, bos_token_id=end, eos_token_id=end, locus__tokenizer__lstrip=None)
    for sides in ([END], []), ([], [END]), (["the"], [END]):
        folder = Folder(work / "flags")
        folder.json["post_processor"] = template(*sides, folder.vocab)
        begin = folder.vocab[sides[0][0]] if sides[0] else end
        has(folder, add_bos_token=bool(sides[0]), add_eos_token=bool(sides[1]), bos_token_id=begin)
    folder = Folder(work / "flags", as_json=False)
    folder.settings = {"add_bos_token": True, "add_eos_token": True, "bos_token": "the"}
    has(folder, add_bos_token=True, add_eos_token=True, bos_token_id=folder.vocab["the"])
    folder.settings = {"add_prefix_space": True}
    has(folder, add_space_prefix=True, add_bos_token=False)
    folder = Folder(work / "flags")
    folder.json["pre_tokenizer"] = WORDS | {"add_prefix_space": True}
    has(folder, add_space_prefix=False)  # GPT2Tokenizer has its own
    folder.settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    has(folder, add_space_prefix=True)
    folder = Folder(work / "flags")
    folder.json["added_tokens"] += [
        added(n, "<mask>", lstrip=True),
        added(n + 1, "cat", single_word=True, special=True),
        added(n + 2, "<m>", lstrip=True, rstrip=True, normalized=True),
    ]
    has(folder, locus__tokenizer__lstrip=[n, n + 2], locus__tokenizer__rstrip=[n + 2])
    has(folder, locus__tokenizer__single_word=[n + 1], locus__tokenizer__normalized=None)
    kinds = metadata_of(folder)["token_type"]
    checks.that(kinds[end:] == [3, 4, 3, 4] + [5] * (N_VOCAB - n - 3), f"token types {kinds}")
    for other in "ca", "t!":
        folder = Folder(work / "flags")
        folder.json["added_tokens"] += [added(n, "cat", normalized=True), added(n + 1, other)]
        has(folder, locus__tokenizer__normalized=[n])
    for regex, name in PATTERNS.items():
        folder = Folder(work / "flags")
        folder.settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
        folder.json["pre_tokenizer"] = split(regex)
        whole = None if name == "gpt-2" else False
        has(folder, pre=name, locus__tokenizer__ignore_merges=whole)
        folder.model["ignore_merges"] = True
        has(folder, pre=name, locus__tokenizer__ignore_merges=True)


def check_end_tokens(checks: Checks, work: Path) -> None:
    """generation_config.json's end tokens come before config.json's, and none is dropped."""

    def ends(config: object, generation: object, expected: list[int] | None) -> None:
        folder = Folder(work / "ends")
        folder.config["eos_token_id"] = config
        if generation is not None:
            folder.files["generation_config.json"] = {"eos_token_id": generation}
        found = metadata_of(folder)
        got = [found["eos_token_id"], *found.get("locus.end_token_ids", [])]
        checks.that(got == expected, f"ends {config}, {generation}: {got}")

    end = vocabulary()[END]
    ends(None, None, [end])
    ends(5, None, [5])
    ends([5, 6, 7], None, [5, 6, 7])
    ends(5, [6, 5, 6], [6, 5])
    ends(5, 7, [7])
    ends([5], [], [5])
    ends(50256, None, [end])  # the default of a configuration that was never set
    folder = Folder(work / "ends")
    folder.json["post_processor"] = template([], [END], folder.vocab)
    folder.config["eos_token_id"] = [5, end]
    found = metadata_of(folder)
    got = found["eos_token_id"], found["locus.end_token_ids"]
    checks.that(got == (end, [5]), f"the end that is put comes first: {got}")


def check_refusals(checks: Checks, work: Path) -> None:
    """What a file has no place for is refused by its name."""

    def refused(words: str, change: Callable[[Folder], object], as_json: bool = True) -> None:
        folder = Folder(work / "refused", as_json)
        change(folder)
        path = folder.write()
        checks.refused(words, words, lambda: converted(path), path)

    def part(name: str, value: object) -> Callable[[Folder], object]:
        return lambda folder: folder.json.update({name: value})

    def model(name: str, value: object) -> Callable[[Folder], object]:
        return lambda folder: folder.model.update({name: value})

    def settings(**values: object) -> Callable[[Folder], object]:
        return lambda folder: setattr(folder, "settings", values)

    def adds(*tokens: dict[str, Any]) -> Callable[[Folder], object]:
        return lambda folder: folder.json["added_tokens"].extend(tokens)

    n = len(vocabulary())
    nmt = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]}
    regex = {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}
    roberta = {"type": "RobertaProcessing", "sep": ["x", 1], "cls": ["y", 2]}
    twice = template([END, "the"], [], vocabulary())
    spaced = split(next(iter(PATTERNS)))
    spaced["pretokenizers"][1] = BYTES | {"add_prefix_space": True}
    refused("by 'Nmt'", part("normalizer", nmt))
    refused("pattern {'Regex': 'a+'}", part("normalizer", regex))
    refused("no pre-tokenizer, and no normalizer", part("pre_tokenizer", None))
    refused("unknown way: 'Whitespace'", part("pre_tokenizer", {"type": "Whitespace"}))
    refused("unknown way: 'ByteLevel'", part("pre_tokenizer", BYTES))
    refused("unknown way: '[a-z]+'", part("pre_tokenizer", split("[a-z]+")))
    refused("('Removed', False)", part("pre_tokenizer", split(r"\s+", "Removed")))
    refused("unknown way", part("pre_tokenizer", spaced))
    refused("decoder 'WordPiece'", part("decoder", {"type": "WordPiece"}))
    refused("post-processor 'RobertaProcessing'", part("post_processor", roberta))
    refused("puts 2 tokens at the begin", part("post_processor", twice))
    for key, value in (("dropout", 0.1), ("end_of_word_suffix", "</w>"), ("byte_fallback", True)):
        refused(f"'{key}' {value!r}", model(key, value))
    refused("'continuing_subword_prefix' '##'", model("continuing_subword_prefix", "##"))
    refused("'cache' 3", model("cache", 3))
    refused("tokenizer_class 'BertTokenizer'", settings(tokenizer_class="BertTokenizer"))
    code = {"AutoTokenizer": ["x.Y", None]}
    refused("auto_map", settings(auto_map=code), as_json=False)
    refused("split_special_tokens", settings(split_special_tokens=True))
    refused("add_prefix_space is 1", settings(add_prefix_space=1))
    as_it_is = settings(tokenizer_class="PreTrainedTokenizerFast")
    refused("tokenizer.json is missing", as_it_is, as_json=False)
    refused("would give it", adds(added(n + 1, "<m>")))
    refused("'the' is one that BPE gives", adds(added(260, "the", single_word=True)))
    refused("'Ã©' is one that BPE gives", adds(added(vocabulary()["Ã©"], "Ã©")))
    refused("is no valid text", adds(added(n, "\ud800")))
    refused("has no id", adds({"content": "<m>"}))
    refused("unknown flags", adds(added(n, "<m>") | {"glued": True}))
    refused("no merges", model("merges", []))
    refused("'zz' is no token", model("merges", [["z", "z"]]))
    refused("is there twice", model("merges", [["h", "e"], "h e"]))
    refused("is no pair", model("merges", [["h", "e", "l"]]))
    refused("both have id 0", lambda folder: folder.vocab.update({"new": 0}))
    refused("has id -1", lambda folder: folder.vocab.update({"new": -1}))
    refused("the model has 300 ids", lambda folder: folder.vocab.update({"new": 300}))


def odd_values() -> list[object]:
    deep: object = 0
    for _ in range(200):
        deep = [deep]
    odd = [None, True, -1, 0.5, 2**70, "", "x", "\0", "\ud800", [], {}, [None], {"type": 3}, deep]
    return [*odd, float("inf")]


def places(value: object, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, of long lists and objects the first and the last."""
    keys = list(value) if isinstance(value, dict) else []
    keys = list(range(len(value))) if isinstance(value, list) else keys
    found = [where] if where else []
    for key in keys if len(keys) < 20 else (keys[0], keys[-1]):
        found += places(value[key], (*where, key))  # type: ignore[index]
    return found


def check_hostile(checks: Checks, work: Path) -> None:
    """Whatever stands in the files, the answer is a conversion or one line."""
    folder = Folder(work / "hostile")
    n = len(folder.vocab)
    folder.json["added_tokens"].append(added(n, "<m>", lstrip=True))
    folder.json["post_processor"] = template([END], [], folder.vocab)
    folder.json["pre_tokenizer"] = split(next(iter(PATTERNS)))
    folder.json["padding"], folder.json["truncation"] = PADDING, TRUNCATION
    marks = {str(n): {"content": "<m>", "lstrip": True}, "267": {"content": END, "special": True}}
    folder.settings = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True}
    folder.settings |= {"bos_token": {"__type": "AddedToken", "content": END}}
    folder.settings |= {"added_tokens_decoder": marks, "extra_special_tokens": ["<m>"]}
    folder.files["generation_config.json"] = {"eos_token_id": [n], "bos_token_id": 267}
    folder.files["special_tokens_map.json"] = {"unk_token": END}
    folder.config |= {"eos_token_id": 5, "tokenizer_class": None}
    path = folder.write()
    n_tried = 0
    for file in sorted(path.iterdir()):
        text = file.read_text()
        for place in places(json.loads(text)):
            for odd in odd_values():
                value = json.loads(text)
                inside = value
                for key in place[:-1]:
                    inside = inside[key]
                inside[place[-1]] = odd
                file.write_text(json.dumps(value))
                n_tried += 1
                try:
                    converted(path)
                except Failure as failure:
                    one = "\n" not in str(failure) and len(str(failure)) < 400
                    checks.that(one, f"{file.name} {place} {odd!r}: {failure}")
                except Exception as error:
                    checks.that(False, f"{file.name} {place} {str(odd)[:30]}: {error!r}")
        file.write_text(text)
    checks.that(n_tried > 500, f"{n_tried} odd values were tried")


def main() -> None:
    work = Path(sys.argv[1])
    checks = Checks()
    check_flags(checks, work)
    check_end_tokens(checks, work)
    check_refusals(checks, work)
    check_hostile(checks, work)
    if len(sys.argv) > 2:
        check_random(checks, work, first=0, n=150)
        check_program(checks, work, Path(sys.argv[2]), first=1000, n=100)
    checks.report()


if __name__ == "__main__":
    main()
