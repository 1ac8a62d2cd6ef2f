"""The `locus` decoder in PyTorch, its position schemes, and its GGUF file.

One independent second implementation of what the C engine runs: train.py trains it, and golden
data is made with it. Data flows as in the engine:

    tokens -> embed -> position.embed
           -> per layer: norm -> q, k, v -> position.rotate
                         -> attend (scores + position.bias, or position.combine, softmax, mix)
                         -> project -> MLP
           -> norm -> logits

A position scheme is one subclass of `Position`, listed in `SCHEMES`. The decoder never asks which
scheme it runs. Made while torch's default type is float64, it computes in double throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import checkpoint
from biases import (
    AlibiPosition,
    CopePosition,
    DapePosition,
    FirePosition,
    FoxPosition,
    KerplePosition,
    RelativePosition,
    SandwichPosition,
    T5Position,
    TransformerXlPosition,
)
from checkpoint import Value
from hyena import check_sizes
from mixers import MIXERS, heads_of, sizes_of
from positions import (
    LearnedPosition,
    NoPosition,
    Position,
    RecurrentPosition,
    SinusoidalPosition,
    inherit,
    parse_spec,
)
from rotary import RopePosition, XposPosition
from selective_scan import Mamba, stored, trained
from vocabulary import ByteBpe, Bytes, metadata_of_tokenizer, tokenizer_of

SCHEMES: tuple[type[Position], ...] = (
    NoPosition,
    LearnedPosition,
    SinusoidalPosition,
    RopePosition,
    XposPosition,
    AlibiPosition,
    RelativePosition,
    T5Position,
    TransformerXlPosition,
    KerplePosition,
    FirePosition,
    SandwichPosition,
    CopePosition,
    FoxPosition,
    DapePosition,
    RecurrentPosition,
)
ACTIVATIONS = ("silu", "gelu_tanh", "gelu_erf", "relu")
NORMS = ("rmsnorm", "layernorm")
ROWS = 64  # query rows whose scores are made at a time


@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a decoder. `position` is a SPEC; dimensions are counts of elements."""

    n_vocab: int
    n_embd: int = 160
    n_layer: int = 6
    n_head: int = 5
    n_head_kv: int = 5
    head_dim: int = 32
    n_ff: int = 400
    n_context: int = 256
    norm: str = "rmsnorm"
    norm_epsilon: float = 1e-5
    activation: str = "silu"
    gated: bool = True
    parallel_residual: bool = False
    embedding_norm: bool = False
    embedding_scale: float = 1.0
    attention_scale: float | None = None  # None: 1 / sqrt(head_dim)
    tied: bool = True
    position: str = "none"
    mixer: str = "attention"  # or of MIXERS; with commas between: one a layer, over and over
    value_dim: int | None = None  # of a head of retention; None: twice head_dim
    n_inner: int | None = None  # channels of mamba; None: twice n_embd
    n_state: int = 16  # of a channel
    n_conv: int = 4  # tokens that its convolution sees
    rank: int | None = None  # of its steps; None: a sixteenth of n_embd, rounded up

    def __post_init__(self) -> None:
        known = ("attention", *MIXERS)
        for name in self.mixer.split(","):
            if name not in known:
                raise ValueError(f"mixer '{name}' is not one of {', '.join(known)}")
        if "attention" not in self.mixers and self.position.partition(":")[0] != "none":
            raise ValueError(f"position {self.position}: no layer attends, expected none")
        if self.value_dim is not None and "retention" not in self.mixers:
            raise ValueError(f"value_dim {self.value_dim}: no layer is retention")
        if self.n_head % self.n_head_kv != 0:
            raise ValueError(f"{self.n_head} heads cannot share {self.n_head_kv} key-value heads")
        if self.norm not in NORMS:
            raise ValueError(f"norm '{self.norm}' is not one of {', '.join(NORMS)}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation '{self.activation}' is not one of {', '.join(ACTIVATIONS)}"
            )

    @property
    def scale(self) -> float:
        """What q.k is multiplied by."""
        return self.head_dim**-0.5 if self.attention_scale is None else self.attention_scale

    @property
    def mixers(self) -> list[str]:
        """A name a layer."""
        names = self.mixer.split(",")
        return [names[i % len(names)] for i in range(self.n_layer)]


def parse_position(
    spec: str, config: DecoderConfig, given: Mapping[str, Tensor] | None = None
) -> Position:
    """Make the scheme that `spec` (NAME[:key=value[,key=value]...]) names, for `config`: with a
    checkpoint's tensors `given`, or with weights made anew."""
    known = {alias: s for s in SCHEMES for alias in (s.name, *s.aliases)}
    scheme, values = parse_spec(spec, known)
    return scheme(config, values, given)


# --------------------------------------------------------------------------------------------
# The decoder
# --------------------------------------------------------------------------------------------


def make_norm(config: DecoderConfig) -> nn.Module:
    kind = nn.LayerNorm if config.norm == "layernorm" else nn.RMSNorm
    return kind(config.n_embd, eps=config.norm_epsilon)


class Attention(nn.Module):
    """Causal attention with grouped keys and values: [batch, n, n_embd] to the same shape."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.config, self.layer = config, layer
        d, hd = config.n_embd, config.head_dim
        self.q = nn.Linear(d, config.n_head * hd, bias=False)
        self.k = nn.Linear(d, config.n_head_kv * hd, bias=False)
        self.v = nn.Linear(d, config.n_head_kv * hd, bias=False)
        self.output = nn.Linear(config.n_head * hd, d, bias=False)

    def tensors(self) -> dict[str, Tensor]:
        """By their names in a checkpoint, after "blk.N."."""
        parts = ("q", "k", "v", "output")
        return {f"attn_{name}.weight": getattr(self, name).weight for name in parts}

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, position: Position
    ) -> Tensor:
        """Each [batch, n_head, n, head_dim]; bias is -inf for future keys, None: causal alone."""
        temperature = position.temperature
        if bias is not None and (bias.requires_grad or position.combines):
            # No fused kernel gives a bias its gradient. Rows in blocks, which skip future keys.
            n, mixed = q.shape[2], []
            for start in range(0, n, ROWS):
                stop = min(start + ROWS, n)
                scaled = q[:, :, start:stop] * self.config.scale
                scores = scaled @ k[:, :, :stop].transpose(-1, -2)
                part = bias[..., start:stop, :stop]
                if position.combines:
                    scores = position.combine(self.layer, scores, part)
                else:
                    scores = scores + part
                if temperature != 1:
                    scores = scores / temperature
                mixed.append(scores.softmax(-1) @ v[:, :, :stop])
            return torch.cat(mixed, dim=2)
        scale = self.config.scale / temperature
        if bias is not None and temperature != 1:
            bias = bias / temperature
        return F.scaled_dot_product_attention(q, k, v, bias, is_causal=bias is None, scale=scale)

    def attend_rows(
        self, q: Tensor, k: Tensor, v: Tensor, position: Position, positions: Tensor,
        rows: tuple[int, int],
    ) -> Tensor:  # fmt: skip
        """The query rows [start, stop), whose keys are rotated for them alone."""
        start, stop = rows
        q = position.rotate(self.layer, True, q[:, :, start:stop], positions[start:stop], stop - 1)
        k = position.rotate(self.layer, False, k[:, :, :stop], positions[:stop], stop - 1)
        seen = positions[start:stop, None] >= positions[:stop]
        scale = self.config.scale / position.temperature
        return F.scaled_dot_product_attention(q, k, v[:, :, :stop], seen, scale=scale)

    def forward(
        self, x: Tensor, position: Position, positions: Tensor, bias: Tensor | None
    ) -> Tensor:
        c, (batch, n, _) = self.config, x.shape
        q = self.q(x).view(batch, n, c.n_head, c.head_dim).transpose(1, 2)
        k = self.k(x).view(batch, n, c.n_head_kv, c.head_dim).transpose(1, 2)
        v = self.v(x).view(batch, n, c.n_head_kv, c.head_dim).transpose(1, 2)
        q = position.scale_queries(q)
        shared = c.n_head // c.n_head_kv
        groups = position.groups(n)
        if groups is None:
            q = position.rotate(self.layer, True, q, positions)
            k = position.rotate(self.layer, False, k, positions)
        if shared > 1:
            k, v = (t.repeat_interleave(shared, dim=1) for t in (k, v))
        if groups is None:
            if position.has_bias and bias is None:
                bias = position.bias(self.layer, q, k, positions, x)
            mixed = self.attend(q, k, v.to(q.dtype), bias, position)
        else:
            mixed = torch.cat(
                [self.attend_rows(q, k, v, position, positions, rows) for rows in groups], dim=2
            )
        return self.output(mixed.transpose(1, 2).reshape(batch, n, c.n_head * c.head_dim))


class FeedForward(nn.Module):
    """down(act(gate(x)) up(x)), or down(act(up(x))) when not gated."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.activation = config.activation
        if config.gated:
            self.gate = nn.Linear(config.n_embd, config.n_ff, bias=False)
        self.gated = config.gated
        self.up = nn.Linear(config.n_embd, config.n_ff, bias=False)
        self.down = nn.Linear(config.n_ff, config.n_embd, bias=False)

    def activate(self, x: Tensor) -> Tensor:
        if self.activation == "silu":
            return F.silu(x)
        if self.activation == "relu":
            return F.relu(x)
        return F.gelu(x, approximate="tanh" if self.activation == "gelu_tanh" else "none")

    def forward(self, x: Tensor) -> Tensor:
        if self.gated:
            return self.down(self.activate(self.gate(x)) * self.up(x))
        return self.down(self.activate(self.up(x)))


class Block(nn.Module):
    def __init__(self, config: DecoderConfig, layer: int) -> None:
        super().__init__()
        self.parallel = config.parallel_residual
        self.attn_norm = make_norm(config)
        mixer = config.mixers[layer]
        self.attends = mixer == "attention"
        self.attn = Attention(config, layer) if self.attends else MIXERS[mixer](config)
        self.ffn_norm = self.ffn = None
        if config.n_ff > 0:
            self.ffn_norm = make_norm(config)
            self.ffn = FeedForward(config)

    def forward(
        self, x: Tensor, position: Position, positions: Tensor, bias: Tensor | None
    ) -> Tensor:
        normed = self.attn_norm(x)
        mixed = self.attn(normed, position, positions, bias) if self.attends else self.attn(normed)
        if self.ffn is None:
            return x + mixed
        if self.parallel:
            return x + mixed + self.ffn(self.ffn_norm(x))
        x = x + mixed
        return x + self.ffn(self.ffn_norm(x))


class Decoder(nn.Module):
    """The decoder that GGUF architecture `locus` spells out."""

    def __init__(self, config: DecoderConfig, given: Mapping[str, Tensor] | None = None) -> None:
        """`given`: the tensors of a checkpoint; only the scheme's own are taken from them."""
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.n_vocab, config.n_embd)
        self.embd_norm = make_norm(config) if config.embedding_norm else None
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.n_layer))
        self.output_norm = make_norm(config)
        self.output = None
        if not config.tied:
            self.output = nn.Linear(config.n_embd, config.n_vocab, bias=False)
        self.initialise()
        # Last, so that every scheme has the same other weights.
        self.position = parse_position(config.position, config, given)
        self.position.given = None  # its weights are copies
        self.position.reserve(min(config.n_context, 4096))

    def initialise(self) -> None:
        """Normal weights; what writes into the residual stream is scaled down by its depth."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        for block in self.blocks:
            halves = [block.attn.output, *([] if block.ffn is None else [block.ffn.down])]
            for layer in halves:
                nn.init.normal_(
                    layer.weight, std=0.02 / math.sqrt(len(halves) * self.config.n_layer)
                )
            if isinstance(block.attn, Mamba):
                block.attn.initialise()

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens int64 [batch, n] to logits [batch, n, n_vocab]."""
        positions = self.position.places(tokens.shape[1], tokens.device)
        x = self.token_embd(tokens)
        if self.config.embedding_scale != 1.0:
            x = x * self.config.embedding_scale
        x = self.position.embed(tokens, x, positions)
        if self.embd_norm is not None:
            x = self.embd_norm(x)
        bias = None
        if self.position.one_bias:
            bias = self.position.bias(0, x, x, positions, x)
        for block in self.blocks:
            x = block(x, self.position, positions, bias)
        head = self.token_embd if self.output is None else self.output
        return F.linear(self.output_norm(x), head.weight)

    def checkpoint_tensors(self) -> dict[str, Tensor]:
        """Every tensor by its name in a checkpoint, in the order it is written."""
        out: dict[str, Tensor] = {"token_embd.weight": self.token_embd.weight}

        def add_norm(name: str, norm: nn.Module) -> None:
            out[f"{name}.weight"] = norm.weight
            if self.config.norm == "layernorm":
                out[f"{name}.bias"] = norm.bias

        if self.embd_norm is not None:
            add_norm("token_embd_norm", self.embd_norm)
        out.update(self.position.tensors())
        for i, block in enumerate(self.blocks):
            add_norm(f"blk.{i}.attn_norm", block.attn_norm)
            for name, tensor in block.attn.tensors().items():
                out[f"blk.{i}.{name}"] = tensor
            if block.ffn is None:
                continue
            add_norm(f"blk.{i}.ffn_norm", block.ffn_norm)
            for name in ("gate", "up", "down") if self.config.gated else ("up", "down"):
                out[f"blk.{i}.ffn_{name}.weight"] = getattr(block.ffn, name).weight
        add_norm("output_norm", self.output_norm)
        if self.output is not None:
            out["output.weight"] = self.output.weight
        return out


# --------------------------------------------------------------------------------------------
# The GGUF file
# --------------------------------------------------------------------------------------------


def metadata_of(config: DecoderConfig, position: str) -> dict[str, Value]:
    """The shape as keys of architecture `locus`; what is its default may be left out."""
    out: dict[str, Value] = {
        ".context_length": config.n_context,
        ".embedding_length": config.n_embd,
        ".block_count": config.n_layer,
        ".feed_forward_length": config.n_ff,
        ".vocab_size": config.n_vocab,
    }
    if "attention" in config.mixers:
        out |= {
            ".attention.head_count": config.n_head,
            ".attention.head_count_kv": config.n_head_kv,
            ".attention.key_length": config.head_dim,
        }
    for name in sorted({*config.mixers} - {"attention"}):
        out |= MIXERS[name].metadata(config)
    if config.mixer != "attention":
        out[".mixer"] = config.mixer if "," not in config.mixer else config.mixers
    if config.attention_scale is not None:
        out[".attention.scale"] = config.attention_scale
    out |= {
        ".norm": config.norm,
        ".norm_epsilon": config.norm_epsilon,
        ".norm_position": "pre",
    }
    if config.embedding_norm:
        out[".embedding_norm"] = True
    out |= {
        ".parallel_residual": config.parallel_residual,
        ".activation": config.activation,
        ".gated": config.gated,
    }
    if config.embedding_scale != 1.0:
        out[".embedding_scale"] = config.embedding_scale
    return out | {".position": position}


def write_gguf(
    path: Path,
    model: Decoder,
    tokenizer: ByteBpe | Bytes,
    name: str,
    kind: str,
    more: Mapping[str, Value] | None = None,
) -> None:
    """Write `model` as architecture `locus`, matrices as `kind` (f16 or f32), vectors and what
    belongs to positions as f32. `more` is further metadata of the architecture. The file appears
    whole or not at all, and its bytes depend on the arguments only."""
    metadata: dict[str, Value] = {"general.name": name}
    metadata |= metadata_of(model.config, model.position.spec())
    metadata |= {f".{key}": value for key, value in (more or {}).items()}
    metadata |= metadata_of_tokenizer(tokenizer)
    tensors = [
        checkpoint.Tensor.of(
            tensor_name, stored(tensor_name, values.detach().float()).cpu().numpy()
        )
        for tensor_name, values in model.checkpoint_tensors().items()
    ]
    checkpoint.write(path, "locus", metadata, tensors, kind)


# Keys of `locus` that say nothing of the shape.
REMARKS = ("locus.vocab_size", "locus.task", "locus.training.")


def config_of(reader: gguf.GGUFReader, path: Path, given: Mapping[str, Tensor]) -> DecoderConfig:
    """The shape that the keys give, with models/README.md's defaults. A key that would change
    what is computed, and that this decoder doesn't know, is refused."""
    values = {key: field.contents() for key, field in reader.fields.items()}

    def get(key: str, *default: Any) -> Any:
        return values.pop(f"locus.{key}", *default)

    mixer = get("mixer", "attention")
    mixers = [mixer] if isinstance(mixer, str) else mixer
    try:
        n_embd = get("embedding_length")
        n_head, head_dim, value_dim = heads_of(mixers, n_embd, get)
        config = DecoderConfig(
            n_vocab=given["token_embd.weight"].shape[0],
            n_embd=n_embd,
            n_layer=get("block_count"),
            n_head=n_head,
            n_head_kv=get("attention.head_count_kv", n_head),
            head_dim=head_dim,
            n_ff=get("feed_forward_length"),
            n_context=get("context_length"),
            norm=get("norm", "layernorm"),
            norm_epsilon=get("norm_epsilon", 1e-5),
            activation=get("activation", "gelu_tanh"),
            gated=get("gated", False),
            parallel_residual=get("parallel_residual", False),
            embedding_norm=get("embedding_norm", False),
            embedding_scale=get("embedding_scale", 1.0),
            attention_scale=get("attention.scale", None),
            tied="output.weight" not in given,
            position=get("position", "none"),
            mixer=",".join(mixers),
            value_dim=value_dim,
            **sizes_of(mixers, get),
        )
    except KeyError as missing:
        raise ValueError(f"{path}: the file has no {missing.args[0]}") from None
    if "hyena" in mixers:
        check_sizes(get, config)
    norm_position = get("norm_position", "pre")
    if norm_position != "pre":
        raise ValueError(f"{path}: norm_position {norm_position}; this decoder has pre alone")
    unknown = [k for k in values if k.startswith("locus.") and not k.startswith(REMARKS)]
    if unknown:
        raise ValueError(f"{path}: this decoder does not know {', '.join(unknown)}")
    return config


def tensors_of(reader: gguf.GGUFReader, path: Path) -> dict[str, Tensor]:
    """All tensors by name, widened to torch's default type; F32 and F16 alone."""
    readable = (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16)
    kind, out = torch.get_default_dtype(), {}
    for tensor in reader.tensors:
        if tensor.tensor_type not in readable:
            found = tensor.tensor_type.name
            raise ValueError(f"{path}: {tensor.name} is {found}; this decoder reads F32 and F16")
        out[tensor.name] = torch.from_numpy(np.array(tensor.data)).to(kind)
    return out


def read_gguf(path: Path, position: str | None = None) -> tuple[Decoder, ByteBpe | Bytes]:
    """Read what `write_gguf` wrote, or a file like it. `position` overrides the file's SPEC; if its
    scheme is the same, what it doesn't name stays."""
    reader = checkpoint.open_gguf(path, "locus")
    given = tensors_of(reader, path)
    config = config_of(reader, path, given)
    if position is not None:
        config = replace(config, position=inherit(position, config.position))
    model = Decoder(config, given)
    wanted = model.checkpoint_tensors()
    missing = sorted(wanted.keys() - given.keys())
    # Another scheme leaves the weights of the file's own aside.
    unknown = [
        name
        for name in sorted(given.keys() - wanted.keys())
        if position is None or not ("position_" in name or "rope_" in name)
    ]
    if missing or unknown:
        raise ValueError(f"{path}: missing or unknown tensors: {', '.join(missing + unknown)}")
    with torch.no_grad():
        for name, parameter in wanted.items():
            if given[name].shape != parameter.shape:
                found, expected = list(given[name].shape), list(parameter.shape)
                raise ValueError(f"{path}: {name} is {found}, expected {expected}")
            parameter.copy_(trained(name, given[name]))

    return model, tokenizer_of(reader, path)
