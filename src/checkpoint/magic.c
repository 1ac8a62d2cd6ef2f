/* The magic: a file that isn't GGUF is refused by naming what it looks like. */
#include "base/buffer.h"
#include "checkpoint/internal.h"

struct signature {
    size_t n_bytes;
    const char *bytes, *says;
};

#define BY_FOLDER "scripts/convert_hf.py converts a model's folder"
#define LLAMA2C "a llama2.c model (scripts/convert_llama2c.py converts it)"

static const struct signature signatures[] = {
    {4, "PK\3\4", "a zip archive, such as a PyTorch .bin or .pt file (" BY_FOLDER ")"},
    {4, "FUGG", "a big-endian GGUF file"},
    {4, "lmgg", "an old ggml file from before GGUF"},
    {4, "fmgg", "an old ggml file from before GGUF"},
    {4, "tjgg", "an old ggml file from before GGUF"},
    {2, "\x1f\x8b", "a gzip archive"},
    {2, "\x80\x02", "a Python pickle, such as an old PyTorch file (" BY_FOLDER ")"},
    {6, "\x93NUMPY", "a NumPy array"},
    {8, "\x89HDF\r\n\x1a\n", "an HDF5 file"},
    {4, "24ka", LLAMA2C},
    {20, "version https://git-", "a Git LFS pointer: the file itself was not downloaded"},
};

/* Version 0 has no magic: seven integers, of which the sizes are no smaller than what they hold. */
static bool is_old_llama2c(const unsigned char *bytes, size_t size)
{
    enum { WIDTH, MLP, LAYERS, HEADS, KV_HEADS, VOCABULARY, LENGTH, N_FIELDS, MOST = 1 << 24 };
    int32_t fields[N_FIELDS];
    if (size < sizeof fields) return false;
    memcpy(fields, bytes, sizeof fields);
    if (fields[VOCABULARY] < 0 && fields[VOCABULARY] > -MOST)
        fields[VOCABULARY] = -fields[VOCABULARY]; /* a head of its own */
    for (int i = 0; i < N_FIELDS; i++)
        if (fields[i] < 1 || fields[i] > MOST) return false;
    return fields[WIDTH] % fields[HEADS] == 0 && fields[HEADS] % fields[KV_HEADS] == 0 &&
           size / sizeof(float) / (size_t)fields[WIDTH] >= (size_t)fields[VOCABULARY];
}

static const char *looks_like(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
        const struct signature *signature = &signatures[i];
        if (size >= signature->n_bytes && !memcmp(bytes, signature->bytes, signature->n_bytes))
            return signature->says;
    }
    /* safetensors: a header length, then the header, a JSON object. */
    if (size > 9 && bytes[8] == '{' && locus_load_u64(bytes) < ((uint64_t)1 << 32))
        return "a safetensors file (" BY_FOLDER ")";
    size_t at = 0;
    if (size >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3)) at = 3;
    while (at < size && at < 256 && memchr(" \t\r\n", bytes[at], 4))
        at++;
    if (at < size && bytes[at] == '<') return "an HTML or XML page";
    if (at < size && (bytes[at] == '{' || bytes[at] == '[')) return "a JSON file";
    return is_old_llama2c(bytes, size) ? LLAMA2C : NULL;
}

bool locus_magic_check(struct locus_cursor *cursor)
{
    static const char magic[4] = {'G', 'G', 'U', 'F'};
    if (!cursor->size)
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT, "empty file, expected a GGUF file");
    size_t n = cursor->size < sizeof magic ? cursor->size : sizeof magic;
    if (memcmp(cursor->bytes, magic, n)) {
        const char *says = looks_like(cursor->bytes, cursor->size);
        if (says)
            return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                                       "looks like %s, expected a GGUF file", says);
        struct locus_buffer found = {0};
        for (size_t i = 0; i < n; i++)
            locus_buffer_printf(&found, "%s%02x", i ? " " : "", cursor->bytes[i]);
        locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                            "magic is %s, expected a GGUF file (47 47 55 46)",
                            found.failed ? "wrong" : found.bytes);
        locus_buffer_free(&found);
        return false;
    }
    const unsigned char *bytes;
    return locus_cursor_take(cursor, "the magic", sizeof magic, &bytes);
}
