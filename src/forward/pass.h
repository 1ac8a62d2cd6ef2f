/* A chunk on its way through the layers, as one thread sees it: what the parts of the forward pass
 * share. */
#ifndef LOCUS_FORWARD_PASS_H
#define LOCUS_FORWARD_PASS_H

#include "base/threads.h"
#include "forward/session.h"

struct pass {
    struct locus_session *session;
    const int32_t *tokens; /* [n]: those of the chunk, */
    int n, first_slot;     /* for the slots from first_slot on */
    const struct locus_outputs *outputs;
    int thread, n_threads;
};

/* Scratch of this thread for whichever mixer runs: [states.thread_floats]. */
static inline float *pass_thread_scratch(const struct pass *pass)
{
    const struct locus_token_states *states = &pass->session->states;
    return states->threads + (size_t)pass->thread * states->thread_floats;
}

static inline int share_first(const struct pass *pass, int count)
{
    int first, end;
    locus_threads_share(count, pass->thread, pass->n_threads, &first, &end);
    return first;
}

static inline int share_end(const struct pass *pass, int count)
{
    int first, end;
    locus_threads_share(count, pass->thread, pass->n_threads, &first, &end);
    return end;
}

/* Ends a step that others read. */
static inline void await_all(const struct pass *pass)
{
    locus_barrier_wait(&pass->session->barrier, pass->n_threads);
}

static inline void norm_rows(const struct pass *pass, const struct locus_norm_weights *weights,
                             float *out, const float *x, int n)
{
    const struct locus_config *config = &pass->session->model->config;
    const struct locus_norm norm = {config->norm, config->norm_epsilon, weights->weight,
                                    weights->bias};
    const size_t n_embd = (size_t)config->n_embd;
    for (int i = share_first(pass, n); i < share_end(pass, n); i++)
        pass->session->kernels->norm(&norm, out + (size_t)i * n_embd, x + (size_t)i * n_embd,
                                     config->n_embd);
}

/* Forms of its input that a matrix product may read instead of floats. */
enum { AS_BLOCKS = 1, AS_BF16 = 2 };

static inline int form(const struct pass *pass, const struct locus_linear *linear)
{
    const enum locus_tensor_type type = linear->weight.type;
    if (locus_tensor_is_quantised(type)) return AS_BLOCKS;
    return type == LOCUS_BF16 && pass->session->kernels->to_bf16 ? AS_BF16 : 0;
}

static inline struct locus_activations input_of(const struct pass *pass, const float *x)
{
    return (struct locus_activations){x, pass->session->scratch.blocks,
                                      pass->session->scratch.bf16};
}

/* Row i of a product's input in all of `forms`. */
static inline void convert(const struct pass *pass, const float *row, int i, int n_cols, int forms)
{
    const struct locus_scratch *scratch = &pass->session->scratch;
    const struct locus_kernels *kernels = pass->session->kernels;
    if (forms & AS_BLOCKS)
        kernels->quantize(scratch->blocks + (size_t)i * (size_t)(n_cols / LOCUS_QUANT_BLOCK), row,
                          n_cols);
    if (forms & AS_BF16)
        kernels->to_bf16(scratch->bf16 + (size_t)i * locus_bf16_cols(n_cols), row, n_cols);
}

/* Rows x[n, cols], complete on every thread, as the input of matrix products, in all of `forms`. */
static inline struct locus_activations prepare(const struct pass *pass, const float *x, int n,
                                               int n_cols, int forms)
{
    if (!forms) return input_of(pass, x);
    for (int i = share_first(pass, n); i < share_end(pass, n); i++)
        convert(pass, x + (size_t)i * (size_t)n_cols, i, n_cols, forms);
    await_all(pass);
    return input_of(pass, x);
}

/* out[n, rows] = linear(in), or added to out: this thread's share. */
static inline void project(const struct pass *pass, const struct locus_linear *linear,
                           struct locus_activations in, float *out, int n, bool add)
{
    const struct locus_matmul op = {
        .out = out, .in = in, .weight = &linear->weight, .bias = linear->bias, .n = n, .add = add};
    locus_multiply(pass->session->kernels, &op, pass->thread, pass->n_threads);
}

/* x += branch, normed and scaled where the layer or the model says so; branch[n, n_embd] is
 * complete on every thread. */
static inline void add_branch(const struct pass *pass, const struct locus_norm_weights *post_norm)
{
    const struct locus_scratch *scratch = &pass->session->scratch;
    const struct locus_config *config = &pass->session->model->config;
    const float scale = config->residual_scale;
    const size_t n_embd = (size_t)config->n_embd;
    const int n = pass->n;
    if (post_norm->weight) norm_rows(pass, post_norm, scratch->branch, scratch->branch, n);
    const size_t first = (size_t)share_first(pass, n) * n_embd;
    const size_t end = (size_t)share_end(pass, n) * n_embd;
    for (size_t i = first; i < end; i++)
        scratch->x[i] += scale * scratch->branch[i];
    await_all(pass);
}

/* x += linear(in), which goes beside x first where it is normed or scaled. */
static inline void add_output(const struct pass *pass, const struct locus_linear *linear,
                              struct locus_activations in,
                              const struct locus_norm_weights *post_norm)
{
    const struct locus_scratch *scratch = &pass->session->scratch;
    const bool beside = post_norm->weight || pass->session->model->config.residual_scale != 1;
    project(pass, linear, in, beside ? scratch->branch : scratch->x, pass->n, !beside);
    await_all(pass);
    if (beside) add_branch(pass, post_norm);
}

#endif
