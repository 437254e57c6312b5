#include "backends/gloo_shim.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace
{

using std::chrono::milliseconds;
using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

/* A store's failure on its way through gloo. */
struct StoreFailed {
    gloo_shim_error err;
};

/* Blocks signals in this thread, and so in those that it starts: SIGPIPE, or all.  One that came meanwhile is
 * taken away again, unless it was there before. */
class SignalGuard
{
  public:
    explicit SignalGuard(bool is_all)
    {
        sigset_t block, pending;

        sigemptyset(&block);
        sigaddset(&block, SIGPIPE);
        if (is_all)
            sigfillset(&block);
        sigpending(&pending);
        had_pipe_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &block, &before_);
    }

    ~SignalGuard()
    {
        const timespec now = {};
        sigset_t       pipe;

        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        if (!had_pipe_)
            while (sigtimedwait(&pipe, nullptr, &now) == SIGPIPE)
                ;
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

    SignalGuard(const SignalGuard &) = delete;
    SignalGuard &operator=(const SignalGuard &) = delete;

  private:
    sigset_t before_;
    bool     had_pipe_;
};

class Store : public gloo::rendezvous::Store
{
  public:
    explicit Store(const gloo_shim_store &s) : s_(s)
    {
    }

    void set(const std::string &key, const std::vector<char> &data) override
    {
        StoreFailed f;

        if (s_.set(s_.ctx, key.c_str(), data.data(), data.size(), &f.err) < 0)
            throw f;
    }

    std::vector<char> get(const std::string &key) override
    {
        StoreFailed f;
        void       *p = nullptr;
        size_t      n = 0;

        if (s_.get(s_.ctx, key.c_str(), &p, &n, &f.err) < 0)
            throw f;
        std::unique_ptr<void, void (*)(void *)> owner(p, free);
        return std::vector<char>(static_cast<char *>(p), static_cast<char *>(p) + n);
    }

    void wait(const std::vector<std::string> &keys) override
    {
        for (const auto &key : keys)
            get(key);
    }

    void wait(const std::vector<std::string> &keys, const milliseconds &) override
    {
        wait(keys); /* the store has a deadline of its own */
    }

  private:
    gloo_shim_store s_;
};

struct Group {
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::mutex                                 closing;
    uint32_t                                   n = 0;   /* collectives */
    uint32_t                                   tag = 0; /* of the one that is under way */
};

/* ---- failures in words */

/* Whether the connection to a rank has ended.  gloo tells it only to who uses it; nobody will use this group
 * again. */
bool is_lost(const Group &g, int peer)
{
    const uint64_t unused_slot = 0xffff; /* above every tag */
    char           byte = 0;

    try {
        g.context->createUnboundBuffer(&byte, sizeof byte)->recv(peer, unused_slot);
        return false;
    } catch (...) {
        return true;
    }
}

/* "rank 3", "ranks 3, 5" whose connections have ended; when all have, the others may only have been faster to
 * give up. */
std::string lost_peers(const Group &g)
{
    const int   size = g.context->size;
    std::string list;
    int         n = 0;

    for (int i = 0; i < size; i++)
        if (i != g.context->rank && is_lost(g, i))
            list += (n++ > 0 ? ", " : "") + std::to_string(i);
    if (n == 0)
        return "";
    if (n > 1 && n == size - 1)
        return "every other rank";
    return (n > 1 ? "ranks " : "rank ") + list;
}

/* gloo puts "[../gloo/transport/tcp/pair.cc:589] " in front. */
const char *without_source(const char *what)
{
    const char *end = what[0] == '[' ? strstr(what, "] ") : nullptr;

    return end && memchr(what, ':', static_cast<size_t>(end - what)) ? end + 2 : what;
}

int fail(gloo_shim_error *err, int code, const std::string &text)
{
    err->code = code;
    (void) snprintf(err->text, sizeof err->text, "%s", text.c_str());
    return code;
}

/* Called in a catch block. */
int explain(gloo_shim_error *err, const Group *g)
{
    try {
        throw;
    } catch (const StoreFailed &f) {
        *err = f.err;
        return err->code;
    } catch (const std::bad_alloc &) {
        return fail(err, -ENOMEM, "no memory");
    } catch (const std::exception &e) {
        const bool  is_late = strstr(e.what(), "imed out") || strstr(e.what(), "timeout");
        std::string who;

        try {
            who = g && g->context && !is_late ? lost_peers(*g) : "";
        } catch (...) { /* a name less */
        }
        return fail(err, is_late ? -ETIMEDOUT : -ECONNRESET,
                    (who.empty() ? "" : "lost " + who + ": ") + without_source(e.what()));
    } catch (...) {
        return fail(err, -EIO, "gloo failed in a way of its own");
    }
}

int explain_call(gloo_shim_error *err, const Group *g, const gloo_shim_call &c)
{
    char late[160];
    int  n, code = explain(err, g);

    if (code != -ETIMEDOUT)
        return code;
    n = snprintf(late, sizeof late, "not done within %.3g s", static_cast<double>(c.timeout_ms) / 1000);
    if (c.what == CCRUN_SEND || c.what == CCRUN_RECV)
        (void) snprintf(late + n, sizeof late - static_cast<size_t>(n),
                        ": rank %d has %s nothing of %zu bytes", c.peer,
                        c.what == CCRUN_SEND ? "received" : "sent", c.count * c.width);
    return fail(err, code, late);
}

milliseconds limit(uint64_t ms)
{
    const uint64_t a_year = 365ull * 24 * 3600 * 1000; /* more would overflow gloo's clocks */

    return milliseconds(static_cast<int64_t>(std::clamp<uint64_t>(ms, 1, a_year)));
}

/* ---- the calls; T is an unsigned integer as wide as an element */

template <typename T> T *out_of(const gloo_shim_call &c)
{
    return static_cast<T *>(c.recv);
}

template <typename T> T *in_of(const gloo_shim_call &c)
{
    return static_cast<T *>(const_cast<void *>(c.send)); /* gloo only reads it, and does not say so */
}

template <typename T> void all_reduce(Group &g, const gloo_shim_call &c)
{
    gloo::AllreduceOptions o(g.context);

    if (c.send != c.recv)
        o.setInput(in_of<T>(c), c.count);
    o.setOutput(out_of<T>(c), c.count);
    o.setReduceFunction(c.reduce);
    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::allreduce(o);
}

/* Every rank needs room for partial sums: the root's is the result. */
template <typename T> void reduce(Group &g, const gloo_shim_call &c)
{
    const bool          is_root = c.peer == g.context->rank;
    std::vector<T>      room(is_root ? 0 : c.count);
    gloo::ReduceOptions o(g.context);

    if (!is_root || c.send != c.recv)
        o.setInput(in_of<T>(c), c.count);
    o.setOutput(is_root ? out_of<T>(c) : room.data(), c.count);
    o.setRoot(c.peer);
    o.setReduceFunction(c.reduce);
    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::reduce(o);
}

template <typename T> void broadcast(Group &g, const gloo_shim_call &c)
{
    gloo::BroadcastOptions o(g.context);

    o.setOutput(out_of<T>(c), c.count);
    o.setRoot(c.peer);
    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::broadcast(o);
}

template <typename T> void all_gather(Group &g, const gloo_shim_call &c)
{
    gloo::AllgatherOptions o(g.context);
    const size_t           n = static_cast<size_t>(g.context->size);

    if (c.send != out_of<T>(c) + static_cast<size_t>(g.context->rank) * c.count)
        o.setInput(in_of<T>(c), c.count);
    o.setOutput(out_of<T>(c), c.count * n);
    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::allgather(o);
}

template <typename T> void gather(Group &g, const gloo_shim_call &c)
{
    gloo::GatherOptions o(g.context);

    o.setInput(in_of<T>(c), c.count);
    if (c.peer == g.context->rank)
        o.setOutput(out_of<T>(c), c.count * static_cast<size_t>(g.context->size));
    o.setRoot(c.peer);
    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::gather(o);
}

template <typename T> void scatter(Group &g, const gloo_shim_call &c)
{
    gloo::ScatterOptions o(g.context);
    std::vector<T *>     parts;

    for (size_t i = 0; c.peer == g.context->rank && i < static_cast<size_t>(g.context->size); i++)
        parts.push_back(in_of<T>(c) + i * c.count);
    if (!parts.empty())
        o.setInputs(parts, c.count);
    o.setOutput(out_of<T>(c), c.count);
    o.setRoot(c.peer);
    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::scatter(o);
}

template <typename T> void all_to_all(Group &g, const gloo_shim_call &c)
{
    gloo::AlltoallOptions o(g.context);
    const size_t          n = c.count * static_cast<size_t>(g.context->size);

    o.setInput(in_of<T>(c), n);
    o.setOutput(out_of<T>(c), n);
    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::alltoall(o);
}

void barrier(Group &g, const gloo_shim_call &c)
{
    gloo::BarrierOptions o(g.context);

    o.setTag(g.tag);
    o.setTimeout(limit(c.timeout_ms));
    gloo::barrier(o);
}

/* gloo throws in a thread of its own, which ends the process, when more arrives than is waited for: so the
 * size is part of the slot.  The first bit is set in no slot of a collective. */
uint64_t slot_of(const gloo_shim_call &c)
{
    return uint64_t{ 1 } << 63 | static_cast<uint64_t>(c.count * c.width) << 15 |
           static_cast<uint64_t>(c.tag);
}

Buffer post(Group &g, const gloo_shim_call &c)
{
    const bool   is_send = c.what == CCRUN_SEND;
    const size_t n = c.count * c.width;
    Buffer       b = g.context->createUnboundBuffer(is_send ? const_cast<void *>(c.send) : c.recv, n);

    if (is_send)
        b->send(c.peer, slot_of(c));
    else
        b->recv(c.peer, slot_of(c));
    return b;
}

void await(const gloo_shim_call &c, Buffer &b)
{
    const bool is_done =
        c.what == CCRUN_SEND ? b->waitSend(limit(c.timeout_ms)) : b->waitRecv(limit(c.timeout_ms));

    if (!is_done)
        throw std::runtime_error("the wait was given up");
}

/* The number of the call keeps two collectives apart, and the digest those that do not fit together: what is
 * left of these waits for its deadline, as with slot_of().  Messages are not counted: of these one rank may
 * have more than another. */
template <typename T> void dispatch(Group &g, const gloo_shim_call &c)
{
    if (c.what != CCRUN_SEND && c.what != CCRUN_RECV)
        g.tag = ++g.n << 16 | c.digest;
    switch (c.what) {
    case CCRUN_ALL_REDUCE: return all_reduce<T>(g, c);
    case CCRUN_REDUCE: return reduce<T>(g, c);
    case CCRUN_BROADCAST: return broadcast<T>(g, c);
    case CCRUN_ALL_GATHER: return all_gather<T>(g, c);
    case CCRUN_GATHER: return gather<T>(g, c);
    case CCRUN_SCATTER: return scatter<T>(g, c);
    case CCRUN_ALL_TO_ALL: return all_to_all<T>(g, c);
    case CCRUN_BARRIER: return barrier(g, c);
    case CCRUN_SEND:
    case CCRUN_RECV: {
        Buffer b = post(g, c);

        return await(c, b);
    }
    case CCRUN_REDUCE_SCATTER:
    default: throw std::logic_error("no such call");
    }
}

int shim_run(void *ctx, const gloo_shim_call *call, gloo_shim_error *err)
{
    Group      &g = *static_cast<Group *>(ctx);
    SignalGuard guard(false);

    try {
        switch (call->width) {
        case 1: dispatch<uint8_t>(g, *call); break;
        case 2: dispatch<uint16_t>(g, *call); break;
        case 4: dispatch<uint32_t>(g, *call); break;
        default: dispatch<uint64_t>(g, *call); break;
        }
        return 0;
    } catch (...) {
        return explain_call(err, &g, *call);
    }
}

/* ---- requests: gloo cannot be asked whether a message has come, only waited with; and when that wait is
 * over without one, it gives up the whole group.  So a thread waits. */

struct Pending {
    gloo_shim_call          call;
    Group                  *group;
    Buffer                  buffer;
    std::mutex              lock;
    std::condition_variable change;
    bool                    is_done = false;
    int                     code = 0;
    gloo_shim_error         err = {};
    std::thread             waiter;
};

void wait_for(Pending *p)
{
    int             code = 0;
    gloo_shim_error err = {};

    try {
        await(p->call, p->buffer);
    } catch (...) {
        code = explain_call(&err, p->group, p->call);
    }
    std::lock_guard<std::mutex> lock(p->lock);
    p->code = code;
    p->err = err;
    p->is_done = true;
    p->change.notify_all();
}

int shim_start(void *ctx, const gloo_shim_call *call, void **ret, gloo_shim_error *err)
{
    Group      &g = *static_cast<Group *>(ctx);
    SignalGuard guard(true);

    try {
        auto p = std::make_unique<Pending>();

        p->call = *call;
        p->group = &g;
        p->buffer = post(g, *call);
        p->waiter = std::thread(wait_for, p.get());
        *ret = p.release();
        return 0;
    } catch (...) {
        return explain(err, &g);
    }
}

int shim_poll(void *handle, uint64_t wait_ms, gloo_shim_error *err)
{
    auto *p = static_cast<Pending *>(handle);
    int   code;

    {
        std::unique_lock<std::mutex> lock(p->lock);

        if (!p->change.wait_for(lock, limit(wait_ms + 1) - milliseconds(1), [p] { return p->is_done; }))
            return -EAGAIN;
        code = p->code;
        *err = p->err;
    }
    p->waiter.join();
    SignalGuard guard(false);

    delete p;
    return code;
}

/* ---- the life of a group */

int shim_open(void **ret, const gloo_shim_cfg *cfg, gloo_shim_error *err)
{
    SignalGuard guard(true);
    auto        g = std::unique_ptr<Group>(new (std::nothrow) Group);

    if (!g)
        return fail(err, -ENOMEM, "no memory");
    try {
        gloo::transport::tcp::attr attr;
        Store                      store(cfg->store);

        if (cfg->interface)
            attr.iface = cfg->interface;
        else
            attr.hostname = cfg->address;

        auto device = gloo::transport::tcp::CreateDevice(attr);

        g->context = std::make_shared<gloo::rendezvous::Context>(cfg->rank, cfg->size);
        g->context->setTimeout(limit(cfg->timeout_ms / 5)); /* it takes five times that to connect */
        g->context->connectFullMesh(store, device);
        g->context->setTimeout(limit(cfg->timeout_ms));
        *ret = g.release();
        return 0;
    } catch (...) {
        return explain(err, nullptr);
    }
}

void shim_abort(void *ctx)
{
    Group                      &g = *static_cast<Group *>(ctx);
    SignalGuard                 guard(false);
    std::lock_guard<std::mutex> lock(g.closing);

    /* Closing the connections wakes nobody here.  A wait that is over in vain does: gloo gives up the group
     * then. */
    try {
        char byte = 0;

        (void) g.context->createUnboundBuffer(&byte, sizeof byte)->waitRecv(milliseconds(1));
    } catch (...) {
    }
    try {
        g.context->closeConnections();
    } catch (...) { /* they are closed, or were before */
    }
}

void shim_close(void *ctx)
{
    SignalGuard guard(false);

    delete static_cast<Group *>(ctx);
}

} // namespace

extern "C" __attribute__((visibility("default"))) const gloo_shim ccrun_gloo_shim = {
    GLOO_SHIM_VERSION,
    shim_open,
    shim_run,
    shim_start,
    shim_poll,
    shim_abort,
    shim_close,
    reinterpret_cast<const void *>(&gloo::barrier),
};
