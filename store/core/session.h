/* session.h - one client of the store: bytes in, answers out, one wait.
 *
 * Pure: the driver owns the socket.  It hands in what it has read and sends what lies in `out`, calling
 * session_sent() for it.  Requests are run in order; one that is not there in full is kept until the rest
 * comes.  When a client does not read its answers the session pauses: the driver stops reading from it, and
 * goes on with session_resume() once `out` is empty.  So a session holds at most one message of answers
 * beyond SESSION_OUT_HIGH.
 */
#ifndef STORE_CORE_SESSION_H
#define STORE_CORE_SESSION_H

#include <stdbool.h>

#include "store/core/kv.h"
#include "store/core/wire.h"

enum { SESSION_OUT_HIGH = 1 << 20 };

struct session;

/* What the sessions of one store share. */
struct session_space {
    struct kv       *kv;
    struct kv_budget budget;
    void (*on_woken)(
        struct session *s); /* its wait was answered by what another session did: `out` has grown */
    bool is_of_job; /* its clients are the workers of a ccrun job: agents of torchrun are told from them, and refused */
    bool is_shut;   /* there is nothing to store yet: only a client's handshake is answered */
};

struct session {
    struct session_space *space;
    struct kv_wait        wait;
    struct wire_in        in;
    struct cc_buf         out;
    struct cc_buf         rest; /* requests that wait for their end, or for `out` to be read */
    bool is_paused; /* do not read from it before `out` is empty and session_resume() was called */
    bool is_broken; /* an answer found no room: to be closed */
    uint8_t n_known; /* requests that were looked at to learn who asks */
};

/* 0 and an empty key space in *ret; -ENOMEM. */
int  session_space_init(struct session_space *ret, const uint64_t seed[2], uint64_t max_memory,
                        void (*on_woken)(struct session *s));
void session_space_clear(struct session_space *space); /* for the next round; every session has ended */
void session_space_free(struct session_space *space);  /* the same */

void session_init(struct session *s, struct session_space *space);
/* 0, or a negative code and a sentence : close the connection. is_all: see wire_request(). */
int  session_input(struct session *s, const uint8_t *p, size_t n, bool is_all, struct cc_err *err);
int  session_resume(struct session *s, struct cc_err *err);
void session_sent(struct session *s, size_t n); /* the first n bytes of `out` are gone */
void session_end(struct session *s);            /* forgets its wait, gives everything back */

#endif
