/* Families: one table row each. See model.h. */
#include <string.h>

#include "base/text.h"
#include "model/model.h"

static const struct locus_architecture table[] = {
    {
        .name = "gpt2",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_TANH},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "learned",
    },
    {
        /* q and k rows are permuted so that adjacent pairs rotate. */
        .name = "llama",
        .defaults = {.norm = LOCUS_RMSNORM,
                     .activation = LOCUS_SILU,
                     .gated = true,
                     .normed_experts = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
    },
    {
        .name = "gptneox",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_GELU_ERF,
                     .parallel_residual = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=half",
    },
    {
        .name = "bloom",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_GELU_TANH,
                     .embedding_norm = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "alibi",
        .max_bias = 8,
    },
    {
        .name = "mpt",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_ERF},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "alibi",
    },
    {
        .name = "qwen2",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
    },
    {
        .name = "qwen3",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "attn_q_norm attn_k_norm",
    },
    {
        .name = "qwen2moe",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "ffn_gate_inp_shexp",
    },
    {
        .name = "qwen3moe",
        .defaults = {.norm = LOCUS_RMSNORM,
                     .activation = LOCUS_SILU,
                     .gated = true,
                     .normed_experts = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "attn_q_norm attn_k_norm",
    },
    {
        /* The 1 that its norms add to their weights is in the file's. */
        .name = "gemma",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_GELU_TANH, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .root_embedding_scale = true,
    },
    {
        .name = "gemma2",
        .defaults = {.norm = LOCUS_RMSNORM,
                     .activation = LOCUS_GELU_TANH,
                     .gated = true,
                     .score_cap = 50,
                     .logit_cap = 30},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "post_attention_norm post_ffw_norm",
        .root_embedding_scale = true,
        .window = 4096,
        .window_every = 2,
        .wide_scores_layers = 46,
    },
    {
        .name = "olmo2",
        .defaults = {.norm = LOCUS_RMSNORM,
                     .norm_position = LOCUS_NORM_OUTPUT,
                     .activation = LOCUS_SILU,
                     .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "attn_q_norm attn_k_norm",
        .window_every = 4,
        .unscaled_local = true,
    },
    {
        .name = "command-r",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_SILU,
                     .gated = true,
                     .parallel_residual = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=adjacent",
        .needed_keys = "logit_scale",
    },
    {
        .name = "granite",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
        .divides_logits = true,
        .needed_keys = "logit_scale",
    },
    {
        .name = "phi2",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_GELU_TANH,
                     .parallel_residual = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=half",
    },
    {
        .name = "phi3",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
    },
    {
        .name = "starcoder2",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_TANH},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=half",
    },
    {
        .name = "stablelm",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=half",
    },
    {
        .name = "starcoder",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_TANH},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "learned",
    },
    {
        /* The 1 that its norms add to their weights is in the file's. */
        .name = "nemotron",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_RELU_SQUARED},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=half",
    },
    {
        /* The 1 that its norms add to their weights is in the file's. */
        .name = "gemma3",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_GELU_TANH, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "attn_q_norm attn_k_norm post_attention_norm post_ffw_norm",
        .root_embedding_scale = true,
        .window_every = 6,
        .wide_scores_layers = 62,
        .local_base = 10000,
        .unscaled_local = true,
    },
    {
        .name = "smollm3",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
        .unrotated_every = 4,
    },
    {
        .name = "olmo",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=adjacent",
        .bare_norms = true,
    },
    {
        .name = "olmoe",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "attn_q_norm attn_k_norm",
    },
    {
        .name = "internlm2",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
    },
    {
        /* Where there are two norms, attention reads attn_norm_2's and the MLP attn_norm's. */
        .name = "falcon",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_GELU_ERF,
                     .parallel_residual = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=half",
        .layout = "jploski",
        .renamed = {{"attn_norm", "attn_norm_2"},
                    {"attn_norm", "attn_norm"},
                    {"ffn_norm", "attn_norm"}},
    },
    {
        .name = "cohere2",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_SILU,
                     .gated = true,
                     .parallel_residual = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = "rope:pairs=adjacent",
        .window_every = 4,
        .unrotated_global = true,
        .needed_keys = "logit_scale attention.sliding_window",
    },
    {
        /* The 13 B model has another scheme, and nothing says it but its depth. */
        .name = "baichuan",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
        .max_bias = 8,
        .biased_layers = 40,
    },
    {
        .name = "minicpm",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
        .divides_logits = true,
        .needed_keys = "embedding_scale residual_scale logit_scale",
    },
    {
        .name = "chatglm",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
    },
    {
        .name = "glm4",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
        .needed = "post_attention_norm post_ffw_norm",
    },
    {
        .name = "deepseek",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
    },
    {
        .name = "exaone",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
    },
    {
        .name = "exaone4",
        .defaults = {.norm = LOCUS_RMSNORM,
                     .norm_position = LOCUS_NORM_OUTPUT,
                     .activation = LOCUS_SILU,
                     .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "attn_q_norm attn_k_norm",
        .window_every = 4,
        .unrotated_global = true,
    },
    {
        .name = "granitemoe",
        .defaults = {.norm = LOCUS_RMSNORM,
                     .activation = LOCUS_SILU,
                     .gated = true,
                     .normed_experts = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
        .divides_logits = true,
        .needed_keys = "logit_scale",
    },
    {
        /* The MLP's norm has the name that other families have for the attention's output's. */
        .name = "gpt-oss",
        .defaults = {.norm = LOCUS_RMSNORM,
                     .activation = LOCUS_CLIPPED_SWISH,
                     .gated = true,
                     .normed_experts = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .needed = "attn_sinks",
        .renamed = {{"ffn_norm", "post_attention_norm"}},
        .window_every = 2,
        .whole_ramp = true,
        .needed_keys = "attention.sliding_window",
    },
    {
        .name = "seed_oss",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=half",
        .renamed = {{"ffn_norm", "post_attention_norm"}},
    },
    {
        .name = "arcee",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_RELU_SQUARED},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
    },
    {
        .name = "ernie4_5",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "rope:pairs=adjacent",
    },
    {
        .name = "mamba",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "none",
        .mixer = &locus_mamba_part,
    },
    {
        .name = "jamba",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "none",
        .headless_scans = true,
    },
    {
        .name = "mamba2",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = "none",
        .mixer = &locus_mamba2_part,
    },
    {
        .name = "locus",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_TANH},
        .epsilon_key = "norm_epsilon",
        .spelled_out = true,
        .position = "none",
    },
};

enum { N_ARCHITECTURES = sizeof table / sizeof *table };

const struct locus_architecture *locus_architecture_find(const struct locus_checkpoint *checkpoint,
                                                         locus_error *error)
{
    const char *name;
    size_t n_bytes;
    const char *path = locus_checkpoint_path(checkpoint);
    if (!locus_checkpoint_string(checkpoint, "general.architecture", &name, &n_bytes)) {
        locus_fail(error, LOCUS_ERROR_FORMAT, "%s: general.architecture is missing", path);
        return NULL;
    }
    for (int i = 0; i < N_ARCHITECTURES; i++)
        if (locus_text_is(name, n_bytes, table[i].name)) return &table[i];
    locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
               "%s: general.architecture is \"%.*s\", expected one of the %d families that "
               "'locus inspect --families' lists, such as llama",
               path, (int)(n_bytes < 40 ? n_bytes : 40), name, N_ARCHITECTURES);
    return NULL;
}

const struct locus_architecture *locus_architecture_at(size_t index)
{
    return index < N_ARCHITECTURES ? &table[index] : NULL;
}
