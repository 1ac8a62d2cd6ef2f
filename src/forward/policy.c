/* Cache policies: one const struct each, and the table of them. See policy.h.
 *
 *   full         every key before the row, at its own distance.
 *   window       the last `size`, the row's own among them.
 *   sinks        the first `keep` and the last size - keep (Xiao et al., "Efficient Streaming
 *                Language Models with Attention Sinks", arXiv 2309.17453, section 3.2). The paper
 *                counts positions in the cache; here the sinks' query stands at size - 1 instead,
 *                which gives the same distances, and no key moves.
 *   self-extend  distances below `window` as they are, farther keys by floor(position / group)
 *                (Jin et al., "LLM Maybe LongLM", arXiv 2401.01325, equation 3 and algorithm 1).
 */
#include "forward/policy.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

/* ---- the policies ------------------------------------------------------------------------- */

static struct locus_span own_span(const struct locus_policy *policy, int first, int slot)
{
    return (struct locus_span){
        .first = first, .end = slot + 1, .q_position = policy->first_position + slot};
}

static int split_full(const struct locus_policy *policy, int slot, struct locus_span *spans)
{
    spans[0] = own_span(policy, 0, slot);
    return 1;
}

static const struct locus_policy_kind full = {
    .name = "full",
    .summary = "every token sees all before it",
    .split = split_full,
};

static int window_size(const struct locus_policy *policy)
{
    return policy->values[0];
}

static int split_window(const struct locus_policy *policy, int slot, struct locus_span *spans)
{
    const int size = window_size(policy);
    spans[0] = own_span(policy, slot >= size ? slot - size + 1 : 0, slot);
    return 1;
}

static const struct locus_policy_kind window = {
    .name = "window",
    .summary = "every token sees the last `size`, itself among them",
    .params = {{"size", 1, -1, "tokens seen"}},
    .split = split_window,
    .plain = window_size,
    .hides = true,
};

static const char *check_sinks(const struct locus_policy *policy)
{
    return policy->values[0] < policy->values[1] ? NULL : "expected keep below size";
}

static int sinks_keep(const struct locus_policy *policy)
{
    return policy->values[0];
}

static int sinks_size(const struct locus_policy *policy)
{
    return policy->values[1];
}

static int split_sinks(const struct locus_policy *policy, int slot, struct locus_span *spans)
{
    const int keep = sinks_keep(policy), size = sinks_size(policy);
    if (slot < size) return split_full(policy, slot, spans);
    spans[0] = (struct locus_span){
        .end = keep, .q_position = policy->first_position + size - 1, .moved = true};
    spans[1] = own_span(policy, slot - (size - keep) + 1, slot);
    return 2;
}

static const struct locus_policy_kind sinks = {
    .name = "sinks",
    .summary = "the first `keep` tokens and the last, `size` in all, by places among them "
               "(StreamingLLM)",
    .params = {{"keep", 0, 4, "first tokens that stay in sight"}, {"size", 1, -1, "tokens seen"}},
    .check = check_sinks,
    .split = split_sinks,
    .plain = sinks_size,
    .pinned = sinks_keep,
    .hides = true,
    .moves = true,
};

static int extend_window(const struct locus_policy *policy)
{
    return policy->values[0] == 1 ? INT_MAX : policy->values[1];
}

static int split_extend(const struct locus_policy *policy, int slot, struct locus_span *spans)
{
    const int group = policy->values[0], size = policy->values[1];
    if (slot < extend_window(policy)) return split_full(policy, slot, spans);
    spans[0] = (struct locus_span){.end = slot - size + 1,
                                   .q_position = (policy->first_position + slot) / group + size -
                                                 size / group,
                                   .moved = true,
                                   .group = true};
    spans[1] = own_span(policy, slot - size + 1, slot);
    return 2;
}

static const struct locus_policy_kind self_extend = {
    .name = "self-extend",
    .summary = "tokens `window` or more back are seen at positions divided by `group`",
    .params = {{"group", 1, -1, "positions that far keys share"},
               {"window", 1, -1, "distances below it are left as they are"}},
    .split = split_extend,
    .plain = extend_window,
    .moves = true,
    .group = true,
};

static const struct locus_policy_kind *const kinds[] = {&full, &window, &sinks, &self_extend};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct locus_policy_kind *locus_policy_kind_at(int index)
{
    return index >= 0 && index < N_KINDS ? kinds[index] : NULL;
}

bool locus_policy_acts(const struct locus_policy *policy, int capacity)
{
    return policy->kind->plain && capacity > policy->kind->plain(policy);
}

int locus_policy_group_position(const struct locus_policy *policy, int slot)
{
    return (policy->first_position + slot) / policy->values[0];
}

int locus_policy_reach(const struct locus_policy *policy, int trained_length)
{
    const int group = policy->values[0], size = policy->values[1];
    if (!policy->kind->group) return 0;
    if (size >= trained_length) return trained_length;
    long long reach = (long long)group * (trained_length - size + size / group);
    return reach < INT_MAX ? (int)reach : INT_MAX;
}

/* ---- reading and printing ----------------------------------------------------------------- */

static int count_params(const struct locus_policy_kind *kind)
{
    int n = 0;
    while (n < LOCUS_POLICY_PARAMS && kind->params[n].key)
        n++;
    return n;
}

static enum locus_status refuse_name(struct locus_word name, locus_error *error)
{
    struct locus_suggestion suggestion = {.text = name.bytes, .n_bytes = name.n_bytes};
    char names[64] = "";
    for (int i = 0; i < N_KINDS; i++) {
        locus_suggestion_offer(&suggestion, kinds[i]->name);
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? " " : "", kinds[i]->name);
    }
    return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                      "attention: no policy is named '%.*s'; the nearest is '%s', of: %s",
                      locus_word_shown(name), name.bytes, suggestion.nearest, names);
}

static enum locus_status refuse_key(const struct locus_policy_kind *kind, struct locus_word key,
                                    locus_error *error)
{
    struct locus_suggestion suggestion = {.text = key.bytes, .n_bytes = key.n_bytes};
    const int n = count_params(kind);
    for (int i = 0; i < n; i++)
        locus_suggestion_offer(&suggestion, kind->params[i].key);
    if (n == 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "attention: %s has no parameters, found '%.*s'", kind->name,
                          locus_word_shown(key), key.bytes);
    return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                      "attention: %s has no parameter '%.*s'; the nearest is '%s'", kind->name,
                      locus_word_shown(key), key.bytes, suggestion.nearest);
}

static enum locus_status read_pair(struct locus_policy *policy, bool *given, struct locus_word pair,
                                   locus_error *error)
{
    struct locus_word key, text;
    if (!locus_spec_split(pair, &key, &text))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "attention: %s: found '%.*s'; expected key=value", policy->kind->name,
                          locus_word_shown(pair), pair.bytes);
    int i = 0, n = count_params(policy->kind);
    while (i < n && !locus_word_is(key, policy->kind->params[i].key))
        i++;
    if (i == n) return refuse_key(policy->kind, key, error);
    if (given[i])
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "attention: %s: %s is given twice; expected once", policy->kind->name,
                          policy->kind->params[i].key);
    double value;
    const int min = policy->kind->params[i].min;
    if (!locus_number_parse(text.bytes, text.n_bytes, true, &value) || value < min ||
        value > INT_MAX)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "attention: %s: %s is '%.*s'; expected a whole number from %d on",
                          policy->kind->name, policy->kind->params[i].key, locus_word_shown(text),
                          text.bytes, min);
    policy->values[i] = (int)value;
    given[i] = true;
    return LOCUS_OK;
}

/* Fills what wasn't given, and checks the whole. */
static enum locus_status complete(struct locus_policy *policy, const bool *given,
                                  locus_error *error)
{
    const struct locus_policy_kind *kind = policy->kind;
    for (int i = 0; i < count_params(kind); i++) {
        if (given[i]) continue;
        policy->values[i] = kind->params[i].fallback;
        if (policy->values[i] < 0)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                              "attention: %s: %s is missing; expected %s:%s=N%s", kind->name,
                              kind->params[i].key, kind->name, kind->params[i].key,
                              count_params(kind) > 1 ? ",..." : "");
    }
    const char *expected = kind->check ? kind->check(policy) : NULL;
    if (!expected) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_ARGUMENT, "attention: %s: %s is %d and %s is %d; %s",
                      kind->name, kind->params[0].key, policy->values[0], kind->params[1].key,
                      policy->values[1], expected);
}

enum locus_status locus_policy_parse(struct locus_policy *policy, const char *text,
                                     locus_error *error)
{
    if (!text) text = full.name;
    const struct locus_word name = locus_spec_name(text);
    struct locus_policy parsed = {0};
    bool given[LOCUS_POLICY_PARAMS] = {false};
    for (int i = 0; i < N_KINDS; i++)
        if (locus_word_is(name, kinds[i]->name)) parsed.kind = kinds[i];
    if (!parsed.kind) return refuse_name(name, error);
    const char *rest = text + name.n_bytes;
    for (struct locus_word pair; locus_spec_next(&rest, &pair);) {
        enum locus_status status = read_pair(&parsed, given, pair, error);
        if (status) return status;
    }
    enum locus_status status = complete(&parsed, given, error);
    if (!status) *policy = parsed;
    return status;
}

void locus_policy_print(const struct locus_policy *policy, struct locus_buffer *out)
{
    locus_buffer_printf(out, "%s", policy->kind->name);
    for (int i = 0; i < count_params(policy->kind); i++)
        locus_buffer_printf(out, "%c%s=%d", i ? ',' : ':', policy->kind->params[i].key,
                            policy->values[i]);
}

/* ---- which schemes it admits -------------------------------------------------------------- */

/* Why a scheme can't serve the policy; NULL: it can. */
static const char *reason_against(const struct locus_policy_kind *kind,
                                  const struct locus_position *position)
{
    if (kind->moves && locus_position_embeds(position))
        return "it adds positions to the tokens, which can't be moved afterwards";
    if (kind->moves && position->frame == LOCUS_FRAME_QUERY)
        return "its keys depend on the length of the text, which moved positions don't tell";
    if (locus_position_whole_row(position))
        return "it counts over all keys before a token, at one position each";
    return NULL;
}

enum locus_status locus_policy_admit(const struct locus_policy *policy,
                                     const struct locus_positions *positions, int capacity,
                                     locus_error *error)
{
    const struct locus_policy_kind *kind = policy->kind;
    if (!locus_policy_acts(policy, capacity)) return LOCUS_OK;
    for (int i = 0; i < positions->n; i++) {
        const struct locus_position *position = &positions->schemes[i];
        const char *reason = reason_against(kind, position);
        if (reason)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "attention %s can't serve position %s: %s; expected another scheme, "
                              "or a context of at most %d",
                              kind->name, position->spec.scheme->name, reason, kind->plain(policy));
    }
    return LOCUS_OK;
}
