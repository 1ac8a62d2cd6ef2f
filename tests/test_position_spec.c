/* SPECs: the grammar, what is inherited, and that a printed SPEC says all of it again. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "position/position.h"
#include "position/registry.h"
#include "position_testing.h"
#include "testing.h"

static struct locus_position_env model(void)
{
    static const struct fake_checkpoint nothing;
    return position_env(&nothing);
}

static struct locus_position_spec resolve(const char *text, const char *own)
{
    const struct locus_position_env env = model();
    struct locus_position_spec spec;
    locus_error error = {0};
    enum locus_status status = position_resolve(&spec, text, own, NULL, &env, &error);
    ck_assert_msg(status == LOCUS_OK, "%s on %s: %s", text ? text : "-", own ? own : "-",
                  error.message);
    return spec;
}

/* In one of two buffers, so that two can be compared. */
static const char *print(const struct locus_position_spec *spec)
{
    static char texts[2][1024];
    static unsigned turn;
    struct locus_buffer out = {0};
    locus_position_print(spec, &out);
    ck_assert(!out.failed && out.length < sizeof *texts);
    char *text = texts[turn++ % 2];
    memcpy(text, out.bytes, out.length + 1);
    locus_buffer_free(&out);
    return text;
}

static void check(const char *text, const char *own, const char *wanted)
{
    struct locus_position_spec spec = resolve(text, own);
    ck_assert_str_eq(print(&spec), wanted);
}

START_TEST(defaults_are_the_registrys_and_the_models)
{
    check("rope", NULL, "rope:pairs=half,dim=8,base=10000");
    check("none", NULL, "none");
    check("nope", NULL, "none");
    check("alibi", NULL, "alibi");
    check("alibi:max_bias=8", NULL, "alibi");
    check("alibi:max_bias=16", NULL, "alibi:max_bias=16");
    check("learned:beyond=interpolate,factor=2.5", NULL, "learned:beyond=interpolate,factor=2.5");
    check("rope:base=1e6,dim=4", NULL, "rope:pairs=half,dim=4,base=1000000");
}
END_TEST

START_TEST(keys_not_named_keep_the_checkpoints_values)
{
    const char *own = "rope:pairs=adjacent,base=1000000";
    check(NULL, own, "rope:pairs=adjacent,dim=8,base=1000000");
    check("rope", own, "rope:pairs=adjacent,dim=8,base=1000000");
    check("rope:dim=8", own, "rope:pairs=adjacent,dim=8,base=1000000");
    check("rope:base=500", own, "rope:pairs=adjacent,dim=8,base=500");
    check("rope:inherit=1,dim=4", own, "rope:pairs=adjacent,dim=4,base=1000000");
    check("rope:inherit=0", own, "rope:pairs=half,dim=8,base=10000");
    check("rope:dim=4,inherit=0", own, "rope:pairs=half,dim=4,base=10000");
    check("alibi", own, "alibi");
    check("rope", "alibi:max_bias=4", "rope:pairs=half,dim=8,base=10000");
    check("nope", "none", "none");
}
END_TEST

/* Back to a default that the checkpoint has changed: the printed SPEC must say so. */
START_TEST(default_over_the_checkpoints_value_is_printed)
{
    check("alibi:max_bias=8", "alibi:max_bias=16", "alibi:max_bias=8");
    check("alibi:inherit=0", "alibi:max_bias=16", "alibi:max_bias=8");
    check("alibi", "alibi:max_bias=16", "alibi:max_bias=16");
    check("learned:offset=0", "learned:offset=2", "learned:offset=0");
}
END_TEST

/* Keys that act outside the scheme: read, inherited and printed as its own are. */
START_TEST(any_scheme_takes_logn_and_temperature)
{
    check("none:temperature=2", NULL, "none:temperature=2");
    check("alibi:temperature=2,logn=position,max_bias=4", NULL,
          "alibi:max_bias=4,logn=position,temperature=2");
    check("alibi:max_bias=4", "alibi:logn=position", "alibi:max_bias=4,logn=position");
    check("alibi:logn=none", "alibi:logn=position", "alibi:logn=none");
    check("alibi:inherit=0", "alibi:logn=position,temperature=3", "alibi:logn=none,temperature=1");
    check("none", "alibi:logn=position", "none");
    const struct locus_position_spec spec = resolve("rope:logn=position,temperature=0.5", NULL);
    ck_assert_int_eq(locus_position_int(&spec, "logn"), 1);
    ck_assert_double_eq(locus_position_number(&spec, "temperature"), 0.5);
    ck_assert(locus_position_given(&spec, "logn") && !locus_position_given(&spec, "base"));
}
END_TEST

/* What the checkpoint's scaling had and another has no use for isn't printed: the text is read
 * again. */
START_TEST(a_printed_scaling_over_another_is_read_again)
{
    static const char yarn[] = "rope:scaling=yarn,factor=4,trained=64,beta_fast=16";
    static const char llama3[] = "rope:scaling=llama3,factor=4,low=2";
    static const struct {
        const char *text, *own, *wanted;
    } cases[] = {
        {"rope:inherit=0", yarn, "scaling=none"},
        {"rope:scaling=none", yarn, "scaling=none"},
        {"rope:scaling=none,factor=4", yarn, "scaling=none"},
        {"linear:factor=2", yarn, "scaling=linear,factor=2"},
        {"linear:factor=2,beta_fast=16", yarn, "scaling=linear,factor=2"},
        {"linear:factor=auto", yarn, "scaling=linear,factor=1"},
        {"ntk:factor=2", yarn, "scaling=ntk,factor=2,trained=64"},
        {"yarn:factor=1", yarn, "scaling=yarn,factor=1"},
        {"yarn:factor=1,attn_factor=2", yarn, "scaling=yarn,factor=1,attn_factor=2"},
        {NULL, "rope:scaling=yarn,factor=1,trained=64,beta_fast=16", "scaling=yarn"},
        {"yarn:inherit=0,factor=2", llama3, "scaling=yarn,factor=2"},
        {"linear:factor=2,low=1", llama3, "scaling=linear,factor=2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "rope:pairs=half,dim=8,base=10000,%s", cases[i].wanted);
        check(cases[i].text, cases[i].own, wanted);
        check(wanted, cases[i].own, wanted);
    }
}
END_TEST

START_TEST(short_names_are_scalings_of_rope)
{
    const char *own = "rope:pairs=adjacent,base=1000000";
    check("yarn:factor=4", own, "rope:pairs=adjacent,dim=8,base=1000000,scaling=yarn,factor=4");
    check("rope:scaling=yarn,factor=4", own,
          "rope:pairs=adjacent,dim=8,base=1000000,scaling=yarn,factor=4");
    check("linear:factor=2", NULL, "rope:pairs=half,dim=8,base=10000,scaling=linear,factor=2");
    check("ntk:factor=2", NULL, "rope:pairs=half,dim=8,base=10000,scaling=ntk,factor=2");
    check("llama3:factor=2", NULL, "rope:pairs=half,dim=8,base=10000,scaling=llama3,factor=2");
    /* Alone where that has an effect: by the length, by what the checkpoint has, by the size. */
    check("dynamic-ntk", NULL, "rope:pairs=half,dim=8,base=10000,scaling=dynamic");
    check("yarn", "rope:scaling=linear,factor=3",
          "rope:pairs=half,dim=8,base=10000,scaling=yarn,factor=3");
    check("yarn:attn_factor=2", NULL,
          "rope:pairs=half,dim=8,base=10000,scaling=yarn,attn_factor=2");
    check("rope:scaling=yarn", NULL, "rope:pairs=half,dim=8,base=10000,scaling=yarn");
    check(NULL, "yarn", "rope:pairs=half,dim=8,base=10000,scaling=yarn");
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------ */

static const struct {
    const char *text, *says;
} refusals[] = {
    {"", "position '': the SPEC is empty; expected NAME[:key=value,...]"},
    {"yarn", "it has no effect alone; expected a factor, as in yarn:factor=4"},
    {"yarn:base=500", "it has no effect alone"},
    {"linear", "as in linear:factor=4"},
    {"ntk", "as in ntk:factor=4"},
    {"llama3:trained=100", "'trained' has no effect"},
    {"llama3", "as in llama3:factor=4"},
    {":", "no scheme is named ''"},
    {"t6", "the nearest is 't5'"},
    {"rpoe", "the nearest is 'rope'"},
    {"Rope", "the nearest is 'rope'"},
    {"rope:beta_fast=3",
     "'beta_fast' has no effect beside the other values; expected scaling=yarn"},
    {"rope:trained=3", "'trained' has no effect"},
    {"rope:factor=2", "'factor' has no effect beside the other values; expected a scaling"},
    {"rope:factor=auto", "'factor' has no effect"},
    {"linear:factor=2,attn_factor=3", "expected scaling=yarn or longrope"},
    {"linear:factor=2,trained=3", "expected factor=auto"},
    {"yarn:factor=2,low=3", "expected scaling=llama3 and a factor that isn't 1"},
    {"yarn:beta_slow=2", "expected scaling=yarn and a factor that isn't 1"},
    {"yarn:factor=1,truncate=0", "'truncate' has no effect"},
    {"yarn:trained=3", "'trained' has no effect"},
    {"llama3:factor=8,truncate=0", "'truncate' has no effect"},
    {"llama3:high=8", "expected scaling=llama3 and a factor that isn't 1"},
    {"longrope:factor=1,factors=long,trained=3", "'trained' has no effect"},
    {"longrope:factors=short,length=9", "expected factors=auto"},
    {"rope:ladder=own", "'ladder' has no effect beside the other values; expected axis1"},
    {"learned:factor=2", "expected beyond=interpolate"},
    {"learned:beyond=wrap,factor=2", "expected beyond=interpolate"},
    {"alibi2", "the nearest is 'alibi'"},
    {"sinusoid", "the nearest is 'sinusoidal'"},
    {"yran:factor=4", "the nearest is 'yarn'"},
    {"dynamic", "rope:scaling=dynamic"},
    {"dynamic:factor=2", "'recurrent'"},
    {"rope:bsae=1", "no parameter 'bsae'; the nearest is 'base'"},
    {"rope:dims=1", "the nearest is 'dim'"},
    {"rope:", "found ''; expected key=value"},
    {"rope:base", "found 'base'; expected key=value"},
    {"rope:base=", "found 'base='; expected key=value"},
    {"rope:=1", "found '=1'; expected key=value"},
    {"rope:base=1,", "found ''; expected key=value"},
    {"rope:,base=1", "found ''; expected key=value"},
    {"rope: base=1", "no parameter ' base'"},
    {"rope:base=1 ", "base is '1 '"},
    {"rope:base=1,base=2", "base is given twice"},
    {"rope:inherit=0,inherit=0", "inherit is given twice"},
    {"rope:inherit=yes", "inherit is 'yes'; expected 0 or 1"},
    {"yarn:scaling=linear", "scaling is given twice"},
    {"rope:base=x", "base is 'x'; expected a number from 1 to"},
    {"rope:base=0", "base is '0'; expected a number from 1 to"},
    {"rope:base=nan", "base is 'nan'"},
    {"rope:base=inf", "base is 'inf'"},
    {"rope:base=0x10", "base is '0x10'"},
    {"rope:base=1e999", "base is '1e999'"},
    {"rope:base=+1", "base is '+1'"},
    {"rope:dim=4.5", "dim is '4.5'; expected a whole number"},
    {"rope:dim=4e0", "dim is '4e0'; expected a whole number"},
    {"rope:dim=99999999999", "dim is '99999999999'"},
    {"rope:pairs=both", "pairs is 'both'; expected one of half|adjacent"},
    {"rope:pairs=", "expected key=value"},
    {"none:x=1", "none has no parameter 'x'"},
    {"r\xC3\xB6pe", "no scheme is named 'r??pe'"},
};

START_TEST(wrong_text_is_refused_with_what_is_right)
{
    const struct locus_position_env env = model();
    struct locus_position_spec spec, untouched;
    memset(&spec, 0xA5, sizeof spec);
    untouched = spec;
    locus_error error = {0};
    const char *text = refusals[_i].text;
    ck_assert_int_eq(position_resolve(&spec, text, NULL, NULL, &env, &error), LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, refusals[_i].says) != NULL, "no \"%s\": %s",
                  refusals[_i].says, error.message);
    ck_assert_mem_eq(&spec, &untouched, sizeof spec);
    ck_assert_int_ne(position_resolve(&spec, text, NULL, NULL, &env, NULL), LOCUS_OK);
}
END_TEST

START_TEST(wrong_checkpoint_is_named_unless_it_does_not_matter)
{
    const struct locus_position_env env = model();
    struct locus_position_spec spec;
    locus_error error = {0};
    static const char *const wrong[] = {"rope:bsae=1", "rope:\xFF\n=1", "rope:base=1,base=1"};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(position_resolve(&spec, NULL, wrong[i], NULL, &env, &error),
                         LOCUS_ERROR_FORMAT);
        ck_assert_ptr_nonnull(strstr(error.message, "the checkpoint's position"));
        ck_assert_ptr_null(strpbrk(error.message, "\n\xFF"));
        ck_assert_int_eq(position_resolve(&spec, "rope", wrong[i], NULL, &env, &error),
                         LOCUS_ERROR_FORMAT);
        check("rope:inherit=0", wrong[i], "rope:pairs=half,dim=8,base=10000");
        check("alibi", wrong[i], "alibi");
    }
    ck_assert_int_ne(position_resolve(&spec, NULL, NULL, NULL, &env, &error), LOCUS_OK);
}
END_TEST

START_TEST(long_text_is_cut_in_the_message)
{
    const struct locus_position_env env = model();
    struct locus_position_spec spec;
    locus_error error = {0};
    static char text[100000];
    memset(text, 'a', sizeof text - 1);
    ck_assert_int_ne(position_resolve(&spec, text, NULL, NULL, &env, &error), LOCUS_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "no scheme is named"));
    memcpy(text, "rope:base=", 10);
    memset(text + 10, '1', sizeof text - 11);
    ck_assert_int_ne(position_resolve(&spec, text, NULL, NULL, &env, &error), LOCUS_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "base is '1111"));
}
END_TEST

/* ---- printed and read again ---------------------------------------------------------------- */

static uint64_t random_state;

static unsigned draw(unsigned n)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(random_state >> 33) % n;
}

/* Adds key=value with a random value of the parameter's range. */
static void put_random(struct locus_buffer *out, const struct locus_param *param, char separator)
{
    locus_buffer_printf(out, "%c%s=", separator, param->key);
    if (param->choices && (param->type == LOCUS_PARAM_CHOICE || draw(3) == 0)) {
        const char *choice = param->choices;
        for (unsigned skip = draw(4); skip > 0 && strchr(choice, '|'); skip--)
            choice = strchr(choice, '|') + 1;
        locus_buffer_append(out, choice, strcspn(choice, "|"));
        return;
    }
    double share = draw(5) ? draw(1000000) / 1e6 : draw(2);
    double min = fmax(param->min, -1e9), max = fmin(param->max, 1e9);
    double value = draw(2) ? min + share * (max - min) : fmin(max, min + draw(64));
    if (param->type == LOCUS_PARAM_INT)
        locus_buffer_printf(out, "%.0f", floor(value));
    else
        locus_buffer_printf(out, "%.*g", 3 + (int)draw(15), fmin(fmax(value, min), max));
}

/* NAME and some of its parameters. */
static void put_spec(struct locus_buffer *out, const struct locus_position_scheme *scheme)
{
    char separator = ':';
    out->length = 0;
    locus_buffer_printf(out, "%s", scheme->name);
    for (const struct locus_param *param = scheme->params; param && param->key; param++) {
        if (draw(2)) continue;
        put_random(out, param, separator);
        separator = ',';
    }
    if (draw(4) == 0) locus_buffer_printf(out, "%cinherit=%u", separator, draw(2));
}

/* Reading what was printed, with the same checkpoint, gives the same values; so does printing. */
static void check_again(const char *text, const char *own)
{
    const struct locus_position_env env = model();
    struct locus_position_spec spec, again;
    locus_error error = {0};
    /* %.3g may round a value past its range. */
    if (position_resolve(&spec, text, own, NULL, &env, NULL)) return;
    const char *printed = print(&spec), *shown = own ? own : "no SPEC";
    ck_assert_msg(!position_resolve(&again, printed, own, NULL, &env, &error),
                  "'%s' on '%s' printed '%s': %s", text, shown, printed, error.message);
    ck_assert_ptr_eq(again.scheme, spec.scheme);
    for (int i = 0; spec.scheme->params && spec.scheme->params[i].key; i++)
        ck_assert_msg(again.values[i] == spec.values[i], "'%s' on '%s' printed '%s': %s is %.17g",
                      text, shown, printed, spec.scheme->params[i].key, again.values[i]);
    ck_assert_str_eq(print(&again), printed);
}

START_TEST(printed_spec_is_read_as_the_same)
{
    const struct locus_position_scheme *scheme = locus_position_at((size_t)_i);
    struct locus_buffer text = {0}, own = {0};
    random_state = 5;
    for (int i = 0; i < 2000; i++) {
        put_spec(&text, scheme);
        put_spec(&own,
                 draw(3) ? scheme : locus_position_at(draw((unsigned)locus_position_count())));
        check_again(text.bytes, own.bytes);
        check_again(text.bytes, NULL);
    }
    locus_buffer_free(&text);
    locus_buffer_free(&own);
}
END_TEST

/* Every one-letter mistake in a name is answered by a name, and in most by the right one. */
START_TEST(nearest_name_is_the_right_one)
{
    const struct locus_position_env env = model();
    const struct locus_position_scheme *scheme = locus_position_at((size_t)_i);
    char text[64], wanted[80];
    size_t n = strlen(scheme->name);
    if (n < 5) return; /* short names are near to each other */
    for (size_t i = 0; i < n; i++) {
        struct locus_position_spec spec;
        locus_error error = {0};
        memcpy(text, scheme->name, n + 1);
        text[i] = 'q';
        snprintf(wanted, sizeof wanted, "the nearest is '%s'", scheme->name);
        ck_assert_int_ne(position_resolve(&spec, text, NULL, NULL, &env, &error), LOCUS_OK);
        ck_assert_msg(strstr(error.message, wanted) != NULL, "%s", error.message);
    }
}
END_TEST

/* ---- tables -------------------------------------------------------------------------------- */

static const struct locus_param own_params[] = {
    {"size", LOCUS_PARAM_INT, "head_dim", 1, 100, NULL, false, "an int"},
    {"kind", LOCUS_PARAM_CHOICE, "b", 0, 0, "a|b|c", false, "a choice"},
    {0},
};
static const struct locus_position_scheme own_scheme = {
    .abi = LOCUS_POSITION_ABI, .name = "mine", .params = own_params};

START_TEST(scheme_of_ones_own_answers_to_its_name)
{
    const struct locus_position_env env = model();
    struct locus_position_spec spec;
    locus_error error = {0};
    ck_assert_int_eq(position_resolve(&spec, NULL, "rope", &own_scheme, &env, &error), 0);
    ck_assert_str_eq(print(&spec), "mine");
    ck_assert_int_eq(locus_position_int(&spec, "size"), 8);
    ck_assert(locus_position_number(&spec, "kind") == 1);
    ck_assert(isnan(locus_position_number(&spec, "other")));
    ck_assert_int_eq(locus_position_int(&spec, "other"), 0);
    ck_assert_int_eq(position_resolve(&spec, "mine:size=3,kind=c", NULL, &own_scheme, &env, &error),
                     0);
    ck_assert_str_eq(print(&spec), "mine:size=3,kind=c");
    ck_assert_int_ne(position_resolve(&spec, "mien", NULL, &own_scheme, &env, &error), 0);
    ck_assert_ptr_nonnull(strstr(error.message, "the nearest is 'mine'"));
    ck_assert_int_eq(position_resolve(&spec, "alibi", NULL, &own_scheme, &env, &error), 0);
}
END_TEST

START_TEST(numbers_are_printed_as_they_are_read)
{
    random_state = 7;
    for (int i = 0; i < 100000; i++) {
        uint64_t bits =
            (uint64_t)draw(1U << 31) << 33 ^ (uint64_t)draw(1U << 31) << 11 ^ draw(2048);
        double value, again = 0;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        char text[LOCUS_NUMBER_TEXT];
        locus_number_format(value, text);
        ck_assert_msg(locus_number_parse(text, strlen(text), false, &again) && again == value,
                      "%.17g printed %s", value, text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("position_spec");
    TCase *tests = tcase_create("spec");
    const int n_schemes = (int)locus_position_count();
    tcase_add_test(tests, defaults_are_the_registrys_and_the_models);
    tcase_add_test(tests, keys_not_named_keep_the_checkpoints_values);
    tcase_add_test(tests, default_over_the_checkpoints_value_is_printed);
    tcase_add_test(tests, any_scheme_takes_logn_and_temperature);
    tcase_add_test(tests, a_printed_scaling_over_another_is_read_again);
    tcase_add_test(tests, short_names_are_scalings_of_rope);
    tcase_add_loop_test(tests, wrong_text_is_refused_with_what_is_right, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, wrong_checkpoint_is_named_unless_it_does_not_matter);
    tcase_add_test(tests, long_text_is_cut_in_the_message);
    tcase_add_loop_test(tests, printed_spec_is_read_as_the_same, 0, n_schemes);
    tcase_add_loop_test(tests, nearest_name_is_the_right_one, 0, n_schemes);
    tcase_add_test(tests, scheme_of_ones_own_answers_to_its_name);
    tcase_add_test(tests, numbers_are_printed_as_they_are_read);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
