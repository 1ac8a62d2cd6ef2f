/* Progress on stderr: see progress.h. */
#include "cli/kit/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/kit/log.h"
#include "cli/kit/page.h"
#include "locus.h"

enum { USUAL_BAR = 24, SHORT_BAR = 8, WIDE = 60 /* columns, for the usual one */ };

/* Whether a line can be drawn again. */
static bool can_redraw(void)
{
    const char *terminal = getenv("TERM");
    return terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

void locus_progress_begin(struct locus_progress *progress, double total, bool quiet)
{
    const bool terminal = isatty(STDERR_FILENO);
    *progress = (struct locus_progress){.bar = !quiet && terminal && can_redraw(),
                                        .lines = !quiet && !terminal,
                                        .interval = terminal ? 0.2 : 60,
                                        .total = total,
                                        .start = locus_now(),
                                        .label = ""};
    if (progress->lines) progress->drawn = progress->start;
}

/* "1:02:03", "2:03" or "3 s" */
static const char *spell_time(double seconds, char text[32])
{
    const long whole = seconds < 1e7 ? (long)(seconds + 0.5) : 10000000;
    if (whole >= 3600)
        snprintf(text, 32, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    else if (whole >= 60)
        snprintf(text, 32, "%ld:%02ld", whole / 60, whole % 60);
    else
        snprintf(text, 32, "%ld s", whole);
    return text;
}

/* Ends the line after so many columns. */
static void cut(char *line, int columns)
{
    for (; *line; line++)
        if (((unsigned char)*line & 0xC0) != 0x80 && columns-- == 0) *line-- = '\0';
}

static void draw_bar(double share, const char *left, const char *label)
{
    const int asked = locus_page_columns(STDERR_FILENO);
    const int columns = asked ? asked : LOCUS_PAGE_USUAL;
    const int length = columns < WIDE ? SHORT_BAR : USUAL_BAR;
    char line[512], bar[USUAL_BAR + 1];
    for (int i = 0; i < length; i++)
        bar[i] = i < (int)(share * length) ? '#' : '.';
    bar[length] = '\0';
    snprintf(line, sizeof line, "[%s] %3d%%  %s left  %s", bar, (int)(share * 100), left, label);
    line[locus_utf8_whole(line, strlen(line))] = '\0'; /* it may be cut */
    locus_text_tame(line);
    cut(line, columns - 1); /* the last column would begin a line on some */
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
}

void locus_progress_advance(struct locus_progress *progress, double work)
{
    progress->done += work;
    const double now = locus_now();
    const bool shown = progress->bar || progress->lines;
    if (!shown || now - progress->drawn < progress->interval || progress->total <= 0) return;
    progress->drawn = now;
    double share = progress->done / progress->total;
    if (share > 1) share = 1;
    char left[32];
    spell_time(share > 0 ? (now - progress->start) * (1 - share) / share : 0, left);
    if (progress->bar)
        draw_bar(share, left, progress->label);
    else
        locus_log_note("%d%%, %s left: %s", (int)(share * 100), left, progress->label);
}

void locus_progress_clear(struct locus_progress *progress)
{
    if (!progress->bar || progress->drawn <= 0) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->drawn = 0;
}
