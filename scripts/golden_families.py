"""Tiny random transformers models of the families that a checkpoint has by its own architecture,
with the keys and tensor names of llama.cpp's converter. See golden_models.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers as hf
from torch import nn

from checkpoint import Value
from golden_models import (
    GPT2_PARTS,
    GPT2_WHOLE,
    LLAMA_PARTS,
    LLAMA_WHOLE,
    N_CONTEXT,
    N_EMBD,
    N_FF,
    N_HEAD,
    N_HEAD_KV,
    N_LAYER,
    N_VOCAB,
    ROPE_BASE,
    Case,
    Names,
    adjacent_pairs,
    plus_one,
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
TIED_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
LAYERS = "model.layers.{}."


def qwen2_biases() -> Case:
    """Qwen2: q, k and v have biases."""
    config = hf.Qwen2Config(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False
    )
    names = Names(LLAMA_WHOLE, LAYERS, LLAMA_PARTS)
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE
    )
    return Case(hf.Qwen2ForCausalLM(config), names, "qwen2", metadata)


def qwen3_head_norms() -> Case:
    """Qwen3: q and k are normed a head; heads are wider than n_embd / n_head."""
    config = hf.Qwen3Config(
        **COMMON, head_dim=16, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False
    )
    parts = LLAMA_PARTS | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=16,
        attention__value_length=16, rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.Qwen3ForCausalLM(config), Names(LLAMA_WHOLE, LAYERS, parts), "qwen3", metadata)


def gemma_scaled() -> Case:
    """Gemma: embeddings times sqrt(n_embd), norms of 1 + weight."""
    config = hf.GemmaConfig(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=ROPE,
        hidden_activation="gelu_pytorch_tanh",
    )  # fmt: skip
    transforms = dict.fromkeys(("attn_norm", "ffn_norm", "output_norm"), plus_one)
    names = Names(TIED_WHOLE, LAYERS, LLAMA_PARTS, transforms)
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=8,
        attention__value_length=8, rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.GemmaForCausalLM(config), names, "gemma", metadata)


def gemma2_capped() -> Case:
    """Gemma 2: norms before and after each half, soft caps, a window in every second layer."""
    config = hf.Gemma2Config(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=ROPE, query_pre_attn_scalar=8,
        sliding_window=5, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
        hidden_activation="gelu_pytorch_tanh",
    )  # fmt: skip
    parts = LLAMA_PARTS | {
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    }
    normed = ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "output_norm")
    names = Names(TIED_WHOLE, LAYERS, parts, dict.fromkeys(normed, plus_one))
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, attention__key_length=8,
        attention__value_length=8, rope__freq_base=ROPE_BASE, attention__sliding_window=5,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
    )  # fmt: skip
    return Case(hf.Gemma2ForCausalLM(config), names, "gemma2", metadata)


def olmo2_output_norms() -> Case:
    """OLMo 2: only what a half adds is normed, and q and k over all heads at once."""
    config = hf.Olmo2Config(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, tie_word_embeddings=False
    )
    parts = {part: name for part, name in LLAMA_PARTS.items() if "norm" not in part} | {
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    }
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE
    )
    return Case(hf.Olmo2ForCausalLM(config), Names(LLAMA_WHOLE, LAYERS, parts), "olmo2", metadata)


def cohere_parallel() -> Case:
    """Command R: both halves at once under one norm without bias, logits scaled."""
    config = hf.CohereConfig(
        **COMMON, layer_norm_eps=1e-5, rope_parameters=ROPE, logit_scale=0.25, use_qk_norm=False
    )
    parts = {part: name for part, name in LLAMA_PARTS.items() if part != "ffn_norm"}
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        logit_scale=0.25,
    )  # fmt: skip
    model = hf.CohereForCausalLM(config)
    return Case(model, Names(TIED_WHOLE, LAYERS, parts), "command-r", metadata)


def granite_scales() -> Case:
    """Granite: embeddings, scores, residuals and logits scaled; q and k permuted as Llama's."""
    config = hf.GraniteConfig(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, embedding_multiplier=3.0,
        attention_multiplier=0.25, residual_multiplier=0.5, logits_scaling=4.0,
        tie_word_embeddings=False,
    )  # fmt: skip
    permuted = {"attn_q": adjacent_pairs(N_HEAD), "attn_k": adjacent_pairs(N_HEAD_KV)}
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        embedding_scale=3.0, attention__scale=0.25, residual_scale=0.5, logit_scale=4.0,
    )  # fmt: skip
    names = Names(LLAMA_WHOLE, LAYERS, LLAMA_PARTS, permuted)
    return Case(hf.GraniteForCausalLM(config), names, "granite", metadata)


def phi2_parallel() -> Case:
    """Phi-2: both halves at once under one norm, half of each head rotated, biases everywhere."""
    config = hf.PhiConfig(
        **COMMON | {"num_key_value_heads": N_HEAD}, layer_norm_eps=1e-5,
        rope_parameters=ROPE | {"partial_rotary_factor": 0.5}, tie_word_embeddings=False,
    )  # fmt: skip
    parts = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.dense",
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    }
    whole = LLAMA_WHOLE | {"output_norm": "model.final_layernorm"}
    metadata = family_metadata("layer_norm", rope__dimension_count=4, rope__freq_base=ROPE_BASE)
    return Case(hf.PhiForCausalLM(config), Names(whole, LAYERS, parts), "phi2", metadata)


def phi3_fused() -> Case:
    """Phi-3: q, k and v in one matrix, gate and up in another, a window in every layer."""
    config = hf.Phi3Config(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, sliding_window=6,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    parts = {
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attn.qkv_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.gate_up_proj",
        "ffn_down": "mlp.down_proj",
    }
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=8,
        rope__freq_base=ROPE_BASE, attention__sliding_window=6,
    )  # fmt: skip
    return Case(hf.Phi3ForCausalLM(config), Names(LLAMA_WHOLE, LAYERS, parts), "phi3", metadata)


def starcoder2_window() -> Case:
    """StarCoder 2: LayerNorm, biases, grouped keys and values, a window in every layer."""
    config = hf.Starcoder2Config(
        **COMMON, norm_epsilon=1e-5, rope_parameters=ROPE, use_bias=True, sliding_window=6
    )
    parts = {part: name for part, name in LLAMA_PARTS.items() if part != "ffn_gate"}
    parts |= {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        attention__sliding_window=6,
    )  # fmt: skip
    model = hf.Starcoder2ForCausalLM(config)
    return Case(model, Names(TIED_WHOLE, LAYERS, parts), "starcoder2", metadata)


def starcoder_one_key() -> Case:
    """StarCoder: GPT-2 with one key and value for all heads."""
    config = hf.GPTBigCodeConfig(
        vocab_size=N_VOCAB, n_positions=N_CONTEXT, n_embd=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD,
        n_inner=N_FF, multi_query=True, attn_implementation="eager",
    )  # fmt: skip
    metadata = family_metadata("layer_norm", attention__head_count_kv=1)
    names = Names(GPT2_WHOLE, "transformer.h.{}.", GPT2_PARTS)
    return Case(hf.GPTBigCodeForCausalLM(config), names, "starcoder", metadata)


def stablelm_head_norms() -> Case:
    """StableLM 2: LayerNorms of q and k with weights of each head's own, both halves at once."""
    config = hf.StableLmConfig(
        **COMMON, layer_norm_eps=1e-5, rope_parameters=ROPE | {"partial_rotary_factor": 0.25},
        qk_layernorm=True, use_parallel_residual=True, tie_word_embeddings=False,
    )  # fmt: skip
    parts = {part: name for part, name in LLAMA_PARTS.items() if part != "ffn_norm"}
    stacked = {
        "attn_q_norm": "self_attn.q_layernorm.norms.{}",
        "attn_k_norm": "self_attn.k_layernorm.norms.{}",
    }
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=2,
        rope__freq_base=ROPE_BASE, use_parallel_residual=True,
    )  # fmt: skip
    names = Names(LLAMA_WHOLE, LAYERS, parts, stacked=stacked)
    return Case(hf.StableLmForCausalLM(config), names, "stablelm", metadata)


def nemotron_squares() -> Case:
    """Nemotron: squared ReLU, LayerNorms of 1 + weight, half of each head rotated."""
    config = hf.NemotronConfig(
        **COMMON, norm_eps=1e-5, rope_parameters=ROPE | {"partial_rotary_factor": 0.5},
        hidden_act="relu2", tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    parts = {part: name for part, name in LLAMA_PARTS.items() if part != "ffn_gate"}
    names = Names(
        LLAMA_WHOLE,
        LAYERS,
        parts,
        dict.fromkeys(("attn_norm", "ffn_norm", "output_norm"), plus_one),
    )
    metadata = family_metadata(
        "layer_norm", attention__head_count_kv=N_HEAD_KV, rope__dimension_count=4,
        rope__freq_base=ROPE_BASE,
    )  # fmt: skip
    return Case(hf.NemotronForCausalLM(config), names, "nemotron", metadata)


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
    whole = {"token_embd": "transformer.wte", "output_norm": "transformer.norm_f"}
    parts = {
        "attn_norm": "norm_1",
        "attn_qkv": "attn.Wqkv.linear",
        "attn_q_norm": "attn.Wqkv.q_ln",
        "attn_k_norm": "attn.Wqkv.k_ln",
        "attn_output": "attn.out_proj",
        "ffn_norm": "norm_2",
        "ffn_up": "ffn.up_proj",
        "ffn_down": "ffn.down_proj",
    }
    metadata = family_metadata(
        "layer_norm", feed_forward_length=4 * N_EMBD, attention__max_alibi_bias=8.0,
        attention__clamp_kqv=1.0,
    )  # fmt: skip
    return Case(model, Names(whole, "transformer.blocks.{}.", parts), "mpt", metadata)


ATTENTION_PARTS = {part: LLAMA_PARTS[part] for part in list(LLAMA_PARTS)[:6]}
SPARSE_PARTS = ATTENTION_PARTS | {"ffn_gate_inp": "mlp.gate"}
N_EXPERT = 4


def mixtral_experts() -> Case:
    """Mixtral as architecture llama: 2 of 4 experts a token, whose shares add up to 1."""
    config = hf.MixtralConfig(
        **COMMON | {"intermediate_size": 40}, rms_norm_eps=1e-5, rope_parameters=ROPE,
        num_local_experts=N_EXPERT,
        num_experts_per_tok=2, sliding_window=None, tie_word_embeddings=False,
        experts_implementation="eager",
    )  # fmt: skip
    permuted = {"attn_q": adjacent_pairs(N_HEAD), "attn_k": adjacent_pairs(N_HEAD_KV)}
    metadata = family_metadata(
        "layer_norm_rms", feed_forward_length=40, attention__head_count_kv=N_HEAD_KV,
        rope__freq_base=ROPE_BASE, expert_count=N_EXPERT, expert_used_count=2,
    )  # fmt: skip
    names = Names(LLAMA_WHOLE, LAYERS, SPARSE_PARTS, permuted, experts="mlp.experts")
    return Case(hf.MixtralForCausalLM(config), names, "llama", metadata)


def qwen2_experts() -> Case:
    """Qwen2-MoE: experts whose shares don't add up to 1, and one that all tokens take in part."""
    config = hf.Qwen2MoeConfig(
        **COMMON, rms_norm_eps=1e-5, rope_parameters=ROPE, num_experts=N_EXPERT,
        num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=40,
        norm_topk_prob=False, tie_word_embeddings=False, experts_implementation="eager",
    )  # fmt: skip
    parts = SPARSE_PARTS | {
        "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
        "ffn_up_shexp": "mlp.shared_expert.up_proj",
        "ffn_down_shexp": "mlp.shared_expert.down_proj",
        "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    }
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        expert_count=N_EXPERT, expert_used_count=2, expert_feed_forward_length=32,
        expert_shared_feed_forward_length=40,
    )  # fmt: skip
    names = Names(LLAMA_WHOLE, LAYERS, parts, experts="mlp.experts")
    return Case(hf.Qwen2MoeForCausalLM(config), names, "qwen2moe", metadata)


def qwen3_experts() -> Case:
    """Qwen3-MoE: q and k normed a head, a dense layer first, then 3 of 4 experts a token, whose
    shares add up to 1."""
    config = hf.Qwen3MoeConfig(
        **COMMON, head_dim=8, rms_norm_eps=1e-5, rope_parameters=ROPE, num_experts=N_EXPERT,
        num_experts_per_tok=3, moe_intermediate_size=40, norm_topk_prob=True, mlp_only_layers=[0],
        tie_word_embeddings=False, experts_implementation="eager",
    )  # fmt: skip
    parts = LLAMA_PARTS | SPARSE_PARTS
    parts |= {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
    metadata = family_metadata(
        "layer_norm_rms", attention__head_count_kv=N_HEAD_KV, rope__freq_base=ROPE_BASE,
        attention__key_length=8, attention__value_length=8, expert_count=N_EXPERT,
        expert_used_count=3, expert_feed_forward_length=40, leading_dense_block_count=1,
    )  # fmt: skip
    names = Names(LLAMA_WHOLE, LAYERS, parts, experts="mlp.experts")
    return Case(hf.Qwen3MoeForCausalLM(config), names, "qwen3moe", metadata)


FAMILY_CASES: dict[str, Callable[[], Case]] = {
    "qwen2-biases": qwen2_biases,
    "qwen3-head-norms": qwen3_head_norms,
    "gemma-scaled": gemma_scaled,
    "gemma2-capped": gemma2_capped,
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
    "mixtral-experts": mixtral_experts,
    "qwen2-experts": qwen2_experts,
    "qwen3-experts": qwen3_experts,
}
