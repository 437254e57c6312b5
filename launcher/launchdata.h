/* launchdata.h - what an agent on another node needs to know, as one block of bytes.
 *
 * Pure.  The block goes to the agent's standard input, never into an argument vector: those are for everybody to read and
 * have a limit of length.  It is a head of LAUNCHDATA_HEAD bytes, which has the length of the rest, and then records, each
 * a tag, a length and bytes that end with a NUL.
 */
#ifndef LAUNCHER_LAUNCHDATA_H
#define LAUNCHER_LAUNCHDATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/base/buf.h"
#include "store/base/err.h"

enum {
    LAUNCHDATA_HEAD = 12,
    LAUNCHDATA_MAX = 64 << 20, /* bytes after the head */
    LAUNCHDATA_SETTINGS_MAX = 16,
};

enum launchdata_tag {
    LAUNCHDATA_ARG = 'a',     /* a word of the agent's command line, in order */
    LAUNCHDATA_ENV = 'e',     /* NAME=VALUE */
    LAUNCHDATA_OWN = 'o',     /* a name, or the begin of names and '*': variables that the other node has its own of */
    LAUNCHDATA_PREFER = 'p',  /* the same, but where the node has none it takes ours */
    LAUNCHDATA_DIR = 'd',     /* the working directory */
    LAUNCHDATA_SET = 's',     /* "nnodes=2": what the user left to us, by the option's long name */
    LAUNCHDATA_FIRST = 'f',   /* the node rank of the first of the nodes that Slurm numbers from 0 */
    LAUNCHDATA_TASKS = 't',   /* how many workers each node has: "2(x2),1(x1)" (taskcount.h) */
    LAUNCHDATA_WHO = 'w',     /* who says so: "--hosts" */
    LAUNCHDATA_MARK = 'm',    /* how the lines begin that are for whoever sent this */
    LAUNCHDATA_HOST = 'h',    /* a node that the reader is to start an agent on, itself the first; see fanout_tree.h */
    LAUNCHDATA_SECRET = 'k',  /* that all agents of the job know */
};

struct launchdata { /* points into the block */
    char      **argv, **env;  /* NULL-terminated */
    char      **own, **prefer, **hosts; /* the same */
    size_t      n_hosts;
    const char *dir, *who, *mark;
    const char *first, *tasks; /* NULL: not said */
    const char *set[LAUNCHDATA_SETTINGS_MAX];
    unsigned    n_set;
    const uint8_t *secret;
    size_t         n_secret;
};

/* A block begins with room for its head; launchdata_finish() fills that in.  -ENOMEM, and -E2BIG from the last. */
int launchdata_begin(struct cc_buf *b);
int launchdata_add(struct cc_buf *b, enum launchdata_tag tag, const void *p, size_t n);
int launchdata_text(struct cc_buf *b, enum launchdata_tag tag, const char *text);
int launchdata_texts(struct cc_buf *b, enum launchdata_tag tag, char *const *texts);
int launchdata_finish(struct cc_buf *b, struct cc_err *err);

/* How many bytes follow the head. -EPROTO: this is none. */
int64_t launchdata_length(const uint8_t head[LAUNCHDATA_HEAD], struct cc_err *err);
/* The n bytes after the head; they must stay.  -EPROTO, -ENOMEM.  Release with launchdata_clear(). */
int  launchdata_read(struct launchdata *ret, uint8_t *bytes, size_t n, struct cc_err *err);
void launchdata_clear(struct launchdata *d);

/* Is that variable ("NAME=VALUE" or "NAME") on a list of names and beginnings of names? */
bool launchdata_is_listed(char *const *list, const char *entry);

/* The environment of the agent: what came, with `here` for the variables of `own` and `prefer`.  Only the list is the
 * caller's: free().  NULL: no memory. */
char **launchdata_environ(const struct launchdata *d, char *const *here);

#endif
