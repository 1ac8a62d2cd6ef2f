/* The model a command works on: the one named, or the bundled one. */
#ifndef LOCUS_CLI_MODEL_FILE_H
#define LOCUS_CLI_MODEL_FILE_H

#include "cli/kit/options.h"
#include "experiment/inputs.h"

/* The path of the checkpoint to open, to be freed: -m, else $LOCUS_MODEL, else models/tales.gguf
 * found from the program's own place. NULL with the exit status in *status, the places looked at
 * having been said. */
char *locus_model_file(const struct locus_common *common, int *status);

/* The same without -m; and the bundled model that was trained with that scheme. To be freed; NULL,
 * and nothing is said, where there is none. */
char *locus_model_file_usual(void);
char *locus_model_file_of(const char *scheme);

/* Opens that file and its tokenizer. Returns -1 to go on, or the exit status; close in any case. */
int locus_model_option(struct locus_opened_model *opened, const struct locus_common *common);

/* Fills opened->sha, for results that go to a file; the same returns. */
int locus_model_hash_option(struct locus_opened_model *opened);

/* Notes what was assumed where that file is silent (NULL: nothing); not if `quiet`. */
void locus_model_file_note(const char *path, const char *assumed, bool quiet);

#endif
