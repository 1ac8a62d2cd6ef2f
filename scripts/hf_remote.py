"""Configurations of families whose code lies in their folders, where transformers has none: what
the names and formulas of that code are, which is never run. See hf_families.py."""

from __future__ import annotations

import hf_names as names
from hf_decoder import Decoder, Rope
from hf_folder import Config, shown
from hf_names import ADJACENT, LLAMA
from hf_reading import Fields, activation, grouped, rmsnorm, tied
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

# ---- what they share -----------------------------------------------------------------------


def older_shape(c: Config) -> Fields:
    """Of classes whose heads are as wide as the model divided by their number."""
    shape = grouped(c)
    width = shape["n_embd"] // shape["n_head"]
    if shape["head_dim"] != width:
        raise Failure(
            f"{c.path}: head_dim is {shape['head_dim']}, which this family's class passes over; "
            f"{width} is expected"
        )
    return shape


def older_rope(c: Config, shape: Fields, pairs: str, *kinds: str, **usual: float) -> Rope:
    """Of classes of transformers 4, which read rope_theta and rope_scaling of these `kinds`."""
    if c.has("rope_parameters"):
        raise Failure(f"{c.path}: rope_parameters, which this family's class passes over")
    rope = read_rope(c, shape, pairs, **usual)
    if rope.scaling and rope.scaling.kind not in kinds:
        known = ", ".join(kinds)
        raise Failure(
            f"{c.path}: rope_scaling: type {shown(rope.scaling.kind)} is unknown to this family's "
            f"class; known: {known}"
        )
    return rope


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
