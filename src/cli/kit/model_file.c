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

/* `folder`/`below`/`name`, less a "..": "/a/build" and "../models" make "/a/models". */
static char *join(const char *folder, const char *below, const char *name)
{
    struct locus_buffer path = {0};
    const char *slash = strrchr(folder, '/');
    locus_buffer_printf(&path, "%.*s/%s%s", (int)(slash ? slash - folder : 0), folder, below, name);
    if (path.failed) locus_buffer_free(&path);
    return path.bytes;
}

static bool is_there(const char *path)
{
    return path && access(path, F_OK) == 0;
}

/* Where the bundled model of that name may be, beside the folder of the program: of a build, of an
 * installation. The first that is there is returned, and its place NULL; NULL: none is. Both places
 * are to be freed. */
static char *find_bundled(const char *name, char *places[2])
{
    char folder[PATH_MAX];
    places[0] = places[1] = NULL;
    if (!program_folder(folder)) return NULL;
    places[0] = join(folder, "models/", name);
    places[1] = join(folder, "share/locus/models/", name);
    for (int i = 0; i < 2; i++)
        if (is_there(places[i])) {
            char *found = places[i];
            places[i] = NULL;
            return found;
        }
    return NULL;
}

/* -m, else $LOCUS_MODEL, else the bundled one; *named: one of the first two. */
static char *find_model(const struct locus_common *common, char *places[2], bool *named)
{
    const char *variable = getenv("LOCUS_MODEL");
    const char *name = common->model ? common->model : variable && *variable ? variable : NULL;
    places[0] = places[1] = NULL;
    *named = name != NULL;
    return name ? strdup(name) : find_bundled("tales.gguf", places);
}

char *locus_model_file(const struct locus_common *common, int *status)
{
    bool named;
    char *places[2], *found = find_model(common, places, &named);
    if (!found && named)
        *status = locus_log_error("out of memory for the model's path");
    else if (!found && !(places[0] && places[1]))
        *status = locus_log_error("no model: give one with -m FILE or $LOCUS_MODEL");
    else if (!found)
        *status = locus_log_error("no model: neither %s nor %s is there; give one with -m FILE or "
                                  "$LOCUS_MODEL",
                                  places[0], places[1]);
    free(places[0]);
    free(places[1]);
    return found;
}

char *locus_model_file_usual(void)
{
    const struct locus_common nothing = {0};
    bool named;
    char *places[2], *found = find_model(&nothing, places, &named);
    free(places[0]);
    free(places[1]);
    return found;
}

char *locus_model_file_of(const char *scheme)
{
    char name[64], *places[2];
    snprintf(name, sizeof name, "tales-%s.gguf", scheme);
    char *found = find_bundled(name, places);
    free(places[0]);
    free(places[1]);
    return found;
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
