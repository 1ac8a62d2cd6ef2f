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


def stacked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.cat((q, k, v))


def baichuan(state: State, **more: Any) -> tuple[Config, State]:
    return config_of("baichuan", "Baichuan", **more), fused(state, "W_pack", stacked)


def norm_head(model: Any) -> None:
    """The class's head norms its rows before it multiplies with them."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        weight = model.lm_head.weight
        return x @ (weight / weight.norm(dim=1, keepdim=True)).T

    model.lm_head.forward = forward


class Unrotated(torch.nn.Module):
    """In place of a class's rotary embedding: no rotation."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple:
        angles = torch.zeros(*position_ids.shape, self.head_dim, dtype=x.dtype)
        return angles.cos(), angles.sin()


def add_alibi(model: Any) -> None:
    """A Llama whose mask has the slopes times the distances, and that doesn't rotate."""
    n_head = model.config.num_attention_heads
    model.model.rotary_emb = Unrotated(model.config.head_dim)
    slopes = 2.0 ** (-8 / n_head * torch.arange(1, n_head + 1, dtype=torch.float64))

    def biased(attention: Any) -> Any:
        usual = attention.forward

        def forward(hidden_states: torch.Tensor, attention_mask: torch.Tensor, **more: Any) -> Any:
            n_queries, n_keys = attention_mask.shape[-2:]
            at = torch.arange(n_keys - n_queries, n_keys)
            distance = at[:, None] - torch.arange(n_keys)
            bias = -slopes[:, None, None] * distance
            return usual(hidden_states, attention_mask=attention_mask + bias, **more)

        return forward

    for layer in model.model.layers:
        layer.self_attn.forward = biased(layer.self_attn)


def alibi_and_norm_head(model: Any) -> None:
    add_alibi(model)
    norm_head(model)


SHORT, LONG = [1.0, 1.1, 1.3, 1.7], [1.0, 2.0, 3.5, 6.0]


def longrope(trained: int, short: list[float]) -> Config:
    return {
        "original_max_position_embeddings": trained, "short_factor": short, "long_factor": LONG,
    }  # fmt: skip


def granite(**more: Any) -> Config:
    """MiniCPM's scales, as Granite has them."""
    return llama(
        embedding_multiplier=3.0, attention_multiplier=(N_EMBD // N_HEAD) ** -0.5,
        residual_multiplier=1.4 / N_LAYER**0.5, logits_scaling=4.0, tie_word_embeddings=True,
        **more,
    )  # fmt: skip


def minicpm(state: State, **more: Any) -> tuple[Config, State]:
    tied = {name: values for name, values in state.items() if name != "lm_head.weight"}
    config = config_of(
        "minicpm", "MiniCPM", num_key_value_heads=N_HEAD_KV, scale_emb=3, scale_depth=1.4,
        dim_model_base=N_EMBD // 4, max_position_embeddings=N_CONTEXT, **more,
    )  # fmt: skip
    del config["tie_word_embeddings"]
    return config, tied


class Open(torch.nn.Module):
    """A gate that lets everything through: a sigmoid of 50 is 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x[..., :1], 50)


def open_gates(model: Any) -> None:
    for layer in model.model.layers:
        if hasattr(layer.mlp, "shared_expert_gate"):
            layer.mlp.shared_expert_gate = Open()


def close_shared(model: Any) -> None:
    """No shared expert."""
    open_gates(model)
    for layer in model.model.layers:
        if hasattr(layer.mlp, "shared_expert"):
            layer.mlp.shared_expert.forward = torch.zeros_like


def deepseek(state: State, **more: Any) -> tuple[Config, State]:
    """transformers has all experts in one tensor, and gate and up, too."""
    found = {}
    for name, values in renamed(state, {"shared_expert.": "shared_experts."}).items():
        if ".experts." not in name:
            found[name] = values
            continue
        stem, _, last = name.rpartition(".")
        for i, expert in enumerate(values):
            parts = {last: expert}
            if last == "gate_up_proj":
                parts = dict(zip(("gate_proj", "up_proj"), expert.chunk(2), strict=True))
            found |= {f"{stem}.{i}.{part}.weight": rows for part, rows in parts.items()}
    config = config_of(
        "deepseek", "Deepseek", num_key_value_heads=N_HEAD_KV, rope_theta=BASE,
        max_position_embeddings=N_CONTEXT, n_routed_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=24, aux_loss_alpha=0.001, seq_aux=True, scoring_func="softmax",
        moe_layer_freq=1, rope_scaling=None, **more,
    )  # fmt: skip
    return config, found


def moe(**more: Any) -> Config:
    return llama(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, qkv_bias=False,
        shared_expert_intermediate_size=48, experts_implementation="eager", **more,
    )  # fmt: skip


def chatglm(state: State, **more: Any) -> tuple[Config, State]:
    names = {
        "model.embed_tokens": "transformer.embedding.word_embeddings",
        "model.layers": "transformer.encoder.layers",
        "model.norm": "transformer.encoder.final_layernorm",
        "lm_head": "transformer.output_layer", "self_attn.o_proj": "self_attention.dense",
        "self_attn": "self_attention", "mlp.gate_up_proj": "mlp.dense_h_to_4h",
        "mlp.down_proj": "mlp.dense_4h_to_h",
    }  # fmt: skip
    found = renamed(fused(state, "query_key_value", stacked), names)
    found["transformer.rotary_pos_emb.inv_freq"] = torch.ones(2)
    config = {
        "model_type": "chatglm", "architectures": ["ChatGLMModel"], "add_bias_linear": False,
        "auto_map": {"AutoModel": "modeling_chatglm.ChatGLMForConditionalGeneration"},
        "add_qkv_bias": True, "apply_query_key_layer_scaling": True,
        "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
        "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "ffn_hidden_size": N_FF,
        "fp32_residual_connection": False, "hidden_dropout": 0.0, "hidden_size": N_EMBD,
        "kv_channels": N_EMBD // N_HEAD, "layernorm_epsilon": 1e-5, "multi_query_attention": True,
        "multi_query_group_num": N_HEAD_KV, "num_attention_heads": N_HEAD, "num_layers": N_LAYER,
        "original_rope": True, "padded_vocab_size": N_VOCAB, "post_layer_norm": True,
        "rmsnorm": True, "seq_length": N_CONTEXT, "tie_word_embeddings": False,
        "torch_dtype": "float16", "use_cache": True, "eos_token_id": [0], "pad_token_id": 0,
        **more,
    }  # fmt: skip
    return config, found


def glm(base: float) -> Config:
    half = rope(rope_theta=base, partial_rotary_factor=0.5)
    return llama(head_dim=N_EMBD // N_HEAD, attention_bias=True, **half)


WIDE = {"num_key_value_heads": N_HEAD, **rope(rope_theta=10000.0)}
DEEP = {"num_hidden_layers": 40, "hidden_size": 16, "intermediate_size": 16}
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
    "baichuan": Variant(
        "Llama", llama(vocab_size=64000, **WIDE), "baichuan", is_shared=False,  # slow; see below
        own=lambda state: baichuan(
            state, vocab_size=64000, max_position_embeddings=N_CONTEXT
        ),
    ),
    "baichuan 2": Variant(
        "Llama", llama(**WIDE), "baichuan", patch=norm_head, spread=2,
        own=lambda state: baichuan(
            state, max_position_embeddings=N_CONTEXT, model_max_length=N_CONTEXT, z_loss_weight=0
        ),
    ),
    "baichuan 2 alibi": Variant(
        "Llama", llama(**WIDE | DEEP), "baichuan", patch=alibi_and_norm_head,
        own=lambda state: baichuan(
            state, model_max_length=N_CONTEXT, z_loss_weight=0, **DEEP
        ),
    ),
    "minicpm": Variant(
        "Granite", granite(), "minicpm", own=lambda state: minicpm(state, rope_theta=BASE)
    ),
    "minicpm longrope": Variant(
        "Granite", granite(**rope("longrope", rope_theta=1e4, **longrope(N_CONTEXT, SHORT))),
        "minicpm", prompt=10,
        own=lambda state: minicpm(
            state, rope_scaling={"type": "longrope", **longrope(N_CONTEXT, SHORT)}
        ),
    ),
    "minicpm longer factors alone": Variant(
        "Granite", granite(**rope("longrope", rope_theta=1e4, **longrope(32, LONG))),
        "minicpm",
        own=lambda state: minicpm(
            state, rope_scaling={"rope_type": "longrope", **longrope(32, SHORT)}
        ),
    ),
    "deepseek": Variant(
        "Qwen2Moe", moe(mlp_only_layers=[0], norm_topk_prob=False), "deepseek",
        patch=open_gates,
        own=lambda state: deepseek(
            state, first_k_dense_replace=1, n_shared_experts=2, norm_topk_prob=False
        ),
    ),
    "deepseek normed, unshared": Variant(
        "Qwen2Moe", moe(norm_topk_prob=True), "deepseek", patch=close_shared,
        own=lambda state: deepseek(
            {name: values for name, values in state.items() if "shared_expert" not in name},
            first_k_dense_replace=0, n_shared_experts=None, norm_topk_prob=True,
        ),
    ),
    "chatglm": Variant("Glm", glm(1e4), "chatglm", own=chatglm),
    "chatglm rope_ratio": Variant(
        "Glm", glm(5e5), "chatglm",
        own=lambda state: chatglm(state, rope_ratio=50, num_hidden_layers=N_LAYER),
    ),
}  # fmt: skip
