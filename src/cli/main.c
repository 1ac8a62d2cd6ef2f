/* The program: finds the command and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"

static const struct locus_command *const commands[] = {
    &locus_command_generate,  &locus_command_inspect,    &locus_command_tokenize,
    &locus_command_positions, &locus_command_perplexity, &locus_command_extrapolate,
    &locus_command_plot,      &locus_command_quantize,   &locus_command_bench,
    &locus_command_help,
};

const struct locus_command *locus_command_at(size_t index)
{
    return index < sizeof commands / sizeof *commands ? commands[index] : NULL;
}

const struct locus_command *locus_command_find(const char *name)
{
    for (size_t i = 0; locus_command_at(i); i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

int locus_command_unknown(const char *name)
{
    struct locus_suggestion suggestion = locus_suggestion_near(name);
    for (size_t i = 0; locus_command_at(i); i++)
        locus_suggestion_offer(&suggestion, commands[i]->name);
    if (*name == '-')
        return locus_log_usage(NULL, "found '%s' where the command is expected", name);
    if (!suggestion.nearest) return locus_log_usage(NULL, "unknown command '%s'", name);
    return locus_log_usage(NULL, "unknown command '%s'; did you mean '%s'?", name,
                           suggestion.nearest);
}

static int print_version(void)
{
    struct locus_buffer out = {0};
    locus_buffer_printf(&out, "locus %s\n", locus_version());
    return locus_stdout_finish(&out);
}

static int run(const struct locus_command *command, int argc, char **argv)
{
    void *values = calloc(1, command->values_size);
    if (!values) return locus_log_error("out of memory for the options");
    int first_operand = argc;
    int status = locus_options_parse(command, argc, argv, values, &first_operand);
    if (status < 0) status = command->run(values, argc - first_operand, argv + first_operand);
    if (status == LOCUS_EXIT_INTERRUPTED) status = locus_interrupt_status();
    locus_options_release(command, values);
    free(values);
    return status;
}

/* A standard descriptor that was closed is not to be given to a file that is opened: what is
 * printed would land in it. Here reading 0 and writing 1 and 2 fail, as if they were closed. */
static void hold_standard_descriptors(void)
{
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is seen by write */
    signal(SIGXFSZ, SIG_IGN); /* so is a file at its size limit */
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) return locus_help_missing();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return locus_help_overview();
    if (strcmp(name, "--version") == 0) return print_version();
    const struct locus_command *command = locus_command_find(name);
    return command ? run(command, argc - 1, argv + 1) : locus_command_unknown(name);
}
