#include "agent/core/workerenv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"
#include "store/base/macros.h"

/* Written over whatever the launcher inherited. The first N_PER_RANK differ from worker to worker. */
enum var {
    VAR_RANK,
    VAR_LOCAL_RANK,
    VAR_ROLE_RANK,
    VAR_ERROR_FILE,
    VAR_DEVICES,
    N_PER_RANK,
    VAR_GROUP_RANK = N_PER_RANK,
    VAR_ROLE_NAME,
    VAR_LOCAL_WORLD_SIZE,
    VAR_WORLD_SIZE,
    VAR_GROUP_WORLD_SIZE,
    VAR_ROLE_WORLD_SIZE,
    VAR_MASTER_ADDR,
    VAR_MASTER_PORT,
    VAR_RESTART_COUNT,
    VAR_MAX_RESTARTS,
    VAR_RUN_ID,
    VAR_USE_AGENT_STORE,
    VAR_SIGNALS,
    VAR_PREEMPT_FILE,
    VAR_PREEMPT_DEADLINE,
    N_VARS
};

static const char *const names[N_VARS] = {
    [VAR_RANK] = "RANK",
    [VAR_LOCAL_RANK] = "LOCAL_RANK",
    [VAR_ROLE_RANK] = "ROLE_RANK",
    [VAR_ERROR_FILE] = "TORCHELASTIC_ERROR_FILE",
    [VAR_DEVICES] = "CUDA_VISIBLE_DEVICES",
    [VAR_GROUP_RANK] = "GROUP_RANK",
    [VAR_ROLE_NAME] = "ROLE_NAME",
    [VAR_LOCAL_WORLD_SIZE] = "LOCAL_WORLD_SIZE",
    [VAR_WORLD_SIZE] = "WORLD_SIZE",
    [VAR_GROUP_WORLD_SIZE] = "GROUP_WORLD_SIZE",
    [VAR_ROLE_WORLD_SIZE] = "ROLE_WORLD_SIZE",
    [VAR_MASTER_ADDR] = "MASTER_ADDR",
    [VAR_MASTER_PORT] = "MASTER_PORT",
    [VAR_RESTART_COUNT] = "TORCHELASTIC_RESTART_COUNT",
    [VAR_MAX_RESTARTS] = "TORCHELASTIC_MAX_RESTARTS",
    [VAR_RUN_ID] = "TORCHELASTIC_RUN_ID",
    [VAR_USE_AGENT_STORE] = "TORCHELASTIC_USE_AGENT_STORE",
    [VAR_SIGNALS] = "TORCHELASTIC_SIGNALS_TO_HANDLE",
    [VAR_PREEMPT_FILE] = "CCRUN_PREEMPT_FILE",
    [VAR_PREEMPT_DEADLINE] = "CCRUN_PREEMPT_DEADLINE",
};

/* Set only when the launcher did not inherit them. */
enum fallback { FALLBACK_OMP, FALLBACK_NCCL, N_FALLBACKS };

static const char *const fallback_names[N_FALLBACKS] = {
    [FALLBACK_OMP] = "OMP_NUM_THREADS",
    [FALLBACK_NCCL] = "TORCH_NCCL_ASYNC_ERROR_HANDLING",
};

struct workerenv {
    struct workerenv_job job;
    char   *own[N_VARS];             /* "NAME=value", NULL: as inherited */
    char   *fallback[N_FALLBACKS];
    char  **block;                   /* inherited entries that stay, then ours, then NULL */
    char   *inherited_devices;       /* entry of CUDA_VISIBLE_DEVICES in base, or NULL */
    size_t  n_base, n_room;          /* places of block that are taken by what is inherited; all of them */
};

static bool names_it(const char *entry, const char *name)
{
    size_t n = strlen(name);

    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

static int set_text(char **slot, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char  *s = realloc(*slot, size);

    if (!s)
        return -ENOMEM;
    *slot = s;
    (void) snprintf(s, size, "%s=%s", name, value);
    return 0;
}

static int set_number(char **slot, const char *name, unsigned value)
{
    char text[16];

    (void) snprintf(text, sizeof text, "%u", value);
    return set_text(slot, name, text);
}

static bool is_overwritten(const char *entry)
{
    size_t i;

    for (i = 0; i < N_VARS; i++)
        if (names_it(entry, names[i]))
            return true;
    return false;
}

/* Keep what is inherited and not ours; note which fallbacks are not needed. */
static void take_base(struct workerenv *e, char *const *base, bool has_fallback[N_FALLBACKS])
{
    size_t i;

    for (; *base; base++) {
        if (names_it(*base, names[VAR_DEVICES]))
            e->inherited_devices = *base;
        if (is_overwritten(*base))
            continue;
        for (i = 0; i < N_FALLBACKS; i++)
            has_fallback[i] |= names_it(*base, fallback_names[i]);
        e->block[e->n_base++] = *base;
    }
}

static int set_job(struct workerenv *e, const struct workerenv_job *j, const bool has_fallback[N_FALLBACKS])
{
    const struct {
        enum var var;
        unsigned value;
    } numbers[] = {
        { VAR_GROUP_RANK, j->group_rank },         { VAR_LOCAL_WORLD_SIZE, j->local_world_size },
        { VAR_WORLD_SIZE, j->world_size },         { VAR_GROUP_WORLD_SIZE, j->group_world_size },
        { VAR_ROLE_WORLD_SIZE, j->role_world_size }, { VAR_MASTER_PORT, j->master_port },
        { VAR_RESTART_COUNT, j->restart_count },   { VAR_MAX_RESTARTS, j->max_restarts },
    };
    const struct {
        enum var    var;
        const char *value;
    } texts[] = {
        { VAR_ROLE_NAME, j->role },
        { VAR_MASTER_ADDR, j->master_addr },
        { VAR_RUN_ID, j->run_id },
        { VAR_USE_AGENT_STORE, "True" }, /* Python's spelling: workers compare with exactly this */
        { VAR_SIGNALS, j->signals_to_handle },
        { VAR_PREEMPT_FILE, j->preempt_file },
        { VAR_PREEMPT_DEADLINE, j->preempt_deadline },
    };
    size_t i;
    int    r = 0;

    for (i = 0; r == 0 && i < CC_COUNT(numbers); i++)
        r = set_number(&e->own[numbers[i].var], names[numbers[i].var], numbers[i].value);
    for (i = 0; r == 0 && i < CC_COUNT(texts); i++)
        if (texts[i].value)
            r = set_text(&e->own[texts[i].var], names[texts[i].var], texts[i].value);
    if (r == 0 && !has_fallback[FALLBACK_OMP] && j->omp_threads > 0)
        r = set_number(&e->fallback[FALLBACK_OMP], fallback_names[FALLBACK_OMP], j->omp_threads);
    if (r == 0 && !has_fallback[FALLBACK_NCCL])
        r = set_text(&e->fallback[FALLBACK_NCCL], fallback_names[FALLBACK_NCCL], "1");
    return r;
}

CC_DEFINE_AUTO(struct workerenv, workerenv_free)

int workerenv_new(struct workerenv **ret, char *const *base, const struct workerenv_job *job, struct cc_err *err)
{
    CC_AUTO(workerenv_freep) struct workerenv *e = calloc(1, sizeof *e);
    bool   has_fallback[N_FALLBACKS] = { false };
    size_t n;

    for (n = 0; base[n];)
        n++;
    if (e)
        e->block = calloc(e->n_room = n + N_VARS + N_FALLBACKS + 1, sizeof *e->block);
    if (!e || !e->block)
        return cc_fail(err, -ENOMEM, "no memory for an environment of %zu variables", n);
    e->job = *job;
    take_base(e, base, has_fallback);
    if (set_job(e, job, has_fallback) < 0)
        return cc_fail(err, -ENOMEM, "no memory for an environment of %zu variables", n);
    *ret = CC_STEAL(e);
    return 0;
}

/* Room for all of `more`, whatever of it is used. */
static int make_room(struct workerenv *e, char *const *more)
{
    size_t n = e->n_base + N_VARS + N_FALLBACKS + 1;
    char **block;

    while (*more++)
        n++;
    if (n <= e->n_room)
        return 0;
    block = realloc(e->block, n * sizeof *block);
    if (!block)
        return -ENOMEM;
    e->block = block;
    e->n_room = n;
    return 0;
}

static bool is_inherited(const struct workerenv *e, const char *entry)
{
    size_t i, n_name = strcspn(entry, "=") + 1;

    for (i = 0; i < e->n_base; i++)
        if (strncmp(e->block[i], entry, n_name) == 0)
            return true;
    return false;
}

char *const *workerenv_for(struct workerenv *e, const struct workerenv_rank *r)
{
    const struct workerenv_job *j = &e->job;
    size_t i, n = e->n_base;

    if (set_number(&e->own[VAR_RANK], names[VAR_RANK], j->base_rank + r->local_rank) < 0 ||
        set_number(&e->own[VAR_LOCAL_RANK], names[VAR_LOCAL_RANK], j->is_virtual_local_rank ? 0 : r->local_rank) < 0 ||
        set_number(&e->own[VAR_ROLE_RANK], names[VAR_ROLE_RANK], j->base_role_rank + r->local_rank) < 0 ||
        set_text(&e->own[VAR_ERROR_FILE], names[VAR_ERROR_FILE], r->error_file) < 0)
        return NULL;
    if (r->more && make_room(e, r->more) < 0)
        return NULL;
    if (r->visible_devices && set_text(&e->own[VAR_DEVICES], names[VAR_DEVICES], r->visible_devices) < 0)
        return NULL;
    for (i = 0; i < N_VARS; i++) {
        if (i == VAR_DEVICES && !r->visible_devices) {
            if (e->inherited_devices)
                e->block[n++] = e->inherited_devices;
        } else if (e->own[i]) {
            e->block[n++] = e->own[i];
        }
    }
    for (i = 0; i < N_FALLBACKS; i++)
        if (e->fallback[i])
            e->block[n++] = e->fallback[i];
    for (i = 0; r->more && r->more[i]; i++)
        if (!is_inherited(e, r->more[i]))
            e->block[n++] = r->more[i];
    e->block[n] = NULL;
    return e->block;
}

struct workerenv *workerenv_free(struct workerenv *e)
{
    size_t i;

    if (!e)
        return NULL;
    for (i = 0; i < N_VARS; i++)
        free(e->own[i]);
    for (i = 0; i < N_FALLBACKS; i++)
        free(e->fallback[i]);
    free(e->block);
    free(e);
    return NULL;
}
