"""Hyena of order 2 (Poli et al. 2023, arXiv 2302.10866) in place of attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from checkpoint import Value

TAPS, BANDS, WIDTH, INNER, SHIFT = 3, 16, 64, 2, 0.05
FREQUENCY = 10.0  # of the filter's sines, before it is trained
DECAYS = (math.log(100) / 1.5, math.log(100) / 0.3)  # the slowest channel's and the fastest's


class Sizes(Protocol):
    """What it takes of a DecoderConfig."""

    n_embd: int
    n_context: int


def uniform(fan_in: int, *shape: int) -> nn.Parameter:
    """As nn.Linear begins."""
    return nn.Parameter(torch.empty(*shape).uniform_(-(fan_in**-0.5), fan_in**-0.5))


class Hyena(nn.Module):
    """[batch, n, n_embd] to the same shape; `*` is over time, a channel by itself:

        a, b, c = short convolution of inputs(x)        p = b c
        out = output(a (h * p + skip p))
        h_t = mlp(features(t)) (exp(-decay s) + shift)        s = t / (L - 1), L the trained length
        features(t) = s, cos(w_k), -sin(w_k), w_k = 2 pi t f_k / L, f_k from 1e-4 to BANDS - 1

    The mlp's layers end in sin(frequency y), but for the last. Past L everything goes on by the
    same formula."""

    def __init__(self, config: Sizes) -> None:
        super().__init__()
        d, self.length = config.n_embd, config.n_context
        self.inputs, self.output = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.taps, self.bias = uniform(TAPS, 3 * d, TAPS), uniform(TAPS, 3 * d)
        n_features = 1 + 2 * BANDS
        fans = [n_features, *[WIDTH] * INNER]
        self.filters = nn.ParameterList(uniform(fan, WIDTH, fan) for fan in fans)
        self.biases = nn.ParameterList(uniform(fan, WIDTH) for fan in fans)
        self.last = uniform(WIDTH, d, WIDTH)
        self.frequency = nn.Parameter(torch.full((WIDTH,), FREQUENCY))
        self.skip = nn.Parameter(torch.randn(d))
        self.register_buffer("decay", torch.linspace(*DECAYS, d))

    @staticmethod
    def metadata(config: Sizes) -> dict[str, Value]:
        return {
            ".hyena.conv_kernel": TAPS,
            ".hyena.filter_length": config.n_context,
            ".hyena.filter_bands": BANDS,
            ".hyena.filter_width": WIDTH,
            ".hyena.filter_layers": 1 + INNER,
            ".hyena.filter_shift": SHIFT,
        }

    def tensors(self) -> dict[str, Tensor]:
        """By their names in a checkpoint, after "blk.N."."""
        out: dict[str, Tensor] = {
            "hyena_in.weight": self.inputs.weight,
            "hyena_in.bias": self.inputs.bias,
            "hyena_conv1d.weight": self.taps,
            "hyena_conv1d.bias": self.bias,
        }
        for i, (weight, bias) in enumerate(zip(self.filters, self.biases, strict=True)):
            out |= {f"hyena_filter_{i}.weight": weight, f"hyena_filter_{i}.bias": bias}
        return out | {
            "hyena_filter_out.weight": self.last,
            "hyena_frequency": self.frequency,
            "hyena_decay": self.decay,
            "hyena_skip": self.skip,
            "hyena_out.weight": self.output.weight,
            "hyena_out.bias": self.output.bias,
        }

    def filter(self, n: int) -> Tensor:
        """h [n, n_embd]."""
        kind, device = torch.get_default_dtype(), self.last.device
        t = torch.arange(n, dtype=torch.float64)[:, None]
        s = t / max(self.length - 1, 1)
        w = 2 * math.pi * t * torch.linspace(1e-4, BANDS - 1, BANDS).double() / self.length
        y = torch.cat((s, w.cos(), -w.sin()), dim=1).to(device, kind)
        for weight, bias in zip(self.filters, self.biases, strict=True):
            y = torch.sin(self.frequency * F.linear(y, weight, bias))
        window = torch.exp(-s.to(device, kind) * self.decay) + SHIFT
        return F.linear(y, self.last) * window

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        padded = F.pad(self.inputs(x), (0, 0, TAPS - 1, 0))
        u = self.bias
        for k in range(TAPS):
            u = u + self.taps[:, k] * padded[:, k : k + n]
        with torch.autocast(x.device.type, enabled=False):
            a, b, c = u.to(self.last.dtype).chunk(3, dim=-1)
            p, size = b * c, 2 * n
            spectrum = torch.fft.rfft(p, size, dim=1) * torch.fft.rfft(self.filter(n), size, dim=0)
            y = a * (torch.fft.irfft(spectrum, size, dim=1)[:, :n] + self.skip * p)
        return self.output(y)


def check_sizes(get: Callable[..., Any], config: Sizes) -> None:
    """Refuse a file of other sizes than those that this one has."""
    for key, value in Hyena.metadata(config).items():
        found = get(key.removeprefix("."))
        if not math.isclose(found, value, rel_tol=1e-6):
            raise ValueError(f"{key.removeprefix('.')} is {found}; this decoder has {value}")
