#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/options.h"
#include "store/base/macros.h"

enum { ARGS_MAX = 24 };

/* A made-up environment: "NAME=VALUE" strings of the test that runs (each test is a process of its own). */
static const char *const *variables;

static const char *env(const char *name)
{
    size_t i, len = strlen(name);

    for (i = 0; variables && variables[i]; i++)
        if (strncmp(variables[i], name, len) == 0 && variables[i][len] == '=')
            return variables[i] + len + 1;
    return NULL;
}

struct parsed {
    struct options o;
    struct cc_err  err;
    char          *argv[ARGS_MAX];
    char           words[512];
    int            r;
};

/* Splits a command line at blanks; ~ stands for a blank inside a word, "" for an empty word. */
static void parse(struct parsed *p, const char *line)
{
    char  *word, *rest = p->words;
    size_t n = 0;

    memset(p, 0, sizeof *p);
    (void) snprintf(p->words, sizeof p->words, "ccrun %s", line);
    while ((word = strsep(&rest, " ")) != NULL) {
        char *c;

        for (c = word; *c; c++)
            *c = *c == '~' ? ' ' : *c;
        cr_assert_lt(n, ARGS_MAX - 1);
        p->argv[n++] = strcmp(word, "\"\"") == 0 ? word + 2 : word;
    }
    p->r = options_parse(&p->o, p->argv, env, &p->err);
}

static void assert_error(const char *line, const char *message)
{
    struct parsed p;

    parse(&p, line);
    cr_expect_eq(p.r, -EINVAL, "%s: accepted", line);
    cr_expect_str_eq(p.err.msg, message, "%s: %s", line, p.err.msg);
    options_free(&p.o);
}

Test(options, usage_errors_have_the_sentences_of_torchrun)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "--max-restarts x s.py", "argument --max-restarts/--max_restarts: invalid int value: 'x'" },
        { "--max_restarts=0x10 s.py", "argument --max-restarts/--max_restarts: invalid int value: '0x10'" },
        { "--monitor-interval 1s s.py",
          "argument --monitor-interval/--monitor_interval: invalid float value: '1s'" },
        { "--start-method bad s.py", "argument --start-method/--start_method: invalid choice: 'bad' "
                                     "(choose from 'spawn', 'fork', 'forkserver')" },
        { "--standalone=1 s.py", "argument --standalone: ignored explicit argument '1'" },
        { "-mx s.py", "argument -m/--module: ignored explicit argument 'x'" },
        { "-m=1 s.py", "argument -m/--module: ignored explicit argument '1'" },
        { "--rdzv-conf -x s.py", "argument --rdzv-conf/--rdzv_conf: expected one argument" },
        { "--role", "argument --role: expected one argument" },
        { "--role -- s.py", "argument --role: expected one argument" },
        { "-r", "argument -r/--redirects: expected one argument" },
        { "-mr", "argument -r/--redirects: expected one argument" },
        { "--rdzv 1 s.py",
          "ambiguous option: --rdzv could match --rdzv-backend, --rdzv_backend, --rdzv-endpoint, "
          "--rdzv_endpoint, --rdzv-id, --rdzv_id, --rdzv-conf, --rdzv_conf" },
        { "--master=h s.py",
          "ambiguous option: --master=h could match --master-addr, --master_addr, --master-port, "
          "--master_port" },
        { "--foo s.py", "unrecognized arguments: --foo" },
        { "--foo=1 --bar s.py", "unrecognized arguments: --foo=1 --bar" },
        { "--nprc 2 s.py", "unrecognized arguments: --nprc (did you mean --nproc?)" },
        { "-x s.py", "unrecognized arguments: -x" },
        { "--restarts 2 s.py", "unrecognized arguments: --restarts (did you mean --max-restarts?)" },
        { "--timeout 2 s.py", "unrecognized arguments: --timeout" },
        { "-np 2 s.py", "unrecognized arguments: -np (did you mean --nproc-per-node?)" },
        { "-n 2 s.py", "unrecognized arguments: -n (did you mean --nproc-per-node?)" },
        { "--standalone", "the following arguments are required: training_script, training_script_args (name what to run; "
          "--help shows the options)" },
        { "--", "the following arguments are required: training_script, training_script_args (name what to run; "
          "--help shows the options)" },
        { "--max-restarts 3000000000 s.py", "argument --max-restarts/--max_restarts: int value out of range "
                                            "(-2147483648 to 2147483647): '3000000000'" },
        { "--max-restarts 99999999999999999999 s.py",
          "argument --max-restarts/--max_restarts: int value out of range "
          "(-2147483648 to 2147483647): '99999999999999999999'" },
        { "--log-max-size 5X s.py",
          "argument --log-max-size/--log_max_size: invalid size (a number, with K, M, G or T "
          "after it): '5X'" },
        { "--drain-timeout -1 s.py",
          "argument --drain-timeout/--drain_timeout: seconds out of range (0 to 1000000000): "
          "'-1'" },
        { "--drain-timeout nan s.py",
          "argument --drain-timeout/--drain_timeout: seconds out of range (0 to 1000000000): "
          "'nan'" },
        { "--env HOME s.py", "argument --env: not NAME=VALUE: 'HOME'" },
        { "--env =x s.py", "argument --env: not NAME=VALUE: '=x'" },
        { "--cr fast s.py", "argument --cr: invalid choice: 'fast' (choose from 'auto', 'keep')" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++)
        assert_error(cases[i].line, cases[i].message);
}

Test(options, a_message_is_one_printable_line)
{
    assert_error("--fo\no\x1b[1m s.py", "unrecognized arguments: --fo\\no\\x1b[1m");
    assert_error("--standalone=\n s.py", "argument --standalone: ignored explicit argument '\\n'");
}

Test(options, both_spellings_both_forms_and_the_last_one_wins)
{
    struct parsed p;

    parse(&p, "--nproc_per_node 2 --nproc-per-node=4 --nnodes=1 -r3 -t 0:1 --shutdown-timeout -1 "
              "--rdzv-conf=-x s.py");
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    cr_assert_str_eq(p.o.nproc_per_node, "4");
    cr_assert_str_eq(p.o.redirects, "3");
    cr_assert_str_eq(p.o.tee, "0:1");
    cr_assert_eq(p.o.shutdown_timeout, -1);
    cr_assert_str_eq(p.o.rdzv_conf, "-x");
    cr_assert_eq(p.o.source[OPTION_tee], OPTION_ARGV);
    cr_assert_eq(p.o.source[OPTION_role], OPTION_DEFAULT);
    options_free(&p.o);
}

Test(options, short_switches_cluster)
{
    struct parsed p;

    parse(&p, "-mvr3 -vqt=1 mod");
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    cr_assert(p.o.module && p.o.quiet);
    cr_assert_eq(p.o.verbose, 2);
    cr_assert_str_eq(p.o.redirects, "3");
    cr_assert_str_eq(p.o.tee, "1");
    cr_assert_str_eq(p.o.worker_argv[0], "mod");
    options_free(&p.o);
}

Test(options, abbreviations_of_torchrun_keep_their_meaning)
{
    static const struct {
        const char    *line;
        enum option_id id;
    } cases[] = {
        { "--nproc 2 s", OPTION_nproc_per_node },
        { "--nproc-per=2 s", OPTION_nproc_per_node },
        { "--nproc_p=2 s", OPTION_nproc_per_node },
        { "--log-d x s", OPTION_log_dir },
        { "--log_d x s", OPTION_log_dir },
        { "--te 1 s", OPTION_tee },
        { "--re 1 s", OPTION_redirects },
        { "--redirect 1 s", OPTION_redirects },
        { "--mod s", OPTION_module },
        { "--standal s", OPTION_standalone },
        { "--max-restart 3 s", OPTION_max_restarts },
        { "--max-r 3 s", OPTION_max_restarts },
        { "--sig SIGTERM s", OPTION_signals_to_handle },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        struct parsed p;

        parse(&p, cases[i].line);
        cr_expect_eq(p.r, 0, "%s: %s", cases[i].line, p.err.msg);
        cr_expect_eq(p.o.source[cases[i].id], OPTION_ARGV, "%s", cases[i].line);
        options_free(&p.o);
    }
    assert_error("--ver s", "ambiguous option: --ver could match --verbose, --version");
}

Test(options, nothing_after_the_script_is_ours)
{
    static const char *const want[] = { "s.py", "--mo",     "0.9", "--log", "x",  "-m",
                                        "y",    "--nnodes", "7",   "--",    "--", "" };
    struct parsed            p;
    size_t                   i;

    parse(&p, "--nnodes 1 s.py --mo 0.9 --log x -m y --nnodes 7 -- -- \"\"");
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    for (i = 0; i < CC_COUNT(want); i++)
        cr_assert_str_eq(p.o.worker_argv[i], want[i]);
    cr_assert_null(p.o.worker_argv[i]);
    cr_assert_eq(p.o.module, false);
    cr_assert_str_eq(p.o.nnodes, "1");
    options_free(&p.o);
    parse(&p, "s.py -- a");
    cr_assert_str_eq(p.o.worker_argv[1], "--");
    options_free(&p.o);
    parse(&p, "-- --weird.py --log");
    cr_assert_str_eq(p.o.worker_argv[0], "--weird.py");
    cr_assert_str_eq(p.o.worker_argv[1], "--log");
    options_free(&p.o);
}

Test(options, negative_numbers_lone_dashes_and_blanks_are_values)
{
    struct parsed p;

    parse(&p, "--role - --rdzv-id -a~b -1.5");
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    cr_assert_str_eq(p.o.role, "-");
    cr_assert_str_eq(p.o.rdzv_id, "-a b");
    cr_assert_str_eq(p.o.worker_argv[0], "-1.5");
    options_free(&p.o);
}

Test(options, variables_stand_between_default_and_command_line)
{
    static const char *const all[] = { "PET_MAX_RESTARTS=1",
                                       "CCRUN_MAX_RESTARTS=2",
                                       "PET_ROLE=pet",
                                       "CCRUN_NPROC=3",
                                       "PET_NPROC_PER_NODE=9",
                                       "PET_MODULE= 1 ",
                                       "CCRUN_LABEL=yes",
                                       "PET_LOG_DIR=",
                                       "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7",
                                       "PET_LABEL=1",
                                       "PET_NUMA_BINDING=node",
                                       "CCRUN_ENV=A=1,B=x,,y",
                                       "PET_STANDALONE=0",
                                       NULL };
    struct parsed            p;

    variables = all;
    parse(&p, "--role cmd s.py");
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    cr_assert_eq(p.o.max_restarts.n, 2);
    cr_assert_str_eq(p.o.source_name[OPTION_max_restarts], "CCRUN_MAX_RESTARTS");
    cr_assert_str_eq(p.o.role, "cmd");
    cr_assert_str_eq(p.o.nproc_per_node, "3");
    cr_assert_str_eq(p.o.source_name[OPTION_nproc_per_node], "CCRUN_NPROC");
    cr_assert(p.o.module && p.o.label && !p.o.standalone);
    cr_assert_str_eq(p.o.log_dir, "");
    cr_assert_eq(p.o.shutdown_timeout, 7);
    cr_assert_str_eq(p.o.source_name[OPTION_shutdown_timeout], "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    cr_assert_null(p.o.numa_binding);
    cr_assert_str_eq(p.o.add_env[0], "A=1");
    cr_assert_str_eq(p.o.add_env[1], "B=x,y");
    cr_assert_null(p.o.add_env[2]);
    options_free(&p.o);
}

Test(options, a_bad_variable_is_named)
{
    static const struct {
        const char *variable, *message;
    } cases[] = {
        { "PET_MODULE=yes",
          "PET_MODULE: invalid literal for int() with base 10: 'yes' (1 switches --module on, 0 off)" },
        { "PET_MODULE=",
          "PET_MODULE: invalid literal for int() with base 10: '' (1 switches --module on, 0 off)" },
        { "PET_MAX_RESTARTS=abc", "argument --max-restarts/--max_restarts: invalid int value: 'abc' (from "
                                  "PET_MAX_RESTARTS)" },
        { "CCRUN_VERBOSE=-1", "argument -v/--verbose: invalid level (0 to 9): '-1' (from CCRUN_VERBOSE)" },
        { "PET_START_METHOD=bad",
          "argument --start-method/--start_method: invalid choice: 'bad' (choose from 'spawn', "
          "'fork', 'forkserver') (from PET_START_METHOD)" },
        { "CCRUN_ENV=A=1,B", "argument --env: not NAME=VALUE: 'A=1,B' (from CCRUN_ENV)" },
    };
    size_t i;

    for (i = 0; i < CC_COUNT(cases); i++) {
        const char *const one[] = { cases[i].variable, NULL };

        variables = one;
        assert_error("s.py", cases[i].message);
    }
}

Test(options, lists_keep_a_doubled_comma_and_repeat_or_replace)
{
    struct parsed p;

    parse(&p, "--duplicate-stdout-filters x --duplicate-stdout-filters a,,b,c, --duplicate_stderr_filters= "
              "--env A=1 "
              "--env B=2,3 s.py");
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    cr_assert_str_eq(p.o.duplicate_stdout_filters[0], "a,b");
    cr_assert_str_eq(p.o.duplicate_stdout_filters[1], "c");
    cr_assert_str_eq(p.o.duplicate_stdout_filters[2], "");
    cr_assert_null(p.o.duplicate_stdout_filters[3]);
    cr_assert_str_eq(p.o.duplicate_stderr_filters[0], "");
    cr_assert_null(p.o.duplicate_stderr_filters[1]);
    cr_assert_str_eq(p.o.add_env[1], "B=2,3");
    cr_assert_null(p.o.add_env[2]);
    options_free(&p.o);
}

Test(options, help_version_and_dump_need_no_script_and_end_the_parse)
{
    struct parsed p;

    variables = (const char *const[]){ "PET_MODULE=yes", NULL };
    parse(&p, "--help --nonsense");
    cr_assert(p.r == 0 && p.o.help);
    parse(&p, "-mh");
    cr_assert(p.r == 0 && p.o.help);
    parse(&p, "--version");
    cr_assert(p.r == 0 && p.o.version);
    parse(&p, "--dump=man");
    cr_assert(p.r == 0 && strcmp(p.o.dump, "man") == 0);
    variables = NULL;
    parse(&p, "--show-config");
    cr_assert(p.r == 0 && p.o.show_config && !*p.o.worker_argv);
}

Test(options, sizes_and_seconds_have_units_of_their_own)
{
    struct parsed p;

    parse(&p, "--log-max-size 10M --drain-timeout 0.5 s.py");
    cr_assert_eq(p.r, 0, "%s", p.err.msg);
    cr_assert_eq(p.o.log_max_size, 10u << 20);
    cr_assert_eq(p.o.store_max_memory, 1u << 30);
    cr_assert_eq(p.o.drain_timeout, 500);
    cr_assert_eq(p.o.unkillable_timeout, 5000);
    options_free(&p.o);
}

Test(options, a_scheduler_replaces_defaults_only)
{
    struct parsed p;

    parse(&p, "--role x s.py");
    cr_assert_eq(options_suggest(&p.o, OPTION_nproc_per_node, "8", "SLURM", &p.err), 0);
    cr_assert_eq(options_suggest(&p.o, OPTION_role, "y", "SLURM", &p.err), 0);
    cr_assert_str_eq(p.o.nproc_per_node, "8");
    cr_assert_str_eq(p.o.role, "x");
    options_free(&p.o);
}

Test(options, unknown_variables_are_named_once_with_a_guess)
{
    char         *all[] = { "CCRUN_NPROC=2",   "CCRUN_LOGDIR=x",  "CCRUN_ZZZZ", "PATH=/",
                            "CCRUN_VERSION=1", "CCRUN_LOG_DIR=y", NULL };
    struct parsed p;

    parse(&p, "s.py");
    options_check_environ(&p.o, all);
    cr_assert_eq(p.o.warnings.n, 3);
    cr_assert_str_eq(p.o.warnings.text[0],
                     "unknown variable CCRUN_LOGDIR is ignored; did you mean CCRUN_LOG_DIR?");
    cr_assert_str_eq(p.o.warnings.text[1], "unknown variable CCRUN_ZZZZ is ignored");
    cr_assert_eq(warnings_as_error(&p.o.warnings, &p.err), -EINVAL);
    cr_assert_str_eq(
        p.err.msg, "unknown variable CCRUN_LOGDIR is ignored; did you mean CCRUN_LOG_DIR? (an error because "
                   "of --strict)");
    options_free(&p.o);
}

Test(options, what_torchrun_would_do_and_ccrun_does_not_is_said)
{
    char *all[] = { "TORCHELASTIC_ENABLE_FILE_TIMER=1", "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=2.5", NULL };
    char *off[] = { "TORCHELASTIC_ENABLE_FILE_TIMER=0", "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=",
                    "TORCHELASTIC_ENABLE_FILE_TIMER_X=1", NULL };
    struct parsed p;

    parse(&p, "s.py");
    options_check_environ(&p.o, off);
    cr_assert_eq(p.o.warnings.n, 0);
    options_check_environ(&p.o, all);
    cr_assert_eq(p.o.warnings.n, 2);
    cr_assert(strstr(p.o.warnings.text[0], "TORCHELASTIC_ENABLE_FILE_TIMER: ccrun keeps no timers"));
    cr_assert(strstr(p.o.warnings.text[1], "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT: ccrun does not watch"));
    options_free(&p.o);
}

static char *written(void (*write)(FILE *, void *), void *arg)
{
    char  *text = NULL;
    size_t size;
    FILE  *f = open_memstream(&text, &size);

    cr_assert_not_null(f);
    write(f, arg);
    cr_assert_eq(fclose(f), 0);
    return text;
}

static void write_help(FILE *f, void *arg)
{
    (void) arg;
    options_help(f);
}

static void write_config(FILE *f, void *arg)
{
    options_show_config(f, arg);
}

static void write_dump(FILE *f, void *arg)
{
    cr_assert_eq(options_dump(f, arg), 0);
}

Test(options, help_fits_100_columns_and_shows_defaults)
{
    char *text = written(write_help, NULL), *line, *rest = text;

    cr_assert(strstr(text, "--shutdown-timeout SECONDS") && strstr(text, "[30]") &&
              strstr(text, "-r, --redirects WHAT"));
    cr_assert_null(strstr(text, "--dump"));
    while ((line = strsep(&rest, "\n")) != NULL)
        cr_expect_leq(strlen(line), 100, "%s", line);
    free(text);
}

Test(options, show_config_tells_every_value_and_its_source)
{
    struct parsed p;
    char         *text;
    size_t        n = 0, i;

    variables = (const char *const[]){ "PET_TEE=3", NULL };
    parse(&p, "-v --nproc 4 --env A=1 --env B=2 --show-config");
    cr_assert_eq(options_suggest(&p.o, OPTION_node_rank, "2", "SLURM", &p.err), 0);
    text = written(write_config, &p.o);
    cr_assert(strstr(text, "nproc-per-node = 4 (command line)\n"), "%s", text);
    cr_assert(strstr(text, "tee = 3 (PET_TEE)\n"));
    cr_assert(strstr(text, "node-rank = 2 (SLURM)\n"));
    cr_assert(strstr(text, "verbose = 1 (command line)\n"));
    cr_assert(strstr(text, "module = off (default)\n"));
    cr_assert(strstr(text, "env = A=1,B=2 (command line)\n"));
    cr_assert(strstr(text, "shutdown-timeout = 30 (default)\n"));
    for (i = 0; text[i]; i++)
        n += text[i] == '\n';
    cr_assert_eq(n, OPTIONS_N - 6); /* all but help, version, dump and what is no setting */
    free(text);
    options_free(&p.o);
}

Test(options, each_dump_has_every_option_that_is_shown)
{
    static const char *const whats[] = { "man", "bash", "zsh", "fish" };
    static const char *const names[] = {
#define OPT(field, kind, origin, name, ...) name,
#include "launcher/options.def"
#undef OPT
    };
    size_t i, k;

    for (i = 0; i < CC_COUNT(whats); i++) {
        char *text = written(write_dump, (void *) whats[i]);

        for (k = 0; k + 2 < CC_COUNT(names); k++) /* the last two are not shown */
            cr_expect(strstr(text, names[k]), "%s: %s", whats[i], names[k]);
        free(text);
    }
    cr_assert_eq(options_dump(stdout, "tcsh"), -EINVAL);
}
