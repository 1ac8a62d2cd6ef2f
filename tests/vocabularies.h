/* Small vocabularies of our own, in files without tensors. */
#ifndef LOCUS_TESTS_VOCABULARIES_H
#define LOCUS_TESTS_VOCABULARIES_H

#include <stddef.h>
#include <stdint.h>

#include "tokenizer/tokenizer.h"

struct merge_pair {
    const char *left, *right;
};

extern const struct merge_pair vocabulary_merges[]; /* best first */
extern const size_t vocabulary_n_merges;

/* Byte-level BPE: id b is byte b, 256 + i what merge i makes, then "<|endoftext|>" (begin- and
 * end-of-text), and user-defined "<think>". `pre` names the pattern; NULL: none. The path is one of
 * testing_temporary. */
const char *vocabulary_bpe(const char *pre);
enum { VOCABULARY_FIRST_MERGE = 256 };

/* vocabulary_bpe("gpt-2") with "<m>" (lstrip), "<r>" (rstrip), "<b>" (both) after that, which are
 * special, and user-defined "dog" (single_word). */
const char *vocabulary_added(void);

struct scored_piece {
    const char *text; /* with plain spaces */
    float score;
};

extern const struct scored_piece vocabulary_pieces[];
extern const size_t vocabulary_n_pieces;

/* SentencePiece: <unk>, <s>, </s>, 256 bytes (none without `bytes`), vocabulary_pieces, and
 * user-defined "<sep>" and " q". */
const char *vocabulary_sentencepiece(int bytes);

/* The same pieces and scores for Unigram. */
const char *vocabulary_unigram(int bytes);

/* Raw bytes, and "<|endoftext|>" as 256. */
const char *vocabulary_bytes(void);

/* A tokenizer, and the file that it is from; a file that can't be opened fails the test. */
struct vocabulary_file {
    struct locus_checkpoint *checkpoint;
    locus_tokenizer *tokenizer;
};

struct vocabulary_file vocabulary_open(const char *path);
void vocabulary_close(struct vocabulary_file *file);

#endif
