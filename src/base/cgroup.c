/* Control groups: see cgroup.h. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The one or two numbers that the file `name` of a group begins with ("200000 100000"). Returns how
 * many were read: none of "max 100000". */
static int read_numbers(const char *folder, const char *name, long numbers[2])
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    int n = fscanf(file, "%ld %ld", &numbers[0], &numbers[1]);
    fclose(file);
    return n < 0 ? 0 : n;
}

/* What one group's own quota pays for: microseconds of CPU time in a period of so many. */
static int own_cpus(const char *folder)
{
    long numbers[2], period[2];
    if (read_numbers(folder, "cpu.max", numbers) != 2) {
        if (read_numbers(folder, "cpu.cfs_quota_us", numbers) != 1) return 0;
        if (read_numbers(folder, "cpu.cfs_period_us", period) != 1) return 0;
        numbers[1] = period[0];
    }
    if (numbers[0] <= 0 || numbers[1] <= 0) return 0;
    const long cpus = (numbers[0] - 1) / numbers[1] + 1;
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

static int lesser(int a, int b)
{
    return !a || (b && b < a) ? b : a;
}

/* The least of a group's quota and those of the groups above it, up to the hierarchy's root. */
static int least_cpus(const char *root, const char *group)
{
    char folder[PATH_MAX];
    const int n = snprintf(folder, sizeof folder, "%s%s", root, group);
    if (n >= (int)sizeof folder) return 0;
    int least = own_cpus(folder);
    while (strlen(folder) > strlen(root)) {
        *strrchr(folder, '/') = '\0';
        least = lesser(least, own_cpus(folder));
    }
    return least;
}

/* Whether "cpu" is in a list such as "cpu,cpuacct". */
static bool has_cpu(const char *controllers)
{
    for (const char *at = controllers; *at; at += strspn(at, ",")) {
        const size_t length = strcspn(at, ",");
        if (length == 3 && !memcmp(at, "cpu", 3)) return true;
        at += length;
    }
    return false;
}

int locus_cgroup_cpus(const char *groups, const char *mount)
{
    char line[PATH_MAX + 256], root[PATH_MAX];
    int least = 0;
    FILE *file = fopen(groups, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) { /* ID:CONTROLLERS:GROUP; no controllers: version 2 */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(++controllers, ':') : NULL;
        if (!group || group[1] != '/') continue;
        *group++ = '\0';
        if (*controllers && !has_cpu(controllers)) continue;
        const int n = snprintf(root, sizeof root, "%s%s", mount, *controllers ? "/cpu" : "");
        if (n < (int)sizeof root) least = lesser(least, least_cpus(root, group));
    }
    fclose(file);
    return least;
}
