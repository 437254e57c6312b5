/* fanout.h - start the agents of a job on its nodes, and stay with them: by ssh, or by one srun.
 *
 * fanout_way() says whether the options or the batch system want that.  fanout_make() settles what the user left open and
 * writes what each agent is told; fanout_run() starts them, passes on their output and our signals, and returns the exit
 * status of ccrun.  What a way to start programs has of its own is in fanout_ssh.c and fanout_srun.c.
 *
 * Above --ssh-fanout hosts the first of each stretch of them starts the others (fanout_tree.h): this code again, as a relay.
 * What cannot be reached that way is started from here.
 *
 * A program that leads to agents has the block of launchdata.h on its standard input, and after it the numbers of signals
 * (farend.h).  Its end of file ends the agents, so nothing is left when we are killed.
 */
#ifndef LAUNCHER_FANOUT_H
#define LAUNCHER_FANOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "launcher/hostlist.h"
#include "launcher/options.h"
#include "store/base/buf.h"
#include "store/base/err.h"

enum fanout_way { FANOUT_NONE, FANOUT_SSH, FANOUT_SRUN };

enum {
    FANOUT_WINDOW = 64, /* programs that are under way to their nodes at once */
    FANOUT_SECRET = 32,
    FANOUT_MARK_MAX = 40,
    FANOUT_LOCAL_FD = 3, /* where an agent on this machine finds its block: its standard input is ours */
};

struct fanout_line { /* a program that leads to agents */
    unsigned      first, n;  /* node ranks */
    bool          is_local;  /* the agent itself */
    bool          has_stdin; /* local: our standard input is its own */
    char        **argv;      /* argv[0] is looked for on PATH */
    char        **env;       /* of the program; NULL: ours */
    struct cc_buf block;
    const char   *before;    /* why it is started from here after all, or NULL */
};

struct fanout {
    enum fanout_way way;
    const char     *who;      /* the option or system that names the nodes */
    const char     *program;  /* "ssh", "srun": for sentences */
    struct hostlist hosts;    /* by node rank, from first_rank on */
    unsigned        first_rank;
    bool            is_relay; /* somebody else decides about the job; we tell him what happens, and obey leash_fd */
    int             leash_fd;
    size_t         *part;     /* srun: how many of the hosts belong to each part of a heterogeneous job */
    unsigned        n_parts;  /* 0: it is none */
    unsigned        min_nodes, max_nodes, n_spares;
    struct fanout_line *lines;
    unsigned        n_lines;
    struct cc_buf   common;   /* the begin of every block */
    uint8_t         secret[FANOUT_SECRET]; /* until no block can be wanted any more */
    char            mark[FANOUT_MARK_MAX];
    char            host[256]; /* our own name */
    char            endpoint[300], job[64];
    uint64_t        grace;    /* ms that agents may take to stop */
    int             verbosity;
    bool            is_keep_cr;
    char          **ssh_extra; /* of --ssh-args, or NULL */
    const char     *ssh_command;
    const struct options *options; /* the caller's */
    struct fanout_text *texts; /* what belongs to us */
};

/* May this process start others?  `env` as environ. */
enum fanout_way fanout_way(const struct options *o, char *const *env);

/* The command line is argv, as the agents shall have it.  0, or the exit status of ccrun and a sentence.  Release with
 * fanout_clear() in any case. */
int  fanout_make(struct fanout *f, struct options *o, char **argv, char *const *env, struct cc_err *err);
void fanout_clear(struct fanout *f);
void fanout_show(FILE *to, const struct fanout *f); /* --dry-run */

int fanout_run(struct fanout *f);

/* ---- for the ways */

/* Memory that fanout_clear() releases. NULL: none. */
void *fanout_take(struct fanout *f, size_t size);
char *fanout_copy(struct fanout *f, const char *text);
char *fanout_format(struct fanout *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int fanout_ssh_hosts(struct fanout *f, const struct options *o, struct cc_err *err);
int fanout_ssh_lines(struct fanout *f, const struct options *o, struct cc_err *err);
bool fanout_is_tree(const struct fanout *f); /* some of its programs lead to several agents each */
/* To that node alone, once more.  NULL: no memory. */
struct fanout_line *fanout_ssh_direct(struct fanout *f, unsigned rank, const char *before);
/* What ssh said before it ended: a server that lets in no more for now (MaxStartups)?  And the block of l, once more. */
bool fanout_ssh_is_crowd(const char *why);
int  fanout_ssh_block(struct fanout *f, const struct fanout_line *l, struct cc_buf *block);
int fanout_srun_hosts(struct fanout *f, const struct options *o, char *const *env, struct cc_err *err);
int fanout_srun_lines(struct fanout *f, const struct options *o, char *const *env, struct cc_err *err);

/* The last of a block: the secret, and its head. */
int fanout_seal(const struct fanout *f, struct cc_buf *block, struct cc_err *err);
void fanout_forget(struct cc_buf *block); /* what it had, once it is sent */

/* Where this program is; NULL: no memory. */
const char *fanout_our_path(struct fanout *f);

#endif
