/* Sweeps: what is planned, measured, pooled, copied, stopped and taken up again. */
#include "experiment/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own_scheme.h"
#include "testing.h"

enum { N_FIRST = 150, N_SECOND = 40, N_TEXTS = 2, MOST_SERIES = 4, MOST_LENGTHS = 8 };

static const struct locus_begin nowhere = {LOCUS_BEGIN_NONE, -1};

/* A sweep over one model and two texts of tokens drawn by a fixed rule. */
struct fixture {
    struct locus_opened_model model;
    struct locus_text_list texts;
    struct locus_corpus corpora[N_TEXTS];
    struct locus_series series[MOST_SERIES];
    int lengths[MOST_LENGTHS];
    struct locus_sweep sweep;
};

static void draw_corpus(struct locus_corpus *corpus, int n, int n_vocab)
{
    uint32_t state = (uint32_t)n;
    *corpus = (struct locus_corpus){.n_tokens = n, .n_documents = 1, .begin = nowhere};
    corpus->tokens = calloc((size_t)n, sizeof *corpus->tokens);
    corpus->n_bytes = calloc((size_t)n, sizeof *corpus->n_bytes);
    corpus->documents = calloc(1, sizeof *corpus->documents);
    corpus->documents[0] = (struct locus_document){0, n};
    for (int i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        corpus->tokens[i] = (int32_t)(state >> 8) % n_vocab;
        corpus->n_bytes[i] = 1 + i % 3;
    }
}

/* Lengths end with a 0, SPECs with a NULL; a first NULL is the model's own. */
static void prepare(struct fixture *fixture, const char *model, const int *lengths,
                    const char *const *specs)
{
    static const char *const names[N_TEXTS] = {"first.txt", "second.txt"};
    static const int n_tokens[N_TEXTS] = {N_FIRST, N_SECOND};
    struct locus_sweep *sweep = &fixture->sweep;
    locus_error error;
    *fixture = (struct fixture){.lengths = {0}};
    fixture->model.path = strdup(testing_golden(model));
    fixture->model.name = "model.gguf";
    strcpy(fixture->model.sha, "01234567");
    fixture->model.model = locus_model_open(fixture->model.path, &error);
    ck_assert_msg(fixture->model.model != NULL, "%s", error.message);
    fixture->model.info = locus_model_info_get(fixture->model.model);
    for (int i = 0; i < N_TEXTS; i++) {
        struct locus_text *text = locus_text_list_add(&fixture->texts, names[i]);
        ck_assert_ptr_nonnull(text);
        text->sha[0] = (char)('a' + i);
        draw_corpus(&fixture->corpora[i], n_tokens[i], fixture->model.info.n_vocab);
    }
    strcpy(fixture->texts.sha, "ab");
    *sweep = (struct locus_sweep){.models = &fixture->model,
                                  .begins = &nowhere,
                                  .n_models = 1,
                                  .series = fixture->series,
                                  .lengths = fixture->lengths,
                                  .params = {.n_threads = 1},
                                  .task = -1,
                                  .texts = &fixture->texts,
                                  .corpora = fixture->corpora};
    for (; lengths[sweep->n_lengths]; sweep->n_lengths++)
        fixture->lengths[sweep->n_lengths] = lengths[sweep->n_lengths];
    do
        fixture->series[sweep->n_series].position = specs[sweep->n_series];
    while (specs[sweep->n_series++] && specs[sweep->n_series]);
}

static void release(struct fixture *fixture)
{
    locus_sweep_free(&fixture->sweep);
    for (int i = 0; i < N_TEXTS; i++)
        locus_corpus_free(&fixture->corpora[i]);
    locus_text_list_free(&fixture->texts);
    locus_opened_model_close(&fixture->model);
}

static void plan(struct fixture *fixture)
{
    locus_error error;
    ck_assert_msg(locus_sweep_plan(&fixture->sweep, &error) == LOCUS_OK, "%s", error.message);
}

static void run_all(struct fixture *fixture, struct locus_csv *csv)
{
    locus_error error;
    bool whole;
    ck_assert_msg(locus_sweep_run(&fixture->sweep, csv, NULL, &whole, &error) == LOCUS_OK, "%s",
                  error.message);
    ck_assert(whole);
}

static const struct locus_cell *cell_at(const struct fixture *fixture, int series, int text,
                                        int length)
{
    const struct locus_cell *cell =
        locus_sweep_cell(&fixture->sweep, LOCUS_CELL_PLAN, series, text, length, -1);
    ck_assert_ptr_nonnull(cell);
    return cell;
}

/* The same in all but seconds. */
static bool same_rows(const struct locus_row *a, const struct locus_row *b)
{
    for (int i = 0; i < LOCUS_N_COLUMNS; i++) {
        const char *x = a->cells[i], *y = b->cells[i];
        if (i != LOCUS_COLUMN_SECONDS && (x && y ? strcmp(x, y) != 0 : x != y)) return false;
    }
    return true;
}

static void check_same_results(const struct locus_sweep *a, const struct locus_sweep *b)
{
    ck_assert_int_eq(a->n_cells, b->n_cells);
    for (int i = 0; i < a->n_cells; i++) {
        ck_assert_int_eq(a->cells[i].state, b->cells[i].state);
        ck_assert_msg(same_rows(&a->cells[i].row, &b->cells[i].row), "cell %d", i);
    }
}

static int count_rows(const char *path)
{
    size_t n_bytes;
    int n = -1; /* the header */
    char *bytes = testing_read(path, &n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        n += bytes[i] == '\n';
    free(bytes);
    return n;
}

static struct locus_csv open_csv(const char *path, enum locus_csv_mode mode)
{
    struct locus_csv csv;
    locus_error error;
    ck_assert_msg(locus_csv_open(&csv, path, mode, &error) == LOCUS_OK, "%s", error.message);
    return csv;
}

/* ---- the plan ----------------------------------------------------------------------------- */

START_TEST(cells_are_the_rows_of_the_csv_before_any_is_measured)
{
    struct fixture fixture;
    prepare(&fixture, "llama-half.gguf", (const int[]){64, 32, 0},
            (const char *const[]){"alibi", "none", NULL});
    fixture.sweep.by_position = true;
    plan(&fixture);
    static const struct {
        enum locus_cell_kind kind;
        int text, length, tokens; /* 0: the text doesn't fill such windows */
    } expected[] = {
        {LOCUS_CELL_PLAN, 0, 64, N_FIRST - 1},
        {LOCUS_CELL_PLAN, 0, 32, N_FIRST - 1},
        {LOCUS_CELL_POSITION, 0, 32, 2 * 32 + 21},
        {LOCUS_CELL_POSITION, 0, 64, 2 * 32},
        {LOCUS_CELL_PLAN, 1, 64, 0},
        {LOCUS_CELL_PLAN, 1, 32, N_SECOND - 1},
        {LOCUS_CELL_POSITION, 1, 32, N_SECOND - 1},
        {LOCUS_CELL_PLAN, 2, 64, 0},
        {LOCUS_CELL_PLAN, 2, 32, N_FIRST + N_SECOND - 2},
    };
    enum { N = sizeof expected / sizeof *expected };
    ck_assert_int_eq(fixture.sweep.n_cells, 2 * N);
    for (int i = 0; i < 2 * N; i++) {
        const struct locus_cell *cell = &fixture.sweep.cells[i];
        ck_assert_int_eq(cell->series, i / N);
        ck_assert_int_eq(cell->kind, expected[i % N].kind);
        ck_assert_int_eq(cell->text, expected[i % N].text);
        ck_assert_int_eq(cell->length, expected[i % N].length);
        ck_assert_int_eq(cell->past, expected[i % N].tokens == 0);
        ck_assert_int_eq(cell->state, LOCUS_CELL_PENDING);
        ck_assert_int_eq(cell->twin, -1);
        ck_assert_str_eq(cell->row.cells[LOCUS_COLUMN_POSITION], i < N ? "alibi" : "none");
        ck_assert_ptr_null(cell->row.cells[LOCUS_COLUMN_NLL]);
        if (expected[i % N].tokens)
            ck_assert_int_eq((int)locus_row_number(&cell->row, LOCUS_COLUMN_TOKENS),
                             expected[i % N].tokens);
    }
    ck_assert_int_eq(locus_sweep_longest(&fixture.sweep, 0), 64);
    ck_assert_int_eq(locus_sweep_longest(&fixture.sweep, 1), N_SECOND - 1);
    release(&fixture);
}
END_TEST

START_TEST(a_spec_is_refused_at_lengths_that_it_does_not_reach)
{
    struct fixture fixture;
    locus_error error;
    prepare(&fixture, "gpt2-learned.gguf", (const int[]){4096, 512, 16, 0},
            (const char *const[]){NULL});
    const int trained = fixture.model.info.trained_length;
    ck_assert_int_lt(trained, 512);
    plan(&fixture);
    const struct locus_series *series = &fixture.series[0];
    ck_assert_int_eq(series->refused_from, 512);
    ck_assert_ptr_nonnull(strstr(series->refusal.message, "positions"));
    ck_assert_ptr_nonnull(series->label);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(locus_sweep_point(&fixture.sweep, 0, i)->served, i == 2);
    run_all(&fixture, NULL);
    ck_assert_int_eq(cell_at(&fixture, 0, 0, 512)->state, LOCUS_CELL_REFUSED);
    ck_assert_ptr_null(cell_at(&fixture, 0, 0, 512)->row.cells[LOCUS_COLUMN_NLL]);
    for (int text = 0; text <= N_TEXTS; text++)
        ck_assert_int_eq(cell_at(&fixture, 0, text, 16)->state, LOCUS_CELL_DONE);
    release(&fixture);

    prepare(&fixture, "gpt2-learned.gguf", (const int[]){4096, 512, 0},
            (const char *const[]){"none", "learned", NULL});
    ck_assert_int_ne(locus_sweep_plan(&fixture.sweep, &error), LOCUS_OK);
    ck_assert_int_eq(fixture.series[1].refused_from, 512);
    ck_assert_str_eq(error.message, fixture.series[1].refusal.message);
    ck_assert_ptr_null(fixture.series[1].label);
    release(&fixture);
}
END_TEST

START_TEST(a_label_has_both_ends_of_values_in_every_layers_spec)
{
    static const char *const specs[] = {
        "rope:scaling=linear,factor=auto",
        "rope:scaling=dynamic; layers 1 rope:scaling=linear,factor=auto",
        "none; layers 0 rope:scaling=dynamic,factor=2; layers 1 alibi",
        "alibi",
        NULL,
    };
    struct fixture fixture;
    prepare(&fixture, "llama-half.gguf", (const int[]){512, 128, 32, 0}, specs);
    const int trained = fixture.model.info.trained_length;
    ck_assert_int_eq(512 % trained, 0);
    plan(&fixture);
    char range[32];
    snprintf(range, sizeof range, "factor=1..%d", 512 / trained);
    ck_assert_ptr_nonnull(strstr(fixture.series[0].label, range));
    const char *later = strstr(fixture.series[1].label, "; layers 1 ");
    ck_assert_msg(later && strstr(later, range), "%s", fixture.series[1].label);
    ck_assert_msg(strstr(fixture.series[1].label, "length=32..512;") != NULL, "%s",
                  fixture.series[1].label);
    later = strstr(fixture.series[2].label, "; layers 0 ");
    ck_assert_msg(later && strstr(later, "factor=2,length=32..512; layers 1 alibi"), "%s",
                  fixture.series[2].label);
    ck_assert_str_eq(fixture.series[3].label, "alibi");
    release(&fixture);
}
END_TEST

START_TEST(default_lengths_lie_about_the_trained_one)
{
    int lengths[LOCUS_DEFAULT_LENGTHS];
    ck_assert_int_eq(locus_default_lengths(32, lengths), 6);
    ck_assert_int_eq(lengths[0], 256);
    ck_assert_int_eq(lengths[5], 8);
    ck_assert_int_eq(locus_default_lengths(1, lengths), 4);
    ck_assert_int_eq(lengths[3], 1);
    ck_assert_int_eq(locus_default_lengths(1 << 30, lengths), 6);
    ck_assert_int_eq(lengths[0], 1 << 30);
}
END_TEST

/* ---- results ------------------------------------------------------------------------------ */

START_TEST(a_cell_is_what_a_session_of_its_own_measures)
{
    for (int protocol = LOCUS_WINDOWS; protocol <= LOCUS_HALF; protocol++) {
        struct fixture fixture;
        prepare(&fixture, "llama-half.gguf", (const int[]){64, 32, 16, 0},
                (const char *const[]){"rope:scaling=dynamic", "alibi", NULL});
        fixture.sweep.plan.protocol = (enum locus_protocol)protocol;
        plan(&fixture);
        run_all(&fixture, NULL);
        for (int series = 0; series < 2; series++)
            for (int i = 0; i < 3; i++) {
                const int length = fixture.lengths[i];
                const locus_session_params params = {.position = fixture.series[series].position,
                                                     .n_threads = 1};
                const struct locus_plan alone = locus_sweep_plan_at(&fixture.sweep, length);
                struct locus_losses losses;
                struct locus_row row = {{0}};
                bool whole;
                locus_session *session =
                    locus_session_for_text(fixture.model.model, &params, length, length, NULL);
                ck_assert_int_eq(locus_losses_init(&losses, &alone, &fixture.corpora[0], NULL),
                                 LOCUS_OK);
                ck_assert_int_eq(
                    locus_measure(session, &fixture.corpora[0], &losses, 1, NULL, &whole, NULL),
                    LOCUS_OK);
                const struct locus_summary summary = locus_summary_of(&losses, &fixture.corpora[0]);
                ck_assert(locus_row_set_summary(&row, &summary));
                const struct locus_cell *cell = cell_at(&fixture, series, 0, length);
                for (int j = LOCUS_COLUMN_TOKENS; j <= LOCUS_COLUMN_BITS_PER_BYTE; j++)
                    ck_assert_str_eq(cell->row.cells[j], row.cells[j]);
                locus_row_free(&row);
                locus_losses_free(&losses);
                locus_session_free(session);
            }
        release(&fixture);
    }
}
END_TEST

START_TEST(texts_are_pooled_where_each_has_a_result)
{
    struct fixture fixture;
    prepare(&fixture, "llama-half.gguf", (const int[]){64, 32, 0}, (const char *const[]){NULL});
    plan(&fixture);
    run_all(&fixture, NULL);
    struct locus_row pooled;
    const struct locus_row *rows[] = {&cell_at(&fixture, 0, 0, 32)->row,
                                      &cell_at(&fixture, 0, 1, 32)->row};
    ck_assert(locus_row_pool(&pooled, rows, 2, "ab"));
    ck_assert(same_rows(&pooled, &cell_at(&fixture, 0, N_TEXTS, 32)->row));
    ck_assert_str_eq(pooled.cells[LOCUS_COLUMN_TOKENS], "188");
    locus_row_free(&pooled);
    const struct locus_cell *past = cell_at(&fixture, 0, N_TEXTS, 64);
    ck_assert(past->past && past->state == LOCUS_CELL_DONE);
    ck_assert_ptr_null(past->row.cells[LOCUS_COLUMN_TOKENS]);
    release(&fixture);
}
END_TEST

/* How often the scheme below was made ready: for a description, or for a session made from one. */
static int n_inits;

static enum locus_status count_init(void **state, const struct locus_position_env *env,
                                    const struct locus_position_spec *spec, locus_error *error)
{
    n_inits++;
    return own_scheme.init(state, env, spec, error);
}

START_TEST(a_cell_is_described_once_and_takes_one_session)
{
    struct locus_position_scheme counted = own_scheme;
    counted.init = count_init;
    struct fixture fixture;
    prepare(
        &fixture, "llama-half.gguf", (const int[]){64, 0},
        (const char *const[]){"own:slope=1", "own:slope=2", "own:slope=2", "own:slope=3", NULL});
    fixture.sweep.params.scheme = &counted;
    fixture.texts.n_items = 1;
    n_inits = 0;
    plan(&fixture);
    ck_assert_int_eq(n_inits, 4);
    ck_assert_int_eq(fixture.sweep.n_cells, 4);
    run_all(&fixture, NULL);
    /* The third is the second again. */
    ck_assert_int_eq(n_inits, 4 + 3);
    release(&fixture);

    /* Lengths whose SPEC is one share the longest one's session. */
    prepare(&fixture, "llama-half.gguf", (const int[]){64, 32, 16, 0},
            (const char *const[]){"own", NULL});
    fixture.sweep.params.scheme = &counted;
    fixture.texts.n_items = 1;
    n_inits = 0;
    plan(&fixture);
    run_all(&fixture, NULL);
    ck_assert_int_eq(n_inits, 3 + 1);
    release(&fixture);
}
END_TEST

START_TEST(what_two_specs_resolve_to_alike_is_measured_once)
{
    struct fixture fixture;
    const char *path = testing_temporary("twins.csv");
    prepare(&fixture, "llama-half.gguf", (const int[]){64, 16, 0},
            (const char *const[]){"alibi", "alibi:factor=1", "none", "alibi", NULL});
    fixture.sweep.by_position = true;
    plan(&fixture);
    struct locus_csv csv = open_csv(path, LOCUS_CSV_NEW);
    const double work = locus_sweep_work(&fixture.sweep);
    run_all(&fixture, &csv);
    locus_csv_close(&csv);
    const int n = fixture.sweep.n_cells / 4;
    ck_assert_int_eq(n * 4, fixture.sweep.n_cells);
    for (int i = 0; i < fixture.sweep.n_cells; i++) {
        const struct locus_cell *cell = &fixture.sweep.cells[i];
        const bool copy = cell->series == 1 || cell->series == 3;
        ck_assert_int_eq(cell->twin, copy ? i % n : -1);
        ck_assert_int_eq(cell->state, LOCUS_CELL_DONE);
        if (copy) ck_assert(same_rows(&cell->row, &fixture.sweep.cells[i % n].row));
    }
    ck_assert_int_eq(count_rows(path), 2 * n);
    release(&fixture);

    prepare(&fixture, "llama-half.gguf", (const int[]){64, 16, 0},
            (const char *const[]){"alibi", "none", NULL});
    fixture.sweep.by_position = true;
    plan(&fixture);
    ck_assert_double_eq(locus_sweep_work(&fixture.sweep), work);
    release(&fixture);
}
END_TEST

/* ---- stopped and taken up ----------------------------------------------------------------- */

struct countdown {
    int n_left;  /* cells to begin before it stops */
    double work; /* done */
    int n_begun, n_given_up;
};

static bool stopped(void *context)
{
    const struct countdown *countdown = context;
    return countdown->n_left < 0;
}

static void advance(void *context, double work)
{
    struct countdown *countdown = context;
    countdown->work += work;
}

static void begin(void *context, const struct locus_cell *cell)
{
    struct countdown *countdown = context;
    ck_assert_int_eq(cell->state, LOCUS_CELL_PENDING);
    countdown->n_begun++;
    countdown->n_left--;
}

static void give_up(void *context, const struct locus_cell *cell, const locus_error *error)
{
    struct countdown *countdown = context;
    (void)cell;
    (void)error;
    countdown->n_given_up++;
}

static struct locus_sweep_watch watch_with(struct countdown *countdown)
{
    return (struct locus_sweep_watch){
        .watch = {.context = countdown, .stopped = stopped, .advance = advance},
        .begin = begin,
        .give_up = give_up};
}

static void prepare_long(struct fixture *fixture)
{
    prepare(fixture, "llama-half.gguf", (const int[]){64, 32, 16, 0},
            (const char *const[]){"rope:scaling=dynamic", "alibi", NULL});
    fixture->sweep.by_position = true;
    plan(fixture);
}

START_TEST(a_sweep_that_was_stopped_ends_as_one_that_was_not)
{
    struct fixture whole_fixture, fixture;
    const char *path = testing_temporary("stopped.csv");
    locus_error error;
    bool whole;
    prepare_long(&whole_fixture);
    const double work = locus_sweep_work(&whole_fixture.sweep);
    struct countdown all = {.n_left = 1 << 20};
    const struct locus_sweep_watch watch_all = watch_with(&all);
    ck_assert_int_eq(locus_sweep_run(&whole_fixture.sweep, NULL, &watch_all, &whole, &error),
                     LOCUS_OK);
    ck_assert(whole);
    ck_assert_int_eq(all.n_given_up, 0);
    ck_assert_double_eq_tol(all.work, work, 1e-9 * work);
    int n_done = 0;
    for (int turn = 0, going = 1; going; turn++) {
        prepare_long(&fixture);
        struct locus_csv csv = open_csv(path, LOCUS_CSV_RESUME);
        struct locus_sweep_changes changes;
        ck_assert_int_eq(csv.n_rows, n_done);
        ck_assert_int_eq(locus_sweep_resume(&fixture.sweep, &csv, &changes, &error), LOCUS_OK);
        ck_assert_int_eq(changes.n_cells, 0);
        struct countdown some = {.n_left = 3};
        const struct locus_sweep_watch watch = watch_with(&some);
        ck_assert_int_eq(locus_sweep_run(&fixture.sweep, &csv, &watch, &whole, &error), LOCUS_OK);
        locus_csv_close(&csv);
        ck_assert_int_gt(count_rows(path), n_done);
        n_done = count_rows(path);
        going = !whole;
        ck_assert_int_lt(turn, 20);
        if (whole) {
            ck_assert_int_gt(turn, 1);
            check_same_results(&fixture.sweep, &whole_fixture.sweep);
        }
        release(&fixture);
    }
    ck_assert_int_eq(n_done, whole_fixture.sweep.n_cells);
    release(&whole_fixture);
}
END_TEST

START_TEST(rows_of_another_state_are_measured_again_and_named)
{
    struct fixture fixture;
    const char *path = testing_temporary("changed.csv");
    locus_error error;
    struct locus_sweep_changes changes;
    for (int turn = 0; turn < 3; turn++) {
        prepare(&fixture, "llama-half.gguf", (const int[]){32, 16, 0}, (const char *const[]){NULL});
        if (turn > 0) fixture.texts.items[1].sha[0] = 'c'; /* the pool's sha is as it was */
        if (turn == 2) strcpy(fixture.model.sha, "76543210");
        plan(&fixture);
        struct locus_csv csv = open_csv(path, LOCUS_CSV_RESUME);
        ck_assert_int_eq(locus_sweep_resume(&fixture.sweep, &csv, &changes, &error), LOCUS_OK);
        ck_assert_int_eq(changes.n_cells, turn == 0 ? 0 : turn == 1 ? 2 : 6);
        ck_assert_int_eq(changes.model != NULL, turn == 2);
        if (turn == 1)
            ck_assert_str_eq(changes.text, "second.txt");
        else
            ck_assert_ptr_null(changes.text);
        ck_assert_ptr_null(changes.version);
        for (int i = 0; i < fixture.sweep.n_cells; i++)
            ck_assert_int_eq(fixture.sweep.cells[i].state == LOCUS_CELL_DONE,
                             turn == 1 && fixture.sweep.cells[i].text != 1);
        run_all(&fixture, &csv);
        locus_csv_close(&csv);
        release(&fixture);
    }
    ck_assert_int_eq(count_rows(path), 6 + 2 + 6);
}
END_TEST

START_TEST(a_full_file_ends_a_sweep)
{
    struct fixture fixture;
    locus_error error;
    bool whole;
    prepare(&fixture, "llama-half.gguf", (const int[]){16, 0}, (const char *const[]){NULL});
    plan(&fixture);
    struct locus_csv csv = {.path = strdup("nowhere.csv"), .descriptor = -1};
    ck_assert_int_eq(locus_sweep_run(&fixture.sweep, &csv, NULL, &whole, &error), LOCUS_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "nowhere.csv: write failed"));
    free(csv.path);
    release(&fixture);
}
END_TEST

/* ---- tasks -------------------------------------------------------------------------------- */

START_TEST(depths_of_a_passkey_share_the_session_of_their_length)
{
    struct locus_position_scheme counted = own_scheme;
    counted.init = count_init;
    struct fixture fixture;
    locus_error error;
    prepare(&fixture, "perplexity.gguf", (const int[]){180, 150, 0},
            (const char *const[]){"own", "own", NULL});
    fixture.model.tokenizer = locus_tokenizer_create(fixture.model.model, &error);
    ck_assert_msg(fixture.model.tokenizer != NULL, "%s", error.message);
    fixture.sweep.params.scheme = &counted;
    fixture.sweep.task = LOCUS_TASK_PASSKEY;
    fixture.sweep.n_trials = 2;
    n_inits = 0;
    plan(&fixture);
    ck_assert_int_eq(fixture.sweep.n_cells, 2 * 2 * LOCUS_N_DEPTHS);
    ck_assert_int_eq(fixture.sweep.cells[0].length, 150);
    ck_assert_double_eq(fixture.sweep.cells[1].depth, 0.1);
    ck_assert_double_eq(locus_sweep_work(&fixture.sweep), LOCUS_N_DEPTHS * 2.0 * (180 + 150));
    run_all(&fixture, NULL);
    ck_assert_int_eq(n_inits, 2 * 2 + 2);
    for (int i = 0; i < fixture.sweep.n_cells; i++) {
        const struct locus_cell *cell = &fixture.sweep.cells[i];
        ck_assert_int_eq(cell->state, LOCUS_CELL_DONE);
        ck_assert(locus_row_number(&cell->row, LOCUS_COLUMN_ACCURACY) >= 0);
        ck_assert_int_eq(cell->twin, cell->series ? i - 2 * LOCUS_N_DEPTHS : -1);
    }
    release(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep");
    TCase *plans = tcase_create("plans"), *results = tcase_create("results");
    tcase_add_test(plans, cells_are_the_rows_of_the_csv_before_any_is_measured);
    tcase_add_test(plans, a_spec_is_refused_at_lengths_that_it_does_not_reach);
    tcase_add_test(plans, a_label_has_both_ends_of_values_in_every_layers_spec);
    tcase_add_test(plans, default_lengths_lie_about_the_trained_one);
    tcase_add_test(results, a_cell_is_what_a_session_of_its_own_measures);
    tcase_add_test(results, texts_are_pooled_where_each_has_a_result);
    tcase_add_test(results, a_cell_is_described_once_and_takes_one_session);
    tcase_add_test(results, what_two_specs_resolve_to_alike_is_measured_once);
    tcase_add_test(results, a_sweep_that_was_stopped_ends_as_one_that_was_not);
    tcase_add_test(results, rows_of_another_state_are_measured_again_and_named);
    tcase_add_test(results, a_full_file_ends_a_sweep);
    tcase_add_test(results, depths_of_a_passkey_share_the_session_of_their_length);
    suite_add_tcase(suite, plans);
    suite_add_tcase(suite, results);
    return testing_run(suite);
}
