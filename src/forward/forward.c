/* The forward pass: one path for a prompt and for one token.
 *
 *     embed -> position.embed -> per layer: norm -> mixer -> norm -> MLP -> ... -> norm -> logits
 *
 *     mixer, of attention: q k v -> position.rotate -> cache -> attend -> output   (attention.c)
 *
 * It is one parallel region: every thread runs `worker` and does its share of each step; a barrier
 * ends a step that others read. Threads own outputs, never parts of a sum, so their number changes
 * no bit.
 */
#include <string.h>

#include "base/clock.h"
#include "base/math.h"
#include "forward/pass.h"

static void embed(const struct pass *pass)
{
    struct locus_session *session = pass->session;
    const struct locus_scratch *scratch = &session->scratch;
    const struct locus_model *model = session->model;
    const struct locus_config *config = &model->config;
    const size_t n_embd = (size_t)config->n_embd;
    const int first_position = session->setup.first_position + pass->first_slot;
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++) {
        float *row = scratch->x + (size_t)i * n_embd;
        locus_weight_row(&model->embedding, pass->tokens[i], row);
        if (config->embedding_scale != 1)
            for (size_t c = 0; c < n_embd; c++)
                row[c] *= config->embedding_scale;
        scratch->row_positions[i] = first_position + i;
    }
    await_all(pass);
    if (pass->thread == 0) {
        const struct locus_embed_op op = {
            .tokens = pass->tokens,
            .x = scratch->x,
            .first_position = first_position,
            .n = pass->n,
            .n_axes = session->setup.n_axes,
            .coordinates = locus_coordinates_at(session, pass->first_slot),
            .token_states = locus_embed_states(session, pass->first_slot),
        };
        locus_position_embed(&session->positions.schemes[0], &op);
    }
    await_all(pass);
    if (config->embedding_norm) {
        norm_rows(pass, &model->embedding_norm, scratch->x, scratch->x, pass->n);
        await_all(pass);
    }
}

/* The norm of x, into `out`; x itself where the layer has no such norm. */
static const float *normed(const struct pass *pass, const struct locus_norm_weights *norm,
                           float *out)
{
    if (!norm->weight) return pass->session->scratch.x;
    norm_rows(pass, norm, out, pass->session->scratch.x, pass->n);
    return out;
}

/* x becomes the norm of it, complete on every thread. */
static void norm_sum(const struct pass *pass, const struct locus_norm_weights *norm)
{
    float *x = pass->session->scratch.x;
    norm_rows(pass, norm, x, x, pass->n);
    await_all(pass);
}

/* Both halves: what mixes tokens, and the MLP. In parallel they read the same x (GPT-NeoX), under
 * one norm if there is no second (GPT-J); else the MLP reads what the first has added to. */
static void run_layer(const struct pass *pass, int index)
{
    const struct locus_session *session = pass->session;
    const struct locus_scratch *scratch = &session->scratch;
    const struct locus_config *config = &session->model->config;
    const struct locus_layer *layer = &session->model->layers[index];
    const struct locus_session_layer *parts = &session->layers[index];
    const bool sums = config->norm_position == LOCUS_NORM_SUM;
    const float *in = sums ? scratch->x : normed(pass, &layer->attn_norm, scratch->normed);
    const float *mlp_in = in;
    if (config->parallel_residual && layer->ffn_norm.weight)
        mlp_in = normed(pass, &layer->ffn_norm, scratch->mlp_normed);
    if (in != scratch->x) await_all(pass);
    parts->mixer->run(pass, parts->state, index, in);
    if (sums) {
        norm_sum(pass, &layer->attn_norm);
    } else if (!config->parallel_residual) {
        mlp_in = normed(pass, &layer->ffn_norm, scratch->normed);
        if (mlp_in != scratch->x) await_all(pass);
    }
    parts->mlp->run(pass, layer->mlp, &layer->ffn_post_norm, mlp_in);
    if (sums && layer->ffn_norm.weight) norm_sum(pass, &layer->ffn_norm);
}

/* ---- the head ----------------------------------------------------------------------------- */

/* out[n, n_vocab] of rows[n, n_embd], normed already. */
static void head_rows(const struct pass *pass, const float *rows, int n, float *out)
{
    const struct locus_model *model = pass->session->model;
    const struct locus_linear tied = {.weight = model->embedding};
    const struct locus_linear *head = model->head.weight.panels ? &model->head : &tied;
    project(pass, head, prepare(pass, rows, n, model->config.n_embd, form(pass, head)), out, n,
            false);
    await_all(pass);
    const struct locus_config *config = &model->config;
    if (config->logit_scale == 1 && config->logit_cap == 0) return;
    const int first = share_first(pass, config->n_vocab), end = share_end(pass, config->n_vocab);
    for (int i = 0; i < n; i++)
        pass->session->kernels->scale_and_cap(out + (size_t)i * (size_t)config->n_vocab +
                                                  (size_t)first,
                                              end - first, config->logit_scale, config->logit_cap);
    await_all(pass);
}

/* The logits that are outputs. */
static void logits(const struct pass *pass)
{
    const struct locus_scratch *scratch = &pass->session->scratch;
    const struct locus_model *model = pass->session->model;
    const struct locus_config *config = &model->config;
    const struct locus_outputs *outputs = pass->outputs;
    const int n = outputs->n_rows ? outputs->n_rows : outputs->last ? 1 : 0;
    const float *rows = scratch->x + (size_t)(pass->n - n) * (size_t)config->n_embd;
    float *out = outputs->n_rows ? outputs->logits : scratch->logits;
    if (n == 0) return;
    if (model->output_norm.weight) {
        norm_rows(pass, &model->output_norm, scratch->normed, rows, n);
        rows = scratch->normed;
        await_all(pass);
    }
    head_rows(pass, rows, n, out);
    if (pass->thread == 0 && outputs->n_rows && outputs->last)
        memcpy(scratch->logits, out + (size_t)(n - 1) * (size_t)config->n_vocab,
               (size_t)config->n_vocab * sizeof *out);
}

float locus_session_loss(const struct locus_session *session, const float *logits, int32_t target)
{
    float max;
    float sum = session->kernels->sum_exp(logits, session->model->config.n_vocab, &max);
    return (float)(locus_log((double)sum) - ((double)logits[target] - (double)max));
}

/* Scores the rows that have a target, a block at a time. */
static void score(const struct pass *pass)
{
    const struct locus_session *session = pass->session;
    const struct locus_scratch *scratch = &session->scratch;
    const struct locus_model *model = session->model;
    const struct locus_outputs *outputs = pass->outputs;
    const size_t n_embd = (size_t)model->config.n_embd, n_vocab = (size_t)model->config.n_vocab;
    for (int first = 0; first < outputs->n_scored; first += LOCUS_SCORE_ROWS) {
        const int *scored = scratch->scored + first;
        const int left = outputs->n_scored - first;
        const int n = left < LOCUS_SCORE_ROWS ? left : LOCUS_SCORE_ROWS;
        for (int i = share_first(pass, n); i < share_end(pass, n); i++)
            memcpy(scratch->normed + (size_t)i * n_embd, scratch->x + (size_t)scored[i] * n_embd,
                   n_embd * sizeof(float));
        if (model->output_norm.weight)
            norm_rows(pass, &model->output_norm, scratch->normed, scratch->normed, n);
        await_all(pass);
        head_rows(pass, scratch->normed, n, session->score_logits);
        for (int i = share_first(pass, n); i < share_end(pass, n); i++)
            outputs->nll[scored[i]] = locus_session_loss(
                session, session->score_logits + (size_t)i * n_vocab, outputs->targets[scored[i]]);
        await_all(pass);
    }
}

static void worker(void *context, int thread, int n_threads)
{
    struct pass pass = *(const struct pass *)context;
    const struct locus_config *config = &pass.session->model->config;
    pass.thread = thread;
    pass.n_threads = n_threads;
    embed(&pass);
    for (int layer = 0; layer < config->n_layer; layer++)
        run_layer(&pass, layer);
    /* Where a mixer has something to refuse, the caller does so. */
    if (!locus_mixers_check(&pass.session->mixers, pass.session, NULL)) {
        logits(&pass);
        score(&pass);
    }
    await_all(&pass); /* the end of the parallel region waits, too, but slower */
}

/* Threads for a chunk. Where nobody has said how many, a thread has to be worth the waiting at a
 * layer's barriers: half a million multiply-adds of the layer, as `bench` finds it. */
static int threads_for(const struct pass *pass)
{
    struct locus_session *session = pass->session;
    const int64_t worth = 500000, keys = pass->first_slot + pass->n;
    const struct locus_config *config = &session->model->config;
    const int64_t work = pass->n * (session->layer_weights + 2 * keys * config->n_embd) / worth;
    int most = session->setup.n_threads;
    if (session->setup.threads_given) return most;
    if (work < most) most = work < 1 ? 1 : (int)work;
    return locus_crew_size(&session->crew, most);
}

void locus_forward(struct locus_session *session, const struct locus_chunk *chunk,
                   const struct locus_outputs *outputs)
{
    struct pass pass = {.session = session,
                        .tokens = chunk->tokens,
                        .n = chunk->n,
                        .first_slot = chunk->first_slot,
                        .outputs = outputs};
    const int n_threads = threads_for(&pass);
    const double start = n_threads > 1 ? locus_now() : 0;
    locus_threads_run(n_threads, worker, &pass);
    if (n_threads > 1)
        locus_crew_done(&session->crew, &session->barrier, n_threads, locus_now() - start);
}
