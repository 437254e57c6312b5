#include "store/core/wire.h"

#include <assert.h>
#include <errno.h>

/* What follows the op byte of a request, one letter a field:
 * k key, v value, 4 and 8 numbers of so many bytes; c a count of keys, l so many keys; d a count of pairs, p
 * so many pairs of key and value. */
static const char *const request_fields[WIRE_N_OPS] = {
    [WIRE_VALIDATE] = "4",   [WIRE_SET] = "kv",     [WIRE_COMPARE_SET] = "kvv", [WIRE_GET] = "k",
    [WIRE_ADD] = "k8",       [WIRE_CHECK] = "cl",   [WIRE_WAIT] = "cl",         [WIRE_GETNUMKEYS] = "",
    [WIRE_DELETE_KEY] = "k", [WIRE_APPEND] = "kv",  [WIRE_MULTI_GET] = "cl",    [WIRE_MULTI_SET] = "dp",
    [WIRE_CANCEL_WAIT] = "", [WIRE_PING] = "4",     [WIRE_QUEUE_PUSH] = "kv",   [WIRE_QUEUE_POP] = "k",
    [WIRE_QUEUE_LEN] = "k",  [WIRE_LIST_KEYS] = "", [WIRE_BARRIER] = "k8",
};

/* What an answer is.  Besides: 1 a byte, n as many values as were asked for, q a number and, if it is > 0, a
 * value. */
static const char *const answer_fields[WIRE_N_OPS] = {
    [WIRE_VALIDATE] = "",     [WIRE_SET] = "",         [WIRE_COMPARE_SET] = "v", [WIRE_GET] = "v",
    [WIRE_ADD] = "8",         [WIRE_CHECK] = "1",      [WIRE_WAIT] = "1",        [WIRE_GETNUMKEYS] = "8",
    [WIRE_DELETE_KEY] = "8",  [WIRE_APPEND] = "",      [WIRE_MULTI_GET] = "n",   [WIRE_MULTI_SET] = "",
    [WIRE_CANCEL_WAIT] = "1", [WIRE_PING] = "4",       [WIRE_QUEUE_PUSH] = "",   [WIRE_QUEUE_POP] = "q",
    [WIRE_QUEUE_LEN] = "8",   [WIRE_LIST_KEYS] = "cl", [WIRE_BARRIER] = "1",
};

/* The op numbers of dialects A and B.  7 is B's (A's WATCH_KEY cannot be reached from Python); 8 depends. */
static const uint8_t old_ops[] = {
    WIRE_SET,        WIRE_COMPARE_SET, WIRE_GET,    WIRE_ADD,       WIRE_CHECK,     WIRE_WAIT,
    WIRE_GETNUMKEYS, WIRE_DELETE_KEY,  WIRE_APPEND, WIRE_MULTI_GET, WIRE_MULTI_SET, WIRE_CANCEL_WAIT,
};
enum { OLD_DELETE_OF_B = 7, OLD_DELETE_OR_APPEND = 8, OLD_N_OPS = sizeof old_ops };

enum step { STEP_ON, STEP_MORE, STEP_BAD };

static uint64_t get64(const uint8_t *p)
{
    uint64_t n;

    memcpy(&n, p, sizeof n);
    return le64toh(n);
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t n;

    memcpy(&n, p, sizeof n);
    return le32toh(n);
}

static enum step more(struct wire_in *w, size_t need)
{
    w->need = need;
    return STEP_MORE;
}

static enum step over(struct cc_err *err, const char *what, uint64_t n, uint64_t limit)
{
    (void) cc_fail(err, -EPROTO, "%s of %llu is over the limit of %llu", what, (unsigned long long) n,
                   (unsigned long long) limit);
    return STEP_BAD;
}

/* A length and so many bytes; the bytes themselves may still be on their way. */
static enum step scan_string(struct wire_in *w, const uint8_t *p, size_t n, bool is_key, struct cc_err *err)
{
    uint64_t limit = is_key ? WIRE_KEY_MAX : WIRE_VALUE_MAX, len;

    if (n < w->off + 8)
        return more(w, w->off + 8);
    len = get64(p + w->off);
    if (len > limit)
        return over(err, is_key ? "a key length" : "a value length", len, limit);
    w->off += 8 + (size_t) len;
    if (w->off > WIRE_MESSAGE_MAX)
        return over(err, "a message length", w->off, WIRE_MESSAGE_MAX);
    return STEP_ON;
}

static enum step scan_list(struct wire_in *w, const uint8_t *p, size_t n, char kind, struct cc_err *err)
{
    while (w->left > 0) {
        bool      is_key = kind == 'l' || (kind == 'p' && w->left % 2 == 0);
        enum step s = scan_string(w, p, n, is_key, err);

        if (s != STEP_ON)
            return s;
        w->left--;
    }
    return STEP_ON;
}

static enum step scan_count(struct wire_in *w, const uint8_t *p, size_t n, unsigned per_item,
                            struct cc_err *err)
{
    uint64_t count;

    if (n < w->off + 8)
        return more(w, w->off + 8);
    count = get64(p + w->off);
    if (count > WIRE_LIST_MAX)
        return over(err, "a list length", count, WIRE_LIST_MAX);
    w->left = per_item * count;
    w->off += 8;
    return STEP_ON;
}

static enum step scan_pop(struct wire_in *w, const uint8_t *p, size_t n)
{
    if (n < w->off + 8)
        return more(w, w->off + 8);
    w->left = (int64_t) get64(p + w->off) > 0;
    w->field = "n"; /* what follows: as many values */
    w->off += 8;
    return STEP_ON;
}

/* Goes over what has come of the message, from where the last call stopped. */
static enum step scan(struct wire_in *w, const uint8_t *p, size_t n, struct cc_err *err)
{
    enum step s = STEP_ON;

    while (*w->field != '\0') {
        char kind = *w->field;

        switch (kind) {
        case '1': w->off += 1; break;
        case '4': w->off += 4; break;
        case '8': w->off += 8; break;
        case 'k':
        case 'v': s = scan_string(w, p, n, kind == 'k', err); break;
        case 'c': s = scan_count(w, p, n, 1, err); break;
        case 'd': s = scan_count(w, p, n, 2, err); break;
        case 'q': s = scan_pop(w, p, n); break;
        default: s = scan_list(w, p, n, kind, err); break;
        }
        if (s != STEP_ON)
            return s;
        if (kind != 'q')
            w->field++;
    }
    return w->off > n ? more(w, w->off) : STEP_ON;
}

static struct cc_bytes take_string(const uint8_t **p)
{
    struct cc_bytes s = { *p + 8, (size_t) get64(*p) };

    *p = s.p + s.n;
    return s;
}

struct cc_bytes wire_next(struct wire_list *l)
{
    assert(l->n > 0);
    l->n--;
    return take_string(&l->p);
}

/* The request is there in full and was scanned: nothing to check any more. */
static void take_request(const uint8_t *p, enum wire_op op, struct wire_req *ret)
{
    const char *field = request_fields[op];

    ret->op = op;
    p++;
    if (*field == 'k') {
        ret->key = take_string(&p);
        field++;
    }
    for (struct cc_bytes *to = &ret->value; *field == 'v'; field++, to = &ret->desired)
        *to = take_string(&p);
    if (*field == '8')
        ret->number = (int64_t) get64(p);
    else if (*field == '4')
        ret->number = get32(p);
    else if (*field == 'c')
        ret->list = (struct wire_list){ p + 8, get64(p) };
    else if (*field == 'd')
        ret->list = (struct wire_list){ p + 8, 2 * get64(p) };
}

/* The first bytes of a connection tell the dialect: a client of C starts with VALIDATE and its magic number,
 * which read as the SET of A and B would announce a key of a gigabyte. */
static enum step find_dialect(struct wire_in *w, const uint8_t *p, size_t n, struct cc_err *err)
{
    uint32_t magic;

    if (p[0] >= OLD_N_OPS) {
        (void) cc_fail(err, -EPROTO, "byte %u is not how a TCPStore client starts", p[0]);
        return STEP_BAD;
    }
    if (p[0] == 0) {
        if (n < 5)
            return more(w, 5);
        magic = get32(p + 1);
        if (magic == WIRE_MAGIC) {
            w->dialect = WIRE_C;
            return STEP_ON;
        }
        if (magic > WIRE_KEY_MAX) {
            (void) cc_fail(err, -EPROTO, "0x%08x is not the magic number of a TCPStore client", magic);
            return STEP_BAD;
        }
    }
    w->dialect = WIRE_A_OR_B;
    return STEP_ON;
}

static enum step start_old(struct wire_in *w, uint8_t byte, struct cc_err *err)
{
    if (byte >= OLD_N_OPS) {
        (void) cc_fail(err, -EPROTO, "query type %u is unknown", byte);
        return STEP_BAD;
    }
    if (byte == OLD_DELETE_OF_B || byte > OLD_DELETE_OR_APPEND)
        w->dialect = WIRE_B;
    w->op = old_ops[byte];
    if (byte == OLD_DELETE_OR_APPEND && w->dialect != WIRE_B)
        w->op = WIRE_DELETE_KEY; /* until something is seen behind the key */
    return STEP_ON;
}

static enum step start_request(struct wire_in *w, const uint8_t *p, size_t n, struct cc_err *err)
{
    bool      is_first = w->dialect == WIRE_UNDECIDED;
    enum step s = STEP_ON;

    if (n == 0)
        return more(w, 1);
    if (is_first)
        s = find_dialect(w, p, n, err);
    if (s != STEP_ON)
        return s;
    if (w->dialect != WIRE_C) {
        s = start_old(w, p[0], err);
    } else if (p[0] >= WIRE_N_OPS || (p[0] == WIRE_VALIDATE && !is_first)) {
        (void) cc_fail(err, -EPROTO, "query type %u is unknown", p[0]);
        return STEP_BAD;
    } else {
        w->op = p[0];
    }
    if (s != STEP_ON)
        return s;
    w->field = request_fields[w->op];
    w->off = 1;
    return STEP_ON;
}

/* Op 8 is DELETE_KEY in A, whose client waits for the answer before it sends anything else, and APPEND in B,
 * whose client sends the value in the same segment. */
static enum step tell_delete_from_append(struct wire_in *w, const uint8_t *p, size_t n, bool is_all,
                                         struct cc_err *err)
{
    if (n == w->off) {
        if (!is_all)
            return more(w, n + 1);
        w->dialect = WIRE_A;
        return STEP_ON;
    }
    w->dialect = WIRE_B;
    w->op = WIRE_APPEND;
    w->field = request_fields[WIRE_APPEND] + 1;
    return scan(w, p, n, err);
}

ssize_t wire_request(struct wire_in *w, const uint8_t *p, size_t n, bool is_all, struct wire_req *ret,
                     struct cc_err *err)
{
    enum step s = STEP_ON;

    if (!w->field)
        s = start_request(w, p, n, err);
    if (s == STEP_ON)
        s = scan(w, p, n, err);
    if (s == STEP_ON && w->op == WIRE_DELETE_KEY && w->dialect == WIRE_A_OR_B)
        s = tell_delete_from_append(w, p, n, is_all, err);
    if (s == STEP_BAD)
        return -EPROTO;
    if (s == STEP_MORE)
        return 0;
    w->field = NULL;
    w->need = 1;
    take_request(p, w->op, ret);
    return (ssize_t) w->off;
}

bool wire_has_answer(enum wire_op op, uint64_t n_values)
{
    return answer_fields[op][0] != '\0' && (op != WIRE_MULTI_GET || n_values > 0);
}

static void take_answer(const uint8_t *p, enum wire_op op, uint64_t n_values, struct wire_answer *ret)
{
    switch (answer_fields[op][0]) {
    case '1': ret->number = p[0]; break;
    case '4': ret->number = get32(p); break;
    case '8': ret->number = (int64_t) get64(p); break;
    case 'v': ret->value = take_string(&p); break;
    case 'c': ret->list = (struct wire_list){ p + 8, get64(p) }; break;
    case 'n': ret->list = (struct wire_list){ p, n_values }; break;
    case 'q':
        ret->number = (int64_t) get64(p);
        p += 8;
        if (ret->number > 0)
            ret->value = take_string(&p);
        break;
    default: break;
    }
}

ssize_t wire_answer(struct wire_in *w, enum wire_op op, uint64_t n_values, const uint8_t *p, size_t n,
                    struct wire_answer *ret, struct cc_err *err)
{
    if (!w->field) {
        w->field = answer_fields[op];
        w->left = n_values;
        w->off = 0;
    }
    switch (scan(w, p, n, err)) {
    case STEP_BAD: return -EPROTO;
    case STEP_MORE: return 0;
    case STEP_ON: break;
    }
    w->field = NULL;
    take_answer(p, op, n_values, ret);
    return (ssize_t) w->off;
}

static uint64_t key_size(struct cc_bytes prefix, struct cc_bytes key)
{
    return 8 + (uint64_t) prefix.n + key.n;
}

static bool is_too_long(struct cc_bytes prefix, struct cc_bytes s, bool is_key)
{
    return is_key ? s.n > WIRE_KEY_MAX || prefix.n + s.n > WIRE_KEY_MAX : s.n > WIRE_VALUE_MAX;
}

/* How long the request will be; 0 if it passes a limit. */
static uint64_t request_size(struct cc_bytes prefix, const struct wire_req *r, const struct cc_bytes *items,
                             uint64_t n_items)
{
    const char *field = request_fields[r->op];
    uint64_t    size = 1;
    bool        is_pairs = r->op == WIRE_MULTI_SET;

    if (n_items > (is_pairs ? 2 * WIRE_LIST_MAX : WIRE_LIST_MAX))
        return 0;
    if (*field == 'k') {
        if (is_too_long(prefix, r->key, true))
            return 0;
        size += key_size(prefix, r->key);
        field++;
    }
    for (const struct cc_bytes *v = &r->value; *field == 'v'; field++, v = &r->desired) {
        if (is_too_long(prefix, *v, false))
            return 0;
        size += 8 + v->n;
    }
    size += *field == '4' ? 4 : *field != '\0' ? 8 : 0;
    for (uint64_t i = 0; i < n_items; i++) {
        bool is_key = !is_pairs || i % 2 == 0;

        if (is_too_long(prefix, items[i], is_key))
            return 0;
        size += is_key ? key_size(prefix, items[i]) : 8 + items[i].n;
    }
    return size <= WIRE_MESSAGE_MAX ? size : 0;
}

static uint8_t *put_key(uint8_t *at, struct cc_bytes prefix, struct cc_bytes key)
{
    at = wire_put64(at, prefix.n + key.n);
    if (prefix.n > 0)
        memcpy(at, prefix.p, prefix.n);
    if (key.n > 0)
        memcpy(at + prefix.n, key.p, key.n);
    return at + prefix.n + key.n;
}

int wire_put_request(struct cc_buf *b, struct cc_bytes prefix, const struct wire_req *r,
                     const struct cc_bytes *items, uint64_t n_items)
{
    uint64_t    size = request_size(prefix, r, items, n_items);
    const char *field = request_fields[r->op];
    bool        is_pairs = r->op == WIRE_MULTI_SET;
    uint8_t    *at;

    if (size == 0)
        return -E2BIG;
    at = cc_buf_grow(b, (size_t) size);
    if (!at)
        return -ENOMEM;
    *at++ = (uint8_t) r->op;
    if (*field == 'k') {
        at = put_key(at, prefix, r->key);
        field++;
    }
    for (const struct cc_bytes *v = &r->value; *field == 'v'; field++, v = &r->desired)
        at = wire_put_bytes(at, *v);
    if (*field == '4')
        (void) wire_put32(at, (uint32_t) r->number);
    else if (*field == '8')
        (void) wire_put64(at, (uint64_t) r->number);
    else if (*field != '\0')
        at = wire_put64(at, is_pairs ? n_items / 2 : n_items);
    for (uint64_t i = 0; i < n_items; i++)
        at = !is_pairs || i % 2 == 0 ? put_key(at, prefix, items[i]) : wire_put_bytes(at, items[i]);
    return 0;
}
