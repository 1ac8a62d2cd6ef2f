/* Recipes for quantising: see recipe.h.
 *
 * What llama-quantize chooses, so that files have one size and layout; but beside Q4_0 and the like
 * the embedding is Q8_0, too, as is a head of its own.
 */
#include "model/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

/* ---- names -------------------------------------------------------------------------------- */

static const struct locus_recipe recipes[] = {
    {"F32", LOCUS_F32, false, 0},    {"F16", LOCUS_F16, false, 1},
    {"BF16", LOCUS_BF16, false, 32}, {"Q8_0", LOCUS_Q8_0, false, 7},
    {"Q5_0", LOCUS_Q5_0, false, 8},  {"Q5_1", LOCUS_Q5_1, false, 9},
    {"Q4_0", LOCUS_Q4_0, false, 2},  {"Q4_1", LOCUS_Q4_1, false, 3},
    {"Q6_K", LOCUS_Q6_K, false, 18}, {"Q5_K_M", LOCUS_Q5_K, true, 17},
    {"Q5_K", LOCUS_Q5_K, false, 16}, {"Q4_K_M", LOCUS_Q4_K, true, 15},
    {"Q4_K", LOCUS_Q4_K, false, 14}, {"Q3_K", LOCUS_Q3_K, false, 11},
    {"Q2_K", LOCUS_Q2_K, false, 10},
};

const struct locus_recipe *locus_recipe_at(size_t index)
{
    return index < sizeof recipes / sizeof *recipes ? &recipes[index] : NULL;
}

const struct locus_recipe *locus_recipe_find(const char *name)
{
    const struct locus_recipe *recipe;
    size_t i = 0;
    while ((recipe = locus_recipe_at(i)) && strcasecmp(recipe->name, name))
        i++;
    return recipe;
}

/* ---- tensors ------------------------------------------------------------------------------ */

/* A matrix that products read, or one of each expert; not a norm's weights a head, a router, the
 * taps of a convolution, what makes them, or a position scheme's table, which are few and matter.
 */
static bool is_matrix(const struct locus_tensor *tensor)
{
    static const char *const kept[] = {"position_",  "rope_",        "_norm.",       "ffn_gate_inp",
                                       "ssm_conv1d", "hyena_conv1d", "hyena_filter_"};
    static const char ending[] = ".weight";
    const size_t length = strlen(tensor->name), end = sizeof ending - 1;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strstr(tensor->name, kept[i])) return false;
    return length > end && !strcmp(tensor->name + length - end, ending) && tensor->n_dims >= 2 &&
           tensor->dims[1] >= 2;
}

/* Splits "blk.N.REST", and returns N; -1: no tensor of a layer. */
static int layer_of(const char *name, const char **rest)
{
    static const char prefix[] = "blk.";
    enum { MOST_DIGITS = 6 };
    if (strncmp(name, prefix, sizeof prefix - 1)) return -1;
    const char *number = name + sizeof prefix - 1;
    const size_t n_digits = strspn(number, "0123456789");
    if (n_digits == 0 || n_digits > MOST_DIGITS || number[n_digits] != '.') return -1;
    *rest = number + n_digits + 1;
    return (int)strtol(number, NULL, 10);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

struct locus_recipe_facts locus_recipe_facts_of(const struct locus_checkpoint *checkpoint)
{
    struct locus_recipe_facts facts = {0};
    const char *architecture, *rest;
    size_t n_bytes;
    if (locus_checkpoint_string(checkpoint, "general.architecture", &architecture, &n_bytes)) {
        char key[128];
        int64_t n_experts = 0;
        facts.falcon = locus_text_is(architecture, n_bytes, "falcon");
        snprintf(key, sizeof key, "%.*s.expert_count", (int)(n_bytes < 64 ? n_bytes : 64),
                 architecture);
        if (locus_checkpoint_int(checkpoint, key, &n_experts) && n_experts == (int)n_experts)
            facts.n_experts = (int)n_experts;
    }
    for (size_t i = 0; i < locus_checkpoint_n_tensors(checkpoint); i++) {
        const char *name = locus_checkpoint_tensor_at(checkpoint, i)->name;
        const int layer = layer_of(name, &rest);
        if (layer >= facts.n_layers) facts.n_layers = layer + 1;
        if (!strcmp(name, "output.weight")) facts.own_head = true;
    }
    return facts;
}

/* ---- what matters most -------------------------------------------------------------------- */

/* The first and the last eighth of the layers, and every third of the others. */
static bool is_wider(int layer, int n_layers)
{
    return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

/* A layer's matrix in a mixture of `type` and Q6_K. Values and what leaves the feed-forward part
 * are added to all that comes after; where 8 experts hold most weights, those of the attention are
 * cheap; and so are the values of 80 layers, whose heads share them. */
static enum locus_tensor_type mixed_type(enum locus_tensor_type type,
                                         const struct locus_recipe_facts *facts,
                                         const struct locus_tensor *tensor)
{
    const char *rest;
    const int layer = layer_of(tensor->name, &rest), n_layers = facts->n_layers;
    if (layer < 0) return type;
    const bool wider = is_wider(layer, n_layers);
    if (begins(rest, "attn_v.") || begins(rest, "attn_qkv.")) {
        const bool shared = n_layers == 80 && tensor->dims[1] < tensor->dims[0];
        if (facts->n_experts == 8) return LOCUS_Q8_0;
        if (wider) return LOCUS_Q6_K;
        return shared && type == LOCUS_Q4_K ? LOCUS_Q5_K : type;
    }
    if (facts->n_experts == 8 && begins(rest, "attn_k.")) return LOCUS_Q8_0;
    if (facts->n_experts == 8 && begins(rest, "attn_output.")) return LOCUS_Q5_K;
    if (!begins(rest, "ffn_down")) return type;
    if (facts->falcon && type == LOCUS_Q4_K && layer >= n_layers / 16)
        return wider ? LOCUS_Q5_K : type;
    return wider ? LOCUS_Q6_K : type;
}

/* ---- the type ----------------------------------------------------------------------------- */

/* Blocks of 256. */
static bool is_k(enum locus_tensor_type type)
{
    return locus_tensor_type_find((uint32_t)type)->block_values == 256;
}

/* Less than 8 bits a value. */
static bool is_small(enum locus_tensor_type type)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    return info->block_bytes < info->block_values;
}

/* The embedding's and the head's: of one matrix for both they cost least and matter most. */
static enum locus_tensor_type end_type(enum locus_tensor_type type,
                                       const struct locus_recipe_facts *facts, bool head)
{
    if (!is_small(type)) return type;
    if (!is_k(type)) return LOCUS_Q8_0;
    if (!head && facts->own_head) return type;
    return facts->falcon ? LOCUS_Q8_0 : LOCUS_Q6_K;
}

/* A type of smaller blocks and about as many bits. */
static enum locus_tensor_type replacement(enum locus_tensor_type type)
{
    switch (type) {
    case LOCUS_Q6_K:
        return LOCUS_Q8_0;
    case LOCUS_Q5_K:
        return LOCUS_Q5_1;
    case LOCUS_Q4_K:
        return LOCUS_Q5_0;
    case LOCUS_Q3_K:
    case LOCUS_Q2_K:
        return LOCUS_Q4_0;
    default:
        return LOCUS_F16;
    }
}

enum locus_tensor_type locus_recipe_type(const struct locus_recipe *recipe, bool pure,
                                         const struct locus_recipe_facts *facts,
                                         const struct locus_tensor *tensor, bool *fallback)
{
    enum locus_tensor_type type = recipe->type;
    *fallback = false;
    if (!is_matrix(tensor)) return tensor->type;
    const bool head = !strcmp(tensor->name, "output.weight");
    if (!pure && (head || !strcmp(tensor->name, "token_embd.weight")))
        type = end_type(type, facts, head);
    else if (!pure && recipe->mixed)
        type = mixed_type(type, facts, tensor);
    while (tensor->dims[0] % locus_tensor_type_find((uint32_t)type)->block_values != 0) {
        type = replacement(type);
        *fallback = true;
    }
    return type;
}
