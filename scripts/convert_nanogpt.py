#!/usr/bin/env python3
"""Convert a nanoGPT checkpoint (ckpt.pt) or a model of llm.c (.bin) to GGUF.

    convert_nanogpt.py out/ckpt.pt --tokenizer gpt2/ -o out.gguf
    convert_nanogpt.py out/ckpt.pt --meta data/shakespeare_char/meta.pkl -o shakespeare.gguf
    convert_nanogpt.py gpt2_124M.bin --tokenizer gpt2/ -o gpt2.gguf

Neither holds its tokenizer: --tokenizer is a folder with GPT-2's as Hugging Face has it, --meta the
characters that nanoGPT's prepare.py found. Of llm.c the versions 1 and 3 (float32) and 5 (bfloat16)
are read.
"""

from __future__ import annotations

import argparse
import math
import pickle
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from checkpoint import KINDS, NORMAL, TYPE_HELP, UNUSED, Value, refuse_pointer, write
from convert_hf import describe
from hf_decoder import Decoder, Plain
from hf_folder import Config, Found, Weights, load_torch, shown, state_tensors, stored_rows
from hf_names import GPT2, GPT_BUFFERS
from hf_tensors import read_tensors
from hf_tokenizer import vocabulary
from output import Failure, refuse_inputs, run

NAMES = replace(GPT2, transforms={}, buffers=GPT_BUFFERS)  # its Linear has what Conv1D has turned
LLMC_MAGIC, LLMC_HEADER = 20240326, 1024
LLMC_KINDS = {1: "F32", 3: "F32", 5: "BF16"}  # by version


def decoder_of(path: Path, sizes: dict[str, int], activation: str, tied: bool = True) -> Decoder:
    """A GPT-2, whose `sizes` are nanoGPT's."""
    for key in ("n_layer", "n_head", "n_embd", "block_size", "vocab_size"):
        value = sizes.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 24:
            raise Failure(f"{path}: {key} is {shown(value)}, expected a count")
    width, heads = sizes["n_embd"], sizes["n_head"]
    if width % heads != 0:
        raise Failure(f"{path}: n_embd {width} doesn't divide into {heads} heads")
    return Decoder(
        architecture="gpt2",
        names=NAMES,
        n_vocab=sizes["vocab_size"],
        n_context=sizes["block_size"],
        n_embd=width,
        n_layer=sizes["n_layer"],
        n_head=heads,
        n_head_kv=heads,
        head_dim=width // heads,
        n_ff=4 * width,
        norm="layernorm",
        norm_epsilon=1e-5,
        activation=activation,
        position=Plain("learned"),
        tied=tied,
    )


# ---- nanoGPT -------------------------------------------------------------------------------

MODEL_ARGS = {"n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size", "dropout"}


def read_nanogpt(path: Path, activation: str) -> tuple[Decoder, Weights]:
    """model_args, and the state dict beside them."""
    checkpoint = load_torch(path)
    values = checkpoint if isinstance(checkpoint, dict) else {}
    sizes, state = values.get("model_args"), values.get("model")
    if not isinstance(sizes, dict) or not isinstance(state, dict):
        raise Failure(f"{path}: no checkpoint of nanoGPT, which holds model and model_args")
    unknown = sorted(map(str, sizes.keys() - MODEL_ARGS))
    if unknown:
        raise Failure(f"{path}: model_args has {unknown[0]}, which is unknown here")
    weights = Weights(path, state_tensors(path, state))
    return decoder_of(path, sizes, activation), weights


# ---- llm.c ---------------------------------------------------------------------------------

LLMC_SIZES = ("block_size", "vocab_size", "n_layer", "n_head", "n_embd")


def llmc_layout(d: Decoder, n_rows: int) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """The file's tensors in order: name, how many (one a layer), and shape of one."""
    width, ff = d.n_embd, d.n_ff
    shapes = {
        "ln_1.weight": (width,),
        "ln_1.bias": (width,),
        "attn.c_attn.weight": (3 * width, width),
        "attn.c_attn.bias": (3 * width,),
        "attn.c_proj.weight": (width, width),
        "attn.c_proj.bias": (width,),
        "ln_2.weight": (width,),
        "ln_2.bias": (width,),
        "mlp.c_fc.weight": (ff, width),
        "mlp.c_fc.bias": (ff,),
        "mlp.c_proj.weight": (width, ff),
        "mlp.c_proj.bias": (width,),
    }
    yield "transformer.wte.weight", 1, (n_rows, width)
    yield "transformer.wpe.weight", 1, (d.n_context, width)
    for name, shape in shapes.items():
        yield "transformer.h.{}." + name, d.n_layer, shape
    yield "transformer.ln_f.weight", 1, (width,)
    yield "transformer.ln_f.bias", 1, (width,)


def read_llmc(path: Path) -> tuple[Decoder, Weights]:
    """Its rows of tokens are filled up to a multiple of 128 with some that belong to none."""
    with path.open("rb") as file:
        head = file.read(LLMC_HEADER)
    if len(head) < LLMC_HEADER:
        raise Failure(f"{path}: {len(head)} bytes, too short for a header of {LLMC_HEADER}")
    _, version, *values = struct.unpack_from("<8i", head)
    kind = LLMC_KINDS.get(version)
    if kind is None:
        raise Failure(f"{path}: llm.c format version {version}; versions 1, 3 and 5 are read")
    sizes = dict(zip(LLMC_SIZES, values, strict=False))
    decoder = decoder_of(path, sizes, "gelu_tanh")
    n_rows = decoder.n_vocab if version == 1 else values[5]
    if not decoder.n_vocab <= n_rows < decoder.n_vocab + 1024:
        raise Failure(f"{path}: padded_vocab_size is {n_rows}, for {decoder.n_vocab} tokens")
    size, offset, n_bytes = path.stat().st_size, LLMC_HEADER, 4 if kind == "F32" else 2
    found: list[tuple[str, Found]] = []
    for name, n, shape in llmc_layout(decoder, n_rows):
        kept = (decoder.n_vocab, shape[1]) if name == "transformer.wte.weight" else shape
        for i in range(n):
            found.append((name.format(i), Found(kept, kind, stored_rows(path, kind, kept, offset))))
            offset += n_bytes * math.prod(shape)
    if size != offset:
        raise Failure(f"{path}: {size} bytes, but its header makes {offset} (format {version})")
    return decoder, Weights(path, found)


# ---- tokenizers ----------------------------------------------------------------------------


class NoObjects(pickle.Unpickler):
    """Texts and numbers in lists and dictionaries alone."""

    def find_class(self, module: str, name: str) -> type:
        raise pickle.UnpicklingError(f"it holds {module}.{name}")


def characters(path: Path, n_vocab: int) -> dict[str, Value]:
    """The tokenizer of nanoGPT's meta.pkl, a character a token, as one of SentencePiece that merges
    nothing."""
    refuse_pointer(path)
    try:
        with path.open("rb") as file:
            meta = NoObjects(file).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, ValueError) as error:
        raise Failure(f"{path}: expected the pickle of nanoGPT's prepare.py; {error}") from None
    names = meta.get("itos") if isinstance(meta, dict) else None
    if not isinstance(names, dict) or sorted(names, key=str) != sorted(range(len(names)), key=str):
        raise Failure(f"{path}: itos is {shown(names)}, expected characters by their ids")
    if len(names) > n_vocab:
        raise Failure(f"{path}: {len(names)} characters, but the model has {n_vocab} ids")
    space = "\u2581"  # SentencePiece's
    tokens = []
    for i in range(len(names)):
        name = names[i]
        if not isinstance(name, str) or len(name) != 1 or name == space:
            raise Failure(f"{path}: character {i} is {shown(name)}, expected one character")
        tokens.append(name.replace(" ", space))
    n_unused = n_vocab - len(tokens)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens + [f"[PAD{len(tokens) + i}]" for i in range(n_unused)],
        "tokenizer.ggml.scores": [0.0] * n_vocab,
        "tokenizer.ggml.token_type": [NORMAL] * len(tokens) + [UNUSED] * n_unused,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }


def tokenizer_of(folder: Path | None, meta: Path | None, n_vocab: int) -> dict[str, Value]:
    if meta is not None:
        return characters(meta, n_vocab)
    assert folder is not None
    return vocabulary(folder, Config(folder / "config.json", values={}), n_vocab)


# ---- the program ---------------------------------------------------------------------------


def convert(
    path: Path,
    output: Path,
    kind: str,
    name: str,
    tokenizer: Path | None = None,
    meta: Path | None = None,
    activation: str = "gelu_erf",
) -> None:
    """`activation` is nanoGPT's: gelu_erf, or gelu_tanh before it had nn.GELU."""
    refuse_inputs(output, (source for source in (path, meta) if source is not None))
    refuse_pointer(path)
    with path.open("rb") as file:
        start = file.read(4)
    is_llmc = len(start) == 4 and struct.unpack("<i", start)[0] == LLMC_MAGIC
    decoder, weights = read_llmc(path) if is_llmc else read_nanogpt(path, activation)
    tensors = read_tensors(decoder, weights)
    architecture, metadata = describe(decoder, False, path)
    metadata = {"general.name": name, **metadata}
    metadata |= tokenizer_of(tokenizer, meta, decoder.n_vocab)
    write(output, architecture, metadata, tensors, kind)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="ckpt.pt of nanoGPT, or .bin of llm.c")
    parser.add_argument("-o", "--output", type=Path, required=True, help="GGUF file to write")
    words = parser.add_mutually_exclusive_group(required=True)
    words.add_argument(
        "--tokenizer", type=Path, metavar="FOLDER", help="that has GPT-2's tokenizer"
    )
    words.add_argument("--meta", type=Path, help="meta.pkl of a text's characters")
    parser.add_argument(
        "--type", type=str.lower, choices=tuple(KINDS), default="f32", help=TYPE_HELP
    )
    parser.add_argument(
        "--gelu-tanh",
        action="store_true",
        help="of nanoGPT before it had nn.GELU: the approximation by tanh (llm.c always has it)",
    )
    parser.add_argument("--name", help="general.name (default: the model's file name)")
    args = parser.parse_args()
    activation = "gelu_tanh" if args.gelu_tanh else "gelu_erf"
    name = args.name or args.model.stem
    convert(args.model, args.output, args.type, name, args.tokenizer, args.meta, activation)


if __name__ == "__main__":
    run(main)
