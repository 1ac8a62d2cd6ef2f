/* Options of llama.cpp, transformers, nanoGPT and llama2.c: see foreign.h. */
#include "cli/kit/foreign.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "position/registry.h"

static const char cpu[] = "locus runs on the CPU alone; leave it out";
static const char unset[] = "locus has nothing to set there; leave it out";
static const char chat[] = "locus has no chat; give the whole prompt with -p TEXT or -f FILE";
static const char sampler[] = "locus hasn't that sampler; --samplers has those that there are";
static const char tokens[] = "say -n N (--tokens)";
static const char stop[] = "say --stop TEXT";
static const char model[] = "say -m FILE (--model)";
static const char cache[] = "say --cache-type TYPE, of keys and values";
static const char extend[] = "say -A self-extend:group=G,window=W";

static const struct locus_foreign_option rows[] = {
    {"ngl|n-gpu-layers|gpu-layers|main-gpu|split-mode|tensor-split|device", cpu},
    {"max-new-tokens|max-tokens|max-length|length|steps|n-tokens", tokens},
    {"r|reverse-prompt|stop-sequence|stop-sequences", stop},
    {"s", "say --seed N"},
    {"i|interactive|interactive-first|cnv|conversation|ins|instruct|chat", chat},
    {"chat-template|jinja", "locus runs no chat template; write the prompt as the model wants it"},
    {"color|colour", "the text has no colours; leave it out"},
    {"no-display-prompt|silent-prompt", "say --no-prompt"},
    {"log-disable|no-perf|simple-io", "say -q (--quiet)"},
    {"verbose-prompt|verbosity", "say -v (--verbose)"},
    {"e|escape", "the prompt is taken as it is; bash reads escapes in -p $'...'"},
    {"start", "say -p TEXT (--prompt)"},
    {"tb|threads-batch|num-threads", "say -t N (--threads)"},
    {"ctk|ctv|cache-type-k|cache-type-v", cache},
    {"fa|flash-attn|mlock|no-mmap|numa|ub|ubatch-size|cont-batching|no-warmup", unset},
    {"model-path|checkpoint|model-name|out-dir", model},
    {"hf|hf-repo|hf-file|model-url", "locus downloads nothing; give a file with -m FILE"},
    {"do-sample|greedy", "--temperature 0 is greedy, any other samples"},
    {"repetition-penalty", "say --repeat-penalty X"},
    {"num-samples|num-return-sequences", "a run writes one text; another --seed writes another"},
    {"mirostat|mirostat-lr|mirostat-ent|dynatemp-range|xtc-probability|dry-multiplier|top-nsigma",
     sampler},
    {"perplexity", "say locus perplexity -f FILE"},
    {"gan|grp-attn-n|gaw|grp-attn-w", extend},
    {"keep", "say -A sinks:keep=K,size=W"},
};

/* Whether the first n bytes of a name are one of the names. */
static bool is_one_of(const char *names, const char *name, size_t n)
{
    while (*names) {
        const size_t length = strcspn(names, "|");
        size_t i = 0;
        while (i < n && i < length && (name[i] == '_' ? '-' : name[i]) == names[i])
            i++;
        if (i == n && i == length) return true;
        names += length + (names[length] == '|');
    }
    return false;
}

const char *locus_foreign_hint(const char *name)
{
    const size_t n = strcspn(name, "=");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is_one_of(rows[i].names, name, n)) return rows[i].hint;
    for (size_t i = 0; locus_position_foreign[i].names; i++)
        if (is_one_of(locus_position_foreign[i].names, name, n))
            return locus_position_foreign[i].hint;
    return NULL;
}
