"""What many families' configurations have in common: see hf_families.py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hf_folder import Config
from output import Failure

IGNORED = re.compile(  # keys of any config.json that change nothing that is computed
    r"\w*(dropout|_pdrop|_drop)(_prob)?|initializer_range|initializer_factor|summary_\w+"
    r"|model_type|architectures|transformers_version|_name_or_path|_commit_hash|torch_dtype|dtype"
    r"|use_cache|gradient_checkpointing|return_dict|output_hidden_states|output_attentions"
    r"|output_past|torchscript|use_bfloat16|tf_legacy_loss|chunk_size_feed_forward|is_decoder"
    r"|_?attn_implementation\w*|loss_type|use_return_dict|xla_device"
    r"|id2label|label2id|_?num_labels|finetuning_task|problem_type|task_specific_params|prefix"
    r"|tokenizer_class|(bos|eos|pad|sep|decoder_start)_token_id|tie_encoder_decoder"
    r"|max_length|min_length|do_sample|early_stopping|num_beams|num_beam_groups|temperature"
    r"|top_k|top_p|typical_p|diversity_penalty|repetition_penalty|length_penalty"
    r"|(encoder_)?no_repeat_ngram_size|bad_words_ids|num_return_sequences|output_scores"
    r"|return_dict_in_generate|forced_(bos|eos)_token_id|remove_invalid_values"
    r"|exponential_decay_length_penalty|(begin_)?suppress_tokens|cache_implementation"
    # What the tensors tell: a bias that is there is added.
    r"|attention_bias|mlp_bias|use_bias|use_qkv_bias|qkv_bias|attention_out_bias|bias|enable_bias|no_bias"
    # Of training, of how sums or experts are run, or of other programs.
    r"|pretraining_tp|transformers\.js_config|unsloth_\w+|is_llama_config|tokenizer_name"
    r"|model_max_length|max_sequence_length|_flash_attn_2_enabled"
    r"|router_aux_loss_coef|router_jitter_noise|output_router_logits|layerdrop|init_std"
    r"|_experts_implementation\w*|experts_implementation"
)

MOST_LAYERS = 4096  # that locus runs; lists of them are made before a tensor is looked for
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu_erf",
    "relu": "relu",
    "relu2": "relu_squared",
    "silu": "silu",
    "swish": "silu",
}
Fields = dict[str, Any]  # of a Decoder


# ---- what many share -----------------------------------------------------------------------


def read_shape(
    c: Config,
    n_embd: str = "hidden_size",
    n_layer: str = "num_hidden_layers",
    n_head: str = "num_attention_heads",
    n_context: str = "max_position_embeddings",
    n_head_kv: str | None = None,
    n_ff: str | None = "intermediate_size",
    context: int | None = None,
    head_dim: int | None = None,
) -> Fields:
    """Counts, by their keys. Without a key, keys have as many heads as queries; without one, or a
    value, the MLP is four times as wide as the model. `context` and `head_dim` are the values of
    keys that are absent (None: there must be one; n_embd / n_head)."""
    width, heads = c.count(n_embd), c.count(n_head)
    kv = c.count(n_head_kv, heads) if n_head_kv else heads
    if heads % kv != 0:
        raise Failure(f"{c.path}: {n_head} {heads} is no multiple of {n_head_kv} {kv}")
    if not c.has("head_dim") and head_dim is None and width % heads != 0:
        raise Failure(f"{c.path}: {n_embd} {width} doesn't divide into {heads} heads")
    return {
        "n_vocab": c.count("vocab_size"),
        "n_context": c.count(n_context, context),
        "n_embd": width,
        "n_layer": c.count(n_layer, most=MOST_LAYERS),
        "n_head": heads,
        "n_head_kv": kv,
        "head_dim": c.count("head_dim", head_dim or max(width // heads, 1)),
        "n_ff": c.count(n_ff, 4 * width) if n_ff else 4 * width,
    }


def epsilon(c: Config, key: str, default: float) -> float:
    value = c.get(key, float, default)
    if value < 0:
        raise Failure(f"{c.path}: {key} is {value}, expected 0 or more")
    return value


def layernorm(c: Config, key: str, default: float = 1e-5) -> Fields:
    return {"norm": "layernorm", "norm_epsilon": epsilon(c, key, default)}


def rmsnorm(c: Config, default: float) -> Fields:
    return {"norm": "rmsnorm", "norm_epsilon": epsilon(c, "rms_norm_eps", default)}


def activation(c: Config, key: str, default: str) -> str:
    return c.choose(key, ACTIVATIONS, default)


def tied(c: Config, default: bool) -> bool:
    return c.get("tie_word_embeddings", bool, default)


def grouped(c: Config, head_dim: int | None = None) -> Fields:
    """The shape as Llama and those after it have it."""
    return read_shape(c, n_head_kv="num_key_value_heads", head_dim=head_dim)


def or_none(c: Config, key: str, absent: float) -> float:
    """A number of 0 or more; `absent` where the key is, and 0 where it is null: there is none."""
    value = c.get(key, type(absent), 0 * absent if key in c.values else absent)
    if value < 0:
        raise Failure(f"{c.path}: {key} is {value}, expected 0 or more")
    return value


def window_of(c: Config, absent: int = 0) -> Fields:
    """A window in every layer."""
    return {"window": or_none(c, "sliding_window", absent)}


def local_layers(
    c: Config, usual: Sequence[bool], window: int, reason: str = "sliding_window is null"
) -> Fields:
    """A window in the layers that layer_types names, or else in the `usual` ones. `reason` says why
    there is no window where it is 0."""
    names = {"full_attention": False, "sliding_attention": True}
    given = c.flags("layer_types", len(usual), names)
    local = tuple(usual if given is None else given)
    if any(local) and not window:
        raise Failure(f"{c.path}: layers are of sliding_attention, but {reason}")
    return {"window": window, "local": local} if any(local) else {}


def layer_windows(c: Config, usual: Sequence[bool], absent: int = 4096) -> Fields:
    """The same where use_sliding_window says whether there is a window; without one no layer has it
    unless layer_types names it."""
    window = or_none(c, "sliding_window", absent)
    if not c.get("use_sliding_window", bool, False):
        return local_layers(c, [False] * len(usual), 0, "use_sliding_window is false")
    return local_layers(c, [window > 0 and is_local for is_local in usual], window)
