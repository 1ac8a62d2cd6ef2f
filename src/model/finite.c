/* Weights that are no numbers: see finite.h. */
#include "model/finite.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>

#include "base/number.h"
#include "kernels/formats.h"
#include "model/model.h"

enum { PIECE = 1024 }; /* values looked at together: whole blocks of every type */

/* The index of the first of x[n] that is no number, or n. */
static size_t find_odd(const float *x, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n; i++)
        good &= fabsf(x[i]) <= FLT_MAX;
    size_t first = good ? n : 0;
    while (first < n && isfinite(x[first]))
        first++;
    return first;
}

static bool search_tensor(const struct locus_tensor *tensor, struct locus_odd_value *odd)
{
    const int64_t cols = tensor->dims[0];
    const int64_t rows = tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
    const size_t row_bytes = locus_tensor_row_bytes(tensor->type, (size_t)cols);
    float values[PIECE];
    for (int64_t row = 0; row < rows; row++)
        for (int64_t first = 0; first < cols; first += PIECE) {
            const size_t n = (size_t)(cols - first < PIECE ? cols - first : PIECE);
            const unsigned char *at = tensor->data + (size_t)row * row_bytes +
                                      locus_tensor_row_bytes(tensor->type, (size_t)first);
            locus_dequantize_row(values, at, tensor->type, n);
            const size_t found = find_odd(values, n);
            if (found == n) continue;
            *odd =
                (struct locus_odd_value){tensor->name, row, first + (int64_t)found, values[found]};
            return true;
        }
    return false;
}

bool locus_checkpoint_find_odd(const struct locus_checkpoint *checkpoint, bool (*stopped)(void),
                               struct locus_odd_value *odd)
{
    const struct locus_mapped_file *file = locus_checkpoint_file(checkpoint);
    const size_t n = locus_checkpoint_n_tensors(checkpoint);
    bool found = false;
    for (size_t i = 0; i < n && !found && !(stopped && stopped()); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(checkpoint, i);
        found = search_tensor(tensor, odd);
        locus_file_drop(file, (size_t)(tensor->data - file->bytes), tensor->n_bytes);
    }
    return found;
}

enum locus_status locus_fail_numeric(const locus_model *model, locus_error *error,
                                     const char *format, ...)
{
    struct locus_odd_value odd;
    char what[160];
    if (!error) return LOCUS_ERROR_NUMERIC;
    va_list args;
    va_start(args, format);
    locus_print_args(what, sizeof what, format, args);
    va_end(args);
    if (!locus_checkpoint_find_odd(locus_model_checkpoint(model), NULL, &odd))
        return locus_fail(error, LOCUS_ERROR_NUMERIC, "%s; the weights are all finite", what);
    return locus_fail(error, LOCUS_ERROR_NUMERIC, "%s: %s holds %f in row %lld, column %lld", what,
                      odd.tensor, (double)odd.value, (long long)odd.row, (long long)odd.column);
}
