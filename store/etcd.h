/* etcd.h - a client of etcd v3 on the loop's thread, by its JSON gateway.
 *
 * Several endpoints are members of one cluster: when one does not answer, or has no leader, the next is asked, and the one that
 * answered is asked first from then on.  Every call ends in time with one done(), later than the call itself but when there is
 * no memory.
 * A call that is tried again may have worked the first time: see each.
 */
#ifndef STORE_ETCD_H
#define STORE_ETCD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "store/base/err.h"

enum { ETCD_ENDPOINTS_MAX = 16, ETCD_VALUE_MAX = 1024 * 1024 }; /* what a server takes by default is 1.5 MiB */

struct etcd;
struct etcd_watch;

struct etcd_cfg { /* copied; NULL: none */
    const char *endpoints; /* host[:port], host[:port] ...; IPv6 in brackets; http:// or https:// may stand before each */
    const char *protocol;  /* of those without; NULL: http */
    const char *ca_file, *cert_file, *key_file;
    const char *user, *password;
    uint64_t    try_timeout;  /* ms, for one member */
    uint64_t    call_timeout; /* ms, for a call with all that is tried; a login that it needs has five times as much before it */
};

struct etcd_kv {
    bool           is_there;
    const uint8_t *value;
    size_t         n;
    int64_t        create_revision, mod_revision, lease;
};

struct etcd_answer {
    int         code; /* 0; -ENOENT: no such lease; -EACCES; -ETIMEDOUT, -ECONNREFUSED: no member answers; -EPROTO */
    const char *why;  /* code != 0: a sentence */
    int64_t     revision;
    bool        is_done; /* etcd_create(), etcd_put_if(): the condition held */
    int64_t     lease, ttl; /* etcd_grant(): lease 0: it gave none; etcd_keep(): ttl 0 when it has expired; never below 0 */
    struct etcd_kv kv;   /* etcd_get(), etcd_create() when it was there */
    const char *own;     /* our address as the member sees it */
};

typedef void etcd_done_fn(void *ctx, const struct etcd_answer *a);

struct etcd_value {
    const void *p;
    size_t      n;
};

/* NULL and err: -ENOENT: no libcurl; -EINVAL: endpoints or protocol; -ENOMEM. */
struct etcd *etcd_new(uv_loop_t *loop, const struct etcd_cfg *cfg, struct cc_err *err);

/* 0 or -ENOMEM, when no done() comes. */
int etcd_grant(struct etcd *e, int64_t ttl_s, etcd_done_fn *done, void *ctx);
int etcd_keep(struct etcd *e, int64_t lease, etcd_done_fn *done, void *ctx);
int etcd_revoke(struct etcd *e, int64_t lease, etcd_done_fn *done, void *ctx);
int etcd_get(struct etcd *e, const char *key, etcd_done_fn *done, void *ctx);
/* Only when there is no such key; what is there comes back, and may be what an earlier try has written. */
int etcd_create(struct etcd *e, const char *key, struct etcd_value v, int64_t lease, etcd_done_fn *done, void *ctx);
/* Only while `guard` is the key that was created at that revision. */
int etcd_put_if(struct etcd *e, const char *guard, int64_t created, const char *key, struct etcd_value v, int64_t lease,
                etcd_done_fn *done, void *ctx);

void etcd_cancel(struct etcd *e); /* no done() comes of what was asked so far */

struct etcd_watch_cbs {
    /* Nothing of etcd may be called from it.  kv->is_there false: it was deleted, or its lease has expired. */
    void (*changed)(void *ctx, const struct etcd_kv *kv);
    void (*ended)(void *ctx, const char *why); /* the last: look at the key, and watch again */
};

/* NULL: no memory. `from`: the first revision of which to tell. */
struct etcd_watch *etcd_watch(struct etcd *e, const char *key, int64_t from, const struct etcd_watch_cbs *cbs, void *ctx);
void etcd_watch_close(struct etcd_watch *w);


/* No done() comes any more.  The loop lets go of it in later turns. */
void etcd_close(struct etcd *e);

#endif
