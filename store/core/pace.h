/* pace.h - when the server answers, and whether it looks once more before it sleeps.
 *
 * Pure; times are nanoseconds of a monotonic clock.  Two measured facts:
 *
 * Where many clients share a CPU, one that is answered at once goes on asking until its time slice ends, and
 * the others starve (256 clients on one core: p99 24 ms).  So while there is a crowd, answers are held until
 * nothing more comes: then whoever had the CPU has run out of things to do, and the next one runs (p99 5 ms,
 * same rate).
 *
 * With a single client that asks, reads and asks again, or one that connects after the other, half of the
 * time goes into waking the server.  So after a few events that came one by one and quickly, the server looks
 * again for a moment before it sleeps.  Where that is often in vain, as it is when the client needs our CPU,
 * it is tried less and less.
 */
#ifndef STORE_CORE_PACE_H
#define STORE_CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
    unsigned crowd; /* turns for which a crowd is remembered */
    uint64_t held_since, quiet_since;
    unsigned n_quick;                /* events in a row that came alone and soon */
    unsigned n_vain, n_good;         /* looks in vain, not yet forgiven; good ones since */
    unsigned pause;                  /* events until the next look */
    uint64_t idle_since, look_until; /* look_until: 0 when not looking */
};

/* A turn of the loop brought n_events (requests and connections). */
void pace_events(struct pace *p, uint64_t now, unsigned n_events);
/* n_waiting of n_clients have an answer to be sent: not yet? */
bool pace_is_held(struct pace *p, uint64_t now, unsigned n_waiting, unsigned n_clients);
/* The work of this turn is done, n_answered were answered. */
void pace_done(struct pace *p, uint64_t now, unsigned n_answered);
/* Should the server look once more instead of sleeping? */
bool pace_looks_again(struct pace *p, uint64_t now);

#endif
