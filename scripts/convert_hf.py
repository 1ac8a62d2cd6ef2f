#!/usr/bin/env python3
"""Convert a Hugging Face model folder to GGUF.

    convert_hf.py gpt2/ -o gpt2.gguf --type f16

The folder holds config.json, model.safetensors or pytorch_model.bin (or an index and its parts),
and tokenizer.json or vocab.json with merges.txt. Model types that are known:
{families}.
Of models with pictures ({wrapped}) the text model is read.

Experts in blocks of MXFP4 (gpt-oss) stay what they are, to the bit, under every --type. What would
change the model's results and has no place in the file is refused by name. An output that is
a device or a pipe is written, `-` is standard output.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from checkpoint import KINDS, TYPE_HELP, Value, refuse_pointer, write
from hf_decoder import Decoder, Unsayable, generic_metadata
from hf_families import FAMILIES, Family
from hf_folder import Config, Weights, read_json, say, shown
from hf_own import own_metadata, own_names
from hf_reading import IGNORED
from hf_tensors import bare_norms, read_tensors, renamed
from hf_tokenizer import vocabulary
from hf_wrapped import WRAPPED, text_config, text_name
from output import Failure, refuse_inputs, run

QUANTISED = re.compile("quant_method|modules_to_not_convert|dequantize")
KNOWN = (*FAMILIES, *WRAPPED)  # model types
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")


def check_quantised(config: Config, methods: Sequence[str]) -> None:
    """Refuses weights that are no floats, unless they are by one of these methods; which of them
    are, their tensors tell."""
    if not config.has("quantization_config"):
        return
    quantised = config.values["quantization_config"]
    method = quantised.get("quant_method") if isinstance(quantised, dict) else None
    if method not in methods:
        what = f" by {shown(method)}" if method else ""
        raise Failure(f"{config.path}: the weights are quantised{what}; floats are expected")
    config.section("quantization_config").refuse_unknown(QUANTISED)


def check_kind(config: Config) -> Family:
    """The family; refuses what no decoder here computes, whatever the family."""
    model_type = config.get("model_type", str)
    family = FAMILIES.get(model_type)
    if family is None:
        names = ", ".join(KNOWN)
        raise Failure(
            f"{config.path}: model_type {shown(model_type)} is not supported; known: {names}"
        )
    check_quantised(config, family.quantised)
    config.refuse("is_encoder_decoder", "an encoder-decoder model doesn't fit")
    if config.has("pruned_heads") and config.values["pruned_heads"]:
        raise Failure(f"{config.path}: pruned_heads: layers of unlike numbers of heads don't fit")
    return family


def check_classes(config: Config, family: Family) -> None:
    """Refuses a model of another class. auto_map names no code of another where the class is the
    family's: it is what ran before transformers had it, or what it computes is known here."""
    names = config.values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Failure(f"{config.path}: architectures is {shown(names)}, expected names")
    if config.has("auto_map") and not (names and set(names) <= set(family.classes())):
        raise Failure(f"{config.path}: auto_map: a model with code of its own doesn't fit")
    for name in names:
        if name in family.classes():
            continue
        if not re.fullmatch(rf"(TF|Flax)?{family.stem}[A-Z]\w+", name):
            raise Failure(f"{config.path}: architecture {shown(name)} is unknown")
        say(f"{config.path}: of a {name} the decoder alone is converted, with the head of tokens")


def unwrapped(config: Config) -> Config:
    """The text model's configuration, where the model has pictures, too; else the same."""
    if config.get("model_type", str) not in WRAPPED:
        return config
    check_quantised(config, ())
    return text_config(config)


def read_decoder(config: Config) -> Decoder:
    """What config.json says; refuses what it says that isn't understood."""
    family = check_kind(config)
    for key in EXPERTS:
        experts = config.values.get(key)
        known = key in family.experts
        if isinstance(experts, int) and experts > 1 and not known:
            raise Failure(f"{config.path}: a mixture of {shown(experts)} experts ({key})")
    decoder = family.read(config)
    check_classes(config, family)
    config.refuse_unknown(IGNORED)
    return decoder


def describe(decoder: Decoder, generic: bool, path: Path) -> tuple[str, dict[str, Value]]:
    """Architecture and metadata: the family's own where it can say all, unless `generic`."""
    reason = None
    if not generic:
        try:
            return decoder.architecture, own_metadata(decoder)
        except Unsayable as unsayable:
            reason = str(unsayable)
    try:
        return "locus", generic_metadata(decoder)
    except Unsayable as unsayable:
        also = f", nor has {decoder.architecture} for {reason}" if reason else ""
        raise Failure(f"{path}: architecture locus has no key for {unsayable}{also}") from None


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


def convert(folder: Path, output: Path, kind: str, name: str, generic: bool = False) -> None:
    """`generic`: as architecture `locus`."""
    check_folder(folder)
    read = (".json", ".txt", ".safetensors", ".bin")
    refuse_inputs(output, (path for path in folder.iterdir() if path.suffix in read))
    config = Config(folder / "config.json")
    text = unwrapped(config)
    decoder = read_decoder(text)
    weights = Weights.of_folder(folder, str if text is config else text_name)
    tensors = read_tensors(decoder, weights)
    name = name.encode("utf-8", "replace").decode()  # a folder's name may be any bytes
    architecture, metadata = describe(decoder, generic, folder / "config.json")
    if architecture != "locus":
        tensors = renamed(tensors, own_names(decoder))
    elif decoder.bare_norms:
        tensors += bare_norms(decoder)
    metadata = {"general.name": name, **metadata}
    metadata |= vocabulary(folder, text, decoder.n_vocab)
    write(output, architecture, metadata, tensors, kind)


def main() -> None:
    families = textwrap.fill(", ".join(KNOWN), 98, break_on_hyphens=False)
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").format(families=families, wrapped=", ".join(WRAPPED)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="model folder")
    parser.add_argument("-o", "--output", type=Path, required=True, help="GGUF file to write")
    parser.add_argument(
        "--type",
        type=str.lower,
        choices=tuple(KINDS),
        default="f32",
        help=f"{TYPE_HELP}; experts in MXFP4 stay as they are",
    )
    parser.add_argument(
        "--as",
        choices=("family", "locus"),
        default="family",
        dest="architecture",
        help="architecture: the family's own where it can say all (the default), or locus, which "
        "spells every choice out",
    )
    parser.add_argument("--name", help="general.name (default: the folder's name)")
    args = parser.parse_args()
    name, generic = args.name or args.folder.resolve().name, args.architecture == "locus"
    convert(args.folder, args.output, args.type, name, generic)


if __name__ == "__main__":
    run(main)
