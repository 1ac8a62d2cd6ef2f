#!/usr/bin/env python3
"""Convert a Hugging Face model folder to GGUF.

    convert_hf.py gpt2/ -o gpt2.gguf --type f16

The folder holds config.json, model.safetensors or pytorch_model.bin (or an index and its parts),
and tokenizer.json or vocab.json with merges.txt. Families: {families}.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkpoint import KINDS, Failure, Tensor, Value, run, write
from hf_folder import Config, Weights, byte_level_bpe

import numpy as np  # isort: skip (checkpoint says what to install when it is missing)


@dataclass(frozen=True)
class Converted:
    """What a family makes of a folder; keys with a leading dot belong to the architecture."""

    architecture: str
    metadata: dict[str, Value]
    tensors: list[Tensor]


@dataclass(frozen=True)
class Family:
    """How to convert models of one `model_type`."""

    decoder: Callable[[Config, Weights], Converted]
    vocabulary: Callable[[Path, Config, int], dict[str, Value]]
    ignored: str  # pattern of tensors that say nothing: masks that follow from the architecture
    inner: str  # pattern of tensors of the decoder: one that is left over means another model


# ---- GPT-2 ---------------------------------------------------------------------------------

GPT2_VECTORS = {  # of a layer: name in the checkpoint: name in the folder
    "attn_norm.weight": "ln_1.weight",
    "attn_norm.bias": "ln_1.bias",
    "attn_qkv.bias": "attn.c_attn.bias",
    "attn_output.bias": "attn.c_proj.bias",
    "ffn_norm.weight": "ln_2.weight",
    "ffn_norm.bias": "ln_2.bias",
    "ffn_up.bias": "mlp.c_fc.bias",
    "ffn_down.bias": "mlp.c_proj.bias",
}
GPT2_MATRICES = {  # Conv1D, [inputs, outputs] in the folder
    "attn_qkv.weight": "attn.c_attn.weight",
    "attn_output.weight": "attn.c_proj.weight",
    "ffn_up.weight": "mlp.c_fc.weight",
    "ffn_down.weight": "mlp.c_proj.weight",
}
ACTIVATIONS = {  # of the generic decoder
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu_erf",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def transposed(name: str, shape: tuple[int, int], weights: Weights, source: str) -> Tensor:
    """A matrix [rows, cols] that the folder holds as [cols, rows]."""
    read = weights.take(source, (shape[1], shape[0]))
    return Tensor(name, shape, lambda: read().T)


def gpt2_tensors(
    weights: Weights, n_vocab: int, n_context: int, d: int, ff: int, n_layer: int, tied: bool
) -> list[Tensor]:
    """d is the model's width, ff the MLP's."""
    prefix = "transformer." if "transformer.wte.weight" in weights else ""

    def same(name: str, shape: tuple[int, ...], source: str) -> Tensor:
        return Tensor(name, shape, weights.take(source, shape))

    tensors = [
        same("token_embd.weight", (n_vocab, d), f"{prefix}wte.weight"),
        same("position_embd.weight", (n_context, d), f"{prefix}wpe.weight"),
    ]
    shapes: dict[str, tuple[int, ...]] = {
        "attn_qkv.weight": (3 * d, d),
        "attn_qkv.bias": (3 * d,),
        "attn_output.weight": (d, d),
        "ffn_up.weight": (ff, d),
        "ffn_up.bias": (ff,),
        "ffn_down.weight": (d, ff),
    }
    for i in range(n_layer):
        block, layer = f"blk.{i}.", f"{prefix}h.{i}."
        for name, source in GPT2_VECTORS.items():
            tensors.append(same(block + name, shapes.get(name, (d,)), layer + source))
        for name, source in GPT2_MATRICES.items():
            tensors.append(transposed(block + name, shapes[name], weights, layer + source))
    tensors.append(same("output_norm.weight", (d,), f"{prefix}ln_f.weight"))
    tensors.append(same("output_norm.bias", (d,), f"{prefix}ln_f.bias"))
    if "lm_head.weight" in weights:
        head = same("output.weight", (n_vocab, d), "lm_head.weight")
        if not np.array_equal(head.read(), tensors[0].read()):
            tensors.append(head)
    elif not tied:
        raise Failure(f"{weights.folder}: lm_head.weight is missing, and the head is not tied")
    return tensors


def gpt2(config: Config, weights: Weights) -> Converted:
    """GPT-2; with another activation or no score scaling it becomes the generic decoder."""
    config.refuse("scale_attn_by_inverse_layer_idx", "scores that depend on the layer don't fit")
    config.refuse("add_cross_attention", "an encoder-decoder model doesn't fit")
    n_embd, n_head = config.count("n_embd"), config.count("n_head")
    n_layer, n_vocab = config.count("n_layer"), config.count("vocab_size")
    n_context = config.count("n_positions", config.values.get("n_ctx"))
    n_ff = config.count("n_inner", 4 * n_embd)
    if n_embd % n_head != 0:
        raise Failure(f"{config.path}: n_embd {n_embd} doesn't divide into {n_head} heads")
    epsilon = config.get("layer_norm_epsilon", float, 1e-5)
    name = config.get("activation_function", str, "gelu_new")
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise Failure(f"{config.path}: activation_function {name} is unknown; known: {known}")
    activation = ACTIVATIONS[name]
    scaled = config.get("scale_attn_weights", bool, True)
    tensors = gpt2_tensors(
        weights,
        n_vocab,
        n_context,
        n_embd,
        n_ff,
        n_layer,
        config.get("tie_word_embeddings", bool, True),
    )
    metadata: dict[str, Value] = {
        ".context_length": n_context,
        ".embedding_length": n_embd,
        ".block_count": n_layer,
        ".feed_forward_length": n_ff,
        ".attention.head_count": n_head,
        ".vocab_size": n_vocab,
    }
    if activation == "gelu_tanh" and scaled:
        metadata[".attention.layer_norm_epsilon"] = epsilon
        return Converted("gpt2", metadata, tensors)
    metadata |= {
        ".norm": "layernorm",
        ".norm_epsilon": epsilon,
        ".norm_position": "pre",
        ".activation": activation,
        ".gated": False,
        ".position": "learned",
    }
    if not scaled:
        metadata[".attention.scale"] = 1.0
    return Converted("locus", metadata, tensors)


FAMILIES = {
    "gpt2": Family(
        decoder=gpt2,
        vocabulary=byte_level_bpe,
        ignored=r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",
        inner=r"(transformer\.)?h\.",
    ),
}

# ---- the program ---------------------------------------------------------------------------


def check_left(weights: Weights, family: Family) -> None:
    """Refuse tensors inside the decoder that nobody took; mention others, such as a classifier."""
    for name in weights.left():
        if re.fullmatch(family.ignored, name):
            continue
        if re.match(family.inner, name):
            raise Failure(f"{weights.folder}: unexpected tensor {name}; this is another model")
        print(f"note: left out {name}", file=sys.stderr)


def convert(folder: Path, output: Path, kind: str, name: str) -> None:
    if not (folder / "config.json").is_file():
        raise Failure(f"{folder}: no config.json there; a model folder is wanted")
    config = Config(folder / "config.json")
    model_type = config.get("model_type", str)
    family = FAMILIES.get(model_type)
    if family is None:
        known = ", ".join(FAMILIES)
        raise Failure(f"{config.path}: model_type {model_type} is not supported; known: {known}")
    weights = Weights(folder)
    converted = family.decoder(config, weights)
    check_left(weights, family)
    metadata = {"general.name": name, **converted.metadata}
    metadata |= family.vocabulary(folder, config, config.count("vocab_size"))
    write(output, converted.architecture, metadata, converted.tensors, kind)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").format(families=", ".join(FAMILIES)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="model folder")
    parser.add_argument("-o", "--output", type=Path, required=True, help="GGUF file to write")
    parser.add_argument("--type", choices=tuple(KINDS), default="f32", help="of the matrices")
    parser.add_argument("--name", help="general.name (default: the folder's name)")
    args = parser.parse_args()
    convert(args.folder, args.output, args.type, args.name or args.folder.resolve().name)


if __name__ == "__main__":
    run(main)
