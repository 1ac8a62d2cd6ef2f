"""The tiny random transformers models behind tests/data, and how each is told as a checkpoint.

A `Case` makes a model of transformers, names the checkpoint's metadata, and maps the model's
parameters to the checkpoint's tensors. Adding a case is adding one function to `GENERIC_CASES`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
import transformers as hf
from torch import nn

import hf_names as names
from checkpoint import Tensor, Value
from hf_names import Names, Place, is_of_weights_alone

N_VOCAB, N_CONTEXT, N_EMBD, N_FF, N_LAYER, N_HEAD = 80, 64, 32, 96, 2, 4

Split = Callable[[np.ndarray], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Case:
    model: nn.Module
    names: Names
    architecture: str
    metadata: dict[str, Value]
    # The model's forward pass, tokens [1, n] to logits [1, n, n_vocab], where it isn't just that.
    forward: Callable[[torch.Tensor], torch.Tensor] | None = None
    # The SPEC that its logits are of; None: the checkpoint's own.
    position: str | None = None
    # Tensors beside the model's parameters.
    added: Mapping[str, np.ndarray] = field(default_factory=dict)
    # What the model, other than its file, has in one. In the layer: the experts' gate_up_proj
    # [n, 2 n_ff, n_embd] and down_proj;
    experts: str = ""
    # by the parameter's full name in the layer: the tensors that it becomes, by theirs.
    splits: Mapping[str, Split] = field(default_factory=dict)

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.forward(tokens) if self.forward else self.model(input_ids=tokens).logits

    def tensors(self) -> list[Tensor]:
        """Every parameter as a tensor of the checkpoint; none may be left over."""
        state = {name: p.detach().numpy() for name, p in self.model.named_parameters()}
        n_head = self.metadata[".attention.head_count"]
        place = Place(n_head, self.metadata.get(".attention.head_count_kv", n_head))
        out: list[Tensor] = []

        def add(part: str, ours: str, theirs: str) -> None:
            transform = self.names.transforms.get(part)
            for suffix in ("weight", "bias"):
                values = state.pop(f"{theirs}.{suffix}", None)
                if values is None:
                    continue
                if transform and (suffix == "weight" or not is_of_weights_alone(transform)):
                    values = transform(values, place)
                out.append(Tensor.of(f"{ours}.{suffix}", values))

        for ours, theirs in self.names.whole.items():
            add(ours, ours, theirs)
        for i in range(int(self.metadata[".block_count"])):
            for part, theirs in self.names.parts.items():
                add(part, f"blk.{i}.{part}", self.names.layer.format(i) + theirs)
            for part, theirs in self.names.stacked.items():
                name = self.names.layer.format(i) + theirs + ".weight"
                heads = [
                    state.pop(name.format(h)) for h in range(N_HEAD) if name.format(h) in state
                ]
                out.append(Tensor.of(f"blk.{i}.{part}.weight", np.stack(heads)))
            name = self.names.layer.format(i) + self.experts
            if self.experts and f"{name}.gate_up_proj" in state:
                gate, up = np.split(state.pop(f"{name}.gate_up_proj"), 2, axis=1)
                parts = {"gate": gate, "up": up, "down": state.pop(f"{name}.down_proj")}
                for part, values in parts.items():
                    out.append(Tensor.of(f"blk.{i}.ffn_{part}_exps.weight", values))
            for theirs, split in self.splits.items():
                name = self.names.layer.format(i) + theirs
                if name in state:
                    for ours, values in split(state.pop(name)).items():
                        out.append(Tensor.of(f"blk.{i}.{ours}", np.ascontiguousarray(values)))
        out += [Tensor.of(name, values) for name, values in self.added.items()]
        if state:
            raise ValueError(f"parameters without a place in the checkpoint: {', '.join(state)}")
        return out


def generic(position: str, **more: Value) -> dict[str, Value]:
    """The metadata of architecture `locus`: a LayerNorm decoder with a plain tanh-GELU MLP, and
    what differs from that. `a__b` spells the key `a.b`."""
    metadata: dict[str, Value] = {
        ".context_length": N_CONTEXT,
        ".embedding_length": N_EMBD,
        ".block_count": N_LAYER,
        ".feed_forward_length": N_FF,
        ".vocab_size": N_VOCAB,
        ".attention.head_count": N_HEAD,
        ".norm": "layernorm",
        ".norm_epsilon": 1e-5,
        ".norm_position": "pre",
        ".activation": "gelu_tanh",
        ".gated": False,
        ".position": position,
    }
    return metadata | {"." + key.replace("__", "."): value for key, value in more.items()}


# ---- learned positions -----------------------------------------------------------------------


def gpt2_learned() -> Case:
    """GPT-2 as architecture gpt2."""
    config = hf.GPT2Config(
        vocab_size=N_VOCAB, n_positions=N_CONTEXT, n_embd=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD,
        n_inner=N_FF, attn_implementation="eager",
    )  # fmt: skip
    metadata: dict[str, Value] = {
        ".context_length": N_CONTEXT,
        ".embedding_length": N_EMBD,
        ".block_count": N_LAYER,
        ".feed_forward_length": N_FF,
        ".vocab_size": N_VOCAB,
        ".attention.head_count": N_HEAD,
        ".attention.layer_norm_epsilon": config.layer_norm_epsilon,
    }
    return Case(hf.GPT2LMHeadModel(config), names.GPT2, "gpt2", metadata)


# ---- rotary positions, and none --------------------------------------------------------------

N_HEAD_KV, ROPE_BASE = 2, 5000.0


def llama() -> hf.LlamaForCausalLM:
    """A Llama with grouped keys and values, and a head of its own."""
    config = hf.LlamaConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, hidden_size=N_EMBD,
        num_hidden_layers=N_LAYER, num_attention_heads=N_HEAD, num_key_value_heads=N_HEAD_KV,
        intermediate_size=N_FF, rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        attn_implementation="eager",
    )  # fmt: skip
    return hf.LlamaForCausalLM(config)


def generic_llama(position: str) -> dict[str, Value]:
    return generic(
        position, norm="rmsnorm", activation="silu", gated=True, attention__head_count_kv=N_HEAD_KV
    )


def llama_half() -> Case:
    """Llama as transformers has it: the pairs (k, k + d/2) rotate, nothing is permuted."""
    position = f"rope:pairs=half,dim={N_EMBD // N_HEAD},base={ROPE_BASE:g}"
    return Case(llama(), names.LLAMA, "locus", generic_llama(position))


def llama_adjacent() -> Case:
    """The same model as architecture llama: q and k permuted so that adjacent pairs rotate."""
    metadata: dict[str, Value] = {
        ".context_length": N_CONTEXT,
        ".embedding_length": N_EMBD,
        ".block_count": N_LAYER,
        ".feed_forward_length": N_FF,
        ".vocab_size": N_VOCAB,
        ".attention.head_count": N_HEAD,
        ".attention.head_count_kv": N_HEAD_KV,
        ".attention.layer_norm_rms_epsilon": 1e-5,
        ".rope.dimension_count": N_EMBD // N_HEAD,
        ".rope.freq_base": ROPE_BASE,
    }
    return Case(llama(), names.LLAMA_ADJACENT, "llama", metadata)


class Unrotated(nn.Module):
    """Rotary tables that turn nothing."""

    def __init__(self, head_dim: int = N_EMBD // N_HEAD) -> None:
        super().__init__()
        self.head_dim = head_dim

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shape = (*position_ids.shape, self.head_dim)
        return torch.ones(shape, dtype=x.dtype), torch.zeros(shape, dtype=x.dtype)


def llama_none() -> Case:
    """A Llama without positions (NoPE)."""
    model = llama()
    model.model.rotary_emb = Unrotated()
    return Case(model, names.LLAMA, "locus", generic_llama("none"))


def llama_sinusoidal() -> Case:
    """The same, with the sinusoids of the Transformer paper (sine and cosine interleaved)."""
    case = llama_none()
    k = torch.arange(N_EMBD // 2, dtype=torch.float64)
    angles = torch.arange(N_CONTEXT).double()[:, None] * 10000.0 ** (-2 * k / N_EMBD)
    table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)  # [N_CONTEXT, N_EMBD]

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        embedded = case.model.get_input_embeddings()(tokens) + table[: tokens.shape[1]]
        return case.model(inputs_embeds=embedded).logits

    metadata = generic_llama("sinusoidal:layout=interleaved,denominator=paper")
    return Case(case.model, case.names, "locus", metadata, forward)


def neox_parallel() -> Case:
    """GPT-NeoX: attention and MLP side by side, half of each head rotated, erf GELU, qkv
    interleaved a head, a head of its own."""
    config = hf.GPTNeoXConfig(
        vocab_size=N_VOCAB, max_position_embeddings=N_CONTEXT, hidden_size=N_EMBD,
        num_hidden_layers=N_LAYER, num_attention_heads=N_HEAD, intermediate_size=N_FF,
        rotary_pct=0.5, tie_word_embeddings=False, attn_implementation="eager",
    )  # fmt: skip
    metadata = generic(
        "rope:pairs=half,dim=4,base=10000", parallel_residual=True, activation="gelu_erf"
    )
    own = names.NEOX.but(whole={"output": "lm_head"})  # another name in a file
    return Case(hf.GPTNeoXForCausalLM(config), own, "locus", metadata)


# ---- ALiBi -----------------------------------------------------------------------------------


def bloom_alibi() -> Case:
    """BLOOM with 4 heads: a normalised embedding, qkv interleaved a head."""
    config = hf.BloomConfig(vocab_size=N_VOCAB, hidden_size=N_EMBD, n_layer=N_LAYER, n_head=N_HEAD)
    metadata = generic("alibi:max_bias=8", embedding_norm=True, feed_forward_length=4 * N_EMBD)
    return Case(hf.BloomForCausalLM(config), names.BLOOM, "locus", metadata)


def mpt_alibi() -> Case:
    """MPT with 6 heads (no power of two), norms without bias, clipped q, k and v, max_bias 16."""
    n_head, d, max_bias = 6, 36, 16
    config = hf.MptConfig(
        vocab_size=N_VOCAB, max_seq_len=N_CONTEXT, d_model=d, n_heads=n_head, n_layers=N_LAYER,
        attn_config={"clip_qkv": 1.0, "alibi_bias_max": max_bias},
    )  # fmt: skip
    model = hf.MptForCausalLM(config)
    # transformers reads alibi_bias_max from the configuration but doesn't use it.
    model.transformer.build_mpt_alibi_tensor = functools.partial(
        hf.models.mpt.modeling_mpt.build_mpt_alibi_tensor, alibi_bias_max=max_bias
    )
    metadata = generic(
        f"alibi:max_bias={max_bias}", embedding_length=d, feed_forward_length=4 * d,
        activation="gelu_erf", attention__head_count=n_head, attention__clip_qkv=1.0,
    )  # fmt: skip
    return Case(model, names.MPT, "locus", metadata)


GENERIC_CASES: dict[str, Callable[[], Case]] = {
    "gpt2-learned": gpt2_learned,
    "llama-half": llama_half,
    "llama-adjacent": llama_adjacent,
    "llama-none": llama_none,
    "llama-sinusoidal": llama_sinusoidal,
    "neox-parallel": neox_parallel,
    "bloom-alibi": bloom_alibi,
    "mpt-alibi": mpt_alibi,
}
