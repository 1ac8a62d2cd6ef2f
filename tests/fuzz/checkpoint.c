/* A fuzz target: any bytes as a checkpoint, then every getter over what was accepted.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -std=c11 -D_GNU_SOURCE -Iinclude -Isrc \
 *         tests/fuzz/checkpoint.c src/base/*.c src/checkpoint/*.c -o build/fuzz_checkpoint
 *     build/fuzz_checkpoint -max_len=65536 build/fuzz-corpus folder-of-small-gguf-files
 *
 * The library ends no process and prints nothing: whatever stops the fuzzer is a fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned touch(const void *bytes, size_t n_bytes)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n_bytes; i++)
        sum += ((const unsigned char *)bytes)[i];
    return sum;
}

static unsigned use_array(const struct locus_checkpoint *checkpoint, const char *key)
{
    enum locus_value_type type;
    size_t count;
    unsigned sum = 0;
    if (!locus_checkpoint_array(checkpoint, key, &type, &count) || !count) return 0;
    double *numbers = calloc(count, sizeof *numbers);
    const char **strings = calloc(count, sizeof *strings);
    size_t *lengths = calloc(count, sizeof *lengths);
    if (!numbers || !strings || !lengths) abort();
    if (locus_checkpoint_array_numbers(checkpoint, key, numbers))
        sum += touch(numbers, count * sizeof *numbers);
    if (locus_checkpoint_array_strings(checkpoint, key, strings, lengths))
        for (size_t i = 0; i < count; i++)
            sum += touch(strings[i], lengths[i]);
    free(numbers);
    free(strings);
    free(lengths);
    return sum;
}

static unsigned use(const struct locus_checkpoint *checkpoint)
{
    unsigned sum = 0;
    for (size_t i = 0; i < locus_checkpoint_n_keys(checkpoint); i++) {
        const char *key = locus_checkpoint_key_at(checkpoint, i), *bytes;
        int64_t integer;
        double number;
        bool flag;
        size_t n_bytes;
        if (!locus_checkpoint_has(checkpoint, key)) abort();
        if (locus_checkpoint_int(checkpoint, key, &integer)) sum += (unsigned)integer;
        if (locus_checkpoint_float(checkpoint, key, &number)) sum += number > 0;
        if (locus_checkpoint_bool(checkpoint, key, &flag)) sum += flag;
        if (locus_checkpoint_string(checkpoint, key, &bytes, &n_bytes))
            sum += touch(bytes, n_bytes);
        sum += use_array(checkpoint, key);
    }
    for (size_t i = 0; i < locus_checkpoint_n_tensors(checkpoint); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(checkpoint, i);
        if (locus_checkpoint_tensor(checkpoint, tensor->name) != tensor) abort();
        sum += touch(tensor->data, tensor->n_bytes);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile unsigned sink;
    char path[32];
    int file = memfd_create("checkpoint", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    locus_error error = {0};
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(path, &error);
    if (checkpoint)
        sink = use(checkpoint);
    else if (!error.message[0] || error.status == LOCUS_OK || error.status == LOCUS_ERROR_MEMORY)
        abort();
    locus_checkpoint_free(checkpoint);
    close(file);
    return 0;
}
