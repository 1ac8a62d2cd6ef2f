/* locus: a GPT inference engine whose position encoding is a plug-in.
 *
 * A complete program (cc story.c $(pkg-config --cflags --libs locus) -o story && ./story):
 *
 *     #include <locus.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         locus_error error;
 *         locus_model *model = locus_model_open("models/tales.gguf", &error);
 *         locus_tokenizer *tokenizer = locus_tokenizer_create(model, &error);
 *         locus_session *session = locus_session_create(model, NULL, &error);
 *         locus_sampler *sampler = locus_sampler_create(model, NULL, &error);
 *         if (!tokenizer || !session || !sampler)
 *             return fprintf(stderr, "%s\n", error.message), 1;
 *         int32_t token = locus_model_info_get(model).bos_token;
 *         for (int i = 0; i < 200; i++) {
 *             if (locus_session_eval(session, &token, 1, NULL, 0, &error)) break;
 *             int32_t previous = token;
 *             token = locus_sampler_next(sampler, locus_session_logits(session), &error);
 *             if (token < 0 || locus_model_is_end(model, token)) break;
 *             size_t n_bytes;
 *             const char *piece = locus_token_piece(tokenizer, previous, token, 0, &n_bytes);
 *             fwrite(piece, 1, n_bytes, stdout);
 *         }
 *         locus_sampler_free(sampler);
 *         locus_session_free(session);
 *         locus_tokenizer_free(tokenizer);
 *         locus_model_free(model);
 *     }
 *
 * Rules that hold for every function:
 *  - Errors are values: a function that can fail takes a nullable `error` and returns NULL or a
 *    status other than LOCUS_OK; `error` then says what was found and what was expected. Nothing is
 *    printed, nothing exits (but OpenMP's runtime, where the system has no room for the threads).
 *    After success `error` is untouched.
 *  - Whatever *_create or *_open returns is the caller's, and *_free releases it; *_free(NULL) does
 *    nothing. Creating something from a NULL model fails and leaves `error` as it was.
 *  - A model is immutable: any number of sessions on any number of threads may share it, and it
 *    must outlive them. A session, and a sampler, is used by one thread at a time.
 *  - The same model, tokens and parameters give the same logits to the bit, whatever the number of
 *    threads, the batch and the way the tokens were cut into calls.
 */
#ifndef LOCUS_H
#define LOCUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LOCUS_API __attribute__((visibility("default")))
#else
#define LOCUS_API
#endif

#define LOCUS_VERSION "0.1.0"

typedef struct locus_model locus_model;         /* a checkpoint, mapped, checked and packed */
typedef struct locus_tokenizer locus_tokenizer; /* text to tokens and back */
typedef struct locus_session locus_session;     /* a text in the making: KV cache and scratch */
typedef struct locus_sampler locus_sampler;     /* logits to the next token; has random state */

enum locus_status {
    LOCUS_OK = 0,
    LOCUS_ERROR_ARGUMENT,    /* the caller asked for something that makes no sense */
    LOCUS_ERROR_MEMORY,      /* an allocation failed */
    LOCUS_ERROR_IO,          /* a file could not be opened, read or written */
    LOCUS_ERROR_FORMAT,      /* a file is not what it should be */
    LOCUS_ERROR_UNSUPPORTED, /* well-formed, but beyond this library */
    LOCUS_ERROR_POSITION,    /* more positions than the session or the scheme has */
    LOCUS_ERROR_NUMERIC      /* a value that is not a number where one is needed */
};

typedef struct locus_error {
    enum locus_status status;
    char message[256]; /* one line, no newline at its end */
} locus_error;

/* The version of the library, "major.minor.patch". */
LOCUS_API const char *locus_version(void);

/* ---- model -------------------------------------------------------------------------------- */

/* Opens a GGUF checkpoint. The whole file is checked before any of it is used. It is mapped: it
 * must not be written over or cut short during this call (a page that is gone ends the process:
 * SIGBUS). Later it is read only where results are no numbers, to find the weight at fault. */
LOCUS_API locus_model *locus_model_open(const char *path, locus_error *error);
LOCUS_API void locus_model_free(locus_model *model);

typedef struct locus_model_info {
    const char *name;        /* general.name, or "" */
    const char *family;      /* "gpt2", "llama", "locus", ... */
    const char *weight_type; /* the type most weights have: "F32", "Q8_0", "Q4_K", ... */
    const char *position;    /* the checkpoint's own SPEC, as its file says it */
    int n_vocab;             /* logits a token */
    int n_tokens;            /* ids that mean something: n_vocab less padding at its end */
    int n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    int trained_length; /* tokens of the texts it was trained on */
    int64_t n_parameters;
    int32_t bos_token; /* what an empty prompt starts from (begin- or end-of-text); -1: none */
    int32_t eos_token; /* end of text; -1: none. There may be more: locus_model_is_end */
} locus_model_info;

/* What the model is. The strings live as long as the model. */
LOCUS_API locus_model_info locus_model_info_get(const locus_model *model);

/* True for a token that ends a text: each that the checkpoint calls an end of text, of a turn or of
 * a message (tokenizer.ggml.eos_token_id, eot_token_id, eom_token_id, locus.end_token_ids). */
LOCUS_API bool locus_model_is_end(const locus_model *model, int32_t token);

/* ---- text and tokens ---------------------------------------------------------------------- */

/* A text whose own first (or last) token, parsed, is what LOCUS_TEXT_BEGIN (or _END) puts gets no
 * second one. */
enum {
    LOCUS_TEXT_BEGIN = 1,   /* encode: put the begin-of-text token first, if the model wants one */
    LOCUS_TEXT_SPECIAL = 2, /* encode: parse <|...|> and the like; piece: show them */
    LOCUS_TEXT_END = 4      /* encode: put the end-of-text token last, if the model wants one */
};

/* The tokenizer whose vocabulary the model's checkpoint holds; refuses a checkpoint without one.
 * Immutable: threads may share it. The model must outlive it. */
LOCUS_API locus_tokenizer *locus_tokenizer_create(const locus_model *model, locus_error *error);
LOCUS_API void locus_tokenizer_free(locus_tokenizer *tokenizer);

/* Encodes n_bytes of any content. *tokens is a malloc'ed array for the caller to free(); it is NULL
 * with *n_tokens 0 when there are none, and after a failure. */
LOCUS_API enum locus_status locus_encode(const locus_tokenizer *tokenizer, const char *text,
                                         size_t n_bytes, unsigned flags, int32_t **tokens,
                                         size_t *n_tokens, locus_error *error);

/* The bytes of one token, owned by the tokenizer; not always whole UTF-8 characters. `previous` is
 * the token before it (-1: none): vocabularies that put a space before the first word drop it
 * there and after a control token such as begin-of-text. A special token has no bytes unless
 * LOCUS_TEXT_SPECIAL is given; nor has an id outside the vocabulary. Never NULL. */
LOCUS_API const char *locus_token_piece(const locus_tokenizer *tokenizer, int32_t previous,
                                        int32_t token, unsigned flags, size_t *n_bytes);

/* How many of these bytes can be written without cutting a UTF-8 character in two: n_bytes less the
 * length of an unfinished character at the end (0 to 3). Bytes that can never become a character
 * are not held back. */
LOCUS_API size_t locus_utf8_whole(const char *bytes, size_t n_bytes);

/* ---- session ------------------------------------------------------------------------------ */

enum locus_cache_type { LOCUS_CACHE_AUTO, LOCUS_CACHE_F32, LOCUS_CACHE_F16, LOCUS_CACHE_Q8_0 };

struct locus_position_scheme; /* locus_position.h: a scheme of your own */

typedef struct locus_session_params {
    const char *position; /* SPEC; NULL: the checkpoint's own */
    const struct locus_position_scheme
        *scheme;           /* with parameters from `position`; NULL: registry */
    const char *attention; /* cache policy: "full", "window:size=W", "sinks:keep=K,size=W" or
                            * "self-extend:group=G,window=W"; NULL: full */
    int n_context;         /* positions to hold; 0: the trained length */
    int n_batch;        /* tokens a forward pass; 0: 512. Changes speed and memory, never results */
    int n_threads;      /* 0: physical cores within the affinity mask and the cgroup's quota */
    int first_position; /* position of the first token, 0 unless testing shifts */
    int n_axes;         /* coordinates a token that the caller gives: see locus_session_eval_at */
    enum locus_cache_type cache_type; /* AUTO: f32 for an F32 checkpoint, else f16 */
    /* "reference", "avx512+vnni", ...; NULL: the best this CPU has. Changes results in one case:
     * BF16 weights have bits of their own in "avx512+vnni+bf16" */
    const char *kernels;
} locus_session_params;

/* NULL params are all defaults (so is a zeroed struct). Refuses a scheme that the checkpoint lacks
 * the weights for, and an n_context past the scheme's last position. */
LOCUS_API locus_session *locus_session_create(const locus_model *model,
                                              const locus_session_params *params,
                                              locus_error *error);
LOCUS_API void locus_session_free(locus_session *session);

/* Appends n >= 1 tokens. The logits of the last n_rows of them (0 <= n_rows <= n) go to
 * logits[n_rows, n_vocab], NULL if n_rows is 0. A failure leaves the session as it was.
 * LOCUS_ERROR_NUMERIC: cache_type F16 can't hold a key or value; of more than n_batch tokens under
 * a policy that holds only what is in sight, the batches before that one may then stay. */
LOCUS_API enum locus_status locus_session_eval(locus_session *session, const int32_t *tokens, int n,
                                               float *logits, int n_rows, locus_error *error);

/* The same, in a session made with n_axes > 0: tokens are at coordinates[n, n_axes], any from 0 to
 * the last position that the session may have, while the order of the text is as ever. Where none
 * are given (NULL, or the other calls), a token is at one past the largest so far, on every axis.
 */
LOCUS_API enum locus_status locus_session_eval_at(locus_session *session, const int32_t *tokens,
                                                  int n, const int *coordinates, float *logits,
                                                  int n_rows, locus_error *error);

/* Logits [n_vocab] of the last token evaluated; the caller may change them. Valid until the next
 * call on the session; all zero before the first. */
LOCUS_API float *locus_session_logits(locus_session *session);

/* Forgets all but the first n_keep tokens: 0 <= n_keep <= locus_session_length(). Under a policy
 * that holds only what is in sight (window, sinks), 0 and 2 n_batch tokens back from the farthest
 * one evaluated can always be gone back to; where keys are missing, it is refused, and nothing
 * changes. */
LOCUS_API enum locus_status locus_session_rewind(locus_session *session, int n_keep,
                                                 locus_error *error);

LOCUS_API int locus_session_length(const locus_session *session);   /* tokens held */
LOCUS_API int locus_session_capacity(const locus_session *session); /* tokens it can hold */
LOCUS_API int locus_session_n_threads(const locus_session *session);
LOCUS_API const char *locus_session_position(const locus_session *session);  /* full SPEC in use */
LOCUS_API const char *locus_session_attention(const locus_session *session); /* policy in use */
/* Positions at which no key is yet seen farther off than the trained length, where that is the
 * policy's doing (self-extend); else 0. */
LOCUS_API int locus_session_reach(const locus_session *session);
LOCUS_API const char *locus_session_kernels(const locus_session *session); /* kernel set in use */
LOCUS_API enum locus_cache_type locus_session_cache_type(const locus_session *session);

/* ---- sampler ------------------------------------------------------------------------------ */

enum locus_sampler_stage {
    LOCUS_STAGE_END, /* ends the list */
    LOCUS_STAGE_PENALTIES,
    LOCUS_STAGE_TOP_K,
    LOCUS_STAGE_TYPICAL_P,
    LOCUS_STAGE_TOP_P,
    LOCUS_STAGE_MIN_P,
    LOCUS_STAGE_TEMPERATURE
};

typedef struct locus_logit_bias {
    int32_t token;
    float bias; /* added to the token's logit; -INFINITY bans it */
} locus_logit_bias;

typedef struct locus_sampler_params {
    float temperature;       /* 0: the likeliest token */
    int top_k;               /* <= 0: off */
    float top_p;             /* smallest set whose mass reaches it, never empty; >= 1: off */
    float min_p;             /* share of the likeliest token's probability; 0: off */
    float typical_p;         /* locally typical mass (Meister et al., 2022); >= 1: off */
    float repeat_penalty;    /* divides positive logits, multiplies negative ones; 1: off */
    float presence_penalty;  /* subtracted once from every token of the last repeat_last_n */
    float frequency_penalty; /* subtracted as often as it occurs there */
    int repeat_last_n;       /* tokens looked back on; 0: none, -1: all */
    uint64_t seed;           /* any value, 0 too */
    enum locus_sampler_stage stages[8]; /* the order; a zero first entry: the order of the enum */
    const locus_logit_bias *logit_bias; /* [n_logit_bias], copied */
    int n_logit_bias;
    bool ignore_end; /* never sample a token that ends the text */
} locus_sampler_params;

/* temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, everything else off, seed 0. */
LOCUS_API locus_sampler_params locus_sampler_defaults(void);

/* NULL params are the defaults. */
LOCUS_API locus_sampler *locus_sampler_create(const locus_model *model,
                                              const locus_sampler_params *params,
                                              locus_error *error);
LOCUS_API void locus_sampler_free(locus_sampler *sampler);

/* Draws a token from logits [n_vocab] (left as they are) and remembers it for the penalties;
 * -1 and LOCUS_ERROR_NUMERIC when the logits hold a NaN or +inf, or leave nothing to choose from;
 * a logit of -inf is a ban. */
LOCUS_API int32_t locus_sampler_next(locus_sampler *sampler, const float *logits,
                                     locus_error *error);

/* Tells the penalties of a token that was not drawn here (the prompt's). */
LOCUS_API void locus_sampler_accept(locus_sampler *sampler, int32_t token);

#ifdef __cplusplus
}
#endif
#endif
