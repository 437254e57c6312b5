#include "launcher/launchdata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_HEAD = 5, LENGTH_AT = 8 };

static const char magic[LENGTH_AT] = { '\xff', 'c', 'c', 'r', 'u', 'n', '1', '\n' };

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t) (v >> (24 - 8 * i));
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

/* ---- writing */

int launchdata_begin(struct cc_buf *b)
{
    uint8_t *p = cc_buf_grow(b, LAUNCHDATA_HEAD);

    if (!p)
        return -ENOMEM;
    memcpy(p, magic, sizeof magic);
    put_u32(p + LENGTH_AT, 0);
    return 0;
}

int launchdata_add(struct cc_buf *b, enum launchdata_tag tag, const void *bytes, size_t n)
{
    uint8_t *p;

    if (n >= LAUNCHDATA_MAX)
        return -E2BIG;
    p = cc_buf_grow(b, RECORD_HEAD + n + 1);
    if (!p)
        return -ENOMEM;
    p[0] = (uint8_t) tag;
    put_u32(p + 1, (uint32_t) n);
    memcpy(p + RECORD_HEAD, bytes, n);
    p[RECORD_HEAD + n] = '\0';
    return 0;
}

int launchdata_text(struct cc_buf *b, enum launchdata_tag tag, const char *text)
{
    return launchdata_add(b, tag, text, strlen(text));
}

int launchdata_texts(struct cc_buf *b, enum launchdata_tag tag, char *const *texts)
{
    int r = 0;

    for (; r == 0 && texts && *texts; texts++)
        r = launchdata_text(b, tag, *texts);
    return r;
}

int launchdata_finish(struct cc_buf *b, struct cc_err *err)
{
    size_t n = cc_buf_len(b) - LAUNCHDATA_HEAD;

    if (n > LAUNCHDATA_MAX)
        return cc_fail(err, -E2BIG, "the environment and the arguments have %zu bytes; the limit is %d", n, LAUNCHDATA_MAX);
    put_u32(b->p + b->off + LENGTH_AT, (uint32_t) n);
    return 0;
}

/* ---- reading */

int64_t launchdata_length(const uint8_t head[LAUNCHDATA_HEAD], struct cc_err *err)
{
    uint32_t n = get_u32(head + LENGTH_AT);

    if (memcmp(head, magic, sizeof magic) != 0)
        return cc_fail(err, -EPROTO, "what came is not the data of a job: another version of ccrun, or somebody typed it");
    if (n > LAUNCHDATA_MAX)
        return cc_fail(err, -EPROTO, "the data of the job has %u bytes; the limit is %d", n, LAUNCHDATA_MAX);
    return n;
}

struct record {
    char     tag;
    char    *text;
    uint32_t n;
};

/* 1: a record; 0: the end. */
static int next(uint8_t *bytes, size_t n, size_t *at, struct record *ret)
{
    if (*at == n)
        return 0;
    if (n - *at < RECORD_HEAD + 1)
        return -EPROTO;
    ret->tag = (char) bytes[*at];
    ret->n = get_u32(bytes + *at + 1);
    ret->text = (char *) bytes + *at + RECORD_HEAD;
    if (ret->n > n - *at - RECORD_HEAD - 1 || ret->text[ret->n] != '\0')
        return -EPROTO;
    *at += RECORD_HEAD + (size_t) ret->n + 1;
    return 1;
}

static bool is_text(const struct record *r)
{
    return strlen(r->text) == r->n;
}

struct counts {
    size_t args, envs, owns, prefers, hosts;
};

static int count(uint8_t *bytes, size_t n, struct counts *c)
{
    struct record r;
    size_t        at = 0;
    int           more;

    while ((more = next(bytes, n, &at, &r)) > 0) {
        if (r.tag != LAUNCHDATA_SECRET && !is_text(&r))
            return -EPROTO;
        c->args += r.tag == LAUNCHDATA_ARG;
        c->envs += r.tag == LAUNCHDATA_ENV;
        c->owns += r.tag == LAUNCHDATA_OWN;
        c->prefers += r.tag == LAUNCHDATA_PREFER;
        c->hosts += r.tag == LAUNCHDATA_HOST;
    }
    return more;
}

static int take(struct launchdata *d, const struct record *r, struct counts *c)
{
    switch ((int) r->tag) {
    case LAUNCHDATA_ARG:  d->argv[c->args++] = r->text; return 0;
    case LAUNCHDATA_ENV:  d->env[c->envs++] = r->text; return 0;
    case LAUNCHDATA_OWN:  d->own[c->owns++] = r->text; return 0;
    case LAUNCHDATA_PREFER: d->prefer[c->prefers++] = r->text; return 0;
    case LAUNCHDATA_HOST: d->hosts[c->hosts++] = r->text; return 0;
    case LAUNCHDATA_DIR:  d->dir = r->text; return 0;
    case LAUNCHDATA_FIRST: d->first = r->text; return 0;
    case LAUNCHDATA_TASKS: d->tasks = r->text; return 0;
    case LAUNCHDATA_WHO:  d->who = r->text; return 0;
    case LAUNCHDATA_MARK: d->mark = r->text; return 0;
    case LAUNCHDATA_SECRET:
        d->secret = (const uint8_t *) r->text;
        d->n_secret = r->n;
        return 0;
    case LAUNCHDATA_SET:
        if (d->n_set == LAUNCHDATA_SETTINGS_MAX)
            return -EPROTO;
        d->set[d->n_set++] = r->text;
        return 0;
    default: return 0; /* of a newer version; what matters has another head */
    }
}

int launchdata_read(struct launchdata *ret, uint8_t *bytes, size_t n, struct cc_err *err)
{
    struct counts c = { 0 }, have = { 0 };
    struct record rec;
    size_t        at = 0;
    int           r = count(bytes, n, &c);

    *ret = (struct launchdata) { 0 };
    if (r == 0 && c.args == 0)
        r = -EPROTO;
    if (r < 0)
        return cc_fail(err, r, "the data of the job is damaged");
    ret->argv = calloc(c.args + 1, sizeof *ret->argv);
    ret->env = calloc(c.envs + 1, sizeof *ret->env);
    ret->own = calloc(c.owns + 1, sizeof *ret->own);
    ret->prefer = calloc(c.prefers + 1, sizeof *ret->prefer);
    ret->hosts = calloc(c.hosts + 1, sizeof *ret->hosts);
    ret->n_hosts = c.hosts;
    if (!ret->argv || !ret->env || !ret->own || !ret->prefer || !ret->hosts) {
        launchdata_clear(ret);
        return cc_fail(err, -ENOMEM, "no memory for the data of the job");
    }
    while (r == 0 && next(bytes, n, &at, &rec) > 0)
        r = take(ret, &rec, &have);
    if (r == 0 && (!ret->dir || !ret->who || !ret->mark))
        r = -EPROTO;
    if (r == 0)
        return 0;
    launchdata_clear(ret);
    return cc_fail(err, r, "the data of the job is damaged");
}

void launchdata_clear(struct launchdata *d)
{
    free(d->argv);
    free(d->env);
    free(d->own);
    free(d->prefer);
    free(d->hosts);
    *d = (struct launchdata) { 0 };
}

/* ---- variables that are a node's own */

bool launchdata_is_listed(char *const *list, const char *entry)
{
    size_t len = strcspn(entry, "=");

    for (; *list; list++) {
        size_t n = strlen(*list);

        if (n > 0 && (*list)[n - 1] == '*' ? len >= n - 1 && strncmp(*list, entry, n - 1) == 0
                                           : len == n && strncmp(*list, entry, n) == 0)
            return true;
    }
    return false;
}

static size_t length(char *const *list)
{
    size_t n = 0;

    while (list[n])
        n++;
    return n;
}

static bool has(char *const *env, const char *entry)
{
    size_t len = strcspn(entry, "=");

    for (; *env; env++)
        if (strncmp(*env, entry, len) == 0 && (*env)[len] == '=')
            return true;
    return false;
}

static bool is_ours(const struct launchdata *d, char *const *here, const char *entry)
{
    return launchdata_is_listed(d->own, entry) || (launchdata_is_listed(d->prefer, entry) && has(here, entry));
}

char **launchdata_environ(const struct launchdata *d, char *const *here)
{
    char **env = calloc(length(d->env) + length(here) + 1, sizeof *env);
    size_t i, n = 0;

    for (i = 0; env && d->env[i]; i++)
        if (!is_ours(d, here, d->env[i]))
            env[n++] = d->env[i];
    for (i = 0; env && here[i]; i++)
        if (is_ours(d, here, here[i]))
            env[n++] = here[i];
    return env;
}
