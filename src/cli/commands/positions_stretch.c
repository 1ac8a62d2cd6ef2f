/* locus positions NAME --length N: the settings that bring a scheme to a length, as a table.
 *
 *     model, or an average one -> own SPEC, the SPEC given, each way to N -> values -> rows
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spec.h"
#include "cli/commands/positions.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/page.h"
#include "cli/kit/session_options.h"
#include "cli/kit/table.h"
#include "forward/describe.h"
#include "forward/policy.h"
#include "position/registry.h"
#include "position/stretch.h"

/* What is pasted: the way that the name given is short for; else the scheme as it is, where that
 * reaches any length; else the first way. */
enum choice { NOTHING, FIRST, AS_IT_IS, ASKED };

struct stretching {
    const struct positions_options *options;
    const char *given; /* the SPEC of the command line; NULL: none */
    char *path;        /* NULL: no model is named */
    locus_model *model;
    const char *own; /* the model's SPEC */
    const struct locus_position_scheme *scheme;
    struct locus_position_env env;
    struct locus_layer_specs plain; /* what the scheme alone comes to, */
    double trained;                 /* and the length that it is made for */
    struct locus_table table;
    struct locus_buffer left_out; /* a line a way that is refused */
    struct locus_buffer pasted;   /* the SPEC of the example, */
    enum choice choice;           /* and why it is that */
};

/* ---- what it is about ----------------------------------------------------------------------- */

static int open_model(struct stretching *run)
{
    int status = LOCUS_EXIT_FAILED;
    locus_error error;
    if (!(run->path = locus_model_file(&run->options->common, &status))) return status;
    if (!(run->model = locus_model_open(run->path, &error)))
        return locus_log_error("%s", error.message);
    run->own = locus_model_info_get(run->model).position;
    run->env = locus_model_env(run->model, run->options->length);
    const char *asked = run->given ? run->given : "schemes";
    if (locus_model_check_position(run->model, asked, &error) ||
        locus_model_check_extras(run->model, NULL, &error))
        return locus_log_error("%s: %s", run->path, error.message);
    return -1;
}

static bool names_policy(const char *text)
{
    const struct locus_policy_kind *kind;
    const struct locus_word name = locus_spec_name(text);
    for (int i = 0; (kind = locus_policy_kind_at(i)); i++)
        if (locus_word_is(name, kind->name)) return true;
    return false;
}

static int refuse_scheme(const struct locus_position_scheme *scheme)
{
    struct locus_buffer known = {0};
    for (size_t i = 0; i < locus_position_count(); i++) {
        const struct locus_position_scheme *other = locus_position_at(i);
        if (locus_stretch_any(other))
            locus_buffer_printf(&known, "%s%s", known.length ? ", " : "", other->name);
    }
    const int status =
        locus_log_usage("positions", "--length: %s has no setting for a length; expected one of %s",
                        scheme->name, known.failed ? "others" : known.bytes);
    locus_buffer_free(&known);
    return status;
}

/* The scheme that is asked for, and its values as the model has them. */
static int find_scheme(struct stretching *run)
{
    struct locus_layer_specs specs;
    locus_error error;
    const char *text = run->given ? run->given : run->own;
    if (names_policy(text))
        return locus_log_usage(
            "positions", "--length: '%s' is a cache policy; expected a position scheme", text);
    if (!locus_resolve_without_model(&specs, text, &error))
        return locus_log_refusal("positions", &error);
    run->scheme = specs.specs[0].scheme;
    if (!locus_stretch_any(run->scheme)) return refuse_scheme(run->scheme);
    if (locus_layer_specs_resolve(&run->plain, run->scheme->name, run->own, NULL, &run->env,
                                  &error))
        return locus_log_error("%s", error.message);
    run->trained = locus_stretch_trained(&run->plain.specs[0], &run->env);
    return -1;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void add_number(struct locus_table *table, const char *format, double value)
{
    if (isnan(value))
        locus_table_add(table, "-");
    else if (isinf(value))
        locus_table_add(table, "any");
    else
        locus_table_add(table, format, value); // NOLINT(clang-diagnostic-format-nonliteral)
}

static void add_values(struct stretching *run, const char *label,
                       const struct locus_stretch *stretch)
{
    struct locus_table *table = &run->table;
    locus_table_add(table, "%s", label);
    add_number(table, "%.5g", stretch->factor);
    add_number(table, "%.7g", stretch->base);
    add_number(table, "%.0f", stretch->reach);
    add_number(table, "%.4f", stretch->attention);
    add_number(table, "%.3g", stretch->turns);
}

/* Refuses what a session with these SPECs would be. */
static enum locus_status try_specs(const struct stretching *run,
                                   const struct locus_layer_specs *specs, locus_error *error)
{
    enum { FEW = 16 };
    struct locus_position_env env = run->env;
    struct locus_positions positions;
    env.session_length = FEW;
    enum locus_status status = locus_positions_init(&positions, specs, &env, error);
    locus_positions_close(&positions);
    return status;
}

/* A SPEC's row, and one for each list of layers that has the scheme with values of its own. */
static enum locus_status add_row(struct stretching *run, const char *label, const char *text,
                                 locus_error *error)
{
    struct locus_layer_specs specs;
    struct locus_stretch stretches[LOCUS_MAX_SCHEMES];
    enum locus_status status =
        locus_layer_specs_resolve(&specs, text, run->own, NULL, &run->env, error);
    if (!status) status = try_specs(run, &specs, error);
    for (int i = 0; i < specs.n && !status; i++)
        if (specs.specs[i].scheme == run->scheme)
            status =
                locus_stretch_read(&stretches[i], &specs.specs[i], run->trained, &run->env, error);
    for (int i = 0; i < specs.n && !status; i++) {
        struct locus_buffer of_layers = {0};
        if (specs.specs[i].scheme != run->scheme) continue;
        locus_buffer_printf(&of_layers, "  layers ");
        locus_layer_list_print(&specs.layers[i], &of_layers);
        run->table.text.failed |= of_layers.failed;
        add_values(run, i == 0 || of_layers.failed ? label : of_layers.bytes, &stretches[i]);
        locus_buffer_free(&of_layers);
    }
    return status;
}

static void choose(struct stretching *run, const char *spec, enum choice choice)
{
    if (choice <= run->choice) return;
    run->choice = choice;
    run->pasted.length = 0;
    locus_buffer_printf(&run->pasted, "%s", spec);
}

static enum choice choice_of(const struct stretching *run, const char *way)
{
    const struct locus_word name = locus_spec_name(way);
    const bool is_given = run->given && locus_word_is(name, run->given);
    if (is_given && !locus_word_is(name, run->scheme->name)) return ASKED;
    return FIRST;
}

static void add_ways(struct stretching *run)
{
    enum locus_status status;
    locus_error error;
    struct locus_buffer way = {0};
    struct locus_stretch plain;
    if (!locus_stretch_read(&plain, &run->plain.specs[0], run->trained, &run->env, NULL) &&
        isinf(plain.reach))
        choose(run, run->scheme->name, AS_IT_IS);
    for (int i = 0; locus_stretch_way(run->scheme, i, run->own, &run->env, &way, &status, &error) &&
                    !way.failed;
         i++) {
        if (!status) status = add_row(run, way.bytes, way.bytes, &error);
        if (status)
            locus_buffer_printf(&run->left_out, "Left out: %s: %s\n", way.bytes, error.message);
        else
            choose(run, way.bytes, choice_of(run, way.bytes));
        way.length = 0;
    }
    run->table.text.failed |= way.failed;
    locus_buffer_free(&way);
}

static int add_rows(struct stretching *run)
{
    static const char *const heads[] = {"-P", "factor", "base", "reach", "attention", "turns"};
    locus_error error;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        locus_table_add(&run->table, "%s", heads[i]);
    enum locus_status status = add_row(run, run->scheme->name, run->scheme->name, &error);
    if (!status && run->given && strpbrk(run->given, ":;"))
        status = add_row(run, "as given", run->given, &error);
    if (status && !run->model)
        return locus_log_usage("positions", "%s; -m FILE names a model", error.message);
    return status ? locus_log_error("%s", error.message) : -1;
}

/* ---- the page ------------------------------------------------------------------------------- */

static void append_subject(const struct stretching *run, struct locus_buffer *out)
{
    const int length = run->options->length;
    if (run->model) {
        const char *slash = strrchr(run->path, '/');
        locus_buffer_printf(out, "%s: trained to %d positions with %s.\n",
                            slash ? slash + 1 : run->path,
                            locus_model_info_get(run->model).trained_length, run->own);
    } else
        locus_buffer_printf(out, "No model is named by -m: one with heads %d wide is taken.\n",
                            run->env.head_dim);
    if (run->given && strpbrk(run->given, ":;"))
        locus_buffer_printf(out, "As given: %s\n", run->given);
    if (length > run->trained)
        locus_buffer_printf(out, "%d positions are %.4g times the %.0f that %s is made for:\n\n",
                            length, length / run->trained, run->trained, run->scheme->name);
    else
        locus_buffer_printf(out,
                            "%d positions are within the %.0f that %s is made for. As it is:\n\n",
                            length, run->trained, run->scheme->name);
}

static void append_legend(const struct stretching *run, struct locus_buffer *out)
{
    struct locus_stretch plain;
    const int trained = (int)run->trained;
    if (locus_stretch_read(&plain, &run->plain.specs[0], run->trained, &run->env, NULL)) return;
    if (isnan(plain.turns)) {
        if (isfinite(plain.reach))
            locus_buffer_printf(out, "\nreach: positions that it tells apart\n");
        return;
    }
    locus_buffer_printf(out,
                        "\nreach:  an estimate: to there no frequency of a wavelength above %d "
                        "turns farther than it did within as many\n",
                        trained);
    if (!isnan(plain.attention))
        locus_buffer_printf(out, "attention:  multiplies cosines and sines\n");
    locus_buffer_printf(out,
                        "turns:  of the lowest frequency within %d positions (unscaled, within "
                        "%d: %.3g)\n",
                        run->options->length, trained, plain.trained);
}

static void append_example(const struct stretching *run, struct locus_buffer *out)
{
    char length[16];
    size_t line;
    if (run->pasted.length == 0 || run->pasted.failed) return;
    snprintf(length, sizeof length, "%d", run->options->length);
    locus_buffer_printf(out, "\nExample:\n");
    line = out->length;
    locus_buffer_printf(out, "  locus generate");
    locus_positions_word(out, &line, "-m", run->path ? run->path : "MODEL.gguf");
    locus_positions_word(out, &line, "-c", length);
    locus_positions_word(out, &line, "-p", "Once upon a time");
    locus_positions_word(out, &line, "-P", run->pasted.bytes);
    locus_buffer_append(out, "\n", 1);
}

static int stretch(struct stretching *run)
{
    int status = find_scheme(run);
    if (status >= 0 || (status = add_rows(run)) >= 0) return status;
    if (run->options->length > run->trained) add_ways(run);
    struct locus_buffer out = {0};
    append_subject(run, &out);
    locus_table_print(&run->table, &out);
    append_legend(run, &out);
    if (run->left_out.length > 0 && !run->left_out.failed)
        locus_buffer_printf(&out, "\n%s", run->left_out.bytes);
    append_example(run, &out);
    out.failed |= run->left_out.failed || run->pasted.failed;
    return locus_page_finish(&out);
}

int locus_positions_stretch(const struct positions_options *options, const char *text)
{
    const int columns = locus_page_columns(STDOUT_FILENO);
    struct stretching run = {
        .options = options,
        .given = text,
        .env = locus_invented_env(),
        .table = {.n_columns = 6, .n_left = 1, .width = columns ? columns : LOCUS_PAGE_USUAL},
    };
    int status = -1;
    run.env.session_length = options->length;
    if (options->common.model)
        status = open_model(&run);
    else if (!text)
        status = locus_log_usage("positions", "--length wants a scheme to bring to that length, or "
                                              "-m FILE whose own is meant");
    if (status < 0) status = stretch(&run);
    locus_buffer_free(&run.table.text);
    locus_buffer_free(&run.left_out);
    locus_buffer_free(&run.pasted);
    locus_model_free(run.model);
    free(run.path);
    return status;
}
