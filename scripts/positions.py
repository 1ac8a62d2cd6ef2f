"""Position schemes in PyTorch, written from their papers: a second implementation beside the
engine's, for training, evaluation and golden data.

A scheme is one subclass of `Position`, listed in decoder.py's `SCHEMES` (rotary.py has those that
turn queries and keys, biases.py those that add to scores). The decoder calls its hooks at fixed
places and never asks which scheme it runs:

    embed   adds to the token embeddings
    rotate  changes queries and keys
    bias    gives what is added to the scaled scores
    combine does more with the scores of all heads

Tables are made in double and kept in torch's default type. Weights are called and shaped as in a
checkpoint; `blk.N.` names are a layer's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpecError(ValueError):
    """A position SPEC that cannot be served; the message is one line."""


class Shape(Protocol):
    """What a scheme may know of the decoder."""

    n_embd: int
    n_layer: int
    n_head: int
    head_dim: int
    n_context: int  # the trained length

    @property
    def scale(self) -> float: ...  # of the scores


@dataclass(frozen=True)
class Parameter:
    """One key of a SPEC. `choices` make it an enumeration; `words` are texts that stand beside
    numbers; a default of None is filled in by the scheme. `shown` keys are always printed, others
    only when not the default."""

    key: str
    default: Any
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    shown: bool = False
    kind: type = float
    words: tuple[str, ...] = ()

    def parse(self, text: str, scheme: str) -> Any:
        if self.choices and text not in self.choices:
            raise SpecError(
                f"position {scheme}: {self.key}={text} is not one of {', '.join(self.choices)}"
            )
        if self.choices or text in self.words:
            return text
        try:
            value = self.kind(text)
        except ValueError:
            want = " or ".join((*self.words, "an integer" if self.kind is int else "a number"))
            raise SpecError(f"position {scheme}: {self.key}={text} is not {want}") from None
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise SpecError(
                f"position {scheme}: {self.key}={text} is outside [{self.low:g}, {self.high:g}]"
            )
        return value


def flag(key: str, default: int) -> Parameter:
    return Parameter(key, default, low=0, high=1, kind=int)


# Where positions are, of schemes of absolute ones.
PLACES = (
    Parameter("random", 0, low=0, high=1 << 24, kind=int),
    Parameter("seed", 0, low=0, high=2**31 - 1, kind=int),
)


def random_bits(seed: int) -> Iterator[int]:
    """64 bits at a time: xoshiro256++ (Blackman and Vigna 2018), seeded through SplitMix64."""
    mask, state = (1 << 64) - 1, []
    for _ in range(4):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        state.append(z ^ z >> 31)

    def turn(x: int, n: int) -> int:
        return (x << n | x >> 64 - n) & mask

    a, b, c, d = state
    while True:
        yield (turn((a + d) & mask, 23) + a) & mask
        c, d = c ^ a, d ^ b
        a, b, c, d = a ^ d, b ^ c, c ^ (b << 17 & mask), turn(d, 45)


@functools.lru_cache
def drawn_places(n: int, length: int, seed: int) -> tuple[int, ...]:
    """A sorted sample of n of 0 .. length-1, as a session of n positions draws it (Knuth's
    selection sampling)."""
    bits, places = random_bits(seed), []
    for place in range(length):
        if (next(bits) >> 32) * (length - place) >> 32 < n - len(places):
            places.append(place)
    return tuple(places)


# Keys of any scheme, which act outside it.
COMMON = (
    Parameter("logn", "none", choices=("none", "position")),
    Parameter("temperature", 1.0, low=1e-6, high=1e6),
)


def format_value(value: Any) -> str:
    """A SPEC value as its shortest text: 10000.0 is `10000`."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


class Position(nn.Module):
    """A position scheme. The defaults of the hooks do nothing (`none` is exactly that).

    Positions are absolute integers, int64 [n], rising. `reserve` makes tables for
    positions 0 .. rows-1. `given` holds a checkpoint's tensors; without it weights are made anew.
    """

    name: ClassVar[str] = "none"
    aliases: ClassVar[tuple[str, ...]] = ()
    params: ClassVar[tuple[Parameter, ...]] = ()
    has_bias: ClassVar[bool] = False
    combines: ClassVar[bool] = False
    # Whether the bias follows from positions and weights that all layers share.
    one_bias: bool = False

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        self.config, self.values, self.given = config, values, given
        self.rows = 0
        self.trained = values.get("trained") or config.n_context
        self.temperature = values["temperature"]  # divides scores, after the bias
        self.named = nn.ParameterDict()  # by checkpoint name, "/" for "."

    # ---- hooks

    def embed(self, tokens: Tensor, x: Tensor, positions: Tensor) -> Tensor:
        """x [batch, n, n_embd], after embedding_scale and before any embedding norm."""
        return x

    def rotate(
        self, layer: int, is_query: bool, rows: Tensor, positions: Tensor, reader: int = -1
    ) -> Tensor:
        """rows [batch, n_heads, n, head_dim], queries or keys, after projection. `reader` is the
        position of the query row they are for, where `groups` says that it matters."""
        return rows

    def groups(self, n: int) -> list[tuple[int, int]] | None:
        """Runs [start, stop) of the query rows 0 .. n-1 that read the same rotated keys, or None
        if all of them do."""
        return None

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        """What is added to the scaled scores, broadcastable to [batch, n_head, n, n], -inf for
        future keys. q and k are as rotate left them, x [batch, n, n_embd] is what they are
        projected from. Only called when `has_bias`; with `one_bias` once a forward pass, its layer,
        q, k and x then mean nothing."""
        raise NotImplementedError

    def combine(self, layer: int, scores: Tensor, bias: Tensor) -> Tensor:
        """What the softmax sees, of scaled scores [batch, n_head, queries, keys] and `bias` of the
        same rows and keys. Only called when `combines`, else it is their sum."""
        raise NotImplementedError

    # ---- the keys of any scheme, and of those of absolute positions

    def scale_queries(self, q: Tensor) -> Tensor:
        """q [batch, n_head, n, head_dim], as projected: logn=position multiplies the query at p by
        max(1, ln(p + 1) / ln(trained length))."""
        if self.values["logn"] == "none":
            return q
        count = torch.arange(1, q.shape[2] + 1, dtype=torch.float64, device=q.device)
        scale = count.log() / math.log(self.trained)
        return q * scale.clamp(min=1)[:, None].to(q.dtype)

    def places(self, n: int, device: torch.device) -> Tensor:
        """Where n tokens are, int64 [n], and tables for as many: 0 .. n-1, or with random=LENGTH a
        sorted sample of 0 .. LENGTH-1 (Ruoss et al. 2023), in training a fresh one each time."""
        length = self.values.get("random", 0)
        self.reserve(length or n)
        if length == 0:
            return torch.arange(n, device=device)
        if n > length:
            raise SpecError(f"position {self.name}: random={length}, but {n} positions are needed")
        if self.training:
            return torch.randperm(length, device=device)[:n].sort().values
        return torch.tensor(drawn_places(n, length, self.values["seed"]), device=device)

    # ---- tables and weights

    def at_length(self, n: int) -> None:
        """Let what depends on the text's length take it as n, for every row."""

    def reserve(self, rows: int) -> None:
        """Make positions 0 .. rows-1 available."""
        if rows > self.rows:
            self.build(rows)
            self.rows = rows

    def build(self, rows: int) -> None:
        """Precompute tables for positions 0 .. rows-1."""

    def table(self, key: str, values: Tensor) -> None:
        """Keep a table as a buffer that no state holds: floats in torch's default type."""
        device = getattr(self, key).device if hasattr(self, key) else None
        kind = torch.get_default_dtype() if values.is_floating_point() else values.dtype
        self.register_buffer(key, values.to(device, kind), persistent=False)

    def add_weight(
        self, name: str, make: Callable[[], Tensor], *, layers: bool = False, needed: bool = True
    ) -> None:
        """A weight `name`, or one a layer where the checkpoint has it so (where there is none:
        where `layers`). `make` initialises one."""
        own = [f"blk.{i}.{name}" for i in range(self.config.n_layer)]
        if self.given is not None:
            names = [n for n in (name, *own) if n in self.given]
            if not needed and not names:
                return
            if name not in names and len(names) < len(own):
                raise SpecError(f"position {self.name}: the checkpoint has no {name}")
        else:
            names = own if layers else [name] if needed else []
        for full in names:
            kind = torch.get_default_dtype()
            value = make() if self.given is None else self.given[full].detach().to(kind).clone()
            self.named[full.replace(".", "/")] = nn.Parameter(value)

    def weight(self, name: str, layer: int = -1) -> Tensor:
        """A weight, a layer's own where it has one; negative: the one for all layers."""
        shared, own = name.replace(".", "/"), f"blk/{layer}/{name.replace('.', '/')}"
        if own not in self.named and shared not in self.named:
            raise SpecError(f"position {self.name}: the checkpoint has no {name} for all layers")
        return self.named[own if own in self.named else shared]

    def expect(self, name: str, *shape: int) -> None:
        """Refuse weights `name` of another shape; -1 is any size."""
        for full, values in self.tensors().items():
            if full != name and not full.endswith(f".{name}"):
                continue
            right = values.dim() == len(shape) and all(
                want in (-1, have) for want, have in zip(shape, values.shape, strict=True)
            )
            if not right:
                raise SpecError(
                    f"position {self.name}: {full} is {list(values.shape)}, expected {list(shape)}"
                )

    def tensors(self) -> dict[str, Tensor]:
        """The scheme's own tensors, by their names in a checkpoint."""
        return {name.replace("/", "."): values for name, values in self.named.items()}

    def spec(self) -> str:
        """The canonical SPEC, which parses back to the same scheme."""
        pairs = [
            f"{p.key}={format_value(self.values[p.key])}"
            for p in (*self.params, *COMMON)
            if p.shown or self.values[p.key] != p.default
        ]
        return self.name + (":" + ",".join(pairs) if pairs else "")


def frequencies(width: int, base: float) -> Tensor:
    """base^(-2k/width), k = 0 .. width/2 - 1, in double."""
    return base ** (-torch.arange(0, width - width % 2, 2, dtype=torch.float64) / width)


def normal(std: float, *shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(shape) * std


# ---- schemes that add to the embeddings --------------------------------------------------------


class NoPosition(Position):
    """NoPE: order is known through the causal mask alone (Kazemnejad et al. 2023)."""

    name = "none"
    aliases = ("nope",)


class LearnedPosition(Position):
    """h0[t] = wte[token] + wpe[offset + position]; `beyond` says what is past the table."""

    name = "learned"
    params = (
        Parameter("offset", 0, low=0, high=1 << 20, kind=int),
        Parameter("beyond", "error", choices=("error", "clamp", "wrap", "interpolate", "tile")),
        Parameter("factor", 1.0, low=1e-6, high=1e6),
        *PLACES,
    )

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        rows = config.n_context + values["offset"]
        self.add_weight("position_embd.weight", normal(0.02, rows, config.n_embd))
        self.expect("position_embd.weight", -1, config.n_embd)
        self.n_rows = self.weight("position_embd.weight").shape[0] - values["offset"]
        if self.n_rows < 1:
            raise SpecError(f"position learned: offset={values['offset']} leaves no rows")
        if values["factor"] != 1 and values["beyond"] != "interpolate":
            raise SpecError("position learned: factor without beyond=interpolate")

    def build(self, rows: int) -> None:
        served = math.inf
        if self.values["beyond"] == "error":
            served = self.n_rows
        elif self.values["beyond"] == "interpolate":
            served = math.floor((self.n_rows - 1) * self.values["factor"]) + 1
        if rows > served:
            raise SpecError(f"position learned: {rows} positions asked, the table has {served}")

    def embed(self, tokens: Tensor, x: Tensor, positions: Tensor) -> Tensor:
        table = self.weight("position_embd.weight")[self.values["offset"] :]
        if self.values["beyond"] == "interpolate":
            place = positions.double() / self.values["factor"]
            row = place.floor().long()
            part = (place - row)[:, None].to(table.dtype)
            after = (row + 1).clamp(max=self.n_rows - 1)
            return x + (1 - part) * table[row] + part * table[after]
        if self.values["beyond"] == "clamp":
            positions = positions.clamp(max=self.n_rows - 1)
        elif self.values["beyond"] == "wrap":
            positions = positions % self.n_rows
        elif self.values["beyond"] == "tile":
            table = table.repeat(int(positions.max()) // self.n_rows + 1, 1)
        return x + table[positions]


class SinusoidalPosition(Position):
    """sin and cos of p base^(-2k/D) (Vaswani et al. 2017), or with fairseq's denominator. With
    width > 0, a grid: half of the columns for the row p div width, half for p mod width."""

    name = "sinusoidal"
    params = (
        Parameter("layout", "interleaved", choices=("interleaved", "concat"), shown=True),
        Parameter("denominator", "paper", choices=("paper", "fairseq"), shown=True),
        Parameter("base", 10000.0, low=1.0, high=1e15, shown=True),
        Parameter("offset", 0, low=0, high=1 << 20, kind=int),
        Parameter("factor", 1.0, low=1e-6, high=1e6),
        Parameter("width", 0, low=0, high=1 << 20, kind=int),
        *PLACES,
    )

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        d = config.n_embd
        if values["width"] > 0 and d % 2 != 0:
            raise SpecError(f"position sinusoidal: width needs an even n_embd, not {d}")
        self.columns = d // 2 if values["width"] > 0 else d
        if values["denominator"] == "fairseq" and self.columns < 4:
            raise SpecError("position sinusoidal: denominator=fairseq needs at least 4 columns")

    def encode(self, p: Tensor) -> Tensor:
        """p int64 [n] to [n, columns]."""
        v, columns = self.values, self.columns
        half = (columns + 1) // 2 if v["layout"] == "interleaved" else columns // 2
        k = torch.arange(half, dtype=torch.float64)
        exponent = k / (columns // 2 - 1) if v["denominator"] == "fairseq" else 2 * k / columns
        place = (p.double() + v["offset"]) / v["factor"]
        angle = place[:, None] * torch.exp(-exponent * math.log(v["base"]))
        if v["layout"] == "interleaved":
            return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :columns]
        return F.pad(torch.cat((angle.sin(), angle.cos()), dim=1), (0, columns % 2))

    def build(self, rows: int) -> None:
        p, width = torch.arange(rows), self.values["width"]
        if width > 0:
            both = (self.encode(p // width), self.encode(p % width))
            self.table("encoding", torch.cat(both, dim=1))
        else:
            self.table("encoding", self.encode(p))

    def embed(self, tokens: Tensor, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.encoding[positions]


class RecurrentPosition(Position):
    """A GRU over the token embeddings; its state is added: h0[t] = e[t] + p[t], p[-1] = 0 (Cho et
    al. 2014, with PyTorch's order r, z, n and its r inside)."""

    name = "recurrent"

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        d = config.n_embd
        shapes = {"weight_ih": (3 * d, d), "weight_hh": (3 * d, d), "bias_ih": (3 * d,)}
        shapes["bias_hh"] = (3 * d,)
        for part, shape in shapes.items():

            def make(shape: tuple[int, ...] = shape) -> Tensor:
                return torch.empty(shape).uniform_(-1 / math.sqrt(d), 1 / math.sqrt(d))

            self.add_weight(f"position_gru.{part}", make)
            self.expect(f"position_gru.{part}", *shape)

    @torch.compiler.disable  # the compiler would unroll every step
    def embed(self, tokens: Tensor, x: Tensor, positions: Tensor) -> Tensor:
        parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = [self.weight(f"position_gru.{part}") for part in parts]
        start = x.new_zeros(1, x.shape[0], x.shape[2])
        out, _ = torch.gru(x, start, weights, True, 1, 0.0, self.training, False, True)
        return x + out


# Short for rope:scaling=...
SHORTHANDS = {s: s for s in ("linear", "ntk", "yarn", "llama3", "longrope")}
SHORTHANDS["dynamic-ntk"] = "dynamic"


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """NAME[:key=value[,key=value]...] as its name, a shorthand spelt out, and texts."""
    name, colon, rest = spec.partition(":")
    pairs: dict[str, str] = {}
    for item in rest.split(",") if colon else []:
        key, equals, text = item.partition("=")
        if not equals or not key or not text:
            raise SpecError(f"position {name}: '{item}' is not key=value")
        if key in pairs:
            raise SpecError(f"position {name}: key '{key}' is given twice")
        pairs[key] = text
    if name in SHORTHANDS:
        return "rope", {"scaling": SHORTHANDS[name], **pairs}
    return name, pairs


def inherit(spec: str, own: str) -> str:
    """`spec` with what it doesn't name from `own`, a checkpoint's, if the scheme is the same and
    inherit=0 doesn't stand in it."""
    (name, pairs), (own_name, own_pairs) = split_spec(spec), split_spec(own)
    inherits = flag("inherit", 1).parse(pairs.pop("inherit", "1"), name)
    merged = {**own_pairs, **pairs} if inherits and name == own_name else pairs
    return name + (":" + ",".join(f"{k}={v}" for k, v in merged.items()) if merged else "")


def parse_spec(spec: str, schemes: Mapping[str, type[Position]]) -> tuple[type, dict[str, Any]]:
    """The scheme that `spec` names, and its values."""
    name, pairs = split_spec(spec)
    if name not in schemes:
        names = ", ".join(dict.fromkeys(s.name for s in schemes.values()))
        raise SpecError(f"unknown position scheme '{name}'; known: {names}")
    scheme = schemes[name]
    by_key = {p.key: p for p in (*scheme.params, *COMMON)}
    values = {p.key: p.default for p in by_key.values()}
    for key, text in pairs.items():
        if key not in by_key:
            raise SpecError(f"position {name}: unknown key '{key}'; its keys: {', '.join(by_key)}")
        values[key] = by_key[key].parse(text, name)
    return scheme, values
