/* machine.h - the machine as the facts modules see it: files below a root, an environment, a CPU mask.
 *
 * Everything that reads /proc, /sys, /dev or the environment goes through this struct, so that a test can
 * hand in a tree in a temporary directory and needs no GPU, no cgroup and no scheduler.  Nothing here prints;
 * reads are small.
 */
#ifndef LAUNCHER_MACHINE_H
#define LAUNCHER_MACHINE_H

#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>

struct nvml;

struct machine {
    const char        *root;     /* before every path; "" is the real machine */
    char *const       *env;      /* NULL-terminated NAME=VALUE; NULL: the process's own environment */
    const cpu_set_t   *affinity; /* the CPUs we may use; NULL: ask the kernel */
    const struct nvml *nvml;     /* NULL: libnvidia-ml.so.1 when root is "", else none */
};

/* The value of a variable in NAME=VALUE entries up to a NULL, or NULL when it is not there; env NULL: nothing is. */
const char *machine_variable(char *const *env, const char *name);
/* The same of the machine's. */
const char *machine_env(const struct machine *m, const char *name);

/* The path below the root.  -ENAMETOOLONG leaves `buf` empty. */
int machine_path(const struct machine *m, char buf[PATH_MAX], const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The start of a small file as a string without its trailing blanks.  Returns its length or a negative errno.
 */
int machine_read(const struct machine *m, char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A file that holds one whole number (any base prefix).  0, or a negative errno; -EINVAL when it holds
 * something else. */
int machine_read_int(const struct machine *m, long *ret, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* fopen() for reading, close-on-exec; NULL with errno set. */
FILE *machine_open(const struct machine *m, const char *path);

/* The inherited CPU mask.  -EINVAL: the kernel knows more than CPU_SETSIZE CPUs. */
int machine_affinity(const struct machine *m, cpu_set_t *ret);

#endif
