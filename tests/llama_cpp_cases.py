#!/usr/bin/env python3
"""Models of Hugging Face, converted by llama.cpp's own converter, too.

    llama_cpp_cases.py FOLDER LOCUS LLAMA_CPP [NAME...]

FOLDER is an empty one to work in, LOCUS the program, LLAMA_CPP a checkout of llama.cpp, whose
convert_hf_to_gguf.py is run. For each variant of hf_models.py that llama.cpp has (those named, or
all), the file that it writes gives the same logits to the bit as that of scripts/convert_hf.py. The
vocabulary is stored as one of GPT-2's whatever the family: these models have no other.
Prints a line a variant and the sums of the checks; exits 1 if any failed.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import hf_cases as hf
from checks import Checks
from hf_models import BASE, N_EMBD, Variant, rope
from output import Failure

# Runs the converter at argv[1] with the rest as its arguments. A vocabulary is known to it by a
# hash, which one trained a minute ago doesn't have, or is looked for in files that aren't there;
# keys are read as they are where transformers gives them names that the converter doesn't know.
CONVERTER = """
import sys
root, as_they_are = sys.argv.pop(1), sys.argv.pop(1) == "True"
sys.path[:0] = [root, root + "/gguf-py"]
import convert_hf_to_gguf as converter
from conversion import base
from conversion.base import ModelBase, ModelType, TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
if as_they_are:
    base.AutoConfig = None
find = converter.get_model_class
def found(*arguments, **named):
    kind = find(*arguments, **named)
    kind.set_vocab = TextModel._set_vocab_gpt2
    return kind
converter.get_model_class = found
converter.main()
"""

WIDE = 4 * N_EMBD  # the width of an MLP where the converter knows of no other
# What it takes for granted, as published models have it, where a variant has something else.
AS_PUBLISHED: dict[str, dict[str, Any]] = {
    "gpt_bigcode": {"n_inner": WIDE},
    # a base that some architectures aren't told
    "gpt_neox": rope(rope_theta=10000.0, partial_rotary_factor=0.5),
    "gpt_neox sequential": rope(rope_theta=10000.0, partial_rotary_factor=1.0),
    "falcon": rope(rope_theta=10000.0),
    "falcon new decoder": rope(rope_theta=10000.0),
    "falcon one norm": {"ffn_hidden_size": WIDE, **rope(rope_theta=10000.0)},
    "mistral": {"sliding_window": None},
    "qwen3_moe": {"mlp_only_layers": []},
    "phi": {"intermediate_size": WIDE, **rope(rope_theta=10000.0, partial_rotary_factor=0.5)},
    "gemma": rope(rope_theta=10000.0),
    "gemma2": rope(rope_theta=10000.0),
    "gemma2 capped": {"query_pre_attn_scalar": 8, **rope(rope_theta=10000.0)},
    "glm": rope(rope_theta=10000.0, partial_rotary_factor=0.5),
    "starcoder2": {"sliding_window": None},
    "gemma3_text": {
        "sliding_window_pattern": 6,
        "num_hidden_layers": 7,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "rope_theta": BASE, "factor": 4.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
}
# What it leaves out, or can't read.
LACKS = {
    "gpt2 scores by layer": "scale_attn_by_inverse_layer_idx",
    "gpt_bigcode heads": "more than one head of keys",
    "llama dynamic": "dynamic scaling",
    "llama yarn mscale": "mscale of this family",
    "qwen2 windows": "windows",
    "qwen2_moe windows": "windows",
    "qwen3_moe shares as they are": "norm_topk_prob",
    "stablelm head norms": "head norms of fewer heads of keys",
    "gemma3": "layers that aren't in sixes",
    "internvl": "this class",
    "internlm2": "dynamic scaling",
    "internlm2 biases": "biases",
    "baichuan": "these: it calls itself without end",
    "baichuan 2": "these: it calls itself without end",
    "baichuan 2 alibi": "these: it calls itself without end",
    "minicpm longer factors alone": "the length that decides between the factors",
    "deepseek normed, unshared": "models without shared experts",
    "exaone": "the norms' epsilon",
    "exaone tied, wide heads": "the norms' epsilon",
    "mistral3": "Mistral's own architecture for its text",
}


RENAMED = ("GPTNeoX", "Cohere2", "Falcon")  # keys of theirs, by transformers


def write_as_published(folder: Path, variant: Variant) -> None:
    """config.json with the keys of published folders where transformers has left them."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    share = (config.get("rope_parameters") or {}).get("partial_rotary_factor", 1.0)
    if variant.old:
        variant.old(config)
    if variant.model == "GPT2":
        config["n_ctx"] = config["n_positions"]
    if variant.model in ("GPTNeoX", "Cohere2"):
        config["rotary_pct"] = share
    if variant.model == "Mpt":
        config["architectures"] = ["MPTForCausalLM"]
    if variant.model == "Falcon" and not config["new_decoder_architecture"]:
        del config["num_kv_heads"]
    path.write_text(json.dumps(config))


def convert(llama_cpp: Path, variant: Variant, folder: Path, output: Path) -> None:
    as_they_are = variant.model in RENAMED or bool(variant.own)
    command = [sys.executable, "-c", CONVERTER, str(llama_cpp), str(as_they_are), str(folder)]
    done = subprocess.run(
        [*command, "--outfile", str(output), "--outtype", "f32"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0 or not output.exists():
        told = done.stderr.strip().splitlines() or ["nothing"]
        raise Failure(f"llama.cpp's converter: {told[-1]}")


def check(bench: hf.Bench, llama_cpp: Path, name: str, variant: Variant) -> str:
    """What holds of the two files: 'same', or how they differ."""
    folder = bench.work / "folder"
    ours, theirs = bench.work / "ours.gguf", bench.work / "theirs.gguf"
    shutil.rmtree(folder, ignore_errors=True)
    theirs.unlink(missing_ok=True)
    published = AS_PUBLISHED.get(name, {})
    variant = dataclasses.replace(variant, options=variant.options | published)
    hf.prepare(bench, name, variant, folder)
    hf.convert(folder, ours)
    write_as_published(folder, variant)
    convert(llama_cpp, variant, folder, theirs)
    logits = [bench.logits(file, variant.longest) for file in (ours, theirs)]
    if np.array_equal(*logits):
        return "same"
    return f"{hf.difference(*logits):.1e} apart"


def main() -> None:
    bench, llama_cpp = hf.Bench(Path(sys.argv[1]), sys.argv[2]), Path(sys.argv[3])
    names = sys.argv[4:] or list(hf.ALL)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    checks = Checks()
    for name in names:
        variant = hf.ALL[name]
        if variant.architecture == "locus":
            continue
        if name in LACKS:
            print(f"{name:<32} - (not {LACKS[name]})")
            continue
        try:
            told = check(bench, llama_cpp, name, variant)
        except Exception as error:  # shown as what it is, and the others go on
            told = f"{type(error).__name__}: {error}"
        checks.that(told == "same", f"{name} by llama.cpp's converter: {told}")
        print(f"{name:<32} {told}", flush=True)
    checks.report()


if __name__ == "__main__":
    main()
