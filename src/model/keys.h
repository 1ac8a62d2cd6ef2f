/* A family's metadata, read key by key.
 *
 * What is read is remembered: a key of the family that nothing has asked for might change the
 * result, and is refused in the end. Absent keys leave *value as it is, so that defaults are set
 * before. A key that may differ by layer may be an array of one value a layer; equal ones are read
 * as that value.
 */
#ifndef LOCUS_MODEL_KEYS_H
#define LOCUS_MODEL_KEYS_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

struct locus_keys {
    const struct locus_checkpoint *checkpoint;
    const char *family; /* general.architecture: keys are "<family>.<key>" */
    int n_layer;        /* entries of an array of one value a layer; 0: not known yet */
    bool *asked;        /* [n_keys] of the checkpoint */
    locus_error *error;
    char full[96]; /* the key of the last call, with its family */
};

/* Release in any case. */
enum locus_status locus_keys_begin(struct locus_keys *keys,
                                   const struct locus_checkpoint *checkpoint, const char *family,
                                   locus_error *error);
void locus_keys_end(struct locus_keys *keys);

/* Whether the key is there; it then counts as asked for. */
bool locus_keys_has(struct locus_keys *keys, const char *key);

/* Whether the key of the last call is one number; else it may be flags. */
bool locus_keys_is_number(const struct locus_keys *keys);
/* What the key of the last call is, where it's neither a number nor a flag or an array of flags:
 * "a text", ...; else NULL. */
const char *locus_keys_neither(const struct locus_keys *keys);

/* An integer of [min, max]; `needed`: absent is an error. */
enum locus_status locus_keys_int(struct locus_keys *keys, const char *key, int min, int max,
                                 int *value);
enum locus_status locus_keys_needed_int(struct locus_keys *keys, const char *key, int max,
                                        int *value);
/* A number from min to 1e30. */
enum locus_status locus_keys_number(struct locus_keys *keys, const char *key, double min,
                                    double *value);
enum locus_status locus_keys_float(struct locus_keys *keys, const char *key, double min,
                                   float *value);
enum locus_status locus_keys_bool(struct locus_keys *keys, const char *key, bool *value);
/* A flag a layer, or one for all: *flags is [n_layer], to be freed in any case. */
enum locus_status locus_keys_flags(struct locus_keys *keys, const char *key, bool **flags);
/* A count from 0 to max a layer, or one for all, which is needed: values[n_layer]. */
enum locus_status locus_keys_counts(struct locus_keys *keys, const char *key, int max, int *values);
/* One of n_names words; *value becomes its index. */
enum locus_status locus_keys_choice(struct locus_keys *keys, const char *key,
                                    const char *const *names, int n_names, int *value);
/* One of n_names words a layer, or one for all: values[n_layer]. */
enum locus_status locus_keys_choices(struct locus_keys *keys, const char *key,
                                     const char *const *names, int n_names, int *values);

/* Refuses, by name, what can't be served: a key of something that the decoder hasn't got, unless
 * its value says that it is off, and any key of the family that nothing asked for. */
enum locus_status locus_keys_check_rest(struct locus_keys *keys);

#endif
