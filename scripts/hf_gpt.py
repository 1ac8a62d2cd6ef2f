"""Configurations of GPT-2 and of families that are no Llamas: see hf_families.py."""

from __future__ import annotations

import math
from typing import Any

import hf_names as names
from hf_decoder import Alibi, Decoder, Plain, Rope
from hf_folder import Config, shown
from hf_reading import (
    IGNORED,
    Fields,
    activation,
    layernorm,
    read_shape,
    tied,
)
from hf_rope import read_rope
from output import Failure

# ---- GPT-2 and its kin ---------------------------------------------------------------------

GPT_OTHER_NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


def gpt_shape(c: Config, n_ff: str | None = "n_inner") -> Fields:
    for other, key in GPT_OTHER_NAMES.items():
        c.rename(other, key)
    context = c.count("n_ctx") if c.has("n_ctx") else None  # an older name
    return read_shape(c, "n_embd", "n_layer", "n_head", "n_positions", n_ff=n_ff, context=context)


def gpt2(c: Config) -> Decoder:
    c.refuse("add_cross_attention", "an encoder-decoder model doesn't fit")
    by_layer = c.get("scale_attn_by_inverse_layer_idx", bool, False)
    for key in ("reorder_and_upcast_attn", "n_special", "predict_special_tokens"):
        c.has(key)  # another order of the same sums; keys of the first releases
    return Decoder(
        architecture="gpt2",
        names=names.GPT2_SCALED_BY_LAYER if by_layer else names.GPT2,
        **gpt_shape(c),
        **layernorm(c, "layer_norm_epsilon"),
        activation=activation(c, "activation_function", "gelu_new"),
        position=Plain("learned"),
        attention_scale=None if c.get("scale_attn_weights", bool, True) else 1.0,
        tied=tied(c, True),
    )


def gpt1(c: Config) -> Decoder:
    c.has("n_special"), c.has("predict_special_tokens")
    return Decoder(
        architecture="locus",
        names=names.GPT1,
        **gpt_shape(c, None),
        **layernorm(c, "layer_norm_epsilon"),
        norm_position="post",
        # Its "gelu" is the approximation by tanh.
        activation=c.choose("afn", {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu"}, "gelu"),
        position=Plain("learned"),
        tied=tied(c, True),
    )


def starcoder(c: Config) -> Decoder:
    c.refuse("add_cross_attention", "an encoder-decoder model doesn't fit")
    c.has("attention_softmax_in_fp32"), c.has("scale_attention_softmax_in_fp32")
    for key in ("inference_runner", "validate_runner_input", "pre_allocate_kv_cache",
                "max_sequence_length", "max_batch_size", "pad_key_length"):  # fmt: skip
        c.has(key)  # of the first release, and of how it ran
    one_key = c.get("multi_query", bool, True)
    c.has("num_key_value_heads")  # what multi_query says
    return Decoder(
        architecture="starcoder",
        names=names.STARCODER if one_key else names.STARCODER_HEADS,
        **gpt_shape(c) | ({"n_head_kv": 1} if one_key else {}),
        **layernorm(c, "layer_norm_epsilon"),
        activation=activation(c, "activation_function", "gelu_pytorch_tanh"),
        position=Plain("learned"),
        attention_scale=None if c.get("scale_attn_weights", bool, True) else 1.0,
        tied=tied(c, True),
    )


def gpt_neo(c: Config) -> Decoder:
    shape = read_shape(c, n_layer="num_layers", n_head="num_heads")
    kinds = {"global": False, "local": True}
    if not c.has("attention_layers") and c.has("attention_types"):
        c.values["attention_layers"] = repeated(c, "attention_types")
    local = c.flags("attention_layers", shape["n_layer"], kinds)
    if local is None:
        local = [i % 2 == 1 for i in range(shape["n_layer"])]
    c.has("attention_types")
    return Decoder(
        architecture="locus",
        names=names.GPT_NEO,
        **shape,
        **layernorm(c, "layer_norm_epsilon"),
        activation=activation(c, "activation_function", "gelu_new"),
        position=Plain("learned"),
        attention_scale=1.0,
        window=c.count("window_size", 256) if any(local) else 0,
        local=tuple(local),
        tied=tied(c, True),
    )


def repeated(c: Config, key: str) -> list[Any]:
    """[[[a, b], 2]] as [a, b, a, b]."""
    found: list[Any] = []
    for group in c.get(key, list):
        pair = isinstance(group, list) and len(group) == 2
        if not pair or not isinstance(group[0], list) or not isinstance(group[1], int):
            raise Failure(f"{c.path}: {key} has {shown(group)}, expected names and how often")
        found += group[0] * min(max(group[1], 0), 1 << 12)
    return found


def gptj_rope(c: Config) -> Rope:
    c.refuse("rotary", "positions that aren't rotary don't fit", True, True)
    c.refuse("scale_attn_weights", "transformers scales the scores", True, True)
    if "rotary_dim" in c.values and not c.has("rotary_dim"):
        raise Failure(f"{c.path}: rotary_dim is null, expected a number")
    return Rope(c.count("rotary_dim", 64), 10000, "adjacent")


def gptj(c: Config) -> Decoder:
    shape = gpt_shape(c)
    return Decoder(
        architecture="locus",
        names=names.GPTJ,
        **shape,
        **layernorm(c, "layer_norm_epsilon"),
        activation=activation(c, "activation_function", "gelu_new"),
        position=gptj_rope(c),
        parallel_residual=True,
        tied=tied(c, False),
    )


def codegen(c: Config) -> Decoder:
    shape = gpt_shape(c)
    if shape["n_head"] % 4 != 0:
        raise Failure(f"{c.path}: n_head is {shape['n_head']}, expected a multiple of 4")
    return Decoder(
        architecture="locus",
        names=names.CODEGEN,
        **shape,
        **layernorm(c, "layer_norm_epsilon"),
        activation=activation(c, "activation_function", "gelu_new"),
        position=gptj_rope(c),
        parallel_residual=True,
        tied=tied(c, False),
    )


# ---- fairseq's -----------------------------------------------------------------------------


def opt(c: Config) -> Decoder:
    shape = read_shape(c, n_ff="ffn_dim")
    before = c.get("do_layer_norm_before", bool, True)
    without_last = c.get("_remove_final_layer_norm", bool, False)
    if before and without_last:
        raise Failure(f"{c.path}: _remove_final_layer_norm is true; a last norm is expected")
    c.refuse("layer_norm_elementwise_affine", "norms without weights don't fit", True, True)
    width = c.count("word_embed_proj_dim", shape["n_embd"])
    whole = {} if before else {"output_norm": None}
    return Decoder(
        architecture="locus",
        names=names.OPT.but(whole=whole),
        **shape,
        norm="layernorm",
        norm_epsilon=1e-5,
        norm_position="pre" if before else "post",
        activation=activation(c, "activation_function", "relu"),
        position=Plain("learned:offset=2"),
        embedding_width=width,
        tied=tied(c, True),
    )


def xglm(c: Config) -> Decoder:
    c.refuse("add_cross_attention", "an encoder-decoder model doesn't fit")
    shape = read_shape(c, "d_model", "num_layers", "attention_heads", n_ff="ffn_dim")
    scaled = c.get("scale_embedding", bool, True)
    return Decoder(
        architecture="locus",
        names=names.XGLM,
        **shape,
        norm="layernorm",
        norm_epsilon=1e-5,
        activation=activation(c, "activation_function", "gelu"),
        position=Plain("sinusoidal:layout=concat,denominator=fairseq,offset=2"),
        embedding_scale=math.sqrt(shape["n_embd"]) if scaled else 1,
        tied=tied(c, True),
    )


# ---- NeoX, BLOOM, MPT, Falcon --------------------------------------------------------------


def gptneox(c: Config) -> Decoder:
    shape = read_shape(c)
    for key, own in (("rope_theta", "rotary_emb_base"), ("partial_rotary_factor", "rotary_pct")):
        if c.has(key) and not c.has(own):  # some releases wrote both
            what = f"{key} is {shown(c.values[key])} without {own}"
            raise Failure(f"{c.path}: {what}, which alone is read outside rope_parameters")
    return Decoder(
        architecture="gptneox",
        names=names.NEOX,
        **shape,
        **layernorm(c, "layer_norm_eps"),
        activation=activation(c, "hidden_act", "gelu"),
        position=read_rope(c, shape, base="rotary_emb_base", partial="rotary_pct", share=0.25),
        parallel_residual=c.get("use_parallel_residual", bool, True),
        tied=tied(c, False),
    )


def persimmon(c: Config) -> Decoder:
    shape = read_shape(c)
    c.refuse("qk_layernorm", "queries and keys without norms are not read", True, True)
    return Decoder(
        architecture="locus",
        names=names.PERSIMMON,
        **shape,
        **layernorm(c, "layer_norm_eps"),
        activation=activation(c, "hidden_act", "relu2"),
        position=read_rope(c, shape, default=25000.0, share=0.5),
        tied=tied(c, False),
    )


def bloom(c: Config) -> Decoder:
    c.refuse("apply_residual_connection_post_layernorm", "residuals after the norm don't fit")
    for other, key in {"n_embed": "hidden_size", "num_attention_heads": "n_head"}.items():
        c.rename(other, key)
    c.rename("num_hidden_layers", "n_layer")
    for key in ("slow_but_exact", "offset_alibi", "attention_softmax_in_fp32",
                "bias_dropout_fusion", "masked_softmax_fusion", "skip_bias_add",
                "skip_bias_add_qkv", "unk_token_id"):  # fmt: skip
        c.has(key)  # of how it was trained or is run
    return Decoder(
        architecture="bloom",
        names=names.BLOOM,
        **read_shape(c, "hidden_size", "n_layer", "n_head", "seq_length", n_ff=None, context=2048),
        **layernorm(c, "layer_norm_epsilon"),
        activation="gelu_tanh",
        position=Alibi(),
        embedding_norm=True,
        tied=tied(c, True),
    )


def mpt(c: Config) -> Decoder:
    shape = read_shape(c, "d_model", "n_layers", "n_heads", "max_seq_len", n_ff=None)
    shape["n_ff"] = c.count("expansion_ratio", 4) * shape["n_embd"]
    attention = c.section("attn_config")
    for key in ("attn_impl", "attn_uses_sequence_id", "is_encoder_decoder"):
        attention.has(key)
    for key in ("learned_pos_emb", "init_device", "embedding_fraction", "init_config", "verbose"):
        c.has(key)  # of training, or of no effect beside ALiBi
    c.choose("norm_type", {"low_precision_layernorm": "", "layernorm": ""}, "layernorm")
    if (kind := attention.get("attn_type", str, "multihead_attention")) != "multihead_attention":
        raise Failure(f"{attention.path}: attn_type is {shown(kind)}; multihead_attention is read")
    attention.refuse("prefix_lm", "a prefix that sees itself whole doesn't fit")
    attention.refuse("rope", "rotary positions of MPT are not read")
    attention.refuse("alibi", "learned positions of MPT are not read", True, True)
    normed = attention.get("qk_ln", bool, False)
    head_norms = {"attn_q_norm": "attn.q_ln", "attn_k_norm": "attn.k_ln"} if normed else {}
    scale = attention.get("softmax_scale", float) if attention.has("softmax_scale") else None
    clip = attention.get("clip_qkv", float, 0.0)
    decoder = Decoder(
        architecture="mpt",
        names=names.MPT.but(parts=head_norms),
        **shape,
        **layernorm(c, "layer_norm_epsilon"),
        activation="gelu_erf",
        position=Alibi(attention.positive("alibi_bias_max", 8)),
        attention_scale=scale,
        clip_qkv=clip,
        logit_scale=mpt_logit_scale(c, shape["n_embd"]),
        norms_over_heads=normed,
        tied=tied(c, True),
    )
    attention.refuse_unknown(IGNORED)
    return decoder


def mpt_logit_scale(c: Config, n_embd: int) -> float:
    """A number, or its name."""
    if not c.has("logit_scale"):
        return 1
    if c.values["logit_scale"] == "inv_sqrt_d_model":
        return 1 / math.sqrt(n_embd)
    return c.get("logit_scale", float)


FALCON_OTHER_NAMES = {
    "n_embed": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "n_head_kv": "num_kv_heads",
}


def falcon(c: Config) -> Decoder:
    for other, key in FALCON_OTHER_NAMES.items():
        c.rename(other, key)
    shape = read_shape(c, n_ff="ffn_hidden_size", context=2048)
    kv = c.count("num_kv_heads", shape["n_head"])
    grouped_heads = c.get("new_decoder_architecture", bool, False)
    one_key = c.get("multi_query", bool, True) and not grouped_heads
    parallel = c.get("parallel_attn", bool, True) or grouped_heads
    two = grouped_heads and c.count("num_ln_in_parallel_attn", 2) == 2
    c.has("num_ln_in_parallel_attn")  # of no effect on the first decoder
    c.refuse("apply_residual_connection_post_layernorm", "residuals after the norm don't fit")
    own = names.FALCON_ONE_KEY if one_key else names.FALCON
    own = names.FALCON_GROUPS if grouped_heads else own
    norms = names.TWO_NORMS if two else {"ffn_norm": None} if parallel else {}
    shape["n_head_kv"] = kv if grouped_heads else 1 if one_key else shape["n_head"]
    rotary = not c.get("alibi", bool, False)
    rope = read_rope(c, shape)
    return Decoder(
        architecture="falcon",
        names=own.but(parts=norms),
        **shape,
        **layernorm(c, "layer_norm_epsilon"),
        activation=activation(c, "activation", "gelu"),
        position=rope if rotary else Alibi(scaled=True),
        parallel_residual=parallel,
        tied=tied(c, True),
    )
