"""A decoder as configurations of Hugging Face tell it, and how a GGUF file says the same.

A family reads its config.json into a `Decoder`. `own_metadata` says it with the keys of the
family's own architecture, as llama.cpp's converter does, `generic_metadata` with those of the
architecture `locus`, which spells every choice out. What one of them has no key for is told by
name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from checkpoint import Tensor, Value
from hf_names import Names


def number(value: float) -> str:
    """A number of a SPEC: what a key holds of it, so that both ways say the same."""
    return f"{np.float32(value):.9g}"


# ---- positions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """How a model's rotation is stretched. `trained` is the length before that."""

    kind: str  # linear, dynamic, yarn, llama3 or longrope
    factor: float
    trained: int
    attention: float | None = None  # yarn, longrope: multiplies sines and cosines
    beta_fast: float = 32
    beta_slow: float = 1
    truncate: bool = True
    low: float = 1
    high: float = 4
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()

    def spec(self) -> str:
        """Its part of a SPEC; llama3 and longrope have their factors in tensors."""
        if self.kind == "llama3":
            return ""
        text = f",scaling={self.kind},factor={number(self.factor)}"
        if self.kind != "linear":
            text += f",trained={self.trained}"
        if self.kind == "yarn":
            text += f",beta_fast={number(self.beta_fast)},beta_slow={number(self.beta_slow)}"
            text += "" if self.truncate else ",truncate=0"
        if self.attention is not None:
            text += f",attn_factor={number(self.attention)}"
        return text

    def keys(self) -> dict[str, Value] | None:
        """The keys of a family; None: there are none that say it."""
        prefix = ".rope.scaling."
        if self.kind == "llama3":
            return {}
        if self.kind == "dynamic" or not self.truncate:
            return None
        found: dict[str, Value] = {f"{prefix}type": self.kind}
        if self.kind != "longrope":  # whose factor is that of the lengths
            found[f"{prefix}factor"] = float(self.factor)
        if self.kind != "linear":
            found[f"{prefix}original_context_length"] = self.trained
        if self.kind == "longrope" and self.attention is not None:
            found[f"{prefix}attn_factor"] = self.attention
        if self.kind == "yarn":
            if self.attention is not None:
                found[f"{prefix}yarn_attn_factor"] = self.attention
            found[f"{prefix}yarn_beta_fast"] = float(self.beta_fast)
            found[f"{prefix}yarn_beta_slow"] = float(self.beta_slow)
        return found


@dataclass(frozen=True)
class Rope:
    """Rotated queries and keys."""

    dim: int
    base: float
    pairs: str = "half"
    scaling: Scaling | None = None
    layers: tuple[int, ...] | None = None  # that rotate; None: all

    def only(self, layers: tuple[int, ...]) -> Rope:
        """The same in some layers."""
        return replace(self, layers=layers)

    def spec(self) -> str:
        text = f"rope:pairs={self.pairs},dim={self.dim},base={number(self.base)}"
        return text + (self.scaling.spec() if self.scaling else "")

    def tensors(self) -> Iterator[Tensor]:
        """Divisors of the frequencies, [dim/2]."""
        scaling = self.scaling
        if scaling is None:
            return
        if scaling.kind == "llama3":
            yield Tensor.of("rope_freqs.weight", self.llama3_divisors(scaling))
        if scaling.kind == "longrope":
            for name in ("short", "long"):
                factors = np.array(getattr(scaling, f"{name}_factors"), np.float32)
                yield Tensor.of(f"rope_factors_{name}.weight", factors)

    def llama3_divisors(self, scaling: Scaling) -> np.ndarray:
        """Of Dubey et al., "The Llama 3 Herd of Models" (arXiv 2407.21783), as in Meta's code."""
        theta = self.base ** (-np.arange(0, self.dim, 2, dtype=np.float64) / self.dim)
        turns = scaling.trained * theta / (2 * np.pi)  # within the trained length
        share = np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0, 1)
        return (1 / ((1 - share) / scaling.factor + share)).astype(np.float32)


@dataclass(frozen=True)
class Alibi:
    """A penalty that grows with the distance."""

    max_bias: float = 8
    scaled: bool = False  # divided by sqrt(head_dim), as the scores are

    def spec(self) -> str:
        return f"alibi:max_bias={number(self.max_bias)}" + (",scaled=1" if self.scaled else "")


@dataclass(frozen=True)
class Plain:
    """A scheme that no key of a family tells more of."""

    text: str

    def spec(self) -> str:
        return self.text


# ---- the decoder ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of the MLP."""

    n: int
    n_used: int
    n_ff: int
    normed: bool  # the shares of a token's experts add up to 1
    n_ff_shared: int = 0  # of the one that every token takes
    n_dense: int = 0  # layers before the first that has experts


@dataclass(frozen=True)
class Decoder:
    """Names are those of src/model/model.h."""

    architecture: str  # of a GGUF file
    names: Names
    n_vocab: int
    n_context: int
    n_embd: int
    n_layer: int
    n_head: int
    n_ff: int
    position: Rope | Alibi | Plain
    norm: str
    norm_epsilon: float
    activation: str
    n_head_kv: int
    head_dim: int
    gated: bool = False
    norm_position: str = "pre"
    embedding_norm: bool = False
    parallel_residual: bool = False
    embedding_scale: float = 1
    attention_scale: float | None = None  # of scores; None: 1/sqrt(head_dim)
    residual_scale: float = 1
    logit_scale: float = 1
    score_cap: float = 0
    logit_cap: float = 0
    clip_qkv: float = 0
    window: int = 0
    local: tuple[bool, ...] = ()  # which layers have the window; (): all
    experts: Experts | None = None
    tied: bool = False
    # How a folder holds what is one in the checkpoint, or more.
    embedding_width: int = 0  # of a narrower embedding, projected to n_embd and back; 0: n_embd
    fused_gate: bool = False  # gate and up in one matrix
    norms_over_heads: bool = False  # queries and keys are normed as one row of all heads,
    norms_by_head: bool = False  # or each head by weights of its own

    @property
    def n_queries(self) -> int:
        return self.n_head * self.head_dim

    @property
    def n_keys(self) -> int:
        return self.n_head_kv * self.head_dim

    def has_experts(self, layer: int) -> bool:
        return self.experts is not None and layer >= self.experts.n_dense

    def local_layers(self) -> list[bool]:
        """Whether each layer has the window."""
        return [self.window > 0] * self.n_layer if not self.local else list(self.local)


@dataclass(frozen=True)
class Own:
    """What an architecture of GGUF is by itself; `says` are the fields of a Decoder that its files
    have keys for."""

    norm: str
    activation: str
    position: str  # alibi, or how its SPEC begins
    gated: bool = False
    norm_position: str = "pre"
    embedding_norm: bool = False
    parallel_residual: bool = False
    root_embedding_scale: bool = False
    divides_logits: bool = False
    normed_experts: bool = False
    score_cap: float = 0
    logit_cap: float = 0
    every_second: bool = False  # local layers: the first of two, where no key says it
    says: frozenset[str] = field(default_factory=frozenset)


def says(*fields: str) -> frozenset[str]:
    return frozenset(fields)


HALF, ADJACENT = "rope:pairs=half", "rope:pairs=adjacent"
OWN = {
    "gpt2": Own("layernorm", "gelu_tanh", "learned"),
    "starcoder": Own("layernorm", "gelu_tanh", "learned"),
    "gptneox": Own(
        "layernorm", "gelu_erf", HALF, parallel_residual=True, says=says("parallel_residual")
    ),
    "bloom": Own("layernorm", "gelu_tanh", "alibi", embedding_norm=True),
    "mpt": Own("layernorm", "gelu_erf", "alibi", says=says("max_bias", "clip_qkv")),
    "llama": Own(
        "rmsnorm", "silu", ADJACENT, gated=True, normed_experts=True, says=says("experts", "window")
    ),
    "qwen2": Own("rmsnorm", "silu", HALF, gated=True, says=says("window")),
    "qwen3": Own("rmsnorm", "silu", HALF, gated=True, says=says("window")),
    "qwen2moe": Own("rmsnorm", "silu", HALF, gated=True, says=says("window", "experts")),
    "qwen3moe": Own(
        "rmsnorm", "silu", HALF, gated=True, normed_experts=True, says=says("window", "experts")
    ),
    "gemma": Own("rmsnorm", "gelu_tanh", HALF, gated=True, root_embedding_scale=True),
    "gemma2": Own(
        *("rmsnorm", "gelu_tanh", HALF),
        gated=True,
        root_embedding_scale=True,
        score_cap=50,
        logit_cap=30,
        every_second=True,
        says=says("score_cap", "logit_cap", "window", "attention_scale"),
    ),
    "olmo2": Own("rmsnorm", "silu", HALF, gated=True, norm_position="output"),
    "command-r": Own(
        *("layernorm", "silu", ADJACENT),
        gated=True,
        parallel_residual=True,
        says=says("logit_scale"),
    ),
    "granite": Own(
        *("rmsnorm", "silu", ADJACENT),
        gated=True,
        divides_logits=True,
        says=says("embedding_scale", "attention_scale", "residual_scale", "logit_scale"),
    ),
    "phi2": Own("layernorm", "gelu_tanh", HALF, parallel_residual=True),
    "phi3": Own("rmsnorm", "silu", HALF, gated=True, says=says("window")),
    "starcoder2": Own("layernorm", "gelu_tanh", HALF, says=says("window")),
    "stablelm": Own("layernorm", "silu", HALF, gated=True, says=says("parallel_residual")),
    "nemotron": Own("layernorm", "relu_squared", HALF),
}


# ---- keys ----------------------------------------------------------------------------------


class Unsayable(Exception):
    """An architecture has no key for a feature, which the message names."""


def shape_keys(decoder: Decoder) -> dict[str, Value]:
    """What all architectures tell alike."""
    found: dict[str, Value] = {
        ".context_length": decoder.n_context,
        ".embedding_length": decoder.n_embd,
        ".block_count": decoder.n_layer,
        ".feed_forward_length": decoder.n_ff,
        ".vocab_size": decoder.n_vocab,
        ".attention.head_count": decoder.n_head,
    }
    if decoder.n_head_kv != decoder.n_head:
        found[".attention.head_count_kv"] = decoder.n_head_kv
    if decoder.head_dim * decoder.n_head != decoder.n_embd:
        found[".attention.key_length"] = found[".attention.value_length"] = decoder.head_dim
    experts = decoder.experts
    if experts is not None:
        found[".expert_count"], found[".expert_used_count"] = experts.n, experts.n_used
        found[".expert_feed_forward_length"] = experts.n_ff
        if experts.n_ff_shared:
            found[".expert_shared_feed_forward_length"] = experts.n_ff_shared
        if experts.n_dense:
            found[".leading_dense_block_count"] = experts.n_dense
    return found


def layer_list(layers: list[int]) -> str:
    return ",".join(map(str, layers))


def whole_spec(decoder: Decoder) -> str:
    """The SPEC of locus.position."""
    position = decoder.position
    text = position.spec()
    if isinstance(position, Rope) and position.layers is not None:
        without = [i for i in range(decoder.n_layer) if i not in position.layers]
        step = without[0] + 1 if without else 1
        even = list(range(step - 1, decoder.n_layer, step))
        if without:
            named = f"{step - 1}::{step}" if without == even else layer_list(without)
            text += f"; layers {named} none"
    if len(text) > 255:
        raise Unsayable(f"the position SPEC {text[:40]}... of {len(text)} characters")
    return text


def window_every(decoder: Decoder) -> int:
    """Of so many layers the last one is local; 0: all are."""
    local = decoder.local_layers()
    if all(local):
        return 0
    every = local.index(True) + 1
    if every > 1 and local == [(i + 1) % every == 0 for i in range(decoder.n_layer)]:
        return every
    layers = layer_list([i for i, is_local in enumerate(local) if is_local])
    raise Unsayable(f"a window in layers {layers} alone")


def generic_metadata(decoder: Decoder) -> dict[str, Value]:
    """Architecture `locus`."""
    found = shape_keys(decoder) | {
        ".norm": decoder.norm,
        ".norm_epsilon": decoder.norm_epsilon,
        ".norm_position": decoder.norm_position,
        ".activation": decoder.activation,
        ".gated": decoder.gated,
        ".position": whole_spec(decoder),
    }
    flags = {
        ".embedding_norm": decoder.embedding_norm,
        ".parallel_residual": decoder.parallel_residual,
        ".expert_weights_norm": decoder.experts is not None and decoder.experts.normed,
    }
    found |= {key: True for key, value in flags.items() if value}
    numbers = {
        ".embedding_scale": (decoder.embedding_scale, 1),
        ".residual_scale": (decoder.residual_scale, 1),
        ".logit_scale": (decoder.logit_scale, 1),
        ".attention.scale": (decoder.attention_scale, None),
        ".attn_logit_softcapping": (decoder.score_cap, 0),
        ".final_logit_softcapping": (decoder.logit_cap, 0),
        ".attention.clip_qkv": (decoder.clip_qkv, 0),
    }
    for key, (value, absent) in numbers.items():
        if value is not None and value != absent:
            found[key] = float(value)
    if any(decoder.local_layers()):
        every = window_every(decoder)
        found[".attention.window"] = decoder.window
        if every:
            found[".attention.window_every"] = every
    return found


def own_window(decoder: Decoder, own: Own) -> dict[str, Value]:
    """attention.sliding_window, and a pattern where it isn't the architecture's."""
    local = decoder.local_layers()
    if not any(local):
        return {".attention.sliding_window": 0} if own.every_second else {}
    found: dict[str, Value] = {".attention.sliding_window": decoder.window}
    if own.every_second and local == [i % 2 == 0 for i in range(decoder.n_layer)]:
        return found
    if not all(local) or own.every_second:
        found[".attention.sliding_window_pattern"] = local
    return found


def own_position(decoder: Decoder, own: Own) -> dict[str, Value]:
    position = decoder.position
    if isinstance(position, Alibi):
        if "max_bias" in own.says and not position.scaled:
            return {".attention.max_alibi_bias": float(position.max_bias)}
        if position != Alibi():
            raise Unsayable(f"position {position.spec()}")
        return {}
    if isinstance(position, Plain):
        return {}
    if position.layers is not None and len(position.layers) < decoder.n_layer:
        raise Unsayable("layers that don't rotate")
    found: dict[str, Value] = {
        ".rope.dimension_count": position.dim,
        ".rope.freq_base": float(position.base),
    }
    keys = position.scaling.keys() if position.scaling else {}
    if keys is None:  # the SPEC stands for all that the keys say
        return {**found, "locus.position": position.spec()}
    return found | keys


def refuse_fixed(decoder: Decoder, own: Own) -> None:
    """What the architecture's name alone says, and no key can change."""
    spec = decoder.position.spec()
    exact = own.position == "learned"
    if spec != own.position if exact else not spec.startswith(own.position):
        raise Unsayable(f"position {spec.split(',')[0]}")
    for name in ("norm", "norm_position", "activation", "gated", "embedding_norm"):
        value = getattr(decoder, name)
        if value != getattr(own, name):
            raise Unsayable(f"{name} {str(value).lower()}")


def own_scales(decoder: Decoder, own: Own) -> dict[str, Value]:
    """Flags and factors, where they aren't the architecture's."""
    root = math.sqrt(decoder.n_embd) if own.root_embedding_scale else 1
    scale = 1 / math.sqrt(decoder.head_dim)
    if decoder.architecture == "gemma2" and decoder.n_layer == 46:  # the 27B
        scale = math.sqrt(decoder.n_head / decoder.n_embd)
    usual = {  # field: key, what it is without
        "parallel_residual": ("use_parallel_residual", own.parallel_residual),
        "embedding_scale": ("embedding_scale", root),
        "residual_scale": ("residual_scale", 1),
        "logit_scale": ("logit_scale", 1),
        "attention_scale": ("attention.scale", scale),
        "score_cap": ("attn_logit_softcapping", own.score_cap),
        "logit_cap": ("final_logit_softcapping", own.logit_cap),
        "clip_qkv": ("attention.clamp_kqv", 0),
    }
    found: dict[str, Value] = {}
    for name, (key, without) in usual.items():
        value = getattr(decoder, name)
        if value is None or math.isclose(value, without, rel_tol=1e-12):
            continue
        if name not in own.says:
            raise Unsayable(f"{name} {value}")
        if name == "logit_scale" and own.divides_logits:
            value = 1 / value
        found["." + key] = value if isinstance(value, bool) else float(value)
    return found


def own_metadata(decoder: Decoder) -> dict[str, Value]:
    """The family's own architecture."""
    own = OWN.get(decoder.architecture)
    if own is None:
        raise Unsayable(f"architecture {decoder.architecture}")
    refuse_fixed(decoder, own)
    epsilon = "layer_norm_epsilon" if own.norm == "layernorm" else "layer_norm_rms_epsilon"
    found = shape_keys(decoder) | {f".attention.{epsilon}": decoder.norm_epsilon}
    if any(decoder.local_layers()) and "window" not in own.says:
        raise Unsayable(f"a window of {decoder.window}")
    if decoder.experts is not None:
        if "experts" not in own.says:
            raise Unsayable("a mixture of experts")
        if decoder.experts.normed != own.normed_experts:
            found[".expert_weights_norm"] = decoder.experts.normed
    return found | own_scales(decoder, own) | own_window(decoder, own) | own_position(decoder, own)
