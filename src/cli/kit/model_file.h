/* The model a command works on: the one named, or the bundled one. */
#ifndef LOCUS_CLI_MODEL_FILE_H
#define LOCUS_CLI_MODEL_FILE_H

#include "cli/kit/options.h"

/* The path of the checkpoint to open, to be freed: -m, else $LOCUS_MODEL, else models/tales.gguf
 * found from the program's own place. NULL with the exit status in *status, the places looked at
 * having been said. */
char *locus_model_file(const struct locus_common *common, int *status);

/* Notes what was assumed where that file is silent (NULL: nothing); not if `quiet`. */
void locus_model_file_note(const char *path, const char *assumed, bool quiet);

#endif
