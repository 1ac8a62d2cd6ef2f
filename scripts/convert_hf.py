#!/usr/bin/env python3
"""Convert a Hugging Face model folder to GGUF.

    convert_hf.py gpt2/ -o gpt2.gguf --type f16

The folder holds config.json, model.safetensors or pytorch_model.bin (or an index and its parts),
and tokenizer.json or vocab.json with merges.txt. Families: {families}.

What would change the model's results and has no place in the file is refused by name. An output
that is a device or a pipe is written, `-` is standard output.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkpoint import KINDS, Tensor, Value, refuse_pointer, write
from hf_folder import Config, Weights, read_json, say, shown
from hf_tokenizer import byte_level_bpe
from output import Failure, refuse_inputs, run

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
    architectures: tuple[str, ...]  # of config.json, which this decoder is all of
    heads: str  # pattern of those that add to the decoder what is left out
    keys: set[str]  # of config.json, which the decoder reads
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


GPT2_KEYS = {
    *("n_embd", "n_head", "n_layer", "n_positions", "n_ctx", "n_inner", "vocab_size"),
    *("activation_function", "layer_norm_epsilon", "scale_attn_weights", "tie_word_embeddings"),
    *("scale_attn_by_inverse_layer_idx", "add_cross_attention"),
    "reorder_and_upcast_attn",  # another order of the same sums, for half precision
    *("n_special", "predict_special_tokens"),  # of its first releases
}
GPT2_OTHER_NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
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
    for other, key in GPT2_OTHER_NAMES.items():
        config.rename(other, key)
    n_embd, n_head = config.count("n_embd"), config.count("n_head")
    n_layer, n_vocab = config.count("n_layer"), config.count("vocab_size")
    n_context = config.count("n_positions", config.values.get("n_ctx"))
    n_ff = config.count("n_inner", 4 * n_embd)
    if n_embd % n_head != 0:
        raise Failure(f"{config.path}: n_embd {n_embd} doesn't divide into {n_head} heads")
    epsilon = config.get("layer_norm_epsilon", float, 1e-5)
    if epsilon < 0:
        raise Failure(f"{config.path}: layer_norm_epsilon is {epsilon}, expected 0 or more")
    name = config.get("activation_function", str, "gelu_new")
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise Failure(
            f"{config.path}: activation_function {shown(name)} is unknown; known: {known}"
        )
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
        architectures=("GPT2LMHeadModel", "GPT2Model"),
        heads=r"(TF|Flax)?GPT2\w+",
        keys=GPT2_KEYS | GPT2_OTHER_NAMES.keys(),
        ignored=r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",
        inner=r"(transformer\.)?(h|wte|wpe|ln_f)\.|lm_head\.",
    ),
}

# ---- the program ---------------------------------------------------------------------------

IGNORED = re.compile(  # keys of any config.json that change nothing that is computed
    r"\w*(dropout|_pdrop|_drop)(_prob)?|initializer_range|initializer_factor|summary_\w+"
    r"|model_type|architectures|transformers_version|_name_or_path|_commit_hash|torch_dtype|dtype"
    r"|use_cache|gradient_checkpointing|return_dict|output_hidden_states|output_attentions"
    r"|output_past|torchscript|use_bfloat16|tf_legacy_loss|chunk_size_feed_forward|is_decoder"
    r"|_?attn_implementation\w*|loss_type|use_return_dict|xla_device"
    r"|id2label|label2id|_?num_labels|finetuning_task|problem_type|task_specific_params|prefix"
    r"|tokenizer_class|(bos|eos|pad|sep|decoder_start)_token_id|tie_encoder_decoder"
    r"|max_length|min_length|do_sample|early_stopping|num_beams|num_beam_groups|temperature"
    r"|top_k|top_p|typical_p|diversity_penalty|repetition_penalty|length_penalty"
    r"|(encoder_)?no_repeat_ngram_size|bad_words_ids|num_return_sequences|output_scores"
    r"|return_dict_in_generate|forced_(bos|eos)_token_id|remove_invalid_values"
    r"|exponential_decay_length_penalty|(begin_)?suppress_tokens"
)
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def check_config(config: Config) -> Family:
    """The family; refuses what config.json says that no decoder here computes."""
    for key in EXPERTS:
        experts = config.values.get(key)
        if isinstance(experts, int) and experts > 1:
            raise Failure(f"{config.path}: a mixture of {shown(experts)} experts ({key})")
    quantised = config.values.get("quantization_config")
    if quantised is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else None
        what = f" by {shown(method)}" if method else ""
        raise Failure(f"{config.path}: the weights are quantised{what}; floats are expected")
    if config.values.get("auto_map") is not None:
        raise Failure(f"{config.path}: auto_map: a model with code of its own doesn't fit")
    model_type = config.get("model_type", str)
    family = FAMILIES.get(model_type)
    if family is None:
        names = ", ".join(FAMILIES)
        raise Failure(
            f"{config.path}: model_type {shown(model_type)} is not supported; known: {names}"
        )
    config.refuse("is_encoder_decoder", "an encoder-decoder model doesn't fit")
    if config.values.get("pruned_heads"):
        raise Failure(f"{config.path}: pruned_heads: layers of unlike numbers of heads don't fit")
    config.refuse_unknown({"is_encoder_decoder", "pruned_heads", *family.keys}, IGNORED)
    names = config.values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Failure(f"{config.path}: architectures is {shown(names)}, expected names")
    for name in names:
        if name in family.architectures:
            continue
        if not re.fullmatch(family.heads, name):
            raise Failure(f"{config.path}: architecture {shown(name)} is unknown")
        say(f"{config.path}: of a {name} the decoder alone is converted, with the head of tokens")
    return family


def check_folder(folder: Path) -> None:
    """Refuse what is no folder with a whole model, by what it is."""
    if folder.is_file():
        refuse_pointer(folder)
        with folder.open("rb") as file:
            if file.read(4) == b"GGUF":
                raise Failure(f"{folder}: a GGUF file already; a model folder is wanted")
        raise Failure(f"{folder}: a file; the model folder that it belongs to is wanted")
    if not folder.is_dir():
        raise Failure(f"{folder}: there is no such folder")
    adapter = folder / "adapter_config.json"
    if adapter.is_file() or (folder / "adapter_model.safetensors").is_file():
        values = read_json(adapter) if adapter.is_file() else {}
        kind, base = values.get("peft_type", "LORA"), values.get("base_model_name_or_path")
        kind = "LoRA" if kind == "LORA" else shown(kind)
        of = f" of {shown(base)}" if isinstance(base, str) else ""
        raise Failure(f"{folder}: a {kind} adapter{of}; merge it into its model first")
    if not (folder / "config.json").is_file():
        parts = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt")
        alone = any((folder / part).is_file() for part in parts)
        what = ", but a tokenizer" if alone else ""
        raise Failure(f"{folder}: no config.json there{what}; a model folder is wanted")


def check_left(weights: Weights, family: Family) -> None:
    """Refuse tensors inside the decoder that nobody took; mention others, such as a classifier."""
    for name in weights.left():
        if re.fullmatch(family.ignored, name):
            continue
        if re.match(family.inner, name):
            raise Failure(f"{weights.folder}: unexpected tensor {name}; this is another model")
        say(f"left out {name}")


def convert(folder: Path, output: Path, kind: str, name: str) -> None:
    check_folder(folder)
    read = (".json", ".txt", ".safetensors", ".bin")
    refuse_inputs(output, (path for path in folder.iterdir() if path.suffix in read))
    config = Config(folder / "config.json")
    family = check_config(config)
    weights = Weights(folder)
    converted = family.decoder(config, weights)
    check_left(weights, family)
    name = name.encode("utf-8", "replace").decode()  # a folder's name may be any bytes
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
