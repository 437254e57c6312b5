/* pmix_main.c - ccrun-pmix: a PMIx server for the workers of one node in one round, on behalf of an agent.
 *
 *     ccrun-pmix DIRECTORY HOST
 *
 * The agent starts it with a socket as its stdin, over which messages go both ways (store/base/pmixmsg.h), and ends it by
 * closing that.  It is a program of its own because libpmix has threads and many dependencies, which neither the agent nor a
 * training job should get.  DIRECTORY is for its files, and goes with the round; HOST is this node's name in the job.
 *
 * Two threads: this one reads the socket and calls the library; the library's own calls back, and writes to the socket.
 */
#include <errno.h>
#include <inttypes.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/buf.h"
#include "store/base/fdwrite.h"
#include "store/base/macros.h"
#include "store/base/pmixmsg.h"

enum { SOCKET_FD = 0, READ_SIZE = 64 * 1024, INFOS_MAX = 20 };

struct waiting { /* for an answer of the agent */
    struct waiting      *next;
    uint32_t             id;
    pmix_modex_cbfunc_t  done;
    void                *done_ctx;
};

struct group { /* ranks that meet by themselves: how often they have */
    struct group *next;
    uint64_t      hash;
    unsigned      n_met;
};

struct server {
    pthread_mutex_t lock;
    struct waiting *waiting;
    struct group   *groups;
    uint32_t        last_id;
    pmix_nspace_t   space;
    uint32_t        world, n_nodes, node, base, n_local;
};

/* The library's callbacks say nothing of whom they belong to. */
static struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- to the agent */

/* When it is gone, so are we. */
static void tell(const struct pmixmsg *m)
{
    struct cc_buf b = { .p = NULL };

    if (pmixmsg_put(&b, m) < 0)
        _exit(1);
    (void) pthread_mutex_lock(&server.lock);
    if (cc_write_all(SOCKET_FD, (const char *) cc_buf_data(&b), cc_buf_len(&b), NULL) < 0)
        _exit(1);
    (void) pthread_mutex_unlock(&server.lock);
    cc_buf_free(&b);
}

static void fail(const char *what, pmix_status_t why)
{
    char text[200];

    (void) snprintf(text, sizeof text, "PMIx: %s: %s", what, PMIx_Error_string(why));
    tell(&(struct pmixmsg) { .type = PMIXMSG_FAILED, .text = cc_bytes_of(text) });
    _exit(1);
}

static void *must(void *memory)
{
    if (!memory)
        fail("start", PMIX_ERR_NOMEM);
    return memory;
}

/* ---- what waits for the agent */

static uint32_t wait_for(pmix_modex_cbfunc_t done, void *done_ctx)
{
    struct waiting *w = must(calloc(1, sizeof *w));

    (void) pthread_mutex_lock(&server.lock);
    *w = (struct waiting) { server.waiting, ++server.last_id, done, done_ctx };
    server.waiting = w;
    (void) pthread_mutex_unlock(&server.lock);
    return w->id;
}

static void answered(const struct pmixmsg *m)
{
    struct waiting **at, *w;
    char            *copy;

    (void) pthread_mutex_lock(&server.lock);
    for (at = &server.waiting; *at && (*at)->id != m->id; at = &(*at)->next)
        ;
    w = *at;
    if (w)
        *at = w->next;
    (void) pthread_mutex_unlock(&server.lock);
    if (!w)
        return;
    copy = must(malloc(m->blob.n + 1));
    if (m->blob.n > 0)
        memcpy(copy, m->blob.p, m->blob.n);
    w->done(m->number == 0 ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, copy, m->blob.n, w->done_ctx, free, copy);
    free(w);
}

/* ---- what the library asks of us, on its own thread */

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t n_info,
                                  pmix_op_cbfunc_t done, void *done_ctx)
{
    (void) object, (void) info, (void) n_info, (void) done, (void) done_ctx;
    tell(&(struct pmixmsg) { .type = PMIXMSG_INSIDE, .id = proc->rank, .number = 1 });
    return PMIX_OPERATION_SUCCEEDED;
}

/* The worker waits for this: the agent knows before it can see its exit. */
static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *done_ctx)
{
    (void) object, (void) done, (void) done_ctx;
    tell(&(struct pmixmsg) { .type = PMIXMSG_INSIDE, .id = proc->rank, .number = 0 });
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char text[], pmix_proc_t procs[],
                              size_t n, pmix_op_cbfunc_t done, void *done_ctx)
{
    (void) object, (void) text, (void) procs, (void) n, (void) done, (void) done_ctx;
    tell(&(struct pmixmsg) { .type = PMIXMSG_ABORTED, .id = proc->rank, .number = status });
    return PMIX_OPERATION_SUCCEEDED;
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return x < y ? -1 : x > y;
}

static unsigned count_meeting(uint64_t hash)
{
    struct group *g;

    for (g = server.groups; g && g->hash != hash; g = g->next)
        ;
    if (!g) {
        g = must(calloc(1, sizeof *g));
        *g = (struct group) { server.groups, hash, 0 };
        server.groups = g;
    }
    return g->n_met++;
}

/* Each group of ranks counts for itself how often it has met: all nodes come to the same name. */
static char *name_fence(const pmix_proc_t procs[], size_t n)
{
    uint32_t *ranks = must(calloc(n, sizeof *ranks));
    char     *name = must(malloc(64 + 12 * n));
    uint64_t  hash = 0xcbf29ce484222325u;
    bool      is_all = n >= server.world;
    int       len;
    size_t    i;

    for (i = 0; i < n; i++) {
        ranks[i] = procs[i].rank;
        is_all |= procs[i].rank == PMIX_RANK_WILDCARD;
    }
    qsort(ranks, n, sizeof *ranks, by_rank);
    for (i = 0; i < n && !is_all; i++)
        hash = (hash ^ ranks[i]) * 0x100000001b3u;
    hash = is_all ? 0 : hash;
    len = snprintf(name, 64, "%" PRIx64 "-%u", hash, count_meeting(hash));
    for (i = 0; i < n && !is_all; i++)
        len += snprintf(name + len, 12, "%s%u", i ? "," : ":", ranks[i]);
    free(ranks);
    return name;
}

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t n_info, char *data,
                              size_t n_data, pmix_modex_cbfunc_t done, void *done_ctx)
{
    char *name;

    (void) info, (void) n_info;
    if (server.n_nodes == 1) {
        done(PMIX_SUCCESS, data, n_data, done_ctx, free, data);
        return PMIX_SUCCESS;
    }
    name = name_fence(procs, n);
    tell(&(struct pmixmsg) {
        .type = PMIXMSG_FENCE,
        .id = wait_for(done, done_ctx),
        .text = cc_bytes_of(name),
        .blob = { (const uint8_t *) data, n_data },
    });
    free(name);
    free(data); /* ours since the call */
    return PMIX_SUCCESS;
}

static pmix_status_t on_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info, pmix_modex_cbfunc_t done,
                              void *done_ctx)
{
    (void) info, (void) n_info;
    if (server.n_nodes == 1 || proc->rank >= server.world)
        return PMIX_ERR_NOT_FOUND;
    tell(&(struct pmixmsg) { .type = PMIXMSG_ASK, .id = wait_for(done, done_ctx), .number = (int32_t) proc->rank });
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {
    .client_connected2 = on_connected,
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence_nb = on_fence,
    .direct_modex = on_modex,
};

/* ---- what the agent asks of us */

struct call { /* of the library, which says later how it ended */
    pthread_mutex_t lock;
    pthread_cond_t  ended;
    bool            is_over;
    pmix_status_t   status;
};

static void on_called(pmix_status_t status, void *ctx)
{
    struct call *c = ctx;

    (void) pthread_mutex_lock(&c->lock);
    c->status = status;
    c->is_over = true;
    (void) pthread_cond_signal(&c->ended);
    (void) pthread_mutex_unlock(&c->lock);
}

static void await(struct call *c, pmix_status_t begun, const char *what)
{
    if (begun == PMIX_SUCCESS) {
        (void) pthread_mutex_lock(&c->lock);
        while (!c->is_over)
            (void) pthread_cond_wait(&c->ended, &c->lock);
        (void) pthread_mutex_unlock(&c->lock);
        begun = c->status;
    }
    if (begun != PMIX_SUCCESS && begun != PMIX_OPERATION_SUCCEEDED)
        fail(what, begun);
}

#define NEW_CALL { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER }

static void name_rank(pmix_proc_t *ret, uint32_t rank)
{
    *ret = (pmix_proc_t) { .rank = rank };
    memcpy(ret->nspace, server.space, sizeof ret->nspace);
}

static void register_client(uint32_t rank)
{
    struct call   c = NEW_CALL;
    char        **env = NULL, **e;
    struct cc_buf list = { .p = NULL };
    pmix_proc_t   proc;
    pmix_status_t r;

    name_rank(&proc, rank);
    await(&c, PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, on_called, &c), "register a rank");
    r = PMIx_server_setup_fork(&proc, &env);
    if (r != PMIX_SUCCESS)
        fail("make a rank's environment", r);
    for (e = env; e && *e; e++) {
        if (cc_buf_add(&list, *e, strlen(*e) + 1) < 0)
            fail("make a rank's environment", PMIX_ERR_NOMEM);
        free(*e);
    }
    free(env);
    tell(&(struct pmixmsg) {
        .type = PMIXMSG_ENV, .id = rank - server.base, .blob = { cc_buf_data(&list), cc_buf_len(&list) },
    });
    cc_buf_free(&list);
}

/* Counts what the list of ranks by node ("0,1;2,3") says, and finds our part of it. */
static char *our_ranks(const char *ranks)
{
    const char *at = ranks, *ours = ranks;
    uint32_t    node = 0;
    char       *copy;

    server.world = 0;
    for (; *at; at++) {
        if (*at == ';' && ++node == server.node)
            ours = at + 1;
        server.world += *at == ',' || *at == ';';
    }
    server.world++;
    server.n_nodes = node + 1;
    copy = must(strndup(ours, strcspn(ours, ";")));
    server.n_local = 1;
    for (at = copy; *at; at++)
        server.n_local += *at == ',';
    return copy;
}

static void register_space(const char *hosts, const char *ranks)
{
    struct call c = NEW_CALL;
    char       *node_map, *rank_map, *peers = our_ranks(ranks);
    const struct {
        const char *key;
        uint32_t    value;
    } numbers[] = {
        { PMIX_UNIV_SIZE, server.world },    { PMIX_JOB_SIZE, server.world },      { PMIX_MAX_PROCS, server.world },
        { PMIX_LOCAL_SIZE, server.n_local }, { PMIX_NODE_SIZE, server.n_local },   { PMIX_LOCALLDR, server.base },
        { PMIX_NUM_NODES, server.n_nodes },  { PMIX_JOB_NUM_APPS, 1 },
    };
    pmix_info_t   infos[INFOS_MAX];
    size_t        n = 0, i;
    pmix_status_t r = PMIx_generate_regex(hosts, &node_map);

    if (r == PMIX_SUCCESS)
        r = PMIx_generate_ppn(ranks, &rank_map);
    if (r != PMIX_SUCCESS)
        fail("describe the nodes", r);
    for (i = 0; i < CC_COUNT(numbers); i++)
        (void) PMIx_Info_load(&infos[n++], numbers[i].key, &numbers[i].value, PMIX_UINT32);
    (void) PMIx_Info_load(&infos[n++], PMIX_JOBID, server.space, PMIX_STRING);
    (void) PMIx_Info_load(&infos[n++], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    (void) PMIx_Info_load(&infos[n++], PMIX_NODE_MAP, node_map, PMIX_REGEX);
    (void) PMIx_Info_load(&infos[n++], PMIX_PROC_MAP, rank_map, PMIX_REGEX);
    await(&c, PMIx_server_register_nspace(server.space, (int) server.n_local, infos, n, on_called, &c), "register the job");
    free(peers);
}

static void take_job(const struct pmixmsg *m)
{
    const char *hosts = (const char *) m->blob.p;
    const char *end = hosts ? memchr(hosts, '\0', m->blob.n) : NULL;
    uint32_t    i;

    if (!end || m->blob.p[m->blob.n - 1] != '\0' || (size_t) (end + 1 - hosts) >= m->blob.n || m->text.n >= sizeof server.space)
        fail("register the job", PMIX_ERR_BAD_PARAM);
    memcpy(server.space, m->text.p, m->text.n);
    server.node = m->id;
    server.base = (uint32_t) m->number;
    register_space(hosts, end + 1);
    for (i = 0; i < server.n_local; i++)
        register_client(server.base + i);
    tell(&(struct pmixmsg) { .type = PMIXMSG_READY });
}

static void on_data(pmix_status_t status, char *data, size_t n, void *ctx)
{
    uint32_t *id = ctx;

    tell(&(struct pmixmsg) {
        .type = PMIXMSG_ANSWER,
        .id = *id,
        .number = status == PMIX_SUCCESS ? 0 : -ENOENT,
        .blob = { (const uint8_t *) data, status == PMIX_SUCCESS ? n : 0 },
    });
    free(id);
}

static void give_data(const struct pmixmsg *m)
{
    uint32_t   *id = must(malloc(sizeof *id));
    pmix_proc_t proc;

    *id = m->id;
    name_rank(&proc, (uint32_t) m->number);
    if (PMIx_server_dmodex_request(&proc, on_data, id) != PMIX_SUCCESS)
        on_data(PMIX_ERR_NOT_FOUND, NULL, 0, id);
}

static void obey(const struct pmixmsg *m)
{
    switch (m->type) {
    case PMIXMSG_REGISTER:
        take_job(m);
        break;
    case PMIXMSG_FENCE_DONE: case PMIXMSG_ANSWER:
        answered(m);
        break;
    case PMIXMSG_ASK:
        give_data(m);
        break;
    case PMIXMSG_ENV: case PMIXMSG_READY: case PMIXMSG_FAILED: case PMIXMSG_FENCE: case PMIXMSG_ABORTED: case PMIXMSG_INSIDE:
    case PMIXMSG_N_TYPES:
        break; /* ours to say */
    }
}

static bool read_more(struct cc_buf *in)
{
    uint8_t *at = must(cc_buf_grow(in, READ_SIZE));
    ssize_t  n;

    do
        n = read(SOCKET_FD, at, READ_SIZE);
    while (n < 0 && errno == EINTR);
    in->len -= READ_SIZE - (n > 0 ? (size_t) n : 0);
    return n > 0;
}

/* Until the agent closes the socket. */
static void serve(void)
{
    struct cc_buf  in = { .p = NULL };
    struct pmixmsg m;
    ssize_t        n;

    while (read_more(&in)) {
        while ((n = pmixmsg_take(cc_buf_data(&in), cc_buf_len(&in), &m)) > 0) {
            obey(&m);
            cc_buf_drop(&in, (size_t) n);
        }
        if (n < 0)
            fail("read what the agent says", PMIX_ERR_BAD_PARAM);
    }
}

/* What ends a job by a signal to all of its processes ends the workers first; they may want us until then. */
static void ignore_signals(void)
{
    static const int numbers[] = { SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    size_t           i;

    for (i = 0; i < CC_COUNT(numbers); i++)
        (void) sigaction(numbers[i], &ignore, NULL);
}

int main(int argc, char **argv)
{
    pmix_info_t   infos[3];
    pmix_status_t r;

    if (argc != 3) {
        (void) fprintf(stderr, "ccrun-pmix: started by ccrun for workers of Open MPI, not by people\n");
        return 2;
    }
    ignore_signals();
    (void) PMIx_Info_load(&infos[0], PMIX_SERVER_TMPDIR, argv[1], PMIX_STRING);
    (void) PMIx_Info_load(&infos[1], PMIX_SYSTEM_TMPDIR, argv[1], PMIX_STRING);
    (void) PMIx_Info_load(&infos[2], PMIX_HOSTNAME, argv[2], PMIX_STRING);
    r = PMIx_server_init(&module, infos, CC_COUNT(infos));
    if (r != PMIX_SUCCESS)
        fail("start a server", r);
    serve();
    _exit(0); /* what the library has open needs no closing, and its files are the agent's to remove */
}
