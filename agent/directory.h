/* directory.h - where the agents of a job find out who hosts it, and where its host leaves what a successor needs: etcd, or a
 * file that all of them see.
 *
 * An agent listens somewhere and stands for host.  One at a time is elected; all others are told where it is, and told again
 * when that changes.  The host saves the coordinator's state (agent/core/rdzv.h) and is told when that is done.  When it is
 * gone, or cannot show any more that it is there, another is elected and gets the state that was saved last.
 *
 * Everything happens on the loop's thread.  A callback may call any of these functions but directory_new(), and never comes
 * from inside of one of them.
 */
#ifndef AGENT_DIRECTORY_H
#define AGENT_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "store/base/err.h"

enum { DIRECTORY_ADDR_MAX = 64, DIRECTORY_NAME_MAX = 64, DIRECTORY_STATE_MAX = 1024 * 1024 };

struct directory_cfg { /* strings are borrowed for the life of the directory; NULL: none */
    const char *endpoints; /* of etcd, see store/etcd.h; NULL: a file */
    const char *protocol, *ca_file, *cert_file, *key_file, *user, *password;
    const char *prefix;    /* of the keys; NULL: /ccrun */
    uint64_t    lease_s;   /* how long a host may be silent; 0: 4 */
    const char *path;      /* of the file */
    const char *job, *our_host;
    uint64_t    incarnation; /* of this agent */
};

struct directory_host {
    char     addr[DIRECTORY_ADDR_MAX], name[DIRECTORY_NAME_MAX];
    uint16_t port;
    uint64_t incarnation;
};

struct directory_cbs {
    void (*address)(void *ctx, const char *own); /* by which others may reach us: listen, then directory_stand(); once */
    void (*host)(void *ctx, const struct directory_host *h); /* another hosts the job */
    void (*elected)(void *ctx, const uint8_t *state, size_t n); /* we do; n 0: nothing was saved */
    void (*saved)(void *ctx, uint64_t version);
    void (*lost)(void *ctx, const char *why); /* we do not any more: stop at once */
    void (*say)(void *ctx, const char *sentence);
};

struct directory;

/* NULL and err: -EINVAL, -ENOENT (a library is missing, or the folder of the file), -EACCES, -ENOMEM. */
struct directory *directory_new(uv_loop_t *loop, const struct directory_cfg *cfg, const struct directory_cbs *cbs, void *ctx,
                                struct cc_err *err);

void directory_stand(struct directory *d, const char *addr, uint16_t port);
void directory_save(struct directory *d, uint64_t version, const uint8_t *state, size_t n); /* after the last was saved */
void directory_forget(struct directory *d); /* the job is over: nobody needs the state.  Only for a host that closes */

/* Why nobody hosts yet, for the line about waiting; "": there is nothing to say. */
const char *directory_trouble(const struct directory *d);

/* A host gives up its place, so that another can have it at once.  No callback comes any more.  The loop lets go of it in
 * later turns. */
void directory_close(struct directory *d);

#endif
