/* gloo.c - the backend on CPU memory over TCP: libccrun-gloo.so, loaded when it is asked for. */
#include <assert.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/buildid.h"
#include "backends/calltext.h"
#include "backends/gloo_shim.h"
#include "backends/lastwords.h"
#include "backends/reduce.h"
#include "backends/selfpath.h"
#include "store/base/cleanup.h"
#include "store/base/macros.h"
#include "store/core/siphash.h"

enum { ADDRESS_MAX = 256 };

struct gloo {
    const struct gloo_shim *shim;
    void                   *g;
    int                     rank, size;
    struct lastwords       *words; /* NULL: there is nobody else */
};

struct store_ctx {
    struct keystore *store;
    uint64_t         timeout_ms;
};

/* ---- the library */

/* Beside libccrun in "ccrun/", or where it was installed. It stays loaded: threads of it may still be
 * running. */
static int load(const struct gloo_shim **ret, struct cc_err *err)
{
    static const char *const places[] = { "ccrun/libccrun-gloo.so", "../lib/ccrun/libccrun-gloo.so",
                                          "../../lib/ccrun/libccrun-gloo.so" };
    char                     path[SELFPATH_MAX];
    void                    *lib = NULL;
    const char              *why = "";

    for (size_t i = 0; !lib && i < CC_COUNT(places); i++)
        if (selfpath(path, places[i]) && access(path, F_OK) == 0 &&
            !(lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
            return cc_fail(err, -ENOENT, "cannot load it: %s", (why = dlerror()) ? why : path);
    if (!lib)
        lib = dlopen("libccrun-gloo.so", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return cc_fail(err, -ENOENT,
                       "libccrun-gloo.so is not in the folder ccrun/ beside libccrun: it is built where "
                       "libgloo-dev is installed");
    *ret = dlsym(lib, "ccrun_gloo_shim");
    if (!*ret || (*ret)->version != GLOO_SHIM_VERSION)
        return cc_fail(err, -ENOENT,
                       "libccrun-gloo.so is of another version than libccrun: install both from one build");
    return 0;
}

static int gloo_probe(const char *device, char ret_place[BACKEND_PLACE_MAX], struct cc_err *err)
{
    const struct gloo_shim *shim;

    ret_place[0] = '\0';
    (void) device;
    return load(&shim, err);
}

/* gloo has no version; what tells one build from another is the id that the linker gave it. */
static int gloo_version(char ret[BACKEND_VERSION_MAX], struct cc_err *err)
{
    const struct gloo_shim *shim = NULL;
    char                    id[BUILDID_TEXT_MAX];
    int                     r = load(&shim, err);

    if (r < 0)
        return r;
    assert(shim);
    (void) snprintf(ret, BACKEND_VERSION_MAX, "build %s", buildid_of(shim->library, id));
    return 0;
}

/* ---- the store, for the shim */

static int tell(struct gloo_shim_error *to, int code, const struct cc_err *err)
{
    to->code = code;
    (void) snprintf(to->text, sizeof to->text, "%.*s", (int) sizeof to->text - 1, err->msg);
    return code;
}

static int store_set(void *ctx, const char *key, const void *value, size_t n, struct gloo_shim_error *ret)
{
    struct store_ctx *s = ctx;
    struct cc_err     err;
    int               r = keystore_set(s->store, key, (struct cc_bytes){ value, n }, &err);

    return r < 0 ? tell(ret, r, &err) : 0;
}

static int store_get(void *ctx, const char *key, void **value, size_t *n, struct gloo_shim_error *ret)
{
    struct store_ctx *s = ctx;
    struct cc_buf     v = { 0 };
    struct cc_err     err;
    int               r = keystore_get(s->store, key, s->timeout_ms, &v, &err);

    if (r == -ETIMEDOUT)
        (void) cc_fail(&err, r, "rank %s has not published its address within %.3g s", key,
                       (double) s->timeout_ms / 1000);
    if (r < 0)
        return tell(ret, r, &err);
    *n = cc_buf_len(&v);
    *value = malloc(*n + 1);
    if (*value && *n > 0)
        memcpy(*value, cc_buf_data(&v), *n);
    cc_buf_free(&v);
    return *value ? 0 : tell(ret, cc_fail(&err, -ENOMEM, "no memory"), &err);
}

/* ---- where the others reach us */

static bool is_numeric(const char *text)
{
    struct in6_addr a;

    return inet_pton(AF_INET, text, &a) == 1 || inet_pton(AF_INET6, text, &a) == 1;
}

/* Whether a name or an address means one of this machine: gloo would fail to listen on another. */
static bool is_ours(const char *host)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    CC_AUTO_FD int  fd = -1;
    bool            is_bound;

    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_bound = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0;
    freeaddrinfo(list);
    return is_bound;
}

static bool has_address(const struct ifaddrs *a)
{
    return a->ifa_addr && (a->ifa_addr->sa_family == AF_INET || a->ifa_addr->sa_family == AF_INET6);
}

/* Looks for one of that name between `a` and `end`. */
static bool is_between(const struct ifaddrs *a, const struct ifaddrs *end, const char *name)
{
    for (; a != end; a = a->ifa_next)
        if (has_address(a) && strcmp(a->ifa_name, name) == 0)
            return true;
    return false;
}

/* -EINVAL names those that there are. */
static int check_interface(const char *name, struct cc_err *err)
{
    struct ifaddrs *all = NULL;
    char            names[ADDRESS_MAX] = "";
    size_t          n = 0;
    int             r = 0;

    if (getifaddrs(&all) < 0)
        return cc_fail(err, -errno, "cannot list the interfaces of this machine: %s", strerror(errno));
    for (const struct ifaddrs *a = all; a; a = a->ifa_next)
        if (n < sizeof names && has_address(a) && !is_between(all, a, a->ifa_name))
            n += (size_t) snprintf(names + n, sizeof names - n, "%s%s", n > 0 ? ", " : "", a->ifa_name);
    if (!is_between(all, NULL, name))
        r = cc_fail(err, -EINVAL, "this machine has no interface '%.40s' with an address; there are: %s",
                    name, names);
    freeifaddrs(all);
    return r;
}

/* What was asked for, GLOO_SOCKET_IFNAME (the first of a list), the address that reaches the store, our name
 * if it means an address of ours. */
static int choose_address(const struct backend_cfg *cfg, char buf[ADDRESS_MAX], struct gloo_shim_cfg *ret,
                          struct cc_err *err)
{
    const char *wanted = cfg->interface && *cfg->interface ? cfg->interface : getenv("GLOO_SOCKET_IFNAME");

    if (wanted && *wanted) {
        (void) snprintf(buf, ADDRESS_MAX, "%.*s", (int) strcspn(wanted, ","), wanted);
        if (!is_numeric(buf)) {
            ret->interface = buf;
            return check_interface(buf, err);
        }
        ret->address = buf;
        return is_ours(buf) ? 0
                            : cc_fail(err, -EINVAL, "no interface of this machine has the address %s", buf);
    }
    if (!keystore_own_address(cfg->store, buf, ADDRESS_MAX) &&
        (gethostname(buf, ADDRESS_MAX - 1) < 0 || !is_ours(buf)))
        (void) snprintf(buf, ADDRESS_MAX, "127.0.0.1");
    ret->address = buf;
    return 0;
}

static int connect_all(struct gloo *b, const struct backend_cfg *cfg, struct cc_err *err)
{
    struct store_ctx       s = { cfg->store, cfg->timeout_ms };
    struct gloo_shim_cfg   c = { .rank = cfg->rank, .size = cfg->size, .timeout_ms = cfg->timeout_ms };
    struct gloo_shim_error why = { 0 };
    char                   address[ADDRESS_MAX];
    int                    r = choose_address(cfg, address, &c, err);

    if (r < 0)
        return r;
    c.store = (struct gloo_shim_store){ &s, store_set, store_get };
    r = b->shim->open(&b->g, &c, &why);
    return r < 0 ? cc_fail(err, r, "connecting from %s: %s", address, why.text) : 0;
}

static int gloo_open(void **ret, struct backend_cfg *cfg, struct cc_err *err)
{
    struct gloo *b = calloc(1, sizeof *b);
    int          r;

    if (!b)
        return cc_fail(err, -ENOMEM, "no memory");
    b->rank = cfg->rank;
    b->size = cfg->size;
    r = load(&b->shim, err);
    assert(r < 0 || b->shim);
    if (r == 0 && b->size > 1)
        r = lastwords_open(&b->words, cfg->store, cfg->rank, cfg->size, err);
    if (r == 0)
        r = connect_all(b, cfg, err);
    if (r < 0) {
        (void) lastwords_free(b->words);
        free(b);
    } else {
        *ret = b;
    }
    return r;
}

/* ---- calls */

static uint16_t digest(const struct ccrun_call *c)
{
    static const uint64_t key[2] = { 0 }; /* the same for all */
    char                  text[CALLTEXT_MAX];

    return c->what == CCRUN_SEND || c->what == CCRUN_RECV
               ? 0
               : (uint16_t) siphash13(key, cc_bytes_of(calltext(c, text)));
}

static struct gloo_shim_call translate(const struct ccrun_call *c, uint64_t timeout_ms)
{
    struct gloo_shim_call r = { .what = c->what,
                                .send = c->send,
                                .recv = c->recv,
                                .count = c->count,
                                .width = c->what == CCRUN_BARRIER ? 1 : type_size(c->type),
                                .peer = c->peer,
                                .tag = c->tag,
                                .timeout_ms = timeout_ms };

    if (c->what == CCRUN_ALL_REDUCE || c->what == CCRUN_REDUCE)
        r.reduce = reduce_of(c->op, c->type);
    r.digest = digest(c);
    return r;
}

/* gloo has none: everyone's part of everyone, reduced here in the order of ranks. */
static int reduce_scatter(struct gloo *b, const struct ccrun_call *c, uint64_t timeout_ms,
                          struct gloo_shim_error *why)
{
    struct gloo_shim_call call = translate(c, timeout_ms);
    size_t                bytes = c->count * call.width;
    CC_AUTO_FREE char    *parts = malloc(bytes * (size_t) b->size);
    reduce_fn            *reduce = reduce_of(c->op, c->type);
    int                   r;

    if (!parts) {
        (void) snprintf(why->text, sizeof why->text, "no memory for %zu bytes of %d ranks", bytes, b->size);
        return -ENOMEM;
    }
    call.what = CCRUN_ALL_TO_ALL;
    call.recv = parts;
    r = b->shim->run(b->g, &call, why);
    if (r < 0)
        return r;
    memcpy(c->recv, parts, bytes);
    for (int i = 1; i < b->size; i++)
        reduce(c->recv, c->recv, parts + (size_t) i * bytes, c->count);
    return 0;
}

/* "lost rank 0: Connection closed by peer ...": rank 0 may have ended, or have given up, as rank 2 had ended
 * before.  Whoever gives up says why before it closes its connections, so those words are there. */
static void add_cause(struct gloo *b, struct cc_err *err)
{
    char lost[GLOO_SHIM_ERROR_MAX];

    (void) snprintf(lost, sizeof lost, "%.*s", (int) strcspn(err->msg, ":") + 1, err->msg);
    lastwords_add_first(b->words, lost, err);
}

/* gloo knows whose connection has ended, but not why, nor for whom a call has waited in vain: the ranks tell
 * each other where they were. */
static int mourn(struct gloo *b, const struct ccrun_call *c, struct cc_err *err)
{
    char        text[CALLTEXT_MAX];
    const char *doing = calltext(c, text);
    int         code = err->code;

    if (!b->words || c->what == CCRUN_SEND || c->what == CCRUN_RECV)
        return code;
    lastwords_say(b->words, doing, err->msg);
    b->shim->abort(b->g);
    if (code == -ETIMEDOUT)
        lastwords_ask(b->words, doing, true, err);
    else if (code == -ECONNRESET)
        add_cause(b, err);
    return code;
}

static int gloo_run(void *ctx, const struct ccrun_call *c, uint64_t timeout_ms, struct cc_err *err)
{
    struct gloo           *b = ctx;
    struct gloo_shim_call  call = translate(c, timeout_ms);
    struct gloo_shim_error why = { 0 };
    int                    r = c->what == CCRUN_REDUCE_SCATTER ? reduce_scatter(b, c, timeout_ms, &why)
                                                               : b->shim->run(b->g, &call, &why);

    if (r < 0) {
        (void) cc_fail(err, r, "%s", why.text);
        return mourn(b, c, err);
    }
    if (c->what == CCRUN_ALL_REDUCE || c->what == CCRUN_REDUCE_SCATTER ||
        (c->what == CCRUN_REDUCE && c->peer == b->rank))
        reduce_finish(c->op, c->type, c->recv, c->count, b->size);
    return 0;
}

static int gloo_start(void *ctx, const struct ccrun_call *c, uint64_t timeout_ms, void **ret_handle,
                      struct cc_err *err)
{
    struct gloo           *b = ctx;
    struct gloo_shim_call  call = translate(c, timeout_ms);
    struct gloo_shim_error why = { 0 };
    int                    r;

    if (c->what != CCRUN_SEND && c->what != CCRUN_RECV)
        return -ENOSYS;
    r = b->shim->start(b->g, &call, ret_handle, &why);
    return r < 0 ? cc_fail(err, r, "%s", why.text) : 0;
}

static int gloo_poll(void *ctx, void *handle, uint64_t wait_ms, struct cc_err *err)
{
    struct gloo           *b = ctx;
    struct gloo_shim_error why = { 0 };
    int                    r = b->shim->poll(handle, wait_ms, &why);

    return r < 0 && r != -EAGAIN ? cc_fail(err, r, "%s", why.text) : r;
}

static void gloo_abort(void *ctx)
{
    struct gloo *b = ctx;

    b->shim->abort(b->g);
}

static void gloo_close(void *ctx)
{
    struct gloo *b = ctx;

    b->shim->close(b->g);
    (void) lastwords_free(b->words);
    free(b);
}

const struct backend backend_gloo = {
    .name = "gloo",
    .needs_store = true,
    .starts_beside = true,
    .probe = gloo_probe,
    .version = gloo_version,
    .open = gloo_open,
    .run = gloo_run,
    .start = gloo_start,
    .poll = gloo_poll,
    .abort = gloo_abort,
    .close = gloo_close,
};
