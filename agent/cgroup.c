#include "agent/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "NAME value" in a file of such lines, or the file's only number when name is NULL. */
static bool read_number(const char *dir, const char *file, const char *name, uint64_t *ret)
{
    char  path[PATH_MAX], line[128];
    FILE *f;
    bool  is_found = false;

    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int) sizeof path)
        return false;
    f = fopen(path, "re");
    while (f && !is_found && fgets(line, sizeof line, f)) {
        size_t n = name ? strlen(name) : 0;
        char  *end;

        if (name && (strncmp(line, name, n) != 0 || line[n] != ' '))
            continue;
        errno = 0;
        *ret = strtoull(line + n, &end, 10);
        is_found = end > line + n && errno == 0;
        if (!name)
            break;
    }
    if (f)
        (void) fclose(f);
    return is_found;
}

/* Our group's path in the hierarchy that has the memory controller ("" in `controller`: v2). */
static bool own_path(const char *root, const char *controller, char *ret, size_t size)
{
    char  line[PATH_MAX];
    FILE *f;
    bool  is_found = false;

    (void) snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    f = fopen(line, "re");
    while (f && !is_found && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        is_found = strcmp(list + 1, controller) == 0;
        if (is_found)
            (void) snprintf(ret, size, "%s", strcmp(path, "/") == 0 ? "" : path);
    }
    if (f)
        (void) fclose(f);
    return is_found;
}

struct layout {
    const char *controller, *mounts[3], *events, *limit, *peak;
};

/* A group that is not mounted where its path says (a container sees its own as the top) is looked for at the top. */
static bool read_layout(const char *root, const struct layout *l, struct cgroup_oom *ret)
{
    char   path[2048], dir[PATH_MAX];
    size_t i, k;

    if (!own_path(root, l->controller, path, sizeof path))
        return false;
    for (i = 0; i < 3 && l->mounts[i]; i++)
        for (k = 0; k < 2; k++) {
            (void) snprintf(dir, sizeof dir, "%s%s%s", root, l->mounts[i], k ? "" : path);
            if (!read_number(dir, l->events, "oom_kill", &ret->oom_kills))
                continue;
            ret->is_known = true;
            if (!read_number(dir, l->limit, NULL, &ret->limit) || ret->limit > INT64_MAX / 2)
                ret->limit = 0;
            if (!read_number(dir, l->peak, NULL, &ret->peak))
                ret->peak = 0;
            return true;
        }
    return false;
}

int cgroup_oom_read(const char *root, struct cgroup_oom *ret)
{
    static const struct layout v2 = { "", { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL }, "memory.events",
                                      "memory.max", "memory.peak" };
    static const struct layout v1 = { "memory", { "/sys/fs/cgroup/memory", NULL }, "memory.oom_control",
                                      "memory.limit_in_bytes", "memory.max_usage_in_bytes" };

    *ret = (struct cgroup_oom) { 0 };
    if (!root)
        root = "";
    return read_layout(root, &v2, ret) || read_layout(root, &v1, ret) ? 0 : -ENOENT;
}

uint64_t cgroup_oom_delta(const struct cgroup_oom *before, const struct cgroup_oom *after)
{
    bool is_known = before->is_known && after->is_known && after->oom_kills > before->oom_kills;

    return is_known ? after->oom_kills - before->oom_kills : 0;
}
