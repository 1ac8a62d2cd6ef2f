"""Tokenizers as a checkpoint holds them: GPT-2's byte-level BPE, and plain bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

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
