#!/usr/bin/env python3
"""Convert a checkpoint of nanochat (model_NNNNNN.pt, with meta_NNNNNN.json beside it) to GGUF.

    convert_nanochat.py chatsft_checkpoints/d20/model_000650.pt --tokenizer tokenizer/ -o d20.gguf

The tokenizer is tokenizer.pkl, or the folder that holds it: it is read, but nothing in it is run.
Checkpoints of October 2025 to January 2026 are read. Later ones have more (windows, value
embeddings, learned scales), and are refused by the name of what isn't known.
"""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checkpoint import KINDS, Value, refuse_pointer, write
from convert_hf import describe
from hf_decoder import Decoder, Rope
from hf_folder import (
    Config,
    Found,
    Weights,
    load_torch,
    one_line,
    shown,
    state_tensors,
)
from hf_names import BACKWARDS, Names
from hf_recent import NANOCHAT
from hf_tensors import bare_norms, read_tensors
from hf_tokenizer import tokenizer_metadata
from output import Failure, refuse_inputs, run
from tokenizer_json import PATTERNS
from tokenizer_parts import Added, Tokenizer, is_id, spelling

NAMES = Names(
    whole={"token_embd": "transformer.wte", "output": "lm_head"},
    layer="transformer.h.{}.",
    parts={
        "attn_q": "attn.c_q",
        "attn_k": "attn.c_k",
        "attn_v": "attn.c_v",
        "attn_output": "attn.c_proj",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj",
    },
    transforms=BACKWARDS,
)
OF_LAYER = "|".join(re.escape(name) for name in NAMES.parts.values())
KNOWN = re.compile(rf"({'|'.join(NAMES.whole.values())}|transformer\.h\.\d+\.({OF_LAYER}))\.weight")
SIZES = ("sequence_len", "vocab_size", "n_layer", "n_head", "n_kv_head", "n_embd")
PADDED = 64  # rows of tokens come in multiples of it, since December 2025
EPSILON = 2.0**-23  # of norms: that of float32, as torch's rms_norm has it by default
BEGIN, ENDS = "<|bos|>", ("<|assistant_end|>", "<|bos|>")  # nanochat's chat ends at either


# ---- the model -----------------------------------------------------------------------------


def meta_of(path: Path) -> Path:
    """The file beside the model that says its sizes."""
    found = re.fullmatch(r"model_(\d+)\.pt", path.name)
    if not found:
        raise Failure(f"{path}: expected model_NNNNNN.pt, as nanochat calls its checkpoints")
    return path.with_name(f"meta_{found[1]}.json")


def read_decoder(meta: Path) -> Decoder:
    if not meta.is_file():
        raise Failure(f"{meta}: there is no such file; it says the sizes of the model beside it")
    whole = Config(meta)
    if not whole.has("model_config"):
        raise Failure(f"{meta}: model_config is missing")
    sizes = whole.section("model_config")
    counts = {key: sizes.count(key) for key in SIZES}
    sizes.refuse_unknown(re.compile("(?!)"))
    width, heads, keys = counts["n_embd"], counts["n_head"], counts["n_kv_head"]
    if width % heads != 0 or width // heads % 2 != 0:
        raise Failure(f"{meta}: n_embd {width} doesn't divide into {heads} heads of even width")
    if heads % keys != 0:
        raise Failure(f"{meta}: n_head {heads} is no multiple of n_kv_head {keys}")
    return Decoder(
        architecture="nanochat",
        names=NAMES,
        n_vocab=counts["vocab_size"],
        n_context=counts["sequence_len"],
        n_embd=width,
        n_layer=counts["n_layer"],
        n_head=heads,
        n_head_kv=keys,
        head_dim=width // heads,
        n_ff=4 * width,
        **NANOCHAT,
        norm_epsilon=EPSILON,
        activation="relu_squared",
        position=Rope(width // heads, 10000.0),
        logit_cap=15,
    )


def read_weights(path: Path, decoder: Decoder) -> Weights:
    """The state dict, without the rows that fill up the tables of tokens."""
    weights = Weights(path, state_tensors(path, load_torch(path)))
    for name in sorted(weights.found):
        if not KNOWN.fullmatch(name):
            raise Failure(f"{path}: tensor {shown(name)} is unknown; this is a later nanochat's")
    n_rows = (decoder.n_vocab + PADDED - 1) // PADDED * PADDED
    for part in NAMES.whole.values():
        found = weights.found.get(f"{part}.weight")
        if found and found.shape == (n_rows, decoder.n_embd):
            cut = Found((decoder.n_vocab, decoder.n_embd), found.kind, found.rows)
            weights.found[f"{part}.weight"] = cut
    return weights


# ---- the tokenizer -------------------------------------------------------------------------


class Encoding:
    """Stands for tiktoken's: what it was pickled with."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class Unpickler(pickle.Unpickler):
    """Texts, bytes and numbers in lists and dictionaries, and an Encoding."""

    def find_class(self, module: str, name: str) -> type:
        if (module, name) == ("tiktoken.core", "Encoding"):
            return Encoding
        raise pickle.UnpicklingError(f"it holds {module}.{name}")


def load_encoding(path: Path) -> dict[str, Any]:
    refuse_pointer(path)
    what = "it is none"
    try:
        with path.open("rb") as file:
            found = Unpickler(file).load()
    except OSError:
        raise
    except pickle.UnpicklingError as error:
        found, what = None, one_line(error)
    except Exception:  # whatever unpickling makes of a foreign file
        found = None
    if isinstance(found, Encoding):
        if isinstance(found.state, dict):
            return found.state
        what = f"it names one, {shown(found.state)}"
    raise Failure(f"{path}: expected an Encoding of tiktoken with its tokens; {what}")


def tokens_of(state: dict[str, Any], key: str, kind: type, path: Path) -> Iterator[tuple[Any, int]]:
    tokens = state.get(key)
    if not isinstance(tokens, dict):
        raise Failure(f"{path}: {key} is {shown(tokens)}, expected ids by their tokens")
    for token, i in tokens.items():
        if not isinstance(token, kind) or not token or not is_id(i):
            raise Failure(f"{path}: {key} has {shown(token)} with id {shown(i)}")
        yield token, i


def read_encoding(path: Path) -> Tokenizer:
    """tiktoken merges any two tokens that make one, the one of the least id first, and takes a word
    that is a token whole."""
    state = load_encoding(path)
    pattern = state.get("pat_str")
    pre = PATTERNS.get(pattern) if isinstance(pattern, str) else None
    if pre is None:
        raise Failure(f"{path}: it cuts text in an unknown way: {shown(pattern)}")
    letters = spelling()
    made = Tokenizer(pre=pre, ignore_merges=True, by_ids=True)
    for token, i in tokens_of(state, "mergeable_ranks", bytes, path):
        made.vocab["".join(letters[byte] for byte in token)] = i
    for content, i in tokens_of(state, "special_tokens", str, path):
        made.added[content] = i, Added(content, special=True, normalized=False)
    if BEGIN not in made.added:
        raise Failure(f"{path}: special token {BEGIN} is missing")
    made.begin = made.added[BEGIN][0]
    return made


def tokenizer_of(path: Path, n_vocab: int) -> dict[str, Value]:
    made = read_encoding(path)
    ends = [made.added[name][0] for name in ENDS if name in made.added]
    config = Config(path, values={"eos_token_id": ends})
    return tokenizer_metadata(made, path, config, n_vocab)


# ---- the program ---------------------------------------------------------------------------


def convert(path: Path, tokenizer: Path, output: Path, kind: str, name: str) -> None:
    meta = meta_of(path)
    tokenizer = tokenizer / "tokenizer.pkl" if tokenizer.is_dir() else tokenizer
    refuse_inputs(output, (source for source in (path, meta, tokenizer) if source.exists()))
    decoder = read_decoder(meta)
    tensors = read_tensors(decoder, read_weights(path, decoder)) + bare_norms(decoder)
    architecture, metadata = describe(decoder, True, meta)
    metadata = {"general.name": name, **metadata, **tokenizer_of(tokenizer, decoder.n_vocab)}
    write(output, architecture, metadata, tensors, kind)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="model_NNNNNN.pt of nanochat")
    parser.add_argument("-o", "--output", type=Path, required=True, help="GGUF file to write")
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="tokenizer.pkl, or the folder with it"
    )
    parser.add_argument(
        "--type", type=str.lower, choices=tuple(KINDS), default="f32", help="of the matrices"
    )
    parser.add_argument("--name", help="general.name (default: the model's file name)")
    args = parser.parse_args()
    convert(args.model, args.tokenizer, args.output, args.type, args.name or args.model.stem)


if __name__ == "__main__":
    run(main)
