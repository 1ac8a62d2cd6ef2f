"""Configurations of families whose code lies in their folders, where transformers has none: what
the names and formulas of that code are, which is never run. See hf_families.py."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import hf_names as names
from hf_decoder import Alibi, Decoder, Experts, Rope
from hf_folder import Config, shown
from hf_names import ADJACENT, LLAMA
from hf_reading import Fields, activation, epsilon, read_shape, rmsnorm, tied
from hf_rope import read_rope
from output import Failure

# ---- names ---------------------------------------------------------------------------------

INTERNLM2 = LLAMA.but(
    whole={"token_embd": "model.tok_embeddings", "output": "output"},
    parts={
        "attn_norm": "attention_norm",
        "attn_q": None,
        "attn_k": None,
        "attn_v": None,
        "attn_qkv": "attention.wqkv",
        "attn_output": "attention.wo",
        "ffn_norm": "ffn_norm",
        "ffn_gate": "feed_forward.w1",
        "ffn_up": "feed_forward.w3",
        "ffn_down": "feed_forward.w2",
    },
    transforms=ADJACENT | {"attn_qkv": names.split_groups},
    buffers=r"layers\.\d+\.attention\.rotary_emb\.inv_freq",
    apart=True,
)

BAICHUAN = LLAMA.but(
    parts={"attn_q": None, "attn_k": None, "attn_v": None, "attn_qkv": "self_attn.W_pack"},
    transforms=ADJACENT,
    apart=True,
)
BAICHUAN2 = BAICHUAN.but(transforms={"output": names.unit_rows})

DEEPSEEK = names.LLAMA_ADJACENT.but(
    parts={
        "ffn_gate_inp": "mlp.gate",
        "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
        "ffn_up_shexp": "mlp.shared_experts.up_proj",
        "ffn_down_shexp": "mlp.shared_experts.down_proj",
    },
    experts=names.EXPERTS,
)
UNSHARED = dict.fromkeys(("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"))

CHATGLM = names.Names(
    whole={
        "token_embd": "transformer.embedding.word_embeddings",
        "output_norm": "transformer.encoder.final_layernorm",
        "output": "transformer.output_layer",
    },
    layer="transformer.encoder.layers.{}.",
    parts={
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attention.query_key_value",
        "attn_output": "self_attention.dense",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.dense_h_to_4h",
        "ffn_down": "mlp.dense_4h_to_h",
    },
    base="transformer.",
    buffers=r"rotary_pos_emb\.inv_freq",
)

# ---- what they share -----------------------------------------------------------------------


def older_shape(c: Config, n_head_kv: str | None = "num_key_value_heads", **more: Any) -> Fields:
    """Of classes whose heads are as wide as the model divided by their number; see read_shape."""
    shape = read_shape(c, n_head_kv=n_head_kv, **more)
    width = shape["n_embd"] // shape["n_head"]
    if shape["head_dim"] != width:
        raise Failure(
            f"{c.path}: head_dim is {shape['head_dim']}, which this family's class passes over; "
            f"{width} is expected"
        )
    return shape


def older_rope(c: Config, shape: Fields, pairs: str, *kinds: str, **usual: float) -> Rope:
    """Of classes of transformers 4, which read rope_theta and rope_scaling of these `kinds`."""
    for key in ("rope_parameters", "original_max_position_embeddings"):
        if c.has(key):
            raise Failure(f"{c.path}: {key}, which this family's class passes over")
    rope = read_rope(c, shape, pairs, **usual)
    if rope.scaling and rope.scaling.kind not in kinds:
        known = ", ".join(kinds)
        raise Failure(
            f"{c.path}: rope_scaling: type {shown(rope.scaling.kind)} is unknown to this family's "
            f"class; known: {known}"
        )
    return rope


BIASED_LAYERS = 40  # of a Baichuan with ALiBi
VOCABULARIES = (64000, 125696)  # of Baichuan and of Baichuan 2
CHATGLM_VOCABULARY = 65024  # of ChatGLM 2 and 3; GLM-4 has another

# ---- families ------------------------------------------------------------------------------


def internlm2(c: Config) -> Decoder:
    shape = older_shape(c)
    return Decoder(
        architecture="internlm2",
        names=INTERNLM2,
        **shape,
        **rmsnorm(c, 1e-6),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=older_rope(c, shape, "adjacent", "linear", "dynamic"),
        tied=tied(c, False),
    )


def baichuan(c: Config) -> Decoder:
    """The models of 7 and of 13 billion are of two classes, and so are the first and the second
    version of each, all of one name. The larger ones have ALiBi and 40 layers, and their
    configuration no max_position_embeddings; the second version norms its head's rows."""
    biased = not c.has("max_position_embeddings")
    context = "model_max_length" if biased else "max_position_embeddings"
    shape = older_shape(c, None, n_context=context)
    if biased != (shape["n_layer"] == BIASED_LAYERS):
        with_or_without = "without" if biased else "with"
        raise Failure(
            f"{c.path}: {shape['n_layer']} layers {with_or_without} max_position_embeddings; "
            f"{BIASED_LAYERS} without (ALiBi) or another number with it (rotary) is expected"
        )
    normed = c.has("z_loss_weight") or shape["n_vocab"] == VOCABULARIES[1]
    if not normed and shape["n_vocab"] != VOCABULARIES[0]:
        raise Failure(
            f"{c.path}: vocab_size is {shape['n_vocab']} and there is no z_loss_weight, so that "
            f"nothing tells whether the head is normed; {VOCABULARIES[0]} (it isn't) or "
            f"{VOCABULARIES[1]} (it is) is expected"
        )
    if normed:
        c.refuse("tie_word_embeddings", "a normed head that is the embedding doesn't fit")
    c.has("_from_model_config")
    return Decoder(
        architecture="baichuan",
        names=BAICHUAN2 if normed else BAICHUAN,
        **shape,
        **rmsnorm(c, 1e-6),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=Alibi() if biased else Rope(shape["head_dim"], 10000.0, "adjacent"),
        tied=tied(c, False),
    )


def minicpm_rope(c: Config, shape: Fields) -> Rope:
    """Of longrope's factors the longer ones are for all texts where the model's length is more than
    the one before: by it, not by the text's, its class makes the table of cosines."""
    rope = older_rope(c, shape, "adjacent", "linear", "dynamic", "longrope")
    scaling = rope.scaling
    if scaling is None or scaling.kind != "longrope":
        return rope
    for key in ("factor", "attention_factor"):
        if c.section("rope_scaling").has(key):
            what = f"{key} of longrope, which this family's class passes over"
            raise Failure(f"{c.path}: rope_scaling: {what}")
    if scaling.factor < 1:
        raise Failure(
            f"{c.path}: max_position_embeddings is {shape['n_context']}, expected "
            f"original_max_position_embeddings, {scaling.trained}, or more"
        )
    if scaling.factor > 1:
        scaling = replace(scaling, short_factors=scaling.long_factors)
    return replace(rope, scaling=scaling)


def minicpm(c: Config) -> Decoder:
    """Its scales are Granite's, told by other numbers: a model of any width and depth is scaled to
    behave as one of dim_model_base."""
    shape = older_shape(c)
    return Decoder(
        architecture="minicpm",
        names=names.LLAMA_ADJACENT,
        **shape,
        **rmsnorm(c, 1e-6),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=minicpm_rope(c, shape),
        embedding_scale=c.positive("scale_emb", 1.0),
        residual_scale=c.positive("scale_depth", 1.0) / math.sqrt(shape["n_layer"]),
        logit_scale=c.count("dim_model_base", 1) / shape["n_embd"],
        tied=tied(c, True),
    )


def deepseek(c: Config) -> Decoder:
    """Experts beside one that all tokens take whole, and is stored as one of their width times
    their number."""
    shape = older_shape(c)
    c.choose("scoring_func", {"softmax": ""}, "softmax")
    c.has("aux_loss_alpha"), c.has("seq_aux")  # of training
    if (every := c.count("moe_layer_freq", 1)) != 1:
        raise Failure(f"{c.path}: moe_layer_freq is {every}; experts in all layers are read")
    n_used, n_shared = c.count("num_experts_per_tok"), c.get("n_shared_experts", int, 0)
    width, n_dense = c.count("moe_intermediate_size", 1407), c.get("first_k_dense_replace", int, 0)
    for key, value, most in (
        ("n_shared_experts", n_shared, 1 << 12),
        ("first_k_dense_replace", n_dense, shape["n_layer"] - 1),
    ):
        if not 0 <= value <= most:
            raise Failure(f"{c.path}: {key} is {value}, expected 0 to {most}")
    return Decoder(
        architecture="deepseek",
        names=DEEPSEEK if n_shared else DEEPSEEK.but(parts=UNSHARED),
        **shape,
        **rmsnorm(c, 1e-6),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=older_rope(c, shape, "adjacent", "linear", "dynamic"),
        experts=Experts(
            n=c.count("n_routed_experts"),
            n_used=n_used,
            n_ff=width,
            normed=c.get("norm_topk_prob", bool, False) and n_used > 1,
            n_ff_shared=n_shared * width,
            n_shared=n_shared,
            n_dense=n_dense,
        ),
        tied=tied(c, False),
    )


def chatglm_base(c: Config, n_vocab: int) -> float:
    """rope_ratio multiplies the base; ChatGLM 2, which had it first, divided positions by it."""
    ratio = c.positive("rope_ratio", 1.0)
    if ratio != 1 and n_vocab == CHATGLM_VOCABULARY:
        raise Failure(
            f"{c.path}: rope_ratio is {ratio}, which ChatGLM 2 and 3 understand differently, and "
            "nothing tells which of them this is; 1 is expected"
        )
    return 10000.0 * ratio


def chatglm(c: Config) -> Decoder:
    """ChatGLM 2 and 3 and GLM-4 as they were before transformers had the last."""
    c.refuse("position_encoding_2d", "the first ChatGLM is another model")
    for other, key in {
        "vocab_size": "padded_vocab_size",
        "num_hidden_layers": "num_layers",
    }.items():
        c.rename(other, key)
    c.values["vocab_size"] = c.count("padded_vocab_size", 65024)
    c.rename("kv_channels", "head_dim")
    groups = "multi_query_group_num"
    shape = read_shape(
        c, n_layer="num_layers", n_context="seq_length", n_head_kv=groups, n_ff="ffn_hidden_size"
    )
    for key, wanted, why in (
        ("multi_query_attention", True, "rows of queries, keys and values a head are not read"),
        ("rmsnorm", True, "LayerNorms are not read"),
        ("post_layer_norm", True, "a last norm is expected"),
        ("original_rope", True, "another rotation is not read"),
        ("apply_residual_connection_post_layernorm", False, "residuals after the norm don't fit"),
    ):
        c.refuse(key, why, wanted, wanted)
    if c.get("quantization_bit", int, 0):
        raise Failure(f"{c.path}: quantization_bit is {c.values['quantization_bit']}; 0 is read")
    # What the tensors tell, the order of the same sums, and what nothing but a prefix would use.
    for key in ("add_bias_linear", "add_qkv_bias", "apply_query_key_layer_scaling",
                "attention_softmax_in_fp32", "bias_dropout_fusion", "fp32_residual_connection",
                "prefix_projection"):  # fmt: skip
        c.has(key)
    return Decoder(
        architecture="chatglm",
        names=CHATGLM,
        **shape,
        norm="rmsnorm",
        norm_epsilon=epsilon(c, "layernorm_epsilon", 1e-5),
        activation="silu",
        gated=True,
        fused_gate=True,
        position=Rope(shape["head_dim"] // 2, chatglm_base(c, shape["n_vocab"]), "adjacent"),
        tied=tied(c, False),
    )
