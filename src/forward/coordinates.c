/* Where the caller puts tokens: see session.h. */
#include <limits.h>

#include "forward/session.h"

/* One past the largest coordinate of the tokens held: where a text goes on. */
static long long next_place(const struct locus_session *session)
{
    const size_t n = (size_t)session->length * (size_t)session->setup.n_axes;
    int largest = session->setup.first_position - 1;
    for (size_t i = 0; i < n; i++)
        largest =
            session->states.coordinates[i] > largest ? session->states.coordinates[i] : largest;
    return (long long)largest + 1;
}

enum locus_status locus_coordinates_admit(const struct locus_description *setup,
                                          const struct locus_positions *positions,
                                          locus_error *error)
{
    const int n_axes = setup->n_axes;
    if (n_axes == 0) return LOCUS_OK;
    if (setup->policy.kind->moves && locus_policy_acts(&setup->policy, setup->capacity))
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "attention %s moves positions, which can't be done to %d coordinates of "
                          "the caller's; expected full or window",
                          setup->policy.kind->name, n_axes);
    for (int i = 0; i < positions->n; i++) {
        const struct locus_position *position = &positions->schemes[i];
        if (!locus_position_takes_axes(position, n_axes))
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "position %s can't take %d coordinates a token from the caller; "
                              "expected a scheme with as many axes",
                              position->spec.scheme->name, n_axes);
    }
    return LOCUS_OK;
}

enum locus_status locus_coordinates_check(const struct locus_session *session,
                                          const int *coordinates, int n, locus_error *error)
{
    const int end = session->setup.first_position + session->setup.capacity,
              n_axes = session->setup.n_axes;
    if (n_axes == 0 && coordinates)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "coordinates of %d tokens, but the session's n_axes is 0", n);
    if (n_axes == 0) return LOCUS_OK;
    if (!coordinates && next_place(session) + n > end)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "%d tokens go on at coordinate %lld, expected an end of at most %d", n,
                          next_place(session), end);
    for (int i = 0; coordinates && i < n; i++)
        for (int axis = 0; axis < n_axes; axis++) {
            const int at = coordinates[(size_t)i * (size_t)n_axes + (size_t)axis];
            if (at < 0 || at >= end)
                return locus_fail(error, LOCUS_ERROR_POSITION,
                                  "coordinate %d of token %d is %d, expected 0 to %d", axis, i, at,
                                  end - 1);
        }
    return LOCUS_OK;
}

void locus_coordinates_put(struct locus_session *session, const int *coordinates, int n)
{
    const size_t n_axes = (size_t)session->setup.n_axes;
    if (n_axes == 0) return;
    const int next = (int)next_place(session);
    int *at = session->states.coordinates + (size_t)session->length * n_axes;
    for (size_t i = 0; i < (size_t)n * n_axes; i++)
        at[i] = coordinates ? coordinates[i] : next + (int)(i / n_axes);
}
