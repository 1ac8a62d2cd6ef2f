/* locus help [COMMAND], made from the tables that parse. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/kit/log.h"
#include "cli/kit/page.h"

static void append_commands(struct locus_buffer *out)
{
    locus_buffer_printf(out,
                        "usage: locus COMMAND [options]\n       locus --version\n\nCommands:\n");
    for (size_t i = 0; locus_command_at(i); i++)
        locus_buffer_printf(out, "  %-11s  %s\n", locus_command_at(i)->name,
                            locus_command_at(i)->summary);
}

static const char try_this[] = "\nTry: locus generate -p \"Once upon a time\"\n";

int locus_help_missing(void)
{
    struct locus_buffer out = {0};
    append_commands(&out);
    locus_buffer_printf(&out, "%s", try_this);
    const int columns = locus_page_columns(STDERR_FILENO);
    locus_page_fold(&out, 0, columns ? columns : LOCUS_PAGE_USUAL);
    if (!out.failed) fputs(out.bytes, stderr);
    locus_buffer_free(&out);
    return locus_log_usage(NULL, "no command given");
}

int locus_help_overview(void)
{
    struct locus_buffer out = {0};
    locus_buffer_printf(&out,
                        "locus %s: runs GPT models, with the position scheme of your choice\n\n",
                        locus_version());
    append_commands(&out);
    locus_buffer_printf(&out, "\nOptions of every command:\n");
    locus_options_describe(locus_common_options, NULL, &out);
    locus_buffer_printf(
        &out,
        "\nAn option may be cut short as long as only one can be meant. Results "
        "go to stdout, all messages to stderr. A model's file must stay as it is while "
        "it is read: one that is cut short ends the command (SIGBUS).\nExit status: "
        "0 done, 1 it failed, 2 wrong usage, 130 interrupted (by signal N: 128 + "
        "N).\n%s",
        try_this);
    return locus_page_finish(&out);
}

static int run(void *values, int n_operands, char **operands)
{
    (void)values;
    if (n_operands > 1)
        return locus_log_usage(NULL, "help takes one command, found also '%s'", operands[1]);
    if (n_operands == 0) return locus_help_overview();
    const struct locus_command *command = locus_command_find(operands[0]);
    return command ? locus_options_help(command) : locus_command_unknown(operands[0]);
}

const struct locus_command locus_command_help = {
    .name = "help",
    .summary = "Say what the commands do and which options they take.",
    .usage = "[COMMAND]",
    .values_size = sizeof(struct locus_common),
    .takes_operands = true,
    .run = run,
};
