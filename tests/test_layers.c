/* SPECs of models whose layers differ: the grammar, what is taken over from a checkpoint, that a
 * printed SPEC says all of it again, and sessions that run them.
 */
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "position/layers.h"
#include "position_testing.h"
#include "testing.h"
#include "tiny.h"

enum { N_LAYER = 12, N = 90 };

static struct locus_position_env model(void)
{
    static const struct fake_checkpoint nothing;
    struct locus_position_env env = position_env(&nothing);
    env.n_layer = N_LAYER;
    return env;
}

/* The printed SPEC, to be freed; reading it again gives the same. */
static char *resolve(const char *text, const char *own, struct locus_layer_specs *specs)
{
    const struct locus_position_env env = model();
    struct locus_layer_specs again;
    struct locus_buffer printed = {0}, twice = {0};
    locus_error error = {0};
    ck_assert_msg(!locus_layer_specs_resolve(specs, text, own, NULL, &env, &error), "%s on %s: %s",
                  text ? text : "-", own ? own : "-", error.message);
    locus_layer_specs_print(specs, &printed);
    ck_assert_msg(!locus_layer_specs_resolve(&again, printed.bytes, own, NULL, &env, &error),
                  "%s: %s", printed.bytes, error.message);
    locus_layer_specs_print(&again, &twice);
    ck_assert_str_eq(twice.bytes, printed.bytes);
    for (int layer = 0; layer < N_LAYER; layer++)
        ck_assert_int_eq(locus_layer_specs_at(specs, layer), locus_layer_specs_at(&again, layer));
    locus_buffer_free(&twice);
    return printed.bytes;
}

/* Layers as a text: '0' for the first scheme, '1' for the second ... */
static void check_layers(const char *text, const char *wanted)
{
    struct locus_layer_specs specs;
    char layers[N_LAYER + 1] = "";
    free(resolve(text, NULL, &specs));
    for (int layer = 0; layer < N_LAYER; layer++)
        layers[layer] = (char)('0' + locus_layer_specs_at(&specs, layer));
    ck_assert_msg(!strcmp(layers, wanted), "%s: %s, expected %s", text, layers, wanted);
}

START_TEST(lists_name_layers)
{
    check_layers("rope", "000000000000");
    check_layers("rope; layers 3 none", "000100000000");
    check_layers("rope; layers 3::4 none", "000100010001");
    check_layers("rope; layers 0,7: none", "100000011111");
    check_layers("rope; layers :2 none", "110000000000");
    check_layers("rope; layers : none", "111111111111");
    check_layers("rope; layers 1:9:3 none", "010010010000");
    check_layers("rope;layers 0 none;  layers   11   alibi  ", "100000000002");
    check_layers("rope; layers 10:99 none", "000000000011");
    check_layers("rope:nope_every=4", "000100010001");
    check_layers("rope:nope_every=1", "111111111111");
    check_layers("rope:nope_every=12", "000000000001");
    check_layers("alibi:nope_every=2,max_bias=4", "010101010101");
}
END_TEST

static const struct {
    const char *text, *own, *printed;
} inherited[] = {
    {"rope; layers 3::4 none", NULL, "rope:pairs=half,dim=8,base=10000; layers 3::4 none"},
    {"rope:base=500,nope_every=4", NULL, "rope:pairs=half,dim=8,base=500; layers 3::4 none"},
    {"rope:nope_every=0", NULL, "rope:pairs=half,dim=8,base=10000"},
    {"rope;layers 0,4:6,8: alibi", NULL, "rope:pairs=half,dim=8,base=10000; layers 0,4:6,8: alibi"},
    /* Keys that a later SPEC doesn't name are as in the first. */
    {"rope:pairs=adjacent,base=5e5; layers 5::6 rope:base=1e6", NULL,
     "rope:pairs=adjacent,dim=8,base=500000; layers 5::6 rope:pairs=adjacent,dim=8,base=1000000"},
    {"alibi:max_bias=4; layers 0 alibi:max_bias=8", NULL,
     "alibi:max_bias=4; layers 0 alibi:max_bias=8"},
    {"alibi:max_bias=4; layers 0 alibi:inherit=0", NULL,
     "alibi:max_bias=4; layers 0 alibi:max_bias=8"},
    /* Where the first has another NAME, they are as the checkpoint's. */
    {"none; layers ::2 rope", "rope:pairs=adjacent,base=5",
     "none; layers ::2 rope:pairs=adjacent,dim=8,base=5"},
    {"alibi; layers 3 yarn:factor=2", "rope:base=5; layers 3::4 none",
     "alibi; layers 3 rope:pairs=half,dim=8,base=5,scaling=yarn,factor=2"},
    {"none; layers 0 rope:inherit=0", "rope:base=5",
     "none; layers 0 rope:pairs=half,dim=8,base=10000"},
    {"none:inherit=0; layers 0 rope", "rope:base=5",
     "none; layers 0 rope:pairs=half,dim=8,base=10000"},
    {"none; layers 0 rope", "rope:base=5; layers",
     "none; layers 0 rope:pairs=half,dim=8,base=10000"},
    {"none; layers 0 rope", "alibi", "none; layers 0 rope:pairs=half,dim=8,base=10000"},
    /* The checkpoint's layers are taken over with its values, */
    {NULL, "rope; layers 3::4 none", "rope:pairs=half,dim=8,base=10000; layers 3::4 none"},
    {NULL, "rope:nope_every=4", "rope:pairs=half,dim=8,base=10000; layers 3::4 none"},
    {"yarn:factor=4", "rope:base=5e5; layers 5::6 rope:base=1e6",
     "rope:pairs=half,dim=8,base=500000,scaling=yarn,factor=4; layers 5::6 "
     "rope:pairs=half,dim=8,base=1000000,scaling=yarn,factor=4"},
    {"rope:base=7", "rope:nope_every=4", "rope:pairs=half,dim=8,base=7; layers 3::4 none"},
    /* unless the text has its own, says that there are none, or has another scheme. */
    {"rope; layers 0 alibi", "rope:base=5; layers 3::4 none",
     "rope:pairs=half,dim=8,base=5; layers 0 alibi"},
    {"rope:nope_every=0", "rope; layers 3::4 none",
     "rope:pairs=half,dim=8,base=10000,nope_every=0"},
    {"rope:inherit=0", "rope; layers 3::4 none", "rope:pairs=half,dim=8,base=10000,nope_every=0"},
    {"alibi:nope_every=0", "alibi:nope_every=2", "alibi:nope_every=0"},
    {"alibi", "rope; layers 3::4 none", "alibi"},
    {"alibi", "rope; layers", "alibi"},
};

START_TEST(layers_are_taken_over_and_printed)
{
    struct locus_layer_specs specs;
    char *printed = resolve(inherited[_i].text, inherited[_i].own, &specs);
    ck_assert_str_eq(printed, inherited[_i].printed);
    free(printed);
}
END_TEST

static const struct {
    const char *text, *says;
} refusals[] = {
    {"rope;", "found '' after ';'; expected layers LIST SPEC"},
    {"rope; none", "found 'none' after ';'"},
    {"rope; layer 1 none", "found 'layer 1 none' after ';'"},
    {"rope; layers 1", "no SPEC after 'layers 1'"},
    {"rope; layers  none", "no SPEC after 'layers none'"},
    {"rope; layers x none", "layers 'x'; expected numbers and ranges"},
    {"rope; layers 1,,2 none", "layers ''"},
    {"rope; layers -1 none", "layers '-1'"},
    {"rope; layers 1:2:3:4 none", "layers '1:2:3:4'"},
    {"rope; layers ::0 none", "layers '::0'"},
    {"rope; layers 4:4 none", "layers '4:4'"},
    {"rope; layers 3 ::4 none", "layers '3 ::4 none'; expected a list without spaces"},
    {"rope; layers 3: :4 none", "layers '3: :4 none'; expected a list without spaces"},
    {"rope; layers 0, 3 none", "layers '0, 3 none'; expected a list without spaces"},
    {"rope; layers 0 , 3 none", "expected a list without spaces"},
    {"rope; layers 0 3 none", "expected a list without spaces"},
    {"rope; layers 3 ::4", "expected a list without spaces"},
    {"rope; layers 12 none", "'layers' names layer 12; the model's are 0 to 11"},
    {"rope; layers 0,99 none", "'layers' names layer 99; the model's are 0 to 11"},
    {"rope; layers 3,12:20 none", "'layers' names layer 12"},
    {"rope; layers 0:4 none; layers 3 alibi", "layer 3 has two schemes"},
    {"rope; layers 1 noen", "the nearest is 'none'"},
    {"rope; layers 1 rope:bsae=1", "the nearest is 'base'"},
    {"rope; layers 1 learned", "expected it as the first scheme"},
    {"rope; layers 1 rope:nope_every=2", "expected it before any ';'"},
    {"rope:nope_every=2; layers 1 none", "both nope_every and layers"},
    {"rope:nope_every=2,nope_every=2", "nope_every is given twice"},
    {"rope:nope_every=x", "nope_every is 'x'; expected a whole number from 0"},
    {"rope:nope_every=-1", "nope_every is '-1'"},
    {"rope:nope_evry=1", "the nearest is 'nope_every'"},
    {"noen; layers 1 rope", "the nearest is 'none'"},
    {"none; layers 0 none; layers 1 none; layers 2 none; layers 3 none; layers 4 none; "
     "layers 5 none; layers 6 none; layers 7 none",
     "more than 8 schemes"},
};

/* A rule of a family may be more than a small checkpoint has layers for; nobody asks for that. */
START_TEST(nope_every_past_the_last_layer_is_the_checkpoints_alone)
{
    const struct locus_position_env env = model();
    static const char text[] = "rope:nope_every=13";
    struct locus_layer_specs specs;
    locus_error error = {0};
    ck_assert_int_eq(locus_layer_specs_resolve(&specs, text, NULL, NULL, &env, &error),
                     LOCUS_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "nope_every is 13, and the model has 12 layers"));
    ck_assert_int_eq(locus_layer_specs_resolve(&specs, NULL, text, NULL, &env, &error), LOCUS_OK);
    ck_assert_int_eq(specs.n, 1);
}
END_TEST

/* Before a model is known, its own values may be what a key lacks. */
START_TEST(what_depends_on_the_model_waits_for_it)
{
    const struct locus_position_env env = model();
    struct locus_layer_specs specs;
    locus_error error = {0};
    static const char *const good[] = {"rope:beta_fast=16", "yarn", "learned:factor=2"};
    static const char *const bad[] = {"rope:bsae=1", "", "rope:base=0", "rope; layers 1,,2 none"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(locus_layer_specs_read(&specs, good[i], &env, &error), LOCUS_OK);
        ck_assert_int_eq(locus_layer_specs_resolve(&specs, good[i], NULL, NULL, &env, &error),
                         LOCUS_ERROR_ARGUMENT);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(locus_layer_specs_read(&specs, bad[i], &env, &error),
                         LOCUS_ERROR_ARGUMENT);
    ck_assert_int_eq(
        locus_layer_specs_resolve(&specs, "rope:beta_fast=16", "yarn:factor=4", NULL, &env, &error),
        LOCUS_OK);
}
END_TEST

START_TEST(wrong_layers_are_refused_with_what_is_right)
{
    const struct locus_position_env env = model();
    struct locus_layer_specs specs;
    locus_error error = {0};
    const char *text = refusals[_i].text;
    ck_assert_int_eq(locus_layer_specs_resolve(&specs, text, NULL, NULL, &env, &error),
                     LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, refusals[_i].says) != NULL, "no \"%s\": %s",
                  refusals[_i].says, error.message);
    ck_assert_int_eq(locus_layer_specs_resolve(&specs, NULL, text, NULL, &env, &error),
                     LOCUS_ERROR_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "the checkpoint's position"));
}
END_TEST

/* ---- sessions ----------------------------------------------------------------------------- */

static locus_session *open_session(const locus_model *tiny, const char *position,
                                   const char *attention, int n_batch, locus_error *error)
{
    const locus_session_params params = {.position = position,
                                         .attention = attention,
                                         .n_context = N,
                                         .n_batch = n_batch,
                                         .n_threads = n_batch > 1 ? 2 : 1};
    return locus_session_create(tiny, &params, error);
}

static float *logits_of(const locus_model *tiny, const char *position, int n_batch)
{
    locus_error error;
    int32_t tokens[N];
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session *session = open_session(tiny, position, NULL, n_batch, &error);
    ck_assert_msg(session != NULL, "%s: %s", position, error.message);
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    ck_assert_int_eq(locus_session_eval(session, tokens, N, logits, N, &error), LOCUS_OK);
    ck_assert_int_eq(locus_session_rewind(session, N / 2, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_session_eval(session, tokens + N / 2, N - N / 2,
                                        logits + (ptrdiff_t)(N / 2) * TINY_VOCAB, N - N / 2, NULL),
                     LOCUS_OK);
    locus_session_free(session);
    return logits;
}

/* Two ways to say one thing; the tiny model has two layers. */
START_TEST(layers_run_their_own_schemes)
{
    static const char *const same[][2] = {
        {"rope; layers : none", "none"},
        {"none; layers : rope:base=500", "rope:base=500"},
        {"rope; layers 1 none", "none; layers 0 rope"},
        {"rope:nope_every=2", "none; layers 0 rope"},
        {"dynamic-ntk:trained=16; layers 1 xpos", "xpos; layers 0 dynamic-ntk:trained=16"},
        {"sandwich; layers 0 dynamic-ntk:trained=16", "dynamic-ntk:trained=16; layers 1 sandwich"},
        {"sinusoidal; layers 1 alibi", "sinusoidal; layers 1 alibi; layers 0 none"},
    };
    locus_model *tiny = tiny_model(0, 0);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        float *whole = logits_of(tiny, same[i][0], 0);
        float *others[] = {logits_of(tiny, same[i][1], 0), logits_of(tiny, same[i][0], 1),
                           logits_of(tiny, same[i][1], 7)};
        for (int o = 0; o < 3; o++) {
            ck_assert_msg(!memcmp(whole, others[o], N * TINY_VOCAB * sizeof *whole),
                          "%s and %s, %d", same[i][0], same[i][1], o);
            free(others[o]);
        }
        free(whole);
    }
    float *one = logits_of(tiny, "rope; layers 1 none", 0), *all = logits_of(tiny, "rope", 0);
    ck_assert_int_ne(memcmp(one, all, N * TINY_VOCAB * sizeof *one), 0);
    free(one);
    free(all);
    locus_model_free(tiny);
}
END_TEST

START_TEST(policies_are_checked_for_each_scheme)
{
    locus_model *tiny = tiny_model(0, 0);
    locus_error error;
    static const char *const served[] = {"rope; layers 1 none", "alibi; layers 0 xpos"};
    for (int i = 0; i < 2; i++) {
        locus_session *session = open_session(tiny, served[i], "sinks:keep=2,size=9", 0, &error);
        ck_assert_msg(session != NULL, "%s: %s", served[i], error.message);
        locus_session_free(session);
    }
    ck_assert_ptr_null(
        open_session(tiny, "none; layers 1 dynamic-ntk", "sinks:keep=2,size=9", 0, &error));
    ck_assert_msg(strstr(error.message, "can't serve position rope") != NULL, "%s", error.message);
    ck_assert_ptr_null(
        open_session(tiny, "sinusoidal; layers 1 none", "self-extend:group=2,window=8", 0, &error));
    ck_assert_msg(strstr(error.message, "can't serve position sinusoidal") != NULL, "%s",
                  error.message);
    locus_model_free(tiny);
}
END_TEST

/* Of four layers the third attends, the others are scans. */
START_TEST(spec_of_layers_that_do_not_attend_is_refused)
{
    static const struct {
        const char *position, *says; /* NULL: it runs */
    } cases[] = {
        {"none; layers 0 rope", "layers 0 don't attend, and have no use for positions; those that "
                                "do: 2"},
        {"none; layers 0,2 rope", "layers 0 don't attend"},
        {"none; layers 1::2 rope", "layers 1::2 don't attend"},
        {"rope:nope_every=4", "layers 3::4 don't attend"},
        {"rope; layers 2 none", "those of rope don't attend"},
        {"rope; layers 2 none; layers 3 alibi", "layers 3 don't attend"},
        {"none; layers 2 rope", NULL},
        {"none; layers ::2 rope", NULL},
        {"rope; layers 2 rope:base=5", "those of rope don't attend"},
        {"sinusoidal; layers 2 none", NULL},
        {"rope:nope_every=0", NULL},
        {"rope", NULL},
    };
    locus_error error;
    locus_model *mixed = locus_model_open(testing_golden("jamba-mixed.gguf"), &error);
    ck_assert_msg(mixed != NULL, "%s", error.message);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        locus_session *session = open_session(mixed, cases[i].position, NULL, 0, &error);
        ck_assert_msg(!session == (cases[i].says != NULL), "%s: %s", cases[i].position,
                      session ? "runs" : error.message);
        if (!session) {
            ck_assert_int_eq(error.status, LOCUS_ERROR_UNSUPPORTED);
            ck_assert_msg(strstr(error.message, cases[i].says) != NULL, "%s", error.message);
        }
        locus_session_free(session);
    }
    locus_model_free(mixed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layers");
    TCase *tests = tcase_create("specs");
    tcase_add_test(tests, lists_name_layers);
    tcase_add_loop_test(tests, layers_are_taken_over_and_printed, 0,
                        sizeof inherited / sizeof *inherited);
    tcase_add_test(tests, nope_every_past_the_last_layer_is_the_checkpoints_alone);
    tcase_add_test(tests, what_depends_on_the_model_waits_for_it);
    tcase_add_loop_test(tests, wrong_layers_are_refused_with_what_is_right, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, layers_run_their_own_schemes);
    tcase_add_test(tests, policies_are_checked_for_each_scheme);
    tcase_add_test(tests, spec_of_layers_that_do_not_attend_is_refused);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
