"""The golden cases of position schemes: two tiny random decoders that hold the weights of every
scheme, and SPECs for them.

Logits come from transformers where it has the scheme, which must then agree with decoder.py, else
from decoder.py, in double precision. The texts are longer than the trained length, so that every
scaling does something.
"""

from __future__ import annotations

import copy
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor, nn

import checkpoint
from decoder import Decoder, DecoderConfig, metadata_of
from hf_names import LLAMA

N_TRAINED, N_VOCAB = 16, 40
BASE = 500.0
LENGTHS = "trained=16"

SHARED = DecoderConfig(
    n_vocab=N_VOCAB, n_embd=32, n_layer=2, n_head=4, n_head_kv=2, head_dim=16, n_ff=64,
    n_context=N_TRAINED, tied=False, position="none",
)  # fmt: skip
LAYERED = DecoderConfig(
    n_vocab=N_VOCAB, n_embd=30, n_layer=2, n_head=3, n_head_kv=3, head_dim=10, n_ff=64,
    n_context=N_TRAINED, norm="layernorm", activation="gelu_tanh", gated=False, embedding_scale=1.5,
    attention_scale=0.5, position="t5:buckets=12,max_distance=20",
)  # fmt: skip
RETAINED = DecoderConfig(
    n_vocab=N_VOCAB, n_embd=36, n_layer=3, n_head=3, n_head_kv=1, head_dim=10, n_ff=48,
    n_context=N_TRAINED, norm_epsilon=1e-3, mixer="retention", value_dim=20,
)  # fmt: skip


def shared_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One set of every scheme's weights for all layers, where a scheme can have that."""
    c, normal = SHARED, rng.standard_normal
    d, h, w = c.n_embd, c.n_head, 8
    weights = {
        "position_embd.weight": normal((24, d)) * 0.5,
        "position_bias.weight": normal((32, h)),
        "position_u": normal((h, c.head_dim)) * 0.5,
        "position_v": normal((h, c.head_dim)) * 0.5,
        "position_kerple.p": np.array([1.3, 0.4, 0.001, 2.5]),  # one below eps, one above 2
        "position_kerple.a": np.array([0.7, 0.002, 1.1, 0.1]),
        "position_fire.c": np.array([0.3]),
        "position_fire.threshold": np.array([9.5]),
        "position_fire.fc1.weight": normal((w, 1)),
        "position_fire.fc1.bias": normal(w) * 0.3,
        "position_fire.fc2.weight": normal((h, w)),
        "position_fire.fc2.bias": normal(h) * 0.3,
        "position_gru.weight_ih": normal((3 * d, d)) * 0.4,
        "position_gru.weight_hh": normal((3 * d, d)) * 0.2,
        "position_gru.bias_ih": normal(3 * d) * 0.2,
        "position_gru.bias_hh": normal(3 * d) * 0.2,
        "position_alibi.slopes": np.array([0.7, 0, 0.03, -0.05]),
        "rope_factors_short.weight": rng.uniform(1, 1.5, c.head_dim // 2),
        "rope_factors_long.weight": rng.uniform(1, 6, c.head_dim // 2),
    }
    for i in range(c.n_layer):
        weights[f"blk.{i}.position_r.weight"] = normal((h * c.head_dim, d)) * 0.3
        weights[f"blk.{i}.position_cope.weight"] = normal((8, c.head_dim)) * 0.5
    weights |= {
        "position_fox.weight": normal((h, d)) * 0.3,
        "position_fox.bias": np.array([0.0, 3.0, -1.0, 6.0]),
        "position_dape.fc1.weight": normal((w, 2 * h)) * 0.5,
        "position_dape.fc1.bias": normal(w) * 0.3,
        "position_dape.fc2.weight": normal((h, w)) * 0.5,
        "position_dape.fc2.bias": normal(h) * 0.3,
    }
    width = c.n_head_kv * c.head_dim
    weights |= {
        "position_path.down.weight": normal((6, d)) * 0.3,
        "position_path.up.weight": normal((width, 6)) * 0.5,
        "position_path.conv.weight": normal((width, 3)) * 0.5,
        "position_path.beta.weight": normal((c.n_head_kv, d)) * 0.3,
        "position_path.beta.bias": normal(c.n_head_kv),
    }
    return weights


def layered_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights that are a layer's own, and frequency factors."""
    c, normal = LAYERED, rng.standard_normal
    h, w = c.n_head, 5
    weights = {
        "position_bias.weight": normal((12, h)),
        "rope_freqs.weight": np.array([1, 1, 1.7, 3.1, 8]),
    }
    for i in range(c.n_layer):
        own = {
            "position_u": normal((h, c.head_dim)) * 0.5,
            "position_v": normal((h, c.head_dim)) * 0.5,
            "position_r.weight": normal((h * c.head_dim, c.n_embd)) * 0.3,
            "position_kerple.p": rng.uniform(0.2, 1.8, h),
            "position_kerple.a": rng.uniform(0.05, 1, h),
            "position_fire.c": np.array([0.2 + 0.3 * i]),
            "position_fire.threshold": np.array([30.0 - 22 * i]),
            "position_fire.fc1.weight": normal((w, 1)),
            "position_fire.fc1.bias": normal(w) * 0.3,
            "position_fire.fc2.weight": normal((h, w)),
            "position_fire.fc2.bias": normal(h) * 0.3,
            "position_alibi.slopes": np.array([0.5, 0.1, 0.02]) * (i + 1),
            "position_cope.weight": normal((40, c.head_dim)) * 0.5,
        }
        weights |= {f"blk.{i}.{name}": values for name, values in own.items()}
    for i in range(c.n_layer):  # after all others, which stay as they were
        later = {
            "position_fox.weight": normal((h, c.n_embd)) * 0.3,
            "position_fox.bias": normal(h) * 2,
            "position_dape.fc1.weight": normal((w, 2 * h)) * 0.5,
            "position_dape.fc1.bias": normal(w) * 0.3,
            "position_dape.fc2.weight": normal((h, w)) * 0.5,
            "position_dape.fc2.bias": normal(h) * 0.3,
            "position_path.down.weight": normal((7, c.n_embd)) * 0.3,
            "position_path.up.weight": normal((h * c.head_dim, 7)) * 0.5,
            "position_path.conv.weight": normal((h * c.head_dim, 3)) * 0.5,
            "position_path.beta.weight": normal((h, c.n_embd)) * 0.3,
            "position_path.beta.bias": normal(h),
        }
        weights |= {f"blk.{i}.{name}": values for name, values in later.items()}
    return weights


@dataclass(frozen=True)
class Base:
    """A checkpoint that many cases run."""

    config: DecoderConfig
    position_weights: Callable[[np.random.Generator], dict[str, np.ndarray]]

    def tensors(self, name: str, randomise: Callable[..., None]) -> dict[str, np.ndarray]:
        """Every tensor, float32, by its name in the checkpoint."""
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        model = Decoder(replace(self.config, position="none"))
        randomise(model, rng)
        out = {n: t.detach().numpy() for n, t in model.checkpoint_tensors().items()}
        out |= {n: v.astype(np.float32) for n, v in self.position_weights(rng).items()}
        return out

    def metadata(self) -> dict[str, checkpoint.Value]:
        c = self.config
        if c.mixer != "attention":
            return metadata_of(c, c.position)
        out: dict[str, checkpoint.Value] = {
            ".context_length": c.n_context,
            ".embedding_length": c.n_embd,
            ".block_count": c.n_layer,
            ".feed_forward_length": c.n_ff,
            ".vocab_size": c.n_vocab,
            ".attention.head_count": c.n_head,
            ".attention.head_count_kv": c.n_head_kv,
            ".attention.key_length": c.head_dim,
            ".norm": c.norm,
            ".norm_epsilon": c.norm_epsilon,
            ".norm_position": "pre",
            ".activation": c.activation,
            ".gated": c.gated,
            ".position": c.position,
        }
        if c.attention_scale is not None:
            out[".attention.scale"] = c.attention_scale
        if c.embedding_scale != 1.0:
            out[".embedding_scale"] = c.embedding_scale
        return out


BASES = {
    "schemes": Base(SHARED, shared_weights),
    "schemes-layered": Base(LAYERED, layered_weights),
    "retention": Base(RETAINED, lambda _: {}),
    "hyena": Base(
        replace(RETAINED, n_layer=2, mixer="hyena,attention", value_dim=None),
        lambda rng: {"blk.0.hyena_frequency": rng.uniform(1, 6, 64)},  # so that sines are bent
    ),
    "retention-mixed": Base(
        replace(RETAINED, mixer="retention,attention", value_dim=None, position="alibi"),
        lambda _: {},
    ),
}


Rotation = Mapping[str, Any] | None  # transformers' rope_parameters of a layer; None: no positions


@dataclass(frozen=True)
class SchemeCase:
    """A SPEC (None: the checkpoint's own) for a base, and transformers' rope_parameters where it
    has the scheme; `factors` names the tensors those need. `layers` are those of each layer, where
    they differ, which decoder.py hasn't."""

    base: str
    position: str | None
    rope: Mapping[str, Any] | None = None
    factors: tuple[str, ...] = ()
    layers: tuple[Rotation, ...] = ()
    distance: Callable[[int, int], float | None] | None = None  # of a policy: golden_policies.py
    angles: Callable[[Tensor], Tensor] | None = None  # of coordinates: golden_places.py


def rope_case(spec: str, kind: str, /, **parameters: Any) -> SchemeCase:
    more = {} if kind == "default" else {"original_max_position_embeddings": N_TRAINED}
    rope = {"rope_type": kind, "rope_theta": BASE, **more, **parameters}
    factors = ("short_factor", "long_factor") if kind == "longrope" else ()
    return SchemeCase("schemes", f"rope:pairs=half,base={BASE:g}{spec}", rope, factors)


PLAIN = {"rope_type": "default", "rope_theta": BASE}


def by_layer(position: str, layers: tuple[Rotation, ...]) -> SchemeCase:
    return SchemeCase("schemes", position, PLAIN, layers=layers)


def plain(position: str) -> SchemeCase:
    return SchemeCase("schemes", position)


def layered(position: str | None) -> SchemeCase:
    return SchemeCase("schemes-layered", position)


YARN = {"factor": 4.0, "beta_fast": 2.0, "beta_slow": 0.05}
YARN_SPEC = f",scaling=yarn,factor=4,{LENGTHS},beta_fast=2,beta_slow=0.05"
LONG_SPEC = f",scaling=longrope,factor=4,{LENGTHS}"
LONG = {"factor": 4.0}

SCHEME_CASES: dict[str, SchemeCase] = {
    "none": plain("none"),
    "learned-clamp": plain("learned:beyond=clamp"),
    "learned-wrap": plain("learned:offset=3,beyond=wrap"),
    "learned-interpolate": plain("learned:offset=1,beyond=interpolate,factor=2.5"),
    "learned-tile": plain("learned:offset=2,beyond=tile"),
    "learned-resize": plain("learned:offset=1,beyond=resize,factor=2.1"),
    "learned-random": plain("learned:beyond=wrap,random=90,seed=5"),
    "sinusoidal-random": plain("sinusoidal:random=500,offset=2"),
    "sinusoidal-interleaved": plain("sinusoidal:base=500,factor=1.5,offset=3"),
    "sinusoidal-concat": plain("sinusoidal:layout=concat,denominator=paper"),
    "sinusoidal-fairseq": plain("sinusoidal:layout=interleaved,denominator=fairseq"),
    "sinusoidal-grid": plain("sinusoidal:width=7"),
    "sinusoidal-grid-concat": plain("sinusoidal:layout=concat,denominator=fairseq,width=7"),
    "rope-half": rope_case("", "default"),
    "rope-partial": plain("rope:pairs=adjacent,dim=8,base=500"),
    "rope-nope-every": plain("rope:pairs=half,base=500,nope_every=2"),
    "rope-half-the-layers": by_layer("rope:pairs=half,base=500; layers 1 none", (PLAIN, None)),
    "rope-two-bases": by_layer(
        "rope:pairs=half,base=20; layers 1::2 rope:base=500,scaling=linear,factor=4",
        (PLAIN | {"rope_theta": 20.0}, PLAIN | {"rope_type": "linear", "factor": 4.0}),
    ),
    "rope-share": rope_case(",p=0.4", "proportional", partial_rotary_factor=0.4),
    "rope-share-yarn": plain("rope:pairs=adjacent,dim=12,base=500,p=0.5" + YARN_SPEC),
    "rope-random": plain("rope:pairs=half,base=500,random=300,seed=11,offset=7"),
    "rope-random-row": plain(f"rope:base=500,random=80,scaling=dynamic,factor=2,{LENGTHS}"),
    "rope-linear": rope_case(",scaling=linear,factor=4", "linear", factor=4.0),
    "rope-ntk": plain("rope:pairs=half,base=500,scaling=ntk,factor=4"),
    "rope-dynamic-row": plain(f"rope:pairs=half,base=500,scaling=dynamic,factor=2,{LENGTHS}"),
    "rope-dynamic": rope_case(
        f",scaling=dynamic,factor=2,{LENGTHS},length=44", "dynamic", factor=2.0
    ),
    "rope-yarn": rope_case(YARN_SPEC, "yarn", **YARN),
    "rope-yarn-exact": rope_case(
        YARN_SPEC + ",truncate=0,attn_factor=1.4",
        "yarn",
        **YARN,
        truncate=False,
        attention_factor=1.4,
    ),
    "rope-llama3": rope_case(
        f",scaling=llama3,factor=8,{LENGTHS},low=0.5,high=2",
        "llama3",
        factor=8.0,
        low_freq_factor=0.5,
        high_freq_factor=2.0,
    ),
    "rope-longrope-row": plain("rope:pairs=half,base=500" + LONG_SPEC),
    "rope-longrope": rope_case(LONG_SPEC + ",length=44", "longrope", **LONG),
    "rope-longrope-long": rope_case(LONG_SPEC + ",factors=long", "longrope", **LONG),
    "rope-longrope-short": plain(
        "rope:pairs=half,base=500" + LONG_SPEC + ",factors=short,attn_factor=1.2"
    ),
    "xpos": plain("xpos"),
    "xpos-half": plain("xpos:pairs=half,dim=8,base=500,scale_base=16,gamma=0.6"),
    "xpos-random": plain("xpos:base=500,random=200,offset=40"),
    "alibi-scaled": plain("alibi:scaled=1"),
    "alibi-factor": plain("alibi:max_bias=4,factor=2.5"),
    "alibi-three-heads": layered("alibi"),
    "alibi-some-heads": plain("alibi:heads=3"),
    "alibi-slopes": plain("alibi:slopes=tensor,factor=1.5"),
    "alibi-slopes-layers": layered("alibi:slopes=tensor,scaled=1"),
    "relative": plain("relative:max_distance=31"),
    "t5": plain("t5:buckets=32,max_distance=40"),
    "t5-own": layered(None),
    "transformer-xl": plain("transformer-xl"),
    "transformer-xl-clamp": plain("transformer-xl:clamp=12,base=500"),
    "transformer-xl-layers": layered("transformer-xl"),
    "kerple-log": plain("kerple"),
    "kerple-power": plain("kerple:kind=power,eps=0.02"),
    "kerple-layers": layered("kerple:kind=power"),
    "fire": plain("fire"),
    "fire-layers": layered("fire:eps=0.001"),
    "sandwich": plain("sandwich"),
    "sandwich-first": plain("sandwich:dim=32,base=500,first=1,compression=4"),
    "sandwich-three-heads": layered("sandwich:dim=10"),
    "cope": plain("cope"),
    "cope-raw": plain("cope:gate=raw"),
    "cope-layers": layered("cope"),
    "fox": plain("fox"),
    "fox-layers": layered("fox"),
    "dape": plain("dape"),
    "dape-alibi": plain("dape:over=alibi"),
    "dape-fire": plain("dape:over=fire"),
    "dape-layers": layered("dape:over=kerple,temperature=1.4"),
    "path": plain("path"),
    "path-layers": layered("path:logn=position,temperature=1.3"),
    "recurrent": plain("recurrent"),
    "rope-freqs": layered("rope:pairs=adjacent,base=500"),
    "rope-logn": plain("rope:pairs=half,base=500,logn=position,temperature=0.7"),
    "alibi-temperature": plain("alibi:logn=position,temperature=1.6"),
    "transformer-xl-logn": plain("transformer-xl:logn=position"),
    "retention": SchemeCase("retention", None),
    "retention-mixed": SchemeCase("retention-mixed", None),
    "hyena": SchemeCase("hyena", None),
    "cope-temperature": plain("cope:logn=position,temperature=1.4"),
}


def turned_by_layer(model: Any, rotations: Sequence[Rotation]) -> Any:
    """transformers' decoder with a rotation of its own class for each layer."""
    module = sys.modules[type(model).__module__]
    kind = getattr(module, type(model).__name__.replace("ForCausalLM", "RotaryEmbedding"))

    def hook(rotation: Rotation) -> Callable[..., Any]:
        config = copy.deepcopy(model.config)
        config.rope_parameters = dict(rotation or {"rope_type": "default", "rope_theta": 10000.0})
        rotary = kind(config)

        def replace_angles(_: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
            x: Tensor = kwargs["hidden_states"]
            cos, sin = rotary(x, torch.arange(x.shape[1])[None])
            if rotation is None:
                cos, sin = torch.ones_like(cos), torch.zeros_like(sin)
            return args, kwargs | {"position_embeddings": (cos, sin)}

        return replace_angles

    for layer, rotation in zip(model.model.layers, rotations, strict=True):
        layer.self_attn.register_forward_pre_hook(hook(rotation), with_kwargs=True)
    return model


def decoder_logits(case: SchemeCase, tensors: Mapping[str, np.ndarray], tokens: Tensor) -> Tensor:
    """[n, n_vocab] by decoder.py. torch's default type must be float64."""
    given = {name: torch.from_numpy(values).double() for name, values in tensors.items()}
    config = BASES[case.base].config
    model = Decoder(replace(config, position=case.position or config.position), given)
    with torch.no_grad():
        for name, parameter in model.checkpoint_tensors().items():
            parameter.copy_(given[name])
        return model.eval()(tokens[None])[0]


def llama(case: SchemeCase, tensors: Mapping[str, np.ndarray]) -> Any:
    """transformers' Llama with the weights of base `schemes`."""
    c, rope = SHARED, dict(case.rope or PLAIN)
    names = {"short_factor": "rope_factors_short", "long_factor": "rope_factors_long"}
    for key in case.factors:
        rope[key] = tensors[names[key] + ".weight"].astype(float).tolist()
    trained_key = (
        4 * N_TRAINED if rope["rope_type"] in ("longrope", "yarn", "llama3") else N_TRAINED
    )
    config = hf.LlamaConfig(
        vocab_size=c.n_vocab, max_position_embeddings=trained_key, hidden_size=c.n_embd,
        num_hidden_layers=c.n_layer, num_attention_heads=c.n_head, head_dim=c.head_dim,
        num_key_value_heads=c.n_head_kv, intermediate_size=c.n_ff, rms_norm_eps=c.norm_epsilon,
        tie_word_embeddings=False, rope_parameters=rope, attn_implementation="eager",
    )  # fmt: skip
    model = hf.LlamaForCausalLM(config)
    state = {}
    for ours, theirs in LLAMA.whole.items():
        state[f"{theirs}.weight"] = tensors[f"{ours}.weight"]
    for i in range(c.n_layer):
        for part, theirs in LLAMA.parts.items():
            state[f"model.layers.{i}.{theirs}.weight"] = tensors[f"blk.{i}.{part}.weight"]
    model.load_state_dict({k: torch.from_numpy(v).double() for k, v in state.items()})
    return model.double().eval()


def llama_logits(case: SchemeCase, tensors: Mapping[str, np.ndarray], tokens: Tensor) -> Tensor:
    """[n, n_vocab]"""
    model = llama(case, tensors)
    if case.layers:
        model = turned_by_layer(model, case.layers)
    with torch.no_grad():
        return model(input_ids=tokens[None]).logits[0]
