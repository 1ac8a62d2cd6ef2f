#!/usr/bin/env python3
"""Layers of different positions by -P, on models of Hugging Face that were made without them.

    hf_layer_cases.py FOLDER LOCUS

FOLDER is an empty one to work in, LOCUS the program. A tiny random model is saved and converted;
then the program runs it with a SPEC for some of its layers, and transformers the same weights in a
class that has such layers (SmolLM3, Gemma 3), or in the model's own class with a rotation a layer.
Logits must agree to 1e-5 of the largest, in double precision there, at once and token by token.
Prints a line a SPEC, one for each check that fails, and "NN%: Checks: N, Failures: N, Errors: 0" at
the end; exits 1 if any failed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import numpy as np
import torch
import transformers as hf
from torch import Tensor

from checks import Checks
from golden_schemes import Rotation, turned_by_layer
from hf_cases import TOLERANCE, Bench, convert, difference, prepare
from hf_models import BASE, COMMON, Variant, exact, rope

N_LAYER, N_TOKENS = 8, 60
DEEP = COMMON | {"num_hidden_layers": N_LAYER, "num_key_value_heads": 2}
PLAIN = {"rope_type": "default", "rope_theta": BASE}
OTHER = {"rope_type": "default", "rope_theta": 100.0}
LINEAR = {"rope_type": "linear", "rope_theta": 9000.0, "factor": 4.0}
SIX = {"num_hidden_layers": 6, "sliding_window": 16, "head_dim": 8, "query_pre_attn_scalar": 8}
LLAMA = Variant("Llama", DEEP | rope(), "llama")
QWEN3 = Variant("Qwen3", DEEP | rope() | {"head_dim": 8}, "qwen3")
SMOLLM3 = Variant("SmolLM3", DEEP | rope(), "smollm3")
GEMMA3_ROPE = {"full_attention": PLAIN, "sliding_attention": OTHER}
GEMMA3 = Variant("Gemma3", DEEP | SIX | {"rope_parameters": GEMMA3_ROPE}, "gemma3", "Gemma3Text")


@dataclass(frozen=True)
class Layers:
    """A model as it is saved, SPECs that mean the same, and the one that computes it."""

    saved: Variant
    specs: tuple[str, ...]
    other: Variant | None = None  # whose class and options have such layers
    rotations: tuple[Rotation, ...] = ()

    def expected(self, state: dict[str, Tensor], ids: list[int]) -> np.ndarray:
        """Logits of all tokens but the last."""
        with torch.no_grad(), exact():
            model = (self.other or self.saved).make().eval()
            model.load_state_dict(state)
            if self.rotations:
                model = turned_by_layer(model, self.rotations)
            return model(input_ids=torch.tensor([ids[:-1]])).logits[0].numpy()


def smollm3(every: int) -> Variant:
    own = {"no_rope_layer_interval": every, "tie_word_embeddings": False}
    return Variant("SmolLM3", DEEP | rope() | own, "smollm3")


def pattern(rest: Rotation, every: int, last: Rotation) -> tuple[Rotation, ...]:
    """`last` in each every-th layer, `rest` in the others."""
    return tuple(last if (i + 1) % every == 0 else rest for i in range(N_LAYER))


# -P of SmolLM3: every fourth layer without positions.
SMOLLM3_SPECS = ("rope; layers 3::4 none", "rope:nope_every=4")
HALF_SPECS = ("rope; layers 1::2 none", "rope:nope_every=2", "none; layers ::2 rope")
GEMMA3_SPEC = "rope:base=100; layers 5::6 rope:base=9000,scaling=linear,factor=4"
GEMMA3_OTHER = Variant(
    "Gemma3",
    DEEP | SIX | {"rope_parameters": {"full_attention": LINEAR, "sliding_attention": PLAIN}},
    "gemma3",
    "Gemma3Text",
)
CASES = {
    "SmolLM3's pattern on Llama": Layers(LLAMA, SMOLLM3_SPECS, smollm3(4)),
    "SmolLM3's pattern on Qwen 3": Layers(QWEN3, SMOLLM3_SPECS, rotations=pattern(PLAIN, 4, None)),
    "none of it on SmolLM3": Layers(SMOLLM3, ("rope:nope_every=0",), LLAMA),
    "half the layers on Llama": Layers(LLAMA, HALF_SPECS, smollm3(2)),
    "the first half on Qwen 3": Layers(
        QWEN3, ("rope; layers :4 none",), rotations=(None,) * 4 + (PLAIN,) * 4
    ),
    "Gemma 3's bases on Llama": Layers(LLAMA, (GEMMA3_SPEC,), rotations=pattern(OTHER, 6, LINEAR)),
    "Gemma 3's bases on Qwen 3": Layers(QWEN3, (GEMMA3_SPEC,), rotations=pattern(OTHER, 6, LINEAR)),
    "other bases on Gemma 3": Layers(
        GEMMA3,
        (f"rope:base={BASE:g}; layers 5::6 rope:base=9000,scaling=linear,factor=4",),
        GEMMA3_OTHER,
    ),
}


def check(bench: Bench, checks: Checks, name: str, case: Layers) -> None:
    file = bench.work / "layers.gguf"
    state = prepare(bench, name, case.saved, bench.work / "folder")
    convert(bench.work / "folder", file)
    expected = case.expected(state, bench.ids[:N_TOKENS])
    as_it_is = bench.logits(file, N_TOKENS)
    # Else the layers would make no difference.
    checks.that(difference(as_it_is, expected) > 1e-2, f"{name}: as the model is by itself")
    for spec in case.specs:
        ours = bench.logits(file, N_TOKENS, "-P", spec)
        apart = difference(ours, expected)
        checks.that(apart <= TOLERANCE, f"{name}: -P '{spec}': {apart:.1e}")
        by_token = bench.logits(file, N_TOKENS, "-P", spec, "-b", "1")
        checks.that(np.array_equal(by_token, ours), f"{name}: -P '{spec}': token by token")
        print(f"{name:<32} {apart:8.1e}  -P '{spec}'")


def main() -> None:
    bench, checks = Bench(Path(sys.argv[1]), sys.argv[2]), Checks()
    hf.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name, case in CASES.items():
        check(bench, checks, name, case)
    checks.report()


if __name__ == "__main__":
    main()
