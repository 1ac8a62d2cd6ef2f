"""Models of text and pictures, whose text model is read: its configuration is `text_config`, and
its tensors' names begin with `language_model`. What is of pictures is left out, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hf_folder import Config, say, shown
from hf_reading import IGNORED
from output import Failure


@dataclass(frozen=True)
class Wrapped:
    """A row a model_type: its class, without the ending, the model_type of its text_config, the
    keys of pictures beside it, and those of text_config that the text model's class reads alone."""

    stem: str
    text: str
    keys: str
    passed_over: tuple[str, ...] = ()


WRAPPED = {
    "gemma3": Wrapped(
        "Gemma3",
        "gemma3_text",
        r"mm_tokens_per_image|[be]oi_token_(index|id)",
        passed_over=("final_logit_softcapping",),
    ),
    "internvl": Wrapped(
        "InternVL",
        "qwen2",
        "image_seq_length|downsample_ratio|projector_hidden_act|vision_feature_(layer"
        "|select_strategy)",
    ),
    "mistral3": Wrapped(
        "Mistral3",
        "mistral",
        "projector_hidden_act|vision_feature_layer|multimodal_projector_bias|spatial_merge_size",
    ),
}
KEYS = "text_config|vision_config|image_token_(index|id)"  # of all
OF_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
PICTURES = ("vision_tower", "multi_modal_projector")
LEFT_OUT = re.compile(rf"(model\.)?({'|'.join(PICTURES)})\..+")
TEXT = re.compile(r"(model\.language_model|language_model\.model|language_model)\.(?!lm_head\.)")


def text_name(name: str) -> str | None:
    """A tensor's name as the text model's class has it; None for what is of pictures."""
    if LEFT_OUT.fullmatch(name):
        return None
    found = TEXT.match(name)
    return f"model.{name[found.end() :]}" if found else name.removeprefix("language_model.")


def text_config(config: Config) -> Config:
    """The text model's configuration. The outer one says whether the head is tied, and which tokens
    begin and end a text where the other doesn't."""
    row = WRAPPED[config.get("model_type", str)]
    config.refuse_unknown(re.compile(f"{IGNORED.pattern}|{KEYS}|{row.keys}|tie_word_embeddings"))
    names = config.values.get("architectures") or []
    known = [f"{row.stem}ForConditionalGeneration", f"{row.stem}Model"]
    if not isinstance(names, list) or not all(name in known for name in names):
        raise Failure(f"{config.path}: architectures is {shown(names)}, expected {known[0]}")
    if not config.has("text_config"):
        raise Failure(f"{config.path}: text_config is missing")
    text = config.section("text_config")
    found = text.values.setdefault("model_type", row.text)
    if found != row.text:
        raise Failure(f"{text.path}: model_type is {shown(found)}, expected {shown(row.text)}")
    for key in row.passed_over:
        if text.values.get(key) is not None:
            what = f"{key} is {shown(text.values[key])}, which {known[0]} passes over"
            raise Failure(f"{text.path}: {what}; null is expected")
    text.values["tie_word_embeddings"] = config.get("tie_word_embeddings", bool, True)
    for key in OF_TOKENS:
        if config.values.get(key) is not None:
            text.values.setdefault(key, config.values[key])
    what = " and ".join(PICTURES)
    say(f"{config.path}: of a {known[0]} the text model alone is converted, without {what}")
    return text
