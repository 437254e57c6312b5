#include "agent/core/peers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int peers_init(struct peers *t, uint32_t cap, struct cc_err *err)
{
    uint32_t size = 2, i;

    while (size < 2 * cap)
        size *= 2;
    *t = (struct peers) { .cap = cap, .mask = size - 1 };
    t->peer = calloc(cap, sizeof(t->peer[0]));
    t->slots = malloc(size * sizeof(t->slots[0]));
    t->holders = malloc(cap * sizeof(t->holders[0]));
    if (!t->peer || !t->slots || !t->holders) {
        peers_free(t);
        return cc_fail(err, -ENOMEM, "no memory for %u nodes", cap);
    }
    memset(t->slots, 0xff, size * sizeof(t->slots[0])); /* PEERS_NONE */
    memset(t->holders, 0xff, cap * sizeof(t->holders[0]));
    for (i = 0; i < PEER_N_LISTS; i++)
        t->first[i] = t->last[i] = PEERS_NONE;
    for (i = 0; i < cap; i++) {
        t->peer[i].before = i > 0 ? i - 1 : PEERS_NONE;
        t->peer[i].after = i + 1 < cap ? i + 1 : PEERS_NONE;
    }
    t->first[PEER_FREE] = 0;
    t->last[PEER_FREE] = cap - 1;
    return 0;
}

void peers_free(struct peers *t)
{
    free(t->peer);
    free(t->slots);
    free(t->holders);
    *t = (struct peers) { 0 };
}

static uint32_t hash(const struct peers *t, uint64_t incarnation)
{
    return (uint32_t) (incarnation * 0x9e3779b97f4a7c15u >> 32) & t->mask;
}

/* Where it is, or the empty place where it belongs. */
static uint32_t probe(const struct peers *t, uint64_t incarnation)
{
    uint32_t at = hash(t, incarnation);

    while (t->slots[at] != PEERS_NONE && t->peer[t->slots[at]].incarnation != incarnation)
        at = (at + 1) & t->mask;
    return at;
}

struct peer *peers_find(const struct peers *t, uint64_t incarnation)
{
    uint32_t slot = t->slots[probe(t, incarnation)];

    return slot == PEERS_NONE ? NULL : &t->peer[slot];
}

/* Closes the gap: whoever was pushed on by the one that is removed moves back. */
static void unhash(struct peers *t, uint64_t incarnation)
{
    uint32_t gap = probe(t, incarnation), at = gap;

    for (;;) {
        uint32_t home;

        at = (at + 1) & t->mask;
        if (t->slots[at] == PEERS_NONE)
            break;
        home = hash(t, t->peer[t->slots[at]].incarnation);
        if (((at - home) & t->mask) < ((at - gap) & t->mask))
            continue; /* its home lies behind the gap */
        t->slots[gap] = t->slots[at];
        gap = at;
    }
    t->slots[gap] = PEERS_NONE;
}

struct peer *peers_holder(const struct peers *t, int32_t wish)
{
    if (wish < 0 || (uint32_t) wish >= t->cap || t->holders[wish] == PEERS_NONE)
        return NULL;
    return &t->peer[t->holders[wish]];
}

struct peer *peers_first(const struct peers *t, enum peer_list list)
{
    return t->first[list] == PEERS_NONE ? NULL : &t->peer[t->first[list]];
}

struct peer *peers_next(const struct peers *t, const struct peer *p)
{
    uint32_t i = p ? (uint32_t) (p - t->peer) + 1 : 0;

    while (i < t->cap && t->peer[i].list == PEER_FREE)
        i++;
    return i < t->cap ? &t->peer[i] : NULL;
}

static void take_out(struct peers *t, struct peer *p)
{
    if (p->before != PEERS_NONE)
        t->peer[p->before].after = p->after;
    else
        t->first[p->list] = p->after;
    if (p->after != PEERS_NONE)
        t->peer[p->after].before = p->before;
    else
        t->last[p->list] = p->before;
}

static void append(struct peers *t, struct peer *p, enum peer_list list)
{
    uint32_t slot = (uint32_t) (p - t->peer);

    p->list = list;
    p->after = PEERS_NONE;
    p->before = t->last[list];
    if (p->before != PEERS_NONE)
        t->peer[p->before].after = slot;
    else
        t->first[list] = slot;
    t->last[list] = slot;
}

uint32_t peers_role(const struct peers *t, const char *name)
{
    uint32_t unused = PEERS_NONE, i;

    for (i = RANKS_MAX_ROLES; i-- > 0;) {
        if (t->role_uses[i] == 0)
            unused = i;
        else if (strcmp(t->role[i], name) == 0)
            return i;
    }
    return unused;
}

struct peer *peers_add(struct peers *t, uint64_t now, uint64_t incarnation, const struct rdzv_about *about)
{
    struct peer *p = peers_first(t, PEER_FREE);
    uint32_t     role = peers_role(t, about->role), at = probe(t, incarnation);

    assert(p && role != PEERS_NONE && !peers_holder(t, about->wish) && t->slots[at] == PEERS_NONE);
    take_out(t, p);
    *p = (struct peer) { .incarnation = incarnation, .seen = now, .pid = about->pid, .port = about->port };
    p->rank = (struct ranks_node) {
        .wish = about->wish, .previous = RANKS_NONE, .arrival = t->n_arrived++, .group = about->group,
        .nproc = about->nproc, .role = role, .group_rank = RDZV_NO_RANK,
    };
    memcpy(p->host, about->host, sizeof(p->host));
    memcpy(p->addr, about->addr, sizeof(p->addr));
    memcpy(t->role[role], about->role, sizeof(t->role[role]));
    t->role_uses[role]++;
    t->slots[at] = (uint32_t) (p - t->peer);
    if (about->wish >= 0)
        t->holders[about->wish] = t->slots[at];
    append(t, p, PEER_HEARD);
    t->n++;
    return p;
}

void peers_heard(struct peers *t, struct peer *p, uint64_t now)
{
    take_out(t, p);
    append(t, p, PEER_HEARD);
    p->seen = now;
}

void peers_broken(struct peers *t, struct peer *p, uint64_t now)
{
    take_out(t, p);
    append(t, p, PEER_DOWN);
    p->down_at = now;
}

void peers_remove(struct peers *t, struct peer *p)
{
    assert(p->list != PEER_FREE);
    take_out(t, p);
    unhash(t, p->incarnation);
    if (p->rank.wish >= 0)
        t->holders[p->rank.wish] = PEERS_NONE;
    t->role_uses[p->rank.role]--;
    append(t, p, PEER_FREE); /* at the end: what it was is remembered for as long as possible */
    t->n--;
}
