"""What families call their tensors in a Hugging Face folder, and how each becomes the checkpoint's.

A checkpoint's tensor has one name in all families (`blk.3.attn_q.weight`); `Names` tells a family's
own. The same tables serve the converter and the makers of golden data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np


class Place(NamedTuple):
    """Where a tensor belongs; a transform may depend on it."""

    n_head: int
    n_head_kv: int
    layer: int = 0


Transform = Callable[[np.ndarray, Place], np.ndarray]

ORDER = (  # of a layer's tensors in a file
    *("attn_norm", "attn_qkv", "attn_q", "attn_k", "attn_v", "attn_output"),
    *("ffn_norm", "ffn_gate", "ffn_up", "ffn_down", "ffn_gate_inp"),
    *("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", "ffn_gate_inp_shexp"),
    *("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
    *("ssm_in", "ssm_conv1d", "ssm_x", "ssm_dt", "ssm_out"),
    *("ssm_dt_norm", "ssm_b_norm", "ssm_c_norm", "ssm_norm"),
)


@dataclass(frozen=True)
class Names:
    """Names are without `.weight` and `.bias`, by the checkpoint's names of the parts. `layer` has
    {} for the layer, a name in `stacked` {} for the head (one tensor of all heads), one in
    `experts` {} for the expert. `transforms` are by part; a bias is transformed as its matrix
    is."""

    whole: Mapping[str, str]
    layer: str
    parts: Mapping[str, str]
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    stacked: Mapping[str, str] = field(default_factory=dict)
    experts: Mapping[str, str] = field(default_factory=dict)
    # Parts that are rows of a larger matrix: its name, and which of how many equal shares.
    fused: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
    bare: Mapping[str, str] = field(default_factory=dict)  # whose names end without .weight,
    endless: frozenset[str] = frozenset()  # and those of them that do in a checkpoint, too
    flat: frozenset[str] = frozenset()  # vectors, where a checkpoint has matrices of as many values
    alternating: str = ""  # what names of gpt-oss's experts begin with: see hf_experts.py
    base: str = ""  # before the names of a file that holds the head, too; without it, they may lack
    buffers: str = ""  # pattern of what older files hold, though it follows from the configuration
    # A part of names, and what files have in its place that have no such name.
    elsewhere: tuple[str, str] | None = None
    apart: bool = False  # attn_qkv is written as attn_q, attn_k and attn_v

    def but(self, **changes: Any) -> Names:
        """The same with changes; mappings are added to, and a name of None is left out."""
        merged = {}
        for key, value in changes.items():
            if isinstance(value, Mapping):
                both = {**getattr(self, key), **value}
                value = {part: name for part, name in both.items() if name is not None}
            if key == "parts":
                value = {part: value[part] for part in ORDER if part in value}
            merged[key] = value
        return replace(self, **merged)


# ---- transforms ----------------------------------------------------------------------------


def transpose(values: np.ndarray, place: Place) -> np.ndarray:
    """Conv1D weights [inputs, outputs] to [outputs, inputs]; a bias stays."""
    return values.T


def plus_one(values: np.ndarray, place: Place) -> np.ndarray:
    """Gemma's norms multiply by 1 + weight; the file holds the sum."""
    return values + 1


def split_heads(values: np.ndarray, place: Place) -> np.ndarray:
    """Rows interleaved a head, [n_head, 3, head_dim], to [q | k | v]."""
    parts = values.reshape(place.n_head, 3, -1, *values.shape[1:])
    return parts.swapaxes(0, 1).reshape(values.shape)


def split_groups(values: np.ndarray, place: Place) -> np.ndarray:
    """Rows of groups of queries and their key and value, [n_head_kv, queries + 2, head_dim], to
    [q | k | v]."""
    n_queries = place.n_head // place.n_head_kv
    groups = values.reshape(place.n_head_kv, n_queries + 2, -1, *values.shape[1:])
    parts = (groups[:, :n_queries], groups[:, n_queries], groups[:, n_queries + 1])
    return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])


def split_shards(values: np.ndarray, place: Place) -> np.ndarray:
    """Rows of CodeGen's 4 shards, [4, q | v | k], to [q | k | v]."""
    shards = values.reshape(4, 3, -1, *values.shape[1:])
    return shards.swapaxes(0, 1)[[0, 2, 1]].reshape(values.shape)


def adjacent_pairs(values: np.ndarray, n_head: int) -> np.ndarray:
    """Rows of a head that rotate in pairs (k, k + d/2) to pairs (2k, 2k + 1), as llama.cpp's
    conversion does for architecture llama."""
    parts = values.reshape(n_head, 2, -1, *values.shape[1:])
    return parts.swapaxes(1, 2).reshape(values.shape)


def adjacent_queries(values: np.ndarray, place: Place) -> np.ndarray:
    return adjacent_pairs(values, place.n_head)


def adjacent_keys(values: np.ndarray, place: Place) -> np.ndarray:
    return adjacent_pairs(values, place.n_head_kv)


def swapped_halves(values: np.ndarray, n_head: int) -> np.ndarray:
    """Rows of a head that rotate backwards in pairs (k, k + d/2) to pairs (k + d/2, k), which then
    rotate forwards."""
    parts = values.reshape(n_head, 2, -1, *values.shape[1:])
    return parts[:, ::-1].reshape(values.shape)


def swapped_queries(values: np.ndarray, place: Place) -> np.ndarray:
    return swapped_halves(values, place.n_head)


def swapped_keys(values: np.ndarray, place: Place) -> np.ndarray:
    return swapped_halves(values, place.n_head_kv)


def transpose_scaled_by_layer(values: np.ndarray, place: Place) -> np.ndarray:
    """Conv1D [q | k | v] whose queries are divided by the layer's number, counted from 1, as
    GPT-2's scale_attn_by_inverse_layer_idx divides the scores."""
    values = values.T.copy()
    values[: len(values) // 3] /= place.layer + 1
    return values


def unit_rows(values: np.ndarray, place: Place) -> np.ndarray:
    """Rows of length 1: a head whose logits are the cosines times the length of what it reads."""
    squares = np.square(values, dtype=np.float64).sum(axis=-1, keepdims=True)
    return (values / np.maximum(np.sqrt(squares), 1e-12)).astype(np.float32)


def squeezed(values: np.ndarray, place: Place) -> np.ndarray:
    """Taps of a convolution of each channel by itself, [channels, 1, taps], to [channels, taps]."""
    return values.squeeze(1)


def decay(values: np.ndarray, place: Place) -> np.ndarray:
    """A_log to what a state decays by."""
    return -np.exp(values)


def is_of_weights_alone(transform: Transform) -> bool:
    """Whether a bias isn't transformed as its weights are."""
    return transform in (plus_one, squeezed)


def is_by_rows(transform: Transform) -> bool:
    """Whether some rows are transformed as they are among all."""
    return transform in (plus_one, unit_rows)


# ---- families ------------------------------------------------------------------------------

CONV1D = dict.fromkeys(("attn_qkv", "attn_output", "ffn_up", "ffn_down"), transpose)
ADJACENT = {"attn_q": adjacent_queries, "attn_k": adjacent_keys}
GPT_BUFFERS = r"h\.\d+\.attn\.(masked_)?bias"

GPT2 = Names(
    whole={
        "token_embd": "transformer.wte",
        "position_embd": "transformer.wpe",
        "output_norm": "transformer.ln_f",
        "output": "lm_head",
    },
    layer="transformer.h.{}.",
    parts={
        "attn_norm": "ln_1",
        "attn_qkv": "attn.c_attn",
        "attn_output": "attn.c_proj",
        "ffn_norm": "ln_2",
        "ffn_up": "mlp.c_fc",
        "ffn_down": "mlp.c_proj",
    },
    transforms=CONV1D,
    base="transformer.",
    buffers=GPT_BUFFERS,
)
GPT2_SCALED_BY_LAYER = GPT2.but(transforms={"attn_qkv": transpose_scaled_by_layer})
GPT1 = GPT2.but(
    whole={
        "token_embd": "transformer.tokens_embed",
        "position_embd": "transformer.positions_embed",
        "output_norm": None,
    },
    buffers=GPT_BUFFERS + "|position_ids",
)
STARCODER = replace(GPT2, transforms={})
STARCODER_HEADS = STARCODER.but(transforms={"attn_qkv": split_heads})
GPT_NEO = STARCODER.but(
    parts={
        "attn_qkv": None,
        "attn_q": "attn.attention.q_proj",
        "attn_k": "attn.attention.k_proj",
        "attn_v": "attn.attention.v_proj",
        "attn_output": "attn.attention.out_proj",
    },
    buffers=r"h\.\d+\.attn\.attention\.(masked_)?bias",
)
GPTJ = STARCODER.but(
    whole={"position_embd": None},
    parts={
        "attn_qkv": None,
        "attn_q": "attn.q_proj",
        "attn_k": "attn.k_proj",
        "attn_v": "attn.v_proj",
        "attn_output": "attn.out_proj",
        "ffn_norm": None,
        "ffn_up": "mlp.fc_in",
        "ffn_down": "mlp.fc_out",
    },
)
CODEGEN = GPTJ.but(
    parts={"attn_q": None, "attn_k": None, "attn_v": None, "attn_qkv": "attn.qkv_proj"},
    transforms={"attn_qkv": split_shards},
    buffers=r"h\.\d+\.attn\.causal_mask",
)

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
OPT = Names(
    whole={
        "token_embd": "model.decoder.embed_tokens",
        "position_embd": "model.decoder.embed_positions",
        "output_norm": "model.decoder.final_layer_norm",
        "output": "lm_head",
    },
    layer="model.decoder.layers.{}.",
    parts=FAIRSEQ_PARTS,
    base="model.",
)
XGLM = Names(
    whole={
        "token_embd": "model.embed_tokens",
        "output_norm": "model.layer_norm",
        "output": "lm_head",
    },
    layer="model.layers.{}.",
    parts=FAIRSEQ_PARTS,
    base="model.",
    buffers=r"embed_positions\.weights",
)

NEOX_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "attention.query_key_value",
    "attn_output": "attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
NEOX = Names(
    whole={
        "token_embd": "gpt_neox.embed_in",
        "output_norm": "gpt_neox.final_layer_norm",
        "output": "embed_out",
    },
    layer="gpt_neox.layers.{}.",
    parts=NEOX_PARTS,
    transforms={"attn_qkv": split_heads},
    base="gpt_neox.",
    buffers=r"layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)",
)
PERSIMMON = Names(
    whole={
        "token_embd": "model.embed_tokens",
        "output_norm": "model.final_layernorm",
        "output": "lm_head",
    },
    layer="model.layers.{}.",
    parts={
        "attn_norm": "input_layernorm",
        "attn_qkv": "self_attn.query_key_value",
        "attn_q_norm": "self_attn.q_layernorm",
        "attn_k_norm": "self_attn.k_layernorm",
        "attn_output": "self_attn.dense",
        "ffn_norm": "post_attention_layernorm",
        "ffn_up": "mlp.dense_h_to_4h",
        "ffn_down": "mlp.dense_4h_to_h",
    },
    transforms={"attn_qkv": split_heads},
    base="model.",
    buffers=r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
)
BLOOM = Names(
    whole={
        "token_embd": "transformer.word_embeddings",
        "token_embd_norm": "transformer.word_embeddings_layernorm",
        "output_norm": "transformer.ln_f",
        "output": "lm_head",
    },
    layer="transformer.h.{}.",
    parts=NEOX_PARTS
    | {"attn_qkv": "self_attention.query_key_value", "attn_output": "self_attention.dense"},
    transforms={"attn_qkv": split_heads},
    base="transformer.",
)
FALCON_ROTARY = r"h\.\d+\.self_attention\.rotary(_emb)?\.inv_freq"
FALCON = BLOOM.but(whole={"token_embd_norm": None}, buffers=FALCON_ROTARY)
FALCON_ONE_KEY = replace(FALCON, transforms={})
FALCON_GROUPS = FALCON.but(transforms={"attn_qkv": split_groups})
TWO_NORMS = {"attn_norm": "ln_attn", "ffn_norm": "ln_mlp"}  # of Falcon's new decoder
MPT = Names(
    whole={
        "token_embd": "transformer.wte",
        "output_norm": "transformer.norm_f",
        "output": "lm_head",
    },
    layer="transformer.blocks.{}.",
    parts={
        "attn_norm": "norm_1",
        "attn_qkv": "attn.Wqkv",
        "attn_output": "attn.out_proj",
        "ffn_norm": "norm_2",
        "ffn_up": "ffn.up_proj",
        "ffn_down": "ffn.down_proj",
    },
    base="transformer.",
)

LLAMA = Names(
    whole={"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"},
    layer="model.layers.{}.",
    parts={
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    },
    base="model.",
    buffers=r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",
)
LLAMA_ADJACENT = LLAMA.but(transforms=ADJACENT)
UNGATED = LLAMA.but(parts={"ffn_gate": None})
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
QWEN3 = LLAMA.but(parts=HEAD_NORMS)
NO_MLP = dict.fromkeys(("ffn_gate", "ffn_up", "ffn_down"))
MIXTRAL = LLAMA_ADJACENT.but(
    parts=NO_MLP | {"ffn_gate_inp": "block_sparse_moe.gate"},
    experts={
        "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
        "ffn_up_exps": "block_sparse_moe.experts.{}.w3",
        "ffn_down_exps": "block_sparse_moe.experts.{}.w2",
    },
)
EXPERTS = {
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
}
QWEN2_MOE = LLAMA.but(
    parts={
        "ffn_gate_inp": "mlp.gate",
        "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
        "ffn_up_shexp": "mlp.shared_expert.up_proj",
        "ffn_down_shexp": "mlp.shared_expert.down_proj",
        "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    },
    experts=EXPERTS,
)
QWEN3_MOE = QWEN3.but(parts={"ffn_gate_inp": "mlp.gate"}, experts=EXPERTS)
GEMMA = LLAMA.but(
    transforms=dict.fromkeys(("attn_norm", "ffn_norm", "output_norm"), plus_one),
)
GEMMA2 = GEMMA.but(
    parts={
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
    transforms=dict.fromkeys(("post_attention_norm", "post_ffw_norm"), plus_one),
)
OLMO2 = LLAMA.but(
    parts=HEAD_NORMS
    | {
        "attn_norm": None,
        "ffn_norm": None,
        "post_attention_norm": "post_attention_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
)
COHERE = LLAMA.but(parts={"ffn_norm": None})
COHERE_HEAD_NORMS = COHERE.but(parts=HEAD_NORMS)
PHI = LLAMA.but(
    whole={"output_norm": "model.final_layernorm"},
    parts={
        "attn_output": "self_attn.dense",
        "ffn_norm": None,
        "ffn_gate": None,
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    },
)
PHI3 = LLAMA.but(
    parts={
        "attn_q": None,
        "attn_k": None,
        "attn_v": None,
        "attn_qkv": "self_attn.qkv_proj",
        "ffn_gate": None,
        "ffn_up": "mlp.gate_up_proj",
    },
)
STARCODER2 = UNGATED.but(parts={"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"})
STABLELM_HEAD_NORMS = {
    "attn_q_norm": "self_attn.q_layernorm.norms.{}",
    "attn_k_norm": "self_attn.k_layernorm.norms.{}",
}
GEMMA3 = GEMMA2.but(parts=HEAD_NORMS, transforms=dict.fromkeys(HEAD_NORMS, plus_one))
EXAONE = LLAMA.but(
    whole={"token_embd": "transformer.wte", "output_norm": "transformer.ln_f"},
    layer="transformer.h.{}.",
    parts={
        "attn_norm": "ln_1",
        "attn_q": "attn.attention.q_proj",
        "attn_k": "attn.attention.k_proj",
        "attn_v": "attn.attention.v_proj",
        "attn_output": "attn.attention.out_proj",
        "ffn_norm": "ln_2",
        "ffn_gate": "mlp.c_fc_0",
        "ffn_up": "mlp.c_fc_1",
        "ffn_down": "mlp.c_proj",
    },
    base="transformer.",
    buffers=r"(h\.\d+\.attn\.attention\.)?rotary(_emb)?\.inv_freq",
)
NO_NORMS = {"attn_norm": None, "ffn_norm": None}
OLMO = LLAMA_ADJACENT.but(whole={"output_norm": None}, parts=NO_NORMS)
OLMOE = QWEN3_MOE.but(parts=NO_MLP)
ARCEE = LLAMA_ADJACENT.but(parts={"ffn_gate": None})
GLM = LLAMA.but(parts={"ffn_gate": None, "ffn_up": "mlp.gate_up_proj"})
GLM4 = GLM.but(
    parts={
        "post_attention_norm": "post_self_attn_layernorm",
        "post_ffw_norm": "post_mlp_layernorm",
    },
)
GRANITE_MOE = LLAMA_ADJACENT.but(
    parts=NO_MLP
    | {
        "ffn_gate_inp": "block_sparse_moe.router.layer",
        "ffn_down_shexp": "shared_mlp.output_linear",
    },
    fused={
        "ffn_gate_exps": ("block_sparse_moe.input_linear", 0, 2),
        "ffn_up_exps": ("block_sparse_moe.input_linear", 1, 2),
        "ffn_down_exps": ("block_sparse_moe.output_linear", 0, 1),
        "ffn_gate_shexp": ("shared_mlp.input_linear", 0, 2),
        "ffn_up_shexp": ("shared_mlp.input_linear", 1, 2),
    },
)
GPT_OSS = LLAMA.but(
    parts=NO_MLP | {"ffn_gate_inp": "mlp.router"},
    bare={"attn_sinks": "self_attn.sinks"},
    alternating="mlp.experts.",
)
BACKWARDS = {"attn_q": swapped_queries, "attn_k": swapped_keys}
NANOCHAT = UNGATED.but(
    whole={"output_norm": None},
    parts=NO_NORMS | {"ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
    transforms=BACKWARDS,
)
NEMOTRON = UNGATED.but(
    transforms=dict.fromkeys(("attn_norm", "ffn_norm", "output_norm"), plus_one),
)
SCAN = {  # after what a layer calls its scan
    "ssm_in": "in_proj",
    "ssm_conv1d": "conv1d",
    "ssm_x": "x_proj",
    "ssm_dt": "dt_proj",
    "ssm_out": "out_proj",
}
SCAN_TRANSFORMS = {"ssm_conv1d": squeezed, "ssm_a": decay}
MAMBA = Names(
    whole={
        "token_embd": "backbone.embeddings",
        "output_norm": "backbone.norm_f",
        "output": "lm_head",
    },
    layer="backbone.layers.{}.",
    parts={"attn_norm": "norm", **{part: f"mixer.{name}" for part, name in SCAN.items()}},
    transforms=SCAN_TRANSFORMS,
    bare={"ssm_a": "mixer.A_log", "ssm_d": "mixer.D"},
    endless=frozenset(("ssm_a", "ssm_d")),
    base="backbone.",
)
MAMBA2 = MAMBA.but(
    parts={"ssm_x": None, "ssm_dt": None, "ssm_norm": "mixer.norm"},
    bare={"ssm_dt.bias": "mixer.dt_bias"},
    endless=MAMBA.endless | {"ssm_dt.bias"},
    flat=frozenset(("ssm_a", "ssm_d", "ssm_norm")),
)
JAMBA = LLAMA.but(
    whole={"output_norm": "model.final_layernorm"},
    parts={
        "ffn_norm": "pre_ff_layernorm",
        "ffn_gate": "feed_forward.gate_proj",
        "ffn_up": "feed_forward.up_proj",
        "ffn_down": "feed_forward.down_proj",
        **{part: f"mamba.{name}" for part, name in SCAN.items()},
        "ssm_dt_norm": "mamba.dt_layernorm",
        "ssm_b_norm": "mamba.b_layernorm",
        "ssm_c_norm": "mamba.c_layernorm",
    },
    transforms=SCAN_TRANSFORMS,
    bare={"ssm_a": "mamba.A_log", "ssm_d": "mamba.D"},
    endless=MAMBA.endless,
)
