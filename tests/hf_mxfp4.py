"""gpt-oss with its experts in MXFP4, as they are published. Used by hf_models.py."""

from __future__ import annotations

import json
import re
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

OF_EXPERTS = re.compile(r".*\.experts\.(gate_up|down)_proj")


def as_published(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks [expert, outputs, inputs/32, 16] and scales of values [expert, inputs, outputs]."""
    rows = values.transpose(1, 2).contiguous().numpy()
    made = gguf.quants.quantize(rows, gguf.GGMLQuantizationType.MXFP4)
    made = made.reshape(*rows.shape[:2], -1, 17)
    scales, halves = made[..., 0], made[..., 1:]
    levels = np.concatenate((halves & 15, halves >> 4), axis=-1)  # in the order of the values
    blocks = levels[..., 0::2] | levels[..., 1::2] << 4
    return torch.from_numpy(blocks.copy()), torch.from_numpy(scales.copy())


def pack(folder: Path) -> dict[str, torch.Tensor]:
    """Packs the folder's experts; returns what transformers makes of the blocks, by name."""
    path, unpacked = folder / "model.safetensors", {}
    tensors = load_file(path)
    for name in [name for name in tensors if OF_EXPERTS.fullmatch(name)]:
        blocks, scales = as_published(tensors.pop(name))
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        unpacked[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    assert unpacked
    save_file(tensors, path, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    left = [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ]
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": left}
    (folder / "config.json").write_text(json.dumps(config))
    return unpacked
