/* Values that are no numbers: found in every type and place, and named where a result is none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/formats.h"
#include "model/finite.h"
#include "testing.h"
#include "variant.h"

static const enum locus_tensor_type types[] = {LOCUS_F32, LOCUS_F16, LOCUS_BF16, LOCUS_Q8_0,
                                               LOCUS_Q4_0};
enum { N_TYPES = sizeof types / sizeof *types, ROWS = 3, COLS = 2112 };

/* A file of a vector and of a matrix in that type, with one value of the matrix in another's place.
 */
static const char *write_file(enum locus_tensor_type type, int row, int column, float odd)
{
    static float values[ROWS * COLS];
    static unsigned char rows[ROWS * COLS * sizeof(float)];
    const size_t row_bytes = locus_tensor_row_bytes(type, COLS);
    const int64_t dims[] = {COLS, ROWS};
    const char *path = testing_temporary("odd.gguf");
    for (int i = 0; i < ROWS * COLS; i++)
        values[i] = (float)(i % 7) - 3;
    if (row >= 0) values[row * COLS + column] = odd;
    for (size_t r = 0; r < ROWS; r++)
        locus_encode_row(rows + r * row_bytes, type, values + r * COLS, COLS);
    struct locus_checkpoint_writer *writer = locus_writer_create(NULL);
    locus_writer_string(writer, "general.architecture", "x", 1);
    locus_writer_tensor(writer, "vector", LOCUS_F32, 1, dims, values);
    locus_writer_tensor(writer, "matrix", type, 2, dims, rows);
    ck_assert_int_eq(locus_writer_finish(writer, path, NULL), LOCUS_OK);
    locus_writer_free(writer);
    return path;
}

static bool find(const char *path, struct locus_odd_value *odd)
{
    static char name[64];
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(path, NULL);
    ck_assert_ptr_nonnull(checkpoint);
    bool found = locus_checkpoint_find_odd(checkpoint, NULL, odd);
    if (found) {
        strcpy(name, odd->tensor); /* which goes with the checkpoint */
        odd->tensor = name;
    }
    locus_checkpoint_free(checkpoint);
    return found;
}

START_TEST(one_odd_value_is_found_in_every_type)
{
    const enum locus_tensor_type type = types[_i];
    const bool blocks = locus_tensor_type_find((uint32_t)type)->block_values > 1;
    const int columns[] = {0, 1023, 1024, COLS - 1};
    struct locus_odd_value odd;
    ck_assert(!find(write_file(type, -1, 0, 0), &odd));
    for (int i = 0; i < 4; i++) {
        ck_assert(find(write_file(type, 2, columns[i], NAN), &odd));
        ck_assert_str_eq(odd.tensor, "matrix");
        ck_assert_int_eq(odd.row, 2);
        /* A block that has no scale is odd as a whole. */
        ck_assert_int_eq(odd.column,
                         blocks ? columns[i] / LOCUS_QUANT_BLOCK * LOCUS_QUANT_BLOCK : columns[i]);
        ck_assert(isnan(odd.value));
    }
    ck_assert(find(write_file(type, 0, 5, -INFINITY), &odd));
    ck_assert_int_eq(odd.row, 0);
    ck_assert(!isfinite(odd.value));
    if (!blocks) ck_assert(odd.value == -INFINITY && odd.column == 5);
    ck_assert(find(write_file(LOCUS_F32, 0, 1, INFINITY), &odd));
    ck_assert_str_eq(odd.tensor, "vector"); /* the first in the file: both hold that row */
}
END_TEST

static bool at_once(void)
{
    return true;
}

START_TEST(a_search_can_be_stopped)
{
    struct locus_odd_value odd;
    struct locus_checkpoint *checkpoint =
        locus_checkpoint_open(write_file(LOCUS_F32, 1, 1, NAN), NULL);
    ck_assert(!locus_checkpoint_find_odd(checkpoint, at_once, &odd));
    ck_assert(locus_checkpoint_find_odd(checkpoint, NULL, &odd));
    locus_checkpoint_free(checkpoint);
}
END_TEST

/* A model with `odd` in row 1, column 3 of one matrix. */
static locus_model *open_model(float odd)
{
    int rows, cols;
    struct variant *variant = variant_begin(NULL);
    float *values = variant_floats(variant, "blk.1.ffn_down.weight", &rows, &cols);
    values[cols + 3] = odd;
    variant_drop(variant, "blk.1.ffn_down.weight");
    variant_add(variant, "blk.1.ffn_down.weight", LOCUS_F32, rows, cols, values);
    free(values);
    locus_error error = {0};
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    return model;
}

START_TEST(what_is_no_number_is_traced_to_its_tensor)
{
    locus_error error = {0};
    locus_model *model = open_model(NAN);
    ck_assert_int_eq(locus_fail_numeric(model, NULL, "x"), LOCUS_ERROR_NUMERIC);
    ck_assert_int_eq(locus_fail_numeric(model, &error, "logit %d is NaN", 7), LOCUS_ERROR_NUMERIC);
    ck_assert_int_eq(error.status, LOCUS_ERROR_NUMERIC);
    ck_assert_str_eq(error.message,
                     "logit 7 is NaN: blk.1.ffn_down.weight holds nan in row 1, column 3");
    locus_model_free(model);
    model = open_model(1);
    locus_fail_numeric(model, &error, "logit %d is NaN", 7);
    ck_assert_str_eq(error.message, "logit 7 is NaN; the weights are all finite");
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("finite");
    TCase *tests = tcase_create("finite");
    tcase_add_loop_test(tests, one_odd_value_is_found_in_every_type, 0, N_TYPES);
    tcase_add_test(tests, a_search_can_be_stopped);
    tcase_add_test(tests, what_is_no_number_is_traced_to_its_tensor);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
