#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/program.h"
#include "tests/unit/fake_machine.h"

/* A machine whose PATH has a python3 that is a shell script, and whose root is the current directory. */
static void start(struct fake_machine *f)
{
    fake_init(f, 1);
    fake_file(f, "/bin/python3", "#!/bin/sh\nexit 0\n");
    fake_mode(f, "/bin/python3", 0755);
    fake_env(f, "PATH", "/nonexistent:@/bin");
    cr_assert_eq(chdir(f->root), 0);
}

static void stop(struct fake_machine *f)
{
    cr_assert_eq(chdir("/"), 0);
    fake_free(f);
}

static void refuse(struct fake_machine *f, struct program_req req, int status, const char *sentence)
{
    struct cc_err  err = { 0 };
    struct program p = { 0 };
    int            r = program_resolve(&f->m, &req, &p, &err);

    cr_assert_lt(r, 0, "%s was accepted", req.script);
    cr_assert_eq(program_exit_status(r), status, "%s: status %d, %s", req.script, program_exit_status(r),
                 err.msg);
    cr_assert_not_null(strstr(err.msg, sentence), "'%s' is not in '%s'", sentence, err.msg);
    cr_assert_null(strchr(err.msg, '\n'));
}

static struct program accept(struct fake_machine *f, struct program_req req)
{
    struct cc_err  err = { 0 };
    struct program p = { 0 };

    cr_assert_eq(program_resolve(&f->m, &req, &p, &err), 0, "%s", err.msg);
    return p;
}

static void expect_argv(const struct program *p, const char *const *wanted)
{
    size_t i = 0;

    for (; wanted[i]; i++) {
        cr_assert_not_null(p->argv[i]);
        cr_assert_str_eq(p->argv[i], wanted[i]);
    }
    cr_assert_null(p->argv[i]);
}

Test(program, a_script_runs_unbuffered_with_its_arguments_untouched)
{
    struct fake_machine f;
    struct program      p;
    char               *args[] = { (char *) "--lr",          (char *) "$$", (char *) "", (char *) "a\nb",
                                   (char *) "${local_rank}", NULL };
    char                python[PATH_MAX];

    start(&f);
    fake_path(&f, "/bin/python3", python);
    fake_file(&f, "/train.py", "print(1)\n");
    p = accept(&f, (struct program_req){ .script = "train.py", .args = args });
    cr_assert_str_eq(p.path, python);
    cr_assert_str_eq(p.python, python);
    cr_assert_str_eq(p.entry, "train.py");
    expect_argv(&p, (const char *const[]){ python, "-u", "train.py", "--lr", "$$", "", "a\nb",
                                           "${local_rank}", NULL });
    program_clear(&p);
    stop(&f);
}

Test(program, no_python_runs_the_program_itself_from_path)
{
    struct fake_machine f;
    struct program      p;
    char               *args[] = { (char *) "x", NULL };
    char                path[PATH_MAX];

    start(&f);
    fake_path(&f, "/bin/tool", path);
    fake_file(&f, "/bin/tool", "#!/bin/sh\n");
    fake_mode(&f, "/bin/tool", 0755);
    p = accept(&f, (struct program_req){ .script = "tool", .args = args, .is_no_python = true });
    cr_assert_str_eq(p.path, path);
    cr_assert_str_eq(p.entry, "tool");
    cr_assert_null(p.python);
    expect_argv(&p, (const char *const[]){ "tool", "x", NULL });
    program_clear(&p);
    stop(&f);
}

Test(program, run_path_beats_the_other_two_and_hands_over_argv)
{
    struct fake_machine f;
    struct program      p;

    start(&f);
    fake_file(&f, "/t.py", "");
    p = accept(&f, (struct program_req){
                       .script = "t.py", .is_run_path = true, .is_no_python = true, .is_module = true });
    cr_assert_str_eq(p.argv[2], "-c");
    cr_assert_not_null(strstr(p.argv[3], "runpy.run_path(sys.argv[0], run_name='__main__')"));
    cr_assert_str_eq(p.argv[4], "t.py");
    program_clear(&p);
    refuse(&f, (struct program_req){ .script = "no.py", .is_run_path = true }, 127, "'no.py': no such file");
    stop(&f);
}

Test(program, no_python_and_module_exclude_each_other)
{
    struct fake_machine f;

    start(&f);
    refuse(&f, (struct program_req){ .script = "m", .is_module = true, .is_no_python = true }, 2,
           "Don't use both the '--no-python' flag and the '--module' flag at the same time.");
    refuse(&f, (struct program_req){ .script = "" }, 2, "empty");
    stop(&f);
}

Test(program, the_interpreter_is_the_one_the_user_s_shell_would_start)
{
    struct fake_machine f;
    struct program      p;
    char                path[PATH_MAX];

    start(&f);
    fake_file(&f, "/t.py", "");
    fake_file(&f, "/venv/bin/python", "#!/bin/sh\n");
    fake_env(&f, "VIRTUAL_ENV", "@/venv");
    fake_path(&f, "/bin/python3", path); /* not executable yet: fall through to PATH */
    p = accept(&f, (struct program_req){ .script = "t.py" });
    cr_assert_str_eq(p.path, path);
    program_clear(&p);

    fake_mode(&f, "/venv/bin/python", 0755);
    fake_path(&f, "/venv/bin/python", path);
    p = accept(&f, (struct program_req){ .script = "t.py" });
    cr_assert_str_eq(p.path, path);
    program_clear(&p);

    fake_file(&f, "/bin/mypy", "#!/bin/sh\n");
    fake_mode(&f, "/bin/mypy", 0755);
    fake_env(&f, "PYTHON_EXEC", "mypy");
    fake_path(&f, "/bin/mypy", path);
    p = accept(&f, (struct program_req){ .script = "t.py" });
    cr_assert_str_eq(p.path, path);
    cr_assert_str_eq(p.entry, "t.py");
    program_clear(&p);
    stop(&f);
}

Test(program, a_bad_python_exec_and_no_python_at_all_are_named)
{
    struct fake_machine f;

    start(&f);
    fake_file(&f, "/t.py", "");
    fake_env(&f, "PYTHON_EXEC", "./nopython");
    refuse(&f, (struct program_req){ .script = "t.py" }, 127, "PYTHON_EXEC: './nopython': no such file");
    stop(&f);
    fake_init(&f, 1);
    fake_env(&f, "PATH", "@");
    cr_assert_eq(chdir(f.root), 0);
    refuse(&f, (struct program_req){ .script = "t.py" }, 127, "no python3 or python on PATH");
    stop(&f);
}

Test(program, a_missing_script_a_directory_and_a_binary_are_refused)
{
    struct fake_machine f;

    start(&f);
    fake_dir(&f, "/pkg");
    fake_dir(&f, "/app");
    fake_file(&f, "/app/__main__.py", "");
    fake_file(&f, "/elf", "\177ELF\2\1\1");
    refuse(&f, (struct program_req){ .script = "./train.py" }, 127, "'./train.py': no such file");
    refuse(&f, (struct program_req){ .script = "elf/x.py" }, 127, "'elf/x.py': Not a directory");
    refuse(&f, (struct program_req){ .script = "pkg" }, 126, "'pkg' is a directory without __main__.py");
    refuse(&f, (struct program_req){ .script = "elf" }, 126, "put --no-python before it");
    refuse(&f, (struct program_req){ .script = "python3" }, 127, "put --no-python before it");
    for (unsigned i = 0; i < 2; i++) {
        struct program p = accept(&f, (struct program_req){ .script = i ? "app" : "-" });

        program_clear(&p);
    }
    stop(&f);
}

Test(program, an_unreadable_script_is_refused)
{
    struct fake_machine f;

    if (geteuid() == 0)
        cr_skip_test("root reads everything");
    start(&f);
    fake_file(&f, "/t.py", "");
    fake_mode(&f, "/t.py", 0);
    refuse(&f, (struct program_req){ .script = "t.py" }, 126, "'t.py' cannot be read: Permission denied");
    stop(&f);
}

Test(program, what_execve_would_refuse_is_said_before)
{
    struct fake_machine f;

    start(&f);
    fake_file(&f, "/x.sh", "#!/bin/sh\n");
    fake_dir(&f, "/d");
    refuse(&f, (struct program_req){ .script = "./no", .is_no_python = true }, 127, "'./no': no such file");
    refuse(&f, (struct program_req){ .script = "no", .is_no_python = true }, 127,
           "'no': no such program on PATH");
    refuse(&f, (struct program_req){ .script = "x.sh", .is_no_python = true }, 127, "write './' before it");
    refuse(&f, (struct program_req){ .script = "./x.sh", .is_no_python = true }, 126,
           "'./x.sh' is not executable");
    refuse(&f, (struct program_req){ .script = "./d", .is_no_python = true }, 126, "'./d' is a directory");
    fake_file(&f, "/bin/plain", "");
    refuse(&f, (struct program_req){ .script = "plain", .is_no_python = true }, 126,
           "'plain' is on PATH but not executable");
    stop(&f);
}

Test(program, a_name_that_is_too_long_cannot_be_run)
{
    struct fake_machine f;
    char                name[5000] = "./";

    start(&f);
    memset(name + 2, 'x', sizeof name - 3);
    refuse(&f, (struct program_req){ .script = name, .is_no_python = true }, 126, "xx': File name too long");
    stop(&f);
}

Test(program, a_script_whose_interpreter_is_missing_is_refused)
{
    static const struct {
        const char *line, *sentence;
    } bad[] = {
        { "#!/nonexistent/sh\n", "interpreter '/nonexistent/sh' of its '#!' line: No such file" },
        { "#! /nonexistent/sh -e\n", "interpreter '/nonexistent/sh'" },
        { "#!/bin/sh\r\n", "carriage return" },
        { "#!/usr/bin/env nosuchtool\n", "interpreter 'nosuchtool' of its '#!' line: not on PATH" },
        { "#!/usr/bin/env python3\r\n", "carriage return" },
        { "#! /usr/bin/env  nosuchtool x\n", "interpreter 'nosuchtool'" },
        { "#!\n", "names no interpreter" },
    };
    static const char *const good[] = { "#!/bin/sh\n", "#!/usr/bin/env python3\n",
                                        "#!/usr/bin/env -S nosuch -x\n", "#" };
    struct fake_machine      f;

    start(&f);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fake_file(&f, "/x", bad[i].line);
        fake_mode(&f, "/x", 0755);
        refuse(&f, (struct program_req){ .script = "./x", .is_no_python = true }, 126, bad[i].sentence);
    }
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct program p;

        fake_file(&f, "/x", good[i]);
        p = accept(&f, (struct program_req){ .script = "./x", .is_no_python = true });
        program_clear(&p);
    }
    stop(&f);
}

static int why_not(struct fake_machine *f, const char *name)
{
    char *path = program_find(&f->m, name);
    int   why = errno;

    cr_assert_null(path);
    return why;
}

Test(program, a_folder_of_PATH_that_may_not_be_looked_into_is_passed_over)
{
    struct fake_machine f;

    if (geteuid() == 0) /* who may look into everything */
        cr_assert_eq(setresuid(65534, 65534, 65534), 0);
    fake_init(&f, 1);
    fake_file(&f, "/closed/tool", "x");
    fake_env(&f, "PATH", "@/closed:@/bin");
    fake_mode(&f, "/closed", 0);
    cr_assert_eq(why_not(&f, "tool"), ENOENT);
    fake_mode(&f, "/closed", 0755);
    cr_assert_eq(why_not(&f, "tool"), EACCES);
    fake_free(&f);
}
