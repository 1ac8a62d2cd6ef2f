"""Position schemes that turn queries and keys: RoPE with its scalings, and xPos."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from positions import PLACES, Parameter, Position, Shape, SpecError, flag, frequencies

SCALINGS = ("none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope")
PAIRS = ("half", "adjacent")


def turn(rows: Tensor, cos: Tensor, sin: Tensor, pairs: str) -> Tensor:
    """(x0, x1) to (x0 cos - x1 sin, x0 sin + x1 cos) for the pairs (k, k + r/2) or (2k, 2k + 1) of
    the first r dimensions; cos and sin [n, r/2]."""
    dim = 2 * cos.shape[-1]
    turned, rest = rows[..., :dim], rows[..., dim:]
    if pairs == "half":
        x0, x1 = turned.chunk(2, dim=-1)
        out = torch.cat((x0 * cos - x1 * sin, x0 * sin + x1 * cos), dim=-1)
    else:
        x0, x1 = turned[..., 0::2], turned[..., 1::2]
        out = torch.stack((x0 * cos - x1 * sin, x0 * sin + x1 * cos), dim=-1).flatten(-2)
    return torch.cat((out, rest), dim=-1) if rest.shape[-1] > 0 else out


def check_dim(name: str, config: Shape, values: dict[str, Any]) -> dict[str, Any]:
    if values["dim"] is None:
        values = {**values, "dim": config.head_dim}
    dim = values["dim"]
    if dim > config.head_dim or dim % 2 != 0:
        raise SpecError(
            f"position {name}: dim={dim} must be even and at most the head's {config.head_dim}"
        )
    return values


class RopePosition(Position):
    """Rotary positions (Su et al. 2021): angles p base^(-2k/r), and their scalings."""

    name = "rope"
    params = (
        Parameter("pairs", "half", choices=PAIRS, shown=True),
        Parameter("dim", None, low=2, kind=int, shown=True),
        Parameter("base", 10000.0, low=1.0, high=1e15, shown=True),
        Parameter("p", 1.0, low=0.0, high=1.0),
        Parameter("scaling", "none", choices=SCALINGS),
        Parameter("factor", 1.0, low=1e-6, high=1e6),
        Parameter("trained", None, low=1, kind=int),
        Parameter("length", "row", low=1, kind=int, words=("row",)),
        Parameter("beta_fast", 32.0, low=1e-6, high=1e6),
        Parameter("beta_slow", 1.0, low=1e-6, high=1e6),
        flag("truncate", 1),
        Parameter("attn_factor", None, low=1e-6, high=1e6),
        Parameter("low", 1.0, low=1e-6, high=1e6),
        Parameter("high", 4.0, low=1e-6, high=1e6),
        Parameter("factors", "auto", choices=("auto", "short", "long")),
        Parameter("offset", 0, low=0, high=1 << 30, kind=int),
        *PLACES,
        Parameter("nope_every", 0, low=0, kind=int),
    )

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        values = check_dim(self.name, config, values)
        super().__init__(config, values, given)
        half = values["dim"] // 2
        self.n_turned = int(values["p"] * values["dim"] // 2)  # p-RoPE (Barbero et al. 2024)
        self.check_scaling(values)
        self.add_weight("rope_freqs.weight", lambda: torch.ones(half), needed=False)
        if values["scaling"] == "longrope":
            for which in ("short", "long"):
                self.add_weight(f"rope_factors_{which}.weight", lambda: torch.ones(half))
        for name, parameter in self.tensors().items():
            parameter.requires_grad_(False)
            self.expect(name, half)
        by_length = values["scaling"] == "dynamic" or (
            values["scaling"] == "longrope" and values["factors"] == "auto"
        )
        self.by_length = by_length
        self.by_row = by_length and values["length"] == "row"

    @staticmethod
    def check_scaling(v: dict[str, Any]) -> None:
        """Refuse what the engine refuses, too."""
        scaling = v["scaling"]
        if scaling == "none" and v["factor"] != 1:
            raise SpecError("position rope: factor without a scaling")
        if scaling in ("ntk", "dynamic") and v["dim"] < 4:
            raise SpecError(f"position rope: scaling={scaling} needs dim of at least 4")
        if scaling == "yarn" and v["beta_fast"] <= v["beta_slow"]:
            raise SpecError("position rope: beta_fast must be more than beta_slow")
        if scaling == "llama3" and v["high"] <= v["low"]:
            raise SpecError("position rope: high must be more than low")

    def at_length(self, n: int) -> None:
        if self.by_length:
            self.values = {**self.values, "length": n}
            self.by_row, self.rows = False, 0

    # ---- frequencies

    def dynamic_base(self, n: int) -> float:
        """NTK by the text's length n (the "dynamic" of transformers)."""
        v, r = self.values, self.values["dim"]
        if n <= self.trained:
            return v["base"]
        return v["base"] * (v["factor"] * n / self.trained - (v["factor"] - 1)) ** (r / (r - 2))

    def yarn(self, theta: Tensor) -> Tensor:
        """YaRN's NTK-by-parts (Peng et al. 2023, section 3.2): large k divided, small k kept."""
        v, r = self.values, self.values["dim"]

        def dimension(beta: float) -> float:
            turns = math.log(self.trained / (beta * 2 * math.pi))
            return r * turns / (2 * math.log(v["base"]))

        low, high = dimension(v["beta_fast"]), dimension(v["beta_slow"])
        if v["truncate"]:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, r - 1)
        if low == high:
            high += 0.001
        ramp = ((torch.arange(r // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
        return theta / v["factor"] * ramp + theta * (1 - ramp)

    def llama3(self, theta: Tensor) -> Tensor:
        """Llama 3.1: long waves divided, short ones kept, those between mixed."""
        v, wave = self.values, 2 * math.pi / theta
        mix = (self.trained / wave - v["low"]) / (v["high"] - v["low"])
        between = ((1 - mix) / v["factor"] + mix) * theta
        out = torch.where(wave > self.trained / v["low"], theta / v["factor"], between)
        return torch.where(wave < self.trained / v["high"], theta, out)

    def longrope(self, theta: Tensor, n: int) -> Tensor:
        """LongRoPE (Ding et al. 2024): a divisor a dimension, by the text's length n."""
        which = self.values["factors"]
        if which == "auto":
            which = "long" if n > self.trained else "short"
        return theta / self.weight(f"rope_factors_{which}.weight").detach().cpu().double()

    def theta(self, n: int) -> Tensor:
        """Radians a position, double [dim/2], for a text of n positions."""
        v, r = self.values, self.values["dim"]
        scaling, base = v["scaling"], v["base"]
        if scaling == "ntk":
            base = base * v["factor"] ** (r / (r - 2))
        elif scaling == "dynamic":
            base = self.dynamic_base(n)
        theta = frequencies(r, base)
        if "rope_freqs.weight" in self.tensors():
            theta = theta / self.weight("rope_freqs.weight").detach().cpu().double()
        if scaling == "linear":
            theta = theta / v["factor"]
        elif scaling == "yarn":
            theta = self.yarn(theta)
        elif scaling == "llama3":
            theta = self.llama3(theta)
        elif scaling == "longrope":
            theta = self.longrope(theta, n)
        theta[self.n_turned :] = 0
        return theta

    def magnitudes(self) -> Tensor:
        """What each pair's cos and sin are multiplied by, double [dim/2]."""
        turned = torch.arange(self.values["dim"] // 2) < self.n_turned
        return torch.where(turned, self.magnitude(), 1.0).double()

    def magnitude(self) -> float:
        v = self.values
        if v["scaling"] not in ("yarn", "longrope"):
            return 1.0
        if v["attn_factor"] is not None:
            return v["attn_factor"]
        if v["factor"] <= 1:
            return 1.0
        if v["scaling"] == "yarn":
            return 0.1 * math.log(v["factor"]) + 1
        return math.sqrt(1 + math.log(v["factor"]) / math.log(self.trained))

    # ---- hooks

    def build(self, rows: int) -> None:
        length = self.values["length"]
        n = self.trained if length == "row" else length
        places = torch.arange(rows, dtype=torch.float64) + self.values["offset"]
        angle = places[:, None] * self.theta(n)
        self.table("cos", angle.cos() * self.magnitudes())  # [rows, dim/2]
        self.table("sin", angle.sin() * self.magnitudes())

    def groups(self, n: int) -> list[tuple[int, int]] | None:
        if not self.by_row or n <= self.trained:
            return None
        if self.values["scaling"] == "longrope":
            return [(0, self.trained), (self.trained, n)]
        return [(0, self.trained), *((i, i + 1) for i in range(self.trained, n))]

    def rotate(
        self, layer: int, is_query: bool, rows: Tensor, positions: Tensor, reader: int = -1
    ) -> Tensor:
        every = self.values["nope_every"]
        if every > 0 and (layer + 1) % every == 0:
            return rows
        if reader < self.trained:
            cos, sin = self.cos[positions], self.sin[positions]
        else:
            places = positions.cpu().double() + self.values["offset"]
            angle = places[:, None] * self.theta(reader + 1)
            cos = (angle.cos() * self.magnitudes()).to(rows)
            sin = (angle.sin() * self.magnitudes()).to(rows)
        return turn(rows, cos, sin, self.values["pairs"])


class XposPosition(Position):
    """xPos (Sun et al. 2022): rotary, and q times zeta^(p/B), k times zeta^(-p/B), with zeta_k =
    (2k/r + gamma) / (1 + gamma)."""

    name = "xpos"
    params = (
        Parameter("pairs", "adjacent", choices=PAIRS, shown=True),
        Parameter("dim", None, low=2, kind=int, shown=True),
        Parameter("base", 10000.0, low=1.0, high=1e15, shown=True),
        Parameter("scale_base", 512.0, low=1e-6, high=1e15),
        Parameter("gamma", 0.4, low=1e-6, high=1e6),
        Parameter("offset", 0, low=0, high=1 << 30, kind=int),
        *PLACES,
    )

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, check_dim(self.name, config, values), given)

    def build(self, rows: int) -> None:
        v, r = self.values, self.values["dim"]
        p = torch.arange(rows, dtype=torch.float64)[:, None] + v["offset"]
        angle = p * frequencies(r, v["base"])
        zeta = (torch.arange(0, r, 2, dtype=torch.float64) / r + v["gamma"]) / (1 + v["gamma"])
        scale = zeta ** (p / v["scale_base"])
        for key, by in (("query", scale), ("key", 1 / scale)):
            self.table(f"{key}_cos", angle.cos() * by)
            self.table(f"{key}_sin", angle.sin() * by)

    def rotate(
        self, layer: int, is_query: bool, rows: Tensor, positions: Tensor, reader: int = -1
    ) -> Tensor:
        cos, sin = self.key_cos, self.key_sin
        if is_query:
            cos, sin = self.query_cos, self.query_sin
        return turn(rows, cos[positions], sin[positions], self.values["pairs"])
