/* Any command line and any environment give a plan or one sentence, and what is in the plan can be used.
 *
 * An input is lines: NAME=VALUE of the environment, an empty line, then the words of the command line.
 */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/plaintext.h"
#include "launcher/options_rows.h"
#include "launcher/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS_MAX = 200 };

static char *variables[WORDS_MAX + 1];

static const char *env(const char *name)
{
    size_t len = strlen(name);

    for (char **v = variables; *v; v++)
        if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
            return *v + len + 1;
    return NULL;
}

static void assert_line(const char *text)
{
    assert(*text);
    while (*text) {
        size_t n = plaintext_utf8(text, strlen(text));

        assert(n > 0 && ((unsigned char) *text >= 0x20 || *text == '\t') && *text != 0x7f);
        text += n;
    }
}

static void check_options(const struct options *o, char **argv, char **end)
{
    assert(o->worker_argv > argv && o->worker_argv <= end);
    assert(o->nnodes && o->nproc_per_node && o->rdzv_backend && o->redirects && o->tee &&
           o->signals_to_handle);
    assert(o->start_method && o->cr && o->log_errors && o->cgroup && o->verbose <= WORDS_MAX * 100);
    for (unsigned i = 0; i < OPTIONS_N; i++)
        assert(o->source[i] != OPTION_ENV || env(o->source_name[i]) == o->text[i]);
    for (const char *const *p = o->add_env; p && *p; p++)
        assert(strchr(*p, '=') && **p != '=');
}

static void check_plan(const struct plan_values *p, const struct options *o)
{
    struct plan_streams s;
    struct cc_err       err = { 0 };
    bool                is_alone = p->hosting == PARTY_ALONE;

    assert(p->min_nodes >= 1 && p->max_nodes >= p->min_nodes && p->node_rank >= PLAN_NO_RANK);
    assert(!is_alone || (p->min_nodes == 1 && *p->run_id && *p->bind_host && *p->master_addr));
    assert(p->run_id && p->shutdown_timeout <= INT32_MAX * UINT64_C(1000));
    assert(p->stdin_rank >= PLAN_STDIN_ALL && o->monitor_interval > 0 && p->umask <= 0777);
    for (unsigned i = 0; i < p->n_pass_fds; i++)
        assert(p->pass_fds[i] > 2 && (i == 0 || p->pass_fds[i] >= p->pass_fds[i - 1]));
    if (plan_streams_init(&s, o, 12, &err) < 0) {
        assert_line(err.msg);
        return;
    }
    for (unsigned i = 0; i < 12; i++)
        assert(s.redirects[i] <= 3 && s.tee[i] <= 3);
    plan_streams_free(&s);
}

static void run(char **argv, char **end)
{
    struct options     o;
    struct plan_values p;
    struct cc_err      err = { 0 };
    int                r = options_parse(&o, argv, env, &err);

    if (r == 0) {
        check_options(&o, argv, end);
        options_check_environ(&o, variables);
        r = plan_resolve(&p, &o, "random", &err);
        if (r == 0)
            check_plan(&p, &o);
    }
    if (r < 0)
        assert_line(err.msg);
    for (unsigned i = 0; i < o.warnings.n; i++)
        assert_line(o.warnings.text[i]);
    options_free(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char   program[] = "ccrun", *argv[WORDS_MAX + 2] = { program };
    char  *text = malloc(size + 1), *rest = text, *word;
    size_t n_argv = 1, n_env = 0;
    int    is_env = 1;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    while ((word = strsep(&rest, "\n")) && n_argv <= WORDS_MAX && n_env < WORDS_MAX) {
        if (is_env && !*word)
            is_env = 0;
        else if (is_env)
            variables[n_env++] = word;
        else
            argv[n_argv++] = word;
    }
    variables[n_env] = NULL;
    argv[n_argv] = NULL;
    run(argv, argv + n_argv);
    free(text);
    return 0;
}
