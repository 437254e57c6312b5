#include "agent/core/pmi1.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/core/plaintext.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"
#include "store/core/siphash.h"

enum { FIRST_SLOTS = 64, ANSWER_MAX = PMI1_VALUE_MAX + PMI1_KVSNAME_MAX + 128, SHOWN_MAX = 61 };

#define DEFAULT_MAX_BYTES ((uint64_t) 256 << 20)

struct pair { /* "key=value", as the line and the other nodes have it */
    char    *text;
    uint32_t n_key, n;
};

struct rank {
    struct cc_buf in; /* the beginning of a line */
    bool is_inside, is_waiting; /* between init and finalize; in the barrier */
    bool is_spawning;           /* in the lines of a spawn request */
    int  n_spawns, nth_spawn;   /* requests that are answered together, and which one of them this is */
};

struct pmi1 {
    const struct pmi1_ops *ops;
    void        *ctx;
    unsigned     n_local, world, n_waiting;
    char         kvsname[PMI1_KVSNAME_MAX];
    uint64_t     n_bytes, max_bytes;
    struct pair *pairs; /* a hash table, open addressing; half full at most */
    size_t       n_pairs, n_slots;
    struct cc_buf put;  /* since the last barrier: pairs, a newline after each */
    bool         is_fencing;
    struct rank  ranks[];
};

__attribute__((format(printf, 3, 4))) static void answer(struct pmi1 *p, unsigned rank, const char *fmt, ...)
{
    char    line[ANSWER_MAX];
    va_list ap;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    assert(n > 0 && (size_t) n < sizeof line - 1); /* what is in it was bounded when it came */
    line[n++] = '\n';
    p->ops->send(p->ctx, rank, line, (size_t) n);
}

/* ---- lines */

/* The value of `name` in a line of words NAME=VALUE; p NULL: it has none. */
static struct cc_bytes word(struct cc_bytes line, const char *name)
{
    const uint8_t *at = line.p, *end = line.p + line.n;
    size_t         n_name = strlen(name);

    while (at < end) {
        const uint8_t *blank = memchr(at, ' ', (size_t) (end - at));
        const uint8_t *stop = blank ? blank : end;

        if ((size_t) (stop - at) > n_name && memcmp(at, name, n_name) == 0 && at[n_name] == '=')
            return (struct cc_bytes) { at + n_name + 1, (size_t) (stop - at) - n_name - 1 };
        at = blank ? blank + 1 : end;
    }
    return (struct cc_bytes) { NULL, 0 };
}

static bool is(struct cc_bytes b, const char *text)
{
    return b.p && b.n == strlen(text) && memcmp(b.p, text, b.n) == 0;
}

/* A number of int's range, the sign included; `otherwise` for anything else. */
static int number(struct cc_bytes b, int otherwise)
{
    char  text[16], *end;
    long  value;

    if (!b.p || b.n == 0 || b.n >= sizeof text)
        return otherwise;
    memcpy(text, b.p, b.n);
    text[b.n] = '\0';
    value = strtol(text, &end, 10);
    return *end || value < INT_MIN || value > INT_MAX ? otherwise : (int) value;
}

/* It may be anything, and is going to a terminal. */
static int refuse_line(struct cc_bytes line, struct cc_err *err)
{
    char text[SHOWN_MAX];

    (void) plaintext_line(text, sizeof text, (const char *) line.p, line.n);
    return cc_fail(err, -EPROTO, "PMI: '%s' is no request of PMI-1", text);
}

/* ---- keys */

/* Where the key is, or would be. */
static struct pair *find(struct pair *pairs, size_t n_slots, struct cc_bytes key)
{
    static const uint64_t of_hash[2] = { 0, 0 }; /* a job that aims for collisions slows itself down */
    size_t                i = (size_t) siphash13(of_hash, key) & (n_slots - 1);

    while (pairs[i].text && (pairs[i].n_key != key.n || memcmp(pairs[i].text, key.p, key.n) != 0))
        i = (i + 1) & (n_slots - 1);
    return &pairs[i];
}

static int grow(struct pmi1 *p)
{
    size_t       n_slots = p->n_slots ? 2 * p->n_slots : FIRST_SLOTS, i;
    struct pair *pairs = calloc(n_slots, sizeof *pairs);

    if (!pairs)
        return -ENOMEM;
    for (i = 0; i < p->n_slots; i++) {
        const struct pair *old = &p->pairs[i];

        if (old->text)
            *find(pairs, n_slots, (struct cc_bytes) { (const uint8_t *) old->text, old->n_key }) = *old;
    }
    free(p->pairs);
    p->pairs = pairs;
    p->n_slots = n_slots;
    return 0;
}

/* "key=value" of n bytes; a second one for the same key replaces the first. */
static int keep(struct pmi1 *p, struct cc_bytes text, size_t n_key, struct cc_err *err)
{
    struct pair *slot;
    char        *copy;

    if (2 * (p->n_pairs + 1) > p->n_slots && grow(p) < 0)
        return cc_fail(err, -ENOMEM, "PMI: no memory for %zu keys", p->n_pairs + 1);
    slot = find(p->pairs, p->n_slots, (struct cc_bytes) { text.p, n_key });
    if (p->n_bytes - slot->n + text.n > p->max_bytes)
        return cc_fail(err, -ENOBUFS, "PMI: more than %llu bytes of keys and values", (unsigned long long) p->max_bytes);
    copy = malloc(text.n);
    if (!copy)
        return cc_fail(err, -ENOMEM, "PMI: no memory for %zu keys", p->n_pairs + 1);
    memcpy(copy, text.p, text.n);
    p->n_pairs += !slot->text;
    p->n_bytes += text.n - slot->n;
    free(slot->text);
    *slot = (struct pair) { copy, (uint32_t) n_key, (uint32_t) text.n };
    return 0;
}

static int keep_mapping(struct pmi1 *p, const char *mapping)
{
    static const char key[] = "PMI_process_mapping=";
    char              text[sizeof key + PMI1_VALUE_MAX];
    struct cc_err     err;

    if (!mapping || strlen(mapping) >= PMI1_VALUE_MAX)
        return 0;
    (void) snprintf(text, sizeof text, "%s%s", key, mapping);
    return keep(p, cc_bytes_of(text), sizeof key - 2, &err);
}

/* ---- commands; each has one answer, but the barrier and abort */

static int do_init(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    int major = number(word(line, "pmi_version"), 0);

    (void) err;
    if (major != 1) {
        answer(p, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1");
        return 0;
    }
    p->ranks[rank].is_inside = true;
    answer(p, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    p->ops->begun(p->ctx, rank);
    return 0;
}

static int do_get_maxes(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    answer(p, rank, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d rc=0", PMI1_KVSNAME_MAX, PMI1_KEY_MAX, PMI1_VALUE_MAX);
    return 0;
}

static int do_get_appnum(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    answer(p, rank, "cmd=appnum appnum=0 rc=0");
    return 0;
}

static int do_get_my_kvsname(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    answer(p, rank, "cmd=my_kvsname kvsname=%s rc=0", p->kvsname);
    return 0;
}

static int do_get_universe_size(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    answer(p, rank, "cmd=universe_size size=%u rc=0", p->world);
    return 0;
}

/* A rank may name another space only when it has spawned something, which it cannot here. */
static bool is_other_space(const struct pmi1 *p, struct cc_bytes line)
{
    struct cc_bytes name = word(line, "kvsname");

    return name.p && !is(name, p->kvsname);
}

static int do_put(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    struct cc_bytes key = word(line, "key"), value = word(line, "value"), text;
    char            pair[PMI1_KEY_MAX + PMI1_VALUE_MAX + 1];
    int             r;

    if (!key.p || !value.p || key.n == 0 || memchr(key.p, '=', key.n))
        return cc_fail(err, -EPROTO, "PMI: put without a key and a value");
    value.n = (size_t) (line.p + line.n - value.p); /* it is the last, and may have blanks */
    if (key.n > PMI1_KEY_MAX || value.n > PMI1_VALUE_MAX || is_other_space(p, line)) {
        answer(p, rank, "cmd=put_result rc=-1 msg=%s", is_other_space(p, line) ? "kvs_not_found" : "too_long");
        return 0;
    }
    memcpy(pair, key.p, key.n);
    pair[key.n] = '=';
    if (value.n > 0)
        memcpy(pair + key.n + 1, value.p, value.n);
    text = (struct cc_bytes) { (const uint8_t *) pair, key.n + 1 + value.n };
    if (cc_buf_len(&p->put) + text.n > 2 * p->max_bytes) /* one key, put again and again before a barrier */
        return cc_fail(err, -ENOBUFS, "PMI: more than %llu bytes put before a barrier", (unsigned long long) p->max_bytes);
    r = keep(p, text, key.n, err);
    if (r < 0)
        return r;
    if (cc_buf_add(&p->put, text.p, text.n) < 0 || cc_buf_add(&p->put, "\n", 1) < 0)
        return cc_fail(err, -ENOMEM, "PMI: no memory for %zu keys", p->n_pairs);
    answer(p, rank, "cmd=put_result rc=0 msg=success");
    return 0;
}

static int do_get(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    struct cc_bytes    key = word(line, "key");
    const struct pair *found = NULL;

    (void) err;
    if (key.p && p->n_slots > 0 && !is_other_space(p, line))
        found = find(p->pairs, p->n_slots, key);
    if (!found || !found->text)
        answer(p, rank, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
    else
        answer(p, rank, "cmd=get_result rc=0 msg=success value=%.*s", (int) (found->n - found->n_key - 1),
               found->text + found->n_key + 1);
    return 0;
}

static int do_barrier_in(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    struct cc_buf put;

    (void) line;
    if (p->ranks[rank].is_waiting)
        return cc_fail(err, -EPROTO, "PMI: it is in the barrier already");
    p->ranks[rank].is_waiting = true;
    if (++p->n_waiting < p->n_local)
        return 0;
    p->n_waiting = 0;
    p->is_fencing = true;
    put = p->put;
    p->put = (struct cc_buf) { .p = NULL };
    p->ops->fence(p->ctx, (struct cc_bytes) { cc_buf_data(&put), cc_buf_len(&put) });
    cc_buf_free(&put);
    return 0;
}

static int do_finalize(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    p->ranks[rank].is_inside = false;
    answer(p, rank, "cmd=finalize_ack rc=0");
    return 0;
}

static int do_abort(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) err;
    p->ops->aborted(p->ctx, rank, number(word(line, "exitcode"), 1));
    return 0;
}

static int do_publish(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    answer(p, rank, "cmd=publish_result rc=-1 msg=not_supported");
    return 0;
}

static int do_unpublish(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    answer(p, rank, "cmd=unpublish_result rc=-1 msg=not_supported");
    return 0;
}

static int do_lookup(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    (void) line, (void) err;
    answer(p, rank, "cmd=lookup_result rc=-1 msg=not_supported port=");
    return 0;
}

static const struct command {
    const char *name;
    int (*act)(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err);
} commands[] = {
    { "get", do_get },
    { "put", do_put },
    { "barrier_in", do_barrier_in },
    { "init", do_init },
    { "get_maxes", do_get_maxes },
    { "get_appnum", do_get_appnum },
    { "get_my_kvsname", do_get_my_kvsname },
    { "get_universe_size", do_get_universe_size },
    { "finalize", do_finalize },
    { "abort", do_abort },
    { "publish_name", do_publish },
    { "unpublish_name", do_unpublish },
    { "lookup_name", do_lookup },
};

/* The one request of several lines. The client reads one answer, when the last of those that belong together has been sent. */
static void spawn_line(struct pmi1 *p, unsigned rank, struct cc_bytes line)
{
    struct rank *r = &p->ranks[rank];

    r->n_spawns = number(word(line, "totspawns"), r->n_spawns);
    r->nth_spawn = number(word(line, "spawnssofar"), r->nth_spawn);
    if (!is(line, "endcmd"))
        return;
    r->is_spawning = false;
    if (r->nth_spawn >= r->n_spawns)
        answer(p, rank, "cmd=spawn_result rc=-1 msg=not_supported");
}

static int take_line(struct pmi1 *p, unsigned rank, struct cc_bytes line, struct cc_err *err)
{
    struct rank    *r = &p->ranks[rank];
    struct cc_bytes name = word(line, "cmd");
    size_t          i;

    if (r->is_spawning || is(word(line, "mcmd"), "spawn")) {
        if (!r->is_spawning)
            r->n_spawns = r->nth_spawn = 1;
        r->is_spawning = true;
        spawn_line(p, rank, line);
        return 0;
    }
    for (i = 0; i < CC_COUNT(commands); i++)
        if (is(name, commands[i].name))
            return commands[i].act(p, rank, line, err);
    return refuse_line(line, err);
}

int pmi1_feed(struct pmi1 *p, unsigned local_rank, const void *bytes, size_t n, struct cc_err *err)
{
    struct cc_buf *in = &p->ranks[local_rank].in;
    const uint8_t *newline;
    size_t         looked = cc_buf_len(in);
    int            r = 0;

    assert(local_rank < p->n_local);
    if (n > 0 && cc_buf_add(in, bytes, n) < 0)
        return cc_fail(err, -ENOMEM, "PMI: no memory for a line of %zu bytes", n);
    while (r == 0 && cc_buf_len(in) > looked) {
        const uint8_t *at = cc_buf_data(in);

        newline = memchr(at + looked, '\n', cc_buf_len(in) - looked);
        if (!newline)
            break;
        r = take_line(p, local_rank, (struct cc_bytes) { at, (size_t) (newline - at) }, err);
        cc_buf_drop(in, (size_t) (newline - at) + 1);
        looked = 0;
    }
    if (r == 0 && cc_buf_len(in) > PMI1_LINE_MAX)
        r = cc_fail(err, -EPROTO, "PMI: a line of more than %d bytes", PMI1_LINE_MAX);
    return r;
}

int pmi1_merge(struct pmi1 *p, struct cc_bytes put, struct cc_err *err)
{
    int r = 0;

    while (r == 0 && put.n > 0) {
        const uint8_t *end = memchr(put.p, '\n', put.n), *equals = end ? memchr(put.p, '=', (size_t) (end - put.p)) : NULL;
        size_t         n_key = equals ? (size_t) (equals - put.p) : 0, n = end ? (size_t) (end - put.p) : 0;

        if (n_key == 0 || n_key > PMI1_KEY_MAX || n - n_key - 1 > PMI1_VALUE_MAX)
            return cc_fail(err, -EPROTO, "PMI: what another node has put cannot be read");
        r = keep(p, (struct cc_bytes) { put.p, n }, n_key, err);
        put = (struct cc_bytes) { end + 1, put.n - n - 1 };
    }
    return r;
}

void pmi1_release(struct pmi1 *p)
{
    unsigned i;

    assert(p->is_fencing);
    p->is_fencing = false;
    for (i = 0; i < p->n_local; i++) {
        p->ranks[i].is_waiting = false;
        answer(p, i, "cmd=barrier_out rc=0");
    }
}

bool pmi1_is_inside(const struct pmi1 *p, unsigned local_rank)
{
    return p->ranks[local_rank].is_inside;
}

CC_DEFINE_AUTO(struct pmi1, pmi1_free)

struct pmi1 *pmi1_new(const struct pmi1_cfg *cfg, const struct pmi1_ops *ops, void *ctx)
{
    CC_AUTO(pmi1_freep) struct pmi1 *p = calloc(1, sizeof *p + cfg->n_local * sizeof p->ranks[0]);

    if (!p)
        return NULL;
    p->ops = ops;
    p->ctx = ctx;
    p->n_local = cfg->n_local;
    p->world = cfg->world;
    p->max_bytes = cfg->max_bytes ? cfg->max_bytes : DEFAULT_MAX_BYTES;
    (void) snprintf(p->kvsname, sizeof p->kvsname, "%s", cfg->kvsname);
    return keep_mapping(p, cfg->mapping) < 0 ? NULL : CC_STEAL(p);
}

struct pmi1 *pmi1_free(struct pmi1 *p)
{
    size_t i;

    if (!p)
        return NULL;
    for (i = 0; i < p->n_slots; i++)
        free(p->pairs[i].text);
    free(p->pairs);
    for (i = 0; i < p->n_local; i++)
        cc_buf_free(&p->ranks[i].in);
    cc_buf_free(&p->put);
    free(p);
    return NULL;
}
