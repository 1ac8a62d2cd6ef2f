/* What is measured: models and texts as their files have them, and the hashes that tell two states
 * of one file apart.
 */
#ifndef LOCUS_EXPERIMENT_INPUTS_H
#define LOCUS_EXPERIMENT_INPUTS_H

#include "base/buffer.h"
#include "base/error.h"

/* A path's last part. */
const char *locus_file_name(const char *path);

/* A model file, opened. */
struct locus_opened_model {
    char *path;
    const char *name; /* the path's last part */
    char sha[9];      /* first digits of the file's SHA-256; "" before it is asked for */
    locus_model *model;
    locus_model_info info;
    locus_tokenizer *tokenizer;
};

/* Opens the file and its tokenizer. The path becomes opened->path: allocated, freed by `close`,
 * which is called in any case. */
enum locus_status locus_opened_model_open(struct locus_opened_model *opened, char *path,
                                          locus_error *error);
/* Fills opened->sha; reads all of the file. */
enum locus_status locus_opened_model_hash(struct locus_opened_model *opened, locus_error *error);
void locus_opened_model_close(struct locus_opened_model *opened);

/* A text as its file has it. */
struct locus_text {
    const char *name; /* the path's last part; "-" for standard input */
    const char *path;
    struct locus_buffer bytes;
    char sha[17]; /* first digits of its SHA-256; "" before it is asked for */
};

struct locus_text_list {
    struct locus_text *items;
    int n_items;
    char sha[17]; /* of all digests, one after another */
};

/* A new last text, empty, of the path, which is not copied; NULL: out of memory. */
struct locus_text *locus_text_list_add(struct locus_text_list *list, const char *path);
/* Fills the `sha` of the list and of every text. */
void locus_text_list_hash(struct locus_text_list *list);
void locus_text_list_free(struct locus_text_list *list);

#endif
