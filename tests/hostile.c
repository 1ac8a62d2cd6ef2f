/* Hostile files: see hostile.h. The walk over the good file is on purpose not the reader's: it
 * trusts every byte, and finds fields for others to distrust. */
#include "hostile.h"

#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "testing.h"

/* ---- the tiny model ------------------------------------------------------------------------ */

enum { N_LAYER = 2, N_EMBD = 32, N_HEAD = 4, N_HEAD_KV = 2, N_FF = 64, CONTEXT = 64 };
enum { N_CONTROL = 3, N_BYTES = 256 };

static const char *const pieces[] = {
    "\xE2\x96\x81",
    "\xE2\x96\x81t",
    "he",
    "\xE2\x96\x81the",
    "e",
    "t",
    "h",
    "a",
    ("\xE2\x96\x81"
     "a"),
    "n",
    "o",
    "ce",
};
enum { N_PIECES = sizeof pieces / sizeof *pieces, N_VOCAB = N_CONTROL + N_BYTES + N_PIECES };

static void put_vocabulary(struct locus_checkpoint_writer *writer)
{
    enum { UNKNOWN = 2, CONTROL = 3, NORMAL = 1, BYTE = 6 };
    static const char *const controls[N_CONTROL] = {"<unk>", "<s>", "</s>"};
    char byte_names[N_BYTES][8];
    const char *tokens[N_VOCAB];
    size_t lengths[N_VOCAB];
    float scores[N_VOCAB];
    int32_t types[N_VOCAB];
    for (int i = 0; i < N_VOCAB; i++) {
        scores[i] = 0;
        if (i < N_CONTROL) {
            tokens[i] = controls[i];
            types[i] = i ? CONTROL : UNKNOWN;
        } else if (i < N_CONTROL + N_BYTES) {
            snprintf(byte_names[i - N_CONTROL], sizeof *byte_names, "<0x%02X>", i - N_CONTROL);
            tokens[i] = byte_names[i - N_CONTROL];
            types[i] = BYTE;
        } else {
            tokens[i] = pieces[i - N_CONTROL - N_BYTES];
            types[i] = NORMAL;
            scores[i] = (float)(N_CONTROL + N_BYTES - i);
        }
        lengths[i] = strlen(tokens[i]);
    }
    locus_writer_string(writer, "tokenizer.ggml.model", "llama", 5);
    locus_writer_strings(writer, "tokenizer.ggml.tokens", tokens, lengths, N_VOCAB);
    locus_writer_f32s(writer, "tokenizer.ggml.scores", scores, N_VOCAB);
    locus_writer_i32s(writer, "tokenizer.ggml.token_type", types, N_VOCAB);
    locus_writer_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    locus_writer_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    locus_writer_u32(writer, "tokenizer.ggml.unknown_token_id", 0);
    locus_writer_bool(writer, "tokenizer.ggml.add_bos_token", true);
}

static void put_metadata(struct locus_checkpoint_writer *writer)
{
    locus_writer_string(writer, "general.architecture", "llama", 5);
    locus_writer_string(writer, "general.name", "hostile", 7);
    locus_writer_u32(writer, "general.alignment", 32);
    locus_writer_u32(writer, "llama.block_count", N_LAYER);
    locus_writer_u32(writer, "llama.context_length", CONTEXT);
    locus_writer_u32(writer, "llama.embedding_length", N_EMBD);
    locus_writer_u32(writer, "llama.feed_forward_length", N_FF);
    locus_writer_u32(writer, "llama.attention.head_count", N_HEAD);
    locus_writer_u32(writer, "llama.attention.head_count_kv", N_HEAD_KV);
    locus_writer_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    locus_writer_u32(writer, "llama.rope.dimension_count", N_EMBD / N_HEAD);
    locus_writer_f32(writer, "llama.rope.freq_base", 10000);
    put_vocabulary(writer);
}

struct weights {
    uint64_t state;
    float *blocks[16 * N_LAYER + 16];
    size_t n_blocks;
};

/* A matrix of small random numbers, or a vector of ones with a little noise (cols 0). */
static void put_weight(struct locus_checkpoint_writer *writer, struct weights *weights,
                       const char *name, int rows, int cols)
{
    size_t n = (size_t)rows * (size_t)(cols ? cols : 1);
    float *values = malloc(n * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < n; i++) {
        weights->state = weights->state * 6364136223846793005U + 1442695040888963407U;
        float unit = (float)(weights->state >> 40) / (float)(1 << 24) - 0.5F;
        values[i] = cols ? 0.3F * unit : 1 + 0.1F * unit;
    }
    weights->blocks[weights->n_blocks++] = values;
    int64_t dims[2] = {cols ? cols : rows, rows};
    locus_writer_tensor(writer, name, LOCUS_F32, cols ? 2 : 1, dims, values);
}

static void put_weights(struct locus_checkpoint_writer *writer, struct weights *weights)
{
    static const struct {
        const char *name;
        int rows, cols;
    } layer[] = {
        {"attn_norm", N_EMBD, 0},
        {"attn_q", N_EMBD, N_EMBD},
        {"attn_k", N_EMBD / N_HEAD * N_HEAD_KV, N_EMBD},
        {"attn_v", N_EMBD / N_HEAD * N_HEAD_KV, N_EMBD},
        {"attn_output", N_EMBD, N_EMBD},
        {"ffn_norm", N_EMBD, 0},
        {"ffn_gate", N_FF, N_EMBD},
        {"ffn_up", N_FF, N_EMBD},
        {"ffn_down", N_EMBD, N_FF},
    };
    put_weight(writer, weights, "token_embd.weight", N_VOCAB, N_EMBD);
    for (int l = 0; l < N_LAYER; l++)
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, layer[i].name);
            put_weight(writer, weights, name, layer[i].rows, layer[i].cols);
        }
    put_weight(writer, weights, "output_norm.weight", N_EMBD, 0);
    put_weight(writer, weights, "output.weight", N_VOCAB, N_EMBD);
}

void hostile_write_checkpoint(const char *path)
{
    locus_error error = {0};
    struct weights weights = {.state = 1};
    struct locus_checkpoint_writer *writer = locus_writer_create(&error);
    ck_assert_ptr_nonnull(writer);
    put_metadata(writer);
    put_weights(writer, &weights);
    ck_assert_msg(locus_writer_finish(writer, path, &error) == LOCUS_OK, "%s", error.message);
    locus_writer_free(writer);
    for (size_t i = 0; i < weights.n_blocks; i++)
        free(weights.blocks[i]);
}

/* ---- finding its fields -------------------------------------------------------------------- */

struct field {
    size_t offset;
    size_t width;  /* bytes: 1, 4 or 8 */
    bool is_float; /* of 4 bytes */
    char what[80];
};

struct layout {
    unsigned char *bytes;
    size_t size, at;
    struct field *fields;
    size_t n_fields, capacity;
    size_t table_end; /* first byte after the tensor table */
    size_t *edges;    /* [n_edges] both ends of every tensor's data */
    size_t n_edges;
};

/* The unsigned number at the walk's place, remembered as a field; steps past it. */
static uint64_t field(struct layout *layout, size_t width, bool is_float, const char *owner,
                      const char *what)
{
    if (layout->n_fields == layout->capacity) {
        layout->capacity = layout->capacity ? 2 * layout->capacity : 256;
        layout->fields = realloc(layout->fields, layout->capacity * sizeof *layout->fields);
        ck_assert_ptr_nonnull(layout->fields);
    }
    struct field *found = &layout->fields[layout->n_fields++];
    *found = (struct field){.offset = layout->at, .width = width, .is_float = is_float};
    snprintf(found->what, sizeof found->what, "%.50s %s", owner, what);
    uint64_t value = 0;
    memcpy(&value, layout->bytes + layout->at, width);
    layout->at += width;
    return value;
}

static void name(struct layout *layout, char out[64])
{
    size_t length = (size_t)field(layout, 8, false, "a name's", "length");
    memset(out, 0, 64);
    memcpy(out, layout->bytes + layout->at, length < 63 ? length : 63);
    layout->at += length;
}

static void value(struct layout *layout, uint64_t type, const char *key)
{
    switch (type) {
    case LOCUS_VALUE_BOOL:
        field(layout, 1, false, key, "boolean");
        break;
    case LOCUS_VALUE_F32:
        field(layout, 4, true, key, "float");
        break;
    case LOCUS_VALUE_U32:
    case LOCUS_VALUE_I32:
        field(layout, 4, false, key, "integer");
        break;
    case LOCUS_VALUE_STRING:
        layout->at += field(layout, 8, false, key, "string length");
        break;
    case LOCUS_VALUE_ARRAY: {
        uint64_t element = field(layout, 4, false, key, "array type");
        uint64_t count = field(layout, 8, false, key, "array count");
        for (uint64_t i = 0; i < count; i++)
            value(layout, element, key);
        break;
    }
    default:
        ck_abort_msg("hostile.c's file holds a value of type %d", (int)type);
    }
}

static size_t aligned(size_t at)
{
    return (at + 31) / 32 * 32;
}

static void find_layout(struct layout *layout, const char *path)
{
    *layout = (struct layout){0};
    layout->bytes = (unsigned char *)testing_read(path, &layout->size);
    field(layout, 4, false, "header", "magic");
    field(layout, 4, false, "header", "version");
    size_t n_tensors = (size_t)field(layout, 8, false, "header", "count of tensors");
    size_t n_keys = (size_t)field(layout, 8, false, "header", "count of keys");
    char owner[64];
    for (size_t i = 0; i < n_keys; i++) {
        name(layout, owner);
        value(layout, field(layout, 4, false, owner, "type"), owner);
    }
    layout->edges = calloc(2 * n_tensors, sizeof *layout->edges);
    ck_assert_ptr_nonnull(layout->edges);
    for (size_t i = 0; i < n_tensors; i++) {
        name(layout, owner);
        size_t n_bytes = sizeof(float);
        size_t n_dims = (size_t)field(layout, 4, false, owner, "count of dimensions");
        for (size_t d = 0; d < n_dims; d++)
            n_bytes *= (size_t)field(layout, 8, false, owner, "dimension");
        field(layout, 4, false, owner, "type");
        size_t offset = (size_t)field(layout, 8, false, owner, "offset");
        layout->edges[layout->n_edges++] = offset;
        layout->edges[layout->n_edges++] = offset + n_bytes;
    }
    layout->table_end = layout->at;
    for (size_t i = 0; i < layout->n_edges; i++)
        layout->edges[i] += aligned(layout->table_end);
}

static void free_layout(struct layout *layout)
{
    free(layout->bytes);
    free(layout->fields);
    free(layout->edges);
}

/* ---- mutations ----------------------------------------------------------------------------- */

static size_t try_length(const char *path, size_t length, size_t whole, hostile_check *check,
                         void *data)
{
    char what[80];
    snprintf(what, sizeof what, "cut to %zu bytes", length);
    ck_assert_int_eq(truncate(path, (off_t)length), 0);
    check(path, what, length >= whole, data);
    return 1;
}

static int descending(const void *a, const void *b)
{
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return (left < right) - (left > right);
}

size_t hostile_cuts(hostile_check *check, void *data)
{
    const char *path = testing_temporary("hostile.gguf");
    struct layout layout;
    hostile_write_checkpoint(path);
    find_layout(&layout, path);
    size_t whole = 0, n = 0;
    for (size_t i = 0; i < layout.n_edges; i++)
        if (layout.edges[i] > whole) whole = layout.edges[i];
    /* From long to short, so that the file need not be written again. */
    qsort(layout.edges, layout.n_edges, sizeof *layout.edges, descending);
    for (size_t i = 0; i < layout.n_edges; i++)
        for (size_t j = 0; j < 3; j++)
            if (layout.edges[i] + 1 - j > layout.table_end)
                n += try_length(path, layout.edges[i] + 1 - j, whole, check, data);
    for (size_t length = layout.table_end + 1; length-- > 0;)
        n += try_length(path, length, whole, check, data);
    free_layout(&layout);
    return n;
}

static size_t try_value(int file, const char *path, const struct layout *layout,
                        const struct field *field, const void *bytes, const char *says,
                        hostile_check *check, void *data)
{
    char what[128];
    snprintf(what, sizeof what, "%s at byte %zu set to %s", field->what, field->offset, says);
    off_t offset = (off_t)field->offset;
    ssize_t width = (ssize_t)field->width;
    ck_assert_int_eq(pwrite(file, bytes, field->width, offset), width);
    check(path, what, !memcmp(layout->bytes + field->offset, bytes, field->width), data);
    ck_assert_int_eq(pwrite(file, layout->bytes + field->offset, field->width, offset), width);
    return 1;
}

size_t hostile_fields(hostile_check *check, void *data)
{
    static const uint64_t values[] = {
        0, 1, UINT64_C(1) << 31, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};
    static const float floats[] = {0, 1, -1, INFINITY, -INFINITY, NAN};
    const char *path = testing_temporary("hostile.gguf");
    struct layout layout;
    hostile_write_checkpoint(path);
    find_layout(&layout, path);
    int file = open(path, O_RDWR);
    ck_assert_int_ge(file, 0);
    size_t n = 0;
    char says[32];
    for (size_t i = 0; i < layout.n_fields; i++) {
        const struct field *field = &layout.fields[i];
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            if (field->width < 8 && values[v] >> (8 * field->width)) continue;
            snprintf(says, sizeof says, "%llu", (unsigned long long)values[v]);
            n += try_value(file, path, &layout, field, &values[v], says, check, data);
        }
        for (size_t v = 0; field->is_float && v < sizeof floats / sizeof *floats; v++) {
            snprintf(says, sizeof says, "%g", (double)floats[v]);
            n += try_value(file, path, &layout, field, &floats[v], says, check, data);
        }
        if (field->width == 1)
            n += try_value(file, path, &layout, field, "\xFF", "255", check, data);
    }
    close(file);
    free_layout(&layout);
    return n;
}

/* ---- the limit ----------------------------------------------------------------------------- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_SANITIZER 1
#endif

bool hostile_limit_memory(size_t n_bytes)
{
    bool exact = true;
#ifdef UNDER_SANITIZER
    n_bytes += (size_t)1 << 30;
    exact = false;
#endif
    unsigned long pages = 0;
    FILE *stream = fopen("/proc/self/statm", "r");
    if (!stream) return false; /* no Linux: the test goes on without */
    ck_assert_int_eq(fscanf(stream, "%lu", &pages), 1);
    fclose(stream);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + n_bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    return exact;
}
