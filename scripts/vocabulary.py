"""Tokenizers as a checkpoint holds them: GPT-2's byte-level BPE, and plain bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from checkpoint import CONTROL, NORMAL, USER_DEFINED, Value

END_OF_TEXT = "<|endoftext|>"


class ByteBpe:
    """GPT-2's byte-level BPE. `tokens` are the vocabulary in id order, in GPT-2's printable
    alphabet; the end of text is an id of its own that no text encodes to."""

    kind = "gpt2"  # tokenizer.ggml.model

    def __init__(self, tokens: list[str], merges: list[str]) -> None:
        self.tokens, self.merges = tokens, merges
        self.end_of_text = tokens.index(END_OF_TEXT)
        vocab = {token: i for i, token in enumerate(tokens)}
        pairs = [tuple(merge.split(" ")) for merge in merges]
        self.backend = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
        self.backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.backend.decoder = decoders.ByteLevel()

    @classmethod
    def train(cls, documents: list[str], n_vocab: int) -> ByteBpe:
        """GPT-2's kind of BPE: the 256 bytes first, then the merges, the end of text last."""
        least = 258  # a file without merges is none of GPT-2's
        if n_vocab < least:
            raise ValueError(f"a vocabulary of {n_vocab}: at least {least} are needed")
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(
            vocab_size=n_vocab - 1, initial_alphabet=alphabet, show_progress=False
        )
        backend.train_from_iterator(documents, trainer)
        vocab = backend.get_vocab()
        tokens = sorted(vocab, key=vocab.__getitem__)
        pairs = json.loads(backend.to_str())["model"]["merges"]
        if not pairs:
            raise ValueError("the texts hold no two bytes that stand together: nothing to merge")
        return cls([*tokens, END_OF_TEXT], [f"{a} {b}" for a, b in pairs])

    def encode(self, text: str) -> list[int]:
        return self.backend.encode(text).ids

    def encode_documents(self, documents: list[str]) -> np.ndarray:
        """Each document followed by the end of text, as one uint16 or uint32 stream."""
        ids: list[int] = []
        for encoded in self.backend.encode_batch(documents):
            ids.extend(encoded.ids)
            ids.append(self.end_of_text)
        return np.array(ids, dtype=np.uint16 if len(self.tokens) <= 65536 else np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=False)

    def to_json(self) -> str:
        return json.dumps({"tokens": self.tokens, "merges": self.merges}, ensure_ascii=False)


class Bytes:
    """A byte is a token, its value the id; the end of text is 256."""

    kind = "bytes"

    def __init__(self) -> None:
        self.tokens = [*(f"<0x{i:02X}>" for i in range(256)), END_OF_TEXT]
        self.merges: list[str] = []
        self.end_of_text = 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_documents(self, documents: list[str]) -> np.ndarray:
        """Each document followed by the end of text, as one uint16 stream."""
        ids = [i for document in documents for i in (*document.encode(), self.end_of_text)]
        return np.array(ids, dtype=np.uint16)

    def decode(self, ids: Iterable[int]) -> str:
        pieces = [bytes([i]) if i < 256 else END_OF_TEXT.encode() for i in ids]
        return b"".join(pieces).decode(errors="replace")

    def to_json(self) -> str:
        return json.dumps({"bytes": True})


def tokenizer_from_json(text: str) -> ByteBpe | Bytes:
    """What to_json gave; ValueError for anything else."""
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("not a tokenizer: expected a JSON object")
    if data.get("bytes"):
        return Bytes()
    tokens, merges = data.get("tokens"), data.get("merges")
    for part in (tokens, merges):
        if not (isinstance(part, list) and all(isinstance(word, str) for word in part)):
            raise ValueError("not a tokenizer: expected lists of words, tokens and merges")
    known, alphabet = set(tokens), pre_tokenizers.ByteLevel.alphabet()
    parts = {part for merge in merges for part in (*merge.split(" "), merge.replace(" ", ""))}
    missing = sorted({END_OF_TEXT, *alphabet, *parts} - known)
    if missing:
        raise ValueError(f"not a whole tokenizer: it has no token '{missing[0]}'")
    return ByteBpe(tokens, merges)


def metadata_of_tokenizer(tokenizer: ByteBpe | Bytes) -> dict[str, Value]:
    """The tokenizer as GGUF's keys, its end of text the beginning, too."""
    kinds = [CONTROL if token == END_OF_TEXT else NORMAL for token in tokenizer.tokens]
    out: dict[str, Value] = {
        "tokenizer.ggml.model": tokenizer.kind,
        "tokenizer.ggml.tokens": list(tokenizer.tokens),
        "tokenizer.ggml.token_type": kinds,
    }
    if tokenizer.kind == "gpt2":
        out |= {"tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": list(tokenizer.merges)}
    return out | {
        "tokenizer.ggml.bos_token_id": tokenizer.end_of_text,
        "tokenizer.ggml.eos_token_id": tokenizer.end_of_text,
    }


def tokenizer_of(reader: gguf.GGUFReader, path: Path) -> ByteBpe | Bytes:
    """The file's tokenizer; one that does more than those of vocabulary.py is refused."""

    def get(key: str, default: Any) -> Any:
        field = reader.get_field(f"tokenizer.ggml.{key}")
        return default if field is None else field.contents()

    kind, pre = get("model", "bytes"), get("pre", "gpt-2")
    if kind not in ("gpt2", "bytes") or pre != "gpt-2":
        raise ValueError(f"{path}: a tokenizer {kind}, {pre}; gpt2 with gpt-2, or bytes, are read")
    for key in ("add_bos_token", "add_eos_token", "add_space_prefix"):
        if get(key, False):
            raise ValueError(f"{path}: tokenizer.ggml.{key} is true, which isn't done here")
    if USER_DEFINED in get("token_type", []):
        raise ValueError(f"{path}: the tokenizer has user-defined tokens, which aren't found here")
    if kind == "bytes":
        return Bytes()
    return ByteBpe(get("tokens", []), get("merges", []))
