"""Tiny random transformers models of the families that a checkpoint has by its own architecture,
with the keys and tensor names of llama.cpp's converter. See golden_models.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import transformers as hf
from torch import nn

import hf_names as names
from checkpoint import Value
from golden_models import (
    N_CONTEXT,
    N_EMBD,
    N_FF,
    N_HEAD,
    N_HEAD_KV,
    N_LAYER,
    N_VOCAB,
    ROPE_BASE,
    Case,
    Unrotated,
)


def family_metadata(norm: str, **more: Value) -> dict[str, Value]:
    """The metadata that every family has; `norm` is "layer_norm" or "layer_norm_rms"."""
    metadata: dict[str, Value] = {
        ".context_length": N_CONTEXT,
        ".embedding_length": N_EMBD,
        ".block_count": N_LAYER,
        ".feed_forward_length": N_FF,
        ".vocab_size": N_VOCAB,
        ".attention.head_count": N_HEAD,
        f".attention.{norm}_epsilon": 1e-5,
    }
    return metadata | {"." + key.replace("__", "."): value for key, value in more.items()}


COMMON = {
    "vocab_size": N_VOCAB,
    "max_position_embeddings": N_CONTEXT,
    "hidden_size": N_EMBD,
    "num_hidden_layers": N_LAYER,
    "num_attention_heads": N_HEAD,
    "num_key_value_heads": N_HEAD_KV,
    "intermediate_size": N_FF,
    "pad_token_id": 0,
    "attn_implementation": "eager",
}
ROPE = {"rope_type": "default", "rope_theta": ROPE_BASE}


def qwen2_biases() -> Case:
    """Qwen2: q, k and v have biases."""
    config = hf.Qwen2Config(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False
    )
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE
    )
    return Case(hf.Qwen2ForCausalLM(config), names.LLAMA, "qwen2", metadata)


def qwen3_head_norms() -> Case:
    """Qwen3: q and k are normed a head; heads are wider than n_embd / n_head."""
    config = hf.Qwen3Config(
        **COMMON, head_dim=16, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False
    )
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=16,
        attention__value_length=16, rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.Qwen3ForCausalLM(config), names.QWEN3, "qwen3", metadata)


def gemma_scaled() -> Case:
    """Gemma: embeddings times sqrt(n_embd), norms of 1 + weight."""
    config = hf.GemmaConfig(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=ROPE,
        hidden_activation="gelu_pytorch_tanh",
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=8,
        attention__value_length=8, rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.GemmaForCausalLM(config), names.GEMMA, "gemma", metadata)


def olmo2_output_norms() -> Case:
    """OLMo 2: only what a half adds is normed, and q and k over all heads at once."""
    config = hf.Olmo2Config(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False
    )
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE
    )
    return Case(hf.Olmo2ForCausalLM(config), names.OLMO2, "olmo2", metadata)


def cohere_parallel() -> Case:
    """Command R: both halves at once under one norm without bias, logits scaled."""
    config = hf.CohereConfig(
        **COMMON, layer_norm_eps=1e-5, rope_parameters=ROPE, logit_scale=0.25, use_qk_norm=False
    )
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        logit_scale=0.25,
    )  # fmt: skip
    model = hf.CohereForCausalLM(config)
    return Case(model, names.COHERE, "command-r", metadata)


def granite_scales() -> Case:
    """Granite: embeddings, scores, residuals and logits scaled; q and k permuted as Llama's."""
    config = hf.GraniteConfig(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, embedding_multiplier=3.0,
        attention_multiplier=0.25, residual_multiplier=0.5, logits_scaling=4.0,
        tie_word_embeddings=False,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        embedding_scale=3.0, attention__scale=0.25, residual_scale=0.5, logit_scale=4.0,
    )  # fmt: skip
    return Case(hf.GraniteForCausalLM(config), names.LLAMA_ADJACENT, "granite", metadata)


def phi2_parallel() -> Case:
    """Phi-2: both halves at once under one norm, half of each head rotated, biases everywhere."""
    config = hf.PhiConfig(
        **COMMON | {"num_key_value_heads": N_HEAD}, layer_norm_eps=1e-5,
        rope_parameters=ROPE | {"partial_rotary_factor": 0.5}, tie_word_embeddings=False,
    )  # fmt: skip
    metadata = family_metadata("layer_norm", rope__dimension_count=4, rope__freq_base=ROPE_BASE)
    return Case(hf.PhiForCausalLM(config), names.PHI, "phi2", metadata)


def phi3_fused() -> Case:
    """Phi-3: q, k and v in one matrix, gate and up in another, a window in every layer."""
    config = hf.Phi3Config(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, sliding_window=6,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=8,
        rope__freq_base=ROPE_BASE, attention__sliding_window=6,
    )  # fmt: skip
    return Case(hf.Phi3ForCausalLM(config), names.PHI3, "phi3", metadata)


def starcoder2_window() -> Case:
    """StarCoder 2: LayerNorm, biases, grouped keys and values, a window in every layer."""
    config = hf.Starcoder2Config(
        **COMMON, norm_epsilon=1e-5, rope_parameters=ROPE, use_bias=True, sliding_window=6
    )
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        attention__sliding_window=6,
    )  # fmt: skip
    model = hf.Starcoder2ForCausalLM(config)
    return Case(model, names.STARCODER2, "starcoder2", metadata)


def starcoder_one_key() -> Case:
    """StarCoder: GPT-2 with one key and value for all heads."""
    config = hf.GPTBigCodeConfig(
        vocab_size=N_VOCAB, n_positions=N_CONTEXT, n_embd=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD,
        n_inner=N_FF, multi_query=True, attn_implementation="eager",
    )  # fmt: skip
    metadata = family_metadata("layer_norm", attention__head_count_kv=1)
    return Case(hf.GPTBigCodeForCausalLM(config), names.STARCODER, "starcoder", metadata)


def stablelm_head_norms() -> Case:
    """StableLM 2: LayerNorms of q and k with weights of each head's own, both halves at once."""
    config = hf.StableLmConfig(
        **COMMON, layer_norm_eps=1e-5, rope_parameters=ROPE | {"partial_rotary_factor": 0.25},
        qk_layernorm=True, use_parallel_residual=True, tie_word_embeddings=False,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=2,
        rope__freq_base=ROPE_BASE, use_parallel_residual=True,
    )  # fmt: skip
    own = names.LLAMA.but(parts={"ffn_norm": None}, stacked=names.STABLELM_HEAD_NORMS)
    return Case(hf.StableLmForCausalLM(config), own, "stablelm", metadata)


def nemotron_squares() -> Case:
    """Nemotron: squared ReLU, LayerNorms of 1 + weight, half of each head rotated."""
    config = hf.NemotronConfig(
        **COMMON, norm_eps=1e-5, rope_parameters=ROPE | {"partial_rotary_factor": 0.5},
        hidden_act="relu2", tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=4,
        rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.NemotronForCausalLM(config), names.NEMOTRON, "nemotron", metadata)


class NormedQkv(nn.Module):
    """MPT's fused projection whose q and k are normed over all heads (attn_config.qk_ln), which
    transformers' class leaves out."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.q_ln, self.k_ln = (nn.LayerNorm(linear.in_features, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.linear(x).clamp(-1, 1).chunk(3, dim=-1)
        return torch.cat((self.q_ln(q), self.k_ln(k), v), dim=-1)


def mpt_qk_norms() -> Case:
    """MPT as architecture mpt, q, k and v clipped, then q and k normed over all heads."""
    config = hf.MptConfig(
        vocab_size=N_VOCAB, max_seq_len=N_CONTEXT, d_model=N_EMBD, n_heads=N_HEAD,
        n_layers=N_LAYER,
    )  # fmt: skip
    model = hf.MptForCausalLM(config)
    for block in model.transformer.blocks:
        block.attn.Wqkv = NormedQkv(block.attn.Wqkv)
    metadata = family_metadata(
        "layer_norm", feed_forward_length=4 * N_EMBD, attention__max_alibi_bias=8.0,
        attention__clamp_kqv=1.0,
    )  # fmt: skip
    parts = {}
    for part, name in names.MPT.parts.items():
        parts[part] = name
        if part == "attn_qkv":
            parts |= {f"attn_{x}_norm": f"{name}.{x}_ln" for x in "qk"} | {part: f"{name}.linear"}
    return Case(model, replace(names.MPT, parts=parts), "mpt", metadata)


def phi3_longrope() -> Case:
    """Phi-3 of long context: factors of its own for texts up to the first length, and beyond."""
    rng = np.random.default_rng(3)
    factors = {
        name: (1 + rng.random(N_EMBD // N_HEAD // 2)).astype(np.float32) * scale
        for name, scale in (("short", 1.0), ("long", 2.0))
    }
    config = hf.Phi3Config(
        **COMMON | {"intermediate_size": 32}, rms_norm_eps=1e-5, tie_word_embeddings=False,
        original_max_position_embeddings=32, bos_token_id=1, eos_token_id=2,
        rope_parameters=ROPE | {
            "rope_type": "longrope", "original_max_position_embeddings": 32,
            **{f"{name}_factor": values.tolist() for name, values in factors.items()},
        },
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=32, attention__head_count_kv=N_HEAD_KV,
        rope__dimension_count=8, rope__freq_base=ROPE_BASE, attention__sliding_window=0,
        rope__scaling__original_context_length=32, rope__scaling__type="longrope",
        rope__scaling__attn_factor=math.sqrt(1 + math.log(N_CONTEXT / 32) / math.log(32)),
    )  # fmt: skip
    added = {f"rope_factors_{name}.weight": values for name, values in factors.items()}
    # transformers takes the long factors for all of a text that is longer than the first length.
    return Case(
        hf.Phi3ForCausalLM(config), names.PHI3, "phi3", metadata,
        position="rope:length=44", added=added,
    )  # fmt: skip


def olmo_bare() -> Case:
    """OLMo: LayerNorms without weights, q, k and v clipped; q and k permuted as Llama's."""
    config = hf.OlmoConfig(
        **COMMON, rope_parameters=ROPE, clip_qkv=1.0, tie_word_embeddings=False, eos_token_id=2
    )
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, attention__clamp_kqv=1.0,
        rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.OlmoForCausalLM(config), names.OLMO, "olmo", metadata)


def falcon(n_head_kv: int, norms: dict[str, str], **more: bool) -> Case:
    config = hf.FalconConfig(
        vocab_size=N_VOCAB, hidden_size=N_EMBD, num_hidden_layers=N_LAYER,
        num_attention_heads=N_HEAD, num_kv_heads=n_head_kv, bos_token_id=1, eos_token_id=2,
        rope_parameters=ROPE, attn_implementation="eager", **more,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm", feed_forward_length=4 * N_EMBD, attention__head_count_kv=n_head_kv,
        tensor_data_layout="jploski", rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    parts = norms | {part: name for part, name in names.FALCON.parts.items() if "norm" not in part}
    own = replace(names.FALCON_GROUPS, parts=parts)
    return Case(hf.FalconForCausalLM(config), own, "falcon", metadata)


def falcon_one_key() -> Case:
    """Falcon 7B: both halves at once under one norm, one key and value for all heads."""
    return falcon(1, {"attn_norm": "input_layernorm"}, multi_query=True, parallel_attn=True)


def falcon_two_norms() -> Case:
    """Falcon 40B: grouped keys and values, a norm for each half."""
    norms = {"attn_norm_2": "ln_attn", "attn_norm": "ln_mlp"}
    return falcon(N_HEAD_KV, norms, new_decoder_architecture=True)


GLM_ROPE = ROPE | {"partial_rotary_factor": 0.5}


def glm_metadata() -> dict[str, Value]:
    return family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=4,
        rope__freq_base=ROPE_BASE,
    )  # fmt: skip


def glm_half_rotated() -> Case:
    """GLM as architecture chatglm: adjacent pairs of half of each head, gate and up fused."""
    config = hf.GlmConfig(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=GLM_ROPE, attention_bias=True,
        tie_word_embeddings=False, eos_token_id=2,
    )  # fmt: skip
    return Case(hf.GlmForCausalLM(config), names.GLM, "chatglm", glm_metadata())


def glm4_output_norms() -> Case:
    """GLM-4: the same, and what each half adds is normed, too."""
    config = hf.Glm4Config(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=GLM_ROPE, attention_bias=True,
        tie_word_embeddings=False, eos_token_id=2,
    )  # fmt: skip
    return Case(hf.Glm4ForCausalLM(config), names.GLM4, "glm4", glm_metadata())


def minicpm_scales() -> Case:
    """MiniCPM, whose scales are Granite's by other names (transformers' class is of that)."""
    config = hf.GraniteConfig(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, embedding_multiplier=12.0,
        attention_multiplier=8**-0.5, residual_multiplier=0.5, logits_scaling=4.0,
        tie_word_embeddings=False,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        embedding_scale=12.0, residual_scale=0.5, logit_scale=4.0,
    )  # fmt: skip
    return Case(hf.GraniteForCausalLM(config), names.LLAMA_ADJACENT, "minicpm", metadata)


def baichuan_alibi() -> Case:
    """Baichuan 13B, which its 40 layers tell: a Llama with ALiBi, which transformers' class gets as
    a mask."""
    n_layer, n_embd, n_head = 40, 8, 2
    config = hf.LlamaConfig(
        **COMMON | {
            "num_hidden_layers": n_layer, "hidden_size": n_embd, "intermediate_size": n_embd,
            "num_attention_heads": n_head, "num_key_value_heads": n_head,
        },
        rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip
    model = hf.LlamaForCausalLM(config)
    model.model.rotary_emb = Unrotated(n_embd // n_head)

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        n = tokens.shape[1]
        distance = torch.arange(n)[:, None] - torch.arange(n)
        slopes = 2.0 ** (-8 / n_head * torch.arange(1, n_head + 1))
        mask = -slopes[:, None, None] * distance
        mask = mask.masked_fill(distance < 0, -torch.inf)[None]
        return model(input_ids=tokens, attention_mask=mask).logits

    metadata = family_metadata(
        "layer_norm_rms", block_count=n_layer, embedding_length=n_embd,
        feed_forward_length=n_embd, attention__head_count=n_head, attention__head_count_kv=n_head,
        rope__dimension_count=n_embd // n_head, tensor_data_layout="Meta AI original pth",
    )  # fmt: skip
    return Case(model, names.LLAMA, "baichuan", metadata, forward)


def seed_biases() -> Case:
    """Seed-OSS: wide heads, biases of q, k and v, the MLP's norm by another name."""
    config = hf.SeedOssConfig(
        **COMMON, head_dim=16, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False,
        attention_bias=True, attention_out_bias=False,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=16,
        attention__value_length=16, rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    parts = {part: name for part, name in names.LLAMA.parts.items() if part != "ffn_norm"}
    parts |= {"post_attention_norm": names.LLAMA.parts["ffn_norm"]}
    return Case(
        hf.SeedOssForCausalLM(config), replace(names.LLAMA, parts=parts), "seed_oss", metadata
    )


def arcee_squares() -> Case:
    """Arcee: a Llama whose MLP is not gated: squared ReLU."""
    config = hf.ArceeConfig(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=8,
        rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.ArceeForCausalLM(config), names.ARCEE, "arcee", metadata)


def ernie_adjacent() -> Case:
    """ERNIE 4.5: a Llama whose class rotates adjacent pairs itself, with biases."""
    config = hf.Ernie4_5Config(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=ROPE, use_bias=True,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=8,
        attention__value_length=8, rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.Ernie4_5ForCausalLM(config), names.LLAMA, "ernie4_5", metadata)


def scan_metadata(n_state: int, rank: int, **more: Value) -> dict[str, Value]:
    """Of a model whose layers are scans of twice its width, as llama.cpp's converter writes it."""
    return family_metadata(
        "layer_norm_rms", feed_forward_length=0, attention__head_count=0, ssm__conv_kernel=4,
        ssm__inner_size=2 * N_EMBD, ssm__state_size=n_state, ssm__time_step_rank=rank, **more,
    )  # fmt: skip


SCAN_SPLITS = {
    "mixer.A_log": lambda values: {"ssm_a": -np.exp(values)},
    "mixer.D": lambda values: {"ssm_d": values},
}
SCANS = {
    **{"vocab_size": N_VOCAB, "hidden_size": N_EMBD, "num_hidden_layers": N_LAYER},
    **{"layer_norm_epsilon": 1e-5, "pad_token_id": 0},
}


def mamba_scans() -> Case:
    """Mamba: a selective scan a layer, no attention and no MLP, the head tied."""
    config = hf.MambaConfig(**SCANS, state_size=6, time_step_rank=3)
    metadata = scan_metadata(6, 3, ssm__dt_b_c_rms=False)
    return Case(hf.MambaForCausalLM(config), names.MAMBA, "mamba", metadata, splits=SCAN_SPLITS)


def falcon_mamba_norms() -> Case:
    """Falcon Mamba: what a token's step, b and c come from is normed, by no weights."""
    config = hf.FalconMambaConfig(
        **SCANS, state_size=6, time_step_rank=3, mixer_rms_eps=1e-3, tie_word_embeddings=False
    )
    metadata = scan_metadata(6, 3, ssm__dt_b_c_rms=True)
    metadata |= {"locus.ssm.norm_epsilon": 1e-3}
    model = hf.FalconMambaForCausalLM(config)
    return Case(model, names.MAMBA, "mamba", metadata, splits=SCAN_SPLITS)


def mamba2_heads() -> Case:
    """Mamba 2: a scan of heads in two groups, each more than a panel wide."""
    config = hf.Mamba2Config(
        **SCANS, state_size=6, num_heads=4, head_dim=24, expand=3, n_groups=2, chunk_size=8,
        tie_word_embeddings=True,
    )  # fmt: skip
    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=0, attention__head_count=0, ssm__conv_kernel=4,
        ssm__inner_size=96, ssm__state_size=6, ssm__time_step_rank=4, ssm__group_count=2,
    )  # fmt: skip
    splits = {
        "mixer.A_log": lambda values: {"ssm_a": -np.exp(values)[:, None]},
        "mixer.D": lambda values: {"ssm_d": values[:, None]},
        "mixer.dt_bias": lambda values: {"ssm_dt.bias": values},
        "mixer.norm.weight": lambda values: {"ssm_norm.weight": values.reshape(2, -1)},
    }
    own = names.MAMBA2.but(parts={"ssm_norm": None})
    return Case(hf.Mamba2ForCausalLM(config), own, "mamba2", metadata, splits=splits)


FAMILY_CASES: dict[str, Callable[[], Case]] = {
    "qwen2-biases": qwen2_biases,
    "qwen3-head-norms": qwen3_head_norms,
    "gemma-scaled": gemma_scaled,
    "olmo2-output-norms": olmo2_output_norms,
    "cohere-parallel": cohere_parallel,
    "granite-scales": granite_scales,
    "phi2-parallel": phi2_parallel,
    "phi3-fused": phi3_fused,
    "starcoder2-window": starcoder2_window,
    "starcoder-one-key": starcoder_one_key,
    "stablelm-head-norms": stablelm_head_norms,
    "nemotron-squares": nemotron_squares,
    "mpt-qk-norms": mpt_qk_norms,
    "phi3-longrope": phi3_longrope,
    "olmo-bare": olmo_bare,
    "falcon-one-key": falcon_one_key,
    "falcon-two-norms": falcon_two_norms,
    "glm-half-rotated": glm_half_rotated,
    "glm4-output-norms": glm4_output_norms,
    "minicpm-scales": minicpm_scales,
    "baichuan-alibi": baichuan_alibi,
    "seed-biases": seed_biases,
    "arcee-squares": arcee_squares,
    "ernie-adjacent": ernie_adjacent,
    "mamba-scans": mamba_scans,
    "falcon-mamba-norms": falcon_mamba_norms,
    "mamba2-heads": mamba2_heads,
}
