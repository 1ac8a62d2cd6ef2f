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
 *  - A function that can fail takes an `error`, which may be NULL, and returns NULL or a status
 *    other than LOCUS_OK. `error` then says what was found and what was expected; after success it
 *    is untouched. Nothing is printed, and nothing exits (but OpenMP's runtime, where the system
 *    has no room for its threads).
 *  - What *_create or *_open returns is the caller's, and *_free releases it; *_free(NULL) does
 *    nothing. Creating something from a NULL model fails and leaves `error` as it was, so that a
 *    caller may check once, as above.
 *  - A model never changes: any number of sessions on any number of threads may share it. It must
 *    outlive them. A session, and a sampler, is used by one thread at a time.
 *  - The same model, tokens and parameters give the same logits to the bit, whatever the number of
 *    threads, the batch, and the way the tokens were cut into calls.
 *  - Arrays are row-major: logits[n_rows, n_vocab] is one row after another.
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
typedef struct locus_session locus_session;     /* one text as it grows: KV cache and scratch */
typedef struct locus_sampler locus_sampler;     /* logits to the next token; has random state */

enum locus_status {
    LOCUS_OK = 0,
    LOCUS_ERROR_ARGUMENT,    /* the caller asked for something that makes no sense */
    LOCUS_ERROR_MEMORY,      /* an allocation failed */
    LOCUS_ERROR_IO,          /* a file could not be opened, read or written */
    LOCUS_ERROR_FORMAT,      /* a file is not what it should be */
    LOCUS_ERROR_UNSUPPORTED, /* well-formed, but this library can't do it */
    LOCUS_ERROR_POSITION,    /* more positions than the session or the scheme has */
    LOCUS_ERROR_NUMERIC,     /* a value is no number, or too large for its type */
    LOCUS_ERROR_STOPPED      /* the caller's own `stop` said so */
};

typedef struct locus_error {
    enum locus_status status;
    char message[256]; /* one line, no newline at its end */
} locus_error;

/* The version of the library, "major.minor.patch". */
LOCUS_API const char *locus_version(void);

/* ---- model -------------------------------------------------------------------------------- */

/* Opens a GGUF checkpoint. The whole file is checked before any of it is used.
 *
 * The file is mapped. During this call it must not be written over or cut short: a page that is
 * gone ends the process (SIGBUS). Later it is read only where logits are no numbers, to find the
 * weight at fault. */
LOCUS_API locus_model *locus_model_open(const char *path, locus_error *error);
LOCUS_API void locus_model_free(locus_model *model);

typedef struct locus_model_info {
    const char *name;        /* general.name, or "" */
    const char *family;      /* "gpt2", "llama", "locus", ... */
    const char *weight_type; /* the type most weights have: "F32", "Q8_0", "Q4_K", ... */
    const char *position;    /* the checkpoint's own position scheme, as its file says it: "rope" or
                              * "learned:offset=2". In use: locus_session_position */
    int n_vocab;             /* logits a token */
    int n_tokens;            /* token ids: 0 to n_tokens - 1; logits past them are padding */
    int n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff; /* 0: no attention, or no MLP */
    int trained_length; /* tokens of the texts it was trained on */
    int64_t n_parameters;
    int32_t bos_token; /* what an empty prompt starts from (begin or end of text); -1: none */
    int32_t eos_token; /* end of text; -1: none. There may be others: locus_model_is_end */
} locus_model_info;

/* What the model is. The strings are the model's. */
LOCUS_API locus_model_info locus_model_info_get(const locus_model *model);

/* Whether a token ends a text. There may be several: ends of text, of a turn and of a message
 * (tokenizer.ggml.eos_token_id, eot_token_id, eom_token_id, locus.end_token_ids). */
LOCUS_API bool locus_model_is_end(const locus_model *model, int32_t token);

/* ---- text and tokens ---------------------------------------------------------------------- */

/* The tokenizer of the model's checkpoint. Refuses a checkpoint that has none. Threads may share
 * it. The model must outlive it. */
LOCUS_API locus_tokenizer *locus_tokenizer_create(const locus_model *model, locus_error *error);
LOCUS_API void locus_tokenizer_free(locus_tokenizer *tokenizer);

/* Flags, added up; 0: none. */
enum {
    /* encode: put the begin-of-text token first, where the model wants one and the text doesn't
     * begin with it. */
    LOCUS_TEXT_BEGIN = 1,
    /* encode: special tokens such as <|...|> are read as such, not as plain text.
     * piece: they are shown. */
    LOCUS_TEXT_SPECIAL = 2,
    /* encode: put the end-of-text token last, where the model wants one and the text doesn't end
     * with it. */
    LOCUS_TEXT_END = 4
};

/* Encodes n_bytes of any content. *tokens becomes a malloc'ed array [*n_tokens] for the caller to
 * free(); NULL where there are none, and after a failure. */
LOCUS_API enum locus_status locus_encode(const locus_tokenizer *tokenizer, const char *text,
                                         size_t n_bytes, unsigned flags, int32_t **tokens,
                                         size_t *n_tokens, locus_error *error);

/* The bytes of one token [*n_bytes], the tokenizer's; never NULL. They may be a part of a UTF-8
 * character. Special tokens have no bytes without LOCUS_TEXT_SPECIAL; ids outside the vocabulary
 * never have. `previous` is the token before it, -1: none. (Some vocabularies put a space before
 * each word, but not before a text's first.) */
LOCUS_API const char *locus_token_piece(const locus_tokenizer *tokenizer, int32_t previous,
                                        int32_t token, unsigned flags, size_t *n_bytes);

/* How many of these bytes can be written without cutting a UTF-8 character in two: all but an
 * unfinished character at the end (0 to 3 bytes). Bytes that can't become a character count as
 * finished. */
LOCUS_API size_t locus_utf8_whole(const char *bytes, size_t n_bytes);

/* ---- session ------------------------------------------------------------------------------ */

enum locus_cache_type { LOCUS_CACHE_AUTO, LOCUS_CACHE_F32, LOCUS_CACHE_F16, LOCUS_CACHE_Q8_0 };

struct locus_position_scheme; /* locus_position.h: a scheme of your own */

/* All zeros: the defaults. */
typedef struct locus_session_params {
    const char *position; /* SPEC, such as "alibi" or "yarn:factor=4"; NULL: the checkpoint's own */
    int n_context;        /* the most tokens it can hold; 0: the trained length */
    int n_threads;        /* 0: at most the physical cores within affinity mask and cgroup quota,
                             fewer where the work isn't worth them or others are busy on them */

    /* Advanced. */

    /* Cache policy, which keys a token sees: "full", "window:size=W", "sinks:keep=K,size=W" or
     * another of those that 'locus positions' lists; NULL: full. */
    const char *attention;
    enum locus_cache_type cache_type; /* of keys and values; AUTO: F32 for an F32 model, else F16 */
    int n_batch; /* tokens a forward pass, for speed and memory alone; 0: 512 */
    const struct locus_position_scheme *scheme; /* yours; `position` may name it */
    int n_axes;         /* coordinates a token that you give: locus_session_eval_at; 0: none */
    int first_position; /* of the first token, to test shifts */
    /* Kernel set, such as "reference" or "avx512+vnni"; NULL: the best this CPU has. All give the
     * same bits, but for BF16 weights in "avx512+vnni+bf16". */
    const char *kernels;
    /* Asked between the passes of one call, n_batch tokens each: true ends the call with
     * LOCUS_ERROR_STOPPED. The passes before stay done: locus_session_length tells how many tokens
     * they were. NULL: never */
    bool (*stop)(void *context);
    void *stop_context;
} locus_session_params;

/* NULL params: the defaults. Refuses a scheme whose tensors the checkpoint lacks, and an n_context
 * past the scheme's last position. */
LOCUS_API locus_session *locus_session_create(const locus_model *model,
                                              const locus_session_params *params,
                                              locus_error *error);
LOCUS_API void locus_session_free(locus_session *session);

/* Appends tokens[n], n >= 1. The logits of the last n_rows of them go to logits[n_rows, n_vocab];
 * n_rows is 0 to n, and logits may be NULL where it is 0.
 *
 * A failure leaves the session as it was, but for `stop`. (One exception: under window or sinks,
 * and with n above n_batch, LOCUS_ERROR_NUMERIC may leave whole batches before the one that failed.
 * It means a key or value that cache_type F16 can't hold.) */
LOCUS_API enum locus_status locus_session_eval(locus_session *session, const int32_t *tokens, int n,
                                               float *logits, int n_rows, locus_error *error);

/* Logits [n_vocab] of the last token; the caller may change them. Valid until the next call on the
 * session; zeros before the first token. A rewind leaves them as they are. */
LOCUS_API float *locus_session_logits(locus_session *session);

/* Forgets all but the first n_keep tokens, 0 <= n_keep <= locus_session_length().
 *
 * Under window and sinks old keys are dropped. Going back to 0 always works, and so does going back
 * by up to 2 n_batch from the farthest token yet. Farther is refused where keys are missing, and
 * then nothing changes. */
LOCUS_API enum locus_status locus_session_rewind(locus_session *session, int n_keep,
                                                 locus_error *error);

LOCUS_API int locus_session_length(const locus_session *session);   /* tokens it holds */
LOCUS_API int locus_session_capacity(const locus_session *session); /* the most it can hold */

/* What it runs with. The strings are the session's. */
LOCUS_API const char *locus_session_position(const locus_session *session);  /* SPEC in use */
LOCUS_API const char *locus_session_attention(const locus_session *session); /* cache policy */
LOCUS_API enum locus_cache_type locus_session_cache_type(const locus_session *session);
LOCUS_API const char *locus_session_kernels(const locus_session *session); /* name of the set */
LOCUS_API int locus_session_n_threads(const locus_session *session);       /* at most */

/* Advanced: locus_session_eval where the caller says where tokens are, in a session made with
 * n_axes > 0. Token i is at coordinates[i, 0 .. n_axes-1], each 0 to n_context - 1 (more by
 * first_position). The order of the text is that of the tokens, as ever. Tokens without coordinates
 * (NULL, or locus_session_eval) are, on every axis, one past the largest so far. */
LOCUS_API enum locus_status locus_session_eval_at(locus_session *session, const int32_t *tokens,
                                                  int n, const int *coordinates, float *logits,
                                                  int n_rows, locus_error *error);

/* Advanced: under self-extend and ReRoPE, the length up to which no token sees another at a
 * distance above the trained length (INT_MAX: any); 0: another policy. */
LOCUS_API int locus_session_reach(const locus_session *session);

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
    float top_p;             /* keeps the likeliest whose probabilities add up to it; >= 1: off */
    float min_p;             /* keeps those with this share of the likeliest's; 0: off */
    float typical_p;         /* keeps locally typical mass (Meister et al., 2022); >= 1: off */
    int repeat_last_n;       /* tokens that the penalties look back on; 0: none, -1: all */
    float repeat_penalty;    /* divides positive logits, multiplies negative ones; 1: off */
    float presence_penalty;  /* subtracted from the logit of a token that occurs; 0: off */
    float frequency_penalty; /* subtracted as often as the token occurs; 0: off */
    uint64_t seed;           /* any value, 0 too */
    enum locus_sampler_stage stages[8]; /* their order; first one 0: the order of the enum */
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

/* Draws a token from logits [n_vocab], which it doesn't change, and remembers it for the penalties.
 * A logit of -inf bans a token. -1 and LOCUS_ERROR_NUMERIC: the logits have a NaN or +inf, or leave
 * nothing to choose from. */
LOCUS_API int32_t locus_sampler_next(locus_sampler *sampler, const float *logits,
                                     locus_error *error);

/* Tells the penalties of a token that was not drawn here, such as the prompt's. */
LOCUS_API void locus_sampler_accept(locus_sampler *sampler, int32_t token);

#ifdef __cplusplus
}
#endif
#endif
