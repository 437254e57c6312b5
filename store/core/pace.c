#include "store/core/pace.h"

enum {
    CROWD = 8, /* so many answers at once make a crowd */
    CROWD_TURNS = 8,
    HOLD_CLIENTS = 64,
    HOLD_QUIET_NS = 8000,
    HOLD_NS = 300000,
    LOOK_NS = 50000,
    QUICK_TO_LOOK = 4,
    GOOD_TO_FORGIVE = 16, /* looks that were worth it, for one that was in vain */
    MAX_PAUSE_SHIFT = 12,
};

void pace_events(struct pace *p, uint64_t now, unsigned n_events)
{
    if (p->look_until > 0 && ++p->n_good == GOOD_TO_FORGIVE) {
        p->n_vain -= p->n_vain > 0;
        p->n_good = 0;
    }
    p->n_quick = n_events == 1 && now - p->idle_since < LOOK_NS ? p->n_quick + 1 : 0;
    p->pause -= p->pause > 0;
    p->quiet_since = now;
    p->look_until = 0;
}

bool pace_is_held(struct pace *p, uint64_t now, unsigned n_waiting, unsigned n_clients)
{
    unsigned enough = n_clients / 4 < HOLD_CLIENTS ? n_clients / 4 : HOLD_CLIENTS;

    if (p->crowd == 0 || n_waiting == 0 || n_waiting >= enough)
        return false;
    if (p->held_since == 0)
        p->held_since = now;
    return now - p->quiet_since < HOLD_QUIET_NS && now - p->held_since < HOLD_NS;
}

void pace_done(struct pace *p, uint64_t now, unsigned n_answered)
{
    p->held_since = 0;
    p->idle_since = now;
    if (n_answered >= CROWD)
        p->crowd = CROWD_TURNS;
    else
        p->crowd -= p->crowd > 0 && n_answered > 0;
    if (p->n_quick >= QUICK_TO_LOOK && p->pause == 0)
        p->look_until = now + LOOK_NS;
}

bool pace_looks_again(struct pace *p, uint64_t now)
{
    if (p->look_until == 0)
        return false;
    if (now < p->look_until)
        return true;
    p->look_until = 0;
    p->n_quick = p->n_good = 0;
    p->n_vain += p->n_vain < MAX_PAUSE_SHIFT;
    p->pause = 1u << p->n_vain;
    return false;
}
