"""Tiny random transformers models of families with mixtures of experts. See golden_models.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import transformers as hf
from torch import nn

import hf_names as names
from golden_families import COMMON, ROPE, family_metadata
from golden_models import N_HEAD_KV, ROPE_BASE, Case, Split

N_EXPERT, EXPERTS = 4, "mlp.experts"


def mixtral_experts() -> Case:
    """Mixtral as architecture llama: 2 of 4 experts a token, whose shares add up to 1."""
    config = hf.MixtralConfig(
        **COMMON | {"intermediate_size": 40}, rms_norm_eps=1e-5, rope_parameters=ROPE,
        num_local_experts=N_EXPERT,
        num_experts_per_tok=2, sliding_window=None, tie_word_embeddings=False,
        experts_implementation="eager",
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=40, attention__head_count_kv=N_HEAD_KV,
        rope__freq_base=ROPE_BASE, expert_count=N_EXPERT, expert_used_count=2,
    )  # fmt: skip
    own = names.MIXTRAL.but(parts={"ffn_gate_inp": "mlp.gate"})  # another name in a file
    return Case(hf.MixtralForCausalLM(config), own, "llama", metadata, experts=EXPERTS)


def qwen2_experts() -> Case:
    """Qwen2-MoE: experts whose shares don't add up to 1, and one that all tokens take in part."""
    config = hf.Qwen2MoeConfig(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, num_experts=N_EXPERT,
        num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=40,
        norm_topk_prob=False, tie_word_embeddings=False, experts_implementation="eager",
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        expert_count=N_EXPERT, expert_used_count=2, expert_feed_forward_length=32,
        expert_shared_feed_forward_length=40,
    )  # fmt: skip
    model = hf.Qwen2MoeForCausalLM(config)
    return Case(model, names.QWEN2_MOE, "qwen2moe", metadata, experts=EXPERTS)


def qwen3_experts() -> Case:
    """Qwen3-MoE: q and k normed a head, a dense layer first, then 3 of 4 experts a token, whose
    shares add up to 1."""
    config = hf.Qwen3MoeConfig(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=ROPE, num_experts=N_EXPERT,
        num_experts_per_tok=3, moe_intermediate_size=40, norm_topk_prob=True, mlp_only_layers=[0],
        tie_word_embeddings=False, experts_implementation="eager",
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        attention__key_length=8, attention__value_length=8, expert_count=N_EXPERT,
        expert_used_count=3, expert_feed_forward_length=40, leading_dense_block_count=1,
    )  # fmt: skip
    model = hf.Qwen3MoeForCausalLM(config)
    return Case(model, names.QWEN3_MOE, "qwen3moe", metadata, experts=EXPERTS)


def olmoe_experts() -> Case:
    """OLMoE: q and k normed over all heads, experts whose shares don't add up to 1."""
    config = hf.OlmoeConfig(
        **COMMON | {"intermediate_size": 40}, rms_norm_eps=1e-5, rope_parameters=ROPE,
        num_experts=N_EXPERT, num_experts_per_tok=2, norm_topk_prob=False, eos_token_id=2,
        tie_word_embeddings=False, experts_implementation="eager",
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=40, attention__head_count_kv=N_HEAD_KV,
        rope__freq_base=ROPE_BASE, expert_count=N_EXPERT, expert_used_count=2,
    )  # fmt: skip
    model = hf.OlmoeForCausalLM(config)
    return Case(model, names.OLMOE, "olmoe", metadata, experts=EXPERTS)


def granite_experts() -> Case:
    """Granite's experts, whose shares add up to 1, and one that all tokens take whole."""
    config = hf.GraniteMoeSharedConfig(
        **COMMON | {"intermediate_size": 32}, rms_norm_eps=1e-5, rope_parameters=ROPE,
        num_local_experts=N_EXPERT, num_experts_per_tok=2, shared_intermediate_size=40,
        embedding_multiplier=3.0, attention_multiplier=0.25, residual_multiplier=0.5,
        logits_scaling=4.0, tie_word_embeddings=False, experts_implementation="eager",
    )  # fmt: skip

    def gate_and_up(values: np.ndarray) -> dict[str, np.ndarray]:
        gate, up = np.split(values, 2)
        return {"ffn_gate_shexp.weight": gate, "ffn_up_shexp.weight": up}

    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=32, attention__head_count_kv=N_HEAD_KV,
        rope__freq_base=ROPE_BASE, rope__dimension_count=8, embedding_scale=3.0,
        attention__scale=0.25, residual_scale=0.5, logit_scale=4.0, expert_count=N_EXPERT,
        expert_used_count=2, expert_shared_feed_forward_length=40,
    )  # fmt: skip
    own = names.GRANITE_MOE.but(parts={"ffn_gate_inp": "block_sparse_moe.router"})
    return Case(
        hf.GraniteMoeSharedForCausalLM(config), own, "granitemoe", metadata,
        experts="block_sparse_moe.experts",
        splits={"shared_mlp.input_linear.weight": gate_and_up},
    )  # fmt: skip


class Open(nn.Module):
    """A gate that lets everything through: a sigmoid of 50 is 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x[..., :1], 50)


def deepseek_experts() -> Case:
    """DeepSeek-MoE: a dense layer first, then experts whose shares don't add up to 1, and two that
    all tokens take whole, in one: a Qwen2-MoE without a gate for them."""
    config = hf.Qwen2MoeConfig(
        **COMMON | {"intermediate_size": 64}, rms_norm_eps=1e-5, rope_parameters=ROPE,
        num_experts=N_EXPERT, num_experts_per_tok=2, moe_intermediate_size=24,
        shared_expert_intermediate_size=48, norm_topk_prob=False, mlp_only_layers=[0],
        qkv_bias=False, tie_word_embeddings=False, experts_implementation="eager",
    )  # fmt: skip
    model = hf.Qwen2MoeForCausalLM(config)
    model.model.layers[1].mlp.shared_expert_gate = Open()
    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=64, attention__head_count_kv=N_HEAD_KV,
        rope__freq_base=ROPE_BASE, rope__dimension_count=8, rope__scaling__type="none",
        expert_count=N_EXPERT, expert_used_count=2, expert_feed_forward_length=24,
        expert_shared_count=2, leading_dense_block_count=1, expert_weights_scale=1.0,
    )  # fmt: skip
    own = names.QWEN2_MOE.but(
        parts={"ffn_gate_inp_shexp": None}, transforms=names.LLAMA_ADJACENT.transforms
    )
    return Case(model, own, "deepseek", metadata, experts=EXPERTS)


def gpt_oss_sinks() -> Case:
    """gpt-oss: attention sinks, a window in every second layer, YaRN whose ramp isn't rounded,
    biases everywhere, experts of the clipped swish whose gates and values alternate."""
    config = hf.GptOssConfig(
        **COMMON | {"intermediate_size": 32}, head_dim=8, rms_norm_eps=1e-5, sliding_window=6,
        num_local_experts=N_EXPERT, num_experts_per_tok=2, tie_word_embeddings=False,
        eos_token_id=2, experts_implementation="eager",
        rope_parameters=ROPE | {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
            "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False,
        },
    )  # fmt: skip

    def gates_and_values(suffix: str) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        def apply(values: np.ndarray) -> dict[str, np.ndarray]:
            values = values.swapaxes(1, -1)
            return {
                f"ffn_gate_exps.{suffix}": values[:, ::2],
                f"ffn_up_exps.{suffix}": values[:, 1::2],
            }

        return apply

    splits: dict[str, Split] = {
        "self_attn.sinks": lambda values: {"attn_sinks.weight": values},
        "mlp.experts.gate_up_proj": gates_and_values("weight"),
        "mlp.experts.gate_up_proj_bias": gates_and_values("bias"),
        "mlp.experts.down_proj": lambda values: {"ffn_down_exps.weight": values.swapaxes(1, 2)},
        "mlp.experts.down_proj_bias": lambda values: {"ffn_down_exps.bias": values},
    }
    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=32, attention__head_count_kv=N_HEAD_KV,
        attention__key_length=8, attention__value_length=8, attention__sliding_window=6,
        rope__freq_base=ROPE_BASE, rope__scaling__type="yarn", rope__scaling__factor=4.0,
        rope__scaling__original_context_length=16, rope__scaling__yarn_beta_fast=8.0,
        rope__scaling__yarn_beta_slow=1.0, expert_count=N_EXPERT, expert_used_count=2,
        expert_feed_forward_length=32,
    )  # fmt: skip
    own = names.LLAMA.but(
        parts=names.NO_MLP
        | {
            "ffn_norm": None,
            "post_attention_norm": "post_attention_layernorm",
            "ffn_gate_inp": "mlp.router",
        },
    )
    own = replace(own, parts=dict(sorted(own.parts.items(), key=lambda p: p[0] == "ffn_gate_inp")))
    return Case(hf.GptOssForCausalLM(config), own, "gpt-oss", metadata, splits=splits)


EXPERT_CASES: dict[str, Callable[[], Case]] = {
    "mixtral-experts": mixtral_experts,
    "qwen2-experts": qwen2_experts,
    "qwen3-experts": qwen3_experts,
    "olmoe-experts": olmoe_experts,
    "granite-experts": granite_experts,
    "deepseek-experts": deepseek_experts,
    "gpt-oss-sinks": gpt_oss_sinks,
}
