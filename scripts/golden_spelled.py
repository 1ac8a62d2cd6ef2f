"""Tiny random transformers models of families that llama.cpp's converter has no architecture for,
spelled out as architecture `locus`. See golden_models.py."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import transformers as hf

from golden_families import split_groups
from golden_models import (
    CONV1D,
    GPT2_PARTS,
    GPT2_WHOLE,
    N_CONTEXT,
    N_EMBD,
    N_FF,
    N_HEAD,
    N_LAYER,
    N_VOCAB,
    Case,
    Names,
    generic,
    split_heads,
)


def gpt1_postnorm() -> Case:
    """GPT-1: norms after the residual sums, none at the end."""
    config = hf.OpenAIGPTConfig(
        vocab_size=N_VOCAB, n_positions=N_CONTEXT, n_embd=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD,
    )  # fmt: skip
    whole = {
        "token_embd": "transformer.tokens_embed",
        "position_embd": "transformer.positions_embed",
    }
    names = Names(whole, "transformer.h.{}.", GPT2_PARTS, CONV1D)
    metadata = generic("learned", norm_position="post", feed_forward_length=4 * N_EMBD)
    return Case(hf.OpenAIGPTLMHeadModel(config), names, "locus", metadata)


def gptneo_local() -> Case:
    """GPT-Neo: every second layer sees 5 tokens only; scores are not scaled."""
    config = hf.GPTNeoConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, hidden_size=N_EMBD,
        num_layers=N_LAYER, num_heads=N_HEAD, intermediate_size=N_FF, window_size=5,
        attention_types=[[["global", "local"], N_LAYER // 2]], attn_implementation="eager",
    )  # fmt: skip
    parts = {
        "attn_norm": "ln_1",
        "attn_q": "attn.attention.q_proj",
        "attn_k": "attn.attention.k_proj",
        "attn_v": "attn.attention.v_proj",
        "attn_output": "attn.attention.out_proj",
        "ffn_norm": "ln_2",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj",
    }
    names = Names(GPT2_WHOLE, "transformer.h.{}.", parts)
    metadata = generic(
        "learned", attention__scale=1.0, attention__window=5, attention__window_every=2
    )
    return Case(hf.GPTNeoForCausalLM(config), names, "locus", metadata)


FAIRSEQ_PARTS = {
    "attn_norm": "self_attn_layer_norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.out_proj",
    "ffn_norm": "final_layer_norm",
    "ffn_up": "fc1",
    "ffn_down": "fc2",
}


def opt_relu() -> Case:
    """OPT: ReLU, and a table of positions whose first two rows are no positions."""
    config = hf.OPTConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, hidden_size=N_EMBD,
        word_embed_proj_dim=N_EMBD, num_hidden_layers=N_LAYER, num_attention_heads=N_HEAD,
        ffn_dim=N_FF, attn_implementation="eager",
    )  # fmt: skip
    whole = {
        "token_embd": "model.decoder.embed_tokens",
        "position_embd": "model.decoder.embed_positions",
        "output_norm": "model.decoder.final_layer_norm",
    }
    names = Names(whole, "model.decoder.layers.{}.", FAIRSEQ_PARTS)
    metadata = generic("learned:offset=2", activation="relu")
    return Case(hf.OPTForCausalLM(config), names, "locus", metadata)


def xglm_sinusoidal() -> Case:
    """XGLM: fairseq's sinusoids from offset 2, embeddings times sqrt(n_embd), erf GELU."""
    config = hf.XGLMConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, d_model=N_EMBD, num_layers=N_LAYER,
        attention_heads=N_HEAD, ffn_dim=N_FF, attn_implementation="eager",
    )  # fmt: skip
    whole = {"token_embd": "model.embed_tokens", "output_norm": "model.layer_norm"}
    metadata = generic(
        "sinusoidal:layout=concat,denominator=fairseq,offset=2",
        embedding_scale=math.sqrt(N_EMBD), activation="gelu_erf",
    )  # fmt: skip
    names = Names(whole, "model.layers.{}.", FAIRSEQ_PARTS)
    return Case(hf.XGLMForCausalLM(config), names, "locus", metadata)


GPTJ_WHOLE = {
    "token_embd": "transformer.wte",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
GPTJ_PARTS = {
    "attn_norm": "ln_1",
    "attn_q": "attn.q_proj",
    "attn_k": "attn.k_proj",
    "attn_v": "attn.v_proj",
    "attn_output": "attn.out_proj",
    "ffn_up": "mlp.fc_in",
    "ffn_down": "mlp.fc_out",
}


def gptj_parallel() -> Case:
    """GPT-J: as NeoX, but one norm for both, and the first 6 of 8 dimensions rotate in adjacent
    pairs. Its head's bias stays zero: the checkpoint has none."""
    config = hf.GPTJConfig(
        vocab_size=N_VOCAB, n_positions=N_CONTEXT, n_embd=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD,
        n_inner=N_FF, rotary_dim=6, tie_word_embeddings=False, attn_implementation="eager",
    )  # fmt: skip
    model = hf.GPTJForCausalLM(config)
    model.lm_head.bias = None
    metadata = generic("rope:pairs=adjacent,dim=6,base=10000", parallel_residual=True)
    return Case(model, Names(GPTJ_WHOLE, "transformer.h.{}.", GPTJ_PARTS), "locus", metadata)


def codegen_parallel() -> Case:
    """CodeGen: GPT-J whose q, v and k lie in one matrix, in four parts of each."""
    config = hf.CodeGenConfig(
        vocab_size=N_VOCAB, n_positions=N_CONTEXT, n_embd=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD,
        n_inner=N_FF, rotary_dim=6, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
        attn_implementation="eager",
    )  # fmt: skip
    model = hf.CodeGenForCausalLM(config)
    model.lm_head.bias = None

    def split(values: np.ndarray) -> dict[str, np.ndarray]:
        q, v, k = values.reshape(4, 3, -1, values.shape[1]).swapaxes(0, 1)
        parts = {"attn_q": q, "attn_k": k, "attn_v": v}
        return {f"{name}.weight": part.reshape(N_EMBD, -1) for name, part in parts.items()}

    parts = {part: name for part, name in GPTJ_PARTS.items() if not re.search("_[qkv]$", part)}
    names = Names(
        GPTJ_WHOLE, "transformer.h.{}.", parts, splits={"attn.qkv_proj.weight": split}
    )  # fmt: skip
    metadata = generic("rope:pairs=adjacent,dim=6,base=10000", parallel_residual=True)
    return Case(model, names, "locus", metadata)


def persimmon_squares() -> Case:
    """Persimmon: q and k normed a head, half of it rotated, squared ReLU, a fused qkv."""
    config = hf.PersimmonConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, hidden_size=N_EMBD,
        num_hidden_layers=N_LAYER, num_attention_heads=N_HEAD, intermediate_size=N_FF,
        layer_norm_eps=1e-5, attn_implementation="eager", tie_word_embeddings=False,
        rope_parameters={
            "rope_type": "default", "rope_theta": 25000.0, "partial_rotary_factor": 0.5,
        },
    )  # fmt: skip
    whole = {
        "token_embd": "model.embed_tokens",
        "output_norm": "model.final_layernorm",
        "output": "lm_head",
    }
    parts = {
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attn.query_key_value",
        "attn_q_norm": "self_attn.q_layernorm",
        "attn_k_norm": "self_attn.k_layernorm",
        "attn_output": "self_attn.dense",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.dense_h_to_4h",
        "ffn_down": "mlp.dense_4h_to_h",
    }
    names = Names(whole, "model.layers.{}.", parts, {"attn_qkv": split_heads(N_HEAD)})
    metadata = generic("rope:pairs=half,dim=4,base=25000", activation="relu_squared")
    return Case(hf.PersimmonForCausalLM(config), names, "locus", metadata)


def falcon_alibi() -> Case:
    """Falcon-RW: ALiBi added before the scores are scaled, biases, halves one after the other."""
    config = hf.FalconConfig(
        vocab_size=N_VOCAB, hidden_size=N_EMBD, num_hidden_layers=N_LAYER,
        num_attention_heads=N_HEAD, multi_query=False, parallel_attn=False, alibi=True, bias=True,
        bos_token_id=1, eos_token_id=2,
        attn_implementation="sdpa",  # eager adds the bias twice
    )  # fmt: skip
    whole = {"token_embd": "transformer.word_embeddings", "output_norm": "transformer.ln_f"}
    parts = {
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attention.query_key_value",
        "attn_output": "self_attention.dense",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.dense_h_to_4h",
        "ffn_down": "mlp.dense_4h_to_h",
    }
    names = Names(whole, "transformer.h.{}.", parts, {"attn_qkv": split_groups(N_HEAD, N_HEAD)})
    metadata = generic(
        "alibi:scaled=1", activation="gelu_erf",
        feed_forward_length=4 * N_EMBD,
    )  # fmt: skip
    return Case(hf.FalconForCausalLM(config), names, "locus", metadata)


SPELLED_CASES: dict[str, Callable[[], Case]] = {
    "gpt1-postnorm": gpt1_postnorm,
    "gptneo-local": gptneo_local,
    "opt-relu": opt_relu,
    "xglm-sinusoidal": xglm_sinusoidal,
    "gptj-parallel": gptj_parallel,
    "codegen-parallel": codegen_parallel,
    "persimmon-squares": persimmon_squares,
    "falcon-alibi": falcon_alibi,
}
