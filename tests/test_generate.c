/* locus generate: what a text begins and ends with, on a model that says its vocabulary, one token
 * after another, whatever else it was given. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "testing.h"

/* ---- the model ----------------------------------------------------------------------------- */

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };
enum { N_EMBD = 32, N_FF = 32, UNK = 0, BOS = 1, EOS = 2, SEP = 6, IM_END = 11 };

/* Token i is followed by token i + 1; the text after "x" is "ab<|sep|>c", an e with an accent whose
 * two bytes stand about <|mid|>, "<|im_end|>d7ae" and the end. */
static const struct {
    const char *text;
    int32_t type;
    int next;
} tokens[] = {
    {"<unk>", UNKNOWN, 1},    {"<s>", CONTROL, 2},
    {"</s>", CONTROL, 3},     {"\xE2\x96\x81x", NORMAL, 4},
    {"a", NORMAL, 5},         {"b", NORMAL, SEP},
    {"<|sep|>", CONTROL, 7},  {"c", NORMAL, 8},
    {"<0xC3>", BYTE, 9},      {"<|mid|>", CONTROL, 10},
    {"<0xA9>", BYTE, IM_END}, {"<|im_end|>", CONTROL, 12},
    {"d", NORMAL, 13},        {"7", NORMAL, 14},
    {"a", NORMAL, 15},        {"e", NORMAL, EOS},
};
enum { N_TOKENS = sizeof tokens / sizeof *tokens };

static void put_vocabulary(struct locus_checkpoint_writer *writer)
{
    const char *texts[N_TOKENS];
    size_t lengths[N_TOKENS];
    int32_t types[N_TOKENS];
    float scores[N_TOKENS] = {0};
    for (int i = 0; i < N_TOKENS; i++) {
        texts[i] = tokens[i].text;
        lengths[i] = strlen(texts[i]);
        types[i] = tokens[i].type;
    }
    locus_writer_string(writer, "tokenizer.ggml.model", "llama", 5);
    locus_writer_strings(writer, "tokenizer.ggml.tokens", texts, lengths, N_TOKENS);
    locus_writer_i32s(writer, "tokenizer.ggml.token_type", types, N_TOKENS);
    locus_writer_f32s(writer, "tokenizer.ggml.scores", scores, N_TOKENS);
    locus_writer_u32(writer, "tokenizer.ggml.bos_token_id", BOS);
    locus_writer_u32(writer, "tokenizer.ggml.eos_token_id", EOS);
    locus_writer_u32(writer, "tokenizer.ggml.unknown_token_id", UNK);
}

static void put_metadata(struct locus_checkpoint_writer *writer)
{
    static const struct {
        const char *key;
        uint32_t value;
    } counts[] = {{"locus.context_length", 64},
                  {"locus.embedding_length", N_EMBD},
                  {"locus.block_count", 1},
                  {"locus.feed_forward_length", N_FF},
                  {"locus.attention.head_count", 1}};
    static const char *const texts[][2] = {{"general.architecture", "locus"},
                                           {"locus.norm", "rmsnorm"},
                                           {"locus.activation", "relu"},
                                           {"locus.position", "none"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        locus_writer_string(writer, texts[i][0], texts[i][1], strlen(texts[i][1]));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        locus_writer_u32(writer, counts[i].key, counts[i].value);
}

/* Embeddings are rows of the identity, layers add nothing, and the head's row of a token has a 1
 * where its predecessors have theirs. `add` puts further metadata; NULL: none. */
static const char *write_model(void (*add)(struct locus_checkpoint_writer *writer))
{
    static float embedding[N_TOKENS][N_EMBD], head[N_TOKENS][N_EMBD], zeros[N_EMBD][N_EMBD];
    static const char *const matrices[] = {"attn_q",      "attn_k", "attn_v",
                                           "attn_output", "ffn_up", "ffn_down"};
    static const char *const norms[] = {"output_norm.weight", "blk.0.attn_norm.weight",
                                        "blk.0.ffn_norm.weight"};
    const int64_t table[] = {N_EMBD, N_TOKENS}, square[] = {N_EMBD, N_EMBD}, vector[] = {N_EMBD};
    float ones[N_EMBD];
    char names[6][32];
    locus_error error;
    const char *path = testing_temporary("chain.gguf");
    struct locus_checkpoint_writer *writer = locus_writer_create(&error);
    ck_assert_ptr_nonnull(writer);
    put_metadata(writer);
    put_vocabulary(writer);
    if (add) add(writer);
    for (int i = 0; i < N_TOKENS; i++)
        embedding[i][i] = head[tokens[i].next][i] = 1;
    for (int i = 0; i < N_EMBD; i++)
        ones[i] = 1;
    locus_writer_tensor(writer, "token_embd.weight", LOCUS_F32, 2, table, embedding);
    locus_writer_tensor(writer, "output.weight", LOCUS_F32, 2, table, head);
    for (int i = 0; i < 3; i++)
        locus_writer_tensor(writer, norms[i], LOCUS_F32, 1, vector, ones);
    for (int i = 0; i < 6; i++) {
        snprintf(names[i], sizeof names[i], "blk.0.%s.weight", matrices[i]);
        locus_writer_tensor(writer, names[i], LOCUS_F32, 2, square, zeros);
    }
    ck_assert_msg(locus_writer_finish(writer, path, &error) == LOCUS_OK, "%s", error.message);
    locus_writer_free(writer);
    return path;
}

/* ---- running the command ------------------------------------------------------------------- */

struct outcome {
    int status;
    char *out, *err; /* to be freed by forget */
};

static void forget(struct outcome *outcome)
{
    free(outcome->out);
    free(outcome->err);
}

#define GENERATE "generate -t 1 --temperature 0 "

/* Runs the program with its streams on these files; its exit status. Its arguments lie between
 * spaces, '' is an empty one. */
static int call(const char *model, const char *line, const char *out, const char *err)
{
    enum { MAX = 64 };
    const char *program = getenv("LOCUS_PROGRAM");
    char words[2048], *arguments[MAX];
    int n = 0, status = -1;
    snprintf(words, sizeof words, "locus %s", line);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        ck_assert_int_lt(n, MAX - 1);
        arguments[n++] = strcmp(word, "''") == 0 ? word + strlen(word) : word;
    }
    arguments[n] = NULL;
    setenv("LOCUS_MODEL", model, 1);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const char *const files[] = {"/dev/null", out, err};
        for (int i = 0; i < 3; i++) {
            const int file = open(files[i], O_RDWR | O_CREAT | O_APPEND | O_NOCTTY, 0600);
            if (file < 0 || dup2(file, i) < 0) _exit(126);
        }
        execv(program ? program : "build/locus", arguments);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "%s: a signal ended it", line);
    return WEXITSTATUS(status);
}

static struct outcome run_line(const char *model, const char *line)
{
    const char *out = testing_temporary("out"), *err = testing_temporary("err");
    struct outcome outcome = {.status = call(model, line, out, err)};
    outcome.out = testing_read(out, NULL);
    outcome.err = testing_read(err, NULL);
    return outcome;
}

static struct outcome run(const char *model, const char *options)
{
    char line[1536];
    snprintf(line, sizeof line, GENERATE "%s", options);
    return run_line(model, line);
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Runs "FIRST OPTIONS": it must be done, and each of the parts (NULL ends them) must be printed. */
static void check_prints(const char *model, const char *first, const char *options, ...)
{
    char all[1100];
    va_list parts;
    snprintf(all, sizeof all, "%s %s", first, options);
    struct outcome outcome = run(model, all);
    ck_assert_msg(outcome.status == 0, "%s: %s", options, outcome.err);
    va_start(parts, options);
    for (const char *part; (part = va_arg(parts, const char *));)
        ck_assert_msg(has(outcome.out, part), "%s: no %s in %s", options, part, outcome.out);
    va_end(parts);
    forget(&outcome);
}

/* ---- ends ---------------------------------------------------------------------------------- */

#define ACCENT "\xC3\xA9"
#define ALL "abc" ACCENT "d7ae"
#define SHOWN "ab<|sep|>c\xC3<|mid|>\xA9<|im_end|>d7ae</s>"
#define REASON(REASON, TEXT, TOKEN)                                                                \
    "\"finish_reason\": \"" REASON "\", \"finish_text\": " TEXT ", \"finish_token\": " TOKEN ","
#define AT_END REASON("end", "null", "2")
#define AT_LENGTH REASON("length", "null", "null")
#define AT_TEXT(TEXT) REASON("stop", "\"" TEXT "\"", "null")
#define AT_TOKEN(TOKEN) REASON("stop", "null", TOKEN)

static const struct ending {
    const char *options, *text, *reason;
} endings[] = {
    {"", ALL, AT_END},
    {"--special", SHOWN, AT_END},
    /* the text of a special token */
    {"--stop <|sep|>", "ab", AT_TEXT("<|sep|>")},
    {"--stop <|sep|> --special", "ab", AT_TEXT("<|sep|>")},
    {"--stop b<|sep|>c", "a", AT_TEXT("b<|sep|>c")},
    {"--stop b<|sep|>c --special", "a", AT_TEXT("b<|sep|>c")},
    {"--stop </s>", ALL, AT_TEXT("</s>")},
    {"--stop <|se", ALL, AT_END}, /* a part of it is nowhere in the text, unless it is shown */
    {"--stop <|se --special", "ab", AT_TEXT("<|se")},
    {"--stop sep|>c", ALL, AT_END},
    /* what is not shown does not part a text */
    {"--stop bc", "a", AT_TEXT("bc")},
    {"--stop bc --special", SHOWN, AT_END},
    {"--stop " ACCENT, "abc", AT_TEXT(ACCENT)},
    {"--stop c\xC3<|mid|>\xA9", "ab", REASON("stop", "\"c\\ufffd<|mid|>\\ufffd\"", "null")},
    {"--stop c" ACCENT "<|im_end|>", ALL, AT_END}, /* neither with all of them nor without */
    /* several, and what they share */
    {"--stop ab --stop ab", "", AT_TEXT("ab")},
    {"--stop abX --stop b", "a", AT_TEXT("b")},
    {"--stop abc --stop ab", "", AT_TEXT("ab")},
    {"--stop ab --stop abc", "", AT_TEXT("ab")},
    {"--stop b --stop ab", "", AT_TEXT("ab")},
    {"--stop a", "", AT_TEXT("a")},
    {"--stop xa", ALL, AT_END}, /* the prompt is not searched */
    {"--stop aeX", ALL, AT_END},
    {"--stop ab<|sep|>X -n 3", "ab", AT_LENGTH},
    {"--stop <|sep|> -n 3", "ab", AT_TEXT("<|sep|>")},
    {"--stop <|sep|> -n 2", "ab", AT_LENGTH},
    /* tokens */
    {"--stop-token 6", "ab", AT_TOKEN("6")},
    {"--stop-token <|sep|>", "ab", AT_TOKEN("6")},
    {"--stop-token <|sep|> --special", "ab", AT_TOKEN("6")},
    {"--stop-token 6 -n 2", "ab", AT_LENGTH},
    {"--stop-token 6 -n 3", "ab", AT_TOKEN("6")},
    {"--stop-token 9", "abc\xC3", AT_TOKEN("9")},
    {"--stop-token 7", "ab", AT_TOKEN("7")}, /* not the token whose text is 7 */
    {"--stop-token 13 --special", "ab<|sep|>c\xC3<|mid|>\xA9<|im_end|>d", AT_TOKEN("13")},
    {"--stop-token a", "", AT_TOKEN("4")},
    {"--stop-token 12 --stop-token <|im_end|>", "abc" ACCENT, AT_TOKEN("11")},
    {"--stop-token 2", ALL, AT_TOKEN("2")},
    {"--stop b<|sep|> --stop-token 6", "a", AT_TEXT("b<|sep|>")},
    {"--stop ab<|sep|>X --stop-token 6", "ab", AT_TOKEN("6")},
    /* without an end of text */
    {"--ignore-eos -n 15", ALL, AT_LENGTH},
    {"--ignore-eos --stop-token 12", "abc" ACCENT, AT_TOKEN("12")},
    {"--ignore-eos --stop d", "abc" ACCENT, AT_TEXT("d")},
};

START_TEST(text_ends_where_it_was_told_to)
{
    const struct ending *ending = &endings[_i];
    const char *model = write_model(NULL);
    char options[1024];
    snprintf(options, sizeof options, "-q --no-prompt -p x %s", ending->options);
    struct outcome outcome = run(model, options);
    ck_assert_msg(outcome.status == 0, "%s: %s", options, outcome.err);
    ck_assert_str_eq(outcome.err, "");
    char line[256]; /* standard output ends with a whole one, if it has any text */
    snprintf(line, sizeof line, "%s%s", ending->text, *ending->text ? "\n" : "");
    ck_assert_str_eq(outcome.out, line);
    forget(&outcome);
    check_prints(model, "--json", options, ending->reason, NULL);
}
END_TEST

static void two_more_ends(struct locus_checkpoint_writer *writer)
{
    const int32_t ids[] = {13, IM_END, 13};
    locus_writer_i32s(writer, "locus.end_token_ids", ids, 3);
}

/* The text goes on past an end that isn't sampled: here by the lowest id, as all others are equal.
 */
START_TEST(every_end_the_file_names_ends_a_text)
{
    const char *model = write_model(two_more_ends);
    check_prints(model, "--json -p x", "", "\"text\": \"abc" ACCENT "\"",
                 REASON("end", "null", "11"), NULL);
    check_prints(model, "--json -p x", "--ignore-eos -n 20", "10, 0, 1, 0,", AT_LENGTH, NULL);
    check_prints(model, "--json -p x", "--stop-token 11", AT_TOKEN("11"), NULL);
    struct outcome outcome = run_line(model, "inspect");
    ck_assert_msg(has(outcome.out, "end-of-text 2, also 11, also 13\n"), "%s", outcome.out);
    forget(&outcome);
    outcome = run_line(model, "inspect --json");
    ck_assert_msg(has(outcome.out, "\"end_tokens\": [2, 11, 13],"), "%s", outcome.out);
    forget(&outcome);
}
END_TEST

/* ---- beginnings ---------------------------------------------------------------------------- */

static void no_begin(struct locus_checkpoint_writer *writer)
{
    locus_writer_bool(writer, "tokenizer.ggml.add_bos_token", false);
}

static const struct beginning {
    const char *options, *begin, *prompt, *text;
    void (*add)(struct locus_checkpoint_writer *writer);
    bool noted;
} beginnings[] = {
    {"-p x", "1", "2", "abc", NULL, false},
    {"-p x --begin auto", "1", "2", "abc", NULL, false},
    {"-p x --begin none", "null", "1", "abc", NULL, false},
    {"-p x --begin 6", "6", "2", "abc", NULL, false},
    {"-p x --begin <|sep|>", "6", "2", "abc", NULL, false},
    {"-p x", "null", "1", "abc", no_begin, false},
    {"-p x --begin 1", "1", "2", "abc", no_begin, false},
    /* one that is there already */
    {"-p <s>x --special", "1", "2", "ab<|sep|>", NULL, true},
    {"-p <s>x --special --begin 1", "1", "2", "ab<|sep|>", NULL, true},
    {"-p <s>x --special --begin <s>", "1", "2", "ab<|sep|>", no_begin, true},
    {"-p <s>x --special --begin 6", "6", "3", "ab<|sep|>", NULL, false},
    {"-p <s>x --special --begin none", "null", "2", "ab<|sep|>", NULL, false},
    {"-p <s><s>x --special", "1", "3", "ab<|sep|>", NULL, true},
    {"-p </s>x --special", "1", "3", "", NULL, false},
    /* nothing but it; a first word has no space before it */
    {"-p ''", "1", "1", "", NULL, false},
    {"-p ''", "1", "1", "", no_begin, false},
    {"-p '' --begin 6", "6", "1", "c" ACCENT "d7ae", NULL, false},
    {"-p '' --begin 2", "2", "1", "xabc", NULL, false},
};

START_TEST(text_begins_with_the_token_it_was_told_to)
{
    const struct beginning *beginning = &beginnings[_i];
    char begin[64], prompt[64], text[64];
    snprintf(begin, sizeof begin, "\"begin_token\": %s,", beginning->begin);
    snprintf(prompt, sizeof prompt, "\"prompt_tokens\": %s,", beginning->prompt);
    snprintf(text, sizeof text, "\"text\": \"%s", beginning->text);
    const char *model = write_model(beginning->add);
    check_prints(model, "--json", beginning->options, begin, prompt, text, NULL);
    struct outcome outcome = run(model, beginning->options);
    ck_assert_int_eq(has(outcome.err, "note: the prompt begins with token 1 itself"),
                     beginning->noted);
    forget(&outcome);
    char quiet[256];
    snprintf(quiet, sizeof quiet, "-q %s", beginning->options);
    outcome = run(model, quiet);
    ck_assert_str_eq(outcome.err, "");
    forget(&outcome);
}
END_TEST

/* ---- refusals and notes -------------------------------------------------------------------- */

static const struct refusal {
    const char *options;
    int status;
    const char *says;
} refusals[] = {
    {"--stop ''", 2, "--stop: found '', expected a text\n"},
    {"--stop-token ''", 2, "--stop-token: found '', expected a token's id or text\n"},
    {"--stop-token 16", 1, "--stop-token: found '16', expected an id from 0 to 15 or the text"},
    {"--stop-token -1", 1, "--stop-token: found '-1', expected an id from 0 to 15 or the text"},
    {"--stop-token 99999999999", 1, "found '99999999999', expected an id from 0 to 15"},
    {"--stop-token ab", 1, "--stop-token: found 'ab', expected an id from 0 to 15 or the text"},
    {"--stop-token <0xC3>", 1, "--stop-token: found '<0xC3>'"},
    {"--stop-token 2 --ignore-eos", 2, "token 2 is an end of text, which --ignore-eos keeps"},
    {"--begin ''", 2, "--begin: found '', expected auto, none, or a token's id or text\n"},
    {"--begin 16", 1, "--begin: found '16', expected an id from 0 to 15 or the text"},
    {"--begin nobody", 1, "--begin: found 'nobody', expected an id from 0 to 15 or the text"},
    {"--begin a", 1, "--begin: 'a' is the text of token 4 and of token 14"},
    {"--begin none -p ''", 1, "the prompt is empty, and --begin none leaves no token to start"},
    {"--samplers temperature --top-k 3", 2, "--samplers temperature leaves out top-k, for which"},
    {"--samplers top-k --repeat-last-n 3", 2, "leaves out penalties, for which"},
    {"--samplers top-k --temperature 0.5", 2, "leaves out temperature, for which"},
    {"--logit-bias <|sep|>=1", 2, "--logit-bias: found '<|sep|>=1', expected ID=NUMBER\n"},
};

START_TEST(what_cant_be_honoured_is_refused_by_name)
{
    const struct refusal *refusal = &refusals[_i];
    char options[256];
    snprintf(options, sizeof options, "-p x %s", refusal->options);
    struct outcome outcome = run(write_model(NULL), options);
    ck_assert_msg(has(outcome.err, refusal->says), "%s: %s", options, outcome.err);
    ck_assert_int_eq(outcome.status, refusal->status);
    ck_assert_str_eq(outcome.out, "");
    forget(&outcome);
}
END_TEST

static void wants_end(struct locus_checkpoint_writer *writer)
{
    locus_writer_bool(writer, "tokenizer.ggml.add_eos_token", true);
}

static const struct note {
    const char *options, *says;
    void (*add)(struct locus_checkpoint_writer *writer);
    bool said;
} notes[] = {
    {"",
     "note: <|im_end|> looks like an end of text, and the file doesn't say so: --stop-token "
     "'<|im_end|>' stops there\n",
     NULL, true},
    {"--ignore-eos",
     "looks like an end of text, and the file doesn't say so: --logit-bias "
     "11=-inf keeps it from coming\n",
     NULL, true},
    {"", "note: </s>", NULL, false},
    {"", "looks like", two_more_ends, false},
    {"--stop-token 11", "looks like", NULL, false},
    {"--stop <|im_end|>", "looks like", NULL, false},
    {"", "after a text", NULL, false},
    {"", "note: the file wants token 2 after a text; a prompt goes on, and gets none\n", wants_end,
     true},
    {"--stop-token 6", "; stop token\n", NULL, true},
    {"--stop <|sep|>", "; stop text\n", NULL, true},
    {"", "; end of text\n", NULL, true},
};

START_TEST(what_is_not_done_is_said)
{
    const struct note *note = &notes[_i];
    char options[256];
    snprintf(options, sizeof options, "-p x -n 20 %s", note->options);
    struct outcome outcome = run(write_model(note->add), options);
    ck_assert_int_eq(outcome.status, 0);
    ck_assert_msg(has(outcome.err, note->says) == note->said, "%s: %s", options, outcome.err);
    forget(&outcome);
}
END_TEST

START_TEST(json_tells_what_ended_texts_and_what_was_new)
{
    const char *model = write_model(NULL);
    check_prints(model, "--json -p x", "--stop-token a --stop-token 6 --stop q",
                 "{\"prompt\": \"x\", \"text\"", "\"stop\": [\"q\"], \"stop_tokens\": [4, 6, 14],",
                 NULL);
    check_prints(model, "--json -p x", "--no-prompt", "{\"text\": \"" ALL "\", \"tokens\": [4, 5,",
                 "\"stop\": [], \"stop_tokens\": [],", NULL);
}
END_TEST

/* ---- terminals and full disks -------------------------------------------------------------- */

/* An error after "x" has been written to a terminal that shows both streams. */
START_TEST(error_on_a_terminal_has_a_line_of_its_own)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) {
        printf("skipped: no pseudo-terminal here\n");
        return;
    }
    char banned[1024] = GENERATE "-q -p x";
    for (int i = 0; i < N_TOKENS; i++)
        snprintf(banned + strlen(banned), sizeof banned - strlen(banned), " --logit-bias %d=-inf",
                 i);
    const char *model = write_model(NULL), *name = ptsname(terminal);
    ck_assert_ptr_nonnull(name);
    /* Held open, so that what was written doesn't go with the last process. */
    int held = open(name, O_RDWR | O_NOCTTY);
    int status = call(model, banned, name, name);
    char shown[4096];
    ssize_t n = read(terminal, shown, sizeof shown - 1);
    int again = call(model, GENERATE "-q -p x -n 2", name, name);
    ssize_t m = n > 0 ? read(terminal, shown + n, sizeof shown - 1 - (size_t)n) : -1;
    close(held);
    close(terminal);
    ck_assert_int_eq(status, 1);
    ck_assert_int_eq(again, 0);
    ck_assert_int_gt(m, 0);
    shown[n + m] = '\0';
    ck_assert_str_eq(shown,
                     "x\r\nlocus: error: sampler: no token can be drawn: every logit is -inf "
                     "or banned\r\nxab\r\n");
    struct outcome outcome = run_line(model, banned); /* no terminal: the text stays what it is */
    ck_assert_str_eq(outcome.out, "x\n");
    ck_assert_msg(!strncmp(outcome.err, "locus: error: ", 14), "%s", outcome.err);
    forget(&outcome);
}
END_TEST

/* "a" is held back for a stop text and written last. */
START_TEST(text_that_cant_be_written_in_the_end_is_a_failure)
{
    if (access("/dev/full", W_OK)) {
        printf("skipped: no /dev/full here\n");
        return;
    }
    const char *model = write_model(NULL), *err = testing_temporary("err");
    int status = call(model, GENERATE "-q -p x --no-prompt -n 1 --stop ab", "/dev/full", err);
    char *said = testing_read(err, NULL);
    ck_assert_int_eq(status, 1);
    ck_assert_msg(has(said, "can't write to standard output"), "%s", said);
    free(said);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate");
    TCase *tests = tcase_create("generate");
#define ADD_LOOP(TEST, TABLE) tcase_add_loop_test(tests, TEST, 0, sizeof TABLE / sizeof *TABLE)
    ADD_LOOP(text_ends_where_it_was_told_to, endings);
    tcase_add_test(tests, every_end_the_file_names_ends_a_text);
    ADD_LOOP(text_begins_with_the_token_it_was_told_to, beginnings);
    ADD_LOOP(what_cant_be_honoured_is_refused_by_name, refusals);
    ADD_LOOP(what_is_not_done_is_said, notes);
    tcase_add_test(tests, json_tells_what_ended_texts_and_what_was_new);
    tcase_add_test(tests, error_on_a_terminal_has_a_line_of_its_own);
    tcase_add_test(tests, text_that_cant_be_written_in_the_end_is_a_failure);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
