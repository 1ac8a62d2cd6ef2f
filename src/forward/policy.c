/* Cache policies: see policy.h. */
#include "forward/policy.h"

int locus_policy_split(int slot, int first_position, int window,
                       struct locus_span spans[LOCUS_MAX_SPANS])
{
    int first = window > 0 && slot >= window ? slot - window + 1 : 0;
    spans[0] = (struct locus_span){first, slot + 1, first_position + slot};
    return 1;
}
