#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/program.h"
#include "launcher/pymodule.h"
#include "tests/unit/fake_machine.h"

/* An interpreter that leaves a mark when it is asked and knows nothing. */
#define DENYING_PYTHON "#!/bin/sh\n: >asked\nexit 42\n"

static void start(struct fake_machine *f, const char *python)
{
    fake_init(f, 1);
    fake_file(f, "/opt/py/bin/python", python);
    fake_mode(f, "/opt/py/bin/python", 0755);
    cr_assert_eq(chdir(f->root), 0);
}

static void stop(struct fake_machine *f)
{
    cr_assert_eq(chdir("/"), 0);
    fake_free(f);
}

static int check(struct fake_machine *f, const char *name, struct cc_err *err)
{
    char python[PATH_MAX];

    fake_path(f, "/opt/py/bin/python", python);
    return pymodule_check(&f->m, python, name, err);
}

Test(pymodule, the_usual_folders_need_no_interpreter)
{
    static const char *const names[] = {
        "here", "pkg.sub", "pkg.run", "onpath", "std", "site.deep.mod", "deb"
    };
    struct fake_machine f;

    start(&f, DENYING_PYTHON);
    fake_env(&f, "PYTHONPATH", "/nonexistent:@/extra");
    fake_file(&f, "/here.py", "");
    fake_file(&f, "/pkg/sub.py", "");
    fake_file(&f, "/pkg/run/__main__.py", "");
    fake_file(&f, "/extra/onpath.py", "");
    fake_file(&f, "/opt/py/lib/python3.11/std.py", "");
    fake_file(&f, "/opt/py/lib/python3.11/site-packages/site/deep/mod.py", "");
    fake_file(&f, "/opt/py/lib/python3/dist-packages/deb/__main__.py", "");
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct cc_err err = { 0 };

        cr_assert_eq(check(&f, names[i], &err), 0, "%s: %s", names[i], err.msg);
    }
    cr_assert_neq(access("asked", F_OK), 0);
    stop(&f);
}

Test(pymodule, only_the_interpreter_may_deny)
{
    struct fake_machine f;
    struct cc_err       err = { 0 };

    start(&f, DENYING_PYTHON);
    fake_dir(&f, "/pkg");
    cr_assert_eq(check(&f, "pkg", &err), -ENOENT);
    cr_assert_eq(access("asked", F_OK), 0);
    cr_assert_not_null(strstr(err.msg, "no module named 'pkg'"), "%s", err.msg);
    cr_assert_eq(check(&f, "train.py", &err), -ENOENT);
    cr_assert_not_null(strstr(err.msg, "'train' without .py"), "%s", err.msg);
    cr_assert_eq(program_exit_status(-ENOENT), 127);
    stop(&f);
}

Test(pymodule, an_interpreter_that_fails_otherwise_proves_nothing)
{
    static const char *const wrappers[] = { "#!/bin/sh\nexit 1\n", "#!/bin/sh\nkill -9 $$\n",
                                            "#!/bin/sh\necho hi\n" };

    for (unsigned i = 0; i < 3; i++) {
        struct fake_machine f;
        struct cc_err       err = { 0 };

        start(&f, wrappers[i]);
        cr_assert_eq(check(&f, "nowhere", &err), 0, "%s", err.msg);
        stop(&f);
    }
}

/* The words that the interpreter is asked with must mean the same to a real one. */
Test(pymodule, a_real_interpreter_answers)
{
    static const struct {
        const char *name;
        int         wanted;
    } cases[] = {
        { "nosuchmodule", -ENOENT }, { "fixed.nosuch", -ENOENT },
        { "nomain", -ENOENT },       { "zipped", 0 },
        { "moving.anything", 0 },    { "fixed.nosuch.deeper", -ENOENT },
        { "plain.child", -ENOENT },
    };
    struct machine      real = { .root = "" };
    char               *python = program_find(&real, "python3");
    struct fake_machine f;
    struct cc_err       err = { 0 };

    if (!python)
        cr_skip_test("no python3 on PATH");
    start(&f, "");
    /* An archive with zipped.py, made by hand: one stored empty file. */
    fake_file(&f, "/make.py",
              "import zipfile\nz = zipfile.ZipFile('lib.zip', 'w')\nz.writestr('zipped.py', '')\n"
              "z.close()\n");
    fake_env(&f, "PYTHONPATH", "@/lib.zip");
    fake_file(&f, "/fixed/__init__.py", "raise SystemExit('a parent was imported')\n");
    fake_file(&f, "/nomain/__init__.py", "");
    fake_file(&f, "/moving/__init__.py", "__path__ = []\n");
    fake_file(&f, "/plain.py", "");
    {
        char  command[PATH_MAX];
        FILE *run;

        (void) snprintf(command, sizeof command, "%s make.py", python);
        run = popen(command, "re");
        cr_assert_not_null(run);
        cr_assert_eq(pclose(run), 0);
    }
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_assert_eq(pymodule_check(&f.m, python, cases[i].name, &err), cases[i].wanted, "%s: %s",
                     cases[i].name, err.msg);
    free(python);
    stop(&f);
}
