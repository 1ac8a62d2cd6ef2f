#!/usr/bin/env python3
"""Configurations of families whose code lies in their folders: own_code_cases.py FOLDER.

FOLDER is an empty one to work in. What configurations of published models say comes to the keys
that it should; what that code passes over, or computes otherwise, is refused by name. Needs no
PyTorch. Prints a line for each check that fails and "NN%: Checks: N, Failures: N, Errors: 0" at
the end; exits 1 if any failed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from checks import Checks
from family_cases import SHAPE, Desk

MODEL = SHAPE | {
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "initializer_range": 0.02,
    "torch_dtype": "bfloat16", "transformers_version": "4.38.0", "use_cache": True,
}  # fmt: skip


def model(model_type: str, name: str, **more: Any) -> dict[str, Any]:
    code = {"AutoModelForCausalLM": f"modeling_{model_type}.{name}"}
    head = {"model_type": model_type, "architectures": [name], "auto_map": code}
    return {**MODEL, **head, **more}


def check_internlm2(desk: Desk) -> None:
    internlm2 = model(
        "internlm2", "InternLM2ForCausalLM", num_key_value_heads=2, rope_theta=1000000,
        bias=False, attn_implementation="eager", pretraining_tp=1,
        rope_scaling={"type": "dynamic", "factor": 2.0},
    )  # fmt: skip
    desk.says("InternLM 2", internlm2, "internlm2", attention__head_count_kv=2,
              rope__dimension_count=16, rope__freq_base=1000000.0,
              locus__position="rope:pairs=adjacent,dim=16,base=1000000,scaling=dynamic,factor=2,"
              "trained=4096")  # fmt: skip
    desk.says("linear", internlm2 | {"rope_scaling": {"type": "linear", "factor": 2.0}},
              "internlm2", rope__scaling__type="linear", rope__scaling__factor=2.0)  # fmt: skip
    yarn = {"rope_scaling": {"type": "yarn", "factor": 2.0}}
    desk.refuses("type 'yarn' is unknown to this family's class; known: linear, dynamic",
                 internlm2 | yarn)  # fmt: skip
    desk.refuses("head_dim is 8, which this family's class passes over; 16 is expected",
                 internlm2 | {"head_dim": 8})  # fmt: skip
    new = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    desk.refuses("rope_parameters, which this family's class passes over", internlm2 | new)
    other = {"architectures": ["InternVLChatModel"]}
    desk.refuses("auto_map: a model with code of its own", internlm2 | other)


def main() -> None:
    checks = Checks()
    desk = Desk(checks, Path(sys.argv[1]))
    check_internlm2(desk)
    checks.report()


if __name__ == "__main__":
    main()
