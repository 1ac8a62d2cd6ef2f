/* locus inspect --families: the rows of the program's table, in words. */
#include <stdarg.h>
#include <string.h>

#include "base/number.h"
#include "cli/commands/inspect.h"
#include "cli/kit/json.h"
#include "cli/kit/log.h"
#include "cli/kit/page.h"

enum { MAX_NOTES = 20, NOTE_BYTES = 120 };

/* What is special of a family. */
struct notes {
    char text[MAX_NOTES][NOTE_BYTES];
    int n;
};

__attribute__((format(printf, 3, 4))) static void note(struct notes *notes, bool holds,
                                                       const char *format, ...)
{
    va_list args;
    if (!holds || notes->n == MAX_NOTES) return;
    va_start(args, format);
    locus_print_args(notes->text[notes->n++], NOTE_BYTES, format, args);
    va_end(args);
}

static void note_layers(struct notes *notes, const struct locus_architecture *family)
{
    note(notes, family->window_every > 0, "of %d layers the last has no window",
         family->window_every);
    note(notes, family->unrotated_global, "layers without windows have no positions");
    note(notes, family->unrotated_every > 0, "of %d layers the last has no positions",
         family->unrotated_every);
    note(notes, family->local_base > 0, "layers with windows rotate by base %g",
         family->local_base);
    note(notes, family->unscaled_local, "the rotation of layers with windows isn't scaled");
    note(notes, family->biased_layers > 0, "models of %d layers have biased scores instead",
         family->biased_layers);
}

static void note_all(struct notes *notes, const struct locus_architecture *family)
{
    const struct locus_config *config = &family->defaults;
    notes->n = 0;
    note(notes, family->spelled_out, "all of it may be spelled out by keys");
    note(notes, family->mixer != NULL, "no attention and no MLP");
    note(notes, config->parallel_residual, "attention and MLP in parallel");
    note(notes, config->norm_position != LOCUS_NORM_INPUT, "norms %s",
         inspect_norm_place(config->norm_position));
    note(notes, family->bare_norms, "norms have no weights");
    note(notes, config->embedding_norm, "the embedding is normed");
    note(notes, family->root_embedding_scale, "embeddings times the root of the width");
    note(notes, family->divides_logits, "logits are divided by their scale");
    note(notes, config->score_cap > 0, "scores softly capped at %g", (double)config->score_cap);
    note(notes, config->logit_cap > 0, "logits softly capped at %g", (double)config->logit_cap);
    note(notes, config->normed_experts, "experts' shares add up to 1");
    note(notes, family->headless_scans, "layers without key and value heads are of mamba");
    note_layers(notes, family);
    note(notes, family->needed != NULL, "needs %s", family->needed);
    note(notes, family->needed_keys != NULL, "needs the keys %s", family->needed_keys);
}

static const char *mixer_name(const struct locus_architecture *family)
{
    return family->mixer ? family->mixer->name : locus_attention_part.name;
}

static void append_json(struct locus_json *json, const struct locus_architecture *family,
                        const struct notes *notes)
{
    locus_json_open(json, NULL, '{');
    locus_json_text(json, "family", family->name);
    locus_json_text(json, "position", family->position);
    locus_json_text(json, "mixer", mixer_name(family));
    locus_json_text(json, "norm", inspect_norm(family->defaults.norm));
    locus_json_text(json, "activation", inspect_activation(family->defaults.activation));
    locus_json_bool(json, "gated", family->defaults.gated);
    locus_json_open(json, "notes", '[');
    for (int i = 0; i < notes->n; i++)
        locus_json_text(json, NULL, notes->text[i]);
    locus_json_close(json, ']');
    locus_json_close(json, '}');
}

/* A family's name, and below it what there is to say, in lines of at most WIDTH. */
static void append_text(struct locus_buffer *out, const struct locus_architecture *family,
                        const struct notes *notes)
{
    enum { WIDTH = 80, INDENT = 13 };
    size_t line = out->length;
    locus_buffer_printf(out, "%-*s%s, %s, %s%s", INDENT, family->name, family->position,
                        inspect_norm(family->defaults.norm),
                        inspect_activation(family->defaults.activation),
                        family->defaults.gated ? ", gated" : "");
    if (family->mixer) locus_buffer_printf(out, ", layers of %s", mixer_name(family));
    for (int i = 0; i < notes->n; i++) {
        const bool fits = out->length - line + strlen(notes->text[i]) + 2 <= WIDTH;
        locus_buffer_append(out, fits ? "; " : ";\n", 2);
        if (!fits) {
            line = out->length;
            locus_buffer_printf(out, "%*s", INDENT, "");
        }
        locus_buffer_printf(out, "%s", notes->text[i]);
    }
    locus_buffer_append(out, "\n", 1);
}

int inspect_print_families(bool as_json)
{
    const struct locus_architecture *family;
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    struct notes notes;
    if (as_json) locus_json_open(&json, NULL, '[');
    for (size_t i = 0; (family = locus_architecture_at(i)); i++) {
        note_all(&notes, family);
        if (as_json)
            append_json(&json, family, &notes);
        else
            append_text(&out, family, &notes);
    }
    if (as_json) {
        locus_json_close(&json, ']');
        locus_buffer_append(&out, "\n", 1);
    }
    return as_json ? locus_stdout_finish(&out) : locus_page_finish(&out);
}
