"""What mixes tokens in a layer of the decoder in place of attention. Each is listed in `MIXERS`
under its name, which is also that of `locus.mixer`; such a layer needs no position scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from checkpoint import Value
from hyena import Hyena
from positions import frequencies
from rotary import turn
from selective_scan import Mamba

ROWS = 64  # tokens whose scores are made at a time


class Sizes(Protocol):
    """What a mixer takes of a DecoderConfig."""

    n_embd: int
    n_head: int
    head_dim: int
    value_dim: int | None
    norm_epsilon: float


class Retention(nn.Module):
    """Multi-scale retention (Sun et al. 2023, arXiv 2307.08621, equations 5 and 8) in its parallel
    form: [batch, n, n_embd] to the same shape.

        y_i = sum over j <= i of gamma^(i - j) (q_i . k_j) v_j      gamma = 1 - 2^(-5 - head)
        out = output(silu(gate(x)) * norm of each head's y)

    q and k are turned as xPos turns them, by angles n 10000^(-2k/d) of adjacent pairs, and k is
    divided by sqrt(d), where d is their width. The norm has no weights. What the paper divides
    scores by, for the sake of half precision, drops out in it."""

    PARTS = ("q", "k", "v", "gate", "output")

    def __init__(self, config: Sizes) -> None:
        super().__init__()
        d, self.n_head, self.key_dim = config.n_embd, config.n_head, config.head_dim
        self.value_dim = config.value_dim or 2 * self.key_dim
        self.epsilon = config.norm_epsilon
        if self.key_dim % 2 != 0:
            raise ValueError(f"retention: a head's width {self.key_dim} must be even")
        self.q = nn.Linear(d, self.n_head * self.key_dim, bias=False)
        self.k = nn.Linear(d, self.n_head * self.key_dim, bias=False)
        self.v = nn.Linear(d, self.n_head * self.value_dim, bias=False)
        self.gate = nn.Linear(d, self.n_head * self.value_dim, bias=False)
        self.output = nn.Linear(self.n_head * self.value_dim, d, bias=False)

    @staticmethod
    def metadata(config: Sizes) -> dict[str, Value]:
        return {
            ".retention.head_count": config.n_head,
            ".retention.key_length": config.head_dim,
            ".retention.value_length": config.value_dim or 2 * config.head_dim,
        }

    def tensors(self) -> dict[str, Tensor]:
        """By their names in a checkpoint, after "blk.N."."""
        return {f"retention_{name}.weight": getattr(self, name).weight for name in self.PARTS}

    def heads(self, rows: Tensor, width: int) -> Tensor:
        return rows.unflatten(-1, (self.n_head, width)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        places = torch.arange(n, dtype=torch.float64)
        angle = (places[:, None] * frequencies(self.key_dim, 10000.0)).to(x.device)
        kind = torch.get_default_dtype()
        cos, sin = angle.cos().to(kind), angle.sin().to(kind)
        q = turn(self.heads(self.q(x), self.key_dim), cos, sin, "adjacent")
        k = self.key_dim**-0.5 * turn(self.heads(self.k(x), self.key_dim), cos, sin, "adjacent")
        v = self.heads(self.v(x), self.value_dim)
        q, k = q.to(v.dtype), k.to(v.dtype)
        head = torch.arange(self.n_head, dtype=torch.float64)
        log_gamma = torch.log1p(-(2.0 ** (-5 - head)))[:, None, None].to(x.device)
        places, mixed = places.to(x.device), []
        for start in range(0, n, ROWS):
            stop = min(start + ROWS, n)
            distance = places[start:stop, None] - places[:stop]
            decay = torch.exp(log_gamma * distance).masked_fill(distance < 0, 0).to(kind)
            scores = q[:, :, start:stop] @ k[:, :, :stop].transpose(-1, -2) * decay
            mixed.append(scores.to(v.dtype) @ v[:, :, :stop])
        y = torch.cat(mixed, dim=2).to(kind)
        y = F.layer_norm(y, (self.value_dim,), eps=self.epsilon)
        return self.output(F.silu(self.gate(x)) * y.transpose(1, 2).flatten(-2))


MIXERS: dict[str, type[Retention | Mamba | Hyena]] = {
    "retention": Retention,
    "mamba": Mamba,
    "hyena": Hyena,
}
HEADLESS = ("mamba", "hyena")  # for which a shape has one head, as wide as the model


def heads_of(
    mixers: Sequence[str], n_embd: int, get: Callable[..., Any]
) -> tuple[int, int, int | None]:
    """Heads, their width and that of retention's values; attention and retention have the same."""
    n_head, head_dim, value_dim = None, None, None
    if "attention" in mixers:
        n_head = get("attention.head_count")
        head_dim = get("attention.key_length", n_embd // n_head)
    if "retention" in mixers:
        shape = get("retention.head_count"), get("retention.key_length")
        value_dim = get("retention.value_length")
        if n_head is not None and shape != (n_head, head_dim):
            raise ValueError("attention and retention differ in heads; this decoder has one shape")
        n_head, head_dim = shape
    return n_head or 1, head_dim or n_embd, value_dim


def sizes_of(mixers: Sequence[str], get: Callable[..., Any]) -> dict[str, int]:
    """Those of mamba, by their names in DecoderConfig; what norms its steps is refused."""
    if "mamba" not in mixers:
        return {}
    if get("ssm.dt_b_c_rms", False):
        raise ValueError("ssm.dt_b_c_rms: this decoder norms no steps")
    keys = {"n_inner": "inner_size", "n_state": "state_size", "n_conv": "conv_kernel"}
    keys["rank"] = "time_step_rank"
    return {name: get(f"ssm.{key}") for name, key in keys.items()}
