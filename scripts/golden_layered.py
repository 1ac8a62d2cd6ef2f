"""Tiny random transformers models of families whose layers differ. See golden_models.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import transformers as hf

import hf_names as names
from golden_families import COMMON, ROPE, family_metadata
from golden_models import N_EMBD, N_HEAD_KV, ROPE_BASE, Case


def gemma2_capped() -> Case:
    """Gemma 2: norms before and after each half, soft caps, a window in every second layer."""
    config = hf.Gemma2Config(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=ROPE, query_pre_attn_scalar=8,
        sliding_window=5, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
        hidden_activation="gelu_pytorch_tanh",
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=8,
        attention__value_length=8, rope__freq_base=ROPE_BASE, attention__sliding_window=5,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
    )  # fmt: skip
    return Case(hf.Gemma2ForCausalLM(config), names.GEMMA2, "gemma2", metadata)


SMALL = COMMON | {"intermediate_size": 32}
WINDOW = 5
THREE_LOCAL = [True, True, True, False]


def gemma3_local_bases() -> Case:
    """Gemma 3: five local layers, then a global one, whose rotation has another base and is scaled;
    q and k normed a head."""
    n_layer = 7
    config = hf.Gemma3TextConfig(
        **SMALL | {"num_hidden_layers": n_layer}, head_dim=8, rms_norm_eps=1e-5,
        query_pre_attn_scalar=8, sliding_window=WINDOW, hidden_activation="gelu_pytorch_tanh",
        rope_parameters={
            "full_attention": ROPE | {"rope_type": "linear", "factor": 4.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", block_count=n_layer, feed_forward_length=32,
        attention__head_count_kv=N_HEAD_KV, attention__key_length=8, attention__value_length=8,
        attention__sliding_window=WINDOW, rope__freq_base=ROPE_BASE, rope__freq_base_swa=100.0,
        rope__scaling__type="linear", rope__scaling__factor=4.0,
    )  # fmt: skip
    own = replace(names.GEMMA3, parts=names.GEMMA2.parts | names.HEAD_NORMS)
    return Case(hf.Gemma3ForCausalLM(config), own, "gemma3", metadata)


def smollm3_unrotated() -> Case:
    """SmolLM3: each fourth layer has no positions; q and k permuted as Llama's."""
    config = hf.SmolLM3Config(
        **SMALL | {"num_hidden_layers": 4}, rms_norm_eps=1e-5, rope_parameters=ROPE,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", block_count=4, feed_forward_length=32, rope__dimension_count=8,
        attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.SmolLM3ForCausalLM(config), names.LLAMA_ADJACENT, "smollm3", metadata)


def cohere2_local() -> Case:
    """Command R7B: three local layers, then a global one without positions."""
    config = hf.Cohere2Config(
        **SMALL | {"num_hidden_layers": 4}, layer_norm_eps=1e-5, rope_parameters=ROPE,
        logit_scale=0.25, sliding_window=WINDOW, eos_token_id=2, bos_token_id=1,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm", block_count=4, feed_forward_length=32, rope__dimension_count=8,
        attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE, logit_scale=0.25,
        attention__sliding_window=WINDOW, rope__scaling__type="none",
    )  # fmt: skip
    return Case(hf.Cohere2ForCausalLM(config), names.COHERE, "cohere2", metadata)


def exaone4_local() -> Case:
    """EXAONE 4: what a half adds is normed, q and k a head; global layers have no positions."""
    config = hf.Exaone4Config(
        **SMALL | {"num_hidden_layers": 4}, rms_norm_eps=1e-5, rope_parameters=ROPE,
        sliding_window=WINDOW, sliding_window_pattern=4, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", block_count=4, feed_forward_length=32,
        attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        attention__sliding_window=WINDOW,
        attention__sliding_window_pattern=THREE_LOCAL,
    )  # fmt: skip
    return Case(hf.Exaone4ForCausalLM(config), names.OLMO2, "exaone4", metadata)


def olmo3_local() -> Case:
    """OLMo 3 as architecture olmo2: three local layers, then a global one whose rotation alone is
    scaled (YaRN)."""
    yarn = ROPE | {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
        "beta_fast": 8.0, "beta_slow": 1.0,
    }  # fmt: skip
    config = hf.Olmo3Config(
        **SMALL | {"num_hidden_layers": 4}, rms_norm_eps=1e-5, sliding_window=WINDOW,
        rope_parameters={"full_attention": yarn, "sliding_attention": ROPE},
        tie_word_embeddings=False, eos_token_id=2,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", block_count=4, feed_forward_length=32,
        attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        rope__scaling__type="yarn", rope__scaling__factor=4.0,
        rope__scaling__original_context_length=16, rope__scaling__yarn_beta_fast=8.0,
        rope__scaling__yarn_beta_slow=1.0, attention__sliding_window=WINDOW,
        attention__sliding_window_pattern=THREE_LOCAL,
    )  # fmt: skip
    return Case(hf.Olmo3ForCausalLM(config), names.OLMO2, "olmo2", metadata)


def jamba_mixed() -> Case:
    """Jamba: three layers of selective scans, whose steps are normed, and one of attention without
    positions; all have an MLP."""
    config = hf.JambaConfig(
        **SMALL | {"num_hidden_layers": 4}, rms_norm_eps=1e-5, num_experts=1, bos_token_id=1,
        attn_layer_period=4, attn_layer_offset=2, mamba_d_state=6, mamba_dt_rank=3,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", block_count=4, feed_forward_length=32,
        attention__head_count_kv=[0, 0, N_HEAD_KV, 0], ssm__conv_kernel=4,
        ssm__inner_size=2 * N_EMBD, ssm__state_size=6, ssm__time_step_rank=3, expert_count=1,
        expert_used_count=2,
    )  # fmt: skip
    splits = {
        "mamba.A_log": lambda values: {"ssm_a": -np.exp(values)},
        "mamba.D": lambda values: {"ssm_d": values},
    }
    return Case(hf.JambaForCausalLM(config), names.JAMBA, "jamba", metadata, splits=splits)


LAYERED_CASES: dict[str, Callable[[], Case]] = {
    "gemma2-capped": gemma2_capped,
    "gemma3-local-bases": gemma3_local_bases,
    "smollm3-unrotated": smollm3_unrotated,
    "cohere2-local": cohere2_local,
    "exaone4-local": exaone4_local,
    "olmo3-local": olmo3_local,
    "jamba-mixed": jamba_mixed,
}
