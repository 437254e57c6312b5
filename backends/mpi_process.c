/* mpi_process.c - the one MPI of this process: how it begins and ends, and who may still call it. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/mpi_inside.h"
#include "backends/reduce.h"

/* NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not know of MPI_Test() */

struct process *shim_process(void)
{
    static struct process p = { .turn = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

    return &p;
}

int shim_failed(int code, const char *what, struct cc_err *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = MPI_ERR_UNKNOWN, n = 0;

    (void) MPI_Error_class(code, &class);
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS)
        (void) snprintf(text, sizeof text, "error %d", code);
    text[strcspn(text, "\n")] = '\0';
    switch (class) {
    case MPI_ERR_NO_MEM: code = -ENOMEM; break;
    case MPI_ERR_TRUNCATE: code = -EPROTO; break;
    case MPI_ERR_ARG:
    case MPI_ERR_BUFFER:
    case MPI_ERR_COMM:
    case MPI_ERR_COUNT:
    case MPI_ERR_OP:
    case MPI_ERR_TAG:
    case MPI_ERR_TYPE: code = -EIO; break;
    default: code = -ECONNRESET; break;
    }
    return cc_fail(err, code, "%s: %.300s", what, text);
}

/* ---- halves, which MPI does not know: whole numbers to it, with operations of ours */

#define HALF_OP(name, op, type)                                                                              \
    static void name(void *in, void *inout, int *n, MPI_Datatype *t)                                         \
    {                                                                                                        \
        (void) t;                                                                                            \
        reduce_of(op, type)(inout, in, inout, (size_t) *n);                                                  \
    }
#define HALF_OPS(suffix, type)                                                                               \
    HALF_OP(sum_##suffix, CCRUN_SUM, type)                                                                   \
    HALF_OP(prod_##suffix, CCRUN_PROD, type)                                                                 \
    HALF_OP(min_##suffix, CCRUN_MIN, type)                                                                   \
    HALF_OP(max_##suffix, CCRUN_MAX, type)

HALF_OPS(f16, CCRUN_F16)
HALF_OPS(bf16, CCRUN_BF16)

static bool is_half(enum ccrun_type type)
{
    return type == CCRUN_F16 || type == CCRUN_BF16;
}

MPI_Datatype shim_type(enum ccrun_type type)
{
    switch (type) {
    case CCRUN_I8: return MPI_INT8_T;
    case CCRUN_U8: return MPI_UINT8_T;
    case CCRUN_I32: return MPI_INT32_T;
    case CCRUN_I64: return MPI_INT64_T;
    case CCRUN_F16:
    case CCRUN_BF16: return MPI_UINT16_T;
    case CCRUN_F32: return MPI_FLOAT;
    case CCRUN_F64: return MPI_DOUBLE;
    default: assert(0); return MPI_BYTE;
    }
}

MPI_Op shim_op(enum ccrun_op op, enum ccrun_type type)
{
    if (op == CCRUN_AVG) /* divided when it is there */
        op = CCRUN_SUM;
    if (is_half(type))
        return shim_process()->half_ops[type == CCRUN_BF16][op];
    switch (op) {
    case CCRUN_SUM: return MPI_SUM;
    case CCRUN_PROD: return MPI_PROD;
    case CCRUN_MIN: return MPI_MIN;
    case CCRUN_MAX: return MPI_MAX;
    case CCRUN_AVG:
    default: assert(0); return MPI_OP_NULL;
    }
}

/* ---- the beginning and the end of MPI */

/* Only when all groups were left in good order: else the others might not come, and a program that wants to
 * end with a failure would hang here. */
static void finalize(void)
{
    struct process *p = shim_process();
    int             is_over = 0;

    if (p->owner != getpid()) /* the exit of a fork */
        return;
    (void) pthread_mutex_lock(&p->lock);
    if (p->n_groups == 0 && !p->is_unclean && MPI_Finalized(&is_over) == MPI_SUCCESS && !is_over)
        (void) MPI_Finalize();
    (void) pthread_mutex_unlock(&p->lock);
}

static int initialize(struct process *p, struct cc_err *err)
{
    int r = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &p->level);

    if (r != MPI_SUCCESS)
        return shim_failed(r, "MPI_Init_thread", err);
    p->is_ours = true;
    p->owner = getpid();
    (void) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void) MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    return atexit(finalize) == 0 ? 0 : cc_fail(err, -ENOMEM, "no memory for an exit handler");
}

static int make_ops(struct process *p, struct cc_err *err)
{
    static MPI_User_function *const functions[2][N_HALF_OPS] = {
        { sum_f16, prod_f16, min_f16, max_f16 }, { sum_bf16, prod_bf16, min_bf16, max_bf16 }
    };
    int r = MPI_SUCCESS;

    for (int i = 0; r == MPI_SUCCESS && i < 2 * N_HALF_OPS; i++)
        r = MPI_Op_create(functions[i / N_HALF_OPS][i % N_HALF_OPS], 1,
                          &p->half_ops[i / N_HALF_OPS][i % N_HALF_OPS]);
    return r == MPI_SUCCESS ? 0 : shim_failed(r, "MPI_Op_create", err);
}

/* Control messages need a few tags more than the standard promises. */
static int check_tags(struct cc_err *err)
{
    int *max = NULL, has = 0;

    if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *) &max, &has) == MPI_SUCCESS && has &&
        *max >= TAG_GROUP)
        return 0;
    return cc_fail(err, -ENOTSUP, "this MPI library has tags up to %d only, and %d is needed", has ? *max : 0,
                   TAG_GROUP);
}

int shim_prepare(struct cc_err *err)
{
    struct process *p = shim_process();
    int             has_begun = 0, is_over = 0, r = 0;

    (void) pthread_mutex_lock(&p->lock);
    if (!p->is_ready) {
        (void) MPI_Initialized(&has_begun);
        (void) MPI_Finalized(&is_over);
        if (is_over)
            r = cc_fail(err, -EINVAL,
                        "this process has called MPI_Finalize, after which MPI cannot be used again");
        else if (has_begun)
            (void) MPI_Query_thread(&p->level);
        else
            r = initialize(p, err);
        if (r == 0)
            r = check_tags(err);
        if (r == 0)
            r = make_ops(p, err);
        p->is_ready = r == 0;
    }
    (void) pthread_mutex_unlock(&p->lock);
    return r;
}

void shim_set_unclean(void)
{
    (void) pthread_mutex_lock(&shim_process()->lock);
    shim_process()->is_unclean = true;
    (void) pthread_mutex_unlock(&shim_process()->lock);
}

int shim_check_usable(struct cc_err *err)
{
    struct process *p = shim_process();
    int             is_main = 1;

    if (atomic_load(&p->is_spoiled))
        return cc_fail(err, -ESHUTDOWN,
                       "MPI cannot be used any more in this process: group '%s' has given up a call of it",
                       p->spoiled_by);
    if (p->level < MPI_THREAD_SERIALIZED)
        (void) MPI_Is_thread_main(&is_main);
    return is_main ? 0
                   : cc_fail(err, -EINVAL,
                             "the program has initialised MPI for its main thread only, and this is another: "
                             "MPI_Init_thread with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE allows it");
}

bool shim_may_call(void)
{
    struct cc_err err;

    return shim_check_usable(&err) == 0;
}

void shim_spoil(const struct group *g)
{
    struct process *p = shim_process();

    (void) pthread_mutex_lock(&p->lock);
    if (!atomic_load(&p->is_spoiled))
        (void) snprintf(p->spoiled_by, sizeof p->spoiled_by, "%s", g->name);
    p->is_unclean = true;
    atomic_store(&p->is_spoiled, true);
    (void) pthread_mutex_unlock(&p->lock);
}

/* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */
