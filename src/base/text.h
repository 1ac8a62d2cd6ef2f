/* Words as people and files give them, n_bytes that need not end in NUL: compared with names, the
 * nearest right name to one that is mistyped, and what of them is fit to be shown.
 */
#ifndef LOCUS_BASE_TEXT_H
#define LOCUS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Whether the word is that name. */
bool locus_text_is(const char *text, size_t n_bytes, const char *name);

/* A piece of a text. */
struct locus_word {
    const char *bytes;
    size_t n_bytes;
};

bool locus_word_is(struct locus_word word, const char *name);
int locus_word_shown(struct locus_word word); /* how much of it a message shows, bytes */

/* What a terminal is shown of a file's strings. bytes[0, n_bytes) starts with a character that
 * stands where it is put and does nothing else: its length. 0: no whole character of UTF-8 starts
 * there, or it is a control (C0, DEL, C1), ends a line, or sets the direction of what follows. */
size_t locus_text_character(const char *bytes, size_t n_bytes);

/* The text as one line for a terminal: '?' for each character that does more than stand there, and
 * for each byte that is part of none. In its place; appended. */
void locus_text_tame(char *text);
void locus_text_append(struct locus_buffer *out, const char *text);

/* Appends the same without loss: \n, \t, \r, \\ and, of whatever else has no place on a line, its
 * bytes as \xNN. */
void locus_text_escape(struct locus_buffer *out, const char *bytes, size_t n_bytes);

/* "s" after a noun of which there are n, but for one. */
const char *locus_plural(int64_t n);

/* "Did you mean": the nearest of the right names to the word that was typed. Each right name is
 * offered, or listed, in turn. */
struct locus_suggestion {
    struct locus_word word;
    bool near;           /* locus_suggestion_near began it */
    const char *nearest; /* the first of the names at the least distance; NULL before any */
    int distance;        /* of edits: insertions, deletions, changes, swaps of neighbours */
    bool cut;            /* the list, by "...": not all of them fit */
    char list[160];      /* the names that were listed */
};

/* Any name may be the nearest; or one alone that is near enough to have been meant: a third of the
 * word's letters may be wrong, at least one. */
struct locus_suggestion locus_suggestion_any(struct locus_word word);
struct locus_suggestion locus_suggestion_near(const char *word);

void locus_suggestion_offer(struct locus_suggestion *suggestion, const char *name);
/* The same, and the name joins the list. */
void locus_suggestion_list(struct locus_suggestion *suggestion, const char *name);

#endif
