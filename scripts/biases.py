"""Position schemes that add to attention scores, by distance or by content."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from positions import Parameter, Position, Shape, SpecError, flag, frequencies, normal


def toeplitz(by_distance: Tensor) -> Tensor:
    """by_distance [..., n], of distances 0 .. n-1, to [..., n, n]: entry (i, j) is that of i - j,
    and -inf where j > i. By padding and reshaping, so that no index is gathered."""
    n = by_distance.shape[-1]
    row = by_distance.new_full((*by_distance.shape[:-1], n), -math.inf)
    # Read from column 0, row i is `row` rotated right by i: [b0, -inf ..., b_{n-1} ... b_1].
    row = torch.cat((by_distance[..., :1], row, by_distance[..., 1:].flip(-1)), dim=-1)
    tiled = row[..., None, :].expand(*row.shape[:-1], n, 2 * n).flatten(-2)
    return tiled[..., : n * (2 * n - 1)].unflatten(-1, (n, 2 * n - 1))[..., :n]


def skew(by_distance: Tensor) -> Tensor:
    """by_distance [..., n rows, n distances] to [..., n, n] by key: entry (i, j) is that of row i
    at i - j where j <= i, anything elsewhere (Transformer-XL's shift)."""
    n = by_distance.shape[-1]
    padded = F.pad(by_distance.flip(-1), (1, 0))
    return padded.flatten(-2)[..., n:].unflatten(-1, (n, n))


def future(n: int, device: torch.device) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool, device=device).triu(1)


class DistanceBias(Position):
    """A scheme whose bias depends on the distance alone."""

    has_bias = True
    one_bias = True

    def by_distance(self, layer: int, n: int) -> Tensor:
        """[n_head, n], of distances 0 .. n-1."""
        raise NotImplementedError

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        return toeplitz(self.by_distance(layer, positions.shape[0]))


def alibi_slopes(n_head: int, max_bias: float) -> list[float]:
    """ALiBi's slopes (Press et al. 2022): those of n = 2^floor(log2 H) heads, then every other
    slope of 2n heads."""
    n = 1 << (n_head.bit_length() - 1)
    first = [2.0 ** (-max_bias * (h + 1) / n) for h in range(n)]
    rest = [2.0 ** (-(max_bias / 2) / n * (2 * (h - n) + 1)) for h in range(n, n_head)]
    return first + rest


class AlibiPosition(DistanceBias):
    """-m_h dist / factor; scaled=1 divides it by sqrt(d) too, as Falcon does. heads=N: the first N
    heads have the slopes of N heads, the others none. slopes=tensor: m_h are weights."""

    name = "alibi"
    params = (
        Parameter("max_bias", 8.0, low=0.0, high=64.0, shown=True),
        flag("scaled", 0),
        Parameter("factor", 1.0, low=1e-6, high=1e6),
        Parameter("heads", "all", low=1, kind=int, words=("all",)),
        Parameter("slopes", "formula", choices=("formula", "tensor")),
    )

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        self.one_bias = values["slopes"] == "formula"
        n_head, heads = config.n_head, values["heads"]
        heads = n_head if heads == "all" else heads
        if heads > n_head:
            raise SpecError(f"position alibi: heads={heads}, but the model has {n_head}")
        slopes = alibi_slopes(heads, values["max_bias"]) + [0.0] * (n_head - heads)
        self.slopes = torch.tensor(slopes, dtype=torch.float64)
        self.divisor = values["factor"] * (math.sqrt(config.head_dim) if values["scaled"] else 1.0)
        if values["slopes"] == "tensor":
            make = lambda: self.slopes.to(torch.get_default_dtype())  # noqa: E731
            self.add_weight("position_alibi.slopes", make, layers=True)
            self.expect("position_alibi.slopes", n_head)

    def build(self, rows: int) -> None:
        slope = self.slopes[:, None] / self.divisor
        self.table("biases", -slope * torch.arange(rows, dtype=torch.float64))

    def by_distance(self, layer: int, n: int) -> Tensor:
        if self.values["slopes"] == "formula":
            return self.biases[:, :n]
        slope = self.weight("position_alibi.slopes", layer)[:, None] / self.divisor
        return -slope * torch.arange(n, device=slope.device, dtype=slope.dtype)


class TableBias(DistanceBias):
    """position_bias.weight [rows, H], read at a row that follows from the distance."""

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None, rows: int
    ) -> None:
        super().__init__(config, values, given)
        # T5's initialisation.
        self.add_weight("position_bias.weight", normal(config.n_embd**-0.5, rows, config.n_head))
        self.expect("position_bias.weight", rows, config.n_head)

    def row(self, distance: Tensor) -> Tensor:
        raise NotImplementedError

    def build(self, rows: int) -> None:
        self.table("row_of", self.row(torch.arange(rows)))

    def by_distance(self, layer: int, n: int) -> Tensor:
        return self.weight("position_bias.weight")[self.row_of[:n]].T


class RelativePosition(TableBias):
    """B[min(dist, max_distance), h], one learned scalar a distance (after Shaw et al. 2018)."""

    name = "relative"
    params = (Parameter("max_distance", None, low=0, kind=int, shown=True),)

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        if values["max_distance"] is None:
            table = (given or {}).get("position_bias.weight")
            values = {**values, "max_distance": 128 if table is None else table.shape[0] - 1}
        super().__init__(config, values, given, values["max_distance"] + 1)

    def row(self, distance: Tensor) -> Tensor:
        return distance.clamp(max=self.values["max_distance"])


class T5Position(TableBias):
    """T5's buckets, causal (Raffel et al. 2020): exact up to buckets/2, then logarithmic."""

    name = "t5"
    params = (
        Parameter("buckets", 32, low=2, kind=int, shown=True),
        Parameter("max_distance", 128, low=1, kind=int, shown=True),
    )

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        if values["max_distance"] <= values["buckets"] // 2:
            raise SpecError(
                f"position t5: max_distance={values['max_distance']} must be greater than "
                f"buckets/2, {values['buckets'] // 2}"
            )
        super().__init__(config, values, given, values["buckets"])

    def row(self, distance: Tensor) -> Tensor:
        buckets, exact = self.values["buckets"], self.values["buckets"] // 2
        far = torch.log(distance.clamp(min=1).double() / exact)
        far = far / math.log(self.values["max_distance"] / exact) * (buckets - exact)
        rows = (exact + far.trunc().long()).clamp(max=buckets - 1)
        return torch.where(distance < exact, distance, rows)


class KerplePosition(DistanceBias):
    """KERPLE (Chi et al. 2022): -p ln(1 + a dist), or -a dist^p."""

    name = "kerple"
    params = (
        Parameter("kind", "log", choices=("log", "power"), shown=True),
        Parameter("eps", 0.01, low=0.0, high=1.0),
    )
    one_bias: ClassVar[bool] = False

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        # The authors' initialisation: uniform in [0, 2] and [0, 1].
        for name, most in (("p", 2.0), ("a", 1.0)):
            make = lambda most=most: torch.rand(config.n_head) * most  # noqa: E731
            self.add_weight(f"position_kerple.{name}", make, layers=True)
            self.expect(f"position_kerple.{name}", config.n_head)

    def clamped(self, name: str, layer: int, most: float | None) -> Tensor:
        """The weight [n_head, 1] in [eps, most]. Its gradient passes as if it were not clamped, so
        that a head which reaches a limit can leave it again."""
        raw = self.weight(name, layer)[:, None]
        return raw.clamp(self.values["eps"], most).detach() + (raw - raw.detach())

    def by_distance(self, layer: int, n: int) -> Tensor:
        power = self.values["kind"] == "power"
        p = self.clamped("position_kerple.p", layer, 2.0 if power else None)
        a = self.clamped("position_kerple.a", layer, None)
        distance = torch.arange(n, device=p.device, dtype=p.dtype)
        if not power:
            return -p * torch.log1p(a * distance)
        # 0^p would have no gradient in p.
        far = -a * distance[1:] ** p
        return torch.cat((torch.zeros_like(a), far), dim=1)


class SandwichPosition(DistanceBias):
    """Sandwich (Chi et al. 2023): sum of cos(dist / base^(2k/dim)) - 1 over dim/2 values of k from
    `first`, divided by compression (h + 1) / H."""

    name = "sandwich"
    params = (
        Parameter("dim", 128, low=2, high=1 << 16, kind=int, shown=True),
        Parameter("base", 10000.0, low=1.0, high=1e15),
        flag("first", 0),
        Parameter("compression", 8.0, low=1e-6, high=1e6),
    )

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        if values["dim"] % 2 != 0:
            raise SpecError(f"position sandwich: dim={values['dim']} is not even")
        super().__init__(config, values, given)

    def build(self, rows: int) -> None:
        v, n_head = self.values, self.config.n_head
        k = torch.arange(v["first"], v["first"] + v["dim"] // 2, dtype=torch.float64)
        distance = torch.arange(rows, dtype=torch.float64)[:, None]
        total = (torch.cos(distance / v["base"] ** (2 * k / v["dim"])) - 1).sum(dim=1)
        by = v["compression"] * torch.arange(1, n_head + 1, dtype=torch.float64) / n_head
        self.table("biases", total / by[:, None])

    def by_distance(self, layer: int, n: int) -> Tensor:
        return self.biases[:, :n]


class TransformerXlPosition(Position):
    """Transformer-XL (Dai et al. 2019): ((q + u).k + (q + v).(W_r R_dist)) scale. u is added where
    queries are rotated, so that the bias is (q + v - u).(W_r R_dist) scale."""

    name = "transformer-xl"
    params = (
        Parameter("clamp", 0, low=0, kind=int),
        Parameter("base", 10000.0, low=1.0, high=1e15),
    )
    has_bias = True

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        h, d = config.n_head, config.head_dim
        for name in ("position_u", "position_v"):
            self.add_weight(name, normal(0.02, h, d))
            self.expect(name, h, d)
        name = "position_r.weight"
        self.add_weight(name, normal(0.02, h * d, config.n_embd), layers=True)
        self.expect(name, h * d, config.n_embd)

    def build(self, rows: int) -> None:
        distance = torch.arange(rows, dtype=torch.float64)
        if self.values["clamp"] > 0:
            distance = distance.clamp(max=self.values["clamp"])
        angle = distance[:, None] * frequencies(self.config.n_embd, self.values["base"])
        encoding = torch.cat((angle.sin(), angle.cos()), dim=1)
        self.table("encoding", F.pad(encoding, (0, self.config.n_embd % 2)))

    def rotate(
        self, layer: int, is_query: bool, rows: Tensor, positions: Tensor, reader: int = -1
    ) -> Tensor:
        return rows + self.weight("position_u", layer)[:, None] if is_query else rows

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        n, c = positions.shape[0], self.config
        r = F.linear(self.encoding[:n], self.weight("position_r.weight", layer))
        r = r.view(n, c.n_head, c.head_dim).permute(1, 2, 0)  # [H, d, distance]
        q = q + (self.weight("position_v", layer) - self.weight("position_u", layer))[:, None]
        return skew((q * c.scale) @ r).masked_fill(future(n, q.device), -math.inf)


class FirePosition(Position):
    """FIRE (Li et al. 2024): an MLP of ln(|c dist| + 1) / (ln(|c max(threshold, i)| + 1) + eps)."""

    name = "fire"
    params = (Parameter("eps", 1e-6, low=0.0, high=1.0),)
    has_bias = True

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        w, h = 32, config.n_head
        # As the authors do, a new threshold is learned as a multiple of its first value: 512 at
        # their trained length of 2,048, here in proportion. A checkpoint holds the product.
        self.threshold_unit = max(1.0, config.n_context / 4) if given is None else 1.0
        makers = {  # the rest as nn.Linear
            "c": lambda: torch.tensor([0.1]),
            "threshold": lambda: torch.ones(1),
            "fc1.weight": lambda: torch.empty(w, 1).uniform_(-1, 1),
            "fc1.bias": lambda: torch.empty(w).uniform_(-1, 1),
            "fc2.weight": lambda: torch.empty(h, w).uniform_(-(w**-0.5), w**-0.5),
            "fc2.bias": lambda: torch.empty(h).uniform_(-(w**-0.5), w**-0.5),
        }
        for name, make in makers.items():
            self.add_weight(f"position_fire.{name}", make, layers=True)
        for name, shape in {"c": (1,), "threshold": (1,), "fc2.bias": (h,)}.items():
            self.expect(f"position_fire.{name}", *shape)
        self.expect("position_fire.fc1.weight", -1, 1)
        self.expect("position_fire.fc1.bias", -1)
        self.expect("position_fire.fc2.weight", h, -1)

    def tensors(self) -> dict[str, Tensor]:
        """As a checkpoint holds them, thresholds in positions."""
        named = super().tensors()
        if self.threshold_unit != 1.0:  # else the parameters themselves, for a file to fill
            for name in named:
                if name.endswith(".threshold"):
                    named[name] = named[name] * self.threshold_unit
        return named

    def rows_of_bias(self, layer: int, queries: Tensor, keys: Tensor) -> Tensor:
        """[n_head, queries, keys]."""
        part = {n: self.weight(f"position_fire.{n}", layer) for n in ("c", "threshold")}
        mlp = [
            self.weight(f"position_fire.{n}", layer)
            for n in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
        ]
        c = part["c"]
        distance = (queries[:, None] - keys).clamp(min=0).to(c.dtype)
        threshold = part["threshold"] * self.threshold_unit
        reach = torch.maximum(threshold, queries.to(c.dtype))
        over = torch.log((c * reach).abs() + 1) + self.values["eps"]
        x = torch.log((c * distance).abs() + 1) / over[:, None]
        # A column a pair: the hidden layer comes and goes 3 times faster than with a row a pair.
        hidden = F.relu(mlp[0] * x.view(1, -1) + mlp[1][:, None])
        return torch.addmm(mlp[3][:, None], mlp[2], hidden).view(-1, *x.shape)

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        n = positions.shape[0]
        # A long text's rows in pieces: the hidden layer is 32 times the scores.
        step = n if n <= 1024 else 128
        rows = [self.rows_of_bias(layer, p, positions) for p in positions.split(step)]
        return torch.cat(rows, dim=1).masked_fill(future(n, q.device), -math.inf)


class CopePosition(Position):
    """CoPE (Golovneva et al. 2024): positions are sums of gates, from the query back."""

    name = "cope"
    params = (Parameter("gate", "scaled", choices=("scaled", "raw"), shown=True),)
    has_bias = True

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        n_positions = min(64, config.n_context)  # the paper's; fewer where texts are shorter
        name = "position_cope.weight"
        self.add_weight(name, lambda: torch.zeros(n_positions, config.head_dim), layers=True)
        self.expect(name, -1, config.head_dim)

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        table, n = self.weight("position_cope.weight", layer), positions.shape[0]
        scale = self.config.scale if self.values["gate"] == "scaled" else 1.0
        after = future(n, q.device)
        gates = torch.sigmoid((q * scale) @ k.transpose(-1, -2)).masked_fill(after, 0.0)
        sums = gates.flip(-1).cumsum(-1).flip(-1)  # over keys j .. i
        p = sums.clamp(max=table.shape[0] - 1)
        low = p.floor()
        part = p - low
        z = q @ table.T  # [batch, H, n, n_positions]
        at_low = z.gather(-1, low.long())
        at_high = z.gather(-1, p.ceil().long())
        return ((1 - part) * at_low + part * at_high).masked_fill(after, -math.inf)


class FoxPosition(Position):
    """FoX (Lin et al. 2025): a head's forget gates f_t = sigmoid(w.x_t + b) of what its layer's
    queries and keys are projected from; a key's bias is the sum of ln f over the tokens after it,
    up to the query."""

    name = "fox"
    has_bias = True

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        h, d = config.n_head, config.n_embd
        # The authors' initialisation.
        self.add_weight("position_fox.weight", normal(0.02, h, d), layers=True)
        self.add_weight("position_fox.bias", lambda: torch.zeros(h), layers=True)
        self.expect("position_fox.weight", h, d)
        self.expect("position_fox.bias", h)

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        weight, own = (self.weight(f"position_fox.{n}", layer) for n in ("weight", "bias"))
        # In double: the difference of two large sums is small.
        sums = F.logsigmoid(F.linear(x, weight, own)).double().cumsum(1).transpose(1, 2)
        n = positions.shape[0]
        step = n if n <= 1024 else 128
        rows = [(r[..., None] - sums[..., None, :]).to(x.dtype) for r in sums.split(step, dim=-1)]
        return torch.cat(rows, dim=-2).masked_fill(future(n, x.device), -math.inf)


# DAPE's MLP. Its hidden layer is many times the scores: one text's at a time, made again for the
# gradients, stays in the CPU's caches, which is 7 times faster than autograd's way. Operators of
# their own, which torch.compile takes as they are.


def hidden_of_pairs(a: Tensor, shared: Tensor, w1: Tensor) -> Tensor:
    """[units, pairs] of a [n_head, pairs]; `shared` is what biases add to them."""
    return F.leaky_relu_(torch.addmm(shared, w1[:, : a.shape[0]], a))


@torch.library.custom_op("locus::mlp_of_pairs", mutates_args=())
def mlp_of_pairs(
    a: Tensor, b: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> Tensor:  # fmt: skip
    """w2 leaky_relu(w1 [a; b] + b1) + b2, a column a pair: a [batch, n_head, pairs], b [n_head,
    pairs], w1 [units, 2 n_head], w2 [n_head, units], to the shape of a."""
    shared = torch.addmm(b1[:, None], w1[:, a.shape[1] :], b)
    out = torch.empty_like(a, memory_format=torch.contiguous_format)
    for text, result in zip(a, out, strict=True):
        torch.addmm(b2[:, None], w2, hidden_of_pairs(text, shared, w1), out=result)
    return out


@torch.library.custom_op("locus::mlp_of_pairs_backward", mutates_args=())
def mlp_of_pairs_backward(
    grad: Tensor, a: Tensor, b: Tensor, w1: Tensor, b1: Tensor, w2: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of a, b, w1, b1 and w2."""
    n_head = a.shape[1]
    shared = torch.addmm(b1[:, None], w1[:, n_head:], b)
    of_a = torch.empty_like(a, memory_format=torch.contiguous_format)
    of_w1, of_w2, of_shared = (torch.zeros_like(t) for t in (w1, w2, shared))
    for text, back, result in zip(a, grad, of_a, strict=True):
        hidden = hidden_of_pairs(text, shared, w1)
        of_w2.addmm_(back, hidden.T)
        of_hidden = torch.ops.aten.leaky_relu_backward(w2.T @ back, hidden, 0.01, True)
        of_shared += of_hidden
        of_w1[:, :n_head].addmm_(of_hidden, text.T)
        torch.mm(w1[:, :n_head].T, of_hidden, out=result)
    of_w1[:, n_head:] = of_shared @ b.T
    return of_a, w1[:, n_head:].T @ of_shared, of_w1, of_shared.sum(1), of_w2


@mlp_of_pairs.register_fake
def _(a: Tensor, b: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    return torch.empty_like(a, memory_format=torch.contiguous_format)


@mlp_of_pairs_backward.register_fake
def _(
    grad: Tensor, a: Tensor, b: Tensor, w1: Tensor, b1: Tensor, w2: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    of_a = torch.empty_like(a, memory_format=torch.contiguous_format)
    return of_a, *(torch.empty_like(t) for t in (b, w1, b1, w2))


def keep_for_backward(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])


def backward_of_pairs(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
    return *mlp_of_pairs_backward(grad, *ctx.saved_tensors), grad.sum((0, 2))


mlp_of_pairs.register_autograd(backward_of_pairs, setup_context=keep_for_backward)


class DapePosition(Position):
    """DAPE (Zheng et al. 2024): a + b + MLP([a; b]) of the scaled scores a and the biases b of all
    heads of a query and a key; b are those of ALiBi or of KERPLE's kind=log."""

    name = "dape"
    params = (Parameter("over", "kerple", choices=("alibi", "kerple"), shown=True),)
    has_bias = True
    combines = True

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        kind = AlibiPosition if values["over"] == "alibi" else KerplePosition
        self.over = kind(config, values | {p.key: p.default for p in kind.params}, given)
        self.one_bias = self.over.one_bias
        h, w = config.n_head, 32  # hidden units as in the authors' code, initialised as nn.Linear
        for name, shape in {"fc1": (w, 2 * h), "fc2": (h, w)}.items():
            most = shape[1] ** -0.5
            makers = {
                "weight": lambda s=shape, m=most: torch.empty(s).uniform_(-m, m),
                "bias": lambda s=shape, m=most: torch.empty(s[0]).uniform_(-m, m),
            }
            for part, make in makers.items():
                self.add_weight(f"position_dape.{name}.{part}", make, layers=True)
        self.expect("position_dape.fc1.weight", -1, 2 * h)
        self.expect("position_dape.fc1.bias", -1)
        self.expect("position_dape.fc2.weight", h, -1)
        self.expect("position_dape.fc2.bias", h)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | self.over.tensors()

    def build(self, rows: int) -> None:
        self.over.reserve(rows)

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        return self.over.bias(layer, q, k, positions, x)

    def combine(self, layer: int, scores: Tensor, bias: Tensor) -> Tensor:
        finite = bias.masked_fill(bias == -math.inf, 0).flatten(1)
        weights = [
            self.weight(f"position_dape.{n}", layer)
            for n in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
        ]
        return scores + bias + mlp_of_pairs(scores.flatten(2), finite, *weights).view_as(scores)
