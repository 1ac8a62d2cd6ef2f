/* The commands: what there is, and help on them. */
#ifndef LOCUS_CLI_COMMANDS_H
#define LOCUS_CLI_COMMANDS_H

#include "cli/kit/options.h"

extern const struct locus_command locus_command_generate;
extern const struct locus_command locus_command_inspect;
extern const struct locus_command locus_command_tokenize;
extern const struct locus_command locus_command_positions;
extern const struct locus_command locus_command_quantize;
extern const struct locus_command locus_command_bench;
extern const struct locus_command locus_command_perplexity;
extern const struct locus_command locus_command_plot;
extern const struct locus_command locus_command_extrapolate;
extern const struct locus_command locus_command_help;

const struct locus_command *locus_command_at(size_t index); /* NULL past the last */
const struct locus_command *locus_command_find(const char *name);

/* Says on stderr that there is no such command, and which one may be meant; the exit status. */
int locus_command_unknown(const char *name);

/* What `locus` alone prints, on stderr; the exit status. */
int locus_help_missing(void);

/* Prints help on the whole program to stdout; the exit status. */
int locus_help_overview(void);

#endif
