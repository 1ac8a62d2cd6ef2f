/* JSON as it is written: see json.h. */
#include "cli/kit/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "base/utf8.h"

static void write_string(struct locus_buffer *out, const char *bytes, size_t n_bytes)
{
    locus_buffer_append(out, "\"", 1);
    for (size_t i = 0; i < n_bytes;) {
        size_t length = locus_utf8_character(bytes + i, n_bytes - i);
        unsigned char c = (unsigned char)bytes[i];
        const bool shown = locus_text_character(bytes + i, n_bytes - i) > 0;
        if (length == 0)
            locus_buffer_printf(out, "\\ufffd");
        else if (c == '"' || c == '\\')
            locus_buffer_printf(out, "\\%c", c);
        else if (c == '\n')
            locus_buffer_printf(out, "\\n");
        else if (c == '\t')
            locus_buffer_printf(out, "\\t");
        else if (!shown) /* none of them is past U+FFFF */
            locus_buffer_printf(out, "\\u%04x", (unsigned)locus_utf8_code(bytes + i, (int)length));
        else
            locus_buffer_append(out, bytes + i, length);
        i += length ? length : 1;
    }
    locus_buffer_append(out, "\"", 1);
}

/* What comes before a value. */
static void begin_value(struct locus_json *json, const char *key)
{
    if (json->comma) locus_buffer_append(json->out, ", ", 2);
    json->comma = true;
    if (!key) return;
    write_string(json->out, key, strlen(key));
    locus_buffer_append(json->out, ": ", 2);
}

void locus_json_open(struct locus_json *json, const char *key, char bracket)
{
    begin_value(json, key);
    locus_buffer_append(json->out, &bracket, 1);
    json->comma = false;
}

void locus_json_close(struct locus_json *json, char bracket)
{
    locus_buffer_append(json->out, &bracket, 1);
    json->comma = true;
}

void locus_json_bytes(struct locus_json *json, const char *key, const char *bytes, size_t n_bytes)
{
    begin_value(json, key);
    write_string(json->out, bytes, n_bytes);
}

void locus_json_text(struct locus_json *json, const char *key, const char *text)
{
    locus_json_bytes(json, key, text, strlen(text));
}

void locus_json_int(struct locus_json *json, const char *key, int64_t value)
{
    begin_value(json, key);
    locus_buffer_printf(json->out, "%" PRId64, value);
}

void locus_json_unsigned(struct locus_json *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    locus_buffer_printf(json->out, "%" PRIu64, value);
}

void locus_json_float(struct locus_json *json, const char *key, float value)
{
    begin_value(json, key);
    char text[40] = "null";
    for (int digits = 6; isfinite(value) && digits <= 9; digits++) {
        locus_print(text, sizeof text, "%.*g", digits, (double)value);
        if ((float)locus_number_read(text, NULL) == value) break;
    }
    locus_buffer_printf(json->out, "%s", text);
}

void locus_json_number(struct locus_json *json, const char *key, const char *number)
{
    begin_value(json, key);
    locus_buffer_printf(json->out, "%s", number ? number : "null");
}

void locus_json_measure(struct locus_json *json, const char *key, double value)
{
    begin_value(json, key);
    if (isfinite(value))
        locus_buffer_printf(json->out, "%.3f", value);
    else
        locus_buffer_printf(json->out, "null");
}

void locus_json_bool(struct locus_json *json, const char *key, bool value)
{
    begin_value(json, key);
    locus_buffer_printf(json->out, value ? "true" : "false");
}

void locus_json_row(struct locus_json *json, const struct locus_row *row)
{
    for (enum locus_column i = 0; i < LOCUS_N_COLUMNS; i++) {
        const char *name = locus_column_name(i), *cell = row->cells[i];
        if (cell && locus_column_is_text(i))
            locus_json_text(json, name, cell);
        else
            locus_json_number(json, name,
                              cell && isfinite(locus_number_read(cell, NULL)) ? cell : NULL);
    }
}
