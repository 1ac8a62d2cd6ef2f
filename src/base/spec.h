/* SPECs: NAME[:key=value[,key=value]...]. Position schemes and cache policies are named by them.
 *
 *     text -> NAME, pairs -> each pair by a table of parameters -> values -> text again
 */
#ifndef LOCUS_BASE_SPEC_H
#define LOCUS_BASE_SPEC_H

#include "base/buffer.h"
#include "base/text.h"
#include "locus_position.h"

/* ---- pieces of a text --------------------------------------------------------------------- */

/* Its NAME. */
struct locus_word locus_spec_name(const char *text);

/* Its next pair, from *rest = past the name on; false: there is none left. */
bool locus_spec_next(const char **rest, struct locus_word *pair);

/* A pair's two halves; false: there is no key before a '='. */
bool locus_spec_split(struct locus_word pair, struct locus_word *key, struct locus_word *value);

/* In a list of choices, "half|adjacent": the index of the word, from 0, or -1. */
int locus_choice_find(const char *choices, struct locus_word word);

/* ---- messages ----------------------------------------------------------------------------- */

/* A SPEC, and how messages speak of it. */
struct locus_spec_source {
    const char *text;
    const char *origin;       /* "position", "the checkpoint's position", "attention" */
    enum locus_status status; /* of an error in it */
    locus_error *error;
    bool unbound; /* no model is known, whose own values may go with these */
};

/* Fails in one line: origin, text (cut if it is long), and what is wrong with it. */
__attribute__((format(printf, 2, 3))) enum locus_status
locus_spec_refuse(const struct locus_spec_source *source, const char *format, ...);

/* Fails for a NAME that nothing has: `what` is "scheme" or "policy", and the right names have been
 * offered to `suggestion`. */
enum locus_status locus_spec_refuse_name(const struct locus_spec_source *source, const char *what,
                                         const struct locus_suggestion *suggestion);

/* ---- parameters --------------------------------------------------------------------------- */

/* How many a table has; one more than LOCUS_MAX_PARAMS where that is too many. NULL: 0. */
int locus_params_count(const struct locus_param *params);

/* The index of a key, or -1. */
int locus_params_find(const struct locus_param *params, struct locus_word key);

/* A value as text has it: a choice's index, a number, or -1 - i for word i that may stand for a
 * number. False: the text is none of them. The range is not looked at. */
bool locus_param_parse(const struct locus_param *param, struct locus_word text, double *value);

/* Whether a value is one of the words that may stand for a number. */
bool locus_param_is_word(const struct locus_param *param, double value);

/* Appends a value as locus_param_parse reads it. */
void locus_param_print(const struct locus_param *param, double value, struct locus_buffer *out);

/* Appends what values there are: "a whole number from 1 to 8, or auto", "one of half|adjacent". */
void locus_param_print_range(const struct locus_param *param, struct locus_buffer *out);

/* ---- reading ------------------------------------------------------------------------------ */

/* Whose parameters they are. */
struct locus_spec_table {
    const char *name;
    const struct locus_param *params;
    const struct locus_param *common; /* that others have, too: their values come after; or NULL */
    const char *const
        *more; /* further keys, which the caller has read already; ends with NULL; or NULL */
};

/* What a SPEC says of them. */
struct locus_spec_values {
    double values[LOCUS_MAX_VALUES];
    uint32_t given; /* bit i: values[i] is set */
};

/* Takes in one pair. A key that is unknown or given twice, and a value out of range, are refused
 * with what was expected. */
enum locus_status locus_spec_read_pair(struct locus_spec_values *values,
                                       const struct locus_spec_source *source,
                                       const struct locus_spec_table *table,
                                       struct locus_word pair);

/* Fails for a key that is given twice. */
enum locus_status locus_spec_refuse_twice(const struct locus_spec_source *source,
                                          struct locus_word key);

#endif
