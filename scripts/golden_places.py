"""The golden cases of coordinates: a picture within a text, each token at three numbers that the
caller gives, as Qwen2-VL counts them, with transformers' own rotation of it (M-RoPE), and with a
ladder of frequencies an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding

from golden_schemes import BASE, SHARED, SchemeCase, llama

N_TEXT, N_ROWS, N_COLUMNS, N_AFTER = 8, 4, 5, 16  # 44 tokens


def places() -> np.ndarray:
    """[n, 3]: time, row and column. Text has its position on all three; a picture is one moment,
    its rows and columns counted from there; what follows goes on past the largest (Wang et al.,
    "Qwen2-VL", arXiv 2409.12191, section 2.1)."""
    text = [(i, i, i) for i in range(N_TEXT)]
    cells = [(0, row, column) for row in range(N_ROWS) for column in range(N_COLUMNS)]
    picture = [(N_TEXT + time, N_TEXT + row, N_TEXT + column) for time, row, column in cells]
    first = 1 + max(max(place) for place in picture)
    return np.array(text + picture + [(first + i,) * 3 for i in range(N_AFTER)], np.int32)


PLACES = places()


def sections(counts: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """Angles of Qwen2-VL's class: one ladder, whose pairs are shared out by `counts`."""

    def angles(at: Tensor) -> Tensor:
        parameters = {"rope_type": "default", "rope_theta": BASE, "mrope_section": list(counts)}
        config = SimpleNamespace(
            rope_parameters=parameters, max_position_embeddings=64, head_dim=SHARED.head_dim
        )
        rotary: Any = Qwen2VLRotaryEmbedding(config)  # type: ignore[arg-type]
        cos, sin = rotary(torch.zeros(1), at.T[:, None, :])
        return torch.stack([cos[0], sin[0]])

    return angles


def axial(counts: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """An axis' pairs have a ladder of their own, as if its head were no wider."""

    def angles(at: Tensor) -> Tensor:
        ladders = [BASE ** -(torch.arange(n) / n) for n in counts]
        of_axes = [at[:, i, None] * ladder for i, ladder in enumerate(ladders)]
        angle = torch.cat(of_axes, -1).repeat(1, 2)
        return torch.stack([angle.cos(), angle.sin()])

    return angles


def adjacent(weights: np.ndarray) -> np.ndarray:
    """Rows [heads * head_dim, n] whose pairs are side by side, as rows whose pairs are halves."""
    width = SHARED.head_dim
    rows = weights.reshape(-1, width // 2, 2, weights.shape[1])
    return np.ascontiguousarray(rows.transpose(0, 2, 1, 3)).reshape(weights.shape)


SPEC = f"rope:pairs=half,base={BASE:g},axis1=2,axis2=5"
PLACED_CASES: dict[str, SchemeCase] = {
    "rope-sections": SchemeCase("schemes", SPEC, angles=sections([2, 3, 3])),
    "rope-sections-adjacent": SchemeCase(
        "schemes", SPEC.replace("half", "adjacent"), angles=sections([2, 3, 3])
    ),
    "rope-axial": SchemeCase("schemes", f"{SPEC},ladder=own", angles=axial([2, 3, 3])),
}


def placed_logits(case: SchemeCase, tensors: Mapping[str, np.ndarray], tokens: Tensor) -> Tensor:
    """[n, n_vocab]. torch's default type must be float64."""
    assert case.angles and case.position
    if "adjacent" in case.position:
        ends = ("attn_q.weight", "attn_k.weight")
        tensors = {n: adjacent(v) if n.endswith(ends) else v for n, v in tensors.items()}
    model = llama(case, tensors)
    cos, sin = case.angles(torch.from_numpy(PLACES).double())

    def place(_: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        return args, kwargs | {"position_embeddings": (cos[None], sin[None])}

    for layer in model.model.layers:
        layer.self_attn.register_forward_pre_hook(place, with_kwargs=True)
    with torch.no_grad():
        return model(input_ids=tokens[None]).logits[0]
