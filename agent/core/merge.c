#include "agent/core/merge.h"

#include <string.h>

enum { COLUMNS_UNKNOWN = 80 };

void merge_init(struct merge *m, struct logq *q, enum merge_cr cr)
{
    *m = (struct merge){ .q = q, .cr = cr };
}

void merge_src_init(struct merge_src *s, const char *prefix, size_t prefix_len, char *state)
{
    *s = (struct merge_src){
        .prefix = prefix,
        .prefix_len = prefix_len,
        .state = state,
        .state_due = UINT64_MAX,
    };
}

size_t merge_fit(const char *bytes, size_t len, size_t columns, size_t *ret_width)
{
    size_t i = 0, width = 0;

    while (i < len) {
        size_t start = i;

        if (bytes[i] == '\033' && i + 1 < len && bytes[i + 1] == '[') {
            i += 2;
            while (i < len && (bytes[i] < '@' || bytes[i] > '~'))
                i++;
            i += i < len;
            continue;
        }
        i++;
        while (i < len && ((unsigned char) bytes[i] & 0xc0) == 0x80)
            i++;
        if (width == columns) {
            i = start;
            break;
        }
        width++;
    }
    *ret_width = width;
    return i;
}

/* Blanks, not a control sequence: it works on every terminal. */
static void hide_live(struct merge *m)
{
    if (m->live_width == 0)
        return;
    logq_put(m->q, "\r", 1);
    logq_fill(m->q, ' ', m->live_width);
    logq_put(m->q, "\r", 1);
    m->live_width = 0;
    m->is_live_stale = true;
}

static void put_prefix(struct merge *m, const struct merge_src *s)
{
    logq_put(m->q, s->prefix, s->prefix_len);
}

/* Makes the output ready for bytes of `s`. */
static void begin(struct merge *m, struct merge_src *s, char first)
{
    bool goes_on = m->open == s && (!m->is_open_at_cr || first == '\n');

    hide_live(m);
    if (m->open && m->open != s)
        logq_put(m->q, "\n", 1);
    m->open = NULL;
    if (!goes_on)
        put_prefix(m, s);
}

static void drop_state(struct merge *m, struct merge_src *s)
{
    s->state_len = 0;
    s->state_due = UINT64_MAX;
    if (m->live == s)
        m->live = NULL;
}

static void write_state(struct merge *m, struct merge_src *s)
{
    begin(m, s, '\0');
    logq_put(m->q, s->state, s->state_len);
    logq_put(m->q, "\n", 1);
    drop_state(m, s);
}

/* The prefix of the first line is written already. */
static void put_labelled(struct logq *q, const struct merge_src *s, const char *p, size_t len)
{
    const char *end = p + len;
    size_t      room, first = (size_t) ((const char *) memchr(p, '\n', len) + 1 - p);
    char       *start, *out, *limit;

    logq_put(q, p, first);
    p += first;
    start = out = logq_reserve(q, 0, &room);
    limit = start + room;
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t) (end - p));
        size_t      n = (size_t) (nl + 1 - p), need = s->prefix_len + n;

        if ((size_t) (limit - out) < need) {
            logq_commit(q, (size_t) (out - start));
            start = out = logq_reserve(q, need, &room);
            limit = start + room;
        }
        memcpy(out, s->prefix, s->prefix_len);
        memcpy(out + s->prefix_len, p, n);
        out += need;
        p += n;
    }
    logq_commit(q, (size_t) (out - start));
}

static void put_lines(struct merge *m, struct merge_src *s, const char *bytes, size_t len)
{
    size_t end = bytes[0] == '\n' ? 1 : bytes[0] == '\r' && bytes[1] == '\n' ? 2 : 0;

    if (s->state_len > 0 && end > 0) { /* the newline of the state itself, come late */
        write_state(m, s);
        bytes += end;
        len -= end;
    }
    drop_state(m, s);
    s->is_bar = false;
    if (len == 0)
        return;
    begin(m, s, bytes[0]);
    if (s->prefix_len > 0)
        put_labelled(m->q, s, bytes, len);
    else
        logq_put(m->q, bytes, len);
}

static void put_text(struct merge *m, struct merge_src *s, const char *bytes, size_t len)
{
    drop_state(m, s);
    s->is_bar = false;
    begin(m, s, bytes[0]);
    logq_put(m->q, bytes, len);
}

static bool is_blank(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != ' ')
            return false;
    return true;
}

/* The last row stays with one bar while that one moves: several in turn would only flicker. */
static void take_live(struct merge *m, struct merge_src *s, uint64_t now)
{
    if (m->live && m->live != s && now - m->live_at < MERGE_EVERY_MS)
        return;
    m->live = s;
    m->live_at = now;
    m->is_live_stale = true;
}

static void set_state(struct merge *m, struct merge_src *s, const char *bytes, size_t len, uint64_t now)
{
    if (len > MERGE_STATE_MAX) {
        put_text(m, s, bytes, len);
        logq_put(m->q, "\n", 1);
        return;
    }
    memcpy(s->state, bytes, len);
    s->state_len = len;
    if (m->cr == MERGE_REDRAW)
        take_live(m, s, now);
    else if (s->state_due == UINT64_MAX)
        s->state_due = now + MERGE_EVERY_MS;
}

static void put_state(struct merge *m, struct merge_src *s, const char *bytes, size_t len, uint64_t now)
{
    if (m->cr == MERGE_KEEP) {
        put_text(m, s, bytes, len);
        m->open = s;
        m->is_open_at_cr = true;
        return;
    }
    len--;              /* the \r */
    if (m->open == s) { /* it ends a line of which a piece is out already */
        put_text(m, s, bytes, len);
        logq_put(m->q, "\n", 1);
    } else if (len > 0 && is_blank(bytes, len)) {
        s->state_len = 0;
        s->state_due = UINT64_MAX;
        m->is_live_stale = true;
    } else if (len > 0) {
        set_state(m, s, bytes, len, now);
    }
    s->is_bar = true;
}

void merge_unit(struct merge *m, struct merge_src *s, enum demux_kind kind, const char *bytes, size_t len,
                uint64_t now)
{
    switch (kind) {
    case DEMUX_LINES: put_lines(m, s, bytes, len); break;
    case DEMUX_STATE: put_state(m, s, bytes, len, now); break;
    case DEMUX_PIECE:
        put_text(m, s, bytes, len);
        m->open = s;
        m->is_open_at_cr = false;
        break;
    case DEMUX_REST:
        put_text(m, s, bytes, len);
        logq_put(m->q, "\n", 1);
        break;
    }
}

void merge_peek(struct merge *m, struct merge_src *s, const char *bytes, size_t len, uint64_t now)
{
    bool has_cr = len > 0 && bytes[len - 1] == '\r';

    if (m->cr != MERGE_REDRAW || m->open == s || !(s->is_bar || has_cr))
        return;
    len -= has_cr;
    if (len > 0 && len <= MERGE_STATE_MAX && !is_blank(bytes, len))
        set_state(m, s, bytes, len, now);
}

void merge_tick(struct merge *m, struct merge_src *s, uint64_t now)
{
    if (s->state_due <= now)
        write_state(m, s);
}

void merge_break(struct merge *m, struct merge_src *s)
{
    if (m->open != s)
        return;
    logq_put(m->q, "\n", 1);
    m->open = NULL;
}

void merge_end(struct merge *m, struct merge_src *s)
{
    if (s->state_len > 0)
        write_state(m, s);
    drop_state(m, s);
    merge_break(m, s);
}

void merge_draw(struct merge *m)
{
    size_t columns = (m->columns ? m->columns : COLUMNS_UNKNOWN) - 1, old = m->live_width, used, width,
           text_width, n;

    if (!m->is_live_stale || m->open)
        return;
    m->is_live_stale = false;
    if (!m->live || m->live->state_len == 0) {
        hide_live(m);
        m->is_live_stale = false;
        return;
    }
    used = merge_fit(m->live->prefix, m->live->prefix_len, columns, &width);
    n = merge_fit(m->live->state, m->live->state_len, columns - width, &text_width);
    logq_put(m->q, "\r", 1);
    logq_put(m->q, m->live->prefix, used);
    logq_put(m->q, m->live->state, n);
    m->live_width = width + text_width;
    if (old > m->live_width)
        logq_fill(m->q, ' ', old - m->live_width);
}
