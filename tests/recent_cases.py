#!/usr/bin/env python3
"""Folders that hold more than plain matrices, in one process: recent_cases.py FOLDER.

FOLDER is an empty one to work in. Blocks of MXFP4 are kept to the bit whatever the other matrices
become; configurations as published models have them come to the keys that they should, and what
isn't understood is refused by name. Needs no PyTorch. Prints as convert_cases.py does.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import gguf
import numpy as np
from safetensors.numpy import save_file

import convert_hf
from checks import Checks
from family_cases import LLAMA, Desk, convert, llama_folder, write_tokenizer
from hf_folder import Config

# ---- gpt-oss -------------------------------------------------------------------------------

WIDTH, FF, LAYERS, HEADS, KEYS, HEAD, EXPERTS = 64, 96, 2, 4, 2, 16, 3
GPT_OSS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"], "attention_bias": True, "attention_dropout": 0.0,
    "eos_token_id": 2, "experts_per_token": 2, "head_dim": HEAD, "hidden_act": "silu",
    "hidden_size": WIDTH, "initial_context_length": 4096, "initializer_range": 0.02,
    "intermediate_size": FF, "layer_types": ["sliding_attention", "full_attention"],
    "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": HEADS,
    "num_experts_per_tok": 2, "num_hidden_layers": LAYERS, "num_key_value_heads": KEYS,
    "num_local_experts": EXPERTS, "output_router_logits": False, "pad_token_id": 1,
    "quantization_config": {
        "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"], "quant_method": "mxfp4",
    },
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn",
        "original_max_position_embeddings": 4096, "truncate": False,
    },
    "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
    "tie_word_embeddings": False, "transformers_version": "4.55.0.dev0", "use_cache": True,
    "vocab_size": 512,
}  # fmt: skip
PARTS = (("gate", "gate_up", 0), ("up", "gate_up", 1), ("down", "down", 0))
Tensors = dict[str, np.ndarray]


def gpt_oss_tensors() -> Tensors:
    """As openai publishes them: experts as blocks of 32 values and their scales."""
    generator = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray:
        return generator.normal(0, 0.3, shape).astype(np.float32)

    def any_bytes(*shape: int, low: int = 0, high: int = 256) -> np.ndarray:
        return generator.integers(low, high, shape, dtype=np.uint8)

    found = {name: draw(512, WIDTH) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    found["model.norm.weight"] = draw(WIDTH)
    for i in range(LAYERS):
        layer, attention = f"model.layers.{i}.", f"model.layers.{i}.self_attn."
        experts = f"{layer}mlp.experts."
        found |= {f"{layer}{norm}_layernorm.weight": draw(WIDTH)
                  for norm in ("input", "post_attention")}  # fmt: skip
        for name, n in (("q", HEADS), ("k", KEYS), ("v", KEYS)):
            found[f"{attention}{name}_proj.weight"] = draw(n * HEAD, WIDTH)
            found[f"{attention}{name}_proj.bias"] = draw(n * HEAD)
        found[f"{attention}o_proj.weight"] = draw(WIDTH, HEADS * HEAD)
        found[f"{attention}o_proj.bias"] = draw(WIDTH)
        found[f"{attention}sinks"] = draw(HEADS)
        found[f"{layer}mlp.router.weight"] = draw(EXPERTS, WIDTH)
        found[f"{layer}mlp.router.bias"] = draw(EXPERTS)
        for name, rows, cols in (("gate_up", 2 * FF, WIDTH), ("down", WIDTH, FF)):
            shape = EXPERTS, rows, cols // 32
            found[f"{experts}{name}_proj_blocks"] = any_bytes(*shape, 16)
            found[f"{experts}{name}_proj_scales"] = any_bytes(*shape, low=0, high=253)
            found[f"{experts}{name}_proj_bias"] = draw(EXPERTS, rows)
    return found


E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)  # OCP Microscaling Formats 1.0, 5.3.3; the high bit is the sign


def values_of(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """What blocks stand for, [..., n * 32]: the low nibble of a byte is before the high one."""
    table = np.array([*E2M1, *(-value for value in E2M1)])
    nibbles = np.stack((blocks % 16, blocks // 16), axis=-1).reshape(*scales.shape, 32)
    values = table[nibbles] * np.exp2(scales[..., None].astype(np.float64) - 127)
    return values.reshape(*scales.shape[:-1], -1).astype(np.float32)


def folder_of(work: Path, config: dict[str, Any], tensors: Tensors) -> Path:
    folder = work / "folder"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    save_file(tensors, folder / "model.safetensors")
    return folder


def check_blocks(checks: Checks, work: Path) -> None:
    """The values of MXFP4 are the folder's to the bit, whatever other matrices become."""
    tensors, output = gpt_oss_tensors(), work / "gpt-oss.gguf"
    folder = folder_of(work, GPT_OSS, tensors)
    routers = {"f32": "F32", "f16": "F16", "bf16": "BF16", "q8_0": "Q8_0", "q4_0": "Q4_0"}
    for kind, matrices in routers.items():
        convert(folder, output, kind)
        found = {t.name: t for t in gguf.GGUFReader(output).tensors}
        for i in range(LAYERS):
            for part, name, first in PARTS:
                theirs = f"model.layers.{i}.mlp.experts.{name}_proj"
                wanted = values_of(tensors[f"{theirs}_blocks"], tensors[f"{theirs}_scales"])
                bias = tensors[f"{theirs}_bias"]
                if name == "gate_up":
                    wanted, bias = wanted[:, first::2], bias[:, first::2]
                held = found[f"blk.{i}.ffn_{part}_exps.weight"]
                values = gguf.quants.dequantize(held.data, held.tensor_type)
                same = held.tensor_type.name == "MXFP4" and np.array_equal(values, wanted)
                checks.that(same, f"{kind}: {held.name} is another, or {held.tensor_type.name}")
                held = found[f"blk.{i}.ffn_{part}_exps.bias"]
                same = held.tensor_type.name == "F32" and np.array_equal(held.data, bias)
                checks.that(same, f"{kind}: {held.name} is another, or {held.tensor_type.name}")
        for name, wanted in (("attn_q", matrices), ("ffn_gate_inp", "F32"), ("attn_sinks", "F32")):
            told = found[f"blk.0.{name}.weight"].tensor_type.name
            checks.that(told == wanted, f"{kind}: {name} is {told}, expected {wanted}")


def check_floats(checks: Checks, work: Path) -> None:
    """Floats, turned as the class has them, are the same model as the blocks."""
    tensors, output = gpt_oss_tensors(), work / "gpt-oss.gguf"
    exact = {}
    for name in [name for name in tensors if name.endswith("_blocks")]:
        stem = name.removesuffix("_blocks")
        scales = tensors[f"{stem}_scales"] // 16 + 119
        tensors[f"{stem}_scales"] = scales
        exact[stem] = np.ascontiguousarray(values_of(tensors[name], scales).swapaxes(1, 2))
    convert(folder_of(work, GPT_OSS, tensors), output, "f32")
    blocks = {t.name: gguf.quants.dequantize(t.data, t.tensor_type)
              for t in gguf.GGUFReader(output).tensors}  # fmt: skip
    rest = {name: values for name, values in tensors.items()
            if not name.endswith(("_blocks", "_scales"))}  # fmt: skip
    config = {key: value for key, value in GPT_OSS.items() if key != "quantization_config"}
    convert(folder_of(work, config, rest | exact), output, "f32")
    floats = {t.name: t for t in gguf.GGUFReader(output).tensors}
    checks.that(floats.keys() == blocks.keys(), "floats and blocks make tensors of other names")
    for name, tensor in floats.items():
        same = tensor.tensor_type.name == "F32" and np.array_equal(tensor.data, blocks[name])
        checks.that(bool(same), f"{name} is another of floats")


def check_gpt_oss(desk: Desk) -> None:
    desk.says(
        "gpt-oss 20b", GPT_OSS, "gpt-oss", attention__sliding_window=128,
        attention__sliding_window_pattern=None, rope__freq_base=150000.0, expert_count=EXPERTS,
        expert_used_count=2, expert_feed_forward_length=FF, attention__key_length=None,
        rope__scaling__type="yarn", rope__scaling__factor=32.0, expert_weights_norm=None,
        rope__scaling__original_context_length=4096, rope__scaling__yarn_attn_factor=None,
    )  # fmt: skip
    absent = ("rope_scaling", "rope_theta", "layer_types", "sliding_window")
    bare = {key: value for key, value in GPT_OSS.items() if key not in absent}
    desk.says("its class's own positions", bare, "gpt-oss", rope__freq_base=150000.0,
              rope__scaling__factor=32.0, rope__scaling__original_context_length=4096,
              attention__sliding_window=128, attention__sliding_window_pattern=None)  # fmt: skip
    whole = GPT_OSS["rope_scaling"] | {"truncate": True}
    desk.says("a ramp between whole dimensions", GPT_OSS | {"rope_scaling": whole}, "gpt-oss",
              rope__scaling__type=None,
              locus__position="rope:pairs=half,dim=16,base=150000,scaling=yarn,factor=32,"
              "trained=4096,beta_fast=32,beta_slow=1")  # fmt: skip
    desk.says("without a window", GPT_OSS | {"layer_types": ["full_attention"] * 2}, "locus",
              activation="clipped_swish", expert_weights_norm=True)  # fmt: skip
    for key, value, words in (
        ("swiglu_limit", 6.0, "swiglu_limit is 6.0, expected 7.0"),
        ("swiglu_alpha", 1.0, "swiglu_alpha is 1.0, expected 1.702"),
        ("hidden_act", "gelu", "hidden_act 'gelu' is unknown"),
        ("experts_per_token", 1, "experts_per_token, its other name, is another"),
        ("initial_context_length", 8192, "initial_context_length is 8192, but"),
        ("sliding_window", None, "but sliding_window is null"),
        ("quantization_config", {"quant_method": "fp8"}, "quantised by 'fp8'"),
        ("quantization_config", {"quant_method": "mxfp4", "x": 1}, "'x' is 1, which is unknown"),
    ):
        desk.refuses(words, GPT_OSS | {key: value})
    llama = {"model_type": "llama", "quantization_config": {"quant_method": "mxfp4"}}
    desk.refuses("quantised by 'mxfp4'; floats", llama)


def check_gpt_oss_refusals(checks: Checks, work: Path) -> None:
    plain, output = gpt_oss_tensors(), work / "refused"
    output.mkdir()
    experts = "model.layers.1.mlp.experts."

    def refused(words: str, change: Callable[[Tensors], object], **config: object) -> None:
        tensors = dict(plain)
        change(tensors)
        folder = folder_of(work, GPT_OSS | config, tensors)
        checks.refused(words, words, lambda: convert(folder, output / "x.gguf", "f16"), output)

    def put(name: str, values: np.ndarray) -> Callable[[Tensors], object]:
        return lambda tensors: tensors.update({name: values})

    name = f"{experts}down_proj_scales"
    scales = plain[name].copy()
    scales[2, 5, 1] = 255
    refused("down_proj_scales holds scale 255 of expert 2", put(name, scales))
    refused("down_proj_scales is missing", lambda t: t.pop(f"{experts}down_proj_scales"))
    refused("down_proj_bias is missing", lambda t: t.pop(f"{experts}down_proj_bias"))
    refused("sinks is missing", lambda t: t.pop("model.layers.0.self_attn.sinks"))
    floats = np.zeros((EXPERTS, WIDTH, 2 * FF), np.float32)
    refused("unexpected tensor", put(f"{experts}gate_up_proj", floats))
    blocks = plain[f"{experts}down_proj_blocks"].astype(np.float32)
    refused("is F32, expected U8", put(f"{experts}down_proj_blocks", blocks))
    short = plain[f"{experts}down_proj_blocks"][:, 1:]
    refused("is [3, 63, 3, 16], expected [3, 64, 3, 16]", put(f"{experts}down_proj_blocks", short))

    def narrow(tensors: Tensors) -> None:
        """Of 80 values: no whole blocks."""
        for name in [name for name in tensors if "gate_up" in name]:
            tensors[name] = tensors[name][:, :160]

    refused("rows of 80, no whole blocks of 32", narrow, intermediate_size=80)


# ---- nanochat ------------------------------------------------------------------------------

NANOCHAT_CONFIG: dict[str, Any] = {
    "architectures": ["NanoChatForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 0, "final_logit_softcapping": 15.0, "hidden_act": "relu2", "hidden_size": 64,
    "intermediate_size": 256, "max_position_embeddings": 2048, "model_type": "nanochat",
    "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "tie_word_embeddings": False, "vocab_size": 512,
}  # fmt: skip


def check_nanochat(desk: Desk) -> None:
    desk.says(
        "nanochat", NANOCHAT_CONFIG, "locus", norm="rmsnorm", embedding_norm=True, gated=False,
        activation="relu_squared", final_logit_softcapping=15.0, norm_epsilon=1e-6,
        position="rope:pairs=half,dim=16,base=10000",
    )  # fmt: skip
    absent = ("final_logit_softcapping", "intermediate_size", "rms_norm_eps", "hidden_act")
    bare = {key: value for key, value in NANOCHAT_CONFIG.items() if key not in absent}
    desk.says("what its class has by itself", bare, "locus", feed_forward_length=8192,
              activation="relu_squared", final_logit_softcapping=15.0)  # fmt: skip
    none = NANOCHAT_CONFIG | {"final_logit_softcapping": None}
    desk.says("without a cap", none, "locus", final_logit_softcapping=None)
    yarn = {"rope_type": "yarn", "factor": 4.0}
    desk.refuses("yarn scales queries and keys", NANOCHAT_CONFIG | {"rope_parameters": yarn})
    desk.refuses("'window_pattern' is 'SSSL'", NANOCHAT_CONFIG | {"window_pattern": "SSSL"})


# ---- rotations -----------------------------------------------------------------------------


def check_rotations(desk: Desk) -> None:
    """A share of the pairs (rope_type proportional), and queries that grow with the position."""
    share = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}

    def with_share(**changes: object) -> dict[str, Any]:
        return LLAMA | {"rope_parameters": share | changes}

    spec = "rope:pairs=adjacent,dim=16,base=1000000"
    desk.says("proportional", with_share(), "llama", locus__position=f"{spec},p=0.25",
              rope__dimension_count=16)  # fmt: skip
    desk.says("proportional by a factor", with_share(factor=4), "llama",
              locus__position=f"{spec},p=0.25,scaling=linear,factor=4",
              rope__scaling__factor=None)  # fmt: skip
    desk.says("all of it", with_share(partial_rotary_factor=1), "llama", locus__position=None)
    desk.says("as before transformers 5",
              LLAMA | {"rope_theta": 1e6, "partial_rotary_factor": 0.25,
                       "rope_scaling": {"type": "proportional"}},
              "llama", locus__position=f"{spec},p=0.25")  # fmt: skip
    desk.refuses("partial_rotary_factor 0.1 makes 0 of a head's 8 pairs rotate",
                 with_share(partial_rotary_factor=0.1))  # fmt: skip
    desk.refuses("partial_rotary_factor 1.5 makes 12 of a head's 8 pairs",
                 with_share(partial_rotary_factor=1.5))  # fmt: skip
    desk.refuses("factor is 0.0, expected a number above 0", with_share(factor=0))
    desk.refuses("'truncate' is False, which is unknown", with_share(truncate=False))
    desk.refuses("rope_type 'axial' is unknown; known: default, linear, dynamic, yarn, llama3, "
                 "longrope, su, proportional",
                 with_share(rope_type="axial", partial_rotary_factor=None))  # fmt: skip
    for family in ("llama", "qwen2", "qwen3"):
        config = LLAMA | {"model_type": family, "architectures": None}
        desk.says(f"{family} without logn", config | {"use_logn_attn": False}, family)
        desk.refuses("use_logn_attn is true; queries that grow", config | {"use_logn_attn": True})


def check_chunks(desk: Desk) -> None:
    """Dual chunk attention, which a folder may ask for and a file can't."""
    chunks = {"chunk_size": 4096, "local_size": 512, "original_max_position_embeddings": 4096}
    config = LLAMA | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
    desk.says("chunks", config | {"dual_chunk_attention_config": chunks}, "qwen2")
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        convert_hf.read_decoder(Config(desk.path))
    words = "means -A dual-chunk:chunk=3584,window=512"
    desk.checks.that(words in said.getvalue(), f"chunks: {said.getvalue()!r}")
    for words, wrong in {
        "local_size is 2049, expected at most half of 4096": {"local_size": 2049},
        "chunk_size is missing": {"chunk_size": None},
        "sparse_attention_enabled is true": {"sparse_attention_enabled": True},
        "'x' is 1, which is unknown": {"x": 1},
    }.items():
        desk.refuses(words, config | {"dual_chunk_attention_config": chunks | wrong})
    desk.refuses(
        "'dual_chunk_attention_config' is", LLAMA | {"dual_chunk_attention_config": chunks}
    )


# ---- models with pictures ------------------------------------------------------------------

GEMMA3: dict[str, Any] = {  # as the one of 4 billion is published
    "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
    "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144,
    "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
        "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
}  # fmt: skip
MISTRAL3: dict[str, Any] = {
    "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10,
    "model_type": "mistral3", "multimodal_projector_bias": False, "projector_hidden_act": "gelu",
    "spatial_merge_size": 2, "vision_feature_layer": -1, "vision_config": {"model_type": "pixtral"},
    "tie_word_embeddings": False, "eos_token_id": 3,
    "text_config": {
        "attention_dropout": 0.0, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 96, "max_position_embeddings": 131072,
        "model_type": "mistral", "num_attention_heads": 4, "num_hidden_layers": 1,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 1000000000.0,
        "sliding_window": None, "use_cache": True, "vocab_size": 512,
    },
}  # fmt: skip


def check_wrapped(desk: Desk) -> None:
    desk.says(
        "Gemma 3 4b", GEMMA3, "gemma3", vocab_size=262208, attention__head_count=8,
        attention__head_count_kv=4, attention__key_length=256, context_length=131072,
        attention__sliding_window=1024, rope__freq_base=1000000.0, rope__scaling__factor=8.0,
        attention__scale=None,
    )  # fmt: skip
    desk.says("Mistral Small 3.1", MISTRAL3, "llama", attention__sliding_window=None,
              rope__freq_base=1000000000.0)  # fmt: skip

    def inside(config: dict[str, Any], **changes: object) -> dict[str, Any]:
        return config | {"text_config": config["text_config"] | changes}

    desk.refuses("text_config is missing", GEMMA3 | {"text_config": None})
    desk.refuses("text_config is 3, expected dict", GEMMA3 | {"text_config": 3})
    desk.refuses(
        "text_config: model_type is 'ministral3'", inside(MISTRAL3, model_type="ministral3")
    )
    desk.refuses("text_config: 'x' is 1, which is unknown", inside(GEMMA3, x=1))
    desk.refuses("'spatial_merge_size' is 2, which is unknown", GEMMA3 | {"spatial_merge_size": 2})
    desk.refuses("architectures is ['X'], expected Gemma3For", GEMMA3 | {"architectures": ["X"]})
    desk.refuses("quantised by 'fp8'", MISTRAL3 | {"quantization_config": {"quant_method": "fp8"}})
    desk.refuses(
        "quantised by 'fp8'", inside(MISTRAL3, quantization_config={"quant_method": "fp8"})
    )
    capped = inside(GEMMA3, final_logit_softcapping=30.0)
    desk.refuses("which Gemma3ForConditionalGeneration passes over", capped)
    desk.refuses("attention to later tokens", inside(GEMMA3, use_bidirectional_attention=True))


def check_wrapped_names(checks: Checks, work: Path) -> None:
    """Names as they were published at one time or another make the same file, whatever there is of
    pictures; what is of neither is refused."""
    output, plain = work / "wrapped.gguf", llama_folder(work / "llama")
    plain["model.layers.0.mlp.down_proj.weight"] *= 2
    parts = ("vision_tower.x.weight", "multi_modal_projector.norm.weight")
    pictures = {name: np.ones(3, np.float32) for name in parts}

    def named(head: str, body: str, of_pictures: str) -> Tensors:
        found = {f"{of_pictures}{name}": values for name, values in pictures.items()}
        for name, values in plain.items():
            bare = name.removeprefix("model.")
            found[f"{head}{name}" if bare == name else f"{body}{bare}"] = values
        return found

    def converted(tensors: Tensors) -> bytes:
        return convert(folder_of(work, MISTRAL3, tensors), output, "f32")

    wanted = converted(named("", "model.language_model.", "model."))
    reader = gguf.GGUFReader(output)
    field = reader.fields["tokenizer.ggml.eos_token_id"].contents()
    checks.that(field == 3, f"the outer eos_token_id is 3, but {field} is told")
    held = next(t for t in reader.tensors if t.name == "blk.0.ffn_down.weight")
    checks.that(np.array_equal(held.data, plain["model.layers.0.mlp.down_proj.weight"]), held.name)
    for names in (("language_model.", "language_model.model.", ""), ("", "language_model.", "")):
        checks.that(converted(named(*names)) == wanted, f"{names}: other bytes")
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        convert_hf.convert(work / "folder", output, "f32", "tiny")
    words = "the text model alone is converted, without vision_tower and multi_modal_projector"
    checks.that(words in said.getvalue(), f"what is said: {said.getvalue()!r}")
    more = named("", "model.language_model.", "") | {"model.audio.weight": plain["lm_head.weight"]}
    checks.refused("audio", "unexpected tensor model.audio.weight", lambda: converted(more), work)


def main() -> None:
    work = Path(sys.argv[1])
    checks = Checks()
    desk = Desk(checks, work)
    check_gpt_oss(desk)
    check_blocks(checks, work)
    check_floats(checks, work)
    check_gpt_oss_refusals(checks, work)
    check_nanochat(desk)
    check_rotations(desk)
    check_chunks(desk)
    check_wrapped(desk)
    check_wrapped_names(checks, work)
    checks.report()


if __name__ == "__main__":
    main()
