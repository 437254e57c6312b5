/* fakecuda.c - a double of libcuda.so.1 for tests without a GPU: devices whose memory the host cannot touch.
 *
 * A device address is that of pages without access; the bytes are mapped a second time, which only this
 * library and the double of NCCL know (fake_cuda_host()).  A stream is a thread that works off a queue.  It
 * is stricter than the driver: calls without a context fail, a copy from or to the host waits for everything
 * before it in its stream (as the driver may), and what is left when the last user of a device goes is told,
 * and fatal.
 *
 *   FAKE_CUDA_DEVICES=N    so many (8); 0: cuInit() finds none
 *   FAKE_CUDA_VERSION=N    of the driver (13000)
 *   FAKE_CUDA_NO_MEMORY=1  nothing larger than a page can be had
 *   FAKE_CUDA_NO_KERNEL=1  PTX is of a version that it does not know
 *   FAKE_CUDA_WRONG=1      the kernel that fills makes a mistake
 *
 * Of kernels it knows those of ccrun-check, by name, and runs them itself.
 */
#include "tests/support/fake/fakecuda.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_DEVICES = 64,
    MAX_DEPTH = 16,
    PAGE = 4096,
    INVALID_VALUE = 1,
    INVALID_CONTEXT = 201,
    UNSUPPORTED_PTX = 222,
    NOT_FOUND = 500,
    PERIOD = 13,
};

struct cu_ctx {
    int ordinal, n_users;
};

struct memory {
    char          *address, *host;
    size_t         size;
    int            ordinal;
    struct memory *next;
};

struct task {
    void (*run)(void *arg);
    void        *arg;
    struct task *next;
};

struct cu_st {
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  change;
    struct task    *first, *last;
    bool            is_busy, is_ending;
};

struct cu_ev {
    pthread_mutex_t lock;
    unsigned        n_recorded, n_reached;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct cu_ctx   primary[MAX_DEVICES];
static struct memory  *memory;
static int             n_streams, n_events, n_modules;

static _Thread_local struct cu_ctx *stack[MAX_DEPTH];
static _Thread_local int            depth;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? (int) strtol(text, NULL, 10) : otherwise;
}

static void fatal(const char *what)
{
    (void) fprintf(stderr, "fake CUDA: %s\n", what);
    abort();
}

static struct cu_ctx *current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

/* ---- devices and contexts */

CUresult cuInit(unsigned flags)
{
    return flags != 0 ? INVALID_VALUE : number("FAKE_CUDA_DEVICES", 8) == 0 ? CU_NO_DEVICE : CU_OK;
}

CUresult cuDriverGetVersion(int *ret)
{
    *ret = number("FAKE_CUDA_VERSION", 13000);
    return CU_OK;
}

CUresult cuGetErrorName(CUresult code, const char **ret)
{
    *ret = code == CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_FAKE";
    return CU_OK;
}

CUresult cuGetErrorString(CUresult code, const char **ret)
{
    *ret = code == CU_OUT_OF_MEMORY  ? "out of memory"
           : code == INVALID_CONTEXT ? "invalid device context"
                                     : "error";
    return CU_OK;
}

CUresult cuDeviceGetCount(int *ret)
{
    *ret = number("FAKE_CUDA_DEVICES", 8);
    return CU_OK;
}

CUresult cuDeviceGet(int *ret, int ordinal)
{
    if (ordinal < 0 || ordinal >= number("FAKE_CUDA_DEVICES", 8) || ordinal >= MAX_DEVICES)
        return CU_INVALID_DEVICE;
    *ret = ordinal;
    return CU_OK;
}

/* The N-th of CUDA_VISIBLE_DEVICES, or the N-th of all. */
CUresult cuDeviceGetPCIBusId(char *ret, int size, int device)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int         bus = device;

    for (int i = 0; visible && i <= device; i++) {
        char *end;

        bus = (int) strtol(visible, &end, 10);
        visible = *end == ',' ? end + 1 : NULL;
    }
    (void) snprintf(ret, (size_t) size, "0000:%02X:00.0", (unsigned) bus & 0xff);
    return CU_OK;
}

CUresult cuDevicePrimaryCtxRetain(struct cu_ctx **ret, int device)
{
    (void) pthread_mutex_lock(&lock);
    primary[device].ordinal = device;
    primary[device].n_users++;
    (void) pthread_mutex_unlock(&lock);
    *ret = &primary[device];
    return CU_OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device)
{
    bool is_last = true;

    (void) pthread_mutex_lock(&lock);
    if (--primary[device].n_users < 0)
        fatal("a context was released too often");
    for (int i = 0; i < MAX_DEVICES; i++)
        is_last = is_last && primary[i].n_users == 0;
    if (is_last && (memory || n_streams > 0 || n_events > 0 || n_modules > 0))
        fatal("memory, streams, events or modules are left");
    (void) pthread_mutex_unlock(&lock);
    return CU_OK;
}

CUresult cuCtxPushCurrent_v2(struct cu_ctx *context)
{
    if (depth == MAX_DEPTH)
        fatal("contexts are not popped");
    stack[depth++] = context;
    return CU_OK;
}

CUresult cuCtxPopCurrent_v2(struct cu_ctx **ret)
{
    if (depth == 0)
        return INVALID_CONTEXT;
    *ret = stack[--depth];
    return CU_OK;
}

CUresult cuCtxGetDevice(int *ret)
{
    if (!current())
        return INVALID_CONTEXT;
    *ret = current()->ordinal;
    return CU_OK;
}

/* ---- streams */

static void *work_off(void *arg)
{
    struct cu_st *s = arg;

    (void) pthread_mutex_lock(&s->lock);
    for (;;) {
        struct task *t = s->first;

        s->is_busy = t != NULL;
        if (!t) {
            (void) pthread_cond_broadcast(&s->change);
            if (s->is_ending)
                break;
            (void) pthread_cond_wait(&s->change, &s->lock);
            continue;
        }
        s->first = t->next;
        if (!s->first)
            s->last = NULL;
        (void) pthread_mutex_unlock(&s->lock);
        t->run(t->arg);
        free(t);
        (void) pthread_mutex_lock(&s->lock);
    }
    (void) pthread_mutex_unlock(&s->lock);
    return NULL;
}

CUresult cuStreamCreate(struct cu_st **ret, unsigned flags)
{
    struct cu_st *s = calloc(1, sizeof *s);
    sigset_t      all, before;
    int           r;

    if (!current() || !s || flags > CU_STREAM_OWN) {
        free(s);
        return current() ? INVALID_VALUE : INVALID_CONTEXT;
    }
    (void) pthread_mutex_init(&s->lock, NULL);
    (void) pthread_cond_init(&s->change, NULL);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&s->thread, NULL, work_off, s);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        fatal("no thread");
    (void) pthread_mutex_lock(&lock);
    n_streams++;
    (void) pthread_mutex_unlock(&lock);
    *ret = s;
    return CU_OK;
}

CUresult cuStreamDestroy_v2(struct cu_st *s)
{
    (void) pthread_mutex_lock(&s->lock);
    s->is_ending = true;
    (void) pthread_cond_broadcast(&s->change);
    (void) pthread_mutex_unlock(&s->lock);
    (void) pthread_join(s->thread, NULL);
    (void) pthread_mutex_destroy(&s->lock);
    (void) pthread_cond_destroy(&s->change);
    free(s);
    (void) pthread_mutex_lock(&lock);
    n_streams--;
    (void) pthread_mutex_unlock(&lock);
    return CU_OK;
}

CUresult cuLaunchHostFunc(struct cu_st *s, void (*run)(void *), void *arg)
{
    struct task *t = calloc(1, sizeof *t);

    if (!t)
        return CU_OUT_OF_MEMORY;
    t->run = run;
    t->arg = arg;
    (void) pthread_mutex_lock(&s->lock);
    if (s->last)
        s->last->next = t;
    else
        s->first = t;
    s->last = t;
    s->is_busy = true;
    (void) pthread_cond_broadcast(&s->change);
    (void) pthread_mutex_unlock(&s->lock);
    return CU_OK;
}

CUresult cuStreamSynchronize(struct cu_st *s)
{
    if (!current())
        return INVALID_CONTEXT;
    (void) pthread_mutex_lock(&s->lock);
    while (s->is_busy || s->first)
        (void) pthread_cond_wait(&s->change, &s->lock);
    (void) pthread_mutex_unlock(&s->lock);
    return CU_OK;
}

/* ---- events */

static void count_event(int by)
{
    (void) pthread_mutex_lock(&lock);
    n_events += by;
    (void) pthread_mutex_unlock(&lock);
}

CUresult cuEventCreate(struct cu_ev **ret, unsigned flags)
{
    struct cu_ev *e = calloc(1, sizeof *e);

    if (!current() || !e || flags > 3) {
        free(e);
        return current() ? INVALID_VALUE : INVALID_CONTEXT;
    }
    (void) pthread_mutex_init(&e->lock, NULL);
    count_event(1);
    *ret = e;
    return CU_OK;
}

static void reach(void *arg)
{
    struct cu_ev *e = arg;

    (void) pthread_mutex_lock(&e->lock);
    e->n_reached++;
    (void) pthread_mutex_unlock(&e->lock);
}

CUresult cuEventRecord(struct cu_ev *e, struct cu_st *s)
{
    (void) pthread_mutex_lock(&e->lock);
    e->n_recorded++;
    (void) pthread_mutex_unlock(&e->lock);
    return cuLaunchHostFunc(s, reach, e);
}

CUresult cuEventQuery(struct cu_ev *e)
{
    bool is_there;

    (void) pthread_mutex_lock(&e->lock);
    is_there = e->n_reached == e->n_recorded;
    (void) pthread_mutex_unlock(&e->lock);
    return is_there ? CU_OK : CU_NOT_READY;
}

/* One that is under way is destroyed when it is reached; here, waited for. */
CUresult cuEventDestroy_v2(struct cu_ev *e)
{
    const struct timespec t = { .tv_nsec = 100000 };

    while (cuEventQuery(e) == CU_NOT_READY)
        (void) nanosleep(&t, NULL);
    (void) pthread_mutex_lock(&e->lock);
    (void) pthread_mutex_unlock(&e->lock);
    (void) pthread_mutex_destroy(&e->lock);
    free(e);
    count_event(-1);
    return CU_OK;
}

/* ---- memory */

static struct memory *find(const char *p)
{
    struct memory *m = memory;

    while (m && (p < m->address || p >= m->address + m->size))
        m = m->next;
    return m;
}

void *fake_cuda_host(const void *address, size_t size)
{
    const char    *p = address;
    struct memory *m;
    void          *r = NULL;

    (void) pthread_mutex_lock(&lock);
    m = find(p);
    if (m && size <= m->size - (size_t) (p - m->address))
        r = m->host + (p - m->address);
    (void) pthread_mutex_unlock(&lock);
    return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t size, struct cu_st *s)
{
    struct memory *m = calloc(1, sizeof *m);
    int            fd;

    if (!m || !current() || !s)
        fatal("memory was asked for without a context or a stream");
    if (size == 0 || (size > PAGE && getenv("FAKE_CUDA_NO_MEMORY"))) {
        free(m);
        return size == 0 ? INVALID_VALUE : CU_OUT_OF_MEMORY;
    }
    fd = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t) size) < 0)
        fatal("no memory");
    m->size = size;
    m->ordinal = current()->ordinal;
    m->address = mmap(NULL, size, PROT_NONE, MAP_SHARED, fd, 0);
    m->host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m->address == MAP_FAILED || m->host == MAP_FAILED)
        fatal("no memory");
    (void) close(fd);
    (void) pthread_mutex_lock(&lock);
    m->next = memory;
    memory = m;
    (void) pthread_mutex_unlock(&lock);
    *ret = (CUdeviceptr) (uintptr_t) m->address;
    return CU_OK;
}

static void release(void *arg)
{
    struct memory *m, **at = &memory;

    (void) pthread_mutex_lock(&lock);
    while (*at && (*at)->address != arg)
        at = &(*at)->next;
    m = *at;
    if (!m)
        fatal("an address was freed that is none");
    *at = m->next;
    (void) pthread_mutex_unlock(&lock);
    (void) munmap(m->address, m->size);
    (void) munmap(m->host, m->size);
    free(m);
}

static void *pointer(CUdeviceptr p)
{
    return (void *) (uintptr_t) p;
}

CUresult cuMemFreeAsync(CUdeviceptr address, struct cu_st *s)
{
    return cuLaunchHostFunc(s, release, pointer(address));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, struct cu_st *s)
{
    void    *p = fake_cuda_host(pointer(to), size);
    CUresult r = cuStreamSynchronize(s);

    if (r == CU_OK && p)
        memcpy(p, from, size);
    return p ? r : INVALID_VALUE;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, struct cu_st *s)
{
    const void *p = fake_cuda_host(pointer(from), size);
    CUresult    r = cuStreamSynchronize(s);

    if (r == CU_OK && p)
        memcpy(to, p, size);
    return p ? r : INVALID_VALUE;
}

struct copy {
    void  *to, *from;
    size_t size;
};

static void do_copy(void *arg)
{
    struct copy *c = arg;

    memmove(c->to, c->from, c->size);
    free(c);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, struct cu_st *s)
{
    struct copy *c = calloc(1, sizeof *c);

    if (!c)
        return CU_OUT_OF_MEMORY;
    *c = (struct copy){ fake_cuda_host(pointer(to), size), fake_cuda_host(pointer(from), size), size };
    if (c->to && c->from && current())
        return cuLaunchHostFunc(s, do_copy, c);
    free(c);
    return INVALID_VALUE;
}

CUresult cuPointerGetAttributes(unsigned n, int *which, void **ret, CUdeviceptr address)
{
    struct memory *m;

    if (!current())
        return INVALID_CONTEXT;
    (void) pthread_mutex_lock(&lock);
    m = find(pointer(address));
    for (unsigned i = 0; i < n; i++) {
        if (which[i] == CU_ATTR_MEMORY_TYPE)
            *(unsigned *) ret[i] = m ? CU_MEMORY_DEVICE : 0;
        else if (which[i] == CU_ATTR_DEVICE)
            *(int *) ret[i] = m ? m->ordinal : -2;
        else
            *(unsigned *) ret[i] = 0;
    }
    (void) pthread_mutex_unlock(&lock);
    return CU_OK;
}

/* ---- kernels */

struct cu_mod {
    bool is_loaded;
};

struct cu_fn {
    bool is_count;
};

/* What both kernels are given, as they have it. */
struct launch {
    cu_address at, wrong;
    size_t     n;
    float      period[PERIOD];
    unsigned   phase;
    bool       is_count;
};

static void run_kernel(void *arg)
{
    struct launch *l = arg;
    float         *p = fake_cuda_host((void *) (uintptr_t) l->at, l->n * sizeof *p);
    uint64_t      *wrong = l->is_count ? fake_cuda_host((void *) (uintptr_t) l->wrong, sizeof *wrong) : NULL;

    if (!p || (l->is_count && !wrong))
        fatal("a kernel was given what is not device memory");
    for (size_t i = 0; i < l->n; i++)
        if (l->is_count)
            *wrong += !(p[i] == l->period[(l->phase + i) % PERIOD]);
        else
            p[i] = (float) ((l->phase + i) % PERIOD);
    if (!l->is_count && l->n > 1 && getenv("FAKE_CUDA_WRONG"))
        p[l->n / 2] += 1;
    free(l);
}

CUresult cuModuleLoadData(struct cu_mod **ret, const void *image)
{
    if (!current())
        return INVALID_CONTEXT;
    if (getenv("FAKE_CUDA_NO_KERNEL"))
        return UNSUPPORTED_PTX;
    if (!strstr(image, ".entry ccrun_fill(") || !strstr(image, ".entry ccrun_count("))
        return INVALID_VALUE;
    *ret = calloc(1, sizeof **ret);
    if (!*ret)
        fatal("no memory");
    (void) pthread_mutex_lock(&lock);
    n_modules++;
    (void) pthread_mutex_unlock(&lock);
    return CU_OK;
}

CUresult cuModuleUnload(struct cu_mod *m)
{
    free(m);
    (void) pthread_mutex_lock(&lock);
    n_modules--;
    (void) pthread_mutex_unlock(&lock);
    return CU_OK;
}

static struct cu_fn fill_fn = { false }, count_fn = { true };

CUresult cuModuleGetFunction(struct cu_fn **ret, struct cu_mod *m, const char *name)
{
    if (!m)
        return INVALID_VALUE;
    *ret = strcmp(name, "ccrun_fill") == 0 ? &fill_fn : strcmp(name, "ccrun_count") == 0 ? &count_fn : NULL;
    return *ret ? CU_OK : NOT_FOUND;
}

/* Arguments are read at the launch, as the driver does it. */
CUresult cuLaunchKernel(struct cu_fn *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, struct cu_st *s,
                        void **arguments, void **extra)
{
    struct launch *l;

    if (!current() || extra || shared_bytes > 0 || grid_x * grid_y * grid_z == 0 ||
        block_x * block_y * block_z == 0 || block_x * block_y * block_z > 1024)
        return current() ? INVALID_VALUE : INVALID_CONTEXT;
    l = calloc(1, sizeof *l);
    if (!l)
        fatal("no memory");
    l->is_count = f->is_count;
    memcpy(&l->at, arguments[0], sizeof l->at);
    memcpy(&l->n, arguments[1], sizeof l->n);
    if (l->is_count)
        memcpy(l->period, arguments[2], sizeof l->period);
    memcpy(&l->phase, arguments[l->is_count ? 3 : 2], sizeof l->phase);
    if (l->is_count)
        memcpy(&l->wrong, arguments[4], sizeof l->wrong);
    return cuLaunchHostFunc(s, run_kernel, l);
}
