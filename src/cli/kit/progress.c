/* A bar on stderr: see progress.h. */
#include "cli/kit/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "locus.h"

enum { BAR = 24 };

void locus_progress_begin(struct locus_progress *progress, double total, bool quiet)
{
    *progress = (struct locus_progress){.shown = !quiet && isatty(STDERR_FILENO),
                                        .total = total,
                                        .start = locus_now(),
                                        .label = ""};
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

void locus_progress_advance(struct locus_progress *progress, double work)
{
    progress->done += work;
    const double now = locus_now();
    if (!progress->shown || now - progress->drawn < 0.2 || progress->total <= 0) return;
    progress->drawn = now;
    double share = progress->done / progress->total;
    if (share > 1) share = 1;
    char bar[BAR + 1], left[32], label[41];
    for (int i = 0; i < BAR; i++)
        bar[i] = i < (int)(share * BAR) ? '#' : '.';
    bar[BAR] = '\0';
    spell_time(share > 0 ? (now - progress->start) * (1 - share) / share : 0, left);
    snprintf(label, sizeof label, "%s", progress->label);
    label[locus_utf8_whole(label, strlen(label))] = '\0'; /* it may be cut */
    locus_text_tame(label);
    fprintf(stderr, "\r\033[K[%s] %3d%%  %s left  %s", bar, (int)(share * 100), left, label);
    fflush(stderr);
}

void locus_progress_clear(struct locus_progress *progress)
{
    if (!progress->shown || progress->drawn <= 0) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->drawn = 0;
}
