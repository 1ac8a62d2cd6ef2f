"""Rotary positions in a configuration of Hugging Face: rope_parameters (transformers 5), or
rope_theta with rope_scaling (before), and the names that some families have for them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np

from hf_decoder import Rope, Scaling
from hf_folder import Config, shown
from output import Failure

NOTHING = re.compile(r"finetuned")  # of no effect in rope_scaling
KINDS = {  # of scaling, older names among them: the SPEC's
    "default": None,
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "llama3": "llama3",
    "longrope": "longrope",
    "su": "longrope",
    "proportional": "linear",  # of a share of the pairs
}


def read_rope(
    c: Config,
    shape: dict[str, Any],
    pairs: str = "half",
    *,
    base: str = "rope_theta",
    partial: str = "partial_rotary_factor",
    default: float = 10000.0,
    share: float | None = None,
    older: str = "",
) -> Rope:
    """`base` and `partial` are the family's other keys of the frequencies' base and of the share of
    a head that rotates, `default` and `share` their values where there is none. Without `share` the
    family's class rotates whole heads. `older` is a name of the share that the class no longer
    reads, which mustn't say another."""
    for other, key in ((base, "rope_theta"), (partial, "partial_rotary_factor")):
        if other != key:
            c.rename(other, key)
    own, old = c.section("rope_parameters"), c.section("rope_scaling")
    parameters = own if own.values else old
    if own.values and old.values and own.values != old.values:
        raise Failure(f"{c.path}: rope_parameters and rope_scaling, its older name, differ")
    theta = c.positive("rope_theta", default)
    rope = read_parameters(c, parameters, shape, pairs, theta, share)
    if older and c.has(older) and int(shape["head_dim"] * c.get(older, float)) != rope.dim:
        what = f"{older} is {c.get(older, float)}, but partial_rotary_factor"
        raise Failure(f"{c.path}: {what}, which is read, makes {rope.dim} dimensions rotate")
    return rope


def read_layered_rope(
    c: Config, shape: dict[str, Any], default: float, local: float | None = None
) -> Rope:
    """Local layers (sliding_attention) have a rotation of their own; before transformers 5 its base
    was rope_local_base_freq, and rope_scaling that of the others. `default` and `local` are bases
    where there is none; None: the others', and the class has no such key."""
    parameters, old = c.section("rope_parameters"), c.section("rope_scaling")
    theta = c.positive("rope_theta", default)
    other = theta if local is None else c.positive("rope_local_base_freq", local)
    if parameters.values:
        whole = parameters.section("full_attention")
        part = parameters.section("sliding_attention")
        parameters.refuse_unknown(NOTHING)
    else:
        whole, part = old, Config(c.path, "sliding_attention", {})
    rope = read_parameters(c, whole, shape, "half", theta, None)
    narrow = read_parameters(c, part, shape, "half", other, None)
    if rope.scaling and rope.scaling.kind in ("llama3", "longrope"):
        kind = rope.scaling.kind
        raise Failure(f"{whole.path}: rope_type {kind} beside layers of another rotation")
    return rope if narrow == rope else replace(rope, local=narrow)


def read_parameters(
    c: Config,
    parameters: Config,
    shape: dict[str, Any],
    pairs: str,
    theta: float,
    share: float | None,
) -> Rope:
    """`theta` and `share` where the parameters don't say them; no `share`: whole heads rotate."""
    nested = [key for key, value in parameters.values.items() if isinstance(value, dict)]
    if nested:
        raise Failure(
            f"{parameters.path}: {shown(nested[0])} has a rotation of its own; one for all layers "
            "is expected"
        )
    theta = parameters.get("rope_theta", float, theta)
    usual = 1.0 if share is None else share
    part = parameters.get(
        "partial_rotary_factor", float, c.get("partial_rotary_factor", float, usual)
    )
    if theta < 1:
        raise Failure(f"{c.path}: rope_theta is {theta}, expected 1 or more")
    if rope_kind(parameters) == "proportional":
        return read_proportional(parameters, shape, pairs, theta, part)
    if share is None and part != 1:
        raise Failure(
            f"{c.path}: partial_rotary_factor is {part}, which this family's class passes over; "
            "1 is expected"
        )
    dim = int(shape["head_dim"] * part)
    if not 2 <= dim <= shape["head_dim"] or dim % 2 != 0:
        head = shape["head_dim"]
        raise Failure(
            f"{c.path}: partial_rotary_factor {part} makes {dim} of a head's {head} dimensions "
            "rotate; an even number is expected"
        )
    scaling = read_scaling(c, parameters, shape["n_context"], dim)
    parameters.refuse_unknown(NOTHING)
    return Rope(dim, theta, pairs, scaling)


def read_proportional(
    p: Config, shape: dict[str, Any], pairs: str, theta: float, part: float
) -> Rope:
    """p-RoPE (Barbero et al., arXiv 2410.06205): frequencies are those of whole heads, divided by
    `factor`; of the pairs the share `part` rotates."""
    head, factor = shape["head_dim"], p.positive("factor", 1.0)
    n = int(part * head // 2)
    if not 1 <= n <= head // 2:
        what = f"partial_rotary_factor {part} makes {n} of a head's {head // 2} pairs rotate"
        raise Failure(f"{p.path}: {what}; one to all are expected")
    p.refuse_unknown(NOTHING)
    scaling = None if factor == 1 else Scaling("linear", factor, shape["n_context"])
    return Rope(head, theta, pairs, scaling, share=1 if n == head // 2 else part)


def rope_kind(p: Config) -> str:
    return p.get("rope_type", str, p.get("type", str, "default"))


def read_scaling(c: Config, p: Config, n_context: int, dim: int) -> Scaling | None:
    kind = rope_kind(p)
    if kind not in KINDS:
        raise Failure(f"{p.path}: rope_type {shown(kind)} is unknown; known: {', '.join(KINDS)}")
    name = KINDS[kind]
    key = "original_max_position_embeddings"
    trained = c.count(key, p.count(key, n_context))
    if name is None:
        return None
    if name in ("linear", "dynamic"):
        return Scaling(name, p.positive("factor"), n_context)
    if name == "llama3":
        low, high = p.positive("low_freq_factor"), p.positive("high_freq_factor")
        return Scaling(name, p.positive("factor"), trained, low=low, high=high)
    stretched = n_context / trained
    if name == "yarn":
        # Only a factor that is there and null is made of the lengths.
        implied = stretched if "factor" in p.values else None
        return read_yarn(p, p.positive("factor", implied), trained)
    factors = {key: read_factors(p, key, dim // 2) for key in ("short_factor", "long_factor")}
    factor = p.positive("factor", stretched)
    if trained == 1:
        raise Failure(f"{c.path}: {key} is 1; longrope expects 2 or more")
    usual = math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0
    return Scaling(
        name,
        stretched,
        trained,
        attention=p.positive("attention_factor", as_stored(usual)),
        short_factors=factors["short_factor"],
        long_factors=factors["long_factor"],
    )


def as_stored(value: float) -> float:
    """A number as a key of a file holds it."""
    return float(np.float32(value))


def read_yarn(p: Config, factor: float, trained: int) -> Scaling:
    """DeepSeek's mscale and mscale_all_dim multiply the logarithms of two m's, of which one is
    divided by the other."""

    def m(share: float) -> float:
        return 0.1 * share * math.log(factor) + 1 if factor > 1 else 1.0

    attention = p.positive("attention_factor") if p.has("attention_factor") else None
    above, below = p.get("mscale", float, 0.0), p.get("mscale_all_dim", float, 0.0)
    if attention is None and above and below:
        attention = as_stored(m(above) / m(below))
    return Scaling(
        "yarn",
        factor,
        trained,
        attention=None if attention is None or math.isclose(attention, m(1)) else attention,
        beta_fast=p.positive("beta_fast", 32),
        beta_slow=p.positive("beta_slow", 1),
        truncate=p.get("truncate", bool, True),
    )


def read_factors(p: Config, key: str, n: int) -> tuple[float, ...]:
    values = p.get(key, list)
    if len(values) != n:
        raise Failure(f"{p.path}: {key} has {len(values)} numbers, expected {n}")
    for value in values:
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise Failure(f"{p.path}: {key} has {shown(value)}, expected numbers above 0")
    return tuple(float(value) for value in values)
