/* Options: one table a command parses its command line and prints its help. */
#ifndef LOCUS_CLI_OPTIONS_H
#define LOCUS_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum locus_option_type {
    LOCUS_OPTION_FLAG,    /* bool */
    LOCUS_OPTION_TEXT,    /* const char *, the argument itself */
    LOCUS_OPTION_TEXTS,   /* struct locus_texts: repeats */
    LOCUS_OPTION_ORDERED, /* struct locus_ordered: repeats, in one order with others of its offset
                           */
    LOCUS_OPTION_CHOICE,  /* const char *, one of `choices` */
    LOCUS_OPTION_INT,     /* int */
    LOCUS_OPTION_FLOAT,   /* float */
    LOCUS_OPTION_SEED,    /* uint64_t; -1 draws one, as if it weren't given */
    LOCUS_OPTION_HELP     /* prints the command's help and ends */
};

struct locus_texts {
    const char **items;
    int n_items;
};

struct locus_ordered {
    struct {
        int letter; /* of the option */
        const char *text;
    } * items;
    int n_items;
};

/* A row of a table; the table ends with a row whose name is NULL. Values go into a command's own
 * struct, which starts with a struct locus_common. */
struct locus_option {
    const char *name; /* without the dashes */
    int letter;       /* or 0 */
    enum locus_option_type type;
    size_t offset;        /* of the value in the struct */
    size_t given;         /* of a bool set when the option occurs; 0: none */
    const char *argument; /* what help calls it; NULL for a flag */
    const char *fallback; /* set before the command line is read; NULL: zero */
    double min, max;      /* INT and FLOAT; both 0: any */
    const char *choices;  /* CHOICE: "f32|f16|q8_0" */
    const char *help;     /* one line; NULL: accepted, not listed */
    const char
        *alias_of; /* another spelling of this option, and nothing else is set but the name */
};

/* What every command takes. */
struct locus_common {
    const char *model, *position, *attention, *cache_type, *kernels;
    int n_threads, n_context, n_batch; /* 0: not given */
    uint64_t seed;
    bool seed_given, quiet, verbose;
};

extern const struct locus_option locus_common_options[];

struct locus_command {
    const char *name;
    const char *summary;                /* one line */
    const char *usage;                  /* what follows "locus NAME", lines cut by '\n' */
    const char *details;                /* help's last paragraphs, a line each, or NULL */
    const struct locus_option *shared;  /* those of several commands, or NULL */
    const struct locus_option *options; /* its own, or NULL */
    size_t values_size;                 /* of its struct */
    bool takes_operands;
    bool runs_session; /* help lists all common options, not only those that find the model */
    int (*run)(void *values, int n_operands, char **operands);
};

/* Reads argv[1..] of a command into zeroed values. Returns -1 to go on, with the first operand's
 * index in *first_operand, or the exit status when all is said. Release in any case. */
int locus_options_parse(const struct locus_command *command, int argc, char **argv, void *values,
                        int *first_operand);
void locus_options_release(const struct locus_command *command, void *values);

/* Refuses an argument that belongs to no option, saying which may be meant; the exit status. */
int locus_options_stray(const struct locus_command *command, const char *word);

/* A seed that nobody can guess. */
uint64_t locus_seed_draw(void);

/* Prints help on a command to stdout; the exit status. */
int locus_options_help(const struct locus_command *command);

/* Appends the lines of a table's listed options; `last` ends it early after that option, or NULL.
 */
void locus_options_describe(const struct locus_option *options, const char *last,
                            struct locus_buffer *out);

#endif
