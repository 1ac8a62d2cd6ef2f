/* How fast a model runs: see bench.h. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "forward/attention.h"
#include "model/loading.h"

/* ---- what a token costs ------------------------------------------------------------------- */

struct cost {
    double multiply_adds; /* of all matrices but the head, a token */
    double bytes;
};

static void add_weight(struct cost *cost, const struct locus_weight *weight)
{
    if (!weight->panels) return;
    cost->multiply_adds += (double)weight->rows * weight->cols;
    cost->bytes += (double)locus_weight_bytes(weight);
}

static const struct locus_weight *head_of(const locus_model *model)
{
    return model->head.weight.panels ? &model->head.weight : &model->embedding;
}

static void add_mlp(struct cost *cost, const struct locus_mlp *mlp)
{
    add_weight(cost, &mlp->gate.weight);
    add_weight(cost, &mlp->up.weight);
    add_weight(cost, &mlp->down.weight);
}

static const struct locus_weight *weight_of(const struct locus_linear_row *row, const void *weights)
{
    const struct locus_linear *linear =
        (const void *)((const char *)weights + row->parts[0].offset);
    return &linear->weight;
}

/* The matrices of a part's table; fused rows are there by their parts. */
static void add_part(struct cost *cost, const struct locus_layer_part *part, const void *weights)
{
    for (const struct locus_linear_row *row = part->linears; row && row->name; row++)
        if (row->parts[1].rows == LOCUS_NO_ROWS) add_weight(cost, weight_of(row, weights));
}

/* What a token takes of the layers: of experts, as many as it takes. */
static struct cost layers_cost(const locus_model *model)
{
    struct cost cost = {0};
    for (int l = 0; l < model->config.n_layer; l++) {
        const struct locus_layer_config *config = &model->config.layers[l];
        const struct locus_layer *layer = &model->layers[l];
        add_part(&cost, config->mixer, layer->mixer);
        add_part(&cost, config->mlp, layer->mlp);
        if (config->mlp != &locus_experts_part) continue;
        const struct locus_experts *experts = layer->mlp;
        for (int e = 0; e < model->config.n_expert_used; e++)
            add_mlp(&cost, &experts->each[e]);
    }
    return cost;
}

size_t locus_bench_weight_bytes(const locus_model *model)
{
    return (size_t)layers_cost(model).bytes + locus_weight_bytes(head_of(model));
}

static void count_costs(struct locus_bench_result *result, const locus_session *session,
                        const struct locus_bench_params *params)
{
    const locus_model *model = session->model;
    const struct locus_config *config = &model->config;
    const struct locus_weight *head = head_of(model);
    /* A row meets the keys before it: scores and mix are a multiply-add a dimension each. */
    double keys = params->n_depth + (params->n_prompt + 1) / 2.0;
    double attention = 2.0 * config->n_layer * config->n_head * config->head_dim * keys;
    double multiply_adds = layers_cost(model).multiply_adds + attention +
                           (double)head->rows * head->cols / params->n_prompt;
    result->prompt_operations = 2 * multiply_adds;
    const struct locus_attention *state = locus_session_attention_state(session);
    double position_bytes = state ? (double)state->cache.n_layer * config->n_head_kv *
                                        ((double)state->cache.key_panel_bytes / LOCUS_KEY_PANEL +
                                         (double)state->cache.value_row_bytes)
                                  : 0;
    result->generation_bytes = (double)locus_bench_weight_bytes(model) +
                               position_bytes * (params->n_depth + (params->n_generated + 1) / 2.0);
}

enum locus_tensor_type locus_bench_weight_type(const locus_model *model)
{
    const struct locus_linear_row *row = model->config.layers[0].mixer->linears;
    while (row[1].name && !weight_of(row, model->layers[0].mixer)->panels)
        row++;
    return weight_of(row, model->layers[0].mixer)->type;
}

double locus_bench_compute_ceiling(const struct locus_ceilings *ceilings,
                                   enum locus_tensor_type type)
{
    if (type == LOCUS_BF16) return fmax(ceilings->bf16_gflops, ceilings->f32_gflops);
    if (locus_tensor_is_quantised(type)) return ceilings->int8_gops;
    return ceilings->f32_gflops;
}

/* ---- runs --------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct locus_rate summarise(double *rates, int n)
{
    qsort(rates, (size_t)n, sizeof *rates, compare);
    return (struct locus_rate){(rates[(n - 1) / 2] + rates[n / 2]) / 2, rates[0], rates[n - 1]};
}

/* Tokens a second of n tokens, `step` a call, after the n_depth that are held. */
static enum locus_status time_tokens(locus_session *session, const int32_t *tokens, int n, int step,
                                     int n_depth, double *rate, locus_error *error)
{
    enum locus_status status = locus_session_rewind(session, n_depth, error);
    double start = locus_now();
    for (int i = 0; i < n && !status; i += step)
        status = locus_session_eval(session, tokens + i, step, NULL, 0, error);
    *rate = n / (locus_now() - start);
    return status;
}

static enum locus_status run_all(struct locus_bench_result *result, locus_session *session,
                                 const struct locus_bench_params *params, const int32_t *tokens,
                                 double *prompt, double *generation, locus_error *error)
{
    enum locus_status status = locus_session_rewind(session, 0, error);
    if (!status && params->n_depth)
        status = locus_session_eval(session, tokens, params->n_depth, NULL, 0, error);
    for (int r = -1; r < params->repetitions && !status; r++) {
        int slot = r < 0 ? 0 : r; /* the first is not counted */
        status = time_tokens(session, tokens, params->n_prompt, params->n_prompt, params->n_depth,
                             &prompt[slot], error);
        if (!status)
            status = time_tokens(session, tokens, params->n_generated, 1, params->n_depth,
                                 &generation[slot], error);
        if (r >= 0) result->repetitions++;
        if (params->stop && params->stop() && result->repetitions) break;
    }
    if (!status) {
        result->prompt = summarise(prompt, result->repetitions);
        result->generation = summarise(generation, result->repetitions);
    }
    return status;
}

enum locus_status locus_bench_run(struct locus_bench_result *result, locus_session *session,
                                  const struct locus_bench_params *params, locus_error *error)
{
    int n = params->n_depth > params->n_prompt ? params->n_depth : params->n_prompt;
    if (params->n_generated > n) n = params->n_generated;
    const size_t n_tokens = (size_t)n, repetitions = (size_t)params->repetitions;
    int32_t *tokens = malloc(n_tokens * sizeof *tokens);
    double *rates = malloc(2 * repetitions * sizeof *rates);
    enum locus_status status = LOCUS_OK;
    *result = (struct locus_bench_result){0};
    if (tokens && rates) {
        const int n_vocab = session->model->config.n_vocab;
        for (int i = 0; i < n; i++)
            tokens[i] = (int32_t)((long long)i * 7919 % n_vocab);
        count_costs(result, session, params);
        status = run_all(result, session, params, tokens, rates, rates + repetitions, error);
    } else {
        status = locus_fail_memory(error, n_tokens * sizeof *tokens);
    }
    free(tokens);
    free(rates);
    return status;
}
