"""Configurations of further families of Llama's kin: see hf_families.py."""

from __future__ import annotations

import math
import re

import hf_names as names
from hf_decoder import Decoder, Experts
from hf_folder import Config, shown
from hf_llama import gemma_fields, granite_scales, llama_fields
from hf_reading import (
    Fields,
    activation,
    grouped,
    layernorm,
    local_layers,
    or_none,
    rmsnorm,
    tied,
)
from hf_rope import read_layered_rope, read_rope
from output import Failure


def read_local(c: Config, n_layer: int, every: int) -> Fields:
    """A window in the layers that layer_types names, or else in all but the last of so many, or as
    a text of L and G says over and over."""
    c.rename("_sliding_window_pattern", "sliding_window_pattern")
    pattern = c.values.get("sliding_window_pattern") if c.has("sliding_window_pattern") else every
    if isinstance(pattern, str) and re.fullmatch("[LG]+", pattern):
        usual = [pattern[i % len(pattern)] == "L" for i in range(n_layer)]
    elif isinstance(pattern, int) and not isinstance(pattern, bool) and pattern >= 0:
        usual = [pattern > 0 and (i + 1) % pattern != 0 for i in range(n_layer)]
    else:
        raise Failure(f"{c.path}: sliding_window_pattern is {shown(pattern)}, expected a count")
    return local_layers(c, usual, or_none(c, "sliding_window", 4096))


def rotates_where_local(fields: Fields) -> None:
    """Layers that aren't local have no positions."""
    layers = [i for i, is_local in enumerate(fields.get("local", ())) if is_local]
    fields["position"] = fields["position"].only(layers)


GEMMA3 = {  # absent in published configurations
    **{"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216},
    **{"num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4},
    "max_position_embeddings": 131072,
}


def gemma3(c: Config) -> Decoder:
    for key, value in GEMMA3.items():
        c.values.setdefault(key, value)
    fields = gemma_fields(c, read_layered_rope, default=1e6, local=1e4)
    if or_none(c, "attn_logit_softcapping", 0.0):
        raise Failure(f"{c.path}: attn_logit_softcapping isn't null; the class passes it over")
    return Decoder(
        architecture="gemma3",
        names=names.GEMMA3,
        **fields | read_local(c, fields["n_layer"], 6),
        attention_scale=1 / math.sqrt(c.positive("query_pre_attn_scalar", 256)),
        logit_cap=or_none(c, "final_logit_softcapping", 0.0),
    )


def olmo(c: Config) -> Decoder:
    shape = grouped(c)
    return Decoder(
        architecture="olmo",
        names=names.OLMO,
        **shape,
        norm="layernorm",
        norm_epsilon=1e-5,
        bare_norms=True,
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=read_rope(c, shape, "adjacent"),
        clip_qkv=or_none(c, "clip_qkv", 0.0),
        tied=tied(c, False),
    )


def olmo3(c: Config) -> Decoder:
    shape = grouped(c)
    usual = [(i + 1) % 4 != 0 for i in range(shape["n_layer"])]
    return Decoder(
        architecture="olmo2",
        names=names.OLMO2,
        **shape,
        **rmsnorm(c, 1e-5),
        **local_layers(c, usual, or_none(c, "sliding_window", 4096)),
        norm_position="output",
        norms_over_heads=True,
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=read_layered_rope(c, shape, 500000.0),
        tied=tied(c, False),
    )


def olmoe(c: Config) -> Decoder:
    fields = llama_fields(c, smallest=1e-5)
    experts = Experts(
        n=c.count("num_experts", 64),
        n_used=c.count("num_experts_per_tok", 8),
        n_ff=fields["n_ff"],
        normed=c.get("norm_topk_prob", bool, False),
    )
    return Decoder(
        architecture="olmoe",
        names=names.OLMOE,
        **fields,
        experts=experts,
        norms_over_heads=True,
        clip_qkv=or_none(c, "clip_qkv", 0.0),
    )


def cohere2(c: Config) -> Decoder:
    shape = grouped(c)
    fields = shape | read_local(c, shape["n_layer"], 4)
    fields["position"] = read_rope(c, shape, "adjacent")
    rotates_where_local(fields)
    return Decoder(
        architecture="cohere2",
        names=names.COHERE,
        **fields,
        **layernorm(c, "layer_norm_eps"),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        parallel_residual=True,
        logit_scale=c.positive("logit_scale", 0.0625),
        tied=tied(c, True),
    )


EXAONE_OTHER_NAMES = {
    "num_layers": "num_hidden_layers",
    "layer_norm_epsilon": "rms_norm_eps",
    "activation_function": "hidden_act",
}


def exaone(c: Config) -> Decoder:
    """transformers has its configuration, and Llama's class for it."""
    for other, key in EXAONE_OTHER_NAMES.items():
        c.rename(other, key)
    fields = llama_fields(c, base=500000.0, smallest=1e-5)
    return Decoder(architecture="exaone", names=names.EXAONE, **fields)


def exaone4(c: Config) -> Decoder:
    fields = llama_fields(c, smallest=1e-5)
    fields |= read_local(c, fields["n_layer"], 4)
    if or_none(c, "sliding_window", 4096):  # even if no layer has it
        rotates_where_local(fields)
    return Decoder(architecture="exaone4", names=names.OLMO2, **fields, norm_position="output")


def glm_fields(c: Config) -> Fields:
    shape = grouped(c, 128)
    return {
        **shape,
        **rmsnorm(c, 0.00000015625),
        "activation": activation(c, "hidden_act", "silu"),
        "gated": True,
        "fused_gate": True,
        "position": read_rope(c, shape, "adjacent", share=0.5),
        "tied": tied(c, False),
    }


def glm(c: Config) -> Decoder:
    return Decoder(architecture="chatglm", names=names.GLM, **glm_fields(c))


def glm4(c: Config) -> Decoder:
    return Decoder(architecture="glm4", names=names.GLM4, **glm_fields(c))


def granite_moe(c: Config) -> Decoder:
    fields = llama_fields(c, "adjacent")
    shared = c.get("shared_intermediate_size", int, 0)
    experts = Experts(
        n=c.count("num_local_experts", 8),
        n_used=c.count("num_experts_per_tok", 2),
        n_ff=fields["n_ff"],
        normed=True,
        n_ff_shared=shared,
    )
    own = names.GRANITE_MOE
    if not shared:
        own = own.but(parts={"ffn_down_shexp": None})
    return Decoder(
        architecture="granitemoe", names=own, **fields, **granite_scales(c), experts=experts
    )


NANOCHAT = {  # no norm has weights: that of queries and keys, after they rotate, is the same before
    **{"norm": "rmsnorm", "bare_norms": True, "bare_head_norms": True, "embedding_norm": True},
}


def nanochat(c: Config) -> Decoder:
    c.values.setdefault("intermediate_size", 8192)
    shape = grouped(c)
    position = read_rope(c, shape)
    if position.scaling and position.scaling.kind in ("yarn", "longrope"):
        what = f"rope_type {position.scaling.kind} scales queries and keys, which are normed then"
        raise Failure(f"{c.path}: {what}; it isn't read")
    return Decoder(
        architecture="nanochat",
        names=names.NANOCHAT,
        **shape,
        **NANOCHAT | rmsnorm(c, 1e-6),
        activation=activation(c, "hidden_act", "relu2"),
        position=position,
        logit_cap=or_none(c, "final_logit_softcapping", 15.0),
        tied=tied(c, False),
    )


def gpt_oss(c: Config) -> Decoder:
    c.rename("num_experts", "num_local_experts")
    c.rename("experts_per_token", "num_experts_per_tok")
    for key, only in (("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)):
        if c.get(key, float, only) != only:
            raise Failure(f"{c.path}: {key} is {shown(c.values[key])}, expected {only}")
    if not c.has("rope_parameters") and not c.has("rope_scaling"):  # the class's own
        c.values["rope_parameters"] = {
            **{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0},
            **{"truncate": False, "original_max_position_embeddings": 4096},
        }
    fields = llama_fields(c, base=150000.0, smallest=1e-5, head_dim=64)
    fields["activation"] = c.choose("hidden_act", {"silu": "clipped_swish"}, "silu")
    scaling = fields["position"].scaling
    if c.has("initial_context_length") and scaling:  # the class reads the other name alone
        initial = c.count("initial_context_length")
        if initial != scaling.trained:
            what = f"initial_context_length is {initial}, but original_max_position_embeddings"
            raise Failure(f"{c.path}: {what}, which is read, is {scaling.trained}")
    usual = [i % 2 == 0 for i in range(fields["n_layer"])]
    experts = Experts(
        n=c.count("num_local_experts", 128),
        n_used=c.count("num_experts_per_tok", 4),
        n_ff=fields["n_ff"],
        normed=True,
    )
    return Decoder(
        architecture="gpt-oss",
        names=names.GPT_OSS,
        **fields | local_layers(c, usual, or_none(c, "sliding_window", 128)),
        experts=experts,
    )


def seed_oss(c: Config) -> Decoder:
    fields = llama_fields(c, head_dim=128)
    return Decoder(architecture="seed_oss", names=names.LLAMA, **fields)


def arcee(c: Config) -> Decoder:
    fields = llama_fields(c, "adjacent", smallest=1e-5, act="relu2") | {"gated": False}
    return Decoder(architecture="arcee", names=names.ARCEE, **fields)


def ernie4_5(c: Config) -> Decoder:
    fields = llama_fields(c, "adjacent", 500000.0, smallest=1e-5, head_dim=128)
    fields["tied"] = tied(c, True)
    return Decoder(architecture="ernie4_5", names=names.LLAMA, **fields)
