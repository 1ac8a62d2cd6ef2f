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
