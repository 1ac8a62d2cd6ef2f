/* Speed: how fast a model runs here, and what this machine could do at most. */
#ifndef LOCUS_BENCH_H
#define LOCUS_BENCH_H

#include "base/error.h"
#include "base/tensor_type.h"
#include "locus.h"

/* ---- the machine -------------------------------------------------------------------------- */

/* Rates of this machine, all threads together; 0 where the CPU has no such instruction. A
 * multiply-add counts as two operations. */
struct locus_ceilings {
    double read_gb_per_second; /* reading memory in order */
    double f32_gflops;         /* fused multiply-adds of floats */
    double bf16_gflops;        /* dot products of bfloat16 pairs */
    double int8_gops;          /* dot products of bytes */
};

/* Measures each for some tenths of a second and keeps the best. Memory is read over a block of
 * n_bytes, so that a cache helps it as it helps a model of that size. */
enum locus_status locus_ceilings_measure(struct locus_ceilings *ceilings, size_t n_bytes,
                                         int n_threads, locus_error *error);

/* ---- the model ---------------------------------------------------------------------------- */

struct locus_bench_params {
    int n_prompt;       /* tokens of the prompt, >= 1 */
    int n_generated;    /* tokens generated one by one, >= 1 */
    int n_depth;        /* tokens held before either, >= 0 */
    int repetitions;    /* >= 1, after one that is not counted */
    bool (*stop)(void); /* asked between repetitions; NULL: never */
};

struct locus_rate {
    double median, min, max; /* tokens a second */
};

struct locus_bench_result {
    struct locus_rate prompt, generation;
    int repetitions; /* that were done: fewer after a stop */
    /* What a token costs at least: operations (two a multiply-add) of a prompt's token, and bytes
     * (weights and cache) read for a generated one. */
    double prompt_operations, generation_bytes;
};

/* Runs prompts and generations in turn in a session of at least n_depth + the larger of n_prompt
 * and n_generated positions. */
enum locus_status locus_bench_run(struct locus_bench_result *result, locus_session *session,
                                  const struct locus_bench_params *params, locus_error *error);

/* Bytes of the weights that a generated token reads. */
size_t locus_bench_weight_bytes(const locus_model *model);

/* The type of the first layer's first matrix. */
enum locus_tensor_type locus_bench_weight_type(const locus_model *model);

/* The rate of `ceilings` that bounds matrix products of weights of that type: for BF16 the faster
 * of its dots and floats. 0 where it isn't measured: for quantised weights on a CPU whose dot
 * products of bytes are none of the above. */
double locus_bench_compute_ceiling(const struct locus_ceilings *ceilings,
                                   enum locus_tensor_type type);

#endif
