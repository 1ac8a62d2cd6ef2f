/* The text that a plot reads: see plot_text.h. */
#include "cli/commands/plot_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "cli/kit/log.h"
#include "cli/kit/session_options.h"
#include "tokenizer/tokenizer.h"

static int fail_memory(void)
{
    return locus_log_error("out of memory for the text");
}

static char *write_piece(const char *piece, size_t n_bytes)
{
    struct locus_buffer text = {0};
    size_t blank = 0;
    while (blank < n_bytes && piece[blank] == ' ')
        blank++;
    const char *quote = blank == n_bytes && n_bytes ? "'" : "";
    locus_buffer_printf(&text, "%s", quote);
    for (size_t i = *quote ? 0 : blank; i < n_bytes; i++) {
        unsigned char byte = (unsigned char)piece[i];
        if (byte == '\n')
            locus_buffer_append(&text, "\\n", 2);
        else if (byte < ' ' || byte == 0x7F)
            locus_buffer_printf(&text, "\\x%02x", byte);
        else
            locus_buffer_append(&text, &byte, 1);
    }
    locus_buffer_printf(&text, "%s", quote);
    if (!text.failed) return text.bytes;
    locus_buffer_free(&text);
    return NULL;
}

static int write_pieces(struct locus_plot_text *text, const locus_tokenizer *tokenizer, int n)
{
    text->pieces = calloc((size_t)n, sizeof *text->pieces);
    if (!text->pieces) return fail_memory();
    for (int i = 0; i < n; i++) {
        size_t n_bytes;
        const char *piece =
            locus_token_piece(tokenizer, -1, text->tokens[i], LOCUS_TEXT_SPECIAL, &n_bytes);
        text->n_tokens = i + 1;
        if (!(text->pieces[i] = write_piece(piece, n_bytes))) return fail_memory();
    }
    return -1;
}

int locus_plot_text_read(struct locus_plot_text *text, const locus_model *model, const char *prompt)
{
    if (!prompt) return -1;
    locus_error error;
    locus_tokenizer *tokenizer = locus_tokenizer_create(model, &error);
    if (!tokenizer) return locus_log_refusal("plot", &error);
    text->assumed = locus_tokenizer_assumed(tokenizer);
    size_t n = 0;
    int status;
    if (locus_encode(tokenizer, prompt, strlen(prompt), LOCUS_TEXT_BEGIN, &text->tokens, &n,
                     &error))
        status = locus_log_refusal("plot", &error);
    else if (n < 2 || n > LOCUS_PLOT_MAX_MATRIX)
        status = locus_log_error("the text has %zu tokens, expected 2 to %d", n,
                                 (int)LOCUS_PLOT_MAX_MATRIX);
    else
        status = write_pieces(text, tokenizer, (int)n);
    locus_tokenizer_free(tokenizer);
    return status;
}

void locus_plot_text_free(struct locus_plot_text *text)
{
    for (int i = 0; i < text->n_tokens; i++)
        free((void *)(uintptr_t)text->pieces[i]);
    free(text->pieces);
    free(text->tokens);
    *text = (struct locus_plot_text){0};
}
