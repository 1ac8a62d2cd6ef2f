/* Words as people and files give them, n_bytes that need not end in NUL: compared with names, found
 * in lists, and the nearest right name to one that is mistyped; and what of them is fit to be
 * shown.
 */
#ifndef LOCUS_BASE_TEXT_H
#define LOCUS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

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

/* NAME[:key=value[,key=value]...]: its NAME; its next pair, from *rest = past the name on, false
 * when there is none left; a pair's halves, false where there is no key before a '='. */
struct locus_word locus_spec_name(const char *text);
bool locus_spec_next(const char **rest, struct locus_word *pair);
bool locus_spec_split(struct locus_word pair, struct locus_word *key, struct locus_word *value);

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

/* In a list of choices, "half|adjacent": the index of the word, from 0, or -1. */
int locus_choice_find(const char *choices, const char *text, size_t n_bytes);

/* The choice of an index that the list has; its length in *n_bytes. */
const char *locus_choice_at(const char *choices, int index, size_t *n_bytes);

/* Insertions, deletions, changes and swaps of neighbours that turn one text into the other (optimal
 * string alignment). Of either the first LOCUS_DISTANCE_BYTES count. */
enum { LOCUS_DISTANCE_BYTES = 32 };
int locus_edit_distance(const char *a, size_t n_a, const char *b, size_t n_b);

/* The nearest of some names. Zero-initialise but for `text`; then offer every right name, in order.
 */
struct locus_suggestion {
    const char *text; /* what was typed: n_bytes of anything */
    size_t n_bytes;
    const char *nearest; /* the first of the names at the least distance; NULL before any */
    int distance;
};

void locus_suggestion_offer(struct locus_suggestion *suggestion, const char *name);

#endif
