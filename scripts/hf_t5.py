"""Configurations of T5's decoder alone, by the code of Kazemnejad et al., "The Impact of Positional
Encoding on Length Generalization in Transformers" (NeurIPS 2023; McGill-NLP/length-generalization):
one architecture with a choice of position schemes. See hf_families.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from hf_decoder import Alibi, Decoder, Plain, Rope, Table
from hf_folder import Config, shown
from hf_names import Names, Place
from hf_reading import ACTIVATIONS, MOST_LAYERS, Fields, epsilon, tied
from output import Failure

ATTENTION = "block.{}.layer.0.SelfAttention."
N_LEARNED = 2048  # rows of the table, whatever the configuration says
MAX_DISTANCE = 128  # of T5's buckets
CLAMP = 1000  # distances of Transformer-XL's that count as one
OTHER_NAMES = {"rotary_rerun": "rotary"}
KINDS = (
    *("none", "abs_sinusoid", "abs_learned", "rotary", "new_rotary", "alibi", "alibi_learned"),
    *("t5_relative_bias", "transformer_xl_relative_encoding"),
)
# Attention to an encoder is there without being used, and so is block 0's bias but by T5's scheme.
BUFFERS = r"embed_tokens\.weight|block\.\d+\.layer\.1\.(EncDecAttention|layer_norm)\..*"
UNUSED_BIAS = r"|block\.0\.layer\.0\.SelfAttention\.relative_attention_bias\.weight"
KEPT = {  # what each scheme's follows from the configuration
    "abs_sinusoid": r"|wpe\.embed\.weight",
    "new_rotary": r"|fixed_rotary_embedding\.embed\.weight",
    "alibi": r"|alibi",
    "transformer_xl_relative_encoding": r"|block\.\d+\.layer\.0\.SelfAttention\.pos_emb\.inv_freq",
}


def slopes(values: np.ndarray, place: Place) -> np.ndarray:
    return np.exp(values)


def ones(values: np.ndarray, place: Place) -> np.ndarray:
    return np.ones_like(values)


def names_of(kind: str, gated: bool) -> Names:
    whole = {"token_embd": "shared", "output_norm": "decoder.final_layer_norm", "output": "lm_head"}
    if kind == "abs_learned":
        whole["position_embd"] = "decoder.wpe"
    up = {"ffn_gate": "wi_0", "ffn_up": "wi_1"} if gated else {"ffn_up": "wi"}
    of_mlp = {part: f"layer.2.DenseReluDense.{name}" for part, name in up.items()}
    unused = "" if kind == "t5_relative_bias" else UNUSED_BIAS
    return Names(
        whole=whole,
        layer="decoder.block.{}.",
        parts={
            "attn_norm": "layer.0.layer_norm",
            "attn_q": "layer.0.SelfAttention.q",
            "attn_k": "layer.0.SelfAttention.k",
            "attn_v": "layer.0.SelfAttention.v",
            "attn_output": "layer.0.SelfAttention.o",
            "ffn_norm": "layer.2.layer_norm",
            **of_mlp,
            "ffn_down": "layer.2.DenseReluDense.wo",
        },
        base="decoder.",
        buffers=BUFFERS + unused + KEPT.get(kind, ""),
        elsewhere=(".layer.2.", ".layer.1."),  # without attention to an encoder between
    )


def position_of(c: Config, kind: str, n_head: int, head_dim: int, n_embd: int) -> Fields:
    """The scheme, and its tables."""
    attention = f"decoder.{ATTENTION}"
    if kind in ("rotary", "new_rotary"):
        dim = head_dim // 4
        if dim < 2 or dim % 2:
            raise Failure(
                f"{c.path}: d_kv is {head_dim}, of which {dim} dimensions rotate; an even number "
                "is expected"
            )
        return {"position": Rope(dim, 10000.0, "adjacent")}
    if kind == "alibi":
        return {"position": Alibi()}
    if kind == "alibi_learned":  # a power of 1 of the distance times a slope of a head's own
        theirs, shape = "decoder.learned_logslopes", (n_head,)
        tables = (
            Table("position_kerple.p", theirs, shape, ones),
            Table("position_kerple.a", theirs, shape, slopes),
        )
        return {"position": Plain("kerple:kind=power,eps=0"), "tables": tables}
    if kind == "t5_relative_bias":
        buckets = c.count("relative_attention_num_buckets", 32)
        theirs = f"{attention.format(0)}relative_attention_bias.weight"
        return {
            "position": Plain(f"t5:buckets={buckets},max_distance={MAX_DISTANCE}"),
            "tables": (Table("position_bias.weight", theirs, (buckets, n_head)),),
        }
    if kind == "transformer_xl_relative_encoding":
        of_head = (n_head, head_dim)
        tables = (
            Table("blk.{}.position_u", f"{attention}r_w_bias", of_head),
            Table("blk.{}.position_v", f"{attention}r_r_bias", of_head),
            Table("blk.{}.position_r.weight", f"{attention}r.weight", (n_head * head_dim, n_embd)),
        )
        return {"position": Plain(f"transformer-xl:clamp={CLAMP}"), "tables": tables}
    plain = {"abs_sinusoid": "sinusoidal:layout=concat", "abs_learned": "learned", "none": "none"}
    return {"position": Plain(plain[kind])}


def mlp_of(c: Config) -> Fields:
    """feed_forward_proj is the function's name, after "gated-" where a gate goes through it; T5's
    configuration writes both apart, too."""
    words = c.get("feed_forward_proj", str, "relu").split("-")
    gated, name = len(words) == 2 and words[0] == "gated", words[-1]
    name = "gelu_new" if gated and name == "gelu" else name
    if len(words) != 1 + gated or name not in ACTIVATIONS:
        what = shown(c.values["feed_forward_proj"])
        raise Failure(f"{c.path}: feed_forward_proj {what} is unknown; gated-gelu or relu is read")
    told: dict[str, Any] = {"dense_act_fn": name, "is_gated_act": gated}
    for key, value in told.items():
        if c.has(key) and c.values[key] != value:
            found = shown(c.values[key])
            raise Failure(f"{c.path}: {key} is {found}, but feed_forward_proj makes it {value}")
    return {"activation": ACTIVATIONS[name], "gated": gated}


def decoder_t5(c: Config) -> Decoder:
    kind = c.get("position_encoding_type", str, "t5_relative_bias")
    kind = OTHER_NAMES.get(kind, kind)
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise Failure(f"{c.path}: position_encoding_type {shown(kind)} is unknown; known: {known}")
    if (distance := c.count("relative_attention_max_distance", MAX_DISTANCE)) != MAX_DISTANCE:
        what = (
            f"relative_attention_max_distance is {distance}, which this family's class passes over"
        )
        raise Failure(f"{c.path}: {what}; {MAX_DISTANCE} is expected")
    for key in ("num_decoder_layers", "dropout_rate", "rotary_dim"):
        c.has(key)  # of no effect
    for key in ("relative_attention_num_buckets", "n_positions"):
        c.has(key)  # of one scheme alone
    n_embd, n_head, head_dim = c.count("d_model"), c.count("num_heads"), c.count("d_kv")
    is_tied = tied(c, True)
    mlp = mlp_of(c)
    return Decoder(
        architecture="locus",
        names=names_of(kind, mlp["gated"]),
        n_vocab=c.count("vocab_size"),
        n_context=N_LEARNED if kind == "abs_learned" else c.count("n_positions", 512),
        n_embd=n_embd,
        n_layer=c.count("num_layers", most=MOST_LAYERS),
        n_head=n_head,
        n_head_kv=n_head,
        head_dim=head_dim,
        n_ff=c.count("d_ff"),
        norm="rmsnorm",
        norm_epsilon=epsilon(c, "layer_norm_epsilon", 1e-6),
        **mlp,
        **position_of(c, kind, n_head, head_dim, n_embd),
        attention_scale=1.0,
        logit_scale=n_embd**-0.5 if is_tied else 1,
        tied=is_tied,
    )


def t5(c: Config) -> Decoder:
    """The same, saved by T5's own configuration."""
    if not c.has("position_encoding_type"):
        what = "model_type 't5' without position_encoding_type"
        raise Failure(f"{c.path}: {what}: an encoder-decoder model doesn't fit")
    return decoder_t5(c)
