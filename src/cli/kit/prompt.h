/* The text a command works on, byte for byte. */
#ifndef LOCUS_CLI_PROMPT_H
#define LOCUS_CLI_PROMPT_H

#include "base/buffer.h"

/* Appends `text` (-p), or the file's bytes ("-": standard input), or, both being NULL, standard
 * input unless that is a terminal. Returns -1 to go on, or the exit status; giving both `text` and
 * `file` is wrong usage of `command`. */
int locus_prompt_read(const char *command, const char *text, const char *file,
                      struct locus_buffer *prompt);

#endif
