#include "launcher/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"

const char *machine_variable(char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

const char *machine_env(const struct machine *m, const char *name)
{
    return machine_variable(m->env ? m->env : environ, name);
}

static int put_path(const struct machine *m, char buf[PATH_MAX], const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

static int put_path(const struct machine *m, char buf[PATH_MAX], const char *fmt, va_list ap)
{
    size_t len = strlen(m->root);
    int    n;

    if (len >= PATH_MAX) {
        buf[0] = '\0';
        return -ENAMETOOLONG;
    }
    memcpy(buf, m->root, len);
    n = vsnprintf(buf + len, PATH_MAX - len, fmt, ap);
    if (n < 0 || (size_t) n >= PATH_MAX - len) {
        buf[0] = '\0';
        return -ENAMETOOLONG;
    }
    return 0;
}

int machine_path(const struct machine *m, char buf[PATH_MAX], const char *fmt, ...)
{
    va_list ap;
    int     r;

    va_start(ap, fmt);
    r = put_path(m, buf, fmt, ap);
    va_end(ap);
    return r;
}

static int read_start(const char *path, char *buf, size_t size)
{
    CC_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t         len = 0;

    if (fd < 0)
        return -errno;
    while (len < size - 1) {
        ssize_t n = read(fd, buf + len, size - 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t) n;
    }
    while (len > 0 && strchr(" \t\r\n", buf[len - 1]))
        len--;
    buf[len] = '\0';
    return (int) len;
}

int machine_read(const struct machine *m, char *buf, size_t size, const char *fmt, ...)
{
    char    path[PATH_MAX];
    va_list ap;
    int     r;

    va_start(ap, fmt);
    r = put_path(m, path, fmt, ap);
    va_end(ap);
    return r < 0 ? r : read_start(path, buf, size);
}

int machine_read_int(const struct machine *m, long *ret, const char *fmt, ...)
{
    char    path[PATH_MAX], text[64], *end;
    va_list ap;
    long    v;
    int     r;

    va_start(ap, fmt);
    r = put_path(m, path, fmt, ap);
    va_end(ap);
    if (r < 0)
        return r;
    r = read_start(path, text, sizeof text);
    if (r < 0)
        return r;
    errno = 0;
    v = strtol(text, &end, 0);
    if (errno || end == text || *end != '\0')
        return -EINVAL;
    *ret = v;
    return 0;
}

FILE *machine_open(const struct machine *m, const char *path)
{
    char full[PATH_MAX];
    int  r = machine_path(m, full, "%s", path);

    if (r < 0) {
        errno = -r;
        return NULL;
    }
    return fopen(full, "re");
}

int machine_affinity(const struct machine *m, cpu_set_t *ret)
{
    if (m->affinity) {
        *ret = *m->affinity;
        return 0;
    }
    return sched_getaffinity(0, sizeof *ret, ret) < 0 ? -errno : 0;
}
