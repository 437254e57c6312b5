/* sim_world.h - a simulated world for the cores of a job of many nodes: a clock, links, agents and their workers.
 *
 * One coordinator and n nodes, each with the real core `member`; every message goes through the real codec.  Time is in
 * microseconds here and in milliseconds for the cores; each node's clock has an offset of its own.  Checks what must hold at
 * every moment, and stops the program with the seed when it does not (see sim_rdzv.c for the list).
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/member.h"
#include "agent/core/proto.h"
#include "agent/core/rdzv.h"
#include "tests/sim/sim_queue.h"

enum { MAX_PROCS = 8, N_ROUNDS_KEPT = 8 };
enum { TERM_GRACE = 3000, KILL_GRACE = 500, SWEEP_GRACE = 200, MS = 1000, NOTICE_MS = 60000 };
enum { LOST_AFTER = 8000, ORPHAN_BOUND = LOST_AFTER + TERM_GRACE + KILL_GRACE + 2000 };

struct proc {
    bool     is_alive, is_stuck, ignores_term, is_ending;
    uint64_t ends_at;
    int      status;
};

struct agent {
    struct world *w;
    struct member m;
    uint32_t      id;
    bool          is_up, is_cut_in, is_cut_out, is_gone; /* is_gone: never comes back */
    bool          was_lost;      /* the coordinator had forgotten it since its last start */
    bool          has_exited;
    unsigned      status;        /* of its last exit */
    uint64_t      boots, link, offset, wake_at;
    uint64_t      away_since;    /* since then, or until then, it was crashed or cut; 0: never */
    bool          has_flapped;
    bool          lacks_program; /* it declines instead of taking part */
    uint32_t      nproc, last_store_round, started_round, started_rank;
    struct proc   procs[MAX_PROCS];
    uint64_t      failed_at;     /* of the first failure in started_round; 0: none */
    uint64_t      told_error;    /* the worst error, in us, of the clock by which it has told of that */
    uint64_t      heard_at;      /* of the coordinator; 0: never */
    uint64_t      best_way;      /* ms of the fastest answer of this coordinator, and its age; UINT64_MAX: none yet */
    uint32_t      rank_before;   /* for a test's own use */
    unsigned      n_signals;     /* to the workers of started_round */
    bool             has_held;   /* a view for it waits until the state of the coordinator is saved */
    struct rdzv_view held;
    uint64_t         held_link, held_needs;
};

struct round { /* what the first that started in it was told */
    uint32_t  number, group_world, world, restarts, n_started;
    uint64_t  first_failure, first_loss;
    uint64_t  first_done;     /* a worker ended well */
    uint32_t  first_done_by;
    uint32_t *owner, *base; /* by group rank; UINT32_MAX: did not start */
};

struct heard { /* what the coordinator has heard, by our own account */
    bool     has_begun; /* the first round was active */
    uint64_t declined;  /* a bit for each agent */
};

struct image { /* a saved state of the coordinator; n 0: none */
    uint8_t     *bytes;
    size_t       n;
    uint64_t     version;
    struct heard heard;
};

struct odds { /* of 100,000 messages or starts, until it is calm */
    uint32_t lost, doubled, late, very_late;
    uint32_t fails, finishes, stuck, ignores_term, cascades;
};

struct world {
    uint64_t      seed, rng, now, calm_at, finish_at;
    uint64_t      stalled_until, coord_wake_at, last_link;
    uint64_t      latency, jitter, stop_time;
    struct odds   odds;
    struct queue  queue;
    struct rdzv  *coord;
    struct rdzv_cfg cfg;
    struct agent *agents;
    uint32_t      n;
    struct round  rounds[N_ROUNDS_KEPT];
    uint32_t      newest;
    uint32_t      n_failed_rounds; /* in which a worker failed */
    uint32_t      n_victim_rounds;  /* of these: only after a node had crashed */
    uint64_t      last_start_at, n_starts, n_messages, n_bytes, n_handled, coord_ns, last_check;
    uint32_t      biggest;
    bool          has_ended, measures, is_verbose;
    struct rdzv_cause end;
    uint64_t      ended_at;
    bool          is_durable;    /* the coordinator's state is saved, and another takes over when it is gone */
    bool          is_leaderless, is_saving, has_struck_end;
    uint64_t      coord_offset;  /* of the clock of its node, from ours */
    uint64_t      coord_term;    /* by the views of the one that is there; UINT64_MAX: there were none */
    bool          has_spoken;    /* a coordinator */
    uint64_t      newest_term;   /* that an agent was told */
    uint32_t      newest_term_by; /* n_takeovers then */
    uint32_t      host;          /* the agent in which the coordinator lives */
    uint64_t      term;
    struct image  saved, pending;
    uint32_t      n_takeovers;
    uint64_t      host_left_at, beheaded_at, noticed_at; /* 0: not yet */
    struct heard  heard;
    uint64_t      hopeless_at;   /* since then too few can come for the first round; 0: not so */
    uint32_t      notice_from;
    uint64_t      coord_bytes;   /* that the coordinator took at birth */
};

/* DEPOSE: the coordinator is gone, but its agent lives on; USURP: both are gone.  Only when it is_durable; BEHEAD, both for
 * good, only when not.  PARTITION cuts some of the agents off together.  NOTICE announces a pre-emption. */
enum fault {
    FAULT_CRASH, FAULT_POWER, FAULT_CUT, FAULT_CUT_IN, FAULT_CUT_OUT, FAULT_FLAP, FAULT_STALL, FAULT_PARTITION, FAULT_DEPOSE,
    FAULT_USURP, FAULT_BEHEAD, FAULT_TERM, FAULT_NOTICE, N_FAULTS
};

void world_init(struct world *w, uint64_t seed, uint32_t n_agents, const struct rdzv_cfg *cfg);
void world_free(struct world *w);
void world_boot(struct world *w, uint64_t at, uint32_t agent);
void world_fault(struct world *w, uint64_t at, uint32_t agent, enum fault fault);
void world_fail(struct world *w, uint64_t at, uint32_t agent); /* a worker of it ends with 1, if one lives */
void world_finish(struct world *w); /* all workers, also of rounds to come, end well within 2 s */
void world_run(struct world *w, uint64_t until);
bool world_is_settled(const struct world *w); /* every agent that can is in the round of the job, or a spare */
void world_send_view(struct world *w, uint64_t link, const struct rdzv_view *v);
void world_send_hello(const struct agent *a, const struct rdzv_hello *h);
/* sim_check.c */
void world_check_coord(struct world *w);
void world_check_term(struct world *w, const struct rdzv_view *v);  /* that is sent now */
void world_note_way(struct agent *a, const struct rdzv_view *v);     /* that it hears now */
void world_check_told(struct agent *a, const struct rdzv_hello *h); /* that it says now */

__attribute__((format(printf, 2, 3))) void world_trace(const struct world *w, const char *fmt, ...);
void world_arm_coord(struct world *w);
uint64_t world_coord_now(const struct world *w);
void world_kill_agent(struct agent *a, bool is_seen);
extern const struct rdzv_ops world_coord_ops;

/* sim_takeover.c: the coordinator's state is saved, and another coordinator goes on with it; nothing without is_durable. */
bool takeover_holds(struct world *w, uint64_t link, const struct rdzv_view *v); /* the view waits for the state */
bool takeover_is_saved(const struct world *w); /* all that a view says now */
void takeover_save(struct world *w);
void takeover_saved(struct world *w, uint64_t term);
void takeover_begin(struct world *w, bool agent_dies);
void takeover_end(struct world *w);

/* sim_promise.c: what is to follow from these */
void promise_host_leaves(struct world *w);
void promise_behead(struct world *w);
void promise_announce(struct agent *a);
void promise_noticed(const struct agent *a, uint64_t ms_left);
void promise_done(struct agent *a);
void promise_ended(const struct world *w);
void promise_check(const struct world *w);
void promise_orphans_ended(const struct world *w);

/* sim_decline.c: agents that say that they cannot take part */
void decline_say(struct agent *a, uint64_t incarnation); /* instead of booting */
void decline_heard(struct world *w, const struct rdzv_event *ev); /* the coordinator has: not yet looked at what follows */
bool decline_was_the_end(const struct world *w);
void decline_ended(const struct world *w);
void decline_check(struct world *w);

uint64_t world_agent_now(const struct agent *a);
uint64_t world_random(struct world *w, uint64_t n);
bool world_chance(struct world *w, uint32_t of_100000);
__attribute__((noreturn, format(printf, 2, 3))) void world_broken(const struct world *w, const char *fmt, ...);

#endif
