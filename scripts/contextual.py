"""Position schemes that read the text: gates and turns of each token, networks of all heads'
scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from biases import AlibiPosition, FirePosition, KerplePosition, future
from positions import Parameter, Position, Shape, normal


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
    heads of a query and a key; b are those of another scheme, with its defaults."""

    name = "dape"
    params = (Parameter("over", "kerple", choices=("kerple", "alibi", "fire"), shown=True),)
    has_bias = True
    combines = True

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        kinds = {s.name: s for s in (AlibiPosition, KerplePosition, FirePosition)}
        kind = kinds[values["over"]]
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


class PathPosition(Position):
    """PaTH (Yang et al. 2025): the score of i and j is q_i.(H_i ... H_{j+1} k_j) scale, where
    H_t = I - beta_t w_t w_t^T turns what heads share as they share keys. w is a low-rank projection
    of what queries and keys are projected from, through a causal convolution of three tokens and
    SiLU, of length 1 a head; beta = 2 sigmoid."""

    name = "path"
    has_bias = True

    def __init__(
        self, config: Shape, values: dict[str, Any], given: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(config, values, given)
        d, heads, rank = config.n_embd, config.n_head_kv, 32
        width = heads * config.head_dim
        shapes = {
            "down.weight": (rank, d),
            "up.weight": (width, rank),
            "conv.weight": (width, 3),  # the token two before first
            "beta.weight": (heads, d),
            "beta.bias": (heads,),
        }
        for part, shape in shapes.items():
            most = {"conv.weight": 3**-0.5, "up.weight": rank**-0.5}.get(part, d**-0.5)
            make = lambda s=shape, m=most: torch.empty(s).uniform_(-m, m)  # noqa: E731
            self.add_weight(f"position_path.{part}", make, layers=True)
        for part in ("conv.weight", "beta.weight", "beta.bias"):
            self.expect(f"position_path.{part}", *shapes[part])
        self.expect("position_path.down.weight", -1, d)
        self.expect("position_path.up.weight", width, -1)

    def turns(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """w [batch, heads, n, head_dim] and beta [batch, heads, n]."""
        down, up, conv, gate, own = (
            self.weight(f"position_path.{n}", layer)
            for n in ("down.weight", "up.weight", "conv.weight", "beta.weight", "beta.bias")
        )
        w = F.linear(F.linear(x, down), up).transpose(1, 2)
        w = F.silu(F.conv1d(F.pad(w, (2, 0)), conv[:, None], groups=conv.shape[0]))
        w = w.unflatten(1, (self.config.n_head_kv, -1)).transpose(-1, -2)
        w = w * torch.rsqrt(w.square().sum(-1, keepdim=True) + 1e-6)
        return w, 2 * torch.sigmoid(F.linear(x, gate, own)).transpose(1, 2)

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor, x: Tensor) -> Tensor:
        """What the product of turns adds to q.k, by its compact form: H_i ... H_{j+1} = I - the sum
        over j < m <= l <= i of w_l T_lm w_m^T, T = (I + tril(beta w w^T, -1))^-1 beta."""
        w, beta = self.turns(layer, x)
        shared = self.config.n_head // self.config.n_head_kv
        w, beta = (t.repeat_interleave(shared, dim=1) for t in (w, beta))
        scaled = beta[..., None] * w
        one = torch.eye(w.shape[2], dtype=w.dtype, device=w.device)
        of_keys = (scaled @ k.transpose(-1, -2)).tril(-1)
        mixed = torch.linalg.solve_triangular(
            one + (scaled @ w.transpose(-1, -2)).tril(-1), of_keys, upper=False
        )
        taken = (q @ w.transpose(-1, -2)).tril() @ mixed
        return (taken * -self.config.scale).masked_fill(future(w.shape[2], x.device), -math.inf)
