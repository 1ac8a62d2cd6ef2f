/* What the tests of position schemes share: see position_testing.h. */
#include "position_testing.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "position/spec.h"

static const float *find(const void *source, const char *name, int *rows, int *cols)
{
    const struct fake_checkpoint *checkpoint = source;
    for (const struct fake_tensor *tensor = checkpoint->tensors; tensor->name; tensor++) {
        if (strcmp(tensor->name, name) != 0) continue;
        *rows = tensor->rows;
        *cols = tensor->cols;
        return tensor->values;
    }
    return NULL;
}

struct locus_position_env position_env(const struct fake_checkpoint *checkpoint)
{
    return (struct locus_position_env){.n_embd = 32,
                                       .n_layer = 2,
                                       .n_head = 4,
                                       .n_head_kv = 4,
                                       .head_dim = 8,
                                       .trained_length = 16,
                                       .session_length = 64,
                                       .score_scale = 0.353553391F,
                                       .block_length = 64,
                                       .source = checkpoint,
                                       .tensor = checkpoint ? find : NULL};
}

enum locus_status position_resolve(struct locus_position_spec *spec, const char *text,
                                   const char *own, const struct locus_position_scheme *scheme,
                                   const struct locus_position_env *env, locus_error *error)
{
    struct locus_spec_source source;
    enum locus_status status = locus_spec_choose(&source, text, own, scheme, error);
    return status ? status : locus_spec_resolve(spec, &source, own, scheme, env);
}

struct locus_position position_open(const struct locus_position_env *env, const char *spec)
{
    struct locus_position position = {0};
    locus_error error;
    ck_assert_msg(position_resolve(&position.spec, spec, NULL, NULL, env, &error) == LOCUS_OK,
                  "%s: %s", spec, error.message);
    ck_assert_msg(locus_position_init(&position, env, &error) == LOCUS_OK, "%s: %s", spec,
                  error.message);
    locus_position_fill(&position, env->session_length);
    return position;
}

void position_refused(const struct locus_position_env *env, const char *spec, const char *expected)
{
    struct locus_position position = {0};
    locus_error error = {0};
    enum locus_status status = position_resolve(&position.spec, spec, NULL, NULL, env, &error);
    if (!status) {
        status = locus_position_init(&position, env, &error);
        locus_position_free(&position);
    }
    ck_assert_msg(status != LOCUS_OK, "%s is not refused", spec);
    ck_assert_msg(strstr(error.message, expected) != NULL, "%s: '%s' lacks '%s'", spec,
                  error.message, expected);
}

void position_bias_row(const struct locus_position *position, int layer, int head, const float *q,
                       int i, float *scores)
{
    int n = i + 1, middle = n / 3;
    int *positions = calloc((size_t)n, sizeof *positions);
    float *again = calloc((size_t)n, sizeof *again);
    float *scratch = calloc(locus_position_scratch_floats(position, n) + 1, sizeof *scratch);
    ck_assert(positions && again && scratch);
    for (int j = 0; j < n; j++) {
        positions[j] = j;
        scores[j] = 0;
    }
    struct locus_bias_op op = {.layer = layer,
                               .head = head,
                               .q = q,
                               .q_position = i,
                               .n_k = n,
                               .scores = scores,
                               .scratch = scratch};
    locus_position_bias(position, &op);
    op.scores = again;
    if (!position->spec.scheme->whole_row) {
        op.n_k = middle;
        locus_position_bias(position, &op);
        op.n_k = n - middle;
        op.k_first = middle;
        op.scores = again + middle;
        locus_position_bias(position, &op);
        ck_assert_msg(memcmp(scores, again, (size_t)n * sizeof *again) == 0,
                      "two slices differ from one");
        memset(again, 0, (size_t)n * sizeof *again);
    }
    op.n_k = n;
    op.k_positions = positions;
    op.scores = again;
    locus_position_bias(position, &op);
    ck_assert_msg(memcmp(scores, again, (size_t)n * sizeof *again) == 0,
                  "listed positions differ from a range");
    free(positions);
    free(again);
    free(scratch);
}

void position_rotate(const struct locus_position *position, int layer,
                     enum locus_position_rows which, float *row, int n_heads, int at, int origin)
{
    const struct locus_rotate_op op = {.layer = layer,
                                       .which = which,
                                       .rows = row,
                                       .n = 1,
                                       .n_heads = n_heads,
                                       .positions = &at,
                                       .origin = origin};
    locus_position_rotate(position, &op);
}

void position_embed(const struct locus_position *position, float *x, int first_position, int n,
                    float *states)
{
    const struct locus_embed_op op = {
        .x = x, .first_position = first_position, .n = n, .token_states = states};
    locus_position_embed(position, &op);
}

void position_random(float *values, int n, float scale, unsigned seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = scale * ((float)(seed >> 8) / (float)(1 << 23) - 1);
    }
}

void position_near(double got, double expected, double tolerance, const char *what, int at)
{
    ck_assert_msg(fabs(got - expected) <= tolerance * fmax(1, fabs(expected)),
                  "%s at %d: %.9g, expected %.9g", what, at, got, expected);
}
