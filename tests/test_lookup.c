/* Tables of a tokenizer whose keys are the file's: no choice of them makes a search long. */
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "tokenizer/rules.h"
#include "tokenizer/vocabulary.h"

enum { N = 2048, LOG2_N = 11, MASK = 4095 }; /* keys; slots of their table, less one */

/* ---- merge rules --------------------------------------------------------------------------- */

/* The n-th right token, from 0, whose pair with token 0 belongs in the table's first slot: what a
 * file would choose. */
static int32_t next_colliding(int32_t right)
{
    while ((uint64_t)(uint32_t)right * 0x9E3779B97F4A7C15u >> 32 & MASK)
        right++;
    return right;
}

START_TEST(chosen_merges_are_found_in_few_steps)
{
    locus_error error = {0};
    struct locus_rules rules;
    int32_t *rights = calloc(N + 1, sizeof *rights);
    ck_assert_ptr_nonnull(rights);
    ck_assert_int_eq(locus_rules_create(&rules, N, &error), LOCUS_OK);
    for (int32_t i = 0, right = 1; i <= N; i++, right++)
        rights[i] = right = next_colliding(right);
    for (int again = 0; again < 2; again++) /* of two for one pair the first counts */
        for (int32_t i = N - 1; i >= 0; i--) {
            struct locus_rule rule = {0, rights[i], (uint32_t)(i + again * N), i + again};
            ck_assert_int_eq(locus_rules_add(&rules, rule, &error), LOCUS_OK);
        }
    locus_rules_sort(&rules);
    size_t most = 0;
    for (int32_t i = 0; i <= N; i++) {
        size_t n_compared = 0;
        const struct locus_rule *rule = locus_rules_find(&rules, 0, rights[i], &n_compared);
        ck_assert_int_eq(rule == NULL, i == N);
        if (rule) ck_assert(rule->id == i && rule->rank == (uint32_t)i);
        if (n_compared > most) most = n_compared;
    }
    /* They did collide: all slots that a search looks at are full. With each rule twice, the list
     * is once more as long. */
    ck_assert_uint_gt(most, LOCUS_PROBES);
    ck_assert_uint_le(most, LOCUS_PROBES + LOG2_N + 2);
    locus_rules_free(&rules);
    free(rights);
}
END_TEST

START_TEST(ordinary_merges_are_found_at_once)
{
    locus_error error = {0};
    struct locus_rules rules;
    size_t n_compared = 0;
    ck_assert_int_eq(locus_rules_create(&rules, N, &error), LOCUS_OK);
    for (int32_t i = 0; i < N; i++) {
        struct locus_rule rule = {i % 61, i / 61, (uint32_t)i, i};
        ck_assert_int_eq(locus_rules_add(&rules, rule, &error), LOCUS_OK);
    }
    locus_rules_sort(&rules);
    for (int32_t i = 0; i < N; i++) {
        const struct locus_rule *rule = locus_rules_find(&rules, i % 61, i / 61, &n_compared);
        ck_assert(rule && rule->id == i);
        ck_assert_ptr_null(locus_rules_find(&rules, i % 61, N + i, NULL));
    }
    ck_assert_uint_lt(n_compared, 4 * N);
    locus_rules_free(&rules);
}
END_TEST

/* ---- pieces -------------------------------------------------------------------------------- */

static uint64_t fnv(const unsigned char *bytes, size_t n_bytes)
{
    uint64_t value = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n_bytes; i++)
        value = (value ^ bytes[i]) * 0x100000001B3u;
    return value ^ value >> 32;
}

/* N pieces of four bytes that belong in one slot, each twice, and one more that is in no map. */
static void choose_pieces(struct locus_vocabulary *vocabulary, char other[4])
{
    *vocabulary = (struct locus_vocabulary){.n_tokens = 2 * N, .bos = -1, .eos = -1, .unknown = -1};
    vocabulary->bytes = calloc(2 * N, 4);
    vocabulary->offsets = calloc(2 * N + 1, sizeof *vocabulary->offsets);
    vocabulary->types = calloc(2 * N, 1);
    ck_assert(vocabulary->bytes && vocabulary->offsets && vocabulary->types);
    uint32_t counter = 0;
    for (size_t i = 0; i <= N; i++) {
        while (fnv((const unsigned char *)&counter, 4) & (2 * MASK + 1))
            counter++;
        char *at = i < N ? vocabulary->bytes + 4 * i : other;
        memcpy(at, &counter, 4);
        if (i < N) memcpy(at + sizeof counter * N, &counter, 4);
        counter++;
    }
    for (size_t i = 0; i < 2 * N; i++) {
        vocabulary->offsets[i + 1] = 4 * (i + 1);
        vocabulary->types[i] = LOCUS_TOKEN_NORMAL;
    }
}

START_TEST(chosen_pieces_are_found_in_few_steps)
{
    locus_error error = {0};
    struct locus_vocabulary vocabulary;
    struct locus_piece_map map;
    char other[4];
    size_t most = 0, n_compared = 0;
    choose_pieces(&vocabulary, other);
    ck_assert_int_eq(locus_piece_map_create(&map, &vocabulary, 1u << LOCUS_TOKEN_NORMAL, &error),
                     LOCUS_OK);
    for (int32_t i = 0; i < N; i++, n_compared = 0) {
        ck_assert_int_eq(
            locus_piece_map_find(&map, vocabulary.bytes + 4 * (size_t)i, 4, &n_compared), i);
        if (n_compared > most) most = n_compared;
    }
    ck_assert_uint_gt(most, LOCUS_PROBES);
    ck_assert_uint_le(most, LOCUS_PROBES + LOG2_N + 2);
    ck_assert_int_eq(locus_piece_map_find(&map, other, 4, &n_compared), -1);
    ck_assert_uint_le(n_compared, LOCUS_PROBES + LOG2_N + 2);
    locus_piece_map_free(&map);
    locus_vocabulary_free(&vocabulary);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lookup");
    TCase *tests = tcase_create("lookup");
    tcase_add_test(tests, chosen_merges_are_found_in_few_steps);
    tcase_add_test(tests, ordinary_merges_are_found_at_once);
    tcase_add_test(tests, chosen_pieces_are_found_in_few_steps);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
