/* JSON as it is written, one value after another; commas take care of themselves. */
#ifndef LOCUS_CLI_JSON_H
#define LOCUS_CLI_JSON_H

#include "base/buffer.h"
#include "experiment/report.h"

struct locus_json {
    struct locus_buffer *out;
    bool comma; /* the next value comes after another */
};

/* `key` is NULL inside an array and for the outermost value. `bracket` is '{' or '[', '}' or ']'.
 */
void locus_json_open(struct locus_json *json, const char *key, char bracket);
void locus_json_close(struct locus_json *json, char bracket);

/* Any bytes: what is not UTF-8 becomes U+FFFD, a byte each. */
void locus_json_bytes(struct locus_json *json, const char *key, const char *bytes, size_t n_bytes);
void locus_json_text(struct locus_json *json, const char *key, const char *text);
void locus_json_int(struct locus_json *json, const char *key, int64_t value);
void locus_json_unsigned(struct locus_json *json, const char *key, uint64_t value);
/* The shortest decimal that reads back as the same float. */
void locus_json_float(struct locus_json *json, const char *key, float value);
/* A number as it is written; NULL: null. */
void locus_json_number(struct locus_json *json, const char *key, const char *number);
/* A measurement, to three decimals; no number at all is null. */
void locus_json_measure(struct locus_json *json, const char *key, double value);
void locus_json_bool(struct locus_json *json, const char *key, bool value);

/* An object's keys and values, one a column. */
void locus_json_row(struct locus_json *json, const struct locus_row *row);

#endif
