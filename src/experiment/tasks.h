/* Character-level tasks with one right answer (Kazemnejad et al., 2023; passkey: Mohtashami and
 * Jaggi, 2023), in the format of scripts/tasks.py, which models are trained on.
 *
 *     task      prompt and answer      length
 *     copy      copy:abcab=abcab       letters
 *     reverse   reverse:abcab=bacba    letters
 *     addition  add:123+989=2111       digits of each summand; the sum's last digit comes first
 *     passkey   filler with a key in it, what the key is, the key; length: tokens of the whole text
 *
 * A text is the begin-of-text token (if trials have one), a prompt, an answer and a line feed. A
 * trial is right if greedy decoding after the prompt gives exactly the answer and the line feed.
 */
#ifndef LOCUS_EXPERIMENT_TASKS_H
#define LOCUS_EXPERIMENT_TASKS_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "experiment/perplexity.h"

enum locus_task { LOCUS_TASK_COPY, LOCUS_TASK_REVERSE, LOCUS_TASK_ADDITION, LOCUS_TASK_PASSKEY };

enum { LOCUS_N_TASKS = LOCUS_TASK_PASSKEY + 1 };

const char *locus_task_name(enum locus_task task);

/* The shortest length, and the lengths to try when none are given ("LIST" of the command line). */
int locus_task_shortest(enum locus_task task);
const char *locus_task_lengths(enum locus_task task);

/* Appends an example's prompt and answer, the line feed included. For passkey `length` is counted
 * in bytes and one begin-of-text token; the key comes after the share `depth` of the filler. */
void locus_task_example(enum locus_task task, int length, double depth, struct locus_rng *rng,
                        struct locus_buffer *prompt, struct locus_buffer *answer);

struct locus_trials {
    enum locus_task task;
    int length, n_trials;
    double depth; /* passkey: 0 to 1 */
    uint64_t seed;
    int32_t begin; /* the token before each text, or -1 */
};

/* The most tokens that a text of such trials has. */
enum locus_status locus_trials_tokens(const struct locus_trials *trials,
                                      const locus_tokenizer *tokenizer, int *n_tokens,
                                      locus_error *error);

/* How many of the trials come out right; their texts follow from the seed, the task, the length and
 * the depth alone. *whole is false if the watch stopped it. */
enum locus_status locus_trials_run(const struct locus_trials *trials, const locus_model *model,
                                   const locus_tokenizer *tokenizer, locus_session *session,
                                   const struct locus_watch *watch, int *n_right, bool *whole,
                                   locus_error *error);

#endif
