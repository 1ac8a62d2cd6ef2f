"""The `locus` decoder in PyTorch, its position schemes, and its GGUF file.

One independent second implementation of what the C engine runs: train.py trains it, and golden
data is made with it. Data flows as in the engine:

    tokens -> embed -> position.embed
           -> per layer: norm -> q, k, v -> position.rotate
                         -> attend (scores + position.bias, softmax, mix) -> project -> MLP
           -> norm -> logits

A position scheme is one subclass of `Position`, listed in `SCHEMES`. The decoder never asks which
scheme it runs.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn

END_OF_TEXT = "<|endoftext|>"
ACTIVATIONS = ("silu", "gelu_tanh", "gelu_erf", "relu")
NORMS = ("rmsnorm", "layernorm")


class SpecError(ValueError):
    """A position SPEC that cannot be served; the message is one line."""


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


# --------------------------------------------------------------------------------------------
# Position schemes
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """One key of a SPEC. A string `default` with `choices` is an enumeration; a default of None
    is taken from the model. `shown` keys are always printed, others only when not the default."""

    key: str
    default: Any
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    shown: bool = False
    kind: type = float

    def parse(self, text: str, scheme: str) -> Any:
        if self.choices:
            if text not in self.choices:
                raise SpecError(
                    f"position {scheme}: {self.key}={text} is not one of {', '.join(self.choices)}"
                )
            return text
        try:
            value = self.kind(text)
        except ValueError:
            want = "an integer" if self.kind is int else "a number"
            raise SpecError(f"position {scheme}: {self.key}={text} is not {want}") from None
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise SpecError(
                f"position {scheme}: {self.key}={text} is outside [{self.low:g}, {self.high:g}]"
            )
        return value


def format_value(value: Any) -> str:
    """A SPEC value as its shortest text: 10000.0 is `10000`."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


class Position(nn.Module):
    """A position scheme. The defaults of the three hooks do nothing (`none` is exactly that).

    Positions are absolute integers, int64 [n]. Tables are made in double for positions
    0 .. rows-1 and kept as float32; `reserve` grows them.
    """

    name: ClassVar[str] = "none"
    aliases: ClassVar[tuple[str, ...]] = ()
    params: ClassVar[tuple[Parameter, ...]] = ()
    has_bias: ClassVar[bool] = False

    def __init__(self, config: DecoderConfig, values: dict[str, Any]) -> None:
        super().__init__()
        self.values = values
        self.rows = 0

    def reserve(self, rows: int) -> None:
        """Make positions 0 .. rows-1 available."""
        if rows > self.rows:
            self.build(rows)
            self.rows = rows

    def build(self, rows: int) -> None:
        """Precompute tables for positions 0 .. rows-1."""

    def embed(self, tokens: Tensor, x: Tensor, positions: Tensor) -> Tensor:
        """x [batch, n, n_embd], after embedding_scale and before any embedding norm."""
        return x

    def rotate(self, layer: int, is_query: bool, rows: Tensor, positions: Tensor) -> Tensor:
        """rows [batch, n_heads, n, head_dim], queries or keys, after projection."""
        return rows

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        """What is added to the scaled scores, broadcastable to [batch, n_head, n, n]. Entries of
        future keys are ignored. Only called when `has_bias`."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """The scheme's own learned tensors, by their names in a checkpoint."""
        return {}

    def spec(self) -> str:
        """The canonical SPEC, which parses back to the same scheme."""
        pairs = [
            f"{p.key}={format_value(self.values[p.key])}"
            for p in self.params
            if p.shown or self.values[p.key] != p.default
        ]
        return self.name + (":" + ",".join(pairs) if pairs else "")

    def table(self, key: str, values: Tensor) -> None:
        """Keep a float64 table as a float32 buffer which no state holds."""
        device = getattr(self, key).device if hasattr(self, key) else None
        self.register_buffer(key, values.to(device, torch.float32), persistent=False)


class NoPosition(Position):
    """NoPE: order is known through the causal mask alone."""

    name = "none"
    aliases = ("nope",)


class LearnedPosition(Position):
    """h0[t] = wte[token] + wpe[offset + position]."""

    name = "learned"
    params = (Parameter("offset", 0, low=0, high=1 << 20, kind=int),)

    def __init__(self, config: DecoderConfig, values: dict[str, Any]) -> None:
        super().__init__(config, values)
        self.weight = nn.Parameter(torch.empty(config.n_context + values["offset"], config.n_embd))
        nn.init.normal_(self.weight, std=0.02)

    def build(self, rows: int) -> None:
        served = self.weight.shape[0] - self.values["offset"]
        if rows > served:
            raise SpecError(f"position learned: {rows} positions asked, the table has {served}")

    def embed(self, tokens: Tensor, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.weight[positions + self.values["offset"]]

    def tensors(self) -> dict[str, Tensor]:
        return {"position_embd.weight": self.weight}


class SinusoidalPosition(Position):
    """sin and cos of p base^(-2k/D) (Vaswani et al. 2017), or with fairseq's denominator."""

    name = "sinusoidal"
    params = (
        Parameter("layout", "interleaved", choices=("interleaved", "concat"), shown=True),
        Parameter("denominator", "paper", choices=("paper", "fairseq"), shown=True),
        Parameter("base", 10000.0, low=1.0, shown=True),
        Parameter("offset", 0, low=0, high=1 << 20, kind=int),
        Parameter("factor", 1.0, low=1e-6),
    )

    def __init__(self, config: DecoderConfig, values: dict[str, Any]) -> None:
        super().__init__(config, values)
        self.width = config.n_embd
        if values["denominator"] == "fairseq" and self.width < 4:
            raise SpecError("position sinusoidal: denominator=fairseq needs a width of at least 4")

    def build(self, rows: int) -> None:
        v, width = self.values, self.width
        half = (width + 1) // 2 if v["layout"] == "interleaved" else width // 2
        k = torch.arange(half, dtype=torch.float64)
        exponent = k / (width // 2 - 1) if v["denominator"] == "fairseq" else 2 * k / width
        p = (torch.arange(rows, dtype=torch.float64) + v["offset"]) / v["factor"]
        angle = p[:, None] * torch.exp(-exponent * math.log(v["base"]))
        if v["layout"] == "interleaved":
            out = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :width]
        else:
            out = F.pad(torch.cat((angle.sin(), angle.cos()), dim=1), (0, width % 2))
        self.table("encoding", out)

    def embed(self, tokens: Tensor, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.encoding[positions]


class RopePosition(Position):
    """Rotary positions (Su et al. 2021), NeoX pairs (k, k + r/2) or GPT-J pairs (2k, 2k + 1)."""

    name = "rope"
    params = (
        Parameter("pairs", "half", choices=("half", "adjacent"), shown=True),
        Parameter("dim", None, low=2, kind=int, shown=True),
        Parameter("base", 10000.0, low=1.0, shown=True),
        Parameter("nope_every", 0, low=0, kind=int),
    )

    def __init__(self, config: DecoderConfig, values: dict[str, Any]) -> None:
        if values["dim"] is None:
            values = {**values, "dim": config.head_dim}
        super().__init__(config, values)
        dim = values["dim"]
        if dim > config.head_dim or dim % 2 != 0:
            raise SpecError(
                f"position rope: dim={dim} must be even and at most the head's {config.head_dim}"
            )

    def build(self, rows: int) -> None:
        dim, base = self.values["dim"], self.values["base"]
        theta = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angle = torch.arange(rows, dtype=torch.float64)[:, None] * theta
        self.table("cos", angle.cos())  # [rows, dim/2]
        self.table("sin", angle.sin())

    def rotate(self, layer: int, is_query: bool, rows: Tensor, positions: Tensor) -> Tensor:
        every, dim = self.values["nope_every"], self.values["dim"]
        if every > 0 and (layer + 1) % every == 0:
            return rows
        cos, sin = self.cos[positions], self.sin[positions]
        turned, rest = rows[..., :dim], rows[..., dim:]
        if self.values["pairs"] == "half":
            x0, x1 = turned.chunk(2, dim=-1)
            out = torch.cat((x0 * cos - x1 * sin, x0 * sin + x1 * cos), dim=-1)
        else:
            x0, x1 = turned[..., 0::2], turned[..., 1::2]
            out = torch.stack((x0 * cos - x1 * sin, x0 * sin + x1 * cos), dim=-1).flatten(-2)
        return torch.cat((out, rest), dim=-1) if rest.shape[-1] > 0 else out


def alibi_slopes(n_head: int, max_bias: float) -> list[float]:
    """ALiBi's slopes (Press et al. 2022): those of n = 2^floor(log2 H) heads, then every other
    slope of 2n heads."""
    n = 1 << (n_head.bit_length() - 1)
    first = [2.0 ** (-max_bias * (h + 1) / n) for h in range(n)]
    rest = [2.0 ** (-(max_bias / 2) / n * (2 * (h - n) + 1)) for h in range(n, n_head)]
    return first + rest


class AlibiPosition(Position):
    """score += -m_h (i - j)."""

    name = "alibi"
    params = (Parameter("max_bias", 8.0, low=0.0, high=64.0, shown=True),)
    has_bias = True

    def __init__(self, config: DecoderConfig, values: dict[str, Any]) -> None:
        super().__init__(config, values)
        slopes = alibi_slopes(config.n_head, values["max_bias"])
        self.table("slopes", torch.tensor(slopes, dtype=torch.float64))

    def bias(self, layer: int, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
        distance = (positions[:, None] - positions[None, :]).to(self.slopes.dtype)
        return -self.slopes[:, None, None] * distance


SCHEMES: tuple[type[Position], ...] = (
    NoPosition,
    LearnedPosition,
    SinusoidalPosition,
    RopePosition,
    AlibiPosition,
)


def parse_position(spec: str, config: DecoderConfig) -> Position:
    """Make the scheme that `spec` (NAME[:key=value[,key=value]...]) names, for `config`."""
    name, colon, rest = spec.partition(":")
    known = {alias: s for s in SCHEMES for alias in (s.name, *s.aliases)}
    if name not in known:
        names = ", ".join(s.name for s in SCHEMES)
        raise SpecError(f"unknown position scheme '{name}'; known: {names}")
    scheme = known[name]
    by_key = {p.key: p for p in scheme.params}
    values = {p.key: p.default for p in scheme.params}
    seen: set[str] = set()
    for item in rest.split(",") if colon else []:
        key, equals, text = item.partition("=")
        if not equals or not key or not text:
            raise SpecError(f"position {name}: '{item}' is not key=value")
        if key not in by_key:
            keys = ", ".join(by_key) or "none"
            raise SpecError(f"position {name}: unknown key '{key}'; its keys: {keys}")
        if key in seen:
            raise SpecError(f"position {name}: key '{key}' is given twice")
        seen.add(key)
        values[key] = by_key[key].parse(text, name)
    return scheme(config, values)


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

    def forward(self, x: Tensor, position: Position, positions: Tensor) -> Tensor:
        c, (batch, n, _) = self.config, x.shape
        q = self.q(x).view(batch, n, c.n_head, c.head_dim).transpose(1, 2)
        k = self.k(x).view(batch, n, c.n_head_kv, c.head_dim).transpose(1, 2)
        v = self.v(x).view(batch, n, c.n_head_kv, c.head_dim).transpose(1, 2)
        q = position.rotate(self.layer, True, q, positions)
        k = position.rotate(self.layer, False, k, positions)
        if c.n_head_kv != c.n_head:
            k = k.repeat_interleave(c.n_head // c.n_head_kv, dim=1)
            v = v.repeat_interleave(c.n_head // c.n_head_kv, dim=1)
        mask = None
        if position.has_bias:
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            bias = position.bias(self.layer, q, k, positions)
            mask = bias.masked_fill(future, -math.inf).to(q.dtype).expand(batch, c.n_head, n, n)
        mixed = F.scaled_dot_product_attention(
            q, k, v.to(q.dtype), mask, is_causal=mask is None, scale=c.attention_scale
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

    def forward(self, x: Tensor, position: Position, positions: Tensor) -> Tensor:
        attended = self.attn(self.attn_norm(x), position, positions)
        if self.parallel:
            return x + attended + self.ffn(self.ffn_norm(x))
        x = x + attended
        return x + self.ffn(self.ffn_norm(x))


class Decoder(nn.Module):
    """The decoder that GGUF architecture `locus` spells out."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.n_vocab, config.n_embd)
        self.embd_norm = make_norm(config) if config.embedding_norm else None
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.n_layer))
        self.output_norm = make_norm(config)
        self.output = None
        if not config.tied:
            self.output = nn.Linear(config.n_embd, config.n_vocab, bias=False)
        self.position = parse_position(config.position, config)
        self.position.reserve(config.n_context)
        self.initialise()

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
        for block in self.blocks:
            x = block(x, self.position, positions)
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
# The tokenizer
# --------------------------------------------------------------------------------------------


class ByteBpe:
    """GPT-2's byte-level BPE. `tokens` are the vocabulary in id order, in GPT-2's printable
    alphabet; the end of text is an id of its own that no text encodes to."""

    def __init__(self, tokens: list[str], merges: list[str]) -> None:
        self.tokens, self.merges = tokens, merges
        self.end_of_text = tokens.index(END_OF_TEXT)
        vocab = {token: i for i, token in enumerate(tokens)}
        pairs = [tuple(merge.split(" ")) for merge in merges]
        self.backend = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
        self.backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.backend.decoder = decoders.ByteLevel()

    def encode(self, text: str) -> list[int]:
        return self.backend.encode(text).ids

    def encode_documents(self, documents: list[str]) -> np.ndarray:
        """Each document followed by the end of text, as one uint16 or uint32 stream."""
        ids: list[int] = []
        for encoded in self.backend.encode_batch(documents):
            ids.extend(encoded.ids)
            ids.append(self.end_of_text)
        return np.array(ids, dtype=np.uint16 if len(self.tokens) <= 65536 else np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        return self.backend.decode(list(ids), skip_special_tokens=False)

    def to_json(self) -> str:
        return json.dumps({"tokens": self.tokens, "merges": self.merges}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> ByteBpe:
        data = json.loads(text)
        return cls(data["tokens"], data["merges"])


# --------------------------------------------------------------------------------------------
# The GGUF file
# --------------------------------------------------------------------------------------------


def write_gguf(path: Path, model: Decoder, tokenizer: ByteBpe, name: str, kind: str) -> None:
    """Write `model` as architecture `locus`, matrices as `kind` (f16 or f32), vectors as f32.
    The file appears whole or not at all, and its bytes depend on the arguments only."""
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
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokenizer.tokens)
    w.add_token_types([control if t == END_OF_TEXT else normal for t in tokenizer.tokens])
    w.add_token_merges(tokenizer.merges)
    w.add_bos_token_id(tokenizer.end_of_text)
    w.add_eos_token_id(tokenizer.end_of_text)
    for tensor_name, tensor in model.checkpoint_tensors().items():
        as_f16 = f16 and tensor.dim() == 2
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


def read_gguf(path: Path) -> tuple[Decoder, ByteBpe]:
    """Read what `write_gguf` wrote. Weights are widened to float32."""
    reader = gguf.GGUFReader(path)

    def get(key: str, default: Any = None) -> Any:
        field = reader.get_field(key)
        if field is None and default is None:
            raise ValueError(f"{path}: no metadata key {key}")
        return default if field is None else field.contents()

    if get("general.architecture") != "locus":
        raise ValueError(f"{path}: architecture {get('general.architecture')}, expected locus")
    tensors = {t.name: t for t in reader.tensors}
    scale = reader.get_field("locus.attention.scale")
    config = DecoderConfig(
        n_vocab=get("locus.vocab_size"),
        n_embd=get("locus.embedding_length"),
        n_layer=get("locus.block_count"),
        n_head=get("locus.attention.head_count"),
        n_head_kv=get("locus.attention.head_count_kv"),
        head_dim=get("locus.attention.key_length"),
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
        tied="output.weight" not in tensors,
        position=get("locus.position"),
    )
    model = Decoder(config)
    wanted = model.checkpoint_tensors()
    if wanted.keys() != tensors.keys():
        odd = sorted(wanted.keys() ^ tensors.keys())
        raise ValueError(f"{path}: missing or unknown tensors: {', '.join(odd)}")
    with torch.no_grad():
        for tensor_name, parameter in wanted.items():
            data = torch.from_numpy(tensors[tensor_name].data.astype(np.float32))
            if data.shape != parameter.shape:
                raise ValueError(
                    f"{path}: {tensor_name} is {list(data.shape)}, expected {list(parameter.shape)}"
                )
            parameter.copy_(data)
    tokenizer = ByteBpe(get("tokenizer.ggml.tokens"), get("tokenizer.ggml.merges", []))
    return model, tokenizer
