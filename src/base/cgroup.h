/* What a control group lets its processes have. */
#ifndef LOCUS_BASE_CGROUP_H
#define LOCUS_BASE_CGROUP_H

/* CPUs that the quotas of a process's control groups pay for, rounded up: the least of its own and
 * of those above it; 0: no quota. `groups` is the file that lists them ("/proc/self/cgroup"),
 * `mount` where their hierarchies are ("/sys/fs/cgroup"), of version 2 or 1 (cgroups(7)). A group
 * that can't be seen, as from inside a container, counts as having no quota. */
int locus_cgroup_cpus(const char *groups, const char *mount);

#endif
