/* A tiny random decoder: see tiny.h. */
#include "tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "testing.h"

enum { MAX_TENSORS = 128 };

/* values = centre +- spread; GGUF's order of dimensions, `rows` 0 for a vector. */
struct tensor {
    const char *name; /* "%d" stands for each layer */
    int rows, cols;
    float centre, spread;
};

#define Q_WIDTH (TINY_HEADS * TINY_HEAD_DIM)
#define KV_WIDTH (TINY_HEADS_KV * TINY_HEAD_DIM)

static const struct tensor tensors[] = {
    {"token_embd.weight", TINY_VOCAB, TINY_EMBD, 0, 1},
    {"output_norm.weight", 0, TINY_EMBD, 1, 0.2f},
    {"blk.%d.attn_norm.weight", 0, TINY_EMBD, 1, 0.2f},
    {"blk.%d.attn_q.weight", Q_WIDTH, TINY_EMBD, 0, 0.5f},
    {"blk.%d.attn_k.weight", KV_WIDTH, TINY_EMBD, 0, 0.5f},
    {"blk.%d.attn_v.weight", KV_WIDTH, TINY_EMBD, 0, 0.4f},
    {"blk.%d.attn_output.weight", TINY_EMBD, Q_WIDTH, 0, 0.4f},
    {"blk.%d.ffn_norm.weight", 0, TINY_EMBD, 1, 0.2f},
    {"blk.%d.ffn_up.weight", TINY_FF, TINY_EMBD, 0, 0.3f},
    {"blk.%d.ffn_down.weight", TINY_EMBD, TINY_FF, 0, 0.3f},
    /* positions */
    {"position_embd.weight", TINY_ROWS, TINY_EMBD, 0, 0.5f},
    {"position_bias.weight", 32, TINY_HEADS, 0, 1},
    {"rope_factors_short.weight", 0, TINY_HEAD_DIM / 2, 1.5f, 0.4f},
    {"rope_factors_long.weight", 0, TINY_HEAD_DIM / 2, 3, 1},
    {"position_u", TINY_HEADS, TINY_HEAD_DIM, 0, 0.5f},
    {"position_v", TINY_HEADS, TINY_HEAD_DIM, 0, 0.5f},
    {"blk.%d.position_r.weight", Q_WIDTH, TINY_EMBD, 0, 0.3f},
    {"position_alibi.slopes", 0, TINY_HEADS, 0.3f, 0.1f},
    {"position_kerple.p", 0, TINY_HEADS, 1, 0.5f},
    {"position_kerple.a", 0, TINY_HEADS, 0.5f, 0.3f},
    {"position_fire.c", 0, 1, 0.1f, 0},
    {"position_fire.threshold", 0, 1, 512, 0},
    {"position_fire.fc1.weight", 32, 1, 0, 1},
    {"position_fire.fc1.bias", 0, 32, 0, 0.5f},
    {"position_fire.fc2.weight", TINY_HEADS, 32, 0, 0.5f},
    {"position_fire.fc2.bias", 0, TINY_HEADS, 0, 0.5f},
    {"blk.%d.position_cope.weight", 20, TINY_HEAD_DIM, 0, 0.5f},
    {"blk.%d.position_fox.weight", TINY_HEADS, TINY_EMBD, 0, 0.5f},
    {"blk.%d.position_fox.bias", 0, TINY_HEADS, 1, 1},
    {"blk.%d.position_dape.fc1.weight", 12, 2 * TINY_HEADS, 0, 0.5f},
    {"blk.%d.position_dape.fc1.bias", 0, 12, 0, 0.5f},
    {"blk.%d.position_dape.fc2.weight", TINY_HEADS, 12, 0, 0.5f},
    {"blk.%d.position_dape.fc2.bias", 0, TINY_HEADS, 0, 0.5f},
    {"blk.%d.position_path.down.weight", 6, TINY_EMBD, 0, 0.5f},
    {"blk.%d.position_path.up.weight", KV_WIDTH, 6, 0, 0.5f},
    {"blk.%d.position_path.conv.weight", KV_WIDTH, 3, 0, 0.7f},
    {"blk.%d.position_path.beta.weight", TINY_HEADS_KV, TINY_EMBD, 0, 0.5f},
    {"blk.%d.position_path.beta.bias", 0, TINY_HEADS_KV, 0, 1},
    {"position_gru.weight_ih", 3 * TINY_EMBD, TINY_EMBD, 0, 0.3f},
    {"position_gru.weight_hh", 3 * TINY_EMBD, TINY_EMBD, 0, 0.3f},
    {"position_gru.bias_ih", 0, 3 * TINY_EMBD, 0, 0.3f},
    {"position_gru.bias_hh", 0, 3 * TINY_EMBD, 0, 0.3f},
};

enum { N_TENSORS = sizeof tensors / sizeof *tensors };

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15; /* splitmix64 */
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static void full_name(char name[64], const struct tensor *tensor, int layer)
{
    const char *mark = strstr(tensor->name, "%d");
    if (mark)
        snprintf(name, 64, "%.*s%d%s", (int)(mark - tensor->name), tensor->name, layer, mark + 2);
    else
        snprintf(name, 64, "%s", tensor->name);
}

static const struct tensor *find_tensor(const char *name)
{
    for (int i = 0; i < N_TENSORS * TINY_LAYERS; i++) {
        char known[64];
        full_name(known, &tensors[i / TINY_LAYERS], i % TINY_LAYERS);
        if (strcmp(known, name) == 0) return &tensors[i / TINY_LAYERS];
    }
    ck_abort_msg("the tiny model has no tensor %s", name);
    return NULL;
}

float *tiny_values(const char *name, int n)
{
    const struct tensor *tensor = find_tensor(name);
    ck_assert_int_eq(n, (tensor->rows ? tensor->rows : 1) * tensor->cols);
    uint64_t state = 1;
    for (const char *c = name; *c; c++)
        state = state * 31 + (unsigned char)*c;
    float *values = malloc((size_t)n * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < n; i++) {
        float unit = (float)(next_random(&state) >> 40) / 8388608.0f - 1; /* [-1, 1) */
        values[i] = tensor->centre + tensor->spread * unit;
    }
    return values;
}

int32_t tiny_token(int i)
{
    uint64_t state = (uint64_t)i;
    return (int32_t)(next_random(&state) % TINY_VOCAB);
}

locus_model *tiny_model(int window, int window_every)
{
    locus_error error = {0};
    const char *path = testing_temporary("tiny.gguf");
    struct locus_checkpoint_writer *writer = locus_writer_create(&error);
    ck_assert_ptr_nonnull(writer);
    const struct {
        const char *key;
        int value;
    } counts[] = {{"locus.context_length", TINY_TRAINED},
                  {"locus.embedding_length", TINY_EMBD},
                  {"locus.block_count", TINY_LAYERS},
                  {"locus.feed_forward_length", TINY_FF},
                  {"locus.attention.head_count", TINY_HEADS},
                  {"locus.attention.head_count_kv", TINY_HEADS_KV},
                  {"locus.attention.window", window},
                  {"locus.attention.window_every", window_every}};
    const char *const texts[][2] = {{"general.architecture", "locus"},
                                    {"locus.norm", "rmsnorm"},
                                    {"locus.activation", "relu"},
                                    {"locus.position", "none"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        locus_writer_string(writer, texts[i][0], texts[i][1], strlen(texts[i][1]));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        locus_writer_u32(writer, counts[i].key, (uint32_t)counts[i].value);
    float *values[MAX_TENSORS];
    char names[MAX_TENSORS][64];
    int n = 0;
    for (const struct tensor *tensor = tensors; tensor < tensors + N_TENSORS; tensor++)
        for (int layer = 0; layer < (strstr(tensor->name, "%d") ? TINY_LAYERS : 1); layer++, n++) {
            const int64_t dims[] = {tensor->cols, tensor->rows};
            full_name(names[n], tensor, layer);
            values[n] = tiny_values(names[n], (tensor->rows ? tensor->rows : 1) * tensor->cols);
            locus_writer_tensor(writer, names[n], LOCUS_F32, tensor->rows ? 2 : 1, dims, values[n]);
        }
    ck_assert_msg(locus_writer_finish(writer, path, &error) == LOCUS_OK, "%s", error.message);
    locus_writer_free(writer);
    while (n > 0)
        free(values[--n]);
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    return model;
}
