/* locus extrapolate: what there is to measure, before anything is.
 *
 *     contenders x lengths -> settings: is there such a session, and which SPEC does it resolve to
 *     settings x texts or depths -> cells: the rows of the CSV, in its order, but for their results
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands/extrapolate.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/session_options.h"
#include "experiment/extrapolate.h"
#include "experiment/setting.h"
#include "position/position.h"

static bool out_of_memory(struct locus_extrapolate *run)
{
    run->status = locus_log_error("out of memory for the plan");
    return false;
}

static bool fail(struct locus_extrapolate *run, const char *where, const locus_error *error)
{
    run->status = locus_log_error("%s: %s", where, error->message);
    return false;
}

/* ---- models and texts --------------------------------------------------------------------- */

/* --begin for a model; tasks begin as they were trained, with whatever token the model has. */
static int choose_begin(struct locus_extrapolate *run, int index)
{
    const struct locus_opened_model *subject = &run->subjects[index];
    struct locus_begin *begin = &run->begins[index];
    const int32_t token = subject->info.bos_token;
    if (run->task < 0 || run->options->text.begin)
        return locus_begin_option(begin, "extrapolate", run->options->text.begin,
                                  run->plan.protocol, subject);
    *begin = (struct locus_begin){token < 0 ? LOCUS_BEGIN_NONE : LOCUS_BEGIN_FIRST, token};
    return -1;
}

/* The index of the contender's model, opened once however many contenders it has. */
static int find_subject(struct locus_extrapolate *run, const struct locus_contender *contender)
{
    struct locus_common common = run->options->common;
    for (int i = 0; i < run->n_contenders && &run->contenders[i] != contender; i++) {
        const char *a = run->contenders[i].model, *b = contender->model;
        if (a && b ? strcmp(a, b) == 0 : a == b) return run->contenders[i].subject;
    }
    common.model = contender->model;
    struct locus_opened_model *subject = &run->subjects[run->n_subjects++];
    int status = locus_model_option(subject, &common);
    if (status < 0 && (run->options->csv || run->options->json))
        status = locus_model_hash_option(subject);
    if (status < 0) status = choose_begin(run, run->n_subjects - 1);
    if (status >= 0) run->status = status;
    return status < 0 ? run->n_subjects - 1 : -1;
}

static bool open_models(struct locus_extrapolate *run)
{
    run->subjects = calloc((size_t)run->n_contenders, sizeof *run->subjects);
    run->begins = calloc((size_t)run->n_contenders, sizeof *run->begins);
    if (!run->subjects || !run->begins) return out_of_memory(run);
    for (int i = 0; i < run->n_contenders; i++)
        if ((run->contenders[i].subject = find_subject(run, &run->contenders[i])) < 0) return false;
    return true;
}

static bool encode_texts(struct locus_extrapolate *run)
{
    const int n_texts = run->texts.n_items;
    run->corpora = calloc((size_t)run->n_subjects * (size_t)n_texts, sizeof *run->corpora);
    if (!run->corpora) return out_of_memory(run);
    if (run->options->csv || run->options->json) locus_text_list_hash(&run->texts);
    for (int i = 0; i < run->n_subjects; i++)
        for (int j = 0; j < n_texts; j++) {
            const bool quiet = run->options->common.quiet || i > 0;
            const struct locus_corpus_options reading = {run->options->text.documents,
                                                         run->begins[i]};
            int status = locus_text_encode(&run->corpora[i * n_texts + j], &run->subjects[i],
                                           &run->texts.items[j], &reading, quiet);
            if (status < 0) continue;
            run->status = status;
            return false;
        }
    return true;
}

/* A quarter of the trained length to eight times it, where no lengths were given. */
static bool default_lengths(struct locus_extrapolate *run)
{
    enum { N = 6 };
    if (run->n_lengths > 0) return true;
    const int trained = run->subjects[0].info.trained_length;
    run->lengths = calloc(N, sizeof *run->lengths);
    if (!run->lengths) return out_of_memory(run);
    for (int64_t n = 8 * (int64_t)trained; n > 0 && run->n_lengths < N; n /= 2)
        if (n <= INT32_MAX) run->lengths[run->n_lengths++] = (int)n;
    return true;
}

/* ---- settings ----------------------------------------------------------------------------- */

static const char *task_name(const struct locus_extrapolate *run)
{
    return run->task < 0 ? "perplexity" : locus_task_name((enum locus_task)run->task);
}

/* Positions that a contender's session needs for a length. */
static bool count_tokens(struct locus_extrapolate *run, const struct locus_contender *contender,
                         int length, int *n_tokens)
{
    const struct locus_opened_model *subject = &run->subjects[contender->subject];
    locus_error error;
    *n_tokens = length;
    if (run->task < 0) return true;
    struct locus_trials trials = {.task = (enum locus_task)run->task,
                                  .length = length,
                                  .n_trials = run->options->n_trials,
                                  .seed = run->options->common.seed,
                                  .begin = run->begins[contender->subject].token};
    return locus_trials_tokens(&trials, subject->tokenizer, n_tokens, &error) == LOCUS_OK
               ? true
               : fail(run, subject->path, &error);
}

/* A session of that length is opened to see what it makes of the SPEC. */
static bool fill_setting(struct locus_extrapolate *run, const struct locus_contender *contender,
                         struct locus_setting *setting, int length, locus_error *refusal)
{
    const struct locus_opened_model *subject = &run->subjects[contender->subject];
    locus_session_params params = locus_session_options(&run->options->common);
    params.position = contender->position;
    if (!count_tokens(run, contender, length, &setting->n_tokens)) return false;
    const int n_texts = run->texts.n_items; /* of a task: none */
    const int n_positions =
        run->task < 0 ? locus_corpora_longest(&run->corpora[contender->subject * n_texts], n_texts)
                      : setting->n_tokens;
    locus_session *session =
        locus_session_for_text(subject->model, &params, setting->n_tokens, n_positions, refusal);
    if (!session && refusal->status == LOCUS_ERROR_MEMORY) return fail(run, subject->path, refusal);
    if (!session) return true;
    setting->spec = strdup(locus_session_position(session));
    bool set = locus_row_set_session(&setting->row, task_name(run), subject, session);
    locus_session_free(session);
    return set && setting->spec ? true : out_of_memory(run);
}

/* The value of the key that `pair` begins with, in the first SPEC of another canonical text, to the
 * next comma or semicolon: the default where it isn't named; NULL where there is no such key. */
static const char *value_in(const char *spec, const char *pair)
{
    const size_t n_key = strcspn(pair, "=") + 1;
    const struct locus_word name = {spec, strcspn(spec, ":;")};
    const char *rest = spec + name.n_bytes;
    for (struct locus_word other; *rest != ';' && locus_spec_next(&rest, &other);) {
        if (strncmp(other.bytes, pair, n_key) == 0) return other.bytes + n_key;
        if (memchr(other.bytes, ';', other.n_bytes)) break;
    }
    const struct locus_position_scheme *scheme = locus_position_find(name.bytes, name.n_bytes);
    const struct locus_position_param *param = scheme ? scheme->params : NULL;
    for (; param && param->key; param++)
        if (strlen(param->key) + 1 == n_key && strncmp(param->key, pair, n_key - 1) == 0)
            return param->fallback;
    return NULL;
}

/* The SPEC of legends: as the longest length resolves it, and where shorter ones give a key another
 * value, both ends: "factor=2..16". */
static bool label_contender(struct locus_extrapolate *run, int index)
{
    const struct locus_setting *settings = locus_extrapolate_setting(run, index, 0);
    struct locus_buffer label = {0};
    int longest = 0;
    while (longest < run->n_lengths - 1 && !settings[longest].spec)
        longest++;
    const char *spec = settings[longest].spec ? settings[longest].spec : "";
    const char *rest = spec + strcspn(spec, ":;"); /* at the colon or a comma */
    locus_buffer_printf(&label, "%.*s", (int)(rest - spec), spec);
    while (*rest && *rest != ';') {
        const char *pair = rest + 1, *value = pair + strcspn(pair, "=") + 1, *least = NULL;
        const int n_value = (int)strcspn(value, ",;");
        for (int i = run->n_lengths - 1; i > longest && !least; i--)
            least = settings[i].spec ? value_in(settings[i].spec, pair) : NULL;
        locus_buffer_printf(&label, "%.*s", (int)(value - rest), rest);
        const bool same = least && (int)strcspn(least, ",;") == n_value &&
                          strncmp(least, value, (size_t)n_value) == 0;
        if (least && !same) locus_buffer_printf(&label, "%.*s..", (int)strcspn(least, ",;"), least);
        locus_buffer_printf(&label, "%.*s", n_value, value);
        rest = value + n_value;
    }
    locus_buffer_printf(&label, "%s", rest); /* what other layers have */
    if (label.failed) locus_buffer_free(&label);
    run->contenders[index].label = label.bytes;
    return label.bytes ? true : out_of_memory(run);
}

static bool fill_settings(struct locus_extrapolate *run)
{
    const size_t n_lengths = (size_t)run->n_lengths;
    run->settings = calloc((size_t)run->n_contenders * n_lengths, sizeof *run->settings);
    if (!run->settings) return out_of_memory(run);
    for (int i = 0; i < run->n_contenders; i++) {
        const struct locus_contender *contender = &run->contenders[i];
        struct locus_setting *settings = locus_extrapolate_setting(run, i, 0);
        locus_error refusal;
        int shortest = 0, n_refused = 0;
        for (int j = 0; j < run->n_lengths; j++) {
            if (!fill_setting(run, contender, &settings[j], run->lengths[j], &refusal))
                return false;
            if (settings[j].spec) continue;
            shortest = run->lengths[j];
            n_refused++;
        }
        if (n_refused == run->n_lengths) {
            run->status = locus_log_refusal("extrapolate", &refusal);
            return false;
        }
        if (n_refused > 0 && !run->options->common.quiet)
            locus_log_note("note: %s: no length from %d on: %s",
                           run->subjects[contender->subject].name, shortest, refusal.message);
        if (!label_contender(run, i)) return false;
    }
    return true;
}

/* ---- cells -------------------------------------------------------------------------------- */

static bool add_cell(struct locus_extrapolate *run, const struct locus_cell *cell)
{
    const size_t n = (size_t)run->n_cells + 1;
    struct locus_cell *cells = realloc(run->cells, n * sizeof *cells);
    if (!cells) return out_of_memory(run);
    run->cells = cells;
    struct locus_cell *added = &cells[run->n_cells++];
    *added = *cell;
    const struct locus_setting *setting =
        locus_extrapolate_setting(run, cell->contender, cell->setting);
    if (!setting->spec) added->state = LOCUS_CELL_REFUSED;
    return locus_row_copy(&added->row, &setting->row) ? true : out_of_memory(run);
}

/* Predictions of a cell on one text. */
static int64_t count_predictions(const struct locus_extrapolate *run, const struct locus_cell *cell,
                                 const struct locus_plan *plan, int text)
{
    const struct locus_corpus *corpus = locus_extrapolate_corpus(run, cell->contender, text);
    return cell->kind == LOCUS_CELL_POSITION
               ? locus_corpus_rows(corpus, plan, cell->first, cell->length)
               : locus_corpus_predictions(corpus, plan);
}

/* What a row of perplexity says of its plan. */
static bool describe_plan(struct locus_extrapolate *run)
{
    struct locus_cell *cell = &run->cells[run->n_cells - 1];
    const int n_texts = run->texts.n_items;
    const bool pooled = cell->text == n_texts, bucket = cell->kind == LOCUS_CELL_POSITION;
    const int first = pooled ? 0 : cell->text, end = pooled ? n_texts : cell->text + 1;
    const struct locus_corpus *corpus = locus_extrapolate_corpus(run, cell->contender, first);
    const struct locus_plan plan =
        bucket ? locus_extrapolate_bucket_plan(run, run->lengths[cell->setting])
               : locus_extrapolate_plan_at(run, cell->length);
    int64_t n = 0;
    int longest = plan.length;
    for (int i = first; i < end; i++) {
        const int fills =
            locus_corpus_longest(locus_extrapolate_corpus(run, cell->contender, i), &plan);
        if (fills < longest) longest = fills;
        n += count_predictions(run, cell, &plan, i);
    }
    cell->past = longest < plan.length;
    if (n == 0 && !cell->past) cell->state = LOCUS_CELL_REFUSED; /* an empty bucket */
    bool set =
        locus_row_set_plan(&cell->row, pooled ? "pooled" : run->texts.items[first].name,
                           pooled ? run->texts.sha : run->texts.items[first].sha, &plan, corpus);
    if (bucket) {
        set &= locus_row_set_text(&cell->row, LOCUS_COLUMN_PROTOCOL, "by-position");
        set &= locus_row_set_int(&cell->row, LOCUS_COLUMN_LENGTH, cell->length);
    }
    set &= locus_row_set_int(&cell->row, LOCUS_COLUMN_LONGEST_WINDOW, longest);
    if (!cell->past) set &= locus_row_set_int(&cell->row, LOCUS_COLUMN_TOKENS, n);
    return set ? true : out_of_memory(run);
}

int locus_extrapolate_buckets(const struct locus_extrapolate *run, int longest, int *ends)
{
    int n = 0;
    if (run->n_lengths == 1) {
        while (n < 31 && longest >> n > 0)
            n++;
        for (int i = 0; i < n; i++)
            ends[i] = longest >> (n - 1 - i);
        return n;
    }
    for (int i = run->n_lengths - 1; i >= 0; i--)
        if (run->lengths[i] <= longest) ends[n++] = run->lengths[i];
    return n;
}

/* The longest length that a contender serves and the text fills; n_lengths: none. Texts that differ
 * in it have no pooled one. */
static int find_longest(const struct locus_extrapolate *run, int contender, int text)
{
    if (text == run->texts.n_items) {
        const int first = find_longest(run, contender, 0);
        for (int i = 1; i < text; i++)
            if (find_longest(run, contender, i) != first) return run->n_lengths;
        return first;
    }
    const struct locus_corpus *corpus = locus_extrapolate_corpus(run, contender, text);
    int i = 0;
    for (; i < run->n_lengths; i++) {
        const struct locus_plan plan = locus_extrapolate_bucket_plan(run, run->lengths[i]);
        if (locus_extrapolate_setting(run, contender, i)->spec &&
            locus_corpus_longest(corpus, &plan) == plan.length)
            break;
    }
    return i;
}

/* The rows of --by-position: buckets of the longest windows that are served and filled. */
static bool add_buckets(struct locus_extrapolate *run, struct locus_cell cell)
{
    const int longest = find_longest(run, cell.contender, cell.text);
    if (longest == run->n_lengths) return true;
    int *ends = malloc((size_t)(32 + run->n_lengths) * sizeof *ends);
    if (!ends) return out_of_memory(run);
    const int n = locus_extrapolate_buckets(run, run->lengths[longest], ends);
    bool added = true;
    cell.kind = LOCUS_CELL_POSITION;
    cell.setting = longest;
    for (int i = 0; i < n && added; i++) {
        cell.first = i > 0 ? ends[i - 1] : 0;
        cell.length = ends[i];
        added = add_cell(run, &cell) && describe_plan(run);
    }
    free(ends);
    return added;
}

/* A contender's rows on a text: the protocol's, longest first, then those by position. */
static bool add_text_cells(struct locus_extrapolate *run, int contender, int text)
{
    struct locus_cell cell = {
        .kind = LOCUS_CELL_PLAN, .contender = contender, .text = text, .depth = -1};
    for (int i = 0; i < run->n_lengths; i++) {
        cell.length = run->lengths[i];
        cell.setting = i;
        if (!add_cell(run, &cell) || !describe_plan(run)) return false;
    }
    return run->options->by_position ? add_buckets(run, cell) : true;
}

static bool describe_trials(struct locus_extrapolate *run)
{
    struct locus_cell *cell = &run->cells[run->n_cells - 1];
    const struct locus_contender *contender = &run->contenders[cell->contender];
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)run->options->common.seed);
    bool set = locus_row_set_int(&cell->row, LOCUS_COLUMN_LENGTH, cell->length);
    set &= locus_row_set_begin(&cell->row, run->begins[contender->subject].rule);
    if (cell->depth >= 0) set &= locus_row_set_real(&cell->row, LOCUS_COLUMN_DEPTH, cell->depth);
    set &= locus_row_set_int(&cell->row, LOCUS_COLUMN_TRIALS, run->options->n_trials);
    set &= locus_row_set_text(&cell->row, LOCUS_COLUMN_SEED, seed);
    return set ? true : out_of_memory(run);
}

/* A contender's rows of a task, shortest first. */
static bool add_task_cells(struct locus_extrapolate *run, int contender)
{
    struct locus_cell cell = {.kind = LOCUS_CELL_TRIALS, .contender = contender, .depth = -1};
    const int n_depths = run->task == LOCUS_TASK_PASSKEY ? LOCUS_N_DEPTHS : 1;
    for (int i = run->n_lengths - 1; i >= 0; i--)
        for (int j = 0; j < n_depths; j++) {
            cell.length = run->lengths[i];
            cell.setting = i;
            if (n_depths > 1) cell.depth = (double)j / (n_depths - 1);
            if (!add_cell(run, &cell) || !describe_trials(run)) return false;
        }
    return true;
}

static bool add_cells(struct locus_extrapolate *run)
{
    for (int i = 0; i < run->n_contenders; i++) {
        if (run->task >= 0) {
            if (!add_task_cells(run, i)) return false;
            continue;
        }
        const int n_texts = run->texts.n_items;
        for (int j = 0; j < n_texts + (n_texts > 1); j++)
            if (!add_text_cells(run, i, j)) return false;
    }
    return true;
}

/* Every length has to suit the protocol, and the shortest one the stride. */
static bool check_plans(struct locus_extrapolate *run)
{
    const struct locus_plan plan = locus_extrapolate_plan_at(run, run->lengths[run->n_lengths - 1]);
    int status = locus_plan_refuse(&plan, "extrapolate");
    if (status >= 0) run->status = status;
    return status < 0;
}

/* Says which texts don't fill the longest windows; false where none fills any. */
static bool tell_longest(struct locus_extrapolate *run)
{
    const struct locus_plan plan = locus_extrapolate_plan_at(run, run->lengths[0]);
    bool any = false;
    for (int i = 0; i < run->n_cells; i++)
        any |= run->cells[i].state == LOCUS_CELL_PENDING && !run->cells[i].past;
    for (int j = 0; j < run->texts.n_items; j++) {
        const struct locus_text *text = &run->texts.items[j];
        int longest = plan.length, shortest = run->lengths[run->n_lengths - 1];
        for (int i = 0; i < run->n_subjects; i++) {
            const int n = locus_corpus_longest(&run->corpora[i * run->texts.n_items + j], &plan);
            if (n < longest) longest = n;
        }
        if (!any && longest < shortest) {
            run->status = locus_log_error("%s: the longest window that it fills has %d tokens, "
                                          "fewer than the shortest length, %d",
                                          text->path, longest, shortest);
            return false;
        }
        if (longest < plan.length && !run->options->common.quiet)
            locus_log_note("note: %s: the longest window that it fills has %d tokens: no result "
                           "for lengths past that",
                           text->name, longest);
    }
    return true;
}

bool locus_extrapolate_plan(struct locus_extrapolate *run)
{
    if (!open_models(run)) return false;
    if (run->task < 0 && !(encode_texts(run) && default_lengths(run))) return false;
    if (run->options->common.n_context && run->options->common.n_context < run->lengths[0]) {
        run->status =
            locus_log_usage("extrapolate", "-c (--context) is %d, less than the longest %d",
                            run->options->common.n_context, run->lengths[0]);
        return false;
    }
    if (run->task < 0 && !check_plans(run)) return false;
    return fill_settings(run) && add_cells(run) && (run->task >= 0 || tell_longest(run));
}

const struct locus_cell *locus_extrapolate_cell(const struct locus_extrapolate *run,
                                                enum locus_cell_kind kind, int contender, int text,
                                                int length, double depth)
{
    for (int i = 0; i < run->n_cells; i++) {
        const struct locus_cell *cell = &run->cells[i];
        if (cell->kind == kind && cell->contender == contender && cell->text == text &&
            cell->length == length && cell->depth == depth)
            return cell;
    }
    return NULL;
}
