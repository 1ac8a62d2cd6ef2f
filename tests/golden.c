/* Golden logits: see golden.h. */
#include "golden.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

enum { MAGIC = 0x484C4F4C };

/* What a .logits file starts with; tokens and logits follow. */
struct golden_header {
    int32_t magic, n_prompt, n_tokens, n_vocab;
    char model[64], position[192];
};

struct golden golden_open(const char *name)
{
    char file[80];
    struct golden golden = {.name = name};
    size_t n_bytes;
    struct golden_header header;
    locus_error error;
    snprintf(file, sizeof file, "%s.logits", name);
    golden.bytes = testing_read(testing_golden(file), &n_bytes);
    ck_assert_uint_ge(n_bytes, sizeof header);
    memcpy(&header, golden.bytes, sizeof header);
    ck_assert_int_eq(header.magic, MAGIC);
    ck_assert_int_eq(header.model[sizeof header.model - 1], 0);
    ck_assert_int_eq(header.position[sizeof header.position - 1], 0);
    golden.n_prompt = header.n_prompt, golden.n_tokens = header.n_tokens;
    golden.n_vocab = header.n_vocab;
    ck_assert_int_ge(golden.n_tokens - golden.n_prompt, 20);
    const size_t column = 4 * (size_t)golden.n_tokens, n_columns = 1 + (size_t)golden.n_vocab;
    ck_assert_uint_ge(n_bytes, sizeof header + n_columns * column);
    ck_assert_uint_eq((n_bytes - sizeof header) % column, 0);
    golden.n_axes = (int)((n_bytes - sizeof header) / column - n_columns);
    golden.tokens = (const int32_t *)(const void *)(golden.bytes + sizeof header);
    golden.logits = (const float *)(const void *)(golden.tokens + golden.n_tokens);
    if (golden.n_axes > 0)
        golden.coordinates =
            (const int *)(const void *)(golden.logits +
                                        (ptrdiff_t)golden.n_tokens * golden.n_vocab);
    char *position = golden.bytes + offsetof(struct golden_header, position);
    char *option = strstr(position, " -A ");
    if (option) {
        *option = '\0';
        golden.attention = option + strlen(" -A ");
    }
    if (header.position[0]) golden.position = position;

    snprintf(file, sizeof file, "%s.gguf", header.model);
    golden.model = locus_model_open(testing_golden(file), &error);
    ck_assert_msg(golden.model != NULL, "%s: %s", name, error.message);
    ck_assert_int_eq(locus_model_info_get(golden.model).n_vocab, golden.n_vocab);
    return golden;
}

void golden_close(struct golden *golden)
{
    locus_model_free(golden->model);
    free(golden->bytes);
}

void golden_eval(const struct golden *golden, locus_session *session, int first, int n,
                 float *logits)
{
    locus_error error;
    const int *coordinates =
        golden->n_axes > 0 ? golden->coordinates + (ptrdiff_t)first * golden->n_axes : NULL;
    ck_assert_msg(
        !locus_session_eval_at(session, golden->tokens + first, n, coordinates, logits, n, &error),
        "%s: %s", golden->name, error.message);
}

size_t golden_scheme(const struct golden *golden, const char **name)
{
    *name = golden->position ? golden->position : locus_model_info_get(golden->model).position;
    return strcspn(*name, ":");
}

float golden_row_difference(const float *a, const float *b, int n)
{
    float difference = 0, largest = 0;
    for (int i = 0; i < n; i++) {
        float d = fabsf(a[i] - b[i]);
        if (!(d <= HUGE_VALF)) return HUGE_VALF;
        if (d > difference) difference = d;
        if (fabsf(b[i]) > largest) largest = fabsf(b[i]);
    }
    return difference / largest;
}
