/* What commands write: see outputs.h. */
#include "cli/kit/outputs.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"

int locus_outputs_stdout(const char *command, const struct locus_output_request *requests,
                         int n_requests, bool *taken)
{
    const struct locus_output_request *first = NULL;
    *taken = false;
    for (int i = 0; i < n_requests; i++) {
        const struct locus_output_request *request = &requests[i];
        if (!request->path || !locus_output_is_stdout(request->path)) continue;
        if (first)
            return locus_log_usage(command, "%s and %s both go to standard output: expected one",
                                   first->option, request->option);
        if (request->binary && isatty(STDOUT_FILENO))
            return locus_log_usage(command,
                                   "%s %s: standard output is a terminal, and this is binary: "
                                   "expected a pipe or a file",
                                   request->option, request->path);
        first = request;
        *taken = true;
    }
    return -1;
}

void locus_picture_note(bool is_ascii, bool quiet)
{
    if (!is_ascii && !quiet)
        locus_log_note("note: the picture's font has ASCII only: the bytes of other characters "
                       "stand there as \\xNN");
}

/* Whether standard output is a pipe that nobody reads any more. */
static bool is_broken(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int locus_output_failed(const locus_error *error)
{
    if (error->status == LOCUS_ERROR_IO && locus_interrupted()) return LOCUS_EXIT_INTERRUPTED;
    return error->status == LOCUS_ERROR_IO && is_broken() ? LOCUS_EXIT_DONE
                                                          : locus_log_error("%s", error->message);
}
