/* Tensors that position schemes may ask for: see model.h. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/loading.h"
#include "position/tensors.h"

/* Whether a scheme, known or of the caller's own, may ask for the tensor. */
static bool may_be_a_schemes(const char *name, int n_layer)
{
    static const char own[] = "position_";
    const char *rest = name;
    if (!strncmp(rest, "blk.", 4) && (rest = strchr(rest + 4, '.'))) rest++;
    return locus_schemes_own(name, n_layer) || (rest && !strncmp(rest, own, sizeof own - 1));
}

static enum locus_status load_extra(struct locus_loading *loading,
                                    const struct locus_tensor *tensor)
{
    struct locus_model *model = loading->model;
    const int64_t rows = tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
    const int n_layer = model->config.n_layer;
    if (!may_be_a_schemes(tensor->name, n_layer))
        return locus_fail(loading->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: tensor %s is used by no part of the model and by no position "
                          "scheme; without it the result would be another",
                          locus_loading_path(loading), tensor->name);
    /* The generic family's files may hold the tables of several schemes, to be tried by SPEC. */
    if (!model->architecture->spelled_out && locus_schemes_own(tensor->name, n_layer) &&
        !locus_spec_owns(model->config.position, tensor->name, n_layer))
        return locus_fail(loading->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: tensor %s is of another position scheme than the file's own, %s: "
                          "expected a model of one",
                          locus_loading_path(loading), tensor->name, model->config.position);
    if (rows > INT_MAX || tensor->dims[0] > INT_MAX)
        return locus_fail(loading->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: tensor %s is [%lld, %lld], expected at most %d either way",
                          locus_loading_path(loading), tensor->name, (long long)rows,
                          (long long)tensor->dims[0], INT_MAX);
    struct locus_extra_tensor *extra = &model->extras[model->n_extras++];
    *extra = (struct locus_extra_tensor){tensor->name, (int)rows, (int)tensor->dims[0], NULL};
    enum locus_status status = locus_load_floats(loading, tensor, &extra->values);
    if (!status) locus_loading_drop(loading, tensor);
    return status;
}

static int compare_extras(const void *left, const void *right)
{
    const struct locus_extra_tensor *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Whatever no part of the decoder has claimed is offered to the position scheme, as floats. */
enum locus_status locus_load_extras(struct locus_loading *loading)
{
    struct locus_model *model = loading->model;
    const size_t n = locus_checkpoint_n_tensors(model->checkpoint);
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++)
        n_left += !loading->claimed[i];
    model->extras = calloc(n_left + 1, sizeof *model->extras);
    if (!model->extras) return locus_fail_memory(loading->error, n_left * sizeof *model->extras);
    for (size_t i = 0; i < n; i++) {
        if (loading->claimed[i]) continue;
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(model->checkpoint, i);
        enum locus_status status = load_extra(loading, tensor);
        if (status) return status;
    }
    qsort(model->extras, model->n_extras, sizeof *model->extras, compare_extras);
    return LOCUS_OK;
}

const struct locus_extra_tensor *locus_model_find_extra(const struct locus_model *model,
                                                        const char *name)
{
    const struct locus_extra_tensor key = {.name = name};
    if (!model->n_extras) return NULL;
    return bsearch(&key, model->extras, model->n_extras, sizeof key, compare_extras);
}

enum locus_status locus_model_check_extras(const struct locus_model *model,
                                           const struct locus_position_scheme *own,
                                           locus_error *error)
{
    const int n_layer = model->config.n_layer;
    for (size_t i = 0; i < model->n_extras; i++) {
        const char *name = model->extras[i].name;
        if (locus_schemes_own(name, n_layer) || (own && locus_scheme_owns(own, name, n_layer)))
            continue;
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: tensor %s belongs to no position scheme that is known%s%s",
                          locus_checkpoint_path(model->checkpoint), name,
                          own && own->name ? ", nor to " : "", own && own->name ? own->name : "");
    }
    return LOCUS_OK;
}
