"""Mamba's selective scan (Gu and Dao 2023, arXiv 2312.00752) in PyTorch, for a CPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from checkpoint import Value


class Sizes(Protocol):
    """What Mamba takes of a DecoderConfig."""

    n_embd: int
    n_inner: int | None
    n_state: int
    n_conv: int
    rank: int | None


# ---- the scan ------------------------------------------------------------------------------------


def forth(
    h: Tensor, a: Tensor, dt: Tensor, x: Tensor, b: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """A token's states [state, batch, channels] and outputs [batch, channels], of the states before
    it; a [state, 1, channels], dt and x [batch, channels], b and c [state, batch, 1]."""
    h = h * torch.exp(a * dt) + b * x
    return h, (h * c).sum(0)


def back(
    g: Tensor, before: Tensor, h: Tensor, a: Tensor, dt: Tensor, x: Tensor, b: Tensor, c: Tensor,
    of_y: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients: those of a token's states, `g` from the token after it, to those of the states
    `before` it; and of a, dt, x, b and c."""
    g = g + c * of_y
    decayed = g * torch.exp(a * dt)
    of_exponent = decayed * before  # of a dt
    return (
        decayed,
        of_exponent * dt,
        (of_exponent * a).sum(0),
        (g * b).sum(0),
        (g * x).sum(-1),
        (h * of_y).sum(-1),
    )


@functools.cache
def steps(compiled: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`forth` and `back`, each as one loop or an operation at a time."""
    return (torch.compile(forth), torch.compile(back)) if compiled else (forth, back)


class Scan(torch.autograd.Function):
    """h_t = exp(dt_t a) h_(t-1) + x_t b_t, y_t = h_t . c_t, token by token: the states of one token
    fit in the processor's cache, those of all of them don't. dt and x [n, batch, channels], a
    [state, channels], b and c [n, batch, state]; y like x."""

    @staticmethod
    def forward(
        ctx: Any, dt: Tensor, x: Tensor, a: Tensor, b: Tensor, c: Tensor, compiled: bool
    ) -> Tensor:
        step, _ = steps(compiled)
        wide = a[:, None]
        columns = [t.transpose(1, 2).contiguous()[..., None] for t in (b, c)]
        h = x.new_zeros(a.shape[0], *x.shape[1:])
        kept, y = [h], torch.empty_like(x)
        keeps = any(ctx.needs_input_grad)
        for t in range(x.shape[0]):
            h, y[t] = step(h, wide, dt[t], x[t], columns[0][t], columns[1][t])
            if keeps:
                kept.append(h)
        ctx.save_for_backward(dt, x, a, *columns)
        ctx.kept, ctx.compiled = kept, compiled
        return y

    @staticmethod
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, ...]:
        dt, x, a, b, c = ctx.saved_tensors
        _, step = steps(ctx.compiled)
        of_y, wide = of_y.contiguous(), a[:, None]
        g = torch.zeros_like(ctx.kept[0])
        of_a, of_dt, of_x = torch.zeros_like(g), torch.empty_like(dt), torch.empty_like(x)
        of_b, of_c = torch.empty_like(b[..., 0]), torch.empty_like(c[..., 0])
        for t in reversed(range(x.shape[0])):
            before, h = ctx.kept[t], ctx.kept[t + 1]
            g, part, of_dt[t], of_x[t], of_b[t], of_c[t] = step(
                g, before, h, wide, dt[t], x[t], b[t], c[t], of_y[t]
            )
            of_a += part
        rest = (of_x, of_a.sum(1), of_b.transpose(1, 2), of_c.transpose(1, 2))
        return of_dt, *rest, None


@torch.compiler.disable  # the compiler would unroll every step
def scan(dt: Tensor, x: Tensor, a: Tensor, b: Tensor, c: Tensor, compiled: bool) -> Tensor:
    return Scan.apply(dt, x, a, b, c, compiled)


# ---- the mixer -----------------------------------------------------------------------------------


class Mamba(nn.Module):
    """[batch, n, n_embd] to the same shape:

    x, z = in(input)      u = silu(causal convolution of x's channels)
    dt, b, c = x(u)       dt = softplus(dt(dt))
    output((scan(dt, dt u, -exp(a_log), b, c) + d u) silu(z))
    """

    def __init__(self, config: Sizes) -> None:
        super().__init__()
        d, self.n_state, self.n_conv = config.n_embd, config.n_state, config.n_conv
        self.n_inner, self.rank = self.inner(config), self.rank_of(config)
        self.inputs = nn.Linear(d, 2 * self.n_inner, bias=False)
        self.taps = nn.Parameter(torch.empty(self.n_inner, self.n_conv))
        self.bias = nn.Parameter(torch.empty(self.n_inner))
        self.x = nn.Linear(self.n_inner, self.rank + 2 * self.n_state, bias=False)
        self.dt = nn.Linear(self.rank, self.n_inner)
        self.a_log = nn.Parameter(torch.empty(self.n_inner, self.n_state))
        self.d = nn.Parameter(torch.empty(self.n_inner))
        self.output = nn.Linear(self.n_inner, d, bias=False)

    @staticmethod
    def inner(config: Sizes) -> int:
        return config.n_inner or 2 * config.n_embd

    @staticmethod
    def rank_of(config: Sizes) -> int:
        return config.rank or math.ceil(config.n_embd / 16)

    @classmethod
    def metadata(cls, config: Sizes) -> dict[str, Value]:
        return {
            ".ssm.inner_size": cls.inner(config),
            ".ssm.state_size": config.n_state,
            ".ssm.conv_kernel": config.n_conv,
            ".ssm.time_step_rank": cls.rank_of(config),
        }

    def initialise(self) -> None:
        """As its authors do where it isn't as in other layers: decays 1 .. n_state, steps from
        0.001 to 0.1, even in their logarithm."""
        most = self.n_conv**-0.5
        nn.init.uniform_(self.taps, -most, most)
        nn.init.uniform_(self.bias, -most, most)
        most = self.rank**-0.5
        nn.init.uniform_(self.dt.weight, -most, most)
        step = torch.exp(torch.empty(self.n_inner).uniform_(math.log(0.001), math.log(0.1)))
        with torch.no_grad():
            self.dt.bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus gives the step
            self.a_log.copy_(torch.arange(1, self.n_state + 1).log().expand_as(self.a_log))
            self.d.fill_(1)

    def tensors(self) -> dict[str, Tensor]:
        """By their names in a checkpoint, after "blk.N."; ssm_a as `stored` and `trained` say."""
        return {
            "ssm_in.weight": self.inputs.weight,
            "ssm_conv1d.weight": self.taps,
            "ssm_conv1d.bias": self.bias,
            "ssm_x.weight": self.x.weight,
            "ssm_dt.weight": self.dt.weight,
            "ssm_dt.bias": self.dt.bias,
            "ssm_a": self.a_log,
            "ssm_d": self.d,
            "ssm_out.weight": self.output.weight,
        }

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        x, z = self.inputs(x.transpose(0, 1)).chunk(2, dim=-1)  # tokens first
        padded = F.pad(x, (0, 0, 0, 0, self.n_conv - 1, 0))
        u = self.bias
        for k in range(self.n_conv):
            u = u + self.taps[:, k] * padded[k : k + n]
        u = F.silu(u)
        low, b, c = self.x(u).split((self.rank, self.n_state, self.n_state), dim=-1)
        dt = F.softplus(self.dt(low))
        a = -torch.exp(self.a_log).T.contiguous()
        y = scan(dt, dt * u, a, b, c, torch.compiler.is_compiling())
        return self.output((y + self.d * u) * F.silu(z)).transpose(0, 1)


def stored(name: str, values: Tensor) -> Tensor:
    """A tensor as a checkpoint has it, of the one that is trained."""
    return -values.exp() if name.endswith(".ssm_a") else values


def trained(name: str, values: Tensor) -> Tensor:
    """The other way round."""
    return (-values).log() if name.endswith(".ssm_a") else values
