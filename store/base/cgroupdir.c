#include "store/base/cgroupdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"

/* Is `word` an item of the comma list? */
static bool has_item(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, len) == 0 &&
            (p[len] == ',' || p[len] == '\0' || p[len] == '\n' || p[len] == ' '))
            return true;
    }
    return false;
}

static FILE *open_proc(const char *root, const char *name)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/proc/self/%s", root, name) < (int) sizeof path ? fopen(path, "re") : NULL;
}

/* Our path in one hierarchy, from /proc/self/cgroup ("4:memory:/a/b", v2: "0::/a/b"). */
static bool own_path(const char *root, const char *controller, char ret[PATH_MAX])
{
    FILE              *f = open_proc(root, "cgroup");
    CC_AUTO_FREE char *line = NULL;
    size_t             size = 0;
    bool               is_found = false;

    while (f && !is_found && getline(&line, &size, f) > 0) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        is_found = controller ? has_item(names + 1, controller) : strcmp(line, "0:") == 0;
        if (is_found && snprintf(ret, PATH_MAX, "%s", path) >= PATH_MAX)
            is_found = false;
    }
    if (f)
        (void) fclose(f);
    return is_found;
}

/* mountinfo writes blanks, tabs, newlines and backslashes as three octal digits. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++) {
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
            s[3] <= '7') {
            *to++ = (char) ((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* Splits a line of /proc/self/mountinfo; true when it mounts that hierarchy. */
static bool is_mount_of(char *line, const char *controller, char **ret_root, char **ret_point)
{
    char *field[5], *type = strstr(line, " - ");
    bool  is_match;

    if (!type)
        return false;
    type += 3;
    if (controller) {
        const char *options = strrchr(type, ' ');

        is_match = strncmp(type, "cgroup ", 7) == 0 && options && has_item(options + 1, controller);
    } else {
        is_match = strncmp(type, "cgroup2 ", 8) == 0;
    }
    if (!is_match)
        return false;
    for (unsigned i = 0; i < 5; i++) {
        field[i] = strsep(&line, " ");
        if (!field[i])
            return false;
    }
    unescape(field[3]);
    unescape(field[4]);
    *ret_root = field[3];
    *ret_point = field[4];
    return true;
}

/* The part of our path below what is mounted.  A path outside of it (another namespace's) says nothing: use
 * the top. */
static const char *below(const char *path, const char *mount_root)
{
    size_t len = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);

    if (strncmp(path, mount_root, len) != 0 || (path[len] != '/' && path[len] != '\0') ||
        strstr(path + len, "/.."))
        return "";
    return strcmp(path + len, "/") == 0 ? "" : path + len;
}

static bool find_dir(const char *root, const char *controller, struct cgroup_dir *ret)
{
    FILE              *f;
    CC_AUTO_FREE char *line = NULL;
    char               own[PATH_MAX], *mount_root, *point;
    size_t             size = 0;
    bool               is_found = false;

    if (!own_path(root, controller, own))
        return false;
    f = open_proc(root, "mountinfo");
    while (f && !is_found && getline(&line, &size, f) > 0) {
        if (!is_mount_of(line, controller, &mount_root, &point))
            continue;
        ret->top = strlen(point);
        ret->is_v2 = !controller;
        is_found =
            snprintf(ret->path, sizeof ret->path, "%s%s", point, below(own, mount_root)) < (int) sizeof ret->path;
    }
    if (f)
        (void) fclose(f);
    return is_found;
}

unsigned cgroup_find(const char *root, const char *controller, struct cgroup_dir ret[CGROUP_MAX_DIRS])
{
    unsigned n = 0;

    n += find_dir(root, controller, &ret[n]);
    n += find_dir(root, NULL, &ret[n]);
    return n;
}

bool cgroup_find_v2(const char *root, struct cgroup_dir *ret)
{
    return find_dir(root, NULL, ret);
}

bool cgroup_up(struct cgroup_dir *d)
{
    size_t len = strlen(d->path);
    char  *slash;

    if (len <= d->top)
        return false;
    slash = strrchr(d->path + d->top, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}
