#!/usr/bin/env python3
"""The tokenizers of the families, trained on the spot: tokenizer_families.py FOLDER LOCUS TEXT [N].

For each way in which a family cuts and writes text, a tokenizer is trained on TEXT and on
characters of all sorts, converted, and read by the program LOCUS: of N random strings (5000), the
ids and the text they come back as are what the tokenizers library gives. FOLDER is an empty one to
work in. Prints as convert_cases.py does.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import struct
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers import pre_tokenizers as cuts

from checkpoint import write
from checks import Checks
from hf_folder import Config
from hf_tokenizer import vocabulary
from output import Failure
from tokenizer_json import PATTERNS, SEQUENCES
from tokenizer_parts import spelling

SEPARATOR = "<|sep|>"  # between the strings: an added token parts them
MARK = "\u2581"
OLD = unicodedata.ucd_3_2_0  # characters that every library's tables have

# ---- strings -------------------------------------------------------------------------------

WORDS = [
    *("the", "The", "THE", "hello", "don't", "'LL", "we're", "cat", "thecat", "naïve", "café"),
    *("Straße", "İstanbul", "ΣΟΦΟΣ", "привет", "שלום", "مرحبا", "हिन्दी", "ไทย", "中文字", "日本語"),
    *(
        "ひらがな",
        "カタカナ",
        "한국어",
        "각",
        "ᄒ\u1161\u11ab",
        "ﬁne",
        "\uff46\uff55\uff4c\uff4c",
        "①②",
        "½",
        "x²",
    ),
    *("e\u0301", "a\u0323\u0302", "a\u0302\u0323", "o\u0308\u0304", "\u0344", "q\u0307\u0323"),
    *("\u212b", "\u1e9b\u0323", "\ufb2c", "\u0958", "\u2126", "\u0340", "\u1100", "\u11a8"),
    *("👩\u200d👩\u200d👧", "👍🏽", "🇫🇷", "☺\ufe0f", "\u200d", "\u200b", "\u00ad", "\ufeff", "🙂"),
    *("1", "12", "123", "1234", "3.14", "٣", "Ⅻ", ".", ",", "...", "!?", "#", "$^", "`", "_", "-"),
    *("``", "''", "(a|b)", "<s>", "</s>", "<unk>", "<mask>", "<m", "a<mask>b", "[x]", "\\n", "�"),
]
BLANKS = [" ", "  ", "   ", "       ", "\n", "\r\n", "\t", "\n\n", "\u00a0", "\u3000", "\u2009"]
ODD = ["\x00", "\x01", "\x1b", "\x7f", "\x85", "\u2028", MARK, f"{MARK}a", f" {MARK}", "\ufdfa"]


def any_character(generator: random.Random) -> str:
    """A character that Unicode 3.2 has, of any kind."""
    while True:
        character = chr(generator.randrange(generator.choice((0x80, 0x800, 0x3000, 0x30000))))
        if OLD.category(character) not in ("Cn", "Cs"):
            return character


def any_string(generator: random.Random) -> str:
    made = []
    for _ in range(generator.randint(1, 9)):
        kind = generator.random()
        if kind < 0.5:
            made.append(generator.choice(WORDS))
        elif kind < 0.8:
            made.append(generator.choice(BLANKS))
        elif kind < 0.86:
            made.append(generator.choice(ODD))
        else:
            made.append(any_character(generator))
    return "".join(made)


# ---- a table of characters, as SentencePiece compiles it -----------------------------------


class Charsmap:
    """Builds a double array of darts-clone's (the format of precompiled_charsmap)."""

    def __init__(self, entries: dict[str, str]) -> None:
        self.text = b""
        self.units: dict[int, int] = {0: 0}
        self.free = 1  # below it every place is taken
        tree: dict[Any, Any] = {}
        places: dict[str, int] = {}
        for old, new in entries.items():
            if new not in places:
                places[new] = len(self.text)
                self.text += new.encode() + b"\0"
            node = tree
            for byte in old.encode():
                node = node.setdefault(byte, {})
            node["value"] = places[new]
        waiting = [(0, 0, tree)]
        for index, label, node in waiting:
            waiting += self.place(index, label, node)

    def place(self, index: int, label: int, node: dict[Any, Any]) -> list[tuple[int, int, dict]]:
        """Finds room for a node's children; returns them."""
        labels = [byte for byte in node if byte != "value"]
        taken = [*labels, *([0] if "value" in node else [])]
        base = self.free & ~0xFF
        while any(base ^ byte in self.units for byte in taken) or (base ^ index) >= 1 << 21:
            base += 1
        for byte in taken:
            self.units[base ^ byte] = 0
        while self.free in self.units:
            self.free += 1
        self.units[index] = label | ("value" in node) << 8 | (index ^ base) << 10
        if "value" in node:
            self.units[base] = 1 << 31 | node["value"]
        return [(base ^ byte, byte, node[byte]) for byte in labels]

    def compiled(self) -> bytes:
        n = (max(self.units) | 0xFF) + 1
        units = struct.pack(f"<{n}I", *(self.units.get(i, 0) for i in range(n)))
        return struct.pack("<I", len(units)) + units + self.text


def nfkc_charsmap() -> bytes:
    """As nmt_nfkc has it: compatibility characters, control characters dropped, spaces alike."""
    entries = {}
    for code in range(0x30000):
        character = chr(code)
        if OLD.category(character) in ("Cn", "Cs") or code == 0:
            continue
        folded = OLD.normalize("NFKC", character)
        if folded != character:
            entries[character] = folded
        composed = OLD.normalize("NFD", character)
        if 1 < len(composed) < 4 and OLD.normalize("NFC", composed) == character:
            entries[composed] = character
    entries |= dict.fromkeys([*map(chr, (1, 2, 27, 127)), "\u200b", "\ufeff"], "")
    entries |= dict.fromkeys(["\t", "\n", "\r", "\u3000", "\u00a0", "\u2028"], " ")
    return Charsmap(entries).compiled()


# ---- families ------------------------------------------------------------------------------


@dataclass
class Recipe:
    """How a tokenizer is made; `train` gives it its vocabulary."""

    tokenizer: Tokenizer
    trainer: Any
    added: list[AddedToken]


def plain(*tokens: str, **flags: bool) -> list[AddedToken]:
    return [AddedToken(token, **({"normalized": False} | flags)) for token in tokens]


def byte_level(pre: Any, normalizer: Any = None, added: list[AddedToken] | None = None) -> Recipe:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre
    made.decoder = decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=sorted(spelling()), show_progress=False
    )
    return Recipe(made, trainer, added or [])


def words(*steps: Any) -> Any:
    return cuts.Sequence([*steps, cuts.ByteLevel(add_prefix_space=False, use_regex=False)])


def split(regex: str, behavior: str = "isolated", invert: bool = False) -> Any:
    return cuts.Split(Regex(regex), behavior, invert)


GPT2 = cuts.ByteLevel(add_prefix_space=False)


def sequence(names: tuple[str, ...]) -> Any:
    """A pre-tokenizer of tokenizer_json.SEQUENCES."""
    made = {
        "digits": cuts.Digits(False),
        "each digit": cuts.Digits(True),
        "punctuation": cuts.Punctuation("contiguous"),
        "GPT-2's words": GPT2,
    }
    steps = [made[name] if name in made else split(name) for name in names]
    return cuts.Sequence(steps) if "GPT-2's words" in names else words(*steps)


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def pieces(
    model: str,
    pre: Any,
    normalizer: Any,
    added: list[AddedToken] | None = None,
    byte_fallback: bool = True,
) -> Recipe:
    """A vocabulary of SentencePiece's kind."""
    special = ["<unk>", "<s>", "</s>", *(BYTES if byte_fallback else [])]
    if model == "BPE":
        bpe = models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback)
        made = Tokenizer(bpe)
        trainer: Any = trainers.BpeTrainer(
            vocab_size=1400, special_tokens=special, limit_alphabet=200, show_progress=False
        )
    else:
        made = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(
            vocab_size=1400, special_tokens=special, unk_token="<unk>", show_progress=False
        )
    if pre is not None:
        made.pre_tokenizer = pre
    if normalizer is not None:
        made.normalizer = normalizer
    return Recipe(made, trainer, added or [])


def metaspace(scheme: str, cut: bool) -> Any:
    return cuts.Metaspace(MARK, scheme, cut)


def fallback(strip: bool) -> Any:
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def with_decoder(recipe: Recipe, decoder: Any) -> Recipe:
    recipe.tokenizer.decoder = decoder
    return recipe


def charsmap() -> Any:
    return normalizers.Precompiled(nfkc_charsmap())


def albert() -> Recipe:
    steps = [
        *(normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD()),
        *(normalizers.StripAccents(), normalizers.Lowercase(), charsmap()),
        normalizers.Replace(Regex(" {2,}"), " "),
    ]
    pre = cuts.Sequence([cuts.WhitespaceSplit(), metaspace("always", True)])
    made = pieces("Unigram", pre, normalizers.Sequence(steps), byte_fallback=False)
    made.added = plain("<mask>", lstrip=True)
    return with_decoder(made, decoders.Metaspace(MARK, "always"))


def xglm() -> Recipe:
    steps = normalizers.Sequence([charsmap(), normalizers.Replace(Regex(" {2,}"), " ")])
    made = pieces("Unigram", metaspace("always", True), steps, byte_fallback=False)
    made.added = plain("<mask>")
    return with_decoder(made, decoders.Metaspace(MARK, "always"))


def t5() -> Recipe:
    pre = cuts.Sequence([cuts.WhitespaceSplit(), metaspace("always", True)])
    made = pieces("Unigram", pre, charsmap(), byte_fallback=False)
    return with_decoder(made, decoders.Metaspace(MARK, "always"))


def legacy_llama(model: str) -> Recipe:
    steps = [normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]
    made = pieces(model, None, normalizers.Sequence(steps), plain("<mask>"))
    return with_decoder(made, fallback(True))


def llama(model: str, scheme: str, cut: bool = False) -> Recipe:
    made = pieces(model, metaspace(scheme, cut), None, plain("<mask>"))
    return with_decoder(made, fallback(scheme != "never"))


def gemma() -> Recipe:
    pre = cuts.Split(" ", "merged_with_previous", False)
    added = plain("<mask>", "\n\n", MARK * 2, MARK * 3, "\t")
    made = pieces("BPE", pre, normalizers.Replace(" ", MARK), added)
    return with_decoder(made, fallback(False))


def gpt1() -> Recipe:
    made = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = cuts.BertPreTokenizer()
    made.decoder = decoders.BPEDecoder("</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<unk>"],
        limit_alphabet=150,
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    return Recipe(made, trainer, plain("<mask>"))


def spaces() -> list[AddedToken]:
    """GPT-NeoX's tokens of spaces, which are looked for after its normalizer."""
    return [AddedToken(" " * n, normalized=True) for n in (6, 5, 4, 3, 2)]


def shouting() -> Recipe:
    """Tokens before and after a normalizer that changes them."""
    steps = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    added = [*plain("THE", "cat"), *plain("HELLO", "CatTh", normalized=True)]
    return byte_level(GPT2, steps, [*added, *plain("[x]", single_word=True, lstrip=True)])


def recipes() -> dict[str, Callable[[], Recipe]]:
    made: dict[str, Callable[[], Recipe]] = {
        "gpt1": gpt1,
        "gpt2": lambda: byte_level(GPT2),
        "gpt-neox": lambda: byte_level(GPT2, normalizers.NFC(), spaces()),
        "cohere": lambda: byte_level(cuts.Sequence([cuts.Digits(True), GPT2]), normalizers.NFC()),
        "qwen2": lambda: byte_level(words(split([*PATTERNS][3])), normalizers.NFC()),
        "nfd": lambda: byte_level(GPT2, normalizers.NFD()),
        "nfkd": lambda: byte_level(
            GPT2, normalizers.Sequence([normalizers.NFKD(), normalizers.Strip()])
        ),
        "nfkc, lower case, two passes": shouting,
        "prefix space": lambda: byte_level(cuts.ByteLevel(add_prefix_space=True)),
        "llama, legacy": lambda: legacy_llama("BPE"),
        "llama, first": lambda: llama("BPE", "first"),
        "llama, always": lambda: llama("BPE", "always"),
        "llama, never": lambda: llama("BPE", "never"),
        "llama, split": lambda: llama("BPE", "always", True),
        "gemma": gemma,
        "unigram, legacy": lambda: legacy_llama("Unigram"),
        "unigram, first": lambda: llama("Unigram", "first"),
        "unigram, split": lambda: llama("Unigram", "always", True),
        "xglm": xglm,
        "t5": t5,
        "albert": albert,
    }
    for regex, name in PATTERNS.items():
        made[f"pattern of {name}"] = lambda regex=regex: byte_level(words(split(regex)))
    for names, name in SEQUENCES.items():
        made[f"steps of {name}"] = lambda names=names: byte_level(sequence(names))
    return made


# ---- the comparison ------------------------------------------------------------------------


def corpus(text: str, generator: random.Random) -> list[str]:
    """What it is trained on, without special tokens, to which no merges shall lead, and U+2581,
    which GPT-1 has no token for."""
    strings = [re.sub(f"</?s>|<unk>|{MARK}", "", any_string(generator)) for _ in range(1500)]
    return [*text[:200000].splitlines(keepends=True), *strings]


def save(recipe: Recipe, texts: list[str], folder: Path) -> int:
    """Trains it and writes its folder; returns the number of ids."""
    recipe.tokenizer.train_from_iterator(texts, recipe.trainer)
    values = json.loads(recipe.tokenizer.to_str())
    if values["model"]["type"] == "Unigram":  # the trainer leaves it out
        values["model"]["byte_fallback"] = BYTES[0] in dict(values["model"]["vocab"])
    # Tokens of bytes are the model's, not added ones.
    values["added_tokens"] = [t for t in values["added_tokens"] if t["content"] not in BYTES]
    recipe.tokenizer = Tokenizer.from_str(json.dumps(values))
    recipe.tokenizer.add_tokens(recipe.added)
    recipe.tokenizer.add_special_tokens([AddedToken(SEPARATOR, normalized=False)])
    folder.mkdir(exist_ok=True)
    recipe.tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    return recipe.tokenizer.get_vocab_size()


def run(*command: object) -> bytes:
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{command[1]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def parted(ids: list[int], separator: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for i in ids:
        if i == separator:
            found.append([])
        else:
            found[-1].append(i)
    return found


def check_family(
    checks: Checks, name: str, recipe: Recipe, work: Path, locus: Path, text: str, n: int
) -> None:
    """Of n strings."""
    generator = random.Random(name)
    folder, file, text_file = work / "folder", work / "vocabulary.gguf", work / "text"
    n_vocab = save(recipe, corpus(text, generator), folder)
    with contextlib.redirect_stderr(io.StringIO()):
        metadata = vocabulary(folder, Config(folder / "config.json"), n_vocab + 3)
    write(file, "gpt2", {"general.name": "vocabulary", **metadata}, [])
    # Gemma's tokens of U+2581 stand for spaces here, and are not looked for in a text.
    strings = [any_string(generator).replace(MARK * 2, MARK) for _ in range(n - 1)] + ["."]
    text = SEPARATOR.join(strings)
    text_file.write_bytes(text.encode())
    theirs = recipe.tokenizer.encode(text, add_special_tokens=False).ids
    command = (locus, "tokenize", "-q", "-m", file, "--special")
    ours = [int(word) for word in run(*command, "-f", text_file, "--ids").split()]
    end = recipe.tokenizer.token_to_id(SEPARATOR)
    wrong = 0
    pairs = zip(strings, parted(ours, end), parted(theirs, end), strict=False)
    for string, found, expected in pairs:
        if found != expected and (wrong := wrong + 1) <= 3:
            shown = [recipe.tokenizer.id_to_token(i) for i in found]
            wanted = [recipe.tokenizer.id_to_token(i) for i in expected]
            print(f"  {name}: {string!r}: {shown}, expected {wanted}")
    checks.that(ours == theirs, f"{name}: {wrong} of {n} strings have other ids")
    # The library writes a token that is looked for after the normalizer as that makes it.
    if not any(t.normalized and t.content.isupper() for t in recipe.added):
        check_text(checks, name, recipe, metadata, command, theirs)


def check_text(
    checks: Checks,
    name: str,
    recipe: Recipe,
    metadata: dict[str, Any],
    command: tuple[object, ...],
    ids: list[int],
) -> None:
    """Ids come back as the library has them; a space that was put before a stretch is dropped."""
    expected = recipe.tokenizer.decode(ids, skip_special_tokens=False)
    done = subprocess.run(
        [*map(str, command), "--decode"],
        input=" ".join(map(str, ids)).encode(),
        capture_output=True,
        check=False,
    )
    found = done.stdout.decode(errors="replace").removesuffix("\n")
    if metadata["tokenizer.ggml.model"] == "gpt2" and metadata["tokenizer.ggml.add_space_prefix"]:
        expected = expected.removeprefix(" ")
    if "locus.tokenizer.suffix" in metadata:  # the last word has its space, too
        expected += " " if found.endswith(" ") else ""
    if {"prepend", "words"} & set(metadata.get("locus.tokenizer.normalizer", ())):
        added = recipe.tokenizer.get_added_tokens_decoder().values()
        tokens = "|".join(re.escape(t.content) for t in added if t.content != "<unk>")
        expected = re.sub(f"({tokens}) ", r"\1", expected)
    pairs = enumerate(zip(found, expected, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(found), len(expected)))
    what = f"{found[max(at - 20, 0) : at + 20]!r}, expected {expected[max(at - 20, 0) : at + 20]!r}"
    checks.that(found == expected, f"{name}: decoded at {at}: {what}")


def main() -> None:
    work, locus = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
    text = Path(sys.argv[3]).read_text(encoding="utf-8")
    n = int(sys.argv[4]) if len(sys.argv) > 4 else 5000
    checks = Checks()
    for name, recipe in recipes().items():
        check_family(checks, name, recipe(), work, locus, text, n)
    checks.report()


if __name__ == "__main__":
    main()
