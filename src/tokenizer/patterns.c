/* Patterns that cut a text into words: see patterns.h.
 *
 * No group in a pattern is repeated, so that a word of any length needs no stack to match; and
 * where a search could try blanks by the million at each of them, the pattern is written otherwise
 * than its model's, for the same words.
 */
#include "tokenizer/patterns.h"

/* White space, inside a class: Unicode's White_Space. PCRE2's \s holds U+180E besides. */
#define SPACE "\\p{Z}\\t-\\r\\x{85}"
/* The last blank of a run belongs to the word after it. */
#define BLANKS "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define SUFFIXES "'s|'t|'re|'ve|'m|'ll|'d"
#define OTHERS " ?[^" SPACE "\\p{L}\\p{N}]+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define LINES "[" SPACE "]*[\\r\\n]+|" BLANKS
#define GPT2 SUFFIXES "| ?\\p{L}+| ?\\p{N}+|" OTHERS "|" BLANKS
#define BLOOM " ?[^(" SPACE "|.,!?…。，、।۔،)]+"
/* Han, Kana and Hangul as DeepSeek's first patterns have them, and its third's. */
#define EAST "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define HAN_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define ASCII_MARK "[!-/:-@\\[-`{-~]"
/* The letters that DeepSeek LLM's pattern lists one by one; most that have a case. */
#define DEEPSEEK_LETTERS                                                                           \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                 \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                       \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                 \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"                 \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"                 \
    "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"         \
    "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"                           \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}"                 \
    "\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}"          \
    "\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                  \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"         \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}"                  \
    "\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"                 \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}"                 \
    "\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}"         \
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

static const char *const gpt2[] = {GPT2, NULL};

/* Every digit is cut out first, then GPT-2's pattern runs on what lies between: a run of blanks
 * before a digit ends its piece, and stays whole. In one pass, which is faster. */
static const char *const single_digits[] = {
    SUFFIXES "| ?\\p{L}+|\\p{N}|" OTHERS "|[" SPACE "]++(?=\\p{N})|" BLANKS, NULL};

static const char *const llama3[] = {
    "(?i:" SUFFIXES ")|" LEAD "\\p{L}+|\\p{N}{1,3}|" OTHERS "[\\r\\n]*|" LINES, NULL};

static const char *const nanochat[] = {
    "(?i:" SUFFIXES ")|" LEAD "\\p{L}+|\\p{N}{1,2}|" OTHERS "[\\r\\n]*|" LINES, NULL};

static const char *const qwen2[] = {
    "(?i:" SUFFIXES ")|" LEAD "\\p{L}+|\\p{N}|" OTHERS "[\\r\\n]*|" LINES, NULL};

static const char *const qwen35[] = {"(?i:" SUFFIXES ")|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE
                                     "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES,
                                     NULL};

static const char *const gpt4o[] = {LEAD UPPER "*" LOWER "+(?i:" SUFFIXES ")?|" LEAD UPPER "+" LOWER
                                               "*(?i:" SUFFIXES ")?|\\p{N}{1,3}|" OTHERS
                                               "[\\r\\n/]*|" LINES,
                                    NULL};

static const char *const tekken[] = {
    LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER "*|\\p{N}|" OTHERS "[\\r\\n/]*|" LINES, NULL};

static const char *const bloom[] = {BLOOM, NULL};
static const char *const viking[] = {BLOOM, "\\p{N}", NULL};

static const char *const falcon[] = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]", NULL};
static const char *const fallback[] = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]",
                                       NULL};

/* The blanks at a piece's end, found from their first one alone. */
#define LAST_BLANKS "(?<![" SPACE "])[" SPACE "]++$"

static const char *const deepseek_llm[] = {"[\\r\\n]",
                                           "[" SPACE "]?[" DEEPSEEK_LETTERS "]+",
                                           "[" SPACE
                                           "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}"
                                           "\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
                                           LAST_BLANKS,
                                           EAST,
                                           "\\p{N}+",
                                           NULL};

static const char *const deepseek_coder[] = {
    "[\\r\\n]", "[" SPACE "]?\\p{L}+", "[" SPACE "]?\\p{P}+", EAST, "\\p{N}", NULL};

static const char *const deepseek_v3[] = {"\\p{N}{1,3}", HAN_KANA,
                                          ASCII_MARK
                                          "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                                          "?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES,
                                          NULL};

/* As llama.cpp knows them, but for the last, which it has no name for. Names whose models put a
 * separator after a text are left out: there is none here. */
static const struct locus_pattern patterns[] = {
    {"gpt-2", gpt2, false, false},
    {"phi-2", gpt2, false, false},
    {"mpt", gpt2, false, false},
    {"olmo", gpt2, false, false},
    {"jais", gpt2, false, false},
    {"exaone4", gpt2, false, false},
    {"trillion", gpt2, false, false},
    {"granite-docling", gpt2, false, false},
    {"gigachat", gpt2, false, false},
    {"a.x-4.0", gpt2, false, false},
    {"mellum", gpt2, false, false},
    {"modern-bert", gpt2, false, false},
    {"jina-es", gpt2, false, false},
    {"jina-de", gpt2, false, false},
    {"jina-v2-es", gpt2, false, false},
    {"jina-v2-de", gpt2, false, false},
    {"default", fallback, false, false},
    {"starcoder", single_digits, false, false},
    {"refact", single_digits, false, false},
    {"codeshell", single_digits, false, false},
    {"command-r", single_digits, false, false},
    {"smollm", single_digits, false, false},
    {"exaone", single_digits, false, false},
    {"minerva-7b", single_digits, false, false},
    {"mellum2", single_digits, false, false},
    {"llama-bpe", llama3, true, true},
    {"llama3", llama3, true, true},
    {"llama-v3", llama3, true, true},
    {"falcon3", llama3, true, true},
    {"falcon-h1", llama3, true, true},
    {"pixtral", llama3, true, true},
    {"midm-2.0", llama3, true, true},
    {"lfm2", llama3, true, true},
    {"jina-v5-nano", llama3, true, true},
    {"dbrx", llama3, false, false},
    {"smaug-bpe", llama3, false, false},
    {"glm4", llama3, false, false},
    {"chatglm-bpe", llama3, false, false},
    {"qwen2", qwen2, false, false},
    {"stablelm2", qwen2, false, false},
    {"deepseek-r1-qwen", qwen2, false, false},
    {"megrez", qwen2, false, false},
    {"hunyuan", qwen2, false, false},
    {"solar-open", qwen2, false, false},
    {"grok-2", qwen2, false, false},
    {"kormo", qwen2, false, false},
    {"f2llmv2", qwen2, false, false},
    {"qwen35", qwen35, false, false},
    {"gpt-4o", gpt4o, false, false},
    {"llama4", gpt4o, false, false},
    {"kanana2", gpt4o, false, false},
    {"talkie", gpt4o, false, false},
    {"minimax-m2", gpt4o, false, false},
    {"tekken", tekken, true, true},
    {"bloom", bloom, false, false},
    {"gpt3-finnish", bloom, false, false},
    {"poro-chat", bloom, false, false},
    {"viking", viking, false, false},
    {"falcon", falcon, false, false},
    {"deepseek-llm", deepseek_llm, false, false},
    {"deepseek-coder", deepseek_coder, false, false},
    {"deepseek-v3", deepseek_v3, false, false},
    {"hunyuan-dense", deepseek_v3, false, false},
    {"joyai-llm", deepseek_v3, false, false},
    {"hy_v4", deepseek_v3, false, false},
    {"nanochat", nanochat, false, false},
};

enum { N_PATTERNS = sizeof patterns / sizeof patterns[0] };

const struct locus_pattern *locus_pattern_at(size_t i)
{
    return i < N_PATTERNS ? &patterns[i] : NULL;
}

const struct locus_pattern *locus_pattern_find(struct locus_word name, const char **nearest)
{
    struct locus_suggestion suggestion = locus_suggestion_any(name);
    for (size_t i = 0; i < N_PATTERNS; i++) {
        if (locus_word_is(name, patterns[i].name)) return &patterns[i];
        locus_suggestion_offer(&suggestion, patterns[i].name);
    }
    *nearest = suggestion.nearest;
    return NULL;
}
