/* Files that are no whole model, called what they are. See model.h. */
#include <stdio.h>

#include "base/text.h"
#include "model/model.h"

#define ADAPTER "a LoRA adapter"
#define IMATRIX "an importance matrix"

/* general.type, and what it stands for. */
static const struct kind {
    const char *type, *what;
} kinds[] = {
    {"adapter", ADAPTER},
    {"imatrix", IMATRIX},
    {"vocab", "a vocabulary alone"},
    {"mmproj", "a projector of images or sound"},
    {"control_vector", "a control vector"},
};

static enum locus_status refuse(const struct locus_checkpoint *checkpoint, const char *what,
                                locus_error *error)
{
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED, "%s: is %s, expected a whole model",
                      locus_checkpoint_path(checkpoint), what);
}

static enum locus_status check_type(const struct locus_checkpoint *checkpoint, locus_error *error)
{
    static const char key[] = "general.type";
    const char *type;
    size_t n_bytes;
    if (!locus_checkpoint_has(checkpoint, key)) return LOCUS_OK;
    if (!locus_checkpoint_string(checkpoint, key, &type, &n_bytes)) type = "", n_bytes = 0;
    if (locus_text_is(type, n_bytes, "model")) return LOCUS_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (locus_text_is(type, n_bytes, kinds[i].type))
            return refuse(checkpoint, kinds[i].what, error);
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED, "%s: %s is \"%.*s\", expected \"model\"",
                      locus_checkpoint_path(checkpoint), key, (int)(n_bytes < 40 ? n_bytes : 40),
                      type);
}

/* One of several files that gguf-split cuts a model into. */
static enum locus_status check_split(const struct locus_checkpoint *checkpoint, locus_error *error)
{
    int64_t n = 1, part = 0;
    if (!locus_checkpoint_has(checkpoint, "split.count")) return LOCUS_OK;
    if (!locus_checkpoint_int(checkpoint, "split.count", &n))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: split.count is not a whole number",
                          locus_checkpoint_path(checkpoint));
    if (n <= 1) return LOCUS_OK;
    (void)locus_checkpoint_int(checkpoint, "split.no", &part);
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: is part %lld of %lld of a split model, expected a whole one: merge the "
                      "parts with llama.cpp's gguf-split --merge",
                      locus_checkpoint_path(checkpoint), (long long)part + 1, (long long)n);
}

/* Blocks of quantised weights as they were laid out before or after the version that is read. */
static enum locus_status check_blocks(const struct locus_checkpoint *checkpoint, locus_error *error)
{
    enum { VERSION = 2 };
    static const char key[] = "general.quantization_version";
    int64_t version = VERSION;
    if (!locus_checkpoint_has(checkpoint, key)) return LOCUS_OK;
    if (locus_checkpoint_int(checkpoint, key, &version) && version == VERSION) return LOCUS_OK;
    for (size_t i = 0; i < locus_checkpoint_n_tensors(checkpoint); i++) {
        const enum locus_tensor_type type = locus_checkpoint_tensor_at(checkpoint, i)->type;
        if (locus_tensor_type_find((uint32_t)type)->block_values > 1)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "%s: %s is %lld, expected %d for quantised weights",
                              locus_checkpoint_path(checkpoint), key, (long long)version, VERSION);
    }
    return LOCUS_OK;
}

enum locus_status locus_model_check_kind(const struct locus_checkpoint *checkpoint,
                                         locus_error *error)
{
    enum locus_status status = check_type(checkpoint, error);
    if (status || (status = check_split(checkpoint, error)) ||
        (status = check_blocks(checkpoint, error)))
        return status;
    if (locus_checkpoint_has(checkpoint, "adapter.type")) return refuse(checkpoint, ADAPTER, error);
    if (locus_checkpoint_has(checkpoint, "imatrix.chunk_count"))
        return refuse(checkpoint, IMATRIX, error);
    if (locus_checkpoint_n_tensors(checkpoint) == 0)
        return refuse(checkpoint,
                      locus_checkpoint_has(checkpoint, "tokenizer.ggml.tokens")
                          ? "a vocabulary alone, which only tokenize reads"
                          : "a file without tensors",
                      error);
    return LOCUS_OK;
}
