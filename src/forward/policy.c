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
 *   rerope       distances from `window` on are `window`: farther keys stand at 0, the query at
 *                `window` (Su, "Transformer upgrade 12: ReRoPE", kexue.fm/archives/9708, 2023).
 *   leaky-rerope distances d from `window` on are window + (d - window) / k, of which ReRoPE is the
 *                limit: farther keys stand at j / k, the query at (i - window) / k + window (the
 *                same). At d = window both halves say the same.
 *   dual-chunk   dual chunk attention (An et al., "Training-Free Long-Context Scaling of Large
 *                Language Models", arXiv 2402.17463, section 3.2). Chunks of s tokens; keys stand
 * at j mod s. Those of the row's own chunk keep their distances (intra-chunk); for the chunk
 * before, the query stands at s + min(i mod s, w - 1) (successive chunk: the last w keep theirs,
 * too); for all others at s + w - 1 (inter-chunk). w, the local window, is the trained length less
 * s, as the paper has it: s + w - 1 is then the longest distance that the model knows. (The
 * authors' code has one more.)
 */
#include "forward/policy.h"

#include <limits.h>
#include <string.h>

#include "base/spec.h"
#include "kernels/kernels.h"

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

/* Or what else comes first. */
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

static const struct locus_param window_params[] = {
    {"size", LOCUS_PARAM_INT, NULL, 1, INT_MAX, NULL, true, "tokens seen"},
    {0},
};

static const struct locus_policy_kind window = {
    .name = "window",
    .summary = "every token sees the last `size`, itself among them",
    .params = window_params,
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
        .end = keep, .q_position = policy->first_position + size - 1, .moved = 1};
    spans[1] = own_span(policy, slot - (size - keep) + 1, slot);
    return 2;
}

static const struct locus_param sinks_params[] = {
    {"keep", LOCUS_PARAM_INT, "4", 0, INT_MAX, NULL, true, "first tokens that stay in sight"},
    {"size", LOCUS_PARAM_INT, NULL, 1, INT_MAX, NULL, true, "tokens seen"},
    {0},
};

static const struct locus_policy_kind sinks = {
    .name = "sinks",
    .summary = "the first `keep` tokens and the last, `size` in all, by places among them "
               "(StreamingLLM)",
    .params = sinks_params,
    .check = check_sinks,
    .split = split_sinks,
    .plain = sinks_size,
    .pinned = sinks_keep,
    .hides = true,
    .moves = 1,
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
                                   .moved = 1,
                                   .group = true};
    spans[1] = own_span(policy, slot - size + 1, slot);
    return 2;
}

static const struct locus_param extend_params[] = {
    {"group", LOCUS_PARAM_INT, NULL, 1, INT_MAX, NULL, true, "positions that far keys share"},
    {"window", LOCUS_PARAM_INT, NULL, 1, INT_MAX, NULL, true,
     "distances below it are left as they are"},
    {0},
};

static int extend_position(const struct locus_policy *policy, int slot)
{
    return (policy->first_position + slot) / policy->values[0];
}

/* The farthest key of a row lies in the far span, but for a window that is all of the length. */
static int extend_reach(const struct locus_policy *policy, int trained_length)
{
    const int group = policy->values[0], size = policy->values[1];
    if (size >= trained_length) return trained_length;
    long long reach = (long long)group * (trained_length - size + size / group);
    return reach < INT_MAX ? (int)reach : INT_MAX;
}

static const struct locus_policy_kind self_extend = {
    .name = "self-extend",
    .summary = "tokens `window` or more back are seen at positions divided by `group`",
    .params = extend_params,
    .split = split_extend,
    .plain = extend_window,
    .moves = 1,
    .group_position = extend_position,
    .reach = extend_reach,
};

static int split_rerope(const struct locus_policy *policy, int slot, struct locus_span *spans)
{
    const int size = policy->values[0];
    if (slot < size) return split_full(policy, slot, spans);
    spans[0] =
        (struct locus_span){.end = slot - size + 1, .q_position = size, .moved = 1, .group = true};
    spans[1] = own_span(policy, slot - size + 1, slot);
    return 2;
}

static int rerope_position(const struct locus_policy *policy, int slot)
{
    (void)policy;
    (void)slot;
    return 0;
}

static int rerope_reach(const struct locus_policy *policy, int trained_length)
{
    return policy->values[0] < trained_length ? INT_MAX : trained_length;
}

static const struct locus_param rerope_params[] = {
    {"window", LOCUS_PARAM_INT, NULL, 1, INT_MAX, NULL, true, "no distance is longer"},
    {0},
};

static const struct locus_policy_kind rerope = {
    .name = "rerope",
    .summary = "tokens `window` or more back are seen at the distance `window` (ReRoPE)",
    .params = rerope_params,
    .split = split_rerope,
    .plain = window_size,
    .moves = 1,
    .group_position = rerope_position,
    .reach = rerope_reach,
};

/* Moved positions are counted in k-ths. */
static int leaky_divisor(const struct locus_policy *policy)
{
    return policy->values[1];
}

static int leaky_window(const struct locus_policy *policy)
{
    return leaky_divisor(policy) == 1 ? INT_MAX : policy->values[0];
}

static int split_leaky(const struct locus_policy *policy, int slot, struct locus_span *spans)
{
    const int size = policy->values[0], at = policy->first_position + slot;
    if (slot < leaky_window(policy)) return split_full(policy, slot, spans);
    spans[0] = (struct locus_span){.end = slot - size + 1,
                                   .q_position = at - size + size * leaky_divisor(policy),
                                   .moved = 1,
                                   .group = true};
    spans[1] = own_span(policy, slot - size + 1, slot);
    return 2;
}

static int leaky_position(const struct locus_policy *policy, int slot)
{
    return policy->first_position + slot;
}

static int leaky_reach(const struct locus_policy *policy, int trained_length)
{
    const int size = policy->values[0];
    if (size >= trained_length) return trained_length;
    const long long reach = size + (long long)leaky_divisor(policy) * (trained_length - size);
    return reach < INT_MAX ? (int)reach : INT_MAX;
}

static const struct locus_param leaky_params[] = {
    {"window", LOCUS_PARAM_INT, NULL, 1, 1 << 20, NULL, true,
     "distances below it are left as they are"},
    {"k", LOCUS_PARAM_INT, NULL, 1, 1 << 10, NULL, true, "what is farther is divided by it"},
    {0},
};

static const struct locus_policy_kind leaky_rerope = {
    .name = "leaky-rerope",
    .summary = "distances are `window` and what is past it divided by `k` (leaky ReRoPE)",
    .params = leaky_params,
    .split = split_leaky,
    .plain = leaky_window,
    .moves = 1,
    .group_position = leaky_position,
    .divisor = leaky_divisor,
    .reach = leaky_reach,
};

static const char *check_dual(const struct locus_policy *policy)
{
    return policy->values[1] <= policy->values[0] ? NULL : "expected window at most chunk";
}

static int dual_position(const struct locus_policy *policy, int slot)
{
    return slot % policy->values[0];
}

static int split_dual(const struct locus_policy *policy, int slot, struct locus_span *spans)
{
    const int chunk = policy->values[0], local = policy->values[1];
    const int at = slot % chunk, start = slot - at, previous = start - chunk;
    int n = 0;
    if (previous > 0)
        spans[n++] = (struct locus_span){
            .end = previous, .q_position = chunk + local - 1, .moved = 2, .group = true};
    if (start > 0)
        spans[n++] = (struct locus_span){.first = previous,
                                         .end = start,
                                         .q_position = chunk + (at < local ? at : local - 1),
                                         .moved = 1,
                                         .group = true};
    spans[n++] = own_span(policy, start, slot);
    return n;
}

static int dual_reach(const struct locus_policy *policy, int trained_length)
{
    const long long longest = (long long)policy->values[0] + policy->values[1];
    return longest <= trained_length ? INT_MAX : trained_length;
}

static const struct locus_param dual_params[] = {
    {"chunk", LOCUS_PARAM_INT, NULL, 1, 1 << 30, NULL, true, "tokens of a chunk"},
    {"window", LOCUS_PARAM_INT, NULL, 1, 1 << 30, NULL, true,
     "distances below it are left as they are; chunk and it are the trained length together"},
    {0},
};

static const struct locus_policy_kind dual_chunk = {
    .name = "dual-chunk",
    .summary = "tokens before the last `chunk` are seen at places within theirs, none farther than "
               "chunk + `window` (dual chunk attention)",
    .params = dual_params,
    .check = check_dual,
    .split = split_dual,
    .plain = window_size,
    .moves = 2,
    .group_position = dual_position,
    .reach = dual_reach,
};

static const struct locus_policy_kind *const kinds[] = {
    &full, &window, &sinks, &self_extend, &rerope, &leaky_rerope, &dual_chunk};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct locus_policy_kind *locus_policy_kind_at(int index)
{
    return index >= 0 && index < N_KINDS ? kinds[index] : NULL;
}

bool locus_policy_acts(const struct locus_policy *policy, int capacity)
{
    return policy->kind->plain && capacity > policy->kind->plain(policy);
}

int locus_policy_divisor(const struct locus_policy *policy)
{
    return policy->kind->divisor ? policy->kind->divisor(policy) : 1;
}

int locus_policy_reach(const struct locus_policy *policy, int trained_length)
{
    return policy->kind->reach ? policy->kind->reach(policy, trained_length) : 0;
}

/* ---- reading and printing ----------------------------------------------------------------- */

static const struct locus_policy_kind *find_kind(struct locus_word name,
                                                 struct locus_suggestion *suggestion)
{
    *suggestion = locus_suggestion_any(name);
    for (int i = 0; i < N_KINDS; i++) {
        if (locus_word_is(name, kinds[i]->name)) return kinds[i];
        locus_suggestion_list(suggestion, kinds[i]->name);
    }
    return NULL;
}

/* Fills what wasn't given, and checks the whole. */
static enum locus_status complete(struct locus_policy *policy, const struct locus_spec_values *read,
                                  const struct locus_spec_source *source)
{
    const struct locus_policy_kind *kind = policy->kind;
    const struct locus_param *params = kind->params;
    const int n = locus_params_count(params);
    for (int i = 0; i < n; i++) {
        double value = read->values[i];
        const char *fallback = params[i].fallback;
        if (read->given >> i & 1) {
            policy->values[i] = (int)value;
            continue;
        }
        if (!fallback)
            return locus_spec_refuse(source, "%s is missing; expected %s:%s=N%s", params[i].key,
                                     kind->name, params[i].key, n > 1 ? ",..." : "");
        locus_param_parse(&params[i], (struct locus_word){fallback, strlen(fallback)}, &value);
        policy->values[i] = (int)value;
    }
    const char *expected = kind->check ? kind->check(policy) : NULL;
    if (!expected) return LOCUS_OK;
    return locus_spec_refuse(source, "%s is %d and %s is %d; %s", params[0].key, policy->values[0],
                             params[1].key, policy->values[1], expected);
}

enum locus_status locus_policy_parse(struct locus_policy *policy, const char *text,
                                     locus_error *error)
{
    const struct locus_spec_source source = {.text = text ? text : full.name,
                                             .origin = "attention",
                                             .status = LOCUS_ERROR_ARGUMENT,
                                             .error = error};
    const struct locus_word name = locus_spec_name(source.text);
    struct locus_suggestion suggestion;
    struct locus_policy parsed = {.kind = find_kind(name, &suggestion)};
    if (!parsed.kind) return locus_spec_refuse_name(&source, "policy", &suggestion);
    const struct locus_spec_table table = {parsed.kind->name, parsed.kind->params, NULL, NULL};
    struct locus_spec_values values = {0};
    const char *rest = source.text + name.n_bytes;
    for (struct locus_word pair; locus_spec_next(&rest, &pair);) {
        enum locus_status status = locus_spec_read_pair(&values, &source, &table, pair);
        if (status) return status;
    }
    enum locus_status status = complete(&parsed, &values, &source);
    if (!status) *policy = parsed;
    return status;
}

void locus_policy_print(const struct locus_policy *policy, struct locus_buffer *out)
{
    locus_buffer_printf(out, "%s", policy->kind->name);
    for (int i = 0; i < locus_params_count(policy->kind->params); i++)
        locus_buffer_printf(out, "%c%s=%d", i ? ',' : ':', policy->kind->params[i].key,
                            policy->values[i]);
}

/* ---- which schemes it admits -------------------------------------------------------------- */

/* So that a moved query's position, window * k more at most, is an int. */
enum { MOST_DIVIDED = 1 << 30 };

/* Whether each block of keys in the group store is at rising positions, as near to each other as
 * slots are. */
static bool blocks_rise(const struct locus_policy *policy, int capacity)
{
    for (int slot = 0; policy->kind->group_position && slot < capacity; slot++) {
        const int start = slot / LOCUS_KV_BLOCK * LOCUS_KV_BLOCK;
        const int past = policy->kind->group_position(policy, slot) -
                         policy->kind->group_position(policy, start);
        if (past < 0 || past >= LOCUS_KV_BLOCK) return false;
    }
    return true;
}

/* Why a scheme can't serve the policy; NULL: it can. */
static const char *reason_against(const struct locus_policy *policy,
                                  const struct locus_position *position, int capacity)
{
    const struct locus_policy_kind *kind = policy->kind;
    if (kind->moves && locus_position_embeds(position))
        return "it adds positions to the tokens, which can't be moved afterwards";
    if (kind->moves && position->frame == LOCUS_FRAME_QUERY)
        return "its keys depend on the length of the text, which moved positions don't tell";
    if (kind->divisor && !locus_position_takes_fractions(position))
        return "it has no positions between two";
    if (position->frame == LOCUS_FRAME_BLOCK && !blocks_rise(policy, capacity))
        return "its keys are kept relative to blocks of 64; a chunk of a multiple of 64 can be";
    if (locus_position_whole_row(position))
        return "it needs all keys before a token at once, each at its own position";
    return NULL;
}

enum locus_status locus_policy_admit(const struct locus_policy *policy,
                                     const struct locus_positions *positions, int capacity,
                                     locus_error *error)
{
    const struct locus_policy_kind *kind = policy->kind;
    if (!locus_policy_acts(policy, capacity)) return LOCUS_OK;
    if (kind->divisor && policy->first_position > MOST_DIVIDED - capacity)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "attention %s counts positions to %d; the session's end at %lld",
                          kind->name, MOST_DIVIDED, (long long)policy->first_position + capacity);
    for (int i = 0; i < positions->n; i++) {
        const struct locus_position *position = &positions->schemes[i];
        const char *reason = reason_against(policy, position, capacity);
        if (reason)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "attention %s can't serve position %s: %s; expected another scheme, "
                              "or a context of at most %d",
                              kind->name, position->spec.scheme->name, reason, kind->plain(policy));
    }
    return LOCUS_OK;
}
