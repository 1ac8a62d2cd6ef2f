"""The families of Hugging Face models that convert_hf.py reads: a row each in `FAMILIES`.

A row names the classes of config.json's `architectures` and a function (of hf_gpt.py, hf_llama.py,
hf_recent.py, hf_mamba.py, hf_remote.py or hf_t5.py) that reads the configuration into a `Decoder`,
with the names that the family's tensors have. What a configuration says and the function doesn't
ask for is refused; an absent option has the value that the configuration class gives it:
transformers', or that of the code in the folders where transformers has none (hf_remote.py,
hf_t5.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hf_decoder import Decoder
from hf_folder import Config
from hf_gpt import (
    bloom,
    codegen,
    falcon,
    gpt1,
    gpt2,
    gpt_neo,
    gptj,
    gptneox,
    mpt,
    opt,
    persimmon,
    starcoder,
    xglm,
)
from hf_llama import (
    cohere,
    gemma,
    gemma2,
    granite,
    llama,
    mistral,
    mixtral,
    nemotron,
    olmo2,
    phi,
    phi3,
    qwen2,
    qwen2_moe,
    qwen3,
    qwen3_moe,
    smollm3,
    stablelm,
    starcoder2,
)
from hf_mamba import falcon_mamba, jamba, mamba, mamba2
from hf_recent import (
    arcee,
    cohere2,
    ernie4_5,
    exaone,
    exaone4,
    gemma3,
    glm,
    glm4,
    gpt_oss,
    granite_moe,
    nanochat,
    olmo,
    olmo3,
    olmoe,
    seed_oss,
)
from hf_remote import baichuan, chatglm, deepseek, internlm2, minicpm
from hf_t5 import decoder_t5, t5


@dataclass(frozen=True)
class Family:
    """How models of one `model_type` are read. Other classes of `stem` add a head to the decoder,
    which is left out."""

    read: Callable[[Config], Decoder]
    stem: str
    head: str = "ForCausalLM"
    experts: tuple[str, ...] = ()  # keys that count a mixture's
    others: tuple[str, ...] = ()  # names that its class had before transformers had it
    quantised: tuple[str, ...] = ()  # by which methods its weights may be

    def classes(self) -> tuple[str, ...]:
        return f"{self.stem}{self.head}", f"{self.stem}Model", *self.others


FAMILIES = {
    "gpt2": Family(gpt2, "GPT2", "LMHeadModel"),
    "openai-gpt": Family(gpt1, "OpenAIGPT", "LMHeadModel"),
    "gpt_bigcode": Family(starcoder, "GPTBigCode"),
    "gpt_neo": Family(gpt_neo, "GPTNeo"),
    "gptj": Family(gptj, "GPTJ"),
    "codegen": Family(codegen, "CodeGen"),
    "opt": Family(opt, "OPT"),
    "xglm": Family(xglm, "XGLM"),
    "gpt_neox": Family(gptneox, "GPTNeoX"),
    "persimmon": Family(persimmon, "Persimmon"),
    "bloom": Family(bloom, "Bloom"),
    "mpt": Family(mpt, "Mpt", others=("MPTForCausalLM",)),
    "falcon": Family(falcon, "Falcon"),
    "llama": Family(llama, "Llama", others=("LLaMAForCausalLM",)),
    "mistral": Family(mistral, "Mistral"),
    "mixtral": Family(mixtral, "Mixtral", experts=("num_local_experts",)),
    "smollm3": Family(smollm3, "SmolLM3"),
    "qwen2": Family(qwen2, "Qwen2"),
    "qwen3": Family(qwen3, "Qwen3"),
    "qwen2_moe": Family(qwen2_moe, "Qwen2Moe", experts=("num_experts", "num_local_experts")),
    "qwen3_moe": Family(qwen3_moe, "Qwen3Moe", experts=("num_experts", "num_local_experts")),
    "gemma": Family(gemma, "Gemma"),
    "gemma2": Family(gemma2, "Gemma2"),
    "olmo2": Family(olmo2, "Olmo2"),
    "cohere": Family(cohere, "Cohere"),
    "granite": Family(granite, "Granite"),
    "phi": Family(phi, "Phi"),
    "phi3": Family(phi3, "Phi3"),
    "starcoder2": Family(starcoder2, "Starcoder2"),
    "stablelm": Family(stablelm, "StableLm"),
    "nemotron": Family(nemotron, "Nemotron"),
    "gemma3_text": Family(gemma3, "Gemma3"),
    "olmo": Family(olmo, "Olmo"),
    "olmo3": Family(olmo3, "Olmo3"),
    "olmoe": Family(olmoe, "Olmoe", experts=("num_experts",)),
    "cohere2": Family(cohere2, "Cohere2"),
    "exaone": Family(exaone, "Exaone", others=("LlamaForCausalLM", "LlamaModel")),
    "exaone4": Family(exaone4, "Exaone4"),
    "glm": Family(glm, "Glm"),
    "glm4": Family(glm4, "Glm4"),
    "granitemoe": Family(granite_moe, "GraniteMoe", experts=("num_local_experts",)),
    "granitemoeshared": Family(granite_moe, "GraniteMoeShared", experts=("num_local_experts",)),
    "gpt_oss": Family(
        gpt_oss, "GptOss", experts=("num_local_experts", "num_experts"), quantised=("mxfp4",)
    ),
    "nanochat": Family(nanochat, "NanoChat"),
    "seed_oss": Family(seed_oss, "SeedOss"),
    "arcee": Family(arcee, "Arcee"),
    "ernie4_5": Family(ernie4_5, "Ernie4_5"),
    "mamba": Family(mamba, "Mamba"),
    "mamba2": Family(mamba2, "Mamba2"),
    "falcon_mamba": Family(falcon_mamba, "FalconMamba"),
    "jamba": Family(jamba, "Jamba", experts=("num_experts", "num_local_experts")),
    "baichuan": Family(baichuan, "Baichuan", others=("BaiChuanForCausalLM",)),
    "chatglm": Family(chatglm, "ChatGLM", "ForConditionalGeneration"),
    "deepseek": Family(deepseek, "Deepseek", experts=("n_routed_experts",)),
    "internlm2": Family(internlm2, "InternLM2"),
    "minicpm": Family(minicpm, "MiniCPM"),
    "custom_decoder_only_t5": Family(decoder_t5, "CustomDecoderOnlyT5", ""),
    "t5": Family(t5, "CustomDecoderOnlyT5", ""),
}
