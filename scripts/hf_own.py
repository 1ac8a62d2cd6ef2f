"""A decoder by the keys of its family's own architecture, as llama.cpp's converter writes them:
what each architecture is by itself (src/model/architectures.c has the same), and how the rest is
said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from checkpoint import Value
from hf_decoder import Alibi, Decoder, Plain, Rope, Unsayable, shape_keys, whole_spec


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
    window: int = 0  # of local layers, where no key says it
    window_every: int = 0  # of so many layers the last isn't local, where no key says it
    wide_scores_layers: int = 0  # a model of so many scales scores by sqrt(n_head / n_embd)
    unrotated_every: int = 0  # of so many layers the last has no positions
    unrotated_global: bool = False  # beside local layers the others have none
    local_base: float = 0  # of local layers' rotation; 0: as others'
    unscaled_local: bool = False  # whose rotation isn't scaled
    bare_norms: bool = False
    whole_ramp: bool = False  # of YaRN: it ends between dimensions, not at whole ones
    needs_window: bool = False  # in some layer
    biased_layers: int = 0  # a model of so many has ALiBi
    headless_scans: bool = False  # layers without key and value heads have a scan
    layout: str = ""  # tensor_data_layout
    keys: Mapping[str, Value] = field(default_factory=dict)  # that other programs ask for
    renamed: Mapping[str, str] = field(default_factory=dict)  # a layer's tensors, if all are there
    says: frozenset[str] = field(default_factory=frozenset)
    needs: frozenset[str] = field(default_factory=frozenset)  # of them, those that all files say


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
        window=4096,
        window_every=2,
        wide_scores_layers=46,
        says=says("score_cap", "logit_cap", "window", "attention_scale"),
    ),
    "olmo2": Own(
        *("rmsnorm", "silu", HALF),
        gated=True,
        norm_position="output",
        window_every=4,
        unscaled_local=True,
        says=says("window"),
    ),
    "command-r": Own(
        *("layernorm", "silu", ADJACENT),
        gated=True,
        parallel_residual=True,
        says=says("logit_scale"),
        needs=says("logit_scale"),
    ),
    "granite": Own(
        *("rmsnorm", "silu", ADJACENT),
        gated=True,
        divides_logits=True,
        says=says("embedding_scale", "attention_scale", "residual_scale", "logit_scale"),
        needs=says("logit_scale"),
    ),
    "phi2": Own("layernorm", "gelu_tanh", HALF, parallel_residual=True),
    "phi3": Own("rmsnorm", "silu", HALF, gated=True, says=says("window")),
    "starcoder2": Own("layernorm", "gelu_tanh", HALF, says=says("window")),
    "stablelm": Own("layernorm", "silu", HALF, gated=True, says=says("parallel_residual")),
    "nemotron": Own("layernorm", "relu_squared", HALF),
    "gemma3": Own(
        *("rmsnorm", "gelu_tanh", HALF),
        gated=True,
        root_embedding_scale=True,
        window_every=6,
        wide_scores_layers=62,
        local_base=10000,
        unscaled_local=True,
        says=says("window", "local_base", "attention_scale", "score_cap", "logit_cap"),
    ),
    "smollm3": Own("rmsnorm", "silu", ADJACENT, gated=True, unrotated_every=4),
    "olmo": Own("layernorm", "silu", ADJACENT, gated=True, bare_norms=True, says=says("clip_qkv")),
    "olmoe": Own("rmsnorm", "silu", HALF, gated=True, says=says("experts", "clip_qkv")),
    "falcon": Own(
        *("layernorm", "gelu_erf", HALF),
        parallel_residual=True,
        layout="jploski",
        renamed={"attn_norm": "attn_norm_2", "ffn_norm": "attn_norm"},
    ),
    "cohere2": Own(
        *("layernorm", "silu", ADJACENT),
        gated=True,
        parallel_residual=True,
        window_every=4,
        unrotated_global=True,
        says=says("window", "logit_scale"),
        needs=says("logit_scale"),
    ),
    "chatglm": Own("rmsnorm", "silu", ADJACENT, gated=True),
    "glm4": Own("rmsnorm", "silu", ADJACENT, gated=True),
    "exaone": Own("rmsnorm", "silu", HALF, gated=True),
    "exaone4": Own(
        *("rmsnorm", "silu", HALF),
        gated=True,
        norm_position="output",
        window_every=4,
        unrotated_global=True,
        says=says("window"),
    ),
    "granitemoe": Own(
        *("rmsnorm", "silu", ADJACENT),
        gated=True,
        divides_logits=True,
        normed_experts=True,
        says=says(
            *("embedding_scale", "attention_scale", "residual_scale", "logit_scale", "experts")
        ),
        needs=says("logit_scale"),
    ),
    "gpt-oss": Own(
        *("rmsnorm", "clipped_swish", HALF),
        gated=True,
        normed_experts=True,
        window_every=2,
        whole_ramp=True,
        needs_window=True,
        renamed={"ffn_norm": "post_attention_norm"},
        says=says("window", "experts"),
    ),
    "seed_oss": Own(
        "rmsnorm", "silu", HALF, gated=True, renamed={"ffn_norm": "post_attention_norm"}
    ),
    "ernie4_5": Own("rmsnorm", "silu", ADJACENT, gated=True),
    "arcee": Own("rmsnorm", "relu_squared", ADJACENT),
    "baichuan": Own(
        *("rmsnorm", "silu", ADJACENT),
        gated=True,
        biased_layers=40,
        layout="Meta AI original pth",
    ),
    "deepseek": Own(
        *("rmsnorm", "silu", ADJACENT),
        gated=True,
        keys={".expert_weights_scale": 1.0},
        says=says("experts"),
    ),
    "internlm2": Own("rmsnorm", "silu", ADJACENT, gated=True),
    "jamba": Own("rmsnorm", "silu", "none", gated=True, headless_scans=True, says=says("scan")),
    "mamba": Own("rmsnorm", "silu", "none", says=says("scan")),
    "mamba2": Own("rmsnorm", "silu", "none", says=says("scan")),
    "minicpm": Own(
        *("rmsnorm", "silu", ADJACENT),
        gated=True,
        divides_logits=True,
        says=says("embedding_scale", "residual_scale", "logit_scale"),
        needs=says("embedding_scale", "residual_scale", "logit_scale"),
    ),
}


# ---- keys ----------------------------------------------------------------------------------


def own_window(decoder: Decoder, own: Own) -> dict[str, Value]:
    """attention.sliding_window, and a pattern where it isn't the architecture's."""
    local, every = decoder.local_layers(), own.window_every
    if not any(local):
        if own.needs_window:
            raise Unsayable("no window in any layer")
        return {".attention.sliding_window": 0} if own.window else {}
    found: dict[str, Value] = {".attention.sliding_window": decoder.window}
    usual = [every == 0 or i % every < every - 1 for i in range(decoder.n_layer)]
    if local != usual:
        found[".attention.sliding_window_pattern"] = local
    return found


def own_layers(decoder: Decoder, own: Own, position: Rope) -> dict[str, Value]:
    """Layers without positions, and local ones of another rotation."""
    local = decoder.local_layers()
    every = own.unrotated_every
    usual = [
        not (own.unrotated_global and any(local) and not local[i])
        and not (every and (i + 1) % every == 0)
        for i in range(decoder.n_layer)
    ]
    if position.rotating(decoder.n_layer) != usual:
        raise Unsayable("which layers rotate")
    if not any(local):
        return {}
    own_rotation = position.local or position
    scaling = None if own.unscaled_local else position.scaling
    if own_rotation.scaling != scaling:
        raise Unsayable("how the rotation of local layers is scaled")
    if own_rotation.base == (own.local_base or position.base):
        return {}
    if "local_base" not in own.says:
        raise Unsayable("local layers whose rotation has another base")
    return {".rope.freq_base_swa": float(own_rotation.base)}


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
    found: dict[str, Value] = {
        ".rope.dimension_count": position.dim,
        ".rope.freq_base": float(position.base),
        **own_layers(decoder, own, position),
    }
    keys = position.scaling.keys(own.whole_ramp) if position.scaling else {}
    if position.share != 1 or (position.local or position).share != 1:
        keys = None
    if keys is None:  # the SPEC stands for all that the keys say
        return {**found, "locus.position": whole_spec(decoder)}
    return found | keys


def refuse_fixed(decoder: Decoder, own: Own) -> None:
    """What the architecture's name alone says, and no key can change."""
    spec = decoder.position.spec()
    usual = "alibi" if decoder.n_layer == own.biased_layers else own.position
    if spec != usual if usual == "learned" else not spec.startswith(usual):
        raise Unsayable(f"position {spec.split(',')[0]}")
    for name in (
        *("norm", "norm_position", "activation", "gated", "embedding_norm"),
        "bare_norms",
    ):
        value = getattr(decoder, name)
        if value != getattr(own, name):
            raise Unsayable(f"{name} {str(value).lower()}")


def own_scales(decoder: Decoder, own: Own) -> dict[str, Value]:
    """Flags and factors, where they aren't the architecture's."""
    root = math.sqrt(decoder.n_embd) if own.root_embedding_scale else 1
    scale = 1 / math.sqrt(decoder.head_dim or 1)
    if decoder.n_layer == own.wide_scores_layers:
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
        is_usual = value is None or math.isclose(value, without, rel_tol=1e-12)
        if is_usual and name not in own.needs:
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
    found |= own.keys
    if own.layout:
        found[".tensor_data_layout"] = own.layout
    if any(decoder.local_layers()) and "window" not in own.says:
        raise Unsayable(f"a window of {decoder.window}")
    if decoder.scan is not None and "scan" not in own.says:
        raise Unsayable("a selective scan")
    if own.headless_scans:
        n, heads = decoder.n_layer, decoder.n_head_kv
        found[".attention.head_count_kv"] = [0 if decoder.has_scan(i) else heads for i in range(n)]
    if decoder.experts is not None:
        if "experts" not in own.says:
            raise Unsayable("a mixture of experts")
        if decoder.experts.normed != own.normed_experts:
            found[".expert_weights_norm"] = decoder.experts.normed
    return found | own_scales(decoder, own) | own_window(decoder, own) | own_position(decoder, own)


def own_names(decoder: Decoder) -> Mapping[str, str]:
    """What the architecture calls tensors of a layer otherwise than all others do."""
    renamed = OWN[decoder.architecture].renamed
    return renamed if renamed.keys() <= decoder.names.parts.keys() else {}
