#include <stdio.h>
#include <string.h>

#include "agent/core/rdzv_inside.h"

enum { LIST_ALWAYS = 64, LIST_EVERY_MS = 1000, ROOM_FOR_MORE = 24 };

/* "h1, h2 and 6 more": where the nodes are that are ready. */
static void list_ready(struct rdzv *r)
{
    const struct peer *p;
    size_t             len = 0;
    uint32_t           n = 0;

    r->have[0] = '\0';
    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p)) {
        size_t room = sizeof(r->have) - ROOM_FOR_MORE - len;

        if (!p->is_ready || strlen(p->host) + 2 >= room)
            continue;
        len += (size_t) snprintf(r->have + len, room, "%s%s", n++ > 0 ? ", " : "", p->host);
    }
    if (n < r->n_ready)
        (void) snprintf(r->have + len, sizeof(r->have) - len, "%s%u more", n > 0 ? " and " : "", r->n_ready - n);
}

/* "2 (h3), 5 (h9) and 3 more": the ranks that are not there, and where they were.  Later, who is new takes the first that is
 * free. */
static void list_missing(struct rdzv *r, bool is_first, uint32_t n_wanted)
{
    uint32_t           n = n_wanted < r->cfg.max_nodes ? n_wanted : r->cfg.max_nodes, n_new = 0, n_more = 0, i;
    const struct peer *p;
    size_t             len = 0;
    bool               has_ranks = !is_first;
    char               item[RDZV_HOST_MAX + ROOM_FOR_MORE];

    memset(r->scratch, 0, n * sizeof(r->scratch[0]));
    for (p = peers_next(&r->peers, NULL); p; p = peers_next(&r->peers, p)) {
        int32_t at = is_first ? p->rank.wish : p->rank.previous;

        has_ranks = has_ranks || p->rank.wish >= 0;
        if (at >= 0 && (uint32_t) at < n && !p->is_leaving)
            r->scratch[at] = &r->peers.peer[0].rank; /* any: it is there */
        else if (at < 0 && p->is_ready && !is_first)
            n_new++;
    }
    r->missing[0] = '\0';
    for (i = 0; i < n && has_ranks; i++) {
        const char *host = is_first ? "" : r->rank_host[i];
        size_t      size = 0;

        if (r->scratch[i])
            continue;
        if (n_new > 0) {
            n_new--;
            continue;
        }
        if (n_more == 0)
            size = (size_t) snprintf(item, sizeof(item), host[0] ? "%s%u (%s)" : "%s%u", len ? ", " : "", i, host);
        if (n_more > 0 || len + size + ROOM_FOR_MORE > sizeof(r->missing)) { /* half a number would be another node */
            n_more++;
            continue;
        }
        memcpy(r->missing + len, item, size + 1);
        len += size;
    }
    if (n_more > 0)
        (void) snprintf(r->missing + len, sizeof(r->missing) - len, " and %u more", n_more);
}

/* Both scan the nodes: not more often than each second when they are many. */
void rdzv_list_nodes(struct rdzv *r, uint64_t now, bool is_first, uint32_t n_wanted)
{
    if (r->listed_at != 0 && r->peers.n > LIST_ALWAYS && now - r->listed_at < LIST_EVERY_MS)
        return;
    r->listed_at = now;
    list_ready(r);
    list_missing(r, is_first, n_wanted);
}
