/* The text a command works on: see prompt.h. */
#include "cli/kit/prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"

/* 0, or the errno of what failed. */
static int read_all(int descriptor, struct locus_buffer *prompt)
{
    char chunk[65536];
    for (;;) {
        ssize_t n = read(descriptor, chunk, sizeof chunk);
        if (n == 0) return prompt->failed ? ENOMEM : 0;
        if (n > 0)
            locus_buffer_append(prompt, chunk, (size_t)n);
        else if (errno != EINTR || locus_interrupted())
            return errno;
        if (prompt->failed) return ENOMEM;
    }
}

int locus_prompt_read(const char *command, const char *text, const char *file,
                      struct locus_buffer *prompt)
{
    if (text && file)
        return locus_log_usage(command, "the prompt comes from -p or from -f, not from both");
    if (text) {
        locus_buffer_append(prompt, text, strlen(text));
        return prompt->failed ? locus_log_error("out of memory for the prompt") : -1;
    }
    bool asked = file != NULL;
    if (!asked && isatty(STDIN_FILENO)) return -1;
    bool from_stdin = !file || strcmp(file, "-") == 0;
    int descriptor = from_stdin ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    int failure = descriptor < 0 ? errno : read_all(descriptor, prompt);
    if (!from_stdin && descriptor >= 0) close(descriptor);
    if (failure == EINTR) return LOCUS_EXIT_INTERRUPTED;
    /* A program started without a standard input has no prompt there. */
    if (failure == 0 || (!asked && failure == EBADF)) return -1;
    return locus_log_error("can't read the text from %s: %s",
                           from_stdin ? "standard input" : locus_file_shown(file),
                           strerror(failure));
}
