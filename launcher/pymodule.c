#include "launcher/pymodule.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum {
    ASK_TIMEOUT = 10000, /* ms; an interpreter that takes longer is not waited for */
    ASK_NOT_FOUND = 42,  /* any other status (a wrapper, a crash) says nothing */
};

/* Walks the dotted name through sys.meta_path without importing the parents.  A package whose __init__
 * touches
 * __path__ may find children elsewhere at run time, so a missing child of such a package proves nothing. */
static const char ask_code[] =
    "import sys\n"
    "def spec_of(name, path):\n"
    "    for f in sys.meta_path:\n"
    "        spec = f.find_spec(name, path) if hasattr(f, 'find_spec') else None\n"
    "        if spec is not None: return spec\n"
    "def is_fixed(spec):\n"
    "    if not spec or not spec.origin or not spec.has_location: return True\n"
    "    return b'__path__' not in open(spec.origin, 'rb').read()\n"
    "path = parent = None\n"
    "done = ''\n"
    "for part in sys.argv[1].split('.') + ['__main__']:\n"
    "    done += ('.' if done else '') + part\n"
    "    spec = spec_of(done, path)\n"
    "    if spec is None: sys.exit(42 if is_fixed(parent) else 0)\n"
    "    path, parent = spec.submodule_search_locations, spec\n"
    "    if path is None: sys.exit(0 if sys.argv[1] in (done, done[:-9]) else 42)\n";

static bool is_file(const char *dir, const char *rel, const char *suffix)
{
    char path[PATH_MAX];
    int  n = snprintf(path, sizeof path, "%s/%s", dir, rel);

    if (n < 0 || n >= PATH_MAX)
        return false;
    return snprintf(path + n, sizeof path - (size_t) n, "%s", suffix) < PATH_MAX - n &&
           access(path, F_OK) == 0;
}

/* `rel` is the name with slashes for dots. */
static bool is_in(const char *dir, const char *rel)
{
    return is_file(dir, rel, ".py") || is_file(dir, rel, "/__main__.py") || is_file(dir, rel, ".pyc");
}

static bool is_in_pythonpath(const struct machine *m, const char *rel)
{
    const char *p = machine_env(m, "PYTHONPATH");
    char        dir[PATH_MAX];

    while (p && *p) {
        size_t len = strcspn(p, ":");

        if (snprintf(dir, sizeof dir, "%.*s", (int) len, p) < PATH_MAX && is_in(len > 0 ? dir : ".", rel))
            return true;
        p += len + (p[len] == ':');
    }
    return false;
}

/* lib/python3*{,/site-packages,/dist-packages} below the prefix that holds bin/python. */
static bool is_in_prefix(const char *python, const char *rel)
{
    static const char *const subs[] = { "", "/site-packages", "/dist-packages" };
    char                     prefix[PATH_MAX], dir[PATH_MAX];
    struct dirent           *entry;
    bool                     is_found = false;
    DIR                     *lib;
    char                    *slash;

    if (snprintf(prefix, sizeof prefix, "%s", python) >= PATH_MAX)
        return false;
    for (unsigned up = 0; up < 2; up++) {
        slash = strrchr(prefix, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    if (snprintf(dir, sizeof dir, "%.*s/lib", PATH_MAX - 8, prefix) >= PATH_MAX)
        return false;
    lib = opendir(dir);
    while (lib && !is_found && (entry = readdir(lib))) {
        if (strncmp(entry->d_name, "python3", 7) != 0)
            continue;
        for (unsigned i = 0; i < CC_COUNT(subs) && !is_found; i++)
            is_found = snprintf(dir, sizeof dir, "%.*s/lib/%.64s%s", PATH_MAX - 128, prefix, entry->d_name,
                                subs[i]) < PATH_MAX &&
                       is_in(dir, rel);
    }
    if (lib)
        (void) closedir(lib);
    return is_found;
}

static int start_python(const struct machine *m, const char *python, const char *name, pid_t *ret)
{
    const char *const          words[] = { python, "-c", ask_code, name, NULL };
    char                      *argv[CC_COUNT(words)];
    posix_spawn_file_actions_t actions;
    int                        r;

    for (unsigned i = 0; i < CC_COUNT(words); i++) {
        union {
            const char *in;
            char       *out; /* posix_spawn takes char * and does not write to it */
        } word = { words[i] };

        argv[i] = word.out;
    }
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -ENOMEM;
    r = 0;
    for (int fd = 0; fd < 3 && r == 0; fd++)
        r = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn(ret, python, &actions, NULL, argv, m->env ? m->env : environ);
    (void) posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Does the interpreter say that there is no such module? */
static bool is_denied(const struct machine *m, const char *python, const char *name)
{
    struct pollfd gone = { .events = POLLIN };
    int           status = 0, r;
    pid_t         pid;

    if (start_python(m, python, name, &pid) < 0)
        return false;
    gone.fd = (int) syscall(SYS_pidfd_open, pid, 0);
    if (gone.fd >= 0) { /* before Linux 5.3 there is no time limit */
        do
            r = poll(&gone, 1, ASK_TIMEOUT);
        while (r < 0 && errno == EINTR);
        if (r == 0)
            (void) kill(pid, SIGKILL);
        (void) close(gone.fd);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == ASK_NOT_FOUND;
}

int pymodule_check(const struct machine *m, const char *python, const char *name, struct cc_err *err)
{
    CC_AUTO_FREE char *rel = strdup(name);
    const char        *safe = machine_env(m, "PYTHONSAFEPATH");
    size_t             len = strlen(name);

    if (!rel)
        return cc_fail(err, -ENOMEM, "no memory to look up module '%s'", name);
    for (char *p = rel; *p; p++)
        if (*p == '.')
            *p = '/';
    if ((!(safe && *safe) && is_in(".", rel)) || is_in_pythonpath(m, rel) || is_in_prefix(python, rel))
        return 0;
    if (!is_denied(m, python, name))
        return 0;
    if (len > 3 && strcmp(name + len - 3, ".py") == 0)
        return cc_fail(err, -ENOENT, "no module named '%s': --module takes a module name, '%.*s' without .py",
                       name, (int) len - 3, name);
    return cc_fail(err, -ENOENT,
                   "no module named '%s' that %s could run: not in this directory, PYTHONPATH or its "
                   "packages",
                   name, python);
}
