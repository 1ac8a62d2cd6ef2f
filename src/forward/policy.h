/* Cache policies: which keys a row sees, and at which positions. */
#ifndef LOCUS_FORWARD_POLICY_H
#define LOCUS_FORWARD_POLICY_H

/* Keys that a row sees under one position of its query. */
struct locus_span {
    int first, end; /* slots */
    int q_position;
};

enum { LOCUS_MAX_SPANS = 2 };

/* The spans of the row in `slot`, in the order of its softmax; returns how many there are. Text
 * begins at first_position; a layer with a `window` (0: none) sees that many slots at most. */
int locus_policy_split(int slot, int first_position, int window,
                       struct locus_span spans[LOCUS_MAX_SPANS]);

#endif
