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
    desk.refuses("num_hidden_layers is 4097, expected 1 to 4096",
                 internlm2 | {"num_hidden_layers": 4097})  # fmt: skip
    yarn = {"rope_scaling": {"type": "yarn", "factor": 2.0}}
    desk.refuses("type 'yarn' is unknown to this family's class; known: linear, dynamic",
                 internlm2 | yarn)  # fmt: skip
    desk.refuses("head_dim is 8, which this family's class passes over; 16 is expected",
                 internlm2 | {"head_dim": 8})  # fmt: skip
    new = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    desk.refuses("rope_parameters, which this family's class passes over", internlm2 | new)
    other = {"architectures": ["InternVLChatModel"]}
    desk.refuses("auto_map: a model with code of its own", internlm2 | other)


def check_baichuan(desk: Desk) -> None:
    smaller = model("baichuan", "BaichuanForCausalLM", vocab_size=125696, model_max_length=4096,
                    z_loss_weight=0)  # fmt: skip
    desk.says("Baichuan 2 7B", smaller, "baichuan", rope__dimension_count=16,
              rope__freq_base=10000.0, tensor_data_layout="Meta AI original pth")  # fmt: skip
    first = {"architectures": ["BaiChuanForCausalLM"], "z_loss_weight": None, "vocab_size": 64000}
    desk.says("Baichuan 7B", smaller | first, "baichuan", rope__dimension_count=16)
    larger = smaller | {"num_hidden_layers": 40, "max_position_embeddings": None,
                        "_from_model_config": True}  # fmt: skip
    desk.says("Baichuan 2 13B", larger, "baichuan", context_length=4096, rope__freq_base=None,
              attention__max_alibi_bias=None)  # fmt: skip
    desk.refuses("4 layers without max_position_embeddings; 40 without (ALiBi)",
                 larger | {"num_hidden_layers": 4})  # fmt: skip
    desk.refuses("40 layers with max_position_embeddings", smaller | {"num_hidden_layers": 40})
    desk.refuses("vocab_size is 65000 and there is no z_loss_weight",
                 smaller | first | {"vocab_size": 65000})  # fmt: skip
    desk.refuses("tie_word_embeddings is true; a normed head",
                 smaller | {"tie_word_embeddings": True})  # fmt: skip
    desk.refuses("'rope_theta' is 10000.0, which is unknown", smaller | {"rope_theta": 1e4})
    desk.refuses("'num_key_value_heads' is 2, which", smaller | {"num_key_value_heads": 2})


def check_minicpm(desk: Desk) -> None:
    minicpm = model(
        "minicpm", "MiniCPMForCausalLM", num_key_value_heads=2, scale_emb=12, scale_depth=1.4,
        dim_model_base=16, tie_word_embeddings=None,
    )  # fmt: skip
    desk.says("MiniCPM", minicpm, "minicpm", embedding_scale=12.0, residual_scale=0.7,
              logit_scale=4.0, attention__scale=None)  # fmt: skip
    plain = {"scale_emb": None, "scale_depth": 2.0, "dim_model_base": 64}
    desk.says("scales of 1 are written, too", minicpm | plain, "minicpm", embedding_scale=1.0,
              residual_scale=1.0, logit_scale=1.0)  # fmt: skip
    desk.refuses("a mixture of 8 experts (num_experts)", minicpm | {"num_experts": 8})
    factors = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8,
               "original_max_position_embeddings": 1024}  # fmt: skip
    desk.says("longrope", minicpm | {"rope_scaling": factors}, "minicpm",
              rope__scaling__type="longrope",
              rope__scaling__original_context_length=1024)  # fmt: skip
    desk.refuses("factor of longrope, which", minicpm | {"rope_scaling": factors | {"factor": 2.0}})
    shorter = factors | {"original_max_position_embeddings": 8192}
    desk.refuses("max_position_embeddings is 4096, expected", minicpm | {"rope_scaling": shorter})
    one = factors | {"original_max_position_embeddings": 1}
    desk.refuses("original_max_position_embeddings is 1; longrope expects 2 or more",
                 minicpm | {"rope_scaling": one})  # fmt: skip
    desk.refuses("'sparse_config' is {'kernel_size': 32}, which",
                 minicpm | {"sparse_config": {"kernel_size": 32}})  # fmt: skip


def check_exaone(desk: Desk) -> None:
    exaone = {
        "activation_function": "silu", "architectures": ["ExaoneForCausalLM"],
        "attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_exaone.ExaoneConfig"},
        "bos_token_id": 1, "embed_dropout": 0.0, "eos_token_id": 361, "head_dim": 16,
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96,
        "layer_norm_epsilon": 1e-5, "max_position_embeddings": 32768, "model_type": "exaone",
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_layers": 4, "pad_token_id": 0,
        "rope_theta": 1000000, "tie_word_embeddings": True, "torch_dtype": "float32",
        "transformers_version": "4.43.0", "use_cache": True, "vocab_size": 512,
        "rope_scaling": {
            "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3",
        },
    }  # fmt: skip
    desk.says("EXAONE 3.5", exaone, "exaone", block_count=4, rope__freq_base=1000000.0,
              attention__layer_norm_rms_epsilon=1e-5, rope__scaling__type=None)  # fmt: skip
    desk.refuses("num_layers, its other name", exaone | {"num_hidden_layers": 5})
    desk.refuses("hidden_act 'tanh' is unknown", exaone | {"activation_function": "tanh"})


def check_deepseek(desk: Desk) -> None:
    deepseek = model(
        "deepseek", "DeepseekForCausalLM", num_key_value_heads=4, attention_bias=False,
        attention_dropout=0.0, aux_loss_alpha=0.001, first_k_dense_replace=1, n_routed_experts=8,
        n_shared_experts=2, moe_intermediate_size=24, moe_layer_freq=1, norm_topk_prob=False,
        num_experts_per_tok=6, pretraining_tp=1, rope_scaling=None, rope_theta=10000,
        scoring_func="softmax", seq_aux=True,
    )  # fmt: skip
    desk.says("DeepSeek-MoE", deepseek, "deepseek", expert_count=8, expert_used_count=6,
              expert_feed_forward_length=24, expert_shared_count=2, expert_weights_scale=1.0,
              expert_shared_feed_forward_length=None, leading_dense_block_count=1,
              expert_weights_norm=None)  # fmt: skip
    normed = deepseek | {"norm_topk_prob": True}
    desk.says("shares that are normed", normed, "deepseek", expert_weights_norm=True)
    desk.says("one share isn't normed", normed | {"num_experts_per_tok": 1}, "deepseek",
              expert_weights_norm=None)  # fmt: skip
    desk.refuses("scoring_func 'sigmoid' is unknown", deepseek | {"scoring_func": "sigmoid"})
    desk.refuses("moe_layer_freq is 2; experts in all", deepseek | {"moe_layer_freq": 2})
    desk.refuses("first_k_dense_replace is 4, expected 0 to 3",
                 deepseek | {"first_k_dense_replace": 4})  # fmt: skip
    desk.refuses("n_shared_experts is -1", deepseek | {"n_shared_experts": -1})
    desk.refuses("n_routed_experts is missing", deepseek | {"n_routed_experts": None})
    desk.refuses(
        "'routed_scaling_factor' is 16.0, which", deepseek | {"routed_scaling_factor": 16.0}
    )


def check_chatglm(desk: Desk) -> None:
    glm = {
        "model_type": "chatglm", "architectures": ["ChatGLMModel"], "add_bias_linear": False,
        "auto_map": {"AutoModel": "modeling_chatglm.ChatGLMForConditionalGeneration"},
        "add_qkv_bias": True, "apply_query_key_layer_scaling": True,
        "apply_residual_connection_post_layernorm": False, "attention_softmax_in_fp32": True,
        "bias_dropout_fusion": True, "classifier_dropout": None, "eos_token_id": [2, 3],
        "ffn_hidden_size": 96, "fp32_residual_connection": False, "hidden_size": 64,
        "kv_channels": 16, "layernorm_epsilon": 1e-5, "multi_query_attention": True,
        "multi_query_group_num": 2, "num_attention_heads": 4, "num_layers": 4,
        "original_rope": True, "padded_vocab_size": 65024, "post_layer_norm": True,
        "pre_seq_len": None, "prefix_projection": False, "quantization_bit": 0, "rmsnorm": True,
        "seq_length": 8192, "tie_word_embeddings": False, "use_cache": True,
    }  # fmt: skip
    desk.says("ChatGLM 3", glm, "chatglm", rope__dimension_count=8, rope__freq_base=10000.0,
              attention__head_count_kv=2, vocab_size=65024, context_length=8192)  # fmt: skip
    newer = {"padded_vocab_size": 151552, "vocab_size": 151552, "num_hidden_layers": 4,
             "rope_ratio": 500}  # fmt: skip
    desk.says("GLM-4", glm | newer, "chatglm", rope__freq_base=5000000.0)
    desk.refuses("rope_ratio is 50.0, which ChatGLM 2 and 3 understand", glm | {"rope_ratio": 50})
    desk.refuses("the first ChatGLM is another model", glm | {"position_encoding_2d": True})
    for key, value in (
        ("multi_query_attention", False),
        ("rmsnorm", False),
        ("post_layer_norm", False),
        ("original_rope", False),
        ("apply_residual_connection_post_layernorm", True),
    ):
        desk.refuses(f"{key} is {str(value).lower()};", glm | {key: value})
    desk.refuses("quantization_bit is 4; 0 is read", glm | {"quantization_bit": 4})
    desk.refuses("'pre_seq_len' is 128, which is unknown", glm | {"pre_seq_len": 128})


def check_t5(desk: Desk) -> None:
    decoder = {
        "model_type": "custom_decoder_only_t5", "architectures": ["CustomDecoderOnlyT5"],
        "auto_map": {"AutoModelForCausalLM": "modeling.CustomDecoderOnlyT5"}, "d_ff": 96,
        "d_kv": 32, "d_model": 64, "dropout_rate": 0.1, "dense_act_fn": "relu",
        "feed_forward_proj": "relu", "initializer_factor": 1.0, "is_decoder": True,
        "is_encoder_decoder": False, "is_gated_act": False, "layer_norm_epsilon": 1e-6,
        "n_positions": 512, "num_decoder_layers": 2, "num_heads": 4, "num_layers": 2,
        "output_past": True, "position_encoding_type": "rotary", "vocab_size": 512,
        "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32,
        "tie_word_embeddings": False,
    }  # fmt: skip
    common = {"attention__scale": 1.0, "attention__key_length": 32, "norm": "rmsnorm",
              "activation": "relu", "logit_scale": None}  # fmt: skip
    for kind, spec in {
        "none": "none",
        "rotary": "rope:pairs=adjacent,dim=8,base=10000",
        "rotary_rerun": "rope:pairs=adjacent,dim=8,base=10000",
        "alibi": "alibi:max_bias=8",
        "alibi_learned": "kerple:kind=power,eps=0",
        "abs_sinusoid": "sinusoidal:layout=concat",
        "t5_relative_bias": "t5:buckets=32,max_distance=128",
        "transformer_xl_relative_encoding": "transformer-xl:clamp=1000",
    }.items():
        desk.says(f"T5's decoder: {kind}", decoder | {"position_encoding_type": kind}, "locus",
                  position=spec, context_length=512, **common)  # fmt: skip
    learned = decoder | {"position_encoding_type": "abs_learned"}
    desk.says("a table of its own length", learned, "locus", context_length=2048)
    desk.says("a tied head is scaled", decoder | {"tie_word_embeddings": None}, "locus",
              logit_scale=0.125)  # fmt: skip
    desk.refuses("position_encoding_type 'fire' is unknown; known: none",
                 decoder | {"position_encoding_type": "fire"})  # fmt: skip
    desk.refuses("num_layers is 4097, expected 1 to 4096", decoder | {"num_layers": 4097})
    desk.refuses("d_kv is 20, of which 5 dimensions rotate", decoder | {"d_kv": 20})
    desk.refuses("feed_forward_proj 'gated-x-y' is unknown",
                 decoder | {"feed_forward_proj": "gated-x-y"})  # fmt: skip
    desk.refuses("dense_act_fn is 'gelu', but feed_forward_proj makes it relu",
                 decoder | {"dense_act_fn": "gelu"})  # fmt: skip
    desk.refuses("relative_attention_max_distance is 64",
                 decoder | {"relative_attention_max_distance": 64})  # fmt: skip
    plain = {"model_type": "t5", "position_encoding_type": None, "architectures": None,
             "auto_map": None}  # fmt: skip
    desk.refuses("model_type 't5' without position_encoding_type", decoder | plain)
    desk.refuses("is_encoder_decoder is true", decoder | {"is_encoder_decoder": True})


def main() -> None:
    checks = Checks()
    desk = Desk(checks, Path(sys.argv[1]))
    check_internlm2(desk)
    check_baichuan(desk)
    check_minicpm(desk)
    check_exaone(desk)
    check_deepseek(desk)
    check_chatglm(desk)
    check_t5(desk)
    checks.report()


if __name__ == "__main__":
    main()
