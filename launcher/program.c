#include "launcher/program.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/pymodule.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"

enum { MAGIC_MAX = 256 }; /* the kernel reads as much of a script's first line */

/* torchrun runs the file inside a worker process that it forks, and records its exception as @record does.  A
 * fresh interpreter that does the same: argv[0] is the script, __name__ is __main__. */
static const char run_path_code[] =
    "import runpy, sys\n"
    "def main():\n"
    "    sys.argv = sys.argv[1:]\n"
    "    runpy.run_path(sys.argv[0], run_name='__main__')\n"
    "try:\n"
    "    from torch.distributed.elastic.multiprocessing.errors import record\n"
    "except ImportError:\n"
    "    def record(f): return f\n"
    "record(main)()\n";

int program_beside_us(const char *name, char ret[PATH_MAX])
{
    size_t  room = PATH_MAX - 1 - strlen(name);
    ssize_t n = readlink("/proc/self/exe", ret, room);
    char   *slash;

    ret[n > 0 ? n : 0] = '\0';
    slash = strrchr(ret, '/');
    if (!slash)
        return -ENOENT;
    memcpy(slash + 1, name, strlen(name) + 1);
    return access(ret, X_OK) == 0 ? 0 : -ENOENT;
}

int program_exit_status(int code)
{
    switch (code) {
    case -ENOENT:
    case -ENOTDIR: return 127;
    case -EACCES:
    case -EISDIR:
    case -ELOOP:
    case -ENAMETOOLONG:
    case -ENOEXEC: return 126;
    case -EINVAL: return 2;
    default: return 70;
    }
}

/* 0, or why execve would refuse: -ENOENT, -EISDIR, -EACCES ... */
static int check_executable(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    return access(path, X_OK) < 0 ? -errno : 0;
}

char *program_find(const struct machine *m, const char *name)
{
    const char *dir = machine_env(m, "PATH");
    int         why = ENOENT;

    if (strchr(name, '/'))
        return strdup(name);
    for (dir = dir ? dir : "/usr/local/bin:/usr/bin:/bin"; *name;) {
        size_t len = strcspn(dir, ":");
        char  *path = NULL;
        int    r;

        if (asprintf(&path, "%.*s%s%s", (int) len, dir, len > 0 ? "/" : "./", name) < 0) {
            errno = ENOMEM;
            return NULL;
        }
        r = check_executable(path);
        if (r == 0)
            return path;
        if (r == -EACCES && access(path, F_OK) == 0) /* else it is the folder that may not be looked into */
            why = EACCES;
        free(path);
        if (dir[len] == '\0')
            break;
        dir += len + 1;
    }
    errno = why;
    return NULL;
}

/* The first bytes of a file as a string; its length, or a negative errno. */
static int read_magic(const char *path, char ret[MAGIC_MAX + 1])
{
    CC_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t        n = fd < 0 ? -1 : read(fd, ret, MAGIC_MAX);

    if (n < 0)
        return -errno;
    ret[n] = '\0';
    return (int) n;
}

/* "#!/usr/bin/env python3": the program that env would look for, or NULL when this is no such line. */
static char *env_target(char *interpreter, char *rest)
{
    const char *base = strrchr(interpreter, '/');
    char       *word;

    if (strcmp(base ? base + 1 : interpreter, "env") != 0)
        return NULL;
    if (rest)
        rest += strspn(rest, " \t");
    word = strsep(&rest, " \t");
    return !word || *word == '\0' || *word == '-' || strchr(word, '=') ? NULL : word;
}

/* A script whose interpreter is not there fails in execve with "no such file", which blames the wrong file.
 */
static int check_shebang(const struct machine *m, const char *path, struct cc_err *err)
{
    char magic[MAGIC_MAX + 1], *interpreter, *rest = magic + 2;
    int  r;

    if (read_magic(path, magic) < 2 || magic[0] != '#' || magic[1] != '!')
        return 0; /* unreadable is fine for a binary */
    rest[strcspn(rest, "\n")] = '\0';
    rest += strspn(rest, " \t");
    interpreter = strsep(&rest, " \t");
    if (*interpreter == '\0')
        return cc_fail(err, -ENOEXEC, "'%s' begins with '#!' but names no interpreter", path);
    r = check_executable(interpreter);
    if (r == 0) {
        char *target = env_target(interpreter, rest), *found = target ? program_find(m, target) : NULL;

        free(found);
        if (!target || found)
            return 0;
        interpreter = target;
    }
    if (strchr(interpreter, '\r'))
        return cc_fail(err, -ENOEXEC, "'%s' has Windows line ends: its '#!' line ends in a carriage return",
                       path);
    return cc_fail(err, -ENOEXEC, "'%s' needs the interpreter '%s' of its '#!' line: %s", path, interpreter,
                   r == 0 ? "not on PATH" : strerror(-r));
}

/* Everything that execve would refuse, in words. */
static int check_program(const struct machine *m, const char *path, const char *typed, struct cc_err *err)
{
    int r = check_executable(path);

    if (r == -EISDIR)
        return cc_fail(err, r, "'%s' is a directory, not a program", typed);
    if (r == -EACCES)
        return cc_fail(err, r,
                       "'%s' is not executable: chmod +x it, or leave out --no-python for a Python script",
                       typed);
    if (r == -ENOENT)
        return cc_fail(err, r, "'%s': no such file", typed);
    if (r < 0)
        return cc_fail(err, r, "'%s': %s", typed, strerror(-r));
    return check_shebang(m, path, err);
}

static int find_program(const struct machine *m, const char *name, char **ret, struct cc_err *err)
{
    CC_AUTO_FREE char *path = program_find(m, name);
    int                r = -errno;

    if (!path && r == -EACCES)
        return cc_fail(err, r, "'%s' is on PATH but not executable", name);
    if (!path && r == -ENOENT)
        return cc_fail(err, r, "'%s': no such program on PATH%s", name,
                       access(name, F_OK) == 0 ? "; for the file in this directory write './' before it"
                                               : "");
    if (!path)
        return cc_fail(err, r, "no memory to look up '%s'", name);
    r = check_program(m, path, name, err);
    if (r < 0)
        return r;
    *ret = CC_STEAL(path);
    return 0;
}

const char *program_called(void)
{
    const char *name = (const char *) (uintptr_t) getauxval(AT_EXECFN);

    return name && strchr(name, '/') && strncmp(name, "/proc/", 6) != 0 && strncmp(name, "/dev/", 5) != 0 ? name : NULL;
}

/* The interpreter of the environment, of Python or conda, into which we were installed: that of torchrun there, activated or
 * not.  A link to us elsewhere is of no environment: pipx keeps one for us alone.  NULL: there is none. */
static char *python_beside_us(void)
{
    static const char *const marks[] = { "pyvenv.cfg", "conda-meta" };
    CC_AUTO_FREE char       *called = program_called() ? strdup(program_called()) : NULL;
    char                     dir[PATH_MAX], path[PATH_MAX];
    char                    *slash = called ? strrchr(called, '/') : NULL;

    if (!slash)
        return NULL;
    slash[1] = '\0';
    if (!realpath(called, dir))
        return NULL;
    for (unsigned i = 0; i < CC_COUNT(marks); i++) {
        if (snprintf(path, sizeof path, "%s/../%s", dir, marks[i]) >= (int) sizeof path || access(path, F_OK) < 0)
            continue;
        if (snprintf(path, sizeof path, "%s/python", dir) < (int) sizeof path && check_executable(path) == 0)
            return strdup(path);
    }
    return NULL;
}

/* PYTHON_EXEC, the environment that we are in, the active virtual environment, or the python3 or python that the user's own shell
 * would start. */
static int find_python(const struct machine *m, char **ret, const char **ret_why, struct cc_err *err)
{
    static const char *const names[] = { "python3", "python" };
    static const char *const why[] = { "the first python3 on PATH", "the first python on PATH" };
    const char              *exec = machine_env(m, "PYTHON_EXEC"), *venv = machine_env(m, "VIRTUAL_ENV");
    CC_AUTO_FREE char       *path = NULL;

    *ret_why = "which PYTHON_EXEC names";
    if (exec && *exec) {
        if (find_program(m, exec, ret, err) < 0)
            return cc_wrap(err, "PYTHON_EXEC");
        return 0;
    }
    *ret = python_beside_us();
    *ret_why = "of the environment that ccrun is in";
    if (*ret)
        return 0;
    if (venv && *venv) {
        if (asprintf(&path, "%s/bin/python", venv) < 0)
            return cc_fail(err, -ENOMEM, "no memory for the path of the interpreter");
        if (check_executable(path) == 0) {
            *ret_why = "of the active environment (VIRTUAL_ENV)";
            *ret = CC_STEAL(path);
            return 0;
        }
    }
    for (unsigned i = 0; i < CC_COUNT(names); i++) {
        *ret = program_find(m, names[i]);
        *ret_why = why[i];
        if (*ret)
            return 0;
    }
    return cc_fail(err, -ENOENT,
                   "no python3 or python on PATH: activate an environment, set PYTHON_EXEC, or use "
                   "--no-python for a program that needs none");
}

static int check_script_dir(const char *script, struct cc_err *err)
{
    static const char *const mains[] = { "__main__.py", "__main__.pyc" };
    char                     path[PATH_MAX];

    for (unsigned i = 0; i < CC_COUNT(mains); i++)
        if (snprintf(path, sizeof path, "%s/%s", script, mains[i]) < PATH_MAX && access(path, F_OK) == 0)
            return 0;
    return cc_fail(err, -EISDIR, "'%s' is a directory without __main__.py: Python cannot run it", script);
}

bool program_is_compiled(const char *path)
{
    char        magic[MAGIC_MAX + 1];
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && read_magic(path, magic) >= 4 && memcmp(magic, "\177ELF", 4) == 0;
}

/* What may have been meant by a script that is not there, as the end of a sentence. */
static const char *meant_script(const char *script, char buf[PATH_MAX + 80])
{
    char   path[PATH_MAX];
    size_t i;

    buf[0] = '\0';
    if (snprintf(path, sizeof path, "%s.py", script) >= (int) sizeof path)
        return buf;
    if (access(path, F_OK) == 0) {
        (void) snprintf(buf, PATH_MAX + 80, "; but '%s' is there", path);
        return buf;
    }
    if (strchr(script, '/'))
        return buf;
    for (i = 0; script[i]; i++)
        path[i] = script[i] == '.' ? '/' : script[i]; /* path is as long, and ends in .py */
    if (access(path, F_OK) == 0)
        (void) snprintf(buf, PATH_MAX + 80, "; for the module put -m before it");
    return buf;
}

/* "run.sh" that begins with "#!/bin/sh".  Only with that name: a file for the shell may be one for Python, too, as pip's are. */
static bool is_shell_script(const char *path)
{
    static const char *const shells[] = { "sh", "bash", "dash", "ksh", "zsh" };
    char        magic[MAGIC_MAX + 1], *interpreter, *target, *rest = magic + 2;
    const char *name;
    size_t      n = strlen(path);

    if (n < 3 || strcmp(path + n - 3, ".sh") != 0 || read_magic(path, magic) < 2 || magic[0] != '#' || magic[1] != '!')
        return false;
    rest[strcspn(rest, "\r\n")] = '\0';
    rest += strspn(rest, " \t");
    interpreter = strsep(&rest, " \t");
    target = env_target(interpreter, rest);
    interpreter = target ? target : interpreter;
    name = strrchr(interpreter, '/') ? strrchr(interpreter, '/') + 1 : interpreter;
    for (unsigned i = 0; i < CC_COUNT(shells); i++)
        if (strcmp(name, shells[i]) == 0)
            return true;
    return false;
}

/* What Python would only find out after its own start, once per worker. */
static int check_script(const struct machine *m, const char *script, struct cc_err *err)
{
    CC_AUTO_FREE char *on_path = NULL;
    char               meant[PATH_MAX + 80];
    struct stat        st;
    int                r = stat(script, &st) < 0 ? -errno : 0;

    if (strcmp(script, "-") == 0) /* Python reads the program from stdin */
        return 0;
    if (r == -ENOENT && !strchr(script, '/') && (on_path = program_find(m, script)))
        return cc_fail(err, r, "'%s': no such file; for the program %s put --no-python before it", script,
                       on_path);
    if (r == -ENOENT)
        return cc_fail(err, r, "'%s': no such file%s", script, meant_script(script, meant));
    if (r < 0)
        return cc_fail(err, r, "'%s': %s", script, strerror(-r));
    if (S_ISDIR(st.st_mode))
        return check_script_dir(script, err);
    if (access(script, R_OK) < 0)
        return cc_fail(err, -EACCES, "'%s' cannot be read: %s", script, strerror(errno));
    if (program_is_compiled(script))
        return cc_fail(err, -ENOEXEC,
                       "'%s' is a compiled program, not a Python script: put --no-python before it", script);
    if (is_shell_script(script))
        return cc_fail(err, -ENOEXEC, "'%s' is a script for a shell, not for Python: put --no-python before it", script);
    return 0;
}

/* `head` words, then the script, then its arguments. */
static char **build_argv(const char *const *head, const struct program_req *req)
{
    static char *const none[] = { NULL };
    char *const       *args = req->args ? req->args : none;
    size_t             n_head = 0, n_args = 0, n = 0;
    char             **argv;

    while (head[n_head])
        n_head++;
    while (args[n_args])
        n_args++;
    argv = calloc(n_head + n_args + 2, sizeof *argv);
    for (size_t i = 0; argv && i < n_head + 1 + n_args; i++) {
        const char *word = i < n_head ? head[i] : i == n_head ? req->script : args[i - n_head - 1];

        argv[n] = strdup(word);
        if (!argv[n++]) {
            while (n > 0)
                free(argv[--n]);
            free(argv);
            return NULL;
        }
    }
    return argv;
}

static int check_python_target(const struct machine *m, const struct program_req *req, const char *python,
                               struct cc_err *err)
{
    if (req->is_module && !req->is_run_path)
        return pymodule_check(m, python, req->script, err);
    return check_script(m, req->script, err);
}

static int resolve(const struct machine *m, const struct program_req *req, struct program *ret,
                   struct cc_err *err)
{
    const char *head[5] = { NULL };
    bool        is_python = req->is_run_path || !req->is_no_python;
    unsigned    n = 0;
    int         r;

    r = is_python ? find_python(m, &ret->python, &ret->python_why, err) : find_program(m, req->script, &ret->path, err);
    if (r == 0 && is_python)
        r = check_python_target(m, req, ret->python, err);
    if (r < 0)
        return r;
    if (is_python) {
        assert(ret->python);
        head[n++] = ret->python;
        head[n++] = "-u";
        if (req->is_run_path) {
            head[n++] = "-c";
            head[n++] = run_path_code;
        } else if (req->is_module) {
            head[n++] = "-m";
        }
        ret->path = strdup(ret->python);
    }
    ret->entry = strdup(req->script);
    ret->argv = build_argv(head, req);
    if (!ret->path || !ret->entry || !ret->argv)
        return cc_fail(err, -ENOMEM, "no memory for the command line of the workers");
    return 0;
}

int program_resolve(const struct machine *m, const struct program_req *req, struct program *ret,
                    struct cc_err *err)
{
    struct program p = { 0 };
    int            r;

    if (req->is_no_python && req->is_module && !req->is_run_path)
        return cc_fail(err, -EINVAL,
                       "Don't use both the '--no-python' flag and the '--module' flag at "
                       "the same time.");
    if (req->script[0] == '\0')
        return cc_fail(err, -EINVAL, "the name of the script is empty");
    r = resolve(m, req, &p, err);
    if (r < 0) {
        program_clear(&p);
        return r;
    }
    *ret = p;
    return 0;
}

void program_clear(struct program *p)
{
    for (size_t i = 0; p->argv && p->argv[i]; i++)
        free(p->argv[i]);
    free(p->argv);
    free(p->path);
    free(p->entry);
    free(p->python);
    *p = (struct program){ 0 };
}
