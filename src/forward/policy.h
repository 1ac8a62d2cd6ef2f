/* Cache policies: which keys a row sees, and at which positions.
 *
 * A policy divides the keys of the row in slot i into at most three spans. A span has one position
 * of the query; a key's position depends on its slot alone, so that keys are cached rotated.
 */
#ifndef LOCUS_FORWARD_POLICY_H
#define LOCUS_FORWARD_POLICY_H

#include "base/buffer.h"
#include "base/error.h"
#include "position/position.h"

struct locus_policy;

/* Keys that a row sees under one position of its query. */
struct locus_span {
    int first, end; /* slots; nothing to see where end <= first */
    int q_position;
    int moved;  /* 0: q_position is the row's own; 1, 2: another one, the query rotated anew */
    bool group; /* keys are those of the group store, at group_position */
};

enum { LOCUS_MAX_SPANS = 3, LOCUS_MAX_MOVED = 2, LOCUS_POLICY_PARAMS = 2 };

struct locus_policy_kind {
    const char *name, *summary;
    /* Whole numbers; one without a default must be given. At most LOCUS_POLICY_PARAMS, and an
     * entry whose key is NULL; NULL: none. */
    const struct locus_param *params;
    /* OPTIONAL: refuses values that don't go together, saying what was expected. */
    const char *(*check)(const struct locus_policy *policy);
    /* The spans of the row in `slot`, in the order of its softmax; returns how many there are. */
    int (*split)(const struct locus_policy *policy, int slot, struct locus_span *spans);
    /* OPTIONAL: rows up to this slot see every key before them at its own distance. */
    int (*plain)(const struct locus_policy *policy);
    /* OPTIONAL: the first slots that rows never cease to see. */
    int (*pinned)(const struct locus_policy *policy);
    bool hides; /* beyond, some keys are not seen, and need not be held */
    int moves;  /* beyond, some keys are seen at another distance: the most that `moved` is */
    /* OPTIONAL: the position of a slot's key in the group store, where keys are cached again. */
    int (*group_position)(const struct locus_policy *policy, int slot);
    /* OPTIONAL: what positions of moved spans and of the group store are counted in: as many make
     * one. None: whole positions. */
    int (*divisor)(const struct locus_policy *policy);
    /* OPTIONAL: positions until a key is seen at a distance of trained_length or more; INT_MAX:
     * there is no such position. */
    int (*reach)(const struct locus_policy *policy, int trained_length);
};

/* A policy in use. */
struct locus_policy {
    const struct locus_policy_kind *kind;
    int values[LOCUS_POLICY_PARAMS]; /* as kind->params lists them */
    int first_position;              /* of slot 0 */
};

/* The kinds, in the order of help; NULL past the last. */
const struct locus_policy_kind *locus_policy_kind_at(int index);

/* Reads NAME[:key=value,...] (NULL: full); unknown names and keys are refused with the nearest. */
enum locus_status locus_policy_parse(struct locus_policy *policy, const char *text,
                                     locus_error *error);

/* Appends the canonical text, every key named. */
void locus_policy_print(const struct locus_policy *policy, struct locus_buffer *out);

/* Refuses schemes of which one can't serve the policy in a session of `capacity` slots. */
enum locus_status locus_policy_admit(const struct locus_policy *policy,
                                     const struct locus_positions *positions, int capacity,
                                     locus_error *error);

/* True if a session of `capacity` slots has rows past the policy's plain ones. */
bool locus_policy_acts(const struct locus_policy *policy, int capacity);

/* How many of what its moved positions are counted in make one. */
int locus_policy_divisor(const struct locus_policy *policy);

/* The kind's reach; 0 where no such limit is the policy's own. */
int locus_policy_reach(const struct locus_policy *policy, int trained_length);

#endif
