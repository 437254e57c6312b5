/* program.h - what a worker executes: the interpreter and its arguments, looked up and checked before
 * anything starts.
 *
 * The checks cost a few stat() calls.  Only a module that is in none of the usual folders costs one start of
 * the interpreter, which is asked whether it can find it (custom finders, .pth files, zip archives): nothing
 * is imported. User paths are not put below machine.root.
 */
#ifndef LAUNCHER_PROGRAM_H
#define LAUNCHER_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "launcher/machine.h"
#include "store/base/err.h"

struct program_req {
    const char  *script;                               /* script, module or program as typed */
    char *const *args;                                 /* what follows it, NULL-terminated; NULL: nothing */
    bool         is_module, is_no_python, is_run_path; /* is_run_path beats the other two, as in torchrun */
};

struct program {
    char  *path;   /* for execve */
    char  *entry;  /* what reports call it: the script, module or program as typed */
    char **argv;   /* NULL-terminated; the arguments are copied byte for byte */
    char  *python; /* the interpreter, or NULL with --no-python */
    const char *python_why; /* what chose it: "the first python3 on PATH" */
};

/* On failure err holds one sentence and the code says which kind: program_exit_status(). Release with
 * program_clear(). */
int  program_resolve(const struct machine *m, const struct program_req *req, struct program *ret,
                     struct cc_err *err);
void program_clear(struct program *p);

/* Is it a file that holds machine code, and no script? */
bool program_is_compiled(const char *path);

/* What ccrun exits with: 127 not found, 126 found but cannot be run, 2 usage, 70 for anything else (out of
 * memory). */
int program_exit_status(int code);

/* execve's path for `name`: itself when it has a slash, else the first executable file on the PATH of m's
 * environment. Returns a new string, or NULL: errno is ENOENT, EACCES or ENOMEM. */
char *program_find(const struct machine *m, const char *name);

/* As we were called, which may be a link; NULL when the system does not tell. */
const char *program_called(void);

/* The path of another program of ours, which was built or installed into the same folder as this one.  -ENOENT: it is not
 * there, or cannot be run; `ret` is where it would be. */
int program_beside_us(const char *name, char ret[PATH_MAX]);

#endif
