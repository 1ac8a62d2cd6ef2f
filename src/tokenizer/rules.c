/* The merge table of byte-level BPE: see rules.h. */
#include "tokenizer/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum locus_status locus_rules_create(struct locus_rules *rules, size_t count, locus_error *error)
{
    size_t n_slots = 16;
    while (n_slots < 2 * count)
        n_slots *= 2;
    *rules = (struct locus_rules){.mask = n_slots - 1};
    rules->slots = malloc(n_slots * sizeof *rules->slots);
    if (!rules->slots) return locus_fail_memory(error, n_slots * sizeof *rules->slots);
    memset(rules->slots, 0xFF, n_slots * sizeof *rules->slots); /* left = -1: empty */
    return LOCUS_OK;
}

void locus_rules_free(struct locus_rules *rules)
{
    free(rules->slots);
    free(rules->others);
    *rules = (struct locus_rules){0};
}

/* The slot of two tokens, or the empty one where they belong; NULL: neither is near. */
static struct locus_rule *slot_of(const struct locus_rules *rules, int32_t left, int32_t right,
                                  size_t *n_compared)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio: spreads neighbouring ids */
    size_t first = (size_t)(key >> 32);
    for (size_t i = 0; i < LOCUS_PROBES; i++) {
        struct locus_rule *rule = &rules->slots[(first + i) & rules->mask];
        if (n_compared) ++*n_compared;
        if (rule->left < 0 || (rule->left == left && rule->right == right)) return rule;
    }
    return NULL;
}

enum locus_status locus_rules_add(struct locus_rules *rules, struct locus_rule rule,
                                  locus_error *error)
{
    struct locus_rule *slot = slot_of(rules, rule.left, rule.right, NULL);
    if (slot) {
        if (slot->left < 0) *slot = rule;
        return LOCUS_OK;
    }
    void *others = rules->others;
    if (!locus_array_grow(&others, rules->n_others, &rules->other_capacity, sizeof rule))
        return locus_fail_memory(error, rules->n_others * sizeof rule);
    rules->others = others;
    rules->others[rules->n_others++] = rule;
    return LOCUS_OK;
}

static int compare_pairs(const struct locus_rule *a, int32_t left, int32_t right)
{
    if (a->left != left) return a->left < left ? -1 : 1;
    return a->right < right ? -1 : a->right > right;
}

static int compare_rules(const void *left, const void *right)
{
    const struct locus_rule *a = left, *b = right;
    int order = compare_pairs(a, b->left, b->right);
    return order ? order : a->rank < b->rank ? -1 : a->rank > b->rank;
}

void locus_rules_sort(struct locus_rules *rules)
{
    if (rules->n_others)
        qsort(rules->others, rules->n_others, sizeof *rules->others, compare_rules);
}

/* The first of the others for two tokens. */
static const struct locus_rule *find_other(const struct locus_rules *rules, int32_t left,
                                           int32_t right, size_t *n_compared)
{
    const struct locus_rule *found = NULL;
    for (size_t low = 0, high = rules->n_others; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = compare_pairs(&rules->others[middle], left, right);
        if (n_compared) ++*n_compared;
        if (order == 0) found = &rules->others[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return found;
}

const struct locus_rule *locus_rules_find(const struct locus_rules *rules, int32_t left,
                                          int32_t right, size_t *n_compared)
{
    const struct locus_rule *slot = slot_of(rules, left, right, n_compared);
    if (slot) return slot->left < 0 ? NULL : slot;
    return find_other(rules, left, right, n_compared);
}

bool locus_rules_merge(const struct locus_rules *rules, const struct locus_symbol *left,
                       const struct locus_symbol *right, uint32_t *rank, int32_t *id)
{
    const struct locus_rule *rule = NULL;
    if (left->id >= 0 && right->id >= 0) rule = locus_rules_find(rules, left->id, right->id, NULL);
    if (!rule) return false;
    *rank = rule->rank;
    *id = rule->id;
    return true;
}

/* ---- the file's merges -------------------------------------------------------------------- */

#define KEY "tokenizer.ggml.merges"

/* Where the second piece of "left right" begins; NULL: the line is no two pieces. */
static const char *second_piece(const char *line, size_t n_bytes)
{
    const char *space = n_bytes > 1 ? memchr(line + 1, ' ', n_bytes - 1) : NULL;
    return space && space + 1 < line + n_bytes ? space + 1 : NULL;
}

struct reader {
    struct locus_rules *rules;
    const struct locus_piece_map *pieces;
    locus_piece_decoder *decode;
    const char **lines;
    size_t *lengths, count;
    char *scratch; /* room for the longest line */
};

/* The token whose text that is, or -1; its bytes are put at `out`. */
static int32_t find_piece(const struct reader *reader, const char *text, size_t n_bytes, char *out,
                          size_t *n_out)
{
    uint8_t type = LOCUS_TOKEN_NORMAL;
    *n_out = reader->decode(text, n_bytes, true, out, &type);
    if (type != LOCUS_TOKEN_NORMAL) return -1;
    return locus_piece_map_find(reader->pieces, out, *n_out, NULL);
}

static enum locus_status add_line(const struct reader *reader, size_t i, locus_error *error)
{
    const char *line = reader->lines[i], *end = line + reader->lengths[i];
    const char *second = second_piece(line, reader->lengths[i]);
    if (!second) return LOCUS_OK; /* check_lines has refused it */
    size_t n_left, n_right;
    struct locus_rule rule = {.rank = (uint32_t)i};
    rule.left = find_piece(reader, line, (size_t)(second - 1 - line), reader->scratch, &n_left);
    if (rule.left < 0) return LOCUS_OK;
    rule.right =
        find_piece(reader, second, (size_t)(end - second), reader->scratch + n_left, &n_right);
    if (rule.right < 0) return LOCUS_OK;
    rule.id = locus_piece_map_find(reader->pieces, reader->scratch, n_left + n_right, NULL);
    return rule.id < 0 ? LOCUS_OK : locus_rules_add(reader->rules, rule, error);
}

static enum locus_status check_lines(const struct reader *reader, const char *path,
                                     locus_error *error)
{
    for (size_t i = 0; i < reader->count; i++)
        if (!second_piece(reader->lines[i], reader->lengths[i]))
            return locus_fail(error, LOCUS_ERROR_FORMAT,
                              "%s: " KEY "[%zu] is \"%.*s\", expected two pieces and a space "
                              "between",
                              path, i, (int)(reader->lengths[i] < 40 ? reader->lengths[i] : 40),
                              reader->lines[i]);
    return LOCUS_OK;
}

static enum locus_status read_lines(struct reader *reader,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    size_t longest = 0;
    reader->lines = calloc(reader->count + 1, sizeof *reader->lines);
    reader->lengths = calloc(reader->count + 1, sizeof *reader->lengths);
    if (!reader->lines || !reader->lengths)
        return locus_fail_memory(error, reader->count * sizeof *reader->lines);
    (void)locus_checkpoint_array_strings(checkpoint, KEY, reader->lines, reader->lengths);
    for (size_t i = 0; i < reader->count; i++)
        longest = reader->lengths[i] > longest ? reader->lengths[i] : longest;
    reader->scratch = malloc(longest + 1);
    if (!reader->scratch) return locus_fail_memory(error, longest);
    return check_lines(reader, locus_checkpoint_path(checkpoint), error);
}

enum locus_status locus_rules_read(struct locus_rules *rules,
                                   const struct locus_checkpoint *checkpoint,
                                   const struct locus_piece_map *pieces,
                                   locus_piece_decoder *decode, locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint);
    enum locus_value_type type;
    struct reader reader = {.rules = rules, .pieces = pieces, .decode = decode};
    if (!locus_checkpoint_array(checkpoint, KEY, &type, &reader.count) ||
        type != LOCUS_VALUE_STRING)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " KEY " is %s, expected strings", path,
                          locus_checkpoint_has(checkpoint, KEY) ? "something else" : "absent");
    if (reader.count > UINT32_MAX / 4)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " KEY " has %zu entries, at most %u",
                          path, reader.count, UINT32_MAX / 4);
    enum locus_status status = locus_rules_create(rules, reader.count, error);
    if (!status) status = read_lines(&reader, checkpoint, error);
    for (size_t i = 0; !status && i < reader.count; i++)
        status = add_line(&reader, i, error);
    if (!status) locus_rules_sort(rules);
    free(reader.lines);
    free(reader.lengths);
    free(reader.scratch);
    return status;
}
