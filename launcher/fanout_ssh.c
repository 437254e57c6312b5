/* Agents by ssh: one for each host, or for the first of a stretch of them; none for the machine that we are on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/fanout.h"
#include "launcher/fanout_tree.h"
#include "launcher/hostfile.h"
#include "launcher/hostfilter.h"
#include "launcher/launchdata.h"
#include "launcher/machine.h"

enum { SSH_ARGS = 32 };

int fanout_ssh_hosts(struct fanout *f, const struct options *o, struct cc_err *err)
{
    const struct machine here = { .root = "" };
    int                  r;

    f->program = "ssh";
    f->who = o->hosts ? "--hosts" : "--hostfile";
    if (o->hosts && o->hostfile)
        return cc_fail(err, -EINVAL, "--hosts and --hostfile both name the nodes: give one of them");
    r = o->hosts ? hostfile_hosts(&f->hosts, o->hosts, err) : hostfile_read(&f->hosts, &here, o->hostfile, err);
    return r < 0 ? r : hostfilter(&f->hosts, o->include, o->exclude, err);
}

/* ---- command lines */

/* One word for the shell of the other side, whichever that is: within single quotes only they mean something. */
static char *quoted(struct fanout *f, const char *text)
{
    char *q = fanout_take(f, 4 * strlen(text) + 3), *p = q;

    if (!q)
        return NULL;
    *p++ = '\'';
    for (; *text; text++) {
        if (*text == '\'') {
            memcpy(p, "'\\''", 4);
            p += 4;
        } else {
            *p++ = *text;
        }
    }
    *p = '\'';
    return q;
}

/* For whichever shell logs in there, without a second one: each program that is run costs as much as half an agent. */
static char *remote_command(struct fanout *f, const struct options *o)
{
    const char *path = fanout_our_path(f);
    const char *word = path ? quoted(f, path) : NULL;

    if (o->launch_agent)
        return fanout_format(f, "%s --agent-fd=0", o->launch_agent);
    return word ? fanout_format(f, "test -x %s && exec %s --agent-fd=0 || exec ccrun --agent-fd=0", word, word) : NULL;
}

/* -T: no terminal, which would change bytes; -x: no X11.  A dead host is noticed within 15 s. */
static char *const always[] = { "ssh", "-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                                "StrictHostKeyChecking=accept-new", "-o", "ServerAliveInterval=5", NULL };

static int ssh_argv(struct fanout *f, const struct host *h, char **extra, const char *command, char ***ret)
{
    size_t n = 0, n_extra = 0;
    char **argv;

    while (extra && extra[n_extra])
        n_extra++;
    argv = fanout_take(f, (SSH_ARGS + n_extra) * sizeof *argv);
    if (!argv)
        return -ENOMEM;
    for (size_t i = 0; i < n_extra + 1; i++) /* first: ssh takes the first value that it finds for an option */
        argv[n++] = i == 0 ? always[0] : extra[i - 1];
    for (size_t i = 1; always[i]; i++)
        argv[n++] = always[i];
    if (h->user) {
        argv[n++] = (char *) (uintptr_t) "-l";
        argv[n++] = (char *) (uintptr_t) h->user;
    }
    if (h->port > 0) {
        argv[n++] = (char *) (uintptr_t) "-p";
        argv[n++] = fanout_format(f, "%u", h->port);
    }
    argv[n++] = (char *) (uintptr_t) "--";
    argv[n++] = (char *) (uintptr_t) h->name;
    argv[n++] = (char *) (uintptr_t) command;
    *ret = argv;
    return command && (h->port == 0 || argv[n - 4]) ? 0 : -ENOMEM;
}

static int local_argv(struct fanout *f, const struct options *o, char ***ret)
{
    char **argv = fanout_take(f, 4 * sizeof *argv);

    if (!argv)
        return -ENOMEM;
    if (o->launch_agent) {
        argv[0] = (char *) (uintptr_t) "sh";
        argv[1] = (char *) (uintptr_t) "-c";
        argv[2] = fanout_format(f, "%s --agent-fd=%d", o->launch_agent, FANOUT_LOCAL_FD);
    } else {
        argv[0] = (char *) (uintptr_t) fanout_our_path(f);
        argv[1] = fanout_format(f, "--agent-fd=%d", FANOUT_LOCAL_FD);
    }
    *ret = argv;
    return argv[0] && argv[1] && (argv[2] || !o->launch_agent) ? 0 : -ENOMEM;
}

static bool is_here(const struct fanout *f, const struct host *h)
{
    const char *me = getenv("USER");

    if (h->port > 0 || (h->user && (!me || strcmp(me, h->user) != 0)))
        return false;
    return host_is(h->name, f->host) || strcmp(h->name, "localhost") == 0 || strcmp(h->name, "127.0.0.1") == 0 ||
           strcmp(h->name, "::1") == 0;
}

/* ---- blocks */

static int add_setting(struct cc_buf *b, const char *name, const char *text)
{
    char setting[256];

    if (snprintf(setting, sizeof setting, "%s=%s", name, text) >= (int) sizeof setting)
        return -E2BIG;
    return launchdata_text(b, LAUNCHDATA_SET, setting);
}

static int add_node(struct cc_buf *b, unsigned rank, const struct host *h)
{
    char number[16];
    int  r;

    (void) snprintf(number, sizeof number, "%u", rank);
    r = add_setting(b, "node-rank", number);
    (void) snprintf(number, sizeof number, "%u", h->slots);
    if (r == 0 && h->slots > 0)
        r = add_setting(b, "nproc-per-node", number);
    return r == 0 && h->devices ? add_setting(b, "gpus", h->devices) : r;
}

/* For one node, or for several: then whoever reads it makes the block of each. */
static int make_block(const struct fanout *f, const struct fanout_line *l, struct cc_buf *block, struct cc_err *err)
{
    const struct host *h = &f->hosts.host[l->first - f->first_rank];
    int                r = cc_buf_add(block, cc_buf_data(&f->common), cc_buf_len(&f->common));

    if (r == 0 && l->n == 1)
        r = add_node(block, l->first, h);
    for (unsigned i = 0; r == 0 && l->n > 1 && i < l->n; i++)
        r = fanout_tree_add(block, l->first + i, &h[i]);
    return r < 0 ? cc_fail(err, r, "the data for host '%s' cannot be written: %s", h->name, strerror(-r))
                 : fanout_seal(f, block, err);
}

int fanout_ssh_block(struct fanout *f, const struct fanout_line *l, struct cc_buf *block)
{
    struct cc_err err = { 0 };

    cc_buf_drop(block, cc_buf_len(block));
    return make_block(f, l, block, &err);
}

/* sshd closes a connection before either side has said who it is, at random, when many come at once (MaxStartups), and for
 * a while when one comes too often (PerSourcePenalties). */
bool fanout_ssh_is_crowd(const char *why)
{
    return strstr(why, "exchange_identification: ") || strstr(why, "Connection closed by ") ||
           strstr(why, "Connection reset by ");
}

/* The words of --ssh-args: a shell's quotes and backslashes, and nothing else of a shell. */
static int split(struct fanout *f, const char *text, char ***ret, struct cc_err *err)
{
    size_t len = strlen(text), n = 0;
    char **words = fanout_take(f, (len + 2) * sizeof *words), *to = fanout_take(f, len + 2), quote = '\0';
    bool   is_word = false;

    if (!words || !to)
        return cc_fail(err, -ENOMEM, "no memory for --ssh-args");
    for (const char *p = text; *p; p++) {
        if (!quote && strchr(" \t\n", *p)) {
            to += is_word;
            is_word = false;
            continue;
        }
        if (!is_word)
            words[n++] = to;
        is_word = true;
        if (quote ? *p == quote : *p == '\'' || *p == '"')
            quote = quote ? '\0' : *p;
        else if (*p == '\\' && quote != '\'' && p[1])
            *to++ = *++p;
        else
            *to++ = *p;
        *to = '\0';
    }
    *ret = words;
    return quote ? cc_fail(err, -EINVAL, "--ssh-args: a %c that is not closed in: %s", quote, text) : 0;
}

/* ---- the lines */

/* A relay is on its first host. */
static bool is_local(const struct fanout *f, unsigned i)
{
    return f->is_relay ? i == 0 : is_here(f, &f->hosts.host[i]);
}

static int make_line(struct fanout *f, const struct options *o, struct fanout_line *l, struct cc_err *err)
{
    unsigned i = l->first - f->first_rank;
    int      r;

    l->is_local = is_local(f, i);
    l->has_stdin = l->is_local && i == 0 && isatty(STDIN_FILENO) != 1;
    r = l->is_local ? local_argv(f, o, &l->argv) : ssh_argv(f, &f->hosts.host[i], f->ssh_extra, f->ssh_command, &l->argv);
    return r < 0 ? cc_fail(err, r, "no memory for %zu nodes", f->hosts.n) : make_block(f, l, &l->block, err);
}

bool fanout_is_tree(const struct fanout *f)
{
    for (unsigned i = 0; f->way == FANOUT_SSH && i < f->n_lines; i++)
        if (f->lines[i].n > 1)
            return true;
    return false;
}

int fanout_ssh_lines(struct fanout *f, const struct options *o, struct cc_err *err)
{
    unsigned n = (unsigned) f->hosts.n, n_remote = 0, most;
    int      r = o->ssh_args ? split(f, o->ssh_args, &f->ssh_extra, err) : 0;

    f->ssh_command = remote_command(f, o);
    f->lines = fanout_take(f, n * sizeof *f->lines);
    if (!f->lines) {
        (void) cc_fail(err, -ENOMEM, "no memory for %u nodes", n);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < n; i++)
        n_remote += !is_local(f, i);
    most = fanout_tree_share(n_remote, (unsigned) o->ssh_fanout);
    for (unsigned i = 0; r == 0 && i < n; i += f->lines[f->n_lines - 1].n) {
        struct fanout_line *l = &f->lines[f->n_lines++];

        *l = (struct fanout_line) { .first = f->first_rank + i, .n = 1 };
        while (!is_local(f, i) && l->n < most && i + l->n < n && !is_local(f, i + l->n))
            l->n++;
        r = make_line(f, o, l, err);
    }
    return r;
}

struct fanout_line *fanout_ssh_direct(struct fanout *f, unsigned rank, const char *before)
{
    struct fanout_line *l = fanout_take(f, sizeof *l);
    struct cc_err       err = { 0 };

    if (!l)
        return NULL;
    *l = (struct fanout_line) { .first = rank, .n = 1, .before = fanout_copy(f, before) };
    return make_line(f, f->options, l, &err) == 0 ? l : NULL;
}
