/* Vocabularies that are none: what a checkpoint must hold to have a tokenizer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "testing.h"
#include "tokenizer/tokenizer.h"
#include "variant.h"
#include "vocabularies.h"

static void text(struct variant *variant, const char *key, const char *value)
{
    locus_writer_string(variant_writer(variant), key, value, strlen(value));
}

static void no_model(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.model");
}

static void other_model(struct variant *variant)
{
    no_model(variant);
    text(variant, "tokenizer.ggml.model", "bert");
}

static void number_for_a_model(struct variant *variant)
{
    no_model(variant);
    locus_writer_u32(variant_writer(variant), "tokenizer.ggml.model", 1);
}

static void other_pattern(struct variant *variant)
{
    text(variant, "tokenizer.ggml.pre", "gpt-5");
}

static void number_for_a_pattern(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "tokenizer.ggml.pre", 1);
}

static void no_merges(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.merges");
}

static void numbers_for_merges(struct variant *variant)
{
    no_merges(variant);
    locus_writer_i32s(variant_writer(variant), "tokenizer.ggml.merges", (const int32_t[]){1}, 1);
}

static void one_piece_for_merges(struct variant *variant)
{
    no_merges(variant);
    locus_writer_strings(variant_writer(variant), "tokenizer.ggml.merges",
                         (const char *const[]){"h e", "he"}, (const size_t[]){3, 2}, 2);
}

static void no_tokens(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.tokens");
}

static void empty_tokens(struct variant *variant)
{
    no_tokens(variant);
    variant_drop(variant, "tokenizer.ggml.token_type");
    locus_writer_strings(variant_writer(variant), "tokenizer.ggml.tokens", NULL, NULL, 0);
}

static void few_types(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.token_type");
    locus_writer_i32s(variant_writer(variant), "tokenizer.ggml.token_type", (const int32_t[]){1},
                      1);
}

static void text_for_types(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.token_type");
    text(variant, "tokenizer.ggml.token_type", "1");
}

static void far_end(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.eos_token_id");
    locus_writer_u32(variant_writer(variant), "tokenizer.ggml.eos_token_id", 100000);
}

static void no_scores(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.scores");
}

static void few_scores(struct variant *variant)
{
    no_scores(variant);
    locus_writer_f32s(variant_writer(variant), "tokenizer.ggml.scores", (const float[]){1}, 1);
}

static void text_for_scores(struct variant *variant)
{
    no_scores(variant);
    text(variant, "tokenizer.ggml.scores", "1");
}

/* ---- keys that a tokenizer must not pass over ---------------------------------------------- */

static void flag(struct variant *variant, const char *key)
{
    locus_writer_bool(variant_writer(variant), key, true);
}

static void ids(struct variant *variant, const char *key, int32_t id)
{
    locus_writer_i32s(variant_writer(variant), key, (const int32_t[]){0, id}, 2);
}

static void begin_without_token(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.bos_token_id");
    flag(variant, "tokenizer.ggml.add_bos_token");
}

static void end_without_token(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.eos_token_id");
    flag(variant, "tokenizer.ggml.add_eos_token");
}

static void number_for_begin(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "tokenizer.ggml.add_bos_token", 1);
}

static void text_for_end(struct variant *variant)
{
    text(variant, "tokenizer.ggml.add_eos_token", "true");
}

static void number_for_a_space(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "tokenizer.ggml.add_space_prefix", 1);
}

static void space_before(struct variant *variant)
{
    flag(variant, "tokenizer.ggml.add_space_prefix");
}

static void no_merges_used(struct variant *variant)
{
    flag(variant, "locus.tokenizer.ignore_merges");
}

static void number_for_no_merges(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "locus.tokenizer.ignore_merges", 1);
}

static void far_lstrip(struct variant *variant)
{
    ids(variant, "locus.tokenizer.lstrip", 282);
}

static void negative_rstrip(struct variant *variant)
{
    ids(variant, "locus.tokenizer.rstrip", -1);
}

static void half_a_single_word(struct variant *variant)
{
    locus_writer_f32s(variant_writer(variant), "locus.tokenizer.single_word", (const float[]){0.5F},
                      1);
}

static void text_for_lstrip(struct variant *variant)
{
    text(variant, "locus.tokenizer.lstrip", "all");
}

static void unknown_own_key(struct variant *variant)
{
    flag(variant, "locus.tokenizer.normalised");
}

static void unknown_key(struct variant *variant)
{
    flag(variant, "tokenizer.ggml.add_bos_tokens");
}

static void more_tokens_than_rows(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "locus.vocab_size", 281);
}

/* Puts numbers into the place of an array, the first of them another. */
static void put_first(struct variant *variant, const char *key, float value, float others, size_t n)
{
    float numbers[512];
    for (size_t i = 0; i < n; i++)
        numbers[i] = i ? others : value;
    variant_drop(variant, key);
    locus_writer_f32s(variant_writer(variant), key, numbers, n);
}

static void type_77(struct variant *variant)
{
    put_first(variant, "tokenizer.ggml.token_type", 77, 1, 282);
}

static void half_a_type(struct variant *variant)
{
    put_first(variant, "tokenizer.ggml.token_type", 1.5F, 1, 282);
}

static void no_score(struct variant *variant)
{
    put_first(variant, "tokenizer.ggml.scores", NAN, -1, 284);
}

static void endless_score(struct variant *variant)
{
    put_first(variant, "tokenizer.ggml.scores", -INFINITY, -1, 284 - 256);
}

/* ---- Unigram ------------------------------------------------------------------------------- */

enum { PIECES = 3, N_UNIGRAM = 284 - 256 };

/* Two pieces, the third and fourth of all, as they are given. */
static void put_pieces(struct variant *variant, const char *first, const char *second)
{
    const char *texts[N_UNIGRAM];
    size_t lengths[N_UNIGRAM];
    char names[N_UNIGRAM][8];
    for (size_t i = 0; i < N_UNIGRAM; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        texts[i] = i == PIECES ? first : i == PIECES + 1 ? second : names[i];
        lengths[i] = strlen(texts[i]);
    }
    variant_drop(variant, "tokenizer.ggml.tokens");
    locus_writer_strings(variant_writer(variant), "tokenizer.ggml.tokens", texts, lengths,
                         N_UNIGRAM);
}

static void empty_piece(struct variant *variant)
{
    put_pieces(variant, "a", "");
}

static void twice_a_piece(struct variant *variant)
{
    put_pieces(variant, "\u2581a", " a");
}

static void no_unknown(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.unknown_token_id");
    put_first(variant, "tokenizer.ggml.token_type", 3, 1, N_UNIGRAM);
}

static void no_pieces(struct variant *variant)
{
    put_first(variant, "tokenizer.ggml.token_type", 2, 3, N_UNIGRAM);
}

static void other_prefix(struct variant *variant)
{
    text(variant, "locus.tokenizer.prefix", "last");
}

static void number_for_a_prefix(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "locus.tokenizer.prefix", 1);
}

static void each_prefix(struct variant *variant)
{
    text(variant, "locus.tokenizer.prefix", "each");
}

static void number_for_a_normalizer(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "locus.tokenizer.normalizer", 1);
}

static void numbers_for_a_normalizer(struct variant *variant)
{
    ids(variant, "locus.tokenizer.normalizer", 1);
}

static void a_normalizer(struct variant *variant)
{
    locus_writer_strings(variant_writer(variant), "locus.tokenizer.normalizer",
                         (const char *const[]){"nfc"}, (const size_t[]){3}, 1);
}

static void merges_wanted(struct variant *variant)
{
    flag(variant, "locus.tokenizer.merges");
}

static void number_for_merges(struct variant *variant)
{
    locus_writer_u32(variant_writer(variant), "locus.tokenizer.merges", 0);
}

static void words_apart(struct variant *variant)
{
    flag(variant, "locus.tokenizer.split");
}

static void fewer_blanks(struct variant *variant)
{
    flag(variant, "tokenizer.ggml.remove_extra_whitespaces");
}

static void separator(struct variant *variant)
{
    flag(variant, "tokenizer.ggml.add_sep_token");
}

static void lower_case(struct variant *variant)
{
    flag(variant, "tokenizer.ggml.normalizer.lowercase");
}

static void no_accents(struct variant *variant)
{
    flag(variant, "tokenizer.ggml.normalizer.strip_accents");
}

static void other_characters(struct variant *variant)
{
    ids(variant, "tokenizer.ggml.precompiled_charsmap", 1);
}

enum kind { BPE, SENTENCEPIECE, UNIGRAM, BYTES };

static const char *vocabulary(enum kind kind)
{
    if (kind == BPE) return vocabulary_bpe(NULL);
    if (kind == UNIGRAM) return vocabulary_unigram(0);
    return kind == SENTENCEPIECE ? vocabulary_sentencepiece(1) : vocabulary_bytes();
}

static const struct refusal {
    enum kind kind;
    void (*change)(struct variant *variant);
    const char *says[2];
} refusals[] = {
    {BPE, no_model, {"holds no tokenizer", "tokenizer.ggml.model is absent"}},
    {BPE, other_model, {"tokenizer.ggml.model is \"bert\"", "expected gpt2, llama, t5 or bytes"}},
    {BPE, number_for_a_model, {"tokenizer.ggml.model is not a string"}},
    {BPE, other_pattern, {"unknown tokenizer.ggml.pre \"gpt-5\"", "nearest known is \"gpt-2\""}},
    {BPE, number_for_a_pattern, {"tokenizer.ggml.pre is not a string"}},
    {BPE, no_merges, {"tokenizer.ggml.merges is absent", "expected strings"}},
    {BPE, numbers_for_merges, {"tokenizer.ggml.merges is something else", "expected strings"}},
    {BPE, one_piece_for_merges, {"merges[1] is \"he\"", "expected two pieces"}},
    {BPE, no_tokens, {"tokenizer.ggml.tokens is absent", "expected strings"}},
    {BPE, empty_tokens, {"tokenizer.ggml.tokens is empty"}},
    {BPE, few_types, {"token_type has 1 entries", "expected 282"}},
    {BPE, text_for_types, {"token_type is not an array of numbers"}},
    {BPE, far_end, {"eos_token_id is 100000", "expected 0 to 281"}},
    {SENTENCEPIECE, no_tokens, {"tokenizer.ggml.tokens is absent", "expected strings"}},
    {SENTENCEPIECE, empty_tokens, {"tokenizer.ggml.tokens is empty"}},
    {SENTENCEPIECE, no_scores, {"tokenizer.ggml.scores is absent", "expected numbers"}},
    {SENTENCEPIECE, few_scores, {"tokenizer.ggml.scores has 1 entries", "expected 284"}},
    {SENTENCEPIECE, text_for_scores, {"tokenizer.ggml.scores is something else"}},
    {BPE, begin_without_token, {"add_bos_token is true", "tokenizer.ggml.bos_token_id is absent"}},
    {BPE, end_without_token, {"add_eos_token is true", "tokenizer.ggml.eos_token_id is absent"}},
    {SENTENCEPIECE, begin_without_token, {"add_bos_token is true", "bos_token_id is absent"}},
    {BYTES, end_without_token, {"add_eos_token is true", "eos_token_id is absent"}},
    {BPE, number_for_begin, {"tokenizer.ggml.add_bos_token is not true or false"}},
    {SENTENCEPIECE, text_for_end, {"tokenizer.ggml.add_eos_token is not true or false"}},
    {BPE, number_for_a_space, {"tokenizer.ggml.add_space_prefix is not true or false"}},
    {SENTENCEPIECE, number_for_a_space, {"add_space_prefix is not true or false"}},
    {BYTES, space_before, {"add_space_prefix is true", "bytes have no space"}},
    {SENTENCEPIECE, no_merges_used, {"ignore_merges is true", "only byte-level BPE"}},
    {BYTES, no_merges_used, {"ignore_merges is true", "only byte-level BPE"}},
    {BPE, number_for_no_merges, {"locus.tokenizer.ignore_merges is not true or false"}},
    {BPE, number_for_merges, {"locus.tokenizer.merges is not true or false"}},
    {BPE, far_lstrip, {"locus.tokenizer.lstrip[1] is 282", "expected 0 to 281"}},
    {SENTENCEPIECE, negative_rstrip, {"locus.tokenizer.rstrip[1] is -1", "expected 0 to 283"}},
    {BPE, half_a_single_word, {"locus.tokenizer.single_word[0] is 0.5", "expected 0 to 281"}},
    {BPE, text_for_lstrip, {"locus.tokenizer.lstrip is not an array of token ids"}},
    {BPE, unknown_own_key, {"unknown locus.tokenizer.normalised", "locus.tokenizer.normalized"}},
    {BPE, unknown_key, {"unknown tokenizer.ggml.add_bos_tokens", "tokenizer.ggml.add_bos_token"}},
    {BPE, more_tokens_than_rows, {"tokens has 282 entries", "no more than locus.vocab_size, 281"}},
    {BPE, type_77, {"token_type[0] is 77, expected 1 to 6"}},
    {BPE, half_a_type, {"token_type[0] is 1.5, expected 1 to 6"}},
    {SENTENCEPIECE, no_score, {"tokenizer.ggml.scores[0] is nan, expected a finite number"}},
    {UNIGRAM, endless_score, {"tokenizer.ggml.scores[0] is -inf, expected a finite number"}},
    {UNIGRAM, no_scores, {"tokenizer.ggml.scores is absent", "expected numbers"}},
    {UNIGRAM, few_scores, {"tokenizer.ggml.scores has 1 entries", "expected 28"}},
    {UNIGRAM, text_for_scores, {"tokenizer.ggml.scores is something else"}},
    {UNIGRAM, empty_piece, {"tokenizer.ggml.tokens[4] is empty, expected a piece"}},
    {UNIGRAM, twice_a_piece, {"tokens[3] and [4] are the same piece"}},
    {UNIGRAM, no_unknown, {"unknown_token_id is absent, and no token stands for byte 0x00"}},
    {UNIGRAM, no_pieces, {"token_type has no piece of type 1 (normal)"}},
    {UNIGRAM, no_merges_used, {"ignore_merges is true", "only byte-level BPE"}},
    {UNIGRAM, merges_wanted, {"locus.tokenizer.merges is true", "BPE"}},
    {UNIGRAM, other_prefix, {"prefix is \"last\", expected none, first or each"}},
    {UNIGRAM, number_for_a_prefix, {"locus.tokenizer.prefix is not a string"}},
    {BPE, each_prefix, {"locus.tokenizer.prefix is set", "llama and t5 alone"}},
    {BPE, number_for_a_normalizer, {"locus.tokenizer.normalizer is no array of strings"}},
    {UNIGRAM, numbers_for_a_normalizer, {"locus.tokenizer.normalizer is no array of strings"}},
    {BYTES, a_normalizer, {"locus.tokenizer.normalizer is set", "bytes are taken as they are"}},
    {BYTES, merges_wanted, {"locus.tokenizer.merges is true", "BPE"}},
    {BYTES, words_apart, {"locus.tokenizer.split is true", "llama and t5 alone"}},
    {BPE, words_apart, {"locus.tokenizer.split is true", "llama and t5 alone"}},
    {SENTENCEPIECE, fewer_blanks, {"tokenizer.ggml.remove_extra_whitespaces is true"}},
    {BPE, separator, {"tokenizer.ggml.add_sep_token is true"}},
    {BPE, lower_case, {"tokenizer.ggml.normalizer.lowercase is true"}},
    {BYTES, no_accents, {"tokenizer.ggml.normalizer.strip_accents is true"}},
    {SENTENCEPIECE, other_characters, {"tokenizer.ggml.precompiled_charsmap is set"}},
    {BYTES, empty_tokens, {"has 0 entries", "expected at least 256"}},
    {BYTES, far_end, {"eos_token_id is 100000", "expected 0 to 256"}},
};

START_TEST(refusal_names_file_field_found_and_expected)
{
    const struct refusal *refusal = &refusals[_i];
    struct variant *variant = variant_begin(vocabulary(refusal->kind));
    refusal->change(variant);
    locus_error error = {0};
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(variant_finish(variant), &error);
    ck_assert_msg(checkpoint != NULL, "%s", error.message);
    ck_assert_ptr_null(locus_tokenizer_from_checkpoint(checkpoint, NULL));
    ck_assert_ptr_null(locus_tokenizer_from_checkpoint(checkpoint, &error));
    ck_assert_int_ne(error.status, LOCUS_OK);
    ck_assert_msg(strstr(error.message, "variant.gguf") != NULL, "%s", error.message);
    for (int i = 0; i < 2 && refusal->says[i]; i++)
        ck_assert_msg(strstr(error.message, refusal->says[i]) != NULL, "no \"%s\": %s",
                      refusal->says[i], error.message);
    locus_checkpoint_free(checkpoint);
}
END_TEST

START_TEST(tokenizer_says_what_it_is)
{
    static const struct {
        const char *kind;
        int n_tokens;
    } wanted[] = {
        {"byte-level BPE", 282}, {"SentencePiece BPE", 284}, {"Unigram", 28}, {"bytes", 257}};
    for (int i = 0; i < 4; i++) {
        locus_error error = {0};
        struct locus_checkpoint *checkpoint =
            locus_checkpoint_open(vocabulary((enum kind)i), &error);
        locus_tokenizer *tokenizer = locus_tokenizer_from_checkpoint(checkpoint, &error);
        ck_assert_msg(tokenizer != NULL, "%s", error.message);
        ck_assert_str_eq(locus_tokenizer_kind(tokenizer), wanted[i].kind);
        ck_assert_int_eq(locus_tokenizer_n_tokens(tokenizer), wanted[i].n_tokens);
        locus_tokenizer_free(tokenizer);
        locus_checkpoint_free(checkpoint);
    }
    locus_tokenizer_free(NULL);
}
END_TEST

/* Files of before token types: the ids of begin, end and unknown say what is special. */
START_TEST(vocabulary_without_types_has_its_special_tokens)
{
    locus_error error = {0};
    struct variant *variant = variant_begin(vocabulary_sentencepiece(1));
    variant_drop(variant, "tokenizer.ggml.token_type");
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(variant_finish(variant), &error);
    locus_tokenizer *tokenizer = locus_tokenizer_from_checkpoint(checkpoint, &error);
    ck_assert_msg(tokenizer != NULL, "%s", error.message);
    int32_t *tokens;
    size_t n_tokens, n_bytes;
    ck_assert_int_eq(
        locus_encode(tokenizer, "</s>\xFF", 5, LOCUS_TEXT_SPECIAL, &tokens, &n_tokens, &error),
        LOCUS_OK);
    ck_assert_uint_eq(n_tokens, 3);
    ck_assert_int_eq(tokens[0], 2);
    ck_assert_int_eq(tokens[1], 3 + 256); /* the space before what follows */
    ck_assert_int_eq(tokens[2], 3 + 0xFF);
    const char *piece = locus_token_piece(tokenizer, tokens[1], tokens[2], 0, &n_bytes);
    ck_assert(n_bytes == 1 && *piece == '\xFF');
    locus_token_piece(tokenizer, -1, 1, 0, &n_bytes);
    ck_assert_uint_eq(n_bytes, 0);
    free(tokens);
    locus_tokenizer_free(tokenizer);
    locus_checkpoint_free(checkpoint);
}
END_TEST

/* Keys that say what is done anyway, and those that no text's tokens depend on. */
START_TEST(keys_without_effect_are_not_refused)
{
    locus_error error = {0};
    struct variant *variant = variant_begin(vocabulary_sentencepiece(1));
    struct locus_checkpoint_writer *writer = variant_writer(variant);
    static const char *const off[] = {
        "tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.add_sep_token",
        "tokenizer.ggml.normalizer.lowercase", "locus.tokenizer.ignore_merges"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        locus_writer_bool(writer, off[i], false);
    locus_writer_i32s(writer, "tokenizer.ggml.precompiled_charsmap", NULL, 0);
    locus_writer_i32s(writer, "locus.tokenizer.lstrip", NULL, 0);
    locus_writer_u32(writer, "tokenizer.ggml.padding_token_id", 0);
    text(variant, "tokenizer.chat_template", "{{ messages }}");
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(variant_finish(variant), &error);
    locus_tokenizer *tokenizer = locus_tokenizer_from_checkpoint(checkpoint, &error);
    ck_assert_msg(tokenizer != NULL, "%s", error.message);
    ck_assert_ptr_null(locus_tokenizer_assumed(tokenizer));
    locus_tokenizer_free(tokenizer);
    locus_checkpoint_free(checkpoint);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vocabulary");
    TCase *tests = tcase_create("vocabulary");
    tcase_add_loop_test(tests, refusal_names_file_field_found_and_expected, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, tokenizer_says_what_it_is);
    tcase_add_test(tests, vocabulary_without_types_has_its_special_tokens);
    tcase_add_test(tests, keys_without_effect_are_not_refused);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
