"""Experts as gpt-oss has them: one tensor of all, whose gates and values alternate.

Floats lie as transformers' class has them, [expert, inputs, outputs]. Published weights are blocks
of MXFP4, [expert, outputs, inputs/32, 16] with their scales [expert, outputs, inputs/32]: 32 values
of four bits share a power of two (OCP Microscaling Formats 1.0). A GGUF file has the same values
and scales, in another order of nibbles, so that nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from checkpoint import Tensor
from hf_folder import Found
from output import Failure

if TYPE_CHECKING:
    from hf_tensors import Finder

PARTS = {  # of the checkpoint: the folder's tensor, the first of its outputs, and how many in turn
    "ffn_gate_exps": ("gate_up_proj", 0, 2),
    "ffn_up_exps": ("gate_up_proj", 1, 2),
    "ffn_down_exps": ("down_proj", 0, 1),
}
BLOCK = 32  # values
GREATEST = 252  # of scales: six times 2^(253 - 127) is more than a float holds


def repacked(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """A folder's blocks [rows, n, 16] and scales [rows, n] as rows of GGUF's, [rows, 17 n] bytes. A
    byte has values j and j + 16 of its block, where a folder's has 2 j and 2 j + 1; the first is in
    the low nibble in both. The scale comes before its block."""
    values = np.stack((blocks & 15, blocks >> 4), axis=-1).reshape(*scales.shape, BLOCK)
    packed = values[..., : BLOCK // 2] | values[..., BLOCK // 2 :] << 4
    return np.concatenate((scales[..., None], packed), axis=-1).reshape(len(scales), -1)


def packed(finder: Finder, ours: str, theirs: str, part: str) -> Tensor:
    """Blocks of MXFP4, which stay what they are."""
    _, first, step = PARTS[part]
    (rows, cols), n = finder.shapes[part], finder.n_experts
    folder = finder.weights.folder
    if cols % BLOCK:
        raise Failure(f"{folder}: {theirs}_blocks has rows of {cols}, no whole blocks of {BLOCK}")
    shape = (n, step * rows, cols // BLOCK)
    blocks = finder.take_bytes(f"{theirs}_blocks", (*shape, BLOCK // 2))
    scales = finder.take_bytes(f"{theirs}_scales", shape)

    def each() -> Iterator[np.ndarray]:
        for e in range(n):
            own = scales.rows(e, e + 1)[0, first::step]
            if own.max() > GREATEST:
                what = f"scale {own.max()} of expert {e}, expected {GREATEST} at most"
                raise Failure(f"{folder}: {theirs}_scales holds {what}")
            yield repacked(blocks.rows(e, e + 1)[0, first::step], own)

    def whole() -> np.ndarray:
        return np.stack([*each()])

    return Tensor(f"{ours}.weight", (n, rows, cols), whole, each, held="mxfp4")


def plain(finder: Finder, ours: str, theirs: str, part: str) -> Tensor:
    """Floats, turned."""
    _, first, step = PARTS[part]
    (rows, cols), n = finder.shapes[part], finder.n_experts
    found = finder.take(theirs, (n, cols, step * rows))

    def turned(values: np.ndarray) -> np.ndarray:
        return values[..., first::step].swapaxes(1, 2)

    return Tensor(
        f"{ours}.weight",
        (n, rows, cols),
        lambda: turned(found.read()),
        lambda: (turned(found.rows(e, e + 1)) for e in range(n)),
    )


def biases(found: Found, ours: str, part: str) -> Tensor:
    _, first, step = PARTS[part]
    shape = (found.shape[0], found.shape[1] // step)
    return Tensor(f"{ours}.bias", shape, lambda: found.read()[:, first::step])


def alternating(finder: Finder, block: str, prefix: str) -> Iterator[Tensor]:
    """A layer's; `block` and `prefix` are before the names of either's."""
    for part, (name, _, step) in PARTS.items():
        ours, theirs = block + part, prefix + name
        of = packed if finder.has(f"{theirs}_blocks") else plain
        yield of(finder, ours, theirs, part)
        shape = (finder.n_experts, step * finder.shapes[part][0])
        yield biases(finder.take(f"{theirs}_bias", shape), ours, part)
