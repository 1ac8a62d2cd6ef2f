"""The golden cases of cache policies: the distance at which each token sees each other, from the
papers' definitions, pair by pair, and transformers' Llama with an attention of those distances."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from biases import alibi_slopes
from golden_schemes import BASE, SHARED, SchemeCase, llama

HIDDEN = None  # a token that isn't seen
Distance = Callable[[int, int], float | None]  # of tokens i and j <= i


def window(size: int) -> Distance:
    return lambda i, j: i - j if i - j < size else HIDDEN


def sinks(keep: int, size: int) -> Distance:
    """StreamingLLM (Xiao et al. 2023): positions are those in the cache, which holds the first
    `keep` tokens and the last."""

    def distance(i: int, j: int) -> float | None:
        held = list(range(i + 1))
        if len(held) > size:
            held = held[:keep] + held[-(size - keep) :]
        return held.index(i) - held.index(j) if j in held else HIDDEN

    return distance


def self_extend(group: int, near: int) -> Distance:
    """Jin et al. 2024: positions by the floor, far tokens moved up to where near ones end."""
    moved = near - near // group
    return lambda i, j: i - j if i - j < near else i // group + moved - j // group


def rerope(near: int) -> Distance:
    return lambda i, j: min(i - j, near)


def leaky_rerope(near: int, k: float) -> Distance:
    return lambda i, j: i - j if i - j < near else near + (i - j - near) / k


def dual_chunk(s: int, w: int) -> Distance:
    """An et al. 2024, section 3.2, with a trained length c of s + w."""
    c = s + w
    keys = list(range(s))
    intra, successive = keys, [*range(s, s + w), *[c - 1] * (s - w)]

    def distance(i: int, j: int) -> float:
        chunks = i // s - j // s
        query = intra[i % s] if chunks == 0 else successive[i % s] if chunks == 1 else c - 1
        return query - keys[j % s]

    return distance


@dataclass(frozen=True)
class Policy:
    attention: str
    distance: Distance

    def case(self, position: str) -> SchemeCase:
        """As a SPEC that the test splits again."""
        return SchemeCase("schemes", f"{position} -A {self.attention}", distance=self.distance)


ROPE = f"rope:pairs=half,base={BASE:g}"
DUAL = Policy("dual-chunk:chunk=9,window=5", dual_chunk(9, 5))
POLICY_CASES: dict[str, SchemeCase] = {
    "rope-window": Policy("window:size=11", window(11)).case(ROPE),
    "rope-sinks": Policy("sinks:keep=3,size=12", sinks(3, 12)).case(ROPE),
    "rope-self-extend": Policy("self-extend:group=3,window=8", self_extend(3, 8)).case(ROPE),
    "rope-rerope": Policy("rerope:window=10", rerope(10)).case(ROPE),
    "rope-leaky-rerope": Policy("leaky-rerope:window=10,k=4", leaky_rerope(10, 4)).case(ROPE),
    "rope-dual-chunk": DUAL.case(ROPE),
    "alibi-dual-chunk": DUAL.case("alibi"),
}


def distances(distance: Distance, n: int) -> Tensor:
    """[n, n]; NaN: not seen."""
    out = torch.full((n, n), torch.nan)
    for i in range(n):
        for j in range(i + 1):
            found = distance(i, j)
            if found is not HIDDEN:
                out[i, j] = found
    return out


def scores(position: str, q: Tensor, k: Tensor, apart: Tensor) -> Tensor:
    """q, k [n_head, n, head_dim]; apart [n, n]; unscaled where the scheme rotates."""
    n_head, _, width = q.shape
    plain = torch.einsum("hid,hjd->hij", q, k) / width**0.5
    if position == "alibi":
        slopes = torch.tensor(alibi_slopes(n_head, 8.0))
        return plain - slopes[:, None, None] * apart
    theta = BASE ** (-torch.arange(0, width, 2) / width)
    angle = apart[:, :, None] * theta
    cos, sin = angle.cos(), angle.sin()
    half = width // 2
    q0, q1 = q[:, :, None, :half], q[:, :, None, half:]
    turned = torch.cat([q0 * cos - q1 * sin, q0 * sin + q1 * cos], -1)
    return torch.einsum("hijd,hjd->hij", turned, k) / width**0.5


def attend(position: str, apart: Tensor, attention: Any, x: Tensor) -> Tensor:
    """[1, n, n_embd] to the same, by transformers' projections."""
    n, width = x.shape[1], SHARED.head_dim
    q, k, v = (
        projection(x)[0].view(n, -1, width).transpose(0, 1)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    shared = SHARED.n_head // SHARED.n_head_kv
    k, v = (rows.repeat_interleave(shared, dim=0) for rows in (k, v))
    found = scores(position, q, k, apart.nan_to_num(0))
    weights = found.masked_fill(apart.isnan(), -torch.inf).softmax(-1)
    mixed = torch.einsum("hij,hjd->ihd", weights, v).reshape(1, n, -1)
    return attention.o_proj(mixed)


def policy_logits(case: SchemeCase, tensors: Mapping[str, np.ndarray], tokens: Tensor) -> Tensor:
    """[n, n_vocab]. torch's default type must be float64."""
    assert case.distance and case.position
    model = llama(case, tensors)
    apart = distances(case.distance, len(tokens))
    name = case.position.split(" ")[0].split(":")[0]

    def forward(attention: nn.Module, hidden_states: Tensor, **_: Any) -> tuple[Tensor, None]:
        return attend(name, apart, attention, hidden_states), None

    for layer in model.model.layers:
        layer.self_attn.forward = functools.partial(forward, layer.self_attn)
    with torch.no_grad():
        return model(input_ids=tokens[None]).logits[0]
