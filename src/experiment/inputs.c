/* What is measured: see inputs.h. */
#include "experiment/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sha256.h"

const char *locus_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The first n_digits of a digest in hexadecimal, and a NUL. */
static void print_digest(char *text, size_t n_digits, const uint8_t digest[32])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n_digits; i++)
        text[i] = digits[i % 2 ? digest[i / 2] & 15 : digest[i / 2] >> 4];
    text[n_digits] = '\0';
}

/* ---- models ------------------------------------------------------------------------------- */

enum locus_status locus_opened_model_open(struct locus_opened_model *opened, char *path,
                                          locus_error *error)
{
    locus_error failure;
    *opened = (struct locus_opened_model){.path = path, .name = locus_file_name(path)};
    if ((opened->model = locus_model_open(path, &failure))) {
        opened->info = locus_model_info_get(opened->model);
        opened->tokenizer = locus_tokenizer_create(opened->model, &failure);
    }
    if (opened->tokenizer) return LOCUS_OK;
    if (error) *error = failure;
    return failure.status;
}

enum locus_status locus_opened_model_hash(struct locus_opened_model *opened, locus_error *error)
{
    struct locus_mapped_file file;
    uint8_t digest[32];
    enum locus_status status = locus_file_map(&file, opened->path, error);
    if (status) return status;
    locus_sha256(file.bytes, file.size, digest);
    locus_file_unmap(&file);
    print_digest(opened->sha, sizeof opened->sha - 1, digest);
    return LOCUS_OK;
}

void locus_opened_model_close(struct locus_opened_model *opened)
{
    locus_tokenizer_free(opened->tokenizer);
    locus_model_free(opened->model);
    free(opened->path);
    *opened = (struct locus_opened_model){0};
}

/* ---- texts -------------------------------------------------------------------------------- */

struct locus_text *locus_text_list_add(struct locus_text_list *list, const char *path)
{
    struct locus_text *items =
        realloc(list->items, ((size_t)list->n_items + 1) * sizeof *list->items);
    if (!items) return NULL;
    list->items = items;
    items[list->n_items] = (struct locus_text){.name = locus_file_name(path), .path = path};
    return &items[list->n_items++];
}

void locus_text_list_hash(struct locus_text_list *list)
{
    struct locus_buffer digests = {0};
    uint8_t digest[32];
    for (int i = 0; i < list->n_items; i++) {
        struct locus_text *text = &list->items[i];
        const char *bytes = text->bytes.bytes ? text->bytes.bytes : "";
        locus_sha256(bytes, text->bytes.length, digest);
        print_digest(text->sha, sizeof text->sha - 1, digest);
        locus_buffer_append(&digests, (const char *)digest, sizeof digest);
    }
    locus_sha256(digests.bytes, digests.length, digest);
    print_digest(list->sha, sizeof list->sha - 1, digest);
    locus_buffer_free(&digests);
}

void locus_text_list_free(struct locus_text_list *list)
{
    for (int i = 0; i < list->n_items; i++)
        locus_buffer_free(&list->items[i].bytes);
    free(list->items);
    *list = (struct locus_text_list){0};
}
