/* What the program says: see log.h. */
#include "cli/kit/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/text.h"

/* Whether what was written to stdout last ended within a line. One program, one stdout. */
static bool within_line;

/* One line, whatever the strings in it hold: an argument may contain a newline. */
static void say(const char *prefix, const char *format, va_list args)
{
    char line[1024];
    const int length = locus_print_args(line, sizeof line, format, args);
    if (length < 0) line[0] = '\0';
    if (length >= (int)sizeof line) line[locus_utf8_whole(line, sizeof line - 1)] = '\0';
    locus_text_tame(line);
    /* The two may be one terminal, or one pipe. */
    if (within_line) (void)!write(STDOUT_FILENO, "\n", 1);
    within_line = false;
    fprintf(stderr, "locus: %s%s\n", prefix, line);
}

int locus_log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("error: ", format, args);
    va_end(args);
    return LOCUS_EXIT_FAILED;
}

int locus_log_usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("error: ", format, args);
    va_end(args);
    fprintf(stderr, "locus: see 'locus help%s%s'\n", command ? " " : "", command ? command : "");
    return LOCUS_EXIT_USAGE;
}

int locus_log_spec(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("error: ", format, args);
    va_end(args);
    fprintf(stderr, "locus: see 'locus positions'\n");
    return LOCUS_EXIT_USAGE;
}

void locus_log_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

bool locus_stdout_write(const void *bytes, size_t n_bytes, int *status)
{
    const char *next = bytes;
    while (n_bytes > 0) {
        ssize_t n = write(STDOUT_FILENO, next, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            *status = errno == EPIPE
                          ? LOCUS_EXIT_DONE
                          : locus_log_error("can't write to standard output: %s", strerror(errno));
            return false;
        }
        next += n;
        n_bytes -= (size_t)n;
        if (n > 0) within_line = next[-1] != '\n';
    }
    return true;
}

bool locus_stdout_end_line(int *status)
{
    return !within_line || locus_stdout_write("\n", 1, status);
}

int locus_stdout_finish(struct locus_buffer *buffer)
{
    int status = LOCUS_EXIT_DONE;
    if (buffer->failed)
        status = locus_log_error("out of memory for the output");
    else
        locus_stdout_write(buffer->bytes, buffer->length, &status);
    locus_buffer_free(buffer);
    return status;
}
