/* Words of byte-level BPE: every pattern's, as the tokenizers library cuts them with the pattern
 * that its models publish, and what the patterns' names say besides.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "testing.h"
#include "tokenizer/patterns.h"
#include "tokenizer/words.h"
#include "vocabularies.h"

/* A word more of a list that is written with dots between. */
static enum locus_status append_word(void *context, const char *word, size_t n_bytes,
                                     locus_error *error)
{
    (void)error;
    struct locus_buffer *list = context;
    if (list->length) locus_buffer_append(list, "\u00B7", 2);
    locus_buffer_append(list, word, n_bytes);
    return LOCUS_OK;
}

static struct locus_words *open_words(const char *path)
{
    locus_error error = {0};
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(path, &error);
    ck_assert_msg(checkpoint != NULL, "%s", error.message);
    struct locus_words *words = locus_words_create(checkpoint, &error);
    ck_assert_msg(words != NULL, "%s", error.message);
    locus_checkpoint_free(checkpoint);
    return words;
}

static void check_words(const struct locus_words *words, const char *name, const char *text,
                        const char *wanted)
{
    locus_error error = {0};
    struct locus_buffer list = {0};
    ck_assert_int_eq(locus_words_each(words, text, strlen(text), append_word, &list, &error),
                     LOCUS_OK);
    ck_assert_msg(!strcmp(list.bytes, wanted), "%s: '%s' is cut into '%s', expected '%s'", name,
                  text, list.bytes, wanted);
    locus_buffer_free(&list);
}

static const char text[] = "I'll say'S: cafés 12345 =>\t$9,99 ٣½!?\n\n  ABCdef camelCase XY中文ひ "
                           "Éab नि(`x²`)…/\n 한국. \r\n\u3000z  ";

/* What tokenizers 0.23 makes of it. */
static const struct {
    const char *name, *words;
} cases[] = {
    {"gpt-2", "I·'ll· say·'·S·:· cafés· 12345· =>·\t·$·9·,·99· ٣½·!?·\n\n · ABCdef· camelCase· "
              "XY中文ひ· Éab· न·ि(`·x·²·`)…/·\n· 한국·.· \r\n·\u3000·z·  "},
    {"starcoder", "I·'ll· say·'·S·:· cafés· ·1·2·3·4·5· =>·\t·$·9·,·9·9· ·٣·½·!?·\n\n · ABCdef· "
                  "camelCase· XY中文ひ· Éab· न·ि(`·x·²·`)…/·\n· 한국·.· \r\n·\u3000·z·  "},
    {"llama-bpe", "I·'ll· say·'S·:· cafés· ·123·45· =>·\t·$·9·,·99· ·٣½·!?\n\n· · ABCdef· "
                  "camelCase· XY中文ひ· Éab· न·ि(`·x·²·`)…/\n· 한국·.· \r\n·\u3000z·  "},
    {"nanochat", "I·'ll· say·'S·:· cafés· ·12·34·5· =>·\t·$·9·,·99· ·٣½·!?\n\n· · ABCdef· "
                 "camelCase· XY中文ひ· Éab· न·ि(`·x·²·`)…/\n· 한국·.· \r\n·\u3000z·  "},
    {"qwen2", "I·'ll· say·'S·:· cafés· ·1·2·3·4·5· =>·\t·$·9·,·9·9· ·٣·½·!?\n\n· · ABCdef· "
              "camelCase· XY中文ひ· Éab· न·ि(`·x·²·`)…/\n· 한국·.· \r\n·\u3000z·  "},
    {"qwen35", "I·'ll· say·'S·:· cafés· ·1·2·3·4·5· =>·\t·$·9·,·9·9· ·٣·½·!?\n\n· · ABCdef· "
               "camelCase· XY中文ひ· Éab· नि·(`·x·²·`)…/\n· 한국·.· \r\n·\u3000z·  "},
    {"gpt-4o", "I'll· say'S·:· cafés· ·123·45· =>·\t·$·9·,·99· ·٣½·!?\n\n· · ABCdef· camel·Case· "
               "XY中文ひ· Éab· नि·(`·x·²·`)…/\n· 한국·.· \r\n·\u3000z·  "},
    {"tekken", "I·'ll· say·'S·:· cafés· ·1·2·3·4·5· =>·\t·$·9·,·9·9· ·٣·½·!?\n\n· · ABCdef· "
               "camel·Case· XY中文ひ· Éab· नि·(`·x·²·`)…/\n· 한국·.· \r\n·\u3000z·  "},
    {"bloom", "I'll· say'S:· cafés· 12345· =>·\t·$9·,·99· ٣½·!?\n\n · ABCdef· camelCase· XY中文ひ· "
              "Éab· नि·(·`x²`·)…·/·\n· 한국·. \r\n\u3000·z·  "},
    {"viking", "I'll· say'S:· cafés· ·1·2·3·4·5· =>·\t·$·9·,·9·9· ·٣·½·!?\n\n · ABCdef· camelCase· "
               "XY中文ひ· Éab· नि·(·`x·²·`·)…·/·\n· 한국·. \r\n\u3000·z·  "},
    {"falcon", "I·'·ll· say·'·S·:· cafés· ·123·45· ·=>·\t·$·9·,·99· ٣½·!?·\n\n · ABCdef· "
               "camelCase· XY中文ひ· Éab· न·ि·(`·x·²·`)…/·\n· 한국·.· \r\n·\u3000·z·  "},
    {"default", "I·'·ll· say·'·S·:· cafés· ·123·45· ·=>·\t·$·9·,·99· ·٣½·!?·\n\n · ABCdef· "
                "camelCase· XY中文ひ· Éab· न·ि·(·`·x·²·`·)…/·\n· 한국·.· \r\n·\u3000·z·  "},
    {"deepseek-llm",
     "I·'·ll· say·'·S·:· caf·é·s· ·12345· =>·\t$·9·,·99· ·٣½·!?·\n·\n· · ABCdef· camelCase· "
     "XY·中文ひ· É·ab· ·नि·(`·x·²·`)·…·/·\n· ·한국·.· ·\r·\n·\u3000·z·  "},
    {"deepseek-coder",
     "I·'·ll· say·'·S·:· cafés· ·1·2·3·4·5· =>\t$·9·,·9·9· ·٣·½·!?·\n·\n· · ABCdef· camelCase· "
     "XY·中文ひ· Éab· ·न·ि·(·`·x·²·`·)·…·/·\n· ·한국·.· ·\r·\n·\u3000·z·  "},
    {"deepseek-v3", "I·'ll· say·'S·:· cafés· ·123·45· =>·\t·$·9·,·99· ·٣½·!?\n\n· · ABCdef· "
                    "camelCase· XY·中文ひ· Éab· नि·(`·x·²·`)…/\n· 한국·.· \r\n·\u3000z·  "},
};

START_TEST(words_are_those_of_the_published_pattern)
{
    struct locus_words *words = open_words(vocabulary_bpe(cases[_i].name));
    check_words(words, cases[_i].name, text, cases[_i].words);
    locus_words_free(words);
}
END_TEST

/* Names that share a pattern, and what they say besides: W, a word that is a token is not merged;
 * B, texts begin with begin-of-text. */
static const struct {
    const char *like, *flags, *names;
} families[] = {
    {"gpt-2", "",
     "gpt-2 phi-2 mpt olmo jais exaone4 trillion granite-docling gigachat a.x-4.0 mellum "
     "modern-bert jina-es jina-de jina-v2-es jina-v2-de"},
    {"default", "", "default"},
    {"starcoder", "", "starcoder refact codeshell command-r smollm exaone minerva-7b mellum2"},
    {"llama-bpe", "WB",
     "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"},
    {"llama-bpe", "", "dbrx smaug-bpe glm4 chatglm-bpe"},
    {"qwen2", "",
     "qwen2 stablelm2 deepseek-r1-qwen megrez hunyuan solar-open grok-2 kormo f2llmv2"},
    {"nanochat", "", "nanochat"},
    {"qwen35", "", "qwen35"},
    {"gpt-4o", "", "gpt-4o llama4 kanana2 talkie minimax-m2"},
    {"tekken", "WB", "tekken"},
    {"bloom", "", "bloom gpt3-finnish poro-chat"},
    {"viking", "", "viking"},
    {"falcon", "", "falcon"},
    {"deepseek-llm", "", "deepseek-llm"},
    {"deepseek-coder", "", "deepseek-coder"},
    {"deepseek-v3", "", "deepseek-v3 hunyuan-dense joyai-llm hy_v4"},
};

static bool is_listed(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at += length)
        if ((at == names || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
    return false;
}

START_TEST(every_name_has_its_pattern)
{
    for (size_t i = 0; locus_pattern_at(i); i++) {
        const struct locus_pattern *pattern = locus_pattern_at(i), *like = NULL;
        const char *nearest, *flags = "";
        for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
            if (!is_listed(families[f].names, pattern->name)) continue;
            flags = families[f].flags;
            struct locus_word name = {families[f].like, strlen(families[f].like)};
            like = locus_pattern_find(name, &nearest);
        }
        ck_assert_msg(like && like->passes == pattern->passes, "%s has no pattern", pattern->name);
        ck_assert_msg(pattern->whole == !!strchr(flags, 'W'), "%s", pattern->name);
        ck_assert_msg(pattern->begin == !!strchr(flags, 'B'), "%s", pattern->name);
        locus_words_free(open_words(vocabulary_bpe(pattern->name)));
    }
}
END_TEST

START_TEST(every_published_name_is_known)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        const char *nearest = NULL;
        for (const char *at = families[f].names; *at; at += strspn(at, " ")) {
            struct locus_word name = {at, strcspn(at, " ")};
            ck_assert_msg(locus_pattern_find(name, &nearest) != NULL, "%s", at);
            at += name.n_bytes;
        }
    }
}
END_TEST

START_TEST(what_was_assumed_is_said)
{
    static const struct {
        const char *pre, *says;
    } silent[] = {
        {NULL, "has no tokenizer.ggml.pre"},
        {"default", "tokenizer.ggml.pre is \"default\""},
        {"gpt-2", NULL},
        {"llama-bpe", NULL},
    };
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        struct locus_words *words = open_words(vocabulary_bpe(silent[i].pre));
        const char *assumed = locus_words_assumed(words);
        ck_assert(!assumed == !silent[i].says);
        if (assumed) ck_assert_msg(strstr(assumed, silent[i].says) != NULL, "%s", assumed);
        if (!silent[i].pre) check_words(words, "none", text, cases[0].words);
        locus_words_free(words);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("words");
    TCase *tests = tcase_create("words");
    tcase_add_loop_test(tests, words_are_those_of_the_published_pattern, 0,
                        sizeof cases / sizeof *cases);
    tcase_add_test(tests, every_name_has_its_pattern);
    tcase_add_test(tests, every_published_name_is_known);
    tcase_add_test(tests, what_was_assumed_is_said);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
