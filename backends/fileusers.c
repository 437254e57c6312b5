#include "backends/fileusers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/init_url.h"
#include "backends/whois.h"
#include "store/base/cleanup.h"
#include "store/core/kv.h"

/* The processes that have taken a place in a group (meet.h) whose keys are in the file. */
struct roll {
    struct whois *dead;
    int64_t       n_dead, max;
    bool          is_anybody_else; /* alive, or nobody here can tell */
};

/* "/ccrun/<group>/who/<rank>", also in a part of a group. */
static bool is_claim(struct cc_bytes key)
{
    static const char begin[] = "/ccrun/", mid[] = "/who/", words[] = "words/who/";

    return key.n >= sizeof begin && memcmp(key.p, begin, sizeof begin - 1) == 0 &&
           memmem(key.p, key.n, mid, sizeof mid - 1) && !memmem(key.p, key.n, words, sizeof words - 1);
}

static void enroll(struct roll *r, const struct whois *me, const struct whois *who)
{
    if (!whois_is_gone(who, me)) {
        r->is_anybody_else = true;
        return;
    }
    for (int64_t i = 0; i < r->n_dead; i++)
        if (whois_is_same(&r->dead[i], who))
            return; /* in another group */
    if (r->n_dead < r->max)
        r->dead[r->n_dead++] = *who;
    else
        r->is_anybody_else = true;
}

bool fileusers_are_dead(void *ctx, const struct kv *kv, int64_t users, char *ret_who, size_t size)
{
    CC_AUTO_FREE struct whois *dead = users <= INIT_WORLD_MAX ? calloc((size_t) users, sizeof *dead) : NULL;
    struct roll                r = { .dead = dead, .max = dead ? users : 0 };
    struct cc_bytes            key, value;
    struct whois               me, who;

    (void) ctx;
    whois_self(&me);
    for (const struct kv_entry *e = kv_next(kv, NULL, &key); e; e = kv_next(kv, e, &key)) {
        char        text[WHOIS_TEXT_MAX + 24];
        const char *at;

        if (!is_claim(key) || !kv_get(kv, key, &value) || value.n >= sizeof text)
            continue;
        (void) snprintf(text, sizeof text, "%.*s", (int) value.n, (const char *) value.p);
        at = strchr(text, ' ');
        whois_read(&who, at ? at + 1 : "");
        if (who.pid == 0)
            continue; /* it has left */
        enroll(&r, &me, &who);
        (void) snprintf(ret_who, size, "process %d on %.80s is one of them%s", who.pid, who.host,
                        whois_is_gone(&who, &me) ? ", and is dead" : "");
    }
    return !r.is_anybody_else && r.n_dead == users;
}
