/* sharedfile.h - the file by which the agents of a job find its host, and every call on it: each of these may block for as long
 * as the file system does not answer.
 *
 * No loop and no clock but the monotonic one.  The host writes PATH anew, which nobody does who does not hold the lock of
 * PATH.lock, and touches it.  PATH.state is the coordinator's.
 */
#ifndef AGENT_SHAREDFILE_H
#define AGENT_SHAREDFILE_H

#include <limits.h>
#include <time.h>

#include "agent/directory_inside.h"

enum {
    SHAREDFILE_STALE_MS = 10000,  /* who has not touched it for so long is gone; clients of a file server see changes late */
    SHAREDFILE_FORGET_MS = 15000, /* a state older than this is of another run of the job */
};

struct sharedfile { /* sharedfile_init() */
    char                   path[PATH_MAX - 16], lock[PATH_MAX], temporary[PATH_MAX], state[PATH_MAX];
    struct directory_owner us;
    char                   line[DIRECTORY_LINE_MAX];
    size_t                 n_line;    /* of our own candidacy; 0: we do not stand */
    char                   seen[DIRECTORY_LINE_MAX];
    struct timespec        seen_time; /* of the file, as it was when it changed last for us */
    uint64_t               seen_at;   /* by our clock */
};

enum sharedfile_what {
    SHAREDFILE_NOBODY,  /* hosts; sharedfile_keep(): it was removed */
    SHAREDFILE_ANOTHER,
    SHAREDFILE_OURS,
    SHAREDFILE_TROUBLE, /* in text */
};

struct sharedfile_found {
    enum sharedfile_what  what;
    struct directory_host host;        /* ANOTHER */
    uint8_t              *state;       /* OURS, when it has just become so: what the last host left, or NULL.  free() */
    size_t                n_state;
    char                  text[CC_ERR_MSG_MAX]; /* OURS: whom we have taken it from, or "" */
};

/* -ENAMETOOLONG. */
int sharedfile_init(struct sharedfile *f, const char *path, uint64_t incarnation, struct cc_err *err);

/* Is there a folder in which we may write? -EINVAL, -ENOENT, -EACCES ... */
int sharedfile_check(const struct sharedfile *f, struct cc_err *err);

/* Who hosts?  We do, if we stand and nobody else does. */
void sharedfile_look(struct sharedfile *f, struct sharedfile_found *ret);

/* A host looks whether it still is one, and touches the file.  With n_state > 0 it saves a state before. */
void sharedfile_keep(struct sharedfile *f, const uint8_t *state, size_t n_state, struct sharedfile_found *ret);

/* A host takes its file away, and the state when the job is over; anybody the file that only it has. */
void sharedfile_leave(const struct sharedfile *f, bool is_host, bool is_over);

#endif
