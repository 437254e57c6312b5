/* party_inside.h - the party of party.c, also for party_elected.c: the job's host is elected, and may be another one later. */
#ifndef AGENT_PARTY_INSIDE_H
#define AGENT_PARTY_INSIDE_H

#include "agent/coordinator.h"
#include "agent/core/exitstatus.h"
#include "agent/directory.h"
#include "agent/hosting.h"
#include "agent/party.h"
#include "agent/recorder.h"
#include "agent/uplink.h"

enum party_stage {
    STAGE_NEW,
    STAGE_FINDING,   /* out who hosts */
    STAGE_JOINING,   /* the way to the host is looked for; there is no member yet */
    STAGE_MEMBER,
    STAGE_LINGERING, /* the member has finished; the others are still to hear of the end from us */
    STAGE_FINISHED,
};

struct party {
    struct party_cfg        cfg;
    uv_loop_t              *loop;
    const struct party_ops *ops;
    void                   *ctx;
    enum party_stage        stage;
    struct member           member; /* from STAGE_MEMBER on */
    struct coordinator     *coordinator;
    struct uplink          *uplink;
    struct hosting         *hosting;
    struct directory       *directory; /* NULL: the endpoint says who hosts */
    struct store_server    *store;
    struct recorder        *recorder; /* NULL: nothing is recorded */
    struct hosting_answer   place;  /* from STAGE_JOINING on: where we listen, and what others call us */
    struct rdzv_about       about;
    struct rdzv_cause       cause;  /* the newest that a view told */
    uint64_t                incarnation;
    bool                    has_view, has_refused; /* of the coordinator in this process, to be taken */
    struct rdzv_view        view;
    struct rdzv_refused     refused;
    uint32_t                store_round;
    bool                    has_met_stranger; /* on the way to the host, and said so */
    bool                    is_port_taken; /* why we do not host although the address is ours */
    uint64_t                waiting_since, told_at, linger_until;
    unsigned                status;
    char                    last_words[CC_ERR_MSG_MAX];
    bool                    is_closed;
};

/* In party.c. */
void party_finish_with(struct party *p, unsigned status, const char *why);
bool party_is_ended(const struct party *p); /* the job */
void party_become_member(struct party *p);
void party_take_part(struct party *p, const char *addr); /* or decline to */
void party_set_about(struct party *p, const char *addr);
int  party_listen(struct party *p, const char *addr, uint16_t port, bool is_host, struct cc_err *err);
int  party_make_coordinator(struct party *p, const uint8_t *state, size_t n_state, struct cc_err *err);
int  party_connect(struct party *p, const char *addr, uint16_t port, const char *from, struct cc_err *err);
void party_say_hosting(struct party *p);
void party_drain(struct party *p, uint64_t now);
void party_on_found(void *ctx, const struct hosting_answer *a, const struct cc_err *why);

/* In party_declined.c; addr: as for party_set_about(). */
void party_decline(struct party *p, const char *addr);
bool party_is_told(const struct party *p); /* everybody that we were to tell */

/* In party_elected.c. */
int party_start_election(struct party *p, struct cc_err *err);
int party_stand(struct party *p, struct cc_err *err); /* when it is known where we listen */

#endif
