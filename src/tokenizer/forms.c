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

/* The length of the character at `at`, or of a byte that is none, and its code point, or -1. */
static size_t next_code(const char *text, size_t n_bytes, size_t at, int32_t *code)
{
    size_t length = locus_utf8_character(text + at, n_bytes - at);
    *code = length ? (int32_t)locus_utf8_code(text + at, (int)length) : -1;
    return length ? length : 1;
}

void locus_form_lowercase(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    enum { CAPITAL_I_WITH_DOT = 0x130 }; /* the only one whose lower case is two characters */
    int32_t code;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = next_code(text, n_bytes, at, &code);
        if (code == CAPITAL_I_WITH_DOT)
            locus_buffer_append(out, "i\u0307", 3);
        else if (code >= 0)
            append_code(out, utf8proc_tolower(code));
        else
            locus_buffer_append(out, text + at, length);
    }
}

static bool is_of(int32_t code, unsigned categories)
{
    return code >= 0 && categories >> utf8proc_category(code) & 1;
}

#define BIT(category) (1u << UTF8PROC_CATEGORY_##category)
#define MARKS (BIT(MN) | BIT(MC) | BIT(ME))
#define OTHERS (BIT(CN) | BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO))
#define PUNCTUATION (BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO))

static void strip(struct locus_buffer *out, const char *text, size_t n_bytes, unsigned categories)
{
    int32_t code;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = next_code(text, n_bytes, at, &code);
        if (!is_of(code, categories)) locus_buffer_append(out, text + at, length);
    }
}

void locus_form_strip_marks(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    strip(out, text, n_bytes, MARKS);
}

/* ---- Bert's ways -------------------------------------------------------------------------- */

void locus_form_strip_accents(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    struct locus_buffer decomposed = {0};
    locus_form_append(&decomposed, text, n_bytes, false, false);
    if (!decomposed.failed) strip(out, decomposed.bytes, decomposed.length, BIT(MN));
    out->failed |= decomposed.failed;
    locus_buffer_free(&decomposed);
}

void locus_form_clean(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    enum { REPLACEMENT = 0xFFFD };
    int32_t code;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = next_code(text, n_bytes, at, &code);
        bool blank = code >= 0 && locus_form_is_blank((uint32_t)code);
        bool line = code == '\t' || code == '\n' || code == '\r';
        if (code == REPLACEMENT || (is_of(code, OTHERS) && !line)) continue;
        locus_buffer_append(out, blank ? " " : text + at, blank ? 1 : length);
    }
}

/* As Bert has them: blocks of CJK ideographs. */
static bool is_chinese(int32_t code)
{
    static const int32_t blocks[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                        {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                        {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (code >= blocks[i][0] && code <= blocks[i][1]) return true;
    return false;
}

void locus_form_part_chinese(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    int32_t code;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = next_code(text, n_bytes, at, &code);
        const size_t n_spaces = is_chinese(code) ? 1 : 0;
        locus_buffer_append(out, " ", n_spaces);
        locus_buffer_append(out, text + at, length);
        locus_buffer_append(out, " ", n_spaces);
    }
}

static bool is_punctuation(int32_t code)
{
    bool ascii = (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
                 (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
    return ascii || is_of(code, PUNCTUATION);
}

void locus_form_words(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    int32_t code;
    bool inside = false; /* a word that hasn't ended */
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = next_code(text, n_bytes, at, &code);
        bool blank = code >= 0 && locus_form_is_blank((uint32_t)code);
        bool mark = is_punctuation(code);
        if (inside && (blank || mark)) locus_buffer_append(out, " ", 1);
        inside = !blank && !mark;
        if (!blank) locus_buffer_append(out, text + at, length);
        if (mark) locus_buffer_append(out, " ", 1);
    }
    if (inside) locus_buffer_append(out, " ", 1);
}
