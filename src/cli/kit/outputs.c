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

int locus_output_apart(const char *command, const char *output, const char *other)
{
    if (!output || !other || locus_output_is_stdout(output) || !locus_output_is_same(output, other))
        return -1;
    return locus_log_usage(command, "%s would be written over %s: expected two files", output,
                           other);
}

int locus_outputs_apart(const char *command, const char *const *outputs, int n_outputs,
                        const struct locus_text_list *texts)
{
    int status = -1;
    for (int i = 0; i < n_outputs; i++) {
        for (int j = 0; j < i && status < 0; j++)
            status = locus_output_apart(command, outputs[i], outputs[j]);
        for (int j = 0; j < texts->n_items && status < 0; j++)
            status = locus_output_apart(command, outputs[i], texts->items[j].path);
    }
    return status;
}

int locus_outputs_check(const char *const *paths, int n_paths, struct locus_buffer *held)
{
    for (int i = 0; i < n_paths; i++) {
        locus_error error;
        int descriptor;
        if (!paths[i]) continue;
        if (locus_output_check(paths[i], &descriptor, &error))
            return locus_log_error("%s", error.message);
        if (descriptor >= 0) locus_buffer_append(held, &descriptor, sizeof descriptor);
    }
    return held->failed ? locus_log_error("out of memory for the outputs") : -1;
}

void locus_outputs_release(struct locus_buffer *held)
{
    for (size_t i = 0; i < held->length; i += sizeof(int)) {
        int descriptor;
        memcpy(&descriptor, held->bytes + i, sizeof descriptor);
        close(descriptor);
    }
    locus_buffer_free(held);
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
