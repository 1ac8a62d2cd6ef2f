/* A table of characters that are replaced: see charsmap.h. */
#include "tokenizer/charsmap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

#define KEY "tokenizer.ggml.precompiled_charsmap"

/* ---- the file's bytes --------------------------------------------------------------------- */

static uint32_t number_at(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* The key's numbers as bytes, which some writers sign. */
static enum locus_status read_bytes(uint8_t *bytes, const struct locus_checkpoint *checkpoint,
                                    size_t count, locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint);
    double *values = calloc(count, sizeof *values);
    if (!values) return locus_fail_memory(error, count * sizeof *values);
    enum locus_status status = LOCUS_OK;
    if (!locus_checkpoint_array_numbers(checkpoint, KEY, values))
        status =
            locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " KEY " is not an array of bytes", path);
    for (size_t i = 0; i < count && !status; i++) {
        if (values[i] >= -128 && values[i] <= 255 && floor(values[i]) == values[i])
            bytes[i] = (uint8_t)(int)values[i];
        else
            status = locus_fail(error, LOCUS_ERROR_FORMAT,
                                "%s: " KEY "[%zu] is %g, expected a byte", path, i, values[i]);
    }
    free(values);
    return status;
}

/* Finds the parts of a table of that many bytes. */
static enum locus_status read_parts(struct locus_charsmap *charsmap, const char *path, size_t count,
                                    locus_error *error)
{
    size_t size = count < 4 ? 0 : number_at(charsmap->bytes);
    if (count < 4 || size == 0 || size % 4 != 0 || size > count - 4)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: " KEY " has %zu bytes and a trie of %zu, expected a multiple of 4 "
                          "that fits",
                          path, count, size);
    charsmap->n_units = size / 4;
    charsmap->text = (const char *)charsmap->bytes + 4 + size;
    charsmap->n_text = count - 4 - size;
    if (charsmap->n_text > 0 && charsmap->text[charsmap->n_text - 1] == '\0') return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_FORMAT,
                      "%s: " KEY " doesn't end with the NUL of its last replacement", path);
}

enum locus_status locus_charsmap_read(struct locus_charsmap *charsmap,
                                      const struct locus_checkpoint *checkpoint, locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint), *text;
    enum locus_value_type type;
    size_t count = 0;
    *charsmap = (struct locus_charsmap){0};
    if (!locus_checkpoint_has(checkpoint, KEY)) return LOCUS_OK;
    bool is_text = locus_checkpoint_string(checkpoint, KEY, &text, &count);
    if (!is_text && (!locus_checkpoint_array(checkpoint, KEY, &type, &count) ||
                     (count > 0 && (type == LOCUS_VALUE_STRING || type == LOCUS_VALUE_BOOL))))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " KEY " is not an array of bytes", path);
    if (count == 0) return LOCUS_OK;
    charsmap->bytes = calloc(count, 1);
    if (!charsmap->bytes) return locus_fail_memory(error, count);
    enum locus_status status = LOCUS_OK;
    if (is_text)
        memcpy(charsmap->bytes, text, count);
    else
        status = read_bytes(charsmap->bytes, checkpoint, count, error);
    if (!status) status = read_parts(charsmap, path, count, error);
    if (status) locus_charsmap_free(charsmap);
    return status;
}

void locus_charsmap_free(struct locus_charsmap *charsmap)
{
    free(charsmap->bytes);
    *charsmap = (struct locus_charsmap){0};
}

/* ---- the trie ----------------------------------------------------------------------------- */

/* A unit of darts-clone's double array: a child's byte is its label, and its value stands in a unit
 * of its own. */
static uint32_t unit_at(const struct locus_charsmap *charsmap, uint32_t index)
{
    return number_at(charsmap->bytes + 4 + 4 * (size_t)index);
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* An entry is a few characters; a table with a loop in it has none that ends. */
enum { LONGEST_ENTRY = 256 };

/* Where the replacement of the shortest, or the longest, entry that the bytes begin with stands in
 * `text`; SIZE_MAX: there is none. *n_taken: bytes of the entry. */
static size_t find(const struct locus_charsmap *charsmap, const char *bytes, size_t n_bytes,
                   bool longest, size_t *n_taken)
{
    size_t found = SIZE_MAX, most = n_bytes < LONGEST_ENTRY ? n_bytes : LONGEST_ENTRY;
    uint32_t index = offset_of(unit_at(charsmap, 0));
    for (size_t i = 0; i < most && bytes[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        index ^= byte;
        if (index >= charsmap->n_units) break;
        uint32_t unit = unit_at(charsmap, index);
        if ((unit & (1u << 31 | 0xFF)) != byte) break;
        index ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        if (index >= charsmap->n_units) break;
        size_t value = unit_at(charsmap, index) & ~(1u << 31);
        if (value >= charsmap->n_text) break;
        found = value;
        *n_taken = i + 1;
        if (!longest) break;
    }
    return found;
}

static void append_replacement(const struct locus_charsmap *charsmap, struct locus_buffer *out,
                               size_t found)
{
    const char *text = charsmap->text + found; /* the last byte of all is NUL */
    locus_buffer_append(out, text, strlen(text));
}

void locus_charsmap_append(const struct locus_charsmap *charsmap, struct locus_buffer *out,
                           const char *text, size_t n_bytes)
{
    for (size_t at = 0, length; at < n_bytes; at += length) {
        size_t found = find(charsmap, text + at, n_bytes - at, true, &length);
        if (found != SIZE_MAX) {
            append_replacement(charsmap, out, found);
            continue;
        }
        length = locus_utf8_character(text + at, n_bytes - at);
        if (length == 0) length = 1;
        locus_buffer_append(out, text + at, length);
    }
}

/* Appends the replacement of what a character or a grapheme begins with; false: there is none. */
static bool append_whole(const struct locus_charsmap *charsmap, struct locus_buffer *out,
                         const char *text, size_t n_bytes)
{
    size_t n_taken, found = find(charsmap, text, n_bytes, false, &n_taken);
    if (found != SIZE_MAX) append_replacement(charsmap, out, found);
    return found != SIZE_MAX;
}

/* Bytes of the grapheme that the text begins with; a byte that is no UTF-8 is one. */
static size_t grapheme(const char *text, size_t n_bytes)
{
    size_t length = locus_utf8_character(text, n_bytes), end = length;
    if (length == 0) return 1;
    utf8proc_int32_t state = 0;
    for (int32_t before = (int32_t)locus_utf8_code(text, (int)length); end < n_bytes;) {
        length = locus_utf8_character(text + end, n_bytes - end);
        if (length == 0) break;
        int32_t code = (int32_t)locus_utf8_code(text + end, (int)length);
        if (utf8proc_grapheme_break_stateful(before, code, &state)) break;
        before = code;
        end += length;
    }
    return end;
}

void locus_charsmap_append_graphemes(const struct locus_charsmap *charsmap,
                                     struct locus_buffer *out, const char *text, size_t n_bytes)
{
    enum { SHORT = 6 };
    for (size_t at = 0, end; at < n_bytes; at = end) {
        end = at + grapheme(text + at, n_bytes - at);
        if (end - at < SHORT && append_whole(charsmap, out, text + at, end - at)) continue;
        for (size_t i = at, length; i < end; i += length) {
            length = locus_utf8_character(text + i, end - i);
            if (length == 0) length = 1;
            if (!append_whole(charsmap, out, text + i, length))
                locus_buffer_append(out, text + i, length);
        }
    }
}
