"""A decoder as configurations of Hugging Face tell it, and how a GGUF file says the same.

A family reads its config.json into a `Decoder`. `generic_metadata` says it with the keys of the
architecture `locus`, which spells every choice out; hf_own.py with those of the family's own. What
one of them has no key for is told by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from checkpoint import Tensor, Value
from hf_names import Names, Transform


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

    def keys(self, whole_ramp: bool = False) -> dict[str, Value] | None:
        """The keys of a family; None: there are none that say it. `whole_ramp`: YaRN's ends between
        dimensions in the family."""
        prefix = ".rope.scaling."
        if self.kind == "llama3":
            return {}
        if self.kind == "dynamic" or (self.kind == "yarn" and self.truncate == whole_ramp):
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
    share: float = 1  # of the pairs, those of the highest frequencies, that rotate (p-RoPE)
    layers: tuple[int, ...] | None = None  # that rotate; None: all
    local: Rope | None = None  # of layers with a window, where it is another

    def only(self, layers: Sequence[int]) -> Rope:
        """The same in some layers."""
        return replace(self, layers=tuple(layers))

    def rotating(self, n_layer: int) -> list[bool]:
        return [self.layers is None or i in self.layers for i in range(n_layer)]

    def spec(self) -> str:
        text = f"rope:pairs={self.pairs},dim={self.dim},base={number(self.base)}"
        text += f",p={number(self.share)}" if self.share != 1 else ""
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


@dataclass(frozen=True)
class Table:
    """A tensor of a position scheme by its whole name in a file and in a folder, where {} is the
    layer if each has one. A transform keeps the shape."""

    ours: str
    theirs: str
    shape: tuple[int, ...]
    transform: Transform | None = None


# ---- the decoder ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of the MLP."""

    n: int
    n_used: int
    n_ff: int
    normed: bool  # the shares of a token's experts add up to 1
    n_ff_shared: int = 0  # of the one that every token takes
    n_shared: int = 0  # of which that one is made, each as wide as others; 0: its width is told
    n_dense: int = 0  # layers before the first that has experts


@dataclass(frozen=True)
class Scan:
    """Mamba's selective scan in place of attention."""

    n_inner: int
    n_state: int
    n_conv: int
    rank: int  # of what a token's step comes from
    normed: bool = False  # step, b and c are normed, with weights or without
    norm_epsilon: float | None = None  # of those norms; None: as others'
    mixer = "mamba"  # as locus.mixer has it

    def shapes(self, n_embd: int) -> dict[str, tuple[int, ...]]:
        """Of its tensors in a checkpoint."""
        return {
            "ssm_in": (2 * self.n_inner, n_embd),
            "ssm_conv1d": (self.n_inner, self.n_conv),
            "ssm_x": (self.rank + 2 * self.n_state, self.n_inner),
            "ssm_dt": (self.n_inner, self.rank),
            "ssm_a": (self.n_inner, self.n_state),
            "ssm_d": (self.n_inner,),
            "ssm_out": (n_embd, self.n_inner),
            "ssm_dt_norm": (self.rank,),
            "ssm_b_norm": (self.n_state,),
            "ssm_c_norm": (self.n_state,),
        }

    def keys(self) -> dict[str, Value]:
        found: dict[str, Value] = {
            ".ssm.conv_kernel": self.n_conv,
            ".ssm.inner_size": self.n_inner,
            ".ssm.state_size": self.n_state,
            ".ssm.time_step_rank": self.rank,
            ".ssm.dt_b_c_rms": self.normed,
        }
        if self.norm_epsilon is not None:
            found["locus.ssm.norm_epsilon"] = self.norm_epsilon
        return found


@dataclass(frozen=True)
class HeadScan:
    """Mamba 2's: the channels of a head decay alike, heads of a group share their b and c."""

    n_inner: int
    n_state: int
    n_conv: int
    n_head: int
    n_group: int
    mixer = "mamba2"

    def shapes(self, n_embd: int) -> dict[str, tuple[int, ...]]:
        n_convolved = self.n_inner + 2 * self.n_group * self.n_state
        return {
            "ssm_in": (self.n_inner + n_convolved + self.n_head, n_embd),
            "ssm_conv1d": (n_convolved, self.n_conv),
            "ssm_dt.bias": (self.n_head,),
            "ssm_a": (self.n_head, 1),
            "ssm_d": (self.n_head, 1),
            "ssm_norm": (self.n_group, self.n_inner // self.n_group),
            "ssm_out": (n_embd, self.n_inner),
        }

    def keys(self) -> dict[str, Value]:
        return {
            ".ssm.conv_kernel": self.n_conv,
            ".ssm.inner_size": self.n_inner,
            ".ssm.state_size": self.n_state,
            ".ssm.time_step_rank": self.n_head,
            ".ssm.group_count": self.n_group,
        }


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
    bare_norms: bool = False  # have no weights
    bare_head_norms: bool = False  # queries and keys have such norms, too
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
    scan: Scan | HeadScan | None = None
    scanned: tuple[bool, ...] = ()  # which layers have the scan; (): all, and n_head is 0
    tied: bool = False
    tables: tuple[Table, ...] = ()  # of the position scheme, beside position_embd
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

    def has_scan(self, layer: int) -> bool:
        return self.scan is not None and (not self.scanned or self.scanned[layer])

    def local_layers(self) -> list[bool]:
        """Whether each layer has the window."""
        return [self.window > 0] * self.n_layer if not self.local else list(self.local)


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
    if decoder.n_head and decoder.head_dim * decoder.n_head != decoder.n_embd:
        found[".attention.key_length"] = found[".attention.value_length"] = decoder.head_dim
    if decoder.scan is not None:
        found |= decoder.scan.keys()
    experts = decoder.experts
    if experts is not None:
        found[".expert_count"], found[".expert_used_count"] = experts.n, experts.n_used
        found[".expert_feed_forward_length"] = experts.n_ff
        if experts.n_shared:
            found[".expert_shared_count"] = experts.n_shared
        elif experts.n_ff_shared:
            found[".expert_shared_feed_forward_length"] = experts.n_ff_shared
        if experts.n_dense:
            found[".leading_dense_block_count"] = experts.n_dense
    return found


def layer_list(marked: Sequence[bool]) -> str:
    """The layers that are marked, as a SPEC names them: 0::6,1::6, or one by one."""
    n = len(marked)
    for period in range(1, min(n, 13)):
        if all(marked[i] == marked[i + period] for i in range(n - period)):
            return ",".join(
                f"{i}::{period}" if i + period < n else str(i) for i in range(period) if marked[i]
            )
    return ",".join(str(i) for i in range(n) if marked[i])


MOST = 1023  # bytes of a SPEC


def whole_spec(decoder: Decoder) -> str:
    """The SPEC of locus.position."""
    position = decoder.position
    text = position.spec()
    if isinstance(position, Rope):
        rotating, local = position.rotating(decoder.n_layer), decoder.local_layers()
        if not all(rotating):
            text += f"; layers {layer_list([not rotates for rotates in rotating])} none"
        if position.local is not None and any(local):
            other, scaling = position.local, position.local.scaling
            more = f",p={number(other.share)}" if other.share != position.share else ""
            more += scaling.spec() if scaling else ",scaling=none,factor=1" * bool(position.scaling)
            text += f"; layers {layer_list(local)} rope:base={number(other.base)}{more}"
    if len(text) > MOST:
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
    raise Unsayable(f"a window in layers {layer_list(local)} alone")


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
    if decoder.scan is not None:
        scan, n = decoder.scan.mixer, decoder.n_layer
        mixers = [scan if decoder.has_scan(i) else "attention" for i in range(n)]
        found[".mixer"] = mixers if decoder.scanned else scan
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
