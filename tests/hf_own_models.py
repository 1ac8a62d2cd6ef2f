"""Tiny random models of families whose code lies in their folders: a class of transformers that
computes the same, saved with the names, the shapes and the configuration of that code, by a row a
variant. Used by hf_cases.py."""

from __future__ import annotations

from typing import Any

import torch

from hf_models import (
    N_CONTEXT,
    N_EMBD,
    N_FF,
    N_HEAD,
    N_HEAD_KV,
    N_LAYER,
    N_VOCAB,
    Variant,
    llama,
    rope,
)

State = dict[str, torch.Tensor]
Config = dict[str, Any]
BASE = 5000.0
SHAPE = {
    "vocab_size": N_VOCAB, "hidden_size": N_EMBD, "num_hidden_layers": N_LAYER,
    "num_attention_heads": N_HEAD, "intermediate_size": N_FF, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "initializer_range": 0.02, "use_cache": True, "torch_dtype": "float32",
    "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0,
    "transformers_version": "4.38.0",
}  # fmt: skip


def config_of(model_type: str, name: str, **more: Any) -> Config:
    code = {
        "AutoConfig": f"configuration_{model_type}.{name}Config",
        "AutoModelForCausalLM": f"modeling_{model_type}.{name}ForCausalLM",
    }
    head = {"model_type": model_type, "architectures": [f"{name}ForCausalLM"], "auto_map": code}
    return {**head, **SHAPE, **more}


def renamed(state: State, names: dict[str, str]) -> State:
    """Names' parts replaced one after another."""
    found = {}
    for name, values in state.items():
        for old, new in names.items():
            name = name.replace(old, new)
        found[name] = values
    return found


def fused(state: State, into: str, arrange: Any) -> State:
    """q_proj, k_proj and v_proj of each layer as one matrix, of that name beside theirs."""
    found = dict(state)
    for name in state:
        if ".q_proj." in name:
            parts = [found.pop(name.replace("q_proj", f"{x}_proj")) for x in "qkv"]
            found[name.replace("q_proj", into)] = arrange(*parts)
    return found


def in_groups(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A group's queries, its key and its value, group after group."""
    q, k, v = (x.reshape(N_HEAD_KV, -1, *x.shape[1:]) for x in (q, k, v))
    return torch.cat((q, k, v), dim=1).flatten(0, 1)


def internlm2(state: State, **more: Any) -> tuple[Config, State]:
    names = {
        "embed_tokens": "tok_embeddings", "lm_head": "output", "self_attn": "attention",
        "o_proj": "wo", "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "feed_forward.w1",
        "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2",
    }  # fmt: skip
    config = config_of(
        "internlm2", "InternLM2", num_key_value_heads=N_HEAD_KV, rope_theta=BASE,
        max_position_embeddings=N_CONTEXT, attn_implementation="eager", **more,
    )  # fmt: skip
    return config, renamed(fused(state, "wqkv", in_groups), names)


OWN_CODE: dict[str, Variant] = {
    "internlm2": Variant(
        "Llama", llama(**rope("dynamic", factor=2.0)), "internlm2",
        own=lambda state: internlm2(
            state, bias=False, rope_scaling={"type": "dynamic", "factor": 2.0}
        ),
    ),
    "internlm2 biases": Variant(
        "Llama", llama(attention_bias=True), "internlm2",
        own=lambda state: internlm2(state, bias=True, rope_scaling=None),
    ),
}  # fmt: skip
