"""Tiny random decoders of T5's, with a choice of position schemes: a plain forward pass by the
paper's and the public code's formulas, with that code's names. Used by hf_cases.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from transformers.models.t5.modeling_t5 import T5Attention as OfTransformers

from hf_models import N_CONTEXT, N_EMBD, N_FF, N_HEAD, N_LAYER, N_VOCAB, Variant

D_KV = 16  # wider heads than the model has room for
N_BUCKETS, N_POSITIONS = 32, 2048


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(N_EMBD))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def linear(n_in: int, n_out: int) -> nn.Linear:
    return nn.Linear(n_in, n_out, bias=False)


def sinusoids(positions: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    frequencies = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = positions[:, None] * frequencies
    return angles.sin(), angles.cos()


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Adjacent pairs of the first quarter of a head's dimensions; x is [1, H, n, D_KV]."""
    dim, n = D_KV // 4, x.shape[2]
    sine, cosine = sinusoids(torch.arange(n), dim)
    a, b = x[..., :dim:2], x[..., 1:dim:2]
    pairs = torch.stack((a * cosine - b * sine, b * cosine + a * sine), dim=-1)
    return torch.cat((pairs.flatten(-2), x[..., dim:]), dim=-1)


class Attention(nn.Module):
    def __init__(self, kind: str, layer: int) -> None:
        super().__init__()
        self.kind, inner = kind, N_HEAD * D_KV
        self.q, self.k, self.v = (linear(N_EMBD, inner) for _ in range(3))
        self.o = linear(inner, N_EMBD)
        if layer == 0:  # whatever the scheme
            self.relative_attention_bias = nn.Embedding(N_BUCKETS, N_HEAD)
        if kind == "transformer_xl_relative_encoding":
            self.r_r_bias, self.r_w_bias = (
                nn.Parameter(torch.ones(N_HEAD, D_KV)) for _ in range(2)
            )
            self.r = linear(N_EMBD, inner)
            self.pos_emb = nn.Module()
            self.pos_emb.register_buffer("inv_freq", torch.ones(N_EMBD // 2))

    def scores(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        if self.kind in ("rotary", "new_rotary"):
            q, k = rotated(q), rotated(k)
        if self.kind != "transformer_xl_relative_encoding":
            return q @ k.mT
        n = q.shape[2]
        encoding = torch.cat(sinusoids(torch.arange(n), N_EMBD), dim=-1)
        of_distance = self.r(encoding).view(n, N_HEAD, D_KV)
        distance = (torch.arange(n)[:, None] - torch.arange(n)).clamp(min=0)
        content = (q + self.r_w_bias[:, None]) @ k.mT
        position = torch.einsum("bhqd,qkhd->bhqk", q + self.r_r_bias[:, None],
                                of_distance[distance])  # fmt: skip
        return content + position

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part(x).unflatten(-1, (N_HEAD, D_KV)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (self.scores(q, k) + bias).masked_fill(future, -torch.inf)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class SelfAttention(nn.Module):
    def __init__(self, kind: str, layer: int) -> None:
        super().__init__()
        self.SelfAttention = Attention(kind, layer)
        self.layer_norm = Norm()


class CrossAttention(nn.Module):
    """To an encoder: never used."""

    def __init__(self) -> None:
        super().__init__()
        self.EncDecAttention = Attention("none", 1)
        self.layer_norm = Norm()


class Mlp(nn.Module):
    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.DenseReluDense, self.layer_norm, self.gated = nn.Module(), Norm(), gated
        for name in ("wi_0", "wi_1") if gated else ("wi",):
            setattr(self.DenseReluDense, name, linear(N_EMBD, N_FF))
        self.DenseReluDense.wo = linear(N_FF, N_EMBD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, dense = self.layer_norm(x), self.DenseReluDense
        if self.gated:
            inner = nn.functional.gelu(dense.wi_0(x), approximate="tanh") * dense.wi_1(x)
        else:
            inner = dense.wi(x).relu()
        return dense.wo(inner)


class Block(nn.Module):
    def __init__(self, kind: str, layer: int, gated: bool) -> None:
        super().__init__()
        self.layer = nn.ModuleList([SelfAttention(kind, layer), CrossAttention(), Mlp(gated)])

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        attention = self.layer[0]
        x = x + attention.SelfAttention(attention.layer_norm(x), bias)
        return x + self.layer[2](x)


class DecoderT5(nn.Module):
    def __init__(self, kind: str, gated: bool = False, tied: bool = False) -> None:
        super().__init__()
        self.kind, self.tied = kind, tied
        self.shared = nn.Embedding(N_VOCAB, N_EMBD)
        self.decoder = nn.Module()
        self.decoder.block = nn.ModuleList(Block(kind, i, gated) for i in range(N_LAYER))
        self.decoder.final_layer_norm = Norm()
        if not tied:
            self.lm_head = linear(N_EMBD, N_VOCAB)
        if kind == "abs_learned":
            self.decoder.wpe = nn.Embedding(N_POSITIONS, N_EMBD)
        if kind == "abs_sinusoid":
            self.decoder.wpe = nn.Module()
            self.decoder.wpe.embed = nn.Module()
            self.decoder.wpe.embed.register_buffer("weight", torch.ones(3, N_EMBD))
        if kind == "alibi":
            self.decoder.register_buffer("alibi", torch.ones(N_HEAD, 1, 3))
        if kind == "alibi_learned":
            self.decoder.learned_logslopes = nn.Parameter(torch.zeros(N_HEAD))

    def bias(self, n: int) -> torch.Tensor:
        distance = torch.arange(n)[:, None] - torch.arange(n)
        if self.kind in ("alibi", "alibi_learned"):
            slopes = 2.0 ** (-8 / N_HEAD * torch.arange(1, N_HEAD + 1, dtype=torch.float64))
            if self.kind == "alibi_learned":
                slopes = self.decoder.learned_logslopes.exp()
            return -slopes[:, None, None] * distance
        if self.kind == "t5_relative_bias":
            buckets = OfTransformers._relative_position_bucket(-distance, False, N_BUCKETS, 128)
            table = self.decoder.block[0].layer[0].SelfAttention.relative_attention_bias
            return table(buckets).permute(2, 0, 1)
        return torch.zeros(n, n)

    def forward(self, input_ids: torch.Tensor) -> Any:
        n = input_ids.shape[1]
        x, bias = self.shared(input_ids), self.bias(n)
        if self.kind == "abs_learned":
            x = x + self.decoder.wpe.weight[:n]
        if self.kind == "abs_sinusoid":
            x = x + torch.cat(sinusoids(torch.arange(n), N_EMBD), dim=-1)
        for block in self.decoder.block:
            x = block(x, bias)
        x = self.decoder.final_layer_norm(x)
        head = self.shared.weight * N_EMBD**-0.5 if self.tied else self.lm_head.weight
        return SimpleNamespace(logits=x @ head.T)

    def generate(self, input_ids: torch.Tensor, max_new_tokens: int, **more: Any) -> torch.Tensor:
        """By greedy choice, up to the token that ends a text."""
        for _ in range(max_new_tokens):
            best = self(input_ids).logits[:, -1].argmax(-1, keepdim=True)
            input_ids = torch.cat((input_ids, best), dim=1)
            if best.item() == 0:
                break
        return input_ids


def saved(kind: str, **more: Any) -> Any:
    config = {
        "model_type": "custom_decoder_only_t5", "architectures": ["CustomDecoderOnlyT5"],
        "auto_map": {"AutoModelForCausalLM": "modeling_t5.CustomDecoderOnlyT5"},
        "d_model": N_EMBD, "d_kv": D_KV, "d_ff": N_FF, "num_layers": N_LAYER,
        "num_decoder_layers": N_LAYER, "num_heads": N_HEAD, "vocab_size": N_VOCAB,
        "n_positions": N_CONTEXT, "dropout_rate": 0.1, "feed_forward_proj": "relu",
        "initializer_factor": 1.0, "is_decoder": True, "is_encoder_decoder": False,
        "layer_norm_epsilon": 1e-6, "output_past": True, "pad_token_id": 0, "eos_token_id": 0,
        "position_encoding_type": kind, "relative_attention_num_buckets": N_BUCKETS,
        "tie_word_embeddings": False, "torch_dtype": "float32", "use_cache": True, **more,
    }  # fmt: skip
    return lambda state: (config, {**state, "decoder.embed_tokens.weight": state["shared.weight"]})


def without_cross_attention(state: dict[str, torch.Tensor]) -> Any:
    kept = {name: values for name, values in state.items() if ".layer.1." not in name}
    moved = {name.replace(".layer.2.", ".layer.1."): values for name, values in kept.items()}
    return saved("rotary")(moved)


def variant(kind: str) -> Variant:
    return Variant("", {}, "locus", build=lambda: DecoderT5(kind), own=saved(kind))


T5_DECODERS: dict[str, Variant] = {
    f"t5 {kind}": variant(kind)
    for kind in (
        "none", "abs_sinusoid", "abs_learned", "rotary", "new_rotary", "alibi", "alibi_learned",
        "t5_relative_bias", "transformer_xl_relative_encoding",
    )
} | {
    "t5 without cross-attention": Variant(
        "", {}, "locus", build=lambda: DecoderT5("rotary"), own=without_cross_attention
    ),
    "t5 gated, tied": Variant(
        "", {}, "locus", build=lambda: DecoderT5("none", gated=True, tied=True), spread=0.5,
        own=saved(
            "none", model_type="t5", feed_forward_proj="gated-gelu", dense_act_fn="gelu_new",
            is_gated_act=True, tie_word_embeddings=True,
        ),
    ),
}  # fmt: skip
