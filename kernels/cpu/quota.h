/* quota.h: how much of the processors a container lets its processes use. */
#ifndef KERNELS_CPU_QUOTA_H
#define KERNELS_CPU_QUOTA_H

#include <stdint.h>

/* Whole processors that the control groups this process is in (version 2: cpu.max of its group and all above; version 1:
 * the CPU controller's cfs_quota_us) grant, rounded up; 0 = no limit is set or known. `groups` is /proc/self/cgroup and
 * `root` /sys/fs/cgroup, but for tests. */
int32_t cpu_quota(const char *groups, const char *root);

#endif
