/* What perplexity and extrapolate measure: see subject.h. */
#include "cli/kit/subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/number.h"
#include "base/output.h"
#include "base/sha256.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/prompt.h"
#include "cli/kit/session_options.h"
#include "tokenizer/tokenizer.h"

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* ---- models ------------------------------------------------------------------------------- */

int locus_subject_open(struct locus_subject *subject, const struct locus_common *common)
{
    int status = LOCUS_EXIT_FAILED;
    locus_error error;
    *subject = (struct locus_subject){.path = locus_model_file(common, &status)};
    if (!subject->path) return status;
    subject->name = last_part(subject->path);
    subject->model = locus_model_open(subject->path, &error);
    if (!subject->model) return locus_log_error("%s", error.message);
    subject->info = locus_model_info_get(subject->model);
    subject->tokenizer = locus_tokenizer_create(subject->model, &error);
    if (!subject->tokenizer) return locus_log_error("%s", error.message);
    locus_model_file_note(subject->path, locus_tokenizer_assumed(subject->tokenizer),
                          common->quiet);
    return -1;
}

int locus_subject_hash(struct locus_subject *subject)
{
    struct locus_mapped_file file;
    uint8_t digest[32];
    locus_error error;
    if (locus_file_map(&file, subject->path, &error)) return locus_log_error("%s", error.message);
    locus_sha256(file.bytes, file.size, digest);
    locus_file_unmap(&file);
    snprintf(subject->sha, sizeof subject->sha, "%02x%02x%02x%02x", digest[0], digest[1], digest[2],
             digest[3]);
    return -1;
}

void locus_subject_close(struct locus_subject *subject)
{
    locus_tokenizer_free(subject->tokenizer);
    locus_model_free(subject->model);
    free(subject->path);
    *subject = (struct locus_subject){0};
}

/* ---- texts -------------------------------------------------------------------------------- */

static int read_text(struct locus_text_list *list, const char *command, const char *path)
{
    size_t n_bytes = ((size_t)list->n_items + 1) * sizeof *list->items;
    struct locus_text *items = realloc(list->items, n_bytes);
    if (!items) return locus_log_error("out of memory for the texts");
    list->items = items;
    struct locus_text *text = &items[list->n_items++];
    *text = (struct locus_text){.name = last_part(path), .path = path};
    return locus_prompt_read(command, NULL, path, &text->bytes);
}

int locus_text_list_read(struct locus_text_list *list, const char *command,
                         const struct locus_texts *files, int n_operands, char **operands)
{
    int status = -1;
    for (int i = 0; i < files->n_items && status < 0; i++)
        status = read_text(list, command, files->items[i]);
    for (int i = 0; i < n_operands && status < 0; i++)
        status = read_text(list, command, operands[i]);
    if (status < 0 && list->n_items == 0)
        return locus_log_usage(command, "no text: give one with -f FILE");
    return status;
}

/* The first 8 bytes of a digest in hexadecimal. */
static void print_digest(char text[17], const uint8_t digest[32])
{
    for (size_t i = 0; i < 8; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

void locus_text_list_hash(struct locus_text_list *list)
{
    struct locus_buffer digests = {0};
    uint8_t digest[32];
    for (int i = 0; i < list->n_items; i++) {
        struct locus_text *text = &list->items[i];
        const char *bytes = text->bytes.bytes ? text->bytes.bytes : "";
        locus_sha256(bytes, text->bytes.length, digest);
        print_digest(text->sha, digest);
        locus_buffer_append(&digests, (const char *)digest, sizeof digest);
    }
    locus_sha256(digests.bytes, digests.length, digest);
    print_digest(list->sha, digest);
    locus_buffer_free(&digests);
}

void locus_text_list_free(struct locus_text_list *list)
{
    for (int i = 0; i < list->n_items; i++)
        locus_buffer_free(&list->items[i].bytes);
    free(list->items);
    *list = (struct locus_text_list){0};
}

int locus_begin_option(struct locus_begin *begin, const char *command, const char *rule,
                       enum locus_protocol protocol, const struct locus_subject *subject)
{
    enum locus_begin_rule asked = LOCUS_BEGIN_AUTO;
    locus_error error;
    while (rule && strcmp(rule, locus_begin_name(asked)) != 0)
        asked++;
    if (!locus_begin_resolve(begin, asked, protocol, subject->model, subject->tokenizer, &error))
        return -1;
    if (asked == LOCUS_BEGIN_FIRST && protocol == LOCUS_HALF)
        return locus_log_usage(command, "--begin: %s", error.message);
    return locus_log_error("%s: --begin: %s", subject->path, error.message);
}

int locus_text_encode(struct locus_corpus *corpus, const struct locus_subject *subject,
                      const struct locus_text *text, const struct locus_reading *reading,
                      bool quiet)
{
    locus_error error;
    if (locus_corpus_encode(corpus, subject->model, subject->tokenizer, text->bytes.bytes,
                            text->bytes.length, reading, &error))
        return locus_log_error("%s: %s", text->path, error.message);
    if (corpus->n_marks > 0 && !quiet)
        locus_log_note("note: %s: %d end-of-text marks are read as plain text; --documents cuts "
                       "at them",
                       text->name, corpus->n_marks);
    return -1;
}

/* ---- rows --------------------------------------------------------------------------------- */

bool locus_row_set_session(struct locus_row *row, const char *task,
                           const struct locus_subject *subject, const locus_session *session)
{
    const struct {
        enum locus_column column;
        const char *text;
    } cells[] = {
        {LOCUS_COLUMN_TASK, task},
        {LOCUS_COLUMN_MODEL, subject->name},
        {LOCUS_COLUMN_MODEL_SHA, subject->sha},
        {LOCUS_COLUMN_WEIGHT_TYPE, subject->info.weight_type},
        {LOCUS_COLUMN_POSITION, locus_session_position(session)},
        {LOCUS_COLUMN_ATTENTION, locus_session_attention(session)},
        {LOCUS_COLUMN_CACHE_TYPE, locus_cache_type_name(locus_session_cache_type(session))},
        {LOCUS_COLUMN_KERNELS, locus_session_kernels(session)},
        {LOCUS_COLUMN_VERSION, LOCUS_VERSION},
    };
    bool set = true;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        set &= locus_row_set_text(row, cells[i].column, cells[i].text);
    set &= locus_row_set_int(row, LOCUS_COLUMN_TRAINED_LENGTH, subject->info.trained_length);
    return set & locus_row_set_int(row, LOCUS_COLUMN_THREADS, locus_session_n_threads(session));
}

bool locus_row_set_begin(struct locus_row *row, enum locus_begin_rule rule)
{
    static const char *const places[] = {[LOCUS_BEGIN_AUTO] = "none",
                                         [LOCUS_BEGIN_NONE] = "none",
                                         [LOCUS_BEGIN_FIRST] = "before",
                                         [LOCUS_BEGIN_EVERY] = "over"};
    bool set = locus_row_set_text(row, LOCUS_COLUMN_BEGIN_OF_TEXT, places[rule]);
    return set & locus_row_set_text(row, LOCUS_COLUMN_BEGIN, locus_begin_name(rule));
}

bool locus_row_set_plan(struct locus_row *row, const char *text, const char *sha,
                        const struct locus_plan *plan, const struct locus_corpus *corpus)
{
    bool set = locus_row_set_text(row, LOCUS_COLUMN_TEXT, text);
    set &= locus_row_set_text(row, LOCUS_COLUMN_TEXT_SHA, sha);
    set &= locus_row_set_int(row, LOCUS_COLUMN_LENGTH, plan->length);
    set &= locus_row_set_text(row, LOCUS_COLUMN_PROTOCOL, locus_protocol_name(plan->protocol));
    if (plan->protocol == LOCUS_SLIDING)
        set &= locus_row_set_int(row, LOCUS_COLUMN_STRIDE, plan->stride);
    set &= locus_row_set_int(row, LOCUS_COLUMN_LONGEST_WINDOW, locus_corpus_longest(corpus, plan));
    set &= locus_row_set_text(row, LOCUS_COLUMN_DOCUMENTS, corpus->cut ? "each" : "whole");
    set &= locus_row_set_text(row, LOCUS_COLUMN_WINDOWS, plan->first ? "first" : "all");
    return set & locus_row_set_begin(row, corpus->begin.rule);
}

int locus_plan_option(struct locus_plan *plan, const char *command, const char *protocol,
                      int stride, bool first)
{
    *plan = (struct locus_plan){.protocol = LOCUS_WINDOWS, .first = first};
    while (protocol && strcmp(protocol, locus_protocol_name(plan->protocol)) != 0)
        plan->protocol++;
    const char *name = locus_protocol_name(plan->protocol);
    plan->stride = stride;
    if (plan->protocol == LOCUS_SLIDING)
        return first ? locus_log_usage(command, "--first takes one window a document, and sliding "
                                                "needs several: expected --protocol windows or "
                                                "half")
                     : -1;
    return stride
               ? locus_log_usage(command, "--stride belongs to --protocol sliding, found %s", name)
               : -1;
}

int locus_plan_refuse(const struct locus_plan *plan, const char *command)
{
    locus_error error;
    return locus_plan_check(plan, &error) ? locus_log_usage(command, "%s", error.message) : -1;
}

/* Where neither file is there yet, their folders and names tell. */
static bool same_place(const char *one, const char *other)
{
    const char *const paths[] = {one, other};
    struct stat folders[2];
    if (strcmp(last_part(one), last_part(other)) != 0) return false;
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        char *folder = slash ? strndup(paths[i], (size_t)(slash - paths[i]) + 1) : strdup(".");
        bool there = folder && stat(folder, &folders[i]) == 0;
        free(folder);
        if (!there) return false;
    }
    return folders[0].st_dev == folders[1].st_dev && folders[0].st_ino == folders[1].st_ino;
}

int locus_output_apart(const char *command, const char *output, const char *other)
{
    struct stat one, two;
    if (!output || !other || locus_output_is_stdout(output)) return -1;
    const bool has_one = stat(output, &one) == 0, has_two = stat(other, &two) == 0;
    bool same = has_one && has_two && S_ISREG(one.st_mode) && one.st_dev == two.st_dev &&
                one.st_ino == two.st_ino;
    if (!has_one && !has_two) same = same_place(output, other);
    return same ? locus_log_usage(command, "%s would be written over %s: expected two files",
                                  output, other)
                : -1;
}

int locus_outputs_apart(const char *command, const char *const *outputs, int n_outputs,
                        const struct locus_text_list *texts)
{
    int status = -1;
    for (int i = 0; i < n_outputs; i++) {
        for (int j = 0; j < i && status < 0; j++)
            status = locus_output_apart(command, outputs[i], outputs[j]);
        for (int j = 0; j < texts->n_items && status < 0; j++)
            status = locus_output_apart(command, outputs[i], texts->items[j].path);
    }
    return status;
}

int locus_outputs_check(const char *const *paths, int n_paths)
{
    for (int i = 0; i < n_paths; i++) {
        locus_error error;
        if (paths[i] && locus_output_check(paths[i], &error))
            return locus_log_error("%s", error.message);
    }
    return -1;
}

void locus_row_json(struct locus_json *json, const struct locus_row *row)
{
    for (enum locus_column i = 0; i < LOCUS_N_COLUMNS; i++) {
        const char *name = locus_column_name(i), *cell = row->cells[i];
        if (cell && locus_column_is_text(i))
            locus_json_text(json, name, cell);
        else
            locus_json_number(json, name,
                              cell && isfinite(locus_number_read(cell, NULL)) ? cell : NULL);
    }
}
