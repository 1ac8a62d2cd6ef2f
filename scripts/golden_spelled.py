"""Tiny random transformers models of families that llama.cpp's converter has no architecture for,
spelled out as architecture `locus`. See golden_models.py."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import transformers as hf

import hf_names as names
from golden_models import N_CONTEXT, N_EMBD, N_FF, N_HEAD, N_LAYER, N_VOCAB, Case, generic


def gpt1_postnorm() -> Case:
    """GPT-1: norms after the residual sums, none at the end."""
    config = hf.OpenAIGPTConfig(
        vocab_size=N_VOCAB, n_positions=N_CONTEXT, n_embd=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD,
    )  # fmt: skip
    metadata = generic("learned", norm_position="post", feed_forward_length=4 * N_EMBD)
    return Case(hf.OpenAIGPTLMHeadModel(config), names.GPT1, "locus", metadata)


def gptneo_local() -> Case:
    """GPT-Neo: every second layer sees 5 tokens only; scores are not scaled."""
    config = hf.GPTNeoConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, hidden_size=N_EMBD,
        num_layers=N_LAYER, num_heads=N_HEAD, intermediate_size=N_FF, window_size=5,
        attention_types=[[["global", "local"], N_LAYER // 2]], attn_implementation="eager",
    )  # fmt: skip
    metadata = generic(
        "learned", attention__scale=1.0, attention__window=5, attention__window_every=2
    )
    return Case(hf.GPTNeoForCausalLM(config), names.GPT_NEO, "locus", metadata)


def opt_relu() -> Case:
    """OPT: ReLU, and a table of positions whose first two rows are no positions."""
    config = hf.OPTConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, hidden_size=N_EMBD,
        word_embed_proj_dim=N_EMBD, num_hidden_layers=N_LAYER, num_attention_heads=N_HEAD,
        ffn_dim=N_FF, attn_implementation="eager",
    )  # fmt: skip
    metadata = generic("learned:offset=2", activation="relu")
    return Case(hf.OPTForCausalLM(config), names.OPT, "locus", metadata)


def xglm_sinusoidal() -> Case:
    """XGLM: fairseq's sinusoids from offset 2, embeddings times sqrt(n_embd), erf GELU."""
    config = hf.XGLMConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, d_model=N_EMBD, num_layers=N_LAYER,
        attention_heads=N_HEAD, ffn_dim=N_FF, attn_implementation="eager",
    )  # fmt: skip
    metadata = generic(
        "sinusoidal:layout=concat,denominator=fairseq,offset=2",
        embedding_scale=math.sqrt(N_EMBD), activation="gelu_erf",
    )  # fmt: skip
    return Case(hf.XGLMForCausalLM(config), names.XGLM, "locus", metadata)


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
    return Case(model, names.GPTJ, "locus", metadata)


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

    metadata = generic("rope:pairs=adjacent,dim=6,base=10000", parallel_residual=True)
    own = names.GPTJ.but(parts=dict.fromkeys(("attn_q", "attn_k", "attn_v")))
    return Case(model, own, "locus", metadata, splits={"attn.qkv_proj.weight": split})


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
    metadata = generic("rope:pairs=half,dim=4,base=25000", activation="relu_squared")
    return Case(hf.PersimmonForCausalLM(config), names.PERSIMMON, "locus", metadata)


def falcon_alibi() -> Case:
    """Falcon-RW: ALiBi added before the scores are scaled, biases, halves one after the other."""
    config = hf.FalconConfig(
        vocab_size=N_VOCAB, hidden_size=N_EMBD, num_hidden_layers=N_LAYER,
        num_attention_heads=N_HEAD, multi_query=False, parallel_attn=False, alibi=True, bias=True,
        bos_token_id=1, eos_token_id=2,
        attn_implementation="sdpa",  # eager adds the bias twice
    )  # fmt: skip
    metadata = generic(
        "alibi:scaled=1", activation="gelu_erf",
        feed_forward_length=4 * N_EMBD,
    )  # fmt: skip
    return Case(hf.FalconForCausalLM(config), names.FALCON, "locus", metadata)


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
