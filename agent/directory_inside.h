/* directory_inside.h - what the two kinds of directory share: their operations, and how a host is written down. */
#ifndef AGENT_DIRECTORY_INSIDE_H
#define AGENT_DIRECTORY_INSIDE_H

#include "agent/directory.h"

enum { DIRECTORY_LINE_MAX = 512 };

struct directory { /* the first member of each kind */
    void (*stand)(struct directory *d, const char *addr, uint16_t port);
    void (*save)(struct directory *d, uint64_t version, const uint8_t *state, size_t n);
    void (*forget)(struct directory *d);
    void (*close)(struct directory *d);
    struct directory_cfg        cfg;
    const struct directory_cbs *cbs;
    void                       *ctx;
    char                        trouble[CC_ERR_MSG_MAX];
    uint64_t                    said_at; /* ms; 0: never */
};

/* What is in the way, for directory_trouble() and, not too often, for people; "": nothing is any more. */
void directory_note(struct directory *d, const char *why);

/* Where the process of the host is, so that who shares its machine sees whether it lives. */
struct directory_owner {
    char     boot[40];  /* of the machine */
    uint64_t pid_space; /* the namespace in which pid is a number */
    int64_t  pid;
    uint64_t started;   /* in clock ticks since the boot: a pid is used again */
};

/* "ccrun 1 ADDR PORT INCARNATION NAME BOOT PIDSPACE PID STARTED\n"; returns its length. */
size_t directory_write(const struct directory_host *h, const struct directory_owner *o, char ret[DIRECTORY_LINE_MAX]);
/* -EINVAL: it is no such line. */
int directory_read(const char *text, size_t n, struct directory_host *h, struct directory_owner *o);

struct directory *directory_etcd_new(uv_loop_t *loop, const struct directory_cfg *cfg, const struct directory_cbs *cbs,
                                     void *ctx, struct cc_err *err);
struct directory *directory_file_new(uv_loop_t *loop, const struct directory_cfg *cfg, const struct directory_cbs *cbs,
                                     void *ctx, struct cc_err *err);

#endif
