"""The `locus` decoder in PyTorch, its position schemes, and its GGUF file.

One independent second implementation of what the C engine runs: train.py trains it, and golden
data is made with it. Data flows as in the engine:

    tokens -> embed -> position.embed
           -> per layer: norm -> q, k, v -> position.rotate
                         -> attend (scores + position.bias, softmax, mix) -> project -> MLP
           -> norm -> logits

A position scheme is one subclass of `Position`, listed in `SCHEMES`. The decoder never asks which
scheme it runs. Made while torch's default type is float64, it computes in double throughout.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from biases import (
    AlibiPosition,
    CopePosition,
    FirePosition,
    KerplePosition,
    RelativePosition,
    SandwichPosition,
    T5Position,
    TransformerXlPosition,
)
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
from vocabulary import END_OF_TEXT, ByteBpe, Bytes

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

    def __post_init__(self) -> None:
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

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        """Each [batch, n_head, n, head_dim]; bias is -inf for future keys, None: causal alone."""
        if bias is not None and bias.requires_grad:
            # No fused kernel gives a bias its gradient. Rows in blocks, which skip future keys.
            n, mixed = q.shape[2], []
            for start in range(0, n, ROWS):
                stop = min(start + ROWS, n)
                scaled = q[:, :, start:stop] * self.config.scale
                scores = scaled @ k[:, :, :stop].transpose(-1, -2) + bias[..., start:stop, :stop]
                mixed.append(scores.softmax(-1) @ v[:, :, :stop])
            return torch.cat(mixed, dim=2)
        return F.scaled_dot_product_attention(
            q, k, v, bias, is_causal=bias is None, scale=self.config.scale
        )

    def attend_rows(
        self, q: Tensor, k: Tensor, v: Tensor, position: Position, positions: Tensor,
        rows: tuple[int, int],
    ) -> Tensor:  # fmt: skip
        """The query rows [start, stop), whose keys are rotated for them alone."""
        start, stop = rows
        q = position.rotate(self.layer, True, q[:, :, start:stop], positions[start:stop], stop - 1)
        k = position.rotate(self.layer, False, k[:, :, :stop], positions[:stop], stop - 1)
        seen = positions[start:stop, None] >= positions[:stop]
        return F.scaled_dot_product_attention(q, k, v[:, :, :stop], seen, scale=self.config.scale)

    def forward(
        self, x: Tensor, position: Position, positions: Tensor, bias: Tensor | None
    ) -> Tensor:
        c, (batch, n, _) = self.config, x.shape
        q = self.q(x).view(batch, n, c.n_head, c.head_dim).transpose(1, 2)
        k = self.k(x).view(batch, n, c.n_head_kv, c.head_dim).transpose(1, 2)
        v = self.v(x).view(batch, n, c.n_head_kv, c.head_dim).transpose(1, 2)
        shared = c.n_head // c.n_head_kv
        groups = position.groups(n)
        if groups is None:
            q = position.rotate(self.layer, True, q, positions)
            k = position.rotate(self.layer, False, k, positions)
        if shared > 1:
            k, v = (t.repeat_interleave(shared, dim=1) for t in (k, v))
        if groups is None:
            if position.has_bias and bias is None:
                bias = position.bias(self.layer, q, k, positions)
            mixed = self.attend(q, k, v.to(q.dtype), bias)
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
        self.attn = Attention(config, layer)
        self.ffn_norm = make_norm(config)
        self.ffn = FeedForward(config)

    def forward(
        self, x: Tensor, position: Position, positions: Tensor, bias: Tensor | None
    ) -> Tensor:
        attended = self.attn(self.attn_norm(x), position, positions, bias)
        if self.parallel:
            return x + attended + self.ffn(self.ffn_norm(x))
        x = x + attended
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
        self.position.reserve(min(config.n_context, 4096))

    def initialise(self) -> None:
        """Normal weights; what writes into the residual stream is scaled down by its depth."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        for block in self.blocks:
            for layer in (block.attn.output, block.ffn.down):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * self.config.n_layer))

    def forward(self, tokens: Tensor, first_position: int = 0) -> Tensor:
        """tokens int64 [batch, n] to logits [batch, n, n_vocab]."""
        n = tokens.shape[1]
        self.position.reserve(first_position + n)
        positions = torch.arange(first_position, first_position + n, device=tokens.device)
        x = self.token_embd(tokens)
        if self.config.embedding_scale != 1.0:
            x = x * self.config.embedding_scale
        x = self.position.embed(tokens, x, positions)
        if self.embd_norm is not None:
            x = self.embd_norm(x)
        bias = None
        if self.position.one_bias:
            bias = self.position.bias(0, x, x, positions)
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
            for name in ("q", "k", "v", "output"):
                out[f"blk.{i}.attn_{name}.weight"] = getattr(block.attn, name).weight
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


def write_gguf(
    path: Path,
    model: Decoder,
    tokenizer: ByteBpe | Bytes,
    name: str,
    kind: str,
    more: Mapping[str, str | int | float] | None = None,
) -> None:
    """Write `model` as architecture `locus`, matrices as `kind` (f16 or f32), vectors and what
    belongs to positions as f32. `more` is further metadata of the architecture. The file appears
    whole or not at all, and its bytes depend on the arguments only."""
    c = model.config
    temporary = path.with_name(path.name + ".tmp")
    w = gguf.GGUFWriter(temporary, "locus")
    w.add_name(name)
    f16 = kind == "f16"
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if f16 else gguf.LlamaFileType.ALL_F32)
    w.add_uint32("locus.context_length", c.n_context)
    w.add_uint32("locus.embedding_length", c.n_embd)
    w.add_uint32("locus.block_count", c.n_layer)
    w.add_uint32("locus.feed_forward_length", c.n_ff)
    w.add_uint32("locus.vocab_size", c.n_vocab)
    w.add_uint32("locus.attention.head_count", c.n_head)
    w.add_uint32("locus.attention.head_count_kv", c.n_head_kv)
    w.add_uint32("locus.attention.key_length", c.head_dim)
    if c.attention_scale is not None:
        w.add_float32("locus.attention.scale", c.attention_scale)
    w.add_string("locus.norm", c.norm)
    w.add_float32("locus.norm_epsilon", c.norm_epsilon)
    w.add_string("locus.norm_position", "pre")
    if c.embedding_norm:
        w.add_bool("locus.embedding_norm", True)
    w.add_bool("locus.parallel_residual", c.parallel_residual)
    w.add_string("locus.activation", c.activation)
    w.add_bool("locus.gated", c.gated)
    if c.embedding_scale != 1.0:
        w.add_float32("locus.embedding_scale", c.embedding_scale)
    w.add_string("locus.position", model.position.spec())
    for key, value in (more or {}).items():
        adders = {str: w.add_string, int: w.add_uint32, float: w.add_float32}
        adders[type(value)](f"locus.{key}", value)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    w.add_tokenizer_model(tokenizer.kind)
    w.add_token_list(tokenizer.tokens)
    w.add_token_types([control if t == END_OF_TEXT else normal for t in tokenizer.tokens])
    if tokenizer.kind == "gpt2":
        w.add_tokenizer_pre("gpt-2")
        w.add_token_merges(tokenizer.merges)
    w.add_bos_token_id(tokenizer.end_of_text)
    w.add_eos_token_id(tokenizer.end_of_text)
    for tensor_name, tensor in model.checkpoint_tensors().items():
        as_f16 = f16 and tensor.dim() == 2 and "position_" not in tensor_name
        data = tensor.detach().to("cpu", torch.float16 if as_f16 else torch.float32)
        w.add_tensor(tensor_name, np.ascontiguousarray(data.numpy()))
    try:
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_gguf(path: Path, position: str | None = None) -> tuple[Decoder, ByteBpe | Bytes]:
    """Read what `write_gguf` wrote, or a file like it. Weights are widened to torch's default
    type. `position` overrides the file's SPEC; if its scheme is the same, what it doesn't name
    stays."""
    reader = gguf.GGUFReader(path)

    def get(key: str, default: Any = None) -> Any:
        field = reader.get_field(key)
        if field is None and default is None:
            raise ValueError(f"{path}: no metadata key {key}")
        return default if field is None else field.contents()

    if get("general.architecture") != "locus":
        raise ValueError(f"{path}: architecture {get('general.architecture')}, expected locus")
    kind = torch.get_default_dtype()
    given = {t.name: torch.from_numpy(np.array(t.data)).to(kind) for t in reader.tensors}
    n_head = get("locus.attention.head_count")
    n_embd = get("locus.embedding_length")
    scale = reader.get_field("locus.attention.scale")
    config = DecoderConfig(
        n_vocab=given["token_embd.weight"].shape[0],
        n_embd=n_embd,
        n_layer=get("locus.block_count"),
        n_head=n_head,
        n_head_kv=get("locus.attention.head_count_kv", n_head),
        head_dim=get("locus.attention.key_length", n_embd // n_head),
        n_ff=get("locus.feed_forward_length"),
        n_context=get("locus.context_length"),
        norm=get("locus.norm"),
        norm_epsilon=get("locus.norm_epsilon"),
        activation=get("locus.activation"),
        gated=get("locus.gated"),
        parallel_residual=get("locus.parallel_residual", False),
        embedding_norm=get("locus.embedding_norm", False),
        embedding_scale=get("locus.embedding_scale", 1.0),
        attention_scale=None if scale is None else scale.contents(),
        tied="output.weight" not in given,
        position=get("locus.position"),
    )
    if position is not None:
        config = replace(config, position=inherit(position, config.position))
    model = Decoder(config, given)
    wanted = model.checkpoint_tensors()
    missing = sorted(wanted.keys() - given.keys())
    if position is None:
        missing += sorted(given.keys() - wanted.keys())
    if missing:
        raise ValueError(f"{path}: missing or unknown tensors: {', '.join(missing)}")
    with torch.no_grad():
        for tensor_name, parameter in wanted.items():
            data = given[tensor_name]
            if data.shape != parameter.shape:
                raise ValueError(
                    f"{path}: {tensor_name} is {list(data.shape)}, expected {list(parameter.shape)}"
                )
            parameter.copy_(data)
    if get("tokenizer.ggml.model", "bytes") == "bytes":
        return model, Bytes()
    return model, ByteBpe(get("tokenizer.ggml.tokens"), get("tokenizer.ggml.merges", []))
