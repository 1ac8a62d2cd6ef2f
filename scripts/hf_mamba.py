"""Configurations of models whose layers are selective scans: see hf_families.py."""

from __future__ import annotations

import math
import re
from typing import Any

import hf_names as names
from hf_decoder import Decoder, HeadScan, Plain, Scan
from hf_folder import Config, shown
from hf_reading import activation, epsilon, grouped, rmsnorm, tied
from output import Failure

N_CONTEXT = 1 << 20  # as llama.cpp's converter has it: no configuration says what it was trained to
TRAINING = (  # how weights were begun, or which code sums them up: changes nothing that is computed
    *("time_step_scale", "time_step_min", "time_step_max", "time_step_init_scheme"),
    *("time_step_floor", "rescale_prenorm_residual", "residual_in_fp32"),
    *("use_mambapy", "use_falcon_mambapy", "use_associative_scan", "use_conv_bias"),
    *("fused_add_norm", "pad_vocab_size_multiple"),
)


NO_EXPERTS = ("num_experts_per_tok", "expert_layer_period", "expert_layer_offset")  # what for
TOLD_BY_TENSORS = (  # or of how it is run
    *("mamba_conv_bias", "mamba_proj_bias", "use_mamba_kernels", "num_logits_to_keep"),
    "calc_logits_for_entire_prompt",
)
JAMBA = {  # the class's own
    **{"vocab_size": 65536, "hidden_size": 4096, "intermediate_size": 14336},
    **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
    **{"max_position_embeddings": 262144, "num_experts": 16, "attn_layer_period": 8},
    **{"attn_layer_offset": 4, "mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4},
}


def read_rank(c: Config, key: str, width: int) -> int:
    """A count, or "auto": a sixteenth of the width."""
    if c.values.get(key, "auto") == "auto":
        c.asked.add(key)
        return math.ceil(width / 16)
    return c.count(key)


def read_inner(c: Config, width: int) -> int:
    """intermediate_size goes before expand times the width."""
    if c.has("intermediate_size"):
        c.asked.add("expand")
        return c.count("intermediate_size")
    n_inner = int(c.get("expand", float, 2.0) * width)
    if not 1 <= n_inner < 1 << 31:
        raise Failure(f"{c.path}: expand makes {n_inner} channels of hidden_size {width}")
    return n_inner


def check_older(c: Config, sizes: dict[str, tuple[str, int]]) -> None:
    """What mamba_ssm called the same, which published configurations have beside; the class passes
    it over."""
    for other, (key, value) in sizes.items():
        if c.has(other) and c.values[other] != value:
            what = f"{other} is {shown(c.values[other])}, but {key}, which is read, is {value}"
            raise Failure(f"{c.path}: {what}")
    c.refuse("rms_norm", "the class norms by RMSNorm alone", True, True)
    c.section("ssm_cfg").refuse_unknown(re.compile("(?!)"))


def read_scan(c: Config, layers: int, **more: Any) -> dict[str, Any]:
    width, n_layer = c.count("hidden_size", 768), c.count("num_hidden_layers", layers)
    n_inner = read_inner(c, width)
    scan = Scan(
        n_inner=n_inner,
        n_state=c.count("state_size", 16),
        n_conv=c.count("conv_kernel", 4),
        rank=read_rank(c, "time_step_rank", width),
        **more,
    )
    older = {
        "d_model": ("hidden_size", width),
        "d_inner": ("intermediate_size", n_inner),
        "n_layer": ("num_hidden_layers", n_layer),
    }
    check_older(c, older)
    return {
        "architecture": "mamba",
        "names": names.MAMBA,
        "n_vocab": c.count("vocab_size", 50280),
        "n_embd": width,
        "n_layer": n_layer,
        "tied": tied(c, True),
        **only_scans(c, scan),
    }


def only_scans(c: Config, scan: Scan | HeadScan) -> dict[str, Any]:
    """What models of scans alone have in common."""
    c.asked |= {*TRAINING}
    return {
        "n_context": N_CONTEXT,
        "n_head": 0,
        "n_head_kv": 0,
        "head_dim": 0,
        "n_ff": 0,
        "position": Plain("none"),
        "norm": "rmsnorm",
        "norm_epsilon": epsilon(c, "layer_norm_epsilon", 1e-5),
        "activation": c.choose("hidden_act", {"silu": "silu", "swish": "silu"}, "silu"),
        "scan": scan,
    }


def mamba(c: Config) -> Decoder:
    return Decoder(**read_scan(c, 32))


def falcon_mamba(c: Config) -> Decoder:
    return Decoder(**read_scan(c, 32, normed=True, norm_epsilon=epsilon(c, "mixer_rms_eps", 1e-6)))


def check_limits(c: Config) -> None:
    """time_step_limit may be there, but not limit a step, which the class does in prompts alone."""
    low, high = c.get("time_step_limit", list, [0.0, math.inf])[:2] or [None, None]
    if low != 0 or high not in (math.inf, {"__float__": "Infinity"}):
        raise Failure(f"{c.path}: time_step_limit is {low} to {high}, expected 0 to Infinity")


def mamba2(c: Config) -> Decoder:
    """Mamba 2: expand times the width are the heads' channels."""
    width, n_head, head_dim = (
        c.count(key, usual)
        for key, usual in (("hidden_size", 4096), ("num_heads", 128), ("head_dim", 64))
    )
    n_inner, n_group = n_head * head_dim, c.count("n_groups", 8)
    expand = c.get("expand", float, 2.0)
    if expand * width != n_inner:
        raise Failure(
            f"{c.path}: num_heads {n_head} of head_dim {head_dim} are {n_inner} channels, but "
            f"expand makes {expand * width:g} of hidden_size {width}"
        )
    if n_head % n_group != 0:
        raise Failure(f"{c.path}: n_groups {n_group} is no divisor of num_heads {n_head}")
    check_limits(c)
    scan = HeadScan(
        n_inner=n_inner,
        n_state=c.count("state_size", 128),
        n_conv=c.count("conv_kernel", 4),
        n_head=n_head,
        n_group=n_group,
    )
    c.asked |= {"time_step_rank", "chunk_size"}  # of no effect; of how a sum is run
    return Decoder(
        architecture="mamba2",
        names=names.MAMBA2,
        n_vocab=c.count("vocab_size", 32768),
        n_embd=width,
        n_layer=c.count("num_hidden_layers", 64),
        tied=tied(c, False),
        **only_scans(c, scan),
    )


def jamba(c: Config) -> Decoder:
    """Scans and, once in so many layers, attention, which has no positions."""
    for key, value in JAMBA.items():
        c.values.setdefault(key, value)
    shape = grouped(c)
    width, n_layer = shape["n_embd"], shape["n_layer"]
    period, offset = c.count("attn_layer_period"), c.get("attn_layer_offset", int)
    if not 0 <= offset < period:
        raise Failure(f"{c.path}: attn_layer_offset is {offset}, expected 0 to {period - 1}")
    if c.count("num_experts") > 1:
        raise Failure(f"{c.path}: a mixture of experts in some layers alone isn't read")
    c.refuse("mamba_inner_layernorms", "the class norms steps, b and c", True, True)
    c.asked |= {*TRAINING, *NO_EXPERTS, *TOLD_BY_TENSORS}
    scan = Scan(
        n_inner=c.count("mamba_expand") * width,
        n_state=c.count("mamba_d_state"),
        n_conv=c.count("mamba_d_conv"),
        rank=read_rank(c, "mamba_dt_rank", width),
        normed=True,
    )
    return Decoder(
        architecture="jamba",
        names=names.JAMBA,
        **shape,
        **rmsnorm(c, 1e-6),
        activation=activation(c, "hidden_act", "silu"),
        gated=True,
        position=Plain("none"),
        scan=scan,
        scanned=tuple(i % period != offset for i in range(n_layer)),
        tied=tied(c, False),
    )
