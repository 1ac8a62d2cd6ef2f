"""Tiny random models of transformers' classes, a row a variant: what each of them has that others
of its family have not. Used by hf_cases.py."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch.overrides import TorchFunctionMode

from hf_mxfp4 import pack

N_VOCAB, N_CONTEXT, N_EMBD, N_FF, N_LAYER, N_HEAD, N_HEAD_KV = 300, 64, 32, 96, 2, 4, 2


@dataclass(frozen=True)
class Variant:
    """A model by its configuration. `architecture` is the file's; `generic` says whether
    architecture `locus` can say it, too (or "": why not, in the words of the refusal)."""

    model: str  # transformers' name of its class and configuration, without their endings
    options: dict[str, Any]
    architecture: str
    config: str = ""  # of another name than the class
    generic: str = "yes"
    end: str = "ForCausalLM"
    is_shared: bool = True  # with llama.cpp, by the architecture's tensors
    longest: int = 96  # tokens that it reads; N_CONTEXT where it can't go past the trained length
    prompt: int = 24  # tokens, of which greedy choice goes on
    spread: float = 1  # how much larger a layer's weights are, and smaller the embedding's: where
    # both are alike, some models repeat one token
    old: Callable[[dict[str, Any]], None] | None = None  # makes config.json one of transformers 4
    patch: Callable[[Any], None] | None = None  # what transformers' class leaves out
    # Quantises the folder's weights, and returns what they then stand for, by name.
    pack: Callable[[Path], dict[str, torch.Tensor]] | None = None
    # config.json and tensors as the family's own code has them, of the class's tensors.
    own: Callable[[dict[str, torch.Tensor]], tuple[dict, dict]] | None = None
    build: Callable[[], Any] | None = None  # a model that transformers hasn't

    def make(self) -> Any:
        if self.build:
            return self.build()
        own = {"attn_implementation": "eager", "bos_token_id": 0, "eos_token_id": 0}
        config = getattr(hf, f"{self.config or self.model}Config")(**own | self.options)
        model = getattr(hf, f"{self.model}{self.end}")(config)
        if self.patch:
            self.patch(model)
        return model


COMMON = {
    "vocab_size": N_VOCAB,
    "max_position_embeddings": N_CONTEXT,
    "hidden_size": N_EMBD,
    "num_hidden_layers": N_LAYER,
    "num_attention_heads": N_HEAD,
    "num_key_value_heads": N_HEAD_KV,
    "intermediate_size": N_FF,
    "pad_token_id": 0,
}
GPT = {
    "vocab_size": N_VOCAB,
    "n_positions": N_CONTEXT,
    "n_embd": N_EMBD,
    "n_layer": N_LAYER,
    "n_head": N_HEAD,
}
SCANS = {"vocab_size": N_VOCAB, "hidden_size": N_EMBD, "num_hidden_layers": N_LAYER}
HEADS = {"num_heads": 4, "head_dim": 24, "expand": 3, "state_size": 12}
BASE = 5000.0


def rope(kind: str = "default", **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": BASE, **more}}


def older(config: dict[str, Any]) -> None:
    """As transformers 4 wrote it: rope_theta and rope_scaling, torch_dtype, 'type'."""
    parameters = config.pop("rope_parameters")
    config["torch_dtype"] = config.pop("dtype")
    config["rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        config["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
    kind = parameters.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **parameters}


def neox_older(config: dict[str, Any]) -> None:
    older(config)
    config["rotary_emb_base"] = int(config.pop("rope_theta"))
    config["rotary_pct"] = config.pop("partial_rotary_factor")


def gpt_oss_older(config: dict[str, Any]) -> None:
    older(config)
    config["initial_context_length"] = 16
    config["experts_per_token"] = config["num_experts_per_tok"]


def exaone_older(config: dict[str, Any]) -> None:
    """As EXAONE 3's own code wrote it."""
    older(config)
    config["architectures"] = ["ExaoneForCausalLM"]
    config["auto_map"] = {"AutoModelForCausalLM": "modeling_exaone.ExaoneForCausalLM"}
    config["num_layers"] = config.pop("num_hidden_layers")
    config["layer_norm_epsilon"] = config.pop("rms_norm_eps")
    config["activation_function"] = config.pop("hidden_act")


def mamba_older(config: dict[str, Any]) -> None:
    """As published folders have it, with what the scans' first code called its sizes."""
    config["torch_dtype"] = config.pop("dtype")
    config["d_model"], config["n_layer"] = config["hidden_size"], config["num_hidden_layers"]
    config["d_inner"] = config["intermediate_size"]
    config |= {"rms_norm": True, "fused_add_norm": True, "ssm_cfg": {}}


def gemma3_older(config: dict[str, Any]) -> None:
    parameters = config.pop("rope_parameters")
    whole, part = parameters["full_attention"], parameters["sliding_attention"]
    config["rope_theta"], config["rope_local_base_freq"] = (
        whole.pop("rope_theta"),
        part["rope_theta"],
    )
    config["rope_scaling"] = whole
    config["sliding_window_pattern"] = 3
    del config["layer_types"]


def keep_alibi_bias_max(model: Any) -> None:
    """transformers reads alibi_bias_max from MPT's configuration, but doesn't use it."""
    from transformers.models.mpt import modeling_mpt

    bias = model.config.attn_config.alibi_bias_max
    model.transformer.build_mpt_alibi_tensor = functools.partial(
        modeling_mpt.build_mpt_alibi_tensor, alibi_bias_max=bias
    )


def llama(**more: Any) -> dict[str, Any]:
    return COMMON | {"rms_norm_eps": 1e-5, "tie_word_embeddings": False} | rope() | more


LEARNED = {"longest": N_CONTEXT}
N_TURNS = N_EMBD // N_HEAD // 2  # pairs of a head
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA3 = rope(
    "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=32,
)  # fmt: skip
LONGROPE = rope("longrope", short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.0, 2.0, 3.5, 6.0]) | {
    "original_max_position_embeddings": 32
}
GRANITE_MOE = llama(
    intermediate_size=32, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=3.0,
    attention_multiplier=0.25, residual_multiplier=0.5, logits_scaling=4.0,
    experts_implementation="eager",
)  # fmt: skip
GPT_OSS = llama(
    hidden_size=64, intermediate_size=96, num_hidden_layers=4, head_dim=8, sliding_window=6,
    num_local_experts=4, num_experts_per_tok=2, experts_implementation="eager",
    **rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, truncate=False),
)  # fmt: skip
VISION = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
    "image_size": 28, "patch_size": 7,
}  # fmt: skip
SOME_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "experts_implementation": "eager"}

VARIANTS: dict[str, Variant] = {
    # GPT-2 and its kin
    "gpt2": Variant("GPT2", GPT, "gpt2", end="LMHeadModel", **LEARNED),
    "gpt2 scores by layer": Variant(
        "GPT2", GPT | {"scale_attn_by_inverse_layer_idx": True, "n_inner": N_FF}, "gpt2",
        end="LMHeadModel", **LEARNED,
    ),
    "gpt2 unscaled, relu": Variant(
        "GPT2", GPT | {"scale_attn_weights": False, "activation_function": "relu"}, "locus",
        end="LMHeadModel", **LEARNED,
    ),
    "gpt2 untied": Variant(
        "GPT2", GPT | {"tie_word_embeddings": False}, "gpt2", end="LMHeadModel", **LEARNED
    ),
    "openai-gpt": Variant("OpenAIGPT", GPT, "locus", end="LMHeadModel", **LEARNED),
    "gpt_bigcode": Variant("GPTBigCode", GPT | {"n_inner": N_FF}, "starcoder", **LEARNED),
    "gpt_bigcode heads": Variant(
        "GPTBigCode", GPT | {"multi_query": False}, "starcoder", **LEARNED
    ),
    "gpt_neo": Variant(
        "GPTNeo",
        {
            "vocab_size": N_VOCAB, "max_position_embeddings": N_CONTEXT, "hidden_size": N_EMBD,
            "num_layers": N_LAYER, "num_heads": N_HEAD, "window_size": 5,
            "attention_types": [[["global", "local"], N_LAYER // 2]],
        },
        "locus", **LEARNED,
    ),
    "gptj": Variant("GPTJ", GPT | {"rotary_dim": 6}, "locus", **LEARNED),
    "codegen": Variant("CodeGen", GPT | {"rotary_dim": 4}, "locus", **LEARNED),
    # fairseq's
    "opt": Variant(
        "OPT",
        {
            "vocab_size": N_VOCAB, "max_position_embeddings": N_CONTEXT, "hidden_size": N_EMBD,
            "word_embed_proj_dim": N_EMBD, "num_hidden_layers": N_LAYER,
            "num_attention_heads": N_HEAD, "ffn_dim": N_FF,
        },
        "locus", **LEARNED,
    ),
    "opt narrow, post-norm": Variant(
        "OPT",
        {
            "vocab_size": N_VOCAB, "max_position_embeddings": N_CONTEXT, "hidden_size": N_EMBD,
            "word_embed_proj_dim": 24, "num_hidden_layers": N_LAYER, "num_attention_heads": N_HEAD,
            "ffn_dim": N_FF, "do_layer_norm_before": False,
        },
        "locus", **LEARNED,
    ),
    "xglm": Variant(
        "XGLM",
        {
            "vocab_size": N_VOCAB, "max_position_embeddings": N_CONTEXT, "d_model": N_EMBD,
            "num_layers": N_LAYER, "attention_heads": N_HEAD, "ffn_dim": N_FF,
        },
        "locus", spread=2, **LEARNED,
    ),
    # NeoX, BLOOM, MPT, Falcon
    "gpt_neox": Variant(
        "GPTNeoX",
        {k: v for k, v in COMMON.items() if k != "num_key_value_heads"}
        | rope(partial_rotary_factor=0.5) | {"tie_word_embeddings": False},
        "gptneox", old=neox_older,
    ),
    "gpt_neox sequential": Variant(
        "GPTNeoX",
        {k: v for k, v in COMMON.items() if k != "num_key_value_heads"}
        | rope(partial_rotary_factor=1.0)
        | {"use_parallel_residual": False, "attention_bias": False},
        "gptneox",
    ),
    "persimmon": Variant(
        "Persimmon",
        {k: v for k, v in COMMON.items() if k != "num_key_value_heads"}
        | rope(partial_rotary_factor=0.5) | {"tie_word_embeddings": False},
        "locus",
    ),
    "bloom": Variant(
        "Bloom",
        {"vocab_size": N_VOCAB, "hidden_size": N_EMBD, "n_layer": N_LAYER, "n_head": N_HEAD},
        "bloom", spread=2,
    ),
    "bloom 6 heads": Variant(
        "Bloom", {"vocab_size": N_VOCAB, "hidden_size": 48, "n_layer": N_LAYER, "n_head": 6},
        "bloom", spread=2,
    ),
    "mpt": Variant(
        "Mpt",
        {
            "vocab_size": N_VOCAB, "max_seq_len": N_CONTEXT, "d_model": 36, "n_heads": 6,
            "n_layers": N_LAYER, "attn_config": {"clip_qkv": 1.0, "alibi_bias_max": 16},
        },
        "mpt", patch=keep_alibi_bias_max, **LEARNED,
    ),
    "mpt softmax_scale": Variant(
        "Mpt",
        {
            "vocab_size": N_VOCAB, "max_seq_len": N_CONTEXT, "d_model": N_EMBD, "n_heads": N_HEAD,
            "n_layers": N_LAYER, "attn_config": {"softmax_scale": 0.25},
        },
        "locus",
        **LEARNED,
    ),
    "falcon": Variant("Falcon", FALCON := {
        "vocab_size": N_VOCAB, "hidden_size": N_EMBD, "num_hidden_layers": N_LAYER,
        "num_attention_heads": N_HEAD, "max_position_embeddings": N_CONTEXT, **rope(),
    }, "falcon"),
    "falcon new decoder": Variant(
        "Falcon", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2}, "falcon"
    ),
    "falcon one norm": Variant(
        "Falcon",
        FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2,
                  "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 80},
        "falcon",
    ),
    "falcon alibi": Variant(
        "Falcon",
        # The eager one adds the bias twice.
        FALCON | {"alibi": True, "multi_query": False, "parallel_attn": False, "bias": True,
                  "attn_implementation": "sdpa"},
        "locus",
    ),
    # Llama and its kin
    "llama": Variant("Llama", llama(), "llama", old=older),
    "llama wide heads, biases, tied": Variant(
        "Llama",
        llama(head_dim=16, attention_bias=True, mlp_bias=True, tie_word_embeddings=True), "llama",
    ),
    "llama all heads": Variant("Llama", llama(num_key_value_heads=N_HEAD), "llama"),
    "llama linear": Variant("Llama", llama(**rope("linear", factor=3.0)), "llama", old=older),
    "llama dynamic": Variant(
        "Llama", llama(**rope("dynamic", factor=3.0)), "llama", old=older
    ),
    "llama yarn": Variant("Llama", llama(**YARN), "llama", old=older),
    "llama yarn in full": Variant(
        "Llama",
        llama(**rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=16.0,
                     beta_slow=2.0, attention_factor=1.2, truncate=False)),
        "llama", old=older,
    ),
    "llama yarn mscale": Variant(
        "Llama",
        llama(**rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7,
                     mscale_all_dim=1.3)),
        "llama",
    ),
    "llama llama3": Variant("Llama", llama(**LLAMA3), "llama", old=older),
    "llama proportional": Variant(
        "Llama", llama(**rope("proportional", partial_rotary_factor=0.6)), "llama", old=older
    ),
    "qwen3 proportional": Variant(
        "Qwen3",
        llama(head_dim=16, **rope("proportional", partial_rotary_factor=0.3, factor=2.0)), "qwen3",
    ),
    "glm proportional": Variant(
        "Glm", llama(head_dim=8, **rope("proportional", partial_rotary_factor=0.5)), "chatglm"
    ),
    "gemma3 proportional": Variant(
        "Gemma3",
        COMMON | {
            "num_hidden_layers": 4, "sliding_window_pattern": 3, "head_dim": 8,
            "query_pre_attn_scalar": 8, "sliding_window": 5, "intermediate_size": 32,
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "proportional", "rope_theta": BASE, "partial_rotary_factor": 0.5,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
        "gemma3", "Gemma3Text", generic="a window in layers 0::3,1 alone",
    ),
    "mistral": Variant("Mistral", llama(sliding_window=7, head_dim=8), "llama", old=older),
    "mistral without window": Variant("Mistral", llama(sliding_window=None), "llama"),
    "mixtral": Variant(
        "Mixtral",
        llama(intermediate_size=40, num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
              experts_implementation="eager"),
        "llama",
    ),
    "smollm3": Variant("SmolLM3", llama(num_hidden_layers=8), "smollm3", old=older),
    "smollm3 layers": Variant(
        "SmolLM3", llama(num_hidden_layers=3, no_rope_layers=[0, 1, 1]), "locus"
    ),
    "qwen2": Variant("Qwen2", llama(), "qwen2", old=older),
    "qwen2 windows": Variant(
        "Qwen2",
        llama(use_sliding_window=True, sliding_window=6, max_window_layers=1, num_hidden_layers=3,
              tie_word_embeddings=True),
        "qwen2", generic="a window in layers 1,2 alone",
    ),
    "qwen3": Variant("Qwen3", llama(head_dim=16), "qwen3", old=older),
    "qwen2_moe": Variant(
        "Qwen2Moe",
        llama(moe_intermediate_size=32, shared_expert_intermediate_size=40, norm_topk_prob=False,
              **SOME_EXPERTS),
        "qwen2moe",
    ),
    "qwen2_moe windows": Variant(
        "Qwen2Moe",
        llama(moe_intermediate_size=32, shared_expert_intermediate_size=40, num_hidden_layers=4,
              use_sliding_window=True, sliding_window=6, max_window_layers=3, **SOME_EXPERTS),
        "qwen2moe", generic="a window in layers 0::2 alone",
    ),
    "qwen3_moe": Variant(
        "Qwen3Moe",
        llama(head_dim=8, moe_intermediate_size=40, norm_topk_prob=True, mlp_only_layers=[0],
              **SOME_EXPERTS),
        "qwen3moe", is_shared=False,
    ),
    "qwen3_moe shares as they are": Variant(
        "Qwen3Moe",
        llama(head_dim=8, moe_intermediate_size=40, norm_topk_prob=False, **SOME_EXPERTS),
        "qwen3moe",
    ),
    "gemma": Variant("Gemma", COMMON | rope() | {"head_dim": 8}, "gemma", old=older),
    "gemma2": Variant(
        "Gemma2",
        COMMON | rope() | {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5},
        "gemma2", generic="a window in layers 0 alone",
    ),
    "gemma2 capped": Variant(
        "Gemma2",
        COMMON | rope()
        | {"head_dim": 8, "query_pre_attn_scalar": 12, "sliding_window": 128,
           "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
           "num_hidden_layers": 3, "layer_types": ["full_attention"] * 3},
        "gemma2", spread=2,
    ),
    "olmo2": Variant("Olmo2", llama(), "olmo2"),
    "cohere": Variant(
        "Cohere", COMMON | rope() | {"logit_scale": 0.25, "use_qk_norm": False}, "command-r"
    ),
    "cohere head norms": Variant("Cohere", COMMON | rope() | {"use_qk_norm": True}, "command-r"),
    "granite": Variant(
        "Granite",
        llama(embedding_multiplier=3.0, attention_multiplier=0.25, residual_multiplier=0.5,
              logits_scaling=4.0),
        "granite",
    ),
    "phi": Variant(
        "Phi",
        COMMON | rope(partial_rotary_factor=0.5) | {"num_key_value_heads": N_HEAD}, "phi2",
        old=older,
    ),
    "phi3": Variant("Phi3", llama(sliding_window=None), "phi3"),
    "phi3 window": Variant(
        "Phi3", llama(sliding_window=6, **rope(partial_rotary_factor=0.5)), "phi3", old=older
    ),
    "phi3 longrope": Variant("Phi3", llama(sliding_window=None, **LONGROPE), "phi3", prompt=10),
    "starcoder2": Variant(
        "Starcoder2", COMMON | rope() | {"use_bias": True, "sliding_window": 6}, "starcoder2"
    ),
    "stablelm": Variant(
        "StableLm", COMMON | rope(partial_rotary_factor=0.25) | {"use_qkv_bias": True}, "stablelm"
    ),
    "stablelm head norms": Variant(
        "StableLm",
        COMMON | rope(partial_rotary_factor=0.5)
        | {"qk_layernorm": True, "use_parallel_residual": True},
        "stablelm", old=older,
    ),
    "gemma3_text": Variant(
        "Gemma3",
        COMMON | {
            "num_hidden_layers": 4, "sliding_window_pattern": 3, "head_dim": 8,
            "query_pre_attn_scalar": 8, "sliding_window": 5, "intermediate_size": 32,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": BASE, "factor": 4.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
        "gemma3", config="Gemma3Text", generic="a window in layers 0::3,1 alone",
        old=gemma3_older,
    ),
    "gemma3": Variant(
        "Gemma3",
        {
            "text_config": COMMON | {
                "num_hidden_layers": 3, "head_dim": 8, "query_pre_attn_scalar": 8,
                "sliding_window": 5, "layer_types": ["sliding_attention"] * 2 + ["full_attention"],
            },
            "vision_config": VISION | {"vision_use_head": False}, "mm_tokens_per_image": 4,
        },
        "gemma3", end="ForConditionalGeneration", generic="a window in layers 0,1 alone",
        is_shared=False,
    ),
    "internvl": Variant(
        "InternVL",
        {
            "text_config": llama(model_type="qwen2"),
            "vision_config": VISION | {"image_size": [28, 28], "patch_size": [7, 7]},
            "tie_word_embeddings": False,
        },
        "qwen2", end="ForConditionalGeneration", is_shared=False,
    ),
    "mistral3": Variant(
        "Mistral3",
        {
            "text_config": llama(model_type="mistral", sliding_window=7, head_dim=8),
            "vision_config": VISION | {"model_type": "pixtral", "head_dim": 8},
            "tie_word_embeddings": False,
        },
        "llama", end="ForConditionalGeneration", is_shared=False,
    ),
    "olmo": Variant("Olmo", COMMON | rope() | {"clip_qkv": 1.0}, "olmo"),
    "olmo3": Variant(
        "Olmo3",
        llama(num_hidden_layers=4, sliding_window=5) | {
            "rope_parameters": {
                "full_attention": YARN["rope_parameters"],
                "sliding_attention": rope()["rope_parameters"],
            },
        },
        "olmo2", generic="a window in layers 0,1,2 alone",
    ),
    "olmoe": Variant(
        "Olmoe", llama(intermediate_size=40, norm_topk_prob=False, **SOME_EXPERTS), "olmoe"
    ),
    "cohere2": Variant(
        "Cohere2",
        COMMON | rope() | {"num_hidden_layers": 5, "logit_scale": 0.25, "sliding_window": 5},
        "cohere2", generic="a window in layers 0::4,",
    ),
    "exaone": Variant("Llama", llama(**LLAMA3), "exaone", config="Exaone", old=exaone_older),
    "exaone tied, wide heads": Variant(
        "Llama", llama(head_dim=16, tie_word_embeddings=True), "exaone", config="Exaone"
    ),
    "exaone4": Variant(
        "Exaone4", llama(num_hidden_layers=5, sliding_window=5, sliding_window_pattern=4),
        "exaone4", generic="a window in layers 0::4,",
    ),
    "exaone4 all global": Variant(
        "Exaone4", llama(sliding_window=None, layer_types=["full_attention"] * 2), "exaone4"
    ),
    "exaone4 without positions": Variant(
        "Exaone4", llama(sliding_window=5, layer_types=["full_attention"] * 2), "locus"
    ),
    "cohere2 without positions": Variant(
        "Cohere2", COMMON | rope() | {"sliding_window": 5, "layer_types": ["full_attention"] * 2},
        "locus",
    ),
    "glm": Variant(
        "Glm", llama(head_dim=8, attention_bias=True, **rope(partial_rotary_factor=0.5)), "chatglm"
    ),
    "glm4": Variant(
        "Glm4", llama(head_dim=8, attention_bias=True, **rope(partial_rotary_factor=0.5)), "glm4"
    ),
    "granitemoe": Variant("GraniteMoe", GRANITE_MOE, "granitemoe"),
    "granitemoeshared": Variant(
        "GraniteMoeShared", GRANITE_MOE | {"shared_intermediate_size": 40}, "granitemoe"
    ),
    "gpt_oss": Variant(
        "GptOss", GPT_OSS, "gpt-oss", generic="a window in layers 0::2 alone", old=gpt_oss_older
    ),
    "gpt_oss mxfp4": Variant(
        "GptOss", GPT_OSS, "gpt-oss", generic="a window in layers 0::2 alone", pack=pack
    ),
    "gpt_oss whole dimensions": Variant(
        "GptOss",
        GPT_OSS | rope("yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0),
        "gpt-oss", generic="a window in layers 0::2 alone",
    ),
    "gpt_oss all global": Variant(
        "GptOss", GPT_OSS | {"layer_types": ["full_attention"] * 4}, "locus"
    ),
    "nanochat": Variant(
        "NanoChat", COMMON | rope() | {"final_logit_softcapping": 3.0}, "locus", spread=2
    ),
    "nanochat biases, stretched": Variant(
        "NanoChat",
        COMMON | rope("linear", factor=4.0)
        | {"attention_bias": True, "final_logit_softcapping": None, "rms_norm_eps": 1e-3},
        "locus", spread=2,
    ),
    "seed_oss": Variant(
        "SeedOss", llama(head_dim=16, attention_bias=True, attention_out_bias=False), "seed_oss"
    ),
    "mamba": Variant(
        "Mamba", SCANS | {"use_bias": True, "tie_word_embeddings": False}, "mamba", old=mamba_older
    ),
    "mamba tied": Variant(
        "Mamba", SCANS | {"state_size": 5, "use_conv_bias": False}, "mamba", spread=4
    ),
    "mamba2": Variant(
        "Mamba2", SCANS | HEADS | {"use_bias": True, "n_groups": 2}, "mamba2"
    ),
    "mamba2 tied": Variant(
        "Mamba2",
        SCANS | HEADS | {"use_conv_bias": False, "n_groups": 1, "tie_word_embeddings": True},
        "mamba2", spread=4,
    ),
    "falcon_mamba": Variant(
        "FalconMamba", SCANS | {"mixer_rms_eps": 1e-3, "intermediate_size": 48}, "mamba"
    ),
    "jamba": Variant(
        "Jamba",
        COMMON | {
            "num_hidden_layers": 4, "num_experts": 1, "attn_layer_period": 4,
            "attn_layer_offset": 1, "mamba_d_state": 5,
        },
        "jamba",
    ),
    "arcee": Variant("Arcee", llama(), "arcee"),
    "ernie4_5": Variant("Ernie4_5", llama(head_dim=8, use_bias=True), "ernie4_5"),
    "nemotron": Variant("Nemotron", COMMON | rope(partial_rotary_factor=0.5), "nemotron"),
}  # fmt: skip


class Exact(TorchFunctionMode):
    """What asks for single precision gets double: classes do, whatever their weights are, for
    norms, softmax and the angles of rotary positions."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        wide = [torch.float64 if arg is torch.float32 else arg for arg in args]
        named = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        return func(*wide, **named)


@contextlib.contextmanager
def exact() -> Iterator[None]:
    """Models that are made and run here have double precision."""
    torch.set_default_dtype(torch.float64)
    try:
        with Exact():
            yield
    finally:
        torch.set_default_dtype(torch.float32)
