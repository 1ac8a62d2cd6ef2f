/* The model a command works on: see model_file.h. */
#include "cli/kit/model_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/kit/log.h"
#include "tokenizer/tokenizer.h"

/* The folder that holds the program; false where the system can't tell. */
static bool program_folder(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) return false;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash) return false;
    *slash = '\0';
    return true;
}

/* `folder`/`below`, less a "..": "/a/build" and "../models/x" make "/a/models/x". */
static char *join(const char *folder, const char *below)
{
    const char *slash = strrchr(folder, '/');
    int length = (int)(slash ? slash - folder : 0);
    size_t size = strlen(folder) + strlen(below) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%.*s/%s", length, folder, below);
    return path;
}

char *locus_model_file(const struct locus_common *common, int *status)
{
    const char *named = common->model ? common->model : getenv("LOCUS_MODEL");
    if (named && (*named || common->model)) {
        char *copy = strdup(named);
        if (!copy) *status = locus_log_error("out of memory for the model's path");
        return copy;
    }
    char folder[PATH_MAX];
    if (!program_folder(folder)) {
        *status = locus_log_error("no model: give one with -m FILE or $LOCUS_MODEL");
        return NULL;
    }
    /* Beside the folder of the program: of a build first, of an installation next. */
    char *built = join(folder, "models/tales.gguf");
    char *installed = join(folder, "share/locus/models/tales.gguf");
    if (!built || !installed)
        *status = locus_log_error("out of memory for the model's path");
    else if (access(built, F_OK) != 0 && access(installed, F_OK) != 0)
        *status = locus_log_error("no model: neither %s nor %s is there; give one with -m FILE or "
                                  "$LOCUS_MODEL",
                                  built, installed);
    else {
        bool first = access(built, F_OK) == 0;
        free(first ? installed : built);
        return first ? built : installed;
    }
    free(built);
    free(installed);
    return NULL;
}

int locus_model_option(struct locus_opened_model *opened, const struct locus_common *common)
{
    int status = LOCUS_EXIT_FAILED;
    locus_error error;
    char *path = locus_model_file(common, &status);
    *opened = (struct locus_opened_model){0};
    if (!path) return status;
    if (locus_opened_model_open(opened, path, &error)) return locus_log_error("%s", error.message);
    locus_model_file_note(path, locus_tokenizer_assumed(opened->tokenizer), common->quiet);
    return -1;
}

int locus_model_hash_option(struct locus_opened_model *opened)
{
    locus_error error;
    return locus_opened_model_hash(opened, &error) ? locus_log_error("%s", error.message) : -1;
}

void locus_model_file_note(const char *path, const char *assumed, bool quiet)
{
    if (assumed && !quiet) locus_log_note("note: %s: %s", path, assumed);
}
