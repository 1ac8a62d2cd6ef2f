#!/usr/bin/env python3
"""Configurations of families, in one process: family_cases.py FOLDER [LOCUS].

FOLDER is an empty one to work in, LOCUS the program. What configurations of published models say
comes to the keys that it should; what isn't understood is refused by name; weights of all element
types are read, and written, as `locus quantize` writes them, in little memory. Needs no PyTorch.
Prints a line for each check that fails and "NN%: Checks: N, Failures: N, Errors: 0" at the end;
exits 1 if any failed.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import gguf
import numpy as np
from safetensors.numpy import save_file

import convert_hf
from checks import Checks
from convert_cases import spelling
from hf_decoder import Rope
from hf_folder import Config
from output import Failure

SHAPE = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "max_position_embeddings": 4096,
}
LLAMA = SHAPE | {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
    "initializer_range": 0.02, "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-5,
    "rope_scaling": None, "rope_theta": 500000.0, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "transformers_version": "4.40.1", "use_cache": True,
}  # fmt: skip


class Desk:
    """A folder whose config.json is written anew for each case."""

    def __init__(self, checks: Checks, work: Path) -> None:
        self.checks, self.path = checks, work / "config.json"

    def told(self, config: dict[str, Any], generic: bool = False) -> tuple[str, dict[str, Any]]:
        """Architecture and keys."""
        self.path.write_text(json.dumps(config))
        with contextlib.redirect_stderr(io.StringIO()):
            decoder = convert_hf.read_decoder(convert_hf.unwrapped(Config(self.path)))
        return convert_hf.describe(decoder, generic, self.path)

    def says(self, name: str, config: dict[str, Any], architecture: str, **keys: object) -> None:
        """`a__b` spells the key `.a.b`; None: it isn't there."""
        try:
            found, told = self.told(config)
        except Failure as failure:
            self.checks.that(False, f"{name}: {failure}")
            return
        self.checks.that(found == architecture, f"{name}: {found}, expected {architecture}")
        for key, value in keys.items():
            is_plain = key.startswith("locus")
            key = key.replace("__", ".") if is_plain else "." + key.replace("__", ".")
            is_near = told.get(key) == value
            self.checks.that(is_near, f"{name}: {key} is {told.get(key)}, expected {value}")

    def refuses(self, words: str, config: dict[str, Any], generic: bool = False) -> None:
        self.checks.refused(words, words, lambda: self.told(config, generic), self.path.parent)


def check_published(desk: Desk) -> None:
    """Keys as they are in folders of published models, with smaller numbers."""
    desk.says(
        "Llama 3.2",
        LLAMA | {
            "head_dim": 16, "mlp_bias": False, "eos_token_id": [2, 3],
            "rope_scaling": {
                "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 1024, "rope_type": "llama3",
            },
        },
        "llama", attention__head_count_kv=2, rope__freq_base=500000.0, rope__scaling__type=None,
    )  # fmt: skip
    desk.says(
        "SmolLM2",
        LLAMA | {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {}},
        "llama", rope__dimension_count=16,
    )  # fmt: skip
    mistral = LLAMA | {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    desk.says("Mistral 0.1", mistral | {"sliding_window": 4096}, "llama",
              attention__sliding_window=4096, attention__sliding_window_pattern=None)  # fmt: skip
    desk.says("Mistral 0.3", mistral | {"sliding_window": None}, "llama",
              attention__sliding_window=None)  # fmt: skip
    desk.says("an absent window is its class's", mistral, "llama", attention__sliding_window=4096)
    desk.says(
        "Qwen2.5",
        LLAMA | {
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "use_mrope": False,
            "max_window_layers": 2, "sliding_window": 128, "use_sliding_window": False,
            "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 1024,
                             "type": "yarn"},
        },
        "qwen2", attention__sliding_window=None, rope__scaling__type="yarn",
        rope__scaling__factor=4.0, rope__scaling__original_context_length=1024,
        rope__scaling__yarn_attn_factor=None,
    )  # fmt: skip
    desk.says(
        "DeepSeek-LLM with dynamic scaling",
        LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "llama",
        locus__position="rope:pairs=adjacent,dim=16,base=500000,scaling=dynamic,factor=2,"
        "trained=4096",
    )  # fmt: skip
    desk.says(
        "Phi-3 of 128 k",
        LLAMA | {
            "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "embd_pdrop": 0.0,
            "resid_pdrop": 0.0, "original_max_position_embeddings": 1024, "sliding_window": 512,
            "auto_map": {"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
            "rope_scaling": {"type": "su", "long_factor": [2.0] * 8, "short_factor": [1.0] * 8},
        },
        "phi3", rope__scaling__type="longrope", rope__scaling__original_context_length=1024,
        rope__scaling__attn_factor=float(np.float32(np.sqrt(1 + np.log(4) / np.log(1024)))),
        attention__sliding_window=512,
    )  # fmt: skip
    gemma2 = {key: value for key, value in LLAMA.items() if key != "hidden_act"} | {
        "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "head_dim": 32,
        "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
        "cache_implementation": "hybrid", "query_pre_attn_scalar": 32, "sliding_window": 64,
        "sliding_window_size": 64, "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    }  # fmt: skip
    desk.says("Gemma 2", gemma2, "gemma2", attention__key_length=32, attention__scale=None,
              attention__sliding_window=64, attention__sliding_window_pattern=None,
              attn_logit_softcapping=None, embedding_scale=None)  # fmt: skip
    desk.says("Gemma 2 without caps",
              gemma2 | {"attn_logit_softcapping": None, "final_logit_softcapping": None}, "gemma2",
              attn_logit_softcapping=0.0, final_logit_softcapping=0.0)  # fmt: skip
    desk.refuses("no key for a window in layers 0::2 alone", gemma2, generic=True)
    desk.says(
        "Falcon 7B",
        {
            "architectures": ["FalconForCausalLM"], "model_type": "falcon", "alibi": False,
            "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
            "auto_map": {"AutoModel": "modeling_falcon.FalconModel"}, "bias": False,
            "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-5, "multi_query": True, "new_decoder_architecture": False,
            "num_attention_heads": 4, "num_hidden_layers": 2, "parallel_attn": True,
            "vocab_size": 512, "use_cache": True,
        },
        "falcon", attention__head_count_kv=1, context_length=2048, rope__dimension_count=16,
        tensor_data_layout="jploski",
    )  # fmt: skip
    desk.says(
        "MPT 7B",
        {
            "architectures": ["MPTForCausalLM"], "model_type": "mpt", "d_model": 64, "n_heads": 4,
            "auto_map": {"AutoConfig": "configuration_mpt.MPTConfig"}, "emb_pdrop": 0,
            "attn_config": {
                "alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
                "attn_type": "multihead_attention", "attn_uses_sequence_id": False,
                "clip_qkv": None, "prefix_lm": False, "qk_ln": False, "softmax_scale": None,
            },
            "embedding_fraction": 1.0, "expansion_ratio": 4, "init_config": {"verbose": 0},
            "init_device": "cpu", "learned_pos_emb": True, "logit_scale": None,
            "max_seq_len": 2048, "n_layers": 2, "no_bias": True,
            "norm_type": "low_precision_layernorm", "resid_pdrop": 0,
            "tokenizer_name": "EleutherAI/gpt-neox-20b", "verbose": 0, "vocab_size": 512,
        },
        "mpt", attention__max_alibi_bias=8.0, attention__clamp_kqv=None, feed_forward_length=256,
    )  # fmt: skip
    desk.says(
        "BLOOM",
        {
            "architectures": ["BloomForCausalLM"], "model_type": "bloom", "n_embed": 64,
            "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "n_layer": 2,
            "masked_softmax_fusion": True, "num_attention_heads": 4, "offset_alibi": 100,
            "pretraining_tp": 1, "seq_length": 1024, "skip_bias_add": True, "unk_token_id": 0,
            "skip_bias_add_qkv": False, "vocab_size": 512, "layer_norm_epsilon": 1e-5,
        },
        "bloom", context_length=1024,
    )  # fmt: skip
    desk.says(
        "Pythia",
        SHAPE | {
            "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox",
            "hidden_act": "gelu", "layer_norm_eps": 1e-5, "rotary_emb_base": 10000,
            "rotary_pct": 0.25, "use_parallel_residual": True, "tie_word_embeddings": False,
        },
        "gptneox", rope__dimension_count=4, use_parallel_residual=None,
    )  # fmt: skip
    desk.says(
        "SmolLM3",
        LLAMA | {
            "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"],
            "layer_types": ["full_attention"] * 4, "max_window_layers": 28, "mlp_bias": False,
            "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0], "sliding_window": None,
            "use_sliding_window": False,
        },
        "smollm3", rope__dimension_count=16, rope__freq_base=500000.0,
    )  # fmt: skip
    desk.says(
        "GPT-J",
        {
            "architectures": ["GPTJForCausalLM"], "model_type": "gptj", "n_embd": 64, "n_head": 4,
            "n_inner": None, "n_layer": 2, "n_positions": 256, "rotary": True, "rotary_dim": 8,
            "scale_attn_weights": True, "vocab_size": 512, "tie_word_embeddings": False,
            "gradient_checkpointing": False, "summary_type": "cls_index",
        },
        "locus", position="rope:pairs=adjacent,dim=8,base=10000", parallel_residual=True,
    )  # fmt: skip


def check_needed(desk: Desk) -> None:
    """A scale of 1 is written where the engine asks for it."""
    for name, key, keys in (
        ("granite", "logits_scaling", {}),
        ("granitemoe", "logits_scaling", {}),
        ("cohere", "logit_scale", {}),
        ("cohere2", "logit_scale", {"sliding_window": 8}),
    ):
        architecture = "command-r" if name == "cohere" else name
        config = SHAPE | {"model_type": name, key: 1.0, **keys}
        desk.says(f"{name} of scale 1", config, architecture, logit_scale=1.0)


def check_layers(desk: Desk) -> None:
    """Layers that differ, where an architecture says them by a rule, or by a SPEC."""
    smollm3 = LLAMA | {"model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"]}
    some = smollm3 | {"no_rope_layers": [0, 1, 1, 1]}
    start = "rope:pairs=adjacent,dim=16,base=500000"
    desk.says("SmolLM3 by other layers", some, "locus", position=f"{start}; layers 0 none")
    exaone = LLAMA | {"model_type": "exaone4", "architectures": ["Exaone4ForCausalLM"],
                      "sliding_window": 8}  # fmt: skip
    desk.says("EXAONE 4", exaone | {"sliding_window_pattern": "LLLG"}, "exaone4",
              attention__sliding_window=8, attention__sliding_window_pattern=None)  # fmt: skip
    desk.says("by another pattern", exaone | {"sliding_window_pattern": "LG"}, "exaone4",
              attention__sliding_window_pattern=[True, False, True, False])  # fmt: skip
    desk.refuses("sliding_window_pattern is 'LX'", exaone | {"sliding_window_pattern": "LX"})
    gemma3 = {key: value for key, value in LLAMA.items() if key != "hidden_act"} | {
        "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "head_dim": 16,
        "query_pre_attn_scalar": 16, "sliding_window": 8, "sliding_window_pattern": 6,
        "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "num_hidden_layers": 7,
        "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": None,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    }  # fmt: skip
    desk.says("Gemma 3", gemma3, "gemma3", rope__freq_base=1000000.0, rope__freq_base_swa=None,
              rope__scaling__type="linear", attention__sliding_window_pattern=None)  # fmt: skip
    desk.says("of another local base", gemma3 | {"rope_local_base_freq": 500.0}, "gemma3",
              rope__freq_base_swa=500.0)  # fmt: skip
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 64}  # fmt: skip
    desk.refuses("llama3 beside layers of another", gemma3 | {"rope_scaling": llama3})


def check_refusals(desk: Desk) -> None:
    """What changes what is computed, and has no place in a file, by its name."""

    def scaled(**parameters: object) -> dict[str, Any]:
        return LLAMA | {"rope_scaling": parameters}

    desk.refuses("'sliding_window' is 4096, which is unknown", LLAMA | {"sliding_window": 4096})
    desk.refuses("rope_type 'mrope' is unknown", scaled(type="mrope"))
    desk.refuses("rope_scaling: factor is missing", scaled(type="linear"))
    desk.refuses("factor is -2.0, expected a number above 0", scaled(type="linear", factor=-2))
    desk.refuses("'alpha' is 3, which is unknown", scaled(type="dynamic", factor=2.0, alpha=3))
    desk.refuses("low_freq_factor is missing", scaled(type="llama3", factor=2.0))
    factors = {"short_factor": [1.0] * 8, "long_factor": [1.0] * 7}
    desk.refuses("long_factor has 7 numbers, expected 8", scaled(type="longrope", **factors))
    both = {"rope_parameters": {"rope_type": "default", "rope_theta": 1.0}}
    desk.refuses("differ", scaled(type="linear", factor=2.0) | both)
    nested = {"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}
    desk.refuses("'full_attention' has a rotation of its own", LLAMA | nested)
    desk.refuses("rope_interleaved is true", LLAMA | {"rope_interleaved": True})
    desk.refuses("hidden_act 'tanh' is unknown", LLAMA | {"hidden_act": "tanh"})
    desk.refuses("hidden_act is null; known: ", LLAMA | {"hidden_act": None})
    desk.refuses("is no multiple of num_key_value_heads 3", LLAMA | {"num_key_value_heads": 3})
    desk.refuses("a mixture of 8 experts (num_experts)", LLAMA | {"num_experts": 8})
    desk.refuses(
        "architecture 'LlamaxForCausalLM'", LLAMA | {"architectures": ["LlamaxForCausalLM"]}
    )
    code = {"auto_map": {"AutoModelForCausalLM": "x.Y"}}
    desk.refuses("auto_map", LLAMA | code | {"architectures": ["LlamaForCausalLMPlus"]})
    qwen = LLAMA | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
    desk.refuses("use_mrope is true", qwen | {"use_mrope": True})
    desk.refuses("layer_types has 1 entries", qwen | {"layer_types": ["full_attention"]})
    desk.refuses("layer_types has 'chunked'", qwen | {"layer_types": ["chunked"] * 4})
    windows = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 2}
    desk.refuses("no key for a window in layers 2,3 alone", qwen | windows, generic=True)
    desk.says("its own has one", qwen | windows, "qwen2",
              attention__sliding_window_pattern=[False, False, True, True])  # fmt: skip
    moe = LLAMA | {"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"]}
    desk.refuses("decoder_sparse_step 2; experts in all", moe | {"decoder_sparse_step": 2})
    desk.refuses("mlp_only_layers [1]", moe | {"mlp_only_layers": [1]})
    gpt = {"vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256}
    gptj = gpt | {"model_type": "gptj"}
    desk.refuses("rotary_dim is null", gptj | {"rotary_dim": None})
    desk.refuses("scale_attn_weights is false", gptj | {"scale_attn_weights": False})
    desk.refuses("expected a multiple of 4", gpt | {"model_type": "codegen", "n_head": 2})
    mpt = {"model_type": "mpt", "vocab_size": 512, "d_model": 64, "n_heads": 4, "n_layers": 2,
           "max_seq_len": 64}  # fmt: skip
    for key, value, words in (
        ("attn_type", "grouped_query_attention", "attn_type is 'grouped_query_attention'"),
        ("prefix_lm", True, "attn_config: prefix_lm is true"),
        ("alibi", False, "attn_config: alibi is false"),
        ("rope", True, "attn_config: rope is true"),
        ("kv_n_heads", 2, "'kv_n_heads' is 2, which is unknown"),
    ):
        desk.refuses(words, mpt | {"attn_config": {key: value}})
    desk.refuses("norm_type 'rmsnorm' is unknown", mpt | {"norm_type": "rmsnorm"})
    neo = {"model_type": "gpt_neo", "vocab_size": 512, "hidden_size": 64, "num_layers": 4,
           "num_heads": 4, "max_position_embeddings": 64}  # fmt: skip
    desk.refuses("layers 0,1 alone", neo | {"attention_types": [[["local"], 2], [["global"], 2]]})
    bloom = {"model_type": "bloom", "vocab_size": 512, "hidden_size": 64, "n_layer": 2, "n_head": 4}
    residuals = {"apply_residual_connection_post_layernorm": True}
    desk.refuses("apply_residual_connection_post_layernorm is true", bloom | residuals)
    phi = SHAPE | {"model_type": "phi"}
    desk.refuses("qk_layernorm is true", phi | {"qk_layernorm": True})
    desk.refuses("an even number is expected", phi | {"partial_rotary_factor": 0.2})


READ_IN_PART = ("phi", "phi3", "glm", "glm4", "stablelm", "nemotron", "persimmon")
READ_WHOLE = (
    "llama", "mistral", "mixtral", "smollm3", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "gemma",
    "gemma2", "gemma3_text", "olmo", "olmo2", "olmo3", "olmoe", "cohere", "cohere2", "granite",
    "granitemoe", "granitemoeshared", "starcoder2", "seed_oss", "arcee", "ernie4_5", "exaone",
    "exaone4", "falcon", "gpt_oss", "nanochat",
)  # fmt: skip


SCANS = {  # as published folders have it
    "model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 512,
    "hidden_size": 64, "intermediate_size": 96, "expand": 2, "num_hidden_layers": 4,
    "state_size": 16, "conv_kernel": 4, "time_step_rank": 4, "hidden_act": "silu",
    "d_model": 64, "d_inner": 96, "n_layer": 4, "rms_norm": True, "fused_add_norm": True,
    "ssm_cfg": {}, "residual_in_fp32": True, "use_bias": False, "use_conv_bias": True,
    "pad_vocab_size_multiple": 8, "layer_norm_epsilon": 1e-5, "time_step_init_scheme": "random",
}  # fmt: skip


def check_scans(desk: Desk) -> None:
    """Mamba: no heads, no MLP, no positions."""
    desk.says(
        "Mamba", SCANS, "mamba",
        ssm__inner_size=96, ssm__state_size=16, ssm__conv_kernel=4, ssm__time_step_rank=4,
        ssm__dt_b_c_rms=False, attention__head_count=0, feed_forward_length=0,
        context_length=1 << 20, attention__layer_norm_rms_epsilon=1e-5, mixer=None,
    )  # fmt: skip
    usual = {"intermediate_size": None, "time_step_rank": "auto", "d_inner": 128}
    desk.says("its sizes", SCANS | usual, "mamba", ssm__inner_size=128, ssm__time_step_rank=4)
    falcon = SCANS | {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"]}
    desk.says("Falcon Mamba", falcon, "mamba", ssm__dt_b_c_rms=True)
    desk.refuses("d_model is 32, but hidden_size, which is read, is 64", SCANS | {"d_model": 32})
    desk.refuses("n_layer is 5, but num_hidden_layers", SCANS | {"n_layer": 5})
    desk.refuses("rms_norm is false", SCANS | {"rms_norm": False})
    desk.refuses("ssm_cfg: 'layer' is 'Mamba2'", SCANS | {"ssm_cfg": {"layer": "Mamba2"}})
    desk.refuses("hidden_act 'gelu' is unknown", SCANS | {"hidden_act": "gelu"})
    desk.refuses("state_size is 0", SCANS | {"state_size": 0})
    desk.refuses("use_mambapi", SCANS | {"use_mambapi": True})


def check_heads(desk: Desk) -> None:
    """Mamba 2: the scan's heads, in groups."""
    mamba2 = {
        "model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "vocab_size": 512,
        "hidden_size": 64, "num_hidden_layers": 4, "num_heads": 8, "head_dim": 16, "expand": 2,
        "state_size": 16, "n_groups": 2, "conv_kernel": 4, "chunk_size": 64, "hidden_act": "silu",
        "time_step_limit": [0.0, math.inf], "time_step_rank": 4, "norm_before_gate": None,
        "use_bias": False, "use_conv_bias": True, "layer_norm_epsilon": 1e-5,
    }  # fmt: skip
    desk.says(
        "Mamba 2", mamba2, "mamba2", ssm__inner_size=128, ssm__state_size=16, ssm__conv_kernel=4,
        ssm__time_step_rank=8, ssm__group_count=2, attention__head_count=0, feed_forward_length=0,
        attention__layer_norm_rms_epsilon=1e-5, mixer=None,
    )  # fmt: skip
    desk.refuses("num_heads 4 of head_dim 16 are 64 channels", mamba2 | {"num_heads": 4})
    desk.refuses("n_groups 3 is no divisor of num_heads 8", mamba2 | {"n_groups": 3})
    desk.refuses("time_step_limit is 0.0 to 0.5", mamba2 | {"time_step_limit": [0.0, 0.5]})
    desk.refuses("norm_before_gate", mamba2 | {"norm_before_gate": True})


def check_mixed(desk: Desk) -> None:
    """Jamba: scans, and attention once in so many layers."""
    jamba = SHAPE | {
        "model_type": "jamba", "architectures": ["JambaForCausalLM"], "num_key_value_heads": 2,
        "num_experts": 1, "num_experts_per_tok": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
        "mamba_d_state": 8, "mamba_dt_rank": 6, "mamba_conv_bias": True, "mamba_proj_bias": False,
        "mamba_inner_layernorms": True, "use_mamba_kernels": True, "sliding_window": None,
    }  # fmt: skip
    desk.says(
        "Jamba", jamba, "jamba", mixer=None, position=None,
        ssm__inner_size=128, ssm__state_size=8, ssm__conv_kernel=4, ssm__time_step_rank=6,
        attention__head_count=4, attention__head_count_kv=[0, 2, 0, 2],
    )  # fmt: skip
    desk.refuses("a mixture of experts in some layers alone", jamba | {"num_experts": 4})
    desk.refuses("attn_layer_offset is 2, expected 0 to 1", jamba | {"attn_layer_offset": 2})
    desk.refuses("mamba_inner_layernorms is false", jamba | {"mamba_inner_layernorms": False})
    desk.refuses("'sliding_window' is 8, which is unknown here", jamba | {"sliding_window": 8})


def check_passed_over(desk: Desk) -> None:
    """A key that a family's class in transformers doesn't read isn't obeyed here; nor is read what
    the class refuses."""

    def of(model_type: str, **more: object) -> dict[str, Any]:
        config = SHAPE | {"model_type": model_type, **more}
        if model_type in ("falcon", "opt"):  # of another name, and a usual width
            del config["intermediate_size"]
        return config

    for name in READ_WHOLE:
        words = "partial_rotary_factor is 0.5, which this family's class passes over"
        desk.refuses(words, of(name, partial_rotary_factor=0.5))
        parameters = {"rope_type": "default", "partial_rotary_factor": 0.5}
        if name in ("gemma3_text", "olmo3"):
            parameters = {"full_attention": parameters}
        desk.refuses(words, of(name, rope_parameters=parameters))
        parsed = desk.told(of(name, partial_rotary_factor=1.0))
        desk.checks.that(bool(parsed), f"{name}: a share of 1 is read")
    for name in READ_IN_PART:
        dims = 64 if name in ("glm", "glm4") else 8
        found = rotating(desk, of(name, partial_rotary_factor=0.5))
        desk.checks.that(found == dims, f"{name}: {found} dimensions rotate, expected {dims}")
    desk.refuses("rope_pct is 0.5, but", of("stablelm", rope_pct=0.5))
    desk.refuses("rope_percent is 0.25, but", of("nemotron", rope_percent=0.25))
    desk.says("rope_pct that agrees", of("stablelm", rope_pct=0.25), "stablelm",
              rope__dimension_count=4)  # fmt: skip
    desk.refuses("rope_theta is 500.0 without rotary_emb_base", of("gpt_neox", rope_theta=500.0))
    desk.refuses("partial_rotary_factor is 0.5 without", of("gpt_neox", partial_rotary_factor=0.5))
    yarn = {"rope_type": "yarn", "original_max_position_embeddings": 1024}
    desk.refuses("rope_parameters: factor is missing", of("qwen2", rope_parameters=yarn))
    desk.says("yarn of a null factor", of("qwen2", rope_parameters=yarn | {"factor": None}),
              "qwen2", rope__scaling__factor=4.0)  # fmt: skip
    factors = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    desk.says("Phi-3's length is its class's",
              of("phi3", rope_scaling=factors, max_position_embeddings=8192), "phi3",
              rope__scaling__original_context_length=4096)  # fmt: skip
    local = {"layer_types": ["sliding_attention"] * 4, "sliding_window": 8}
    for name in ("qwen2", "qwen3", "qwen2_moe", "smollm3"):
        desk.refuses("but use_sliding_window is false", of(name, **local, use_sliding_window=False))
    on = {"use_sliding_window": True}
    for name in ("qwen2", "gemma2", "gemma3_text", "olmo3", "cohere2", "exaone4"):
        more = on if name == "qwen2" else {}
        none = local | more | {"sliding_window": None}
        desk.refuses("but sliding_window is null", of(name, **none))
    desk.says("SmolLM3's window is null where it is absent", of("smollm3", **on), "smollm3",
              attention__sliding_window=None)  # fmt: skip
    windows = on | {"sliding_window": 8, "max_window_layers": 3}
    desk.says("Qwen's mixture has other windows", of("qwen2_moe", **windows), "qwen2moe",
              attention__sliding_window_pattern=[True, False, True, False])  # fmt: skip
    desk.refuses("'layer_norm_eps' is 0.1, which is unknown", of("opt", layer_norm_eps=0.1))
    for key, value in (("rope_local_base_freq", 50.0), ("sliding_window_pattern", 2)):
        desk.refuses(f"'{key}' is {value}, which is unknown", of("olmo3", **{key: value}))
    linear = {"rope_type": "linear", "factor": 2.0}
    desk.refuses("rope_type linear; of Phi-3's class", of("phi3", rope_parameters=linear))
    capped = of("gemma3_text", attn_logit_softcapping=5.0)
    desk.refuses("attn_logit_softcapping isn't null", capped)
    desk.refuses("hidden_activation is 'relu', but", of("gemma", hidden_activation="relu"))
    desk.refuses("hidden_act is 'relu', but", of("gemma2", hidden_act="relu"))
    desk.refuses("hidden_activation is null", of("gemma2", hidden_activation=None))
    desk.says("Gemma's older key may be null",
              of("gemma", hidden_act="gelu", hidden_activation=None), "gemma")  # fmt: skip


def rotating(desk: Desk, config: dict[str, Any]) -> int:
    """Dimensions of a head that rotate."""
    desk.path.write_text(json.dumps(config))
    position = convert_hf.read_decoder(Config(desk.path)).position
    assert isinstance(position, Rope)
    return position.dim


# ---- weights -------------------------------------------------------------------------------


def write_tokenizer(folder: Path) -> None:
    vocab = {token: i for i, token in enumerate([*spelling(), "he"])}
    tokenizer = {
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": [["h", "e"]]},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "h", "eos_token": "e"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def llama_folder(folder: Path) -> dict[str, np.ndarray]:
    """A model whose numbers bfloat16 has."""
    folder.mkdir()
    config = LLAMA | {"num_hidden_layers": 1, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    generator = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        values = generator.normal(0, 0.3, shape).astype(np.float32)
        return (values.view("<u4") & 0xFFFF0000).view("<f4")

    layer = "model.layers.0."
    tensors = {
        "model.embed_tokens.weight": draw(512, 64),
        "model.norm.weight": draw(64),
        "lm_head.weight": draw(512, 64),
        f"{layer}input_layernorm.weight": draw(64),
        f"{layer}post_attention_layernorm.weight": draw(64),
        f"{layer}self_attn.q_proj.weight": draw(64, 64),
        f"{layer}self_attn.k_proj.weight": draw(32, 64),
        f"{layer}self_attn.v_proj.weight": draw(32, 64),
        f"{layer}self_attn.o_proj.weight": draw(64, 64),
        f"{layer}mlp.gate_proj.weight": draw(96, 64),
        f"{layer}mlp.up_proj.weight": draw(96, 64),
        f"{layer}mlp.down_proj.weight": draw(64, 96),
    }
    save_file(tensors, folder / "model.safetensors")
    return tensors


def save_bf16(tensors: dict[str, np.ndarray], path: Path) -> None:
    header, parts, offset = {}, [], 0
    for name, values in tensors.items():
        part = (values.view("<u4") >> 16).astype("<u2").tobytes()
        end = offset + len(part)
        header[name] = {"dtype": "BF16", "shape": values.shape, "data_offsets": [offset, end]}
        parts.append(part)
        offset = end
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def convert(folder: Path, output: Path, kind: str, generic: bool = False) -> bytes:
    with contextlib.redirect_stderr(io.StringIO()):
        convert_hf.convert(folder, output, kind, "tiny", generic)
    return output.read_bytes()


def check_types(checks: Checks, work: Path, program: str | None) -> None:
    """Of every type: what `locus quantize` makes of the F32 file, but for the scales of blocks."""
    folder, plain = work / "llama", work / "plain.gguf"
    tensors = llama_folder(folder)
    wanted = convert(folder, plain, "f32")
    save_bf16(tensors, folder / "model.safetensors")
    same = convert(folder, work / "other.gguf", "f32") == wanted
    checks.that(same, "weights as bfloat16 give another file")
    exact = {t.name: t for t in gguf.GGUFReader(plain).tensors}
    kinds = {"f16": 1e-3, "bf16": 0, "q8_0": 1 / 250, "q5_1": 1 / 30, "q5_0": 1 / 16}
    kinds |= {"q4_1": 1 / 14, "q4_0": 1 / 8}
    for kind, most in kinds.items():
        ours, theirs = work / f"{kind}.gguf", work / f"locus-{kind}.gguf"
        convert(folder, ours, kind)
        found = {t.name: t for t in gguf.GGUFReader(ours).tensors}
        if program:
            subprocess.run([program, "quantize", "-q", plain, theirs, kind], check=True)
            others = {t.name: t for t in gguf.GGUFReader(theirs).tensors}
            for name, tensor in found.items():
                other = others[name]
                alike = tensor.tensor_type == other.tensor_type
                if kind in ("f16", "bf16"):
                    alike &= bool(np.array_equal(tensor.data, other.data))
                checks.that(alike, f"{kind}: {name} is not as locus quantize has it")
        for name, tensor in found.items():
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            apart = np.abs(values - exact[name].data).max() / np.abs(exact[name].data).max()
            checks.that(apart <= most, f"{kind}: {name} is off by {apart:.2g}")
    template = "{{ messages }}"
    (folder / "chat_template.jinja").write_text(template)
    convert(folder, plain, "f32")
    field = gguf.GGUFReader(plain).fields["tokenizer.chat_template"].contents()
    checks.that(field == template, f"the template of chats is {field!r}")


def check_memory(checks: Checks, work: Path) -> None:
    """An embedding of 512 MiB as float32, read and written within 200 MiB more than without."""
    folder, rows, width = work / "large", 1 << 17, 1 << 10
    tensors = llama_folder(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"vocab_size": rows, "hidden_size": width, "head_dim": 16, "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    shapes = {"model.embed_tokens.weight": (rows, width)}
    for name, values in tensors.items():
        if name not in ("lm_head.weight", "model.embed_tokens.weight"):
            fits = [width if n == 64 and (i or values.ndim == 1) else n
                    for i, n in enumerate(values.shape)]  # fmt: skip
            shapes[name] = tuple(fits)
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        shapes[f"model.layers.0.{name}.weight"] = (width, 64 if "attn" in name else 96)
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)  # zeros that take no place
    script = Path(convert_hf.__file__)

    def most(*arguments: str | Path) -> int:
        """MiB that the converter takes at most."""
        code = (
            "import resource, runpy, sys\n"
            f"sys.path.insert(0, {str(script.parent)!r})\n"
            f"sys.argv = {['convert_hf.py', *map(str, arguments)]!r}\n"
            "try:\n"
            f"    runpy.run_path({str(script)!r}, run_name='__main__')\n"
            "except SystemExit as end:\n"
            "    if end.code: raise\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return int(done.stdout.split()[-1]) if done.returncode == 0 else 1 << 20

    idle, busy = most("--help"), most(folder, "-o", "/dev/null", "--type", "f16")
    checks.that(busy < idle + 200, f"{busy} MiB are taken, {idle} without a model")


def main() -> None:
    work = Path(sys.argv[1])
    checks = Checks()
    desk = Desk(checks, work)
    check_published(desk)
    check_needed(desk)
    check_layers(desk)
    check_refusals(desk)
    check_passed_over(desk)
    check_scans(desk)
    check_heads(desk)
    check_mixed(desk)
    check_types(checks, work, sys.argv[2] if len(sys.argv) > 2 else None)
    check_memory(checks, work)
    checks.report()


if __name__ == "__main__":
    main()
