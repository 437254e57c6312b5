/* party.h - this node's part in a job of one or many nodes: core member (agent/core/member.h), the coordinator or the way to
 * it, and the store that the workers meet on, wired together.
 *
 * The agent tells it what happens to processes, as it would tell a core; the party tells the agent when to start and end
 * workers.  Where it is, who hosts the job and what was said on the way is the party's business alone.
 *
 * One node: the coordinator is in this process, nothing but the store listens, and everything is decided at once.
 */
#ifndef AGENT_PARTY_H
#define AGENT_PARTY_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent/core/member.h"
#include "agent/core/rdzv.h"
#include "agent/directory.h"
#include "store/base/err.h"

enum party_hosting {
    PARTY_ALONE,     /* one node, and no other can come */
    PARTY_HOST_AUTO, /* whoever has the endpoint's address */
    PARTY_HOST_YES,  /* we */
    PARTY_HOST_NO,   /* another */
    PARTY_HOST_ELECTED, /* whoever is elected in the directory */
};

struct party_cfg { /* strings are borrowed for the life of the party */
    enum party_hosting hosting;
    const char *host;          /* of the endpoint: a name or a number */
    struct directory_cfg directory; /* ELECTED; job, our_host and incarnation are ours to fill.  host is for people then */
    uint16_t    port;          /* ALONE: 0 is any free one */
    bool        is_port_named; /* ALONE: by the user; else a free one does when it is taken */
    const char *master_addr;   /* ALONE: MASTER_ADDR of the workers */
    const char *local_addr, *iface, *subnet; /* see hosting.h; NULL */
    uint64_t    resolve_timeout;
    const char *job;           /* id of the job, the same on all nodes; "": whichever the host has */
    const uint8_t *secret;     /* that all agents of the job know, or NULL */
    size_t      n_secret;
    uint64_t    store_max_memory;

    struct rdzv_cfg rdzv;      /* for the host; its plan is that of this agent too */
    uint32_t    nproc;
    int32_t     wish;          /* explicit node rank, or -1 */
    uint64_t    group;         /* see rdzv_msg.h */
    const char *our_host, *role;
    struct node_cfg node;
    uint64_t    heartbeat, join_timeout, lost_after, exit_barrier; /* see member.h; ms */
    const char *record;        /* see recorder.h; NULL: nothing is recorded */
    /* Why this node cannot do its part, or NULL.  Then there is no member: whoever hosts is told (text, code), or, when that is
     * us, whoever comes, both for exit_barrier at most; and finish() has the code. */
    const struct rdzv_cause *decline;
};

struct party_ops { /* none may call party_*() back, but those of a start */
    void (*start)(void *ctx, const struct rdzv_view *view);
    void (*signal)(void *ctx, int signum);
    void (*sweep)(void *ctx, int signum);
    unsigned (*attempt_ended)(void *ctx);
    void (*node_news)(void *ctx, enum node_news news, int arg);
    void (*describe)(void *ctx, struct rdzv_cause *c);
    void (*notice)(void *ctx, uint64_t ms_left);
    void (*news)(void *ctx, enum member_news news, const struct rdzv_view *view);
    void (*say)(void *ctx, int verbosity, const char *sentence);
    void (*finish)(void *ctx, unsigned status, const char *error); /* the last; error: a sentence, or NULL */
    void (*woken)(void *ctx); /* something came in: settle, and look at the deadline again */
};

struct party;

/* NULL and err: no memory, or a configuration that cannot be.  Nothing happens before party_start(). */
struct party *party_new(uv_loop_t *loop, const struct party_cfg *cfg, const struct party_ops *ops, void *ctx,
                        struct cc_err *err);

/* -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EINVAL: the store cannot listen where it should; ALONE only, others find that out
 * later and finish. */
int party_start(struct party *p, struct cc_err *err);
bool party_is_address_trouble(int r); /* it is one of these: who named the address can mend it */

/* As member_*(). */
void party_started(struct party *p);
void party_cannot_start(struct party *p, uint64_t now, unsigned code);
enum policy_exit party_exited(struct party *p, uint64_t now, int status, bool is_terminal);
void party_signal(struct party *p, uint64_t now, int signum);
void party_pressed(struct party *p, uint64_t now);
void party_notice(struct party *p, uint64_t now, uint64_t ms_left);
bool party_tick(struct party *p, uint64_t now);
void party_settle(struct party *p, uint64_t now, bool is_empty, bool is_drained);
void party_paused(struct party *p, uint64_t ms);
uint64_t party_deadline(const struct party *p);

const struct node *party_node(const struct party *p);
const struct rdzv_view *party_view(const struct party *p); /* the newest; zeros before the first */
const struct rdzv_cause *party_cause(const struct party *p); /* the newest that was told: why the last round or the job ended */

/* The job ends with this node: it hosts it, and nobody else can. */
bool party_is_needed(const struct party *p);

/* The id of the job, which the host may have given; settled when a round starts. */
const char *party_job(const struct party *p);

/* Closes what is open; the loop lets go of it in later turns.  Then party_free(). */
void party_close(struct party *p);
struct party *party_free(struct party *p);

#endif
