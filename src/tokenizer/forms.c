/* Changes of a text's characters: see forms.h. utf8proc has Unicode's tables. */
#include "tokenizer/forms.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/array.h"
#include "base/utf8.h"

bool locus_form_is_blank(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

static void append_code(struct locus_buffer *out, int32_t code)
{
    utf8proc_uint8_t bytes[4];
    locus_buffer_append(out, bytes, (size_t)utf8proc_encode_char(code, bytes));
}

/* ---- normal forms ------------------------------------------------------------------------- */

enum { LONGEST = 32, FEW = 16 }; /* code points of one decomposed: 18 at most */

/* Characters that may act on each other. */
struct codes {
    int32_t *values, *others; /* others: room to sort in, as much */
    size_t n, capacity, other_capacity;
    bool failed;
};

static void add_code(struct codes *codes, int32_t code)
{
    void *values = codes->values, *others = codes->others;
    if (!locus_array_grow(&values, codes->n, &codes->capacity, sizeof *codes->values) ||
        !locus_array_grow(&others, codes->n, &codes->other_capacity, sizeof *codes->others))
        codes->failed = true;
    codes->values = values;
    codes->others = others;
    if (!codes->failed) codes->values[codes->n++] = code;
}

static int combining_class(int32_t code)
{
    return utf8proc_get_property(code)->combining_class;
}

/* Sorts marks by their classes, those of one class as they stand. A text may be marks alone, so
 * that many are counted, not moved one by one. */
static void sort_marks(int32_t *marks, int32_t *others, size_t n)
{
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            int32_t mark = marks[i];
            size_t at = i;
            for (; at > 0 && combining_class(marks[at - 1]) > combining_class(mark); at--)
                marks[at] = marks[at - 1];
            marks[at] = mark;
        }
        return;
    }
    size_t starts[257] = {0};
    for (size_t i = 0; i < n; i++)
        starts[combining_class(marks[i]) + 1]++;
    for (int class = 0; class < 256; class ++)
        starts[class + 1] += starts[class];
    for (size_t i = 0; i < n; i++)
        others[starts[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, others, n * sizeof *marks);
}

static void put_in_order(struct codes *codes)
{
    for (size_t at = 0, end; at < codes->n; at = end) {
        end = at + 1;
        if (combining_class(codes->values[at]) == 0) continue;
        while (end < codes->n && combining_class(codes->values[end]) != 0)
            end++;
        sort_marks(codes->values + at, codes->others, end - at);
    }
}

/* Writes what is collected, and starts anew. */
static void flush(struct codes *codes, struct locus_buffer *out, bool composed)
{
    put_in_order(codes);
    size_t n = codes->n;
    if (composed && n > 0)
        n = (size_t)utf8proc_normalize_utf32(codes->values, (utf8proc_ssize_t)n,
                                             UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (size_t i = 0; i < n; i++)
        append_code(out, codes->values[i]);
    codes->n = 0;
}

static void add_decomposed(struct codes *codes, int32_t code, utf8proc_option_t options)
{
    int32_t parts[LONGEST];
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(code, parts, LONGEST, options, &last);
    if (n <= 0 || n > LONGEST) {
        add_code(codes, code);
        return;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        add_code(codes, parts[i]);
}

void locus_form_append(struct locus_buffer *out, const char *text, size_t n_bytes, bool composed,
                       bool compatible)
{
    unsigned options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    struct codes codes = {0};
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = locus_utf8_character(text + at, n_bytes - at);
        /* ASCII is its own form, and nothing before it is joined to it. */
        bool ends = length == 0 || (length == 1 && (unsigned char)text[at] < 0x80);
        if (ends && codes.n > 0) flush(&codes, out, composed);
        if (length == 0) {
            length = 1;
            locus_buffer_append(out, text + at, 1);
            continue;
        }
        if (ends) {
            size_t run = at + 1;
            while (run < n_bytes && (unsigned char)text[run] < 0x80)
                run++;
            length = run - at;
            locus_buffer_append(out, text + at, length - 1);
            add_code(&codes, (unsigned char)text[run - 1]); /* a mark may follow */
            continue;
        }
        add_decomposed(&codes, (int32_t)locus_utf8_code(text + at, (int)length),
                       (utf8proc_option_t)options);
    }
    flush(&codes, out, composed);
    out->failed |= codes.failed;
    free(codes.values);
    free(codes.others);
}

/* ---- characters one by one ---------------------------------------------------------------- */

void locus_form_lowercase(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    enum { CAPITAL_I_WITH_DOT = 0x130 }; /* the only one whose lower case is two characters */
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = locus_utf8_character(text + at, n_bytes - at);
        uint32_t code = length ? locus_utf8_code(text + at, (int)length) : 0;
        if (code == CAPITAL_I_WITH_DOT)
            locus_buffer_append(out, "i\u0307", 3);
        else if (length)
            append_code(out, utf8proc_tolower((int32_t)code));
        else
            locus_buffer_append(out, text + at, length = 1);
    }
}

void locus_form_strip_marks(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = locus_utf8_character(text + at, n_bytes - at);
        uint32_t code = length ? locus_utf8_code(text + at, (int)length) : 0;
        utf8proc_category_t category = utf8proc_category((int32_t)code);
        if (length == 0) length = 1;
        bool mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                    category == UTF8PROC_CATEGORY_ME;
        if (!mark) locus_buffer_append(out, text + at, length);
    }
}
