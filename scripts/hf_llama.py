"""Configurations of Llama and its kin: see hf_families.py."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import hf_names as names
from hf_decoder import Decoder, Experts, Rope
from hf_folder import Config, say, shown
from hf_reading import (
    ACTIVATIONS,
    Fields,
    activation,
    grouped,
    layer_windows,
    layernorm,
    local_layers,
    or_none,
    rmsnorm,
    tied,
    window_of,
)
from hf_rope import read_rope
from output import Failure

# ---- Llama and its kin ---------------------------------------------------------------------


def llama_fields(
    c: Config,
    pairs: str = "half",
    base: float = 10000.0,
    smallest: float = 1e-6,
    head_dim: int | None = None,
    act: str = "silu",
    share: float | None = None,
) -> Fields:
    """`base`, `smallest` (of norms), `head_dim`, `act` and `share` (of a head that rotates; None:
    read_rope's) are the values of absent keys."""
    shape = grouped(c, head_dim)
    c.refuse("use_logn_attn", "queries that grow with the position are not what transformers does")
    return {
        **shape,
        **rmsnorm(c, smallest),
        "activation": activation(c, "hidden_act", act),
        "gated": True,
        "position": read_rope(c, shape, pairs, default=base, share=share),
        "tied": tied(c, False),
    }


def llama(c: Config) -> Decoder:
    c.refuse("rope_interleaved", "rotation of adjacent pairs isn't what transformers does")
    fields = llama_fields(c, "adjacent")
    return Decoder(architecture="llama", names=names.LLAMA_ADJACENT, **fields)


def mistral(c: Config) -> Decoder:
    fields = llama_fields(c, "adjacent") | window_of(c, 4096)
    return Decoder(architecture="llama", names=names.LLAMA_ADJACENT, **fields)


def mixtral(c: Config) -> Decoder:
    fields = llama_fields(c, "adjacent", smallest=1e-5) | window_of(c)
    experts = Experts(
        n=c.count("num_local_experts", 8),
        n_used=c.count("num_experts_per_tok", 2),
        n_ff=fields["n_ff"],
        normed=True,
    )
    return Decoder(architecture="llama", names=names.MIXTRAL, **fields, experts=experts)


def smollm3(c: Config) -> Decoder:
    fields = llama_fields(c, "adjacent", 2000000.0)
    n_layer, every = fields["n_layer"], c.count("no_rope_layer_interval", 4)
    rotates = c.flags("no_rope_layers", n_layer, {1: True, 0: False})
    if rotates is None:
        rotates = [(i + 1) % every != 0 for i in range(n_layer)]
    layers = tuple(i for i in range(n_layer) if rotates[i])
    fields["position"] = fields["position"].only(layers)
    fields |= layer_windows(c, [not rotating for rotating in rotates], 0)
    c.has("max_window_layers")
    return Decoder(architecture="smollm3", names=names.LLAMA_ADJACENT, **fields)


def tell_chunks(c: Config) -> None:
    """Qwen2.5-1M's dual chunk attention, which transformers passes over, is a choice of the run."""
    chunks = c.section("dual_chunk_attention_config")
    if not chunks.values:
        return
    size, local = chunks.count("chunk_size"), chunks.count("local_size")
    chunks.count("original_max_position_embeddings", size)
    chunks.refuse("sparse_attention_enabled", "sparse attention is not read")
    chunks.refuse_unknown(re.compile("(?!)"))
    if 2 * local > size:
        raise Failure(f"{chunks.path}: local_size is {local}, expected at most half of {size}")
    say(
        f"for texts longer than chunk_size, {size}, dual_chunk_attention_config means -A "
        f"dual-chunk:chunk={size - local},window={local}; a file has no place for it"
    )


def qwen_windows(c: Config, n_layer: int, is_moe: bool = False) -> Fields:
    """Windows from max_window_layers on; in a mixture, in every other layer before it."""
    first = c.get("max_window_layers", int, 28)
    c.refuse("use_mrope", "positions of several axes are not read")
    tell_chunks(c)
    return layer_windows(
        c, [i < first and i % 2 == 0 if is_moe else i >= first for i in range(n_layer)]
    )


def qwen2(c: Config) -> Decoder:
    fields = llama_fields(c)
    fields |= qwen_windows(c, fields["n_layer"])
    return Decoder(architecture="qwen2", names=names.LLAMA, **fields)


def qwen3(c: Config) -> Decoder:
    fields = llama_fields(c, head_dim=128)
    fields |= qwen_windows(c, fields["n_layer"])
    return Decoder(architecture="qwen3", names=names.QWEN3, **fields)


def read_experts(c: Config, n_layer: int, n_ff: int, **more: Any) -> Experts:
    """Experts in all layers but the first few, as Qwen's configurations tell it."""
    c.rename("num_local_experts", "num_experts")
    every, dense = c.count("decoder_sparse_step", 1), c.get("mlp_only_layers", list, [])
    n_dense = len(dense)
    if every != 1 or sorted(dense, key=str) != list(range(n_dense)) or n_dense >= n_layer:
        what = f"mlp_only_layers {shown(dense)} and decoder_sparse_step {every}"
        raise Failure(f"{c.path}: {what}; experts in all layers but the first few are read")
    return Experts(
        n=c.count("num_experts", 60),
        n_used=c.count("num_experts_per_tok", 4),
        n_ff=c.count("moe_intermediate_size", n_ff),
        n_dense=n_dense,
        **more,
    )


def qwen2_moe(c: Config) -> Decoder:
    fields = llama_fields(c)
    shared = c.count("shared_expert_intermediate_size", 5632)
    normed = c.get("norm_topk_prob", bool, False)
    fields["experts"] = read_experts(c, fields["n_layer"], 1408, normed=normed, n_ff_shared=shared)
    fields |= qwen_windows(c, fields["n_layer"], is_moe=True)
    return Decoder(architecture="qwen2moe", names=names.QWEN2_MOE, **fields)


def qwen3_moe(c: Config) -> Decoder:
    fields = llama_fields(c)
    normed = c.get("norm_topk_prob", bool, False)
    fields["experts"] = read_experts(c, fields["n_layer"], 768, normed=normed)
    window = window_of(c, 4096)
    c.has("max_window_layers")  # its class has the window in every layer, or in none
    fields |= window if c.get("use_sliding_window", bool, False) else {}
    return Decoder(architecture="qwen3moe", names=names.QWEN3_MOE, **fields)


def gemma_activation(c: Config, key: str) -> str:
    """By the key that the class reads; the other, which it passes over, says the same or nothing.
    In hidden_act "gelu" meant the approximation."""
    kinds = {"hidden_act": ACTIVATIONS | {"gelu": "gelu_tanh"}, "hidden_activation": ACTIVATIONS}
    found = c.choose(key, kinds.pop(key), "gelu_pytorch_tanh")
    for other, known in kinds.items():
        if c.has(other) and c.choose(other, known, "") != found:
            what = shown(c.values[other])
            raise Failure(f"{c.path}: {other} is {what}, but {key}, which is read, is another")
    return found


def gemma_fields(
    c: Config,
    rope: Callable[..., Rope] = read_rope,
    act: str = "hidden_activation",
    **bases: float,
) -> Fields:
    shape = grouped(c, 256)
    c.refuse("use_bidirectional_attention", "attention to later tokens doesn't fit")
    return {
        **shape,
        **rmsnorm(c, 1e-6),
        "activation": gemma_activation(c, act),
        "gated": True,
        "position": rope(c, shape, **bases),
        "embedding_scale": math.sqrt(shape["n_embd"]),
        "tied": tied(c, True),
    }


def gemma(c: Config) -> Decoder:
    return Decoder(architecture="gemma", names=names.GEMMA, **gemma_fields(c, act="hidden_act"))


def gemma2(c: Config) -> Decoder:
    fields = gemma_fields(c)
    c.rename("sliding_window_size", "sliding_window")
    usual = [i % 2 == 0 for i in range(fields["n_layer"])]
    return Decoder(
        architecture="gemma2",
        names=names.GEMMA2,
        **fields,
        **local_layers(c, usual, or_none(c, "sliding_window", 4096)),
        attention_scale=1 / math.sqrt(c.positive("query_pre_attn_scalar", 256)),
        score_cap=or_none(c, "attn_logit_softcapping", 50.0),
        logit_cap=or_none(c, "final_logit_softcapping", 30.0),
    )


def olmo2(c: Config) -> Decoder:
    return Decoder(
        architecture="olmo2",
        names=names.OLMO2,
        **llama_fields(c, smallest=1e-5),
        norm_position="output",
        norms_over_heads=True,
    )


def cohere(c: Config) -> Decoder:
    shape = grouped(c)
    normed = c.get("use_qk_norm", bool, False)
    return Decoder(
        architecture="command-r",
        names=names.COHERE_HEAD_NORMS if normed else names.COHERE,
        **shape,
        **layernorm(c, "layer_norm_eps"),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=read_rope(c, shape, "adjacent", default=500000.0),
        parallel_residual=True,
        logit_scale=c.positive("logit_scale", 0.0625),
        norms_by_head=normed,
        tied=tied(c, True),
    )


def granite_scales(c: Config) -> Fields:
    return {
        "embedding_scale": c.positive("embedding_multiplier", 1.0),
        "attention_scale": c.positive("attention_multiplier", 1.0),
        "residual_scale": c.positive("residual_multiplier", 1.0),
        "logit_scale": 1 / c.positive("logits_scaling", 1.0),
    }


def granite(c: Config) -> Decoder:
    return Decoder(
        architecture="granite",
        names=names.LLAMA_ADJACENT,
        **llama_fields(c, "adjacent"),
        **granite_scales(c),
    )


def phi(c: Config) -> Decoder:
    c.refuse("qk_layernorm", "normed queries and keys of Phi are not read")
    shape = grouped(c)
    return Decoder(
        architecture="phi2",
        names=names.PHI,
        **shape,
        **layernorm(c, "layer_norm_eps"),
        activation=activation(c, "hidden_act", "gelu_new"),
        position=read_rope(c, shape, share=0.5),
        parallel_residual=True,
        tied=tied(c, False),
    )


def phi3(c: Config) -> Decoder:
    # The class's own value, before what rope_scaling says.
    c.values.setdefault("original_max_position_embeddings", 4096)
    fields = llama_fields(c, smallest=1e-5, share=1.0) | window_of(c)
    scaling = fields["position"].scaling
    if scaling and scaling.kind != "longrope":
        raise Failure(f"{c.path}: rope_type {scaling.kind}; of Phi-3's class longrope is expected")
    return Decoder(architecture="phi3", names=names.PHI3, **fields, fused_gate=True)


def starcoder2(c: Config) -> Decoder:
    shape = grouped(c)
    c.choose("mlp_type", {"default": ""}, "default")
    c.choose("norm_type", {"layer_norm": ""}, "layer_norm")
    return Decoder(
        architecture="starcoder2",
        names=names.STARCODER2,
        **shape,
        **layernorm(c, "norm_epsilon"),
        **window_of(c),
        activation=activation(c, "hidden_act", "gelu_pytorch_tanh"),
        position=read_rope(c, shape),
        tied=tied(c, True),
    )


def stablelm(c: Config) -> Decoder:
    shape = grouped(c)
    parallel = c.get("use_parallel_residual", bool, False)
    normed = c.get("qk_layernorm", bool, False)
    c.rename("norm_eps", "layer_norm_eps")
    own = names.LLAMA.but(parts={"ffn_norm": None} if parallel else {})
    return Decoder(
        architecture="stablelm",
        names=own.but(stacked=names.STABLELM_HEAD_NORMS if normed else {}),
        **shape,
        **layernorm(c, "layer_norm_eps"),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=read_rope(c, shape, older="rope_pct", share=0.25),
        parallel_residual=parallel,
        tied=tied(c, False),
    )


def nemotron(c: Config) -> Decoder:
    shape = grouped(c)
    return Decoder(
        architecture="nemotron",
        names=names.NEMOTRON,
        **shape,
        **layernorm(c, "norm_eps"),
        activation=activation(c, "hidden_act", "relu2"),
        position=read_rope(c, shape, older="rope_percent", share=0.5),
        tied=tied(c, False),
    )
