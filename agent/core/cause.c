#include "agent/core/cause.h"

#include <assert.h>

/* A worker's clock is ours, but its timestamp is cut to seconds and our notes are taken a little later. */
enum { SLACK_MS = 1000 };

static bool is_credible(const struct cause_failure *f, uint64_t at)
{
    return at + SLACK_MS >= f->started_ms && at <= f->detected_ms + SLACK_MS;
}

uint64_t cause_time(const struct cause_failure *f, bool *ret_is_exact)
{
    uint64_t at;

    *ret_is_exact = true;
    if (f->file_s <= 0 || f->file_s > INT64_MAX / 1000 || !is_credible(f, (uint64_t) f->file_s * 1000))
        return f->detected_ms;
    at = (uint64_t) f->file_s * 1000;
    /* The file is written right after its timestamp was taken: at most into the next second. */
    if (f->file_ms >= at && f->file_ms < at + 2000)
        return f->file_ms < f->detected_ms ? f->file_ms : f->detected_ms;
    *ret_is_exact = false;
    return at;
}

static bool is_before(const struct cause_failure *a, const struct cause_failure *b, bool is_in_ms)
{
    bool     is_exact;
    uint64_t ta = cause_time(a, &is_exact), tb = cause_time(b, &is_exact);

    return is_in_ms ? ta < tb : ta / 1000 < tb / 1000;
}

/* Milliseconds only when every time has them: mixing two resolutions would make the order depend on the order
 * of the comparisons. */
static bool all_exact(const struct cause_failure *f, size_t n)
{
    bool is_exact = true;

    for (size_t i = 0; i < n && is_exact; i++)
        (void) cause_time(&f[i], &is_exact);
    return is_exact;
}

static uint64_t first_detected(const struct cause_failure *f, size_t n)
{
    uint64_t at = UINT64_MAX;

    for (size_t i = 0; i < n; i++)
        if (!f[i].is_ours && f[i].detected_ms < at)
            at = f[i].detected_ms;
    return at;
}

/* Rule 4: our signal went out when the first failure was seen; a file written before that is not its
 * consequence. */
static bool is_candidate(const struct cause_failure *f, uint64_t trouble_ms, bool is_none_own)
{
    bool     is_exact;
    uint64_t at;

    if (!f->is_ours || is_none_own)
        return true;
    at = cause_time(f, &is_exact);
    if (f->file_s <= 0 || at == f->detected_ms)
        return false;
    return is_exact ? at < trouble_ms : at / 1000 < trouble_ms / 1000;
}

size_t cause_first(const struct cause_failure *f, size_t n)
{
    uint64_t trouble_ms = first_detected(f, n);
    bool     is_none_own = trouble_ms == UINT64_MAX, is_in_ms = all_exact(f, n);
    size_t   best = n;

    assert(n > 0);
    for (size_t i = 0; i < n; i++)
        if (is_candidate(&f[i], trouble_ms, is_none_own) &&
            (best == n || is_before(&f[i], &f[best], is_in_ms)))
            best = i;
    assert(best < n);
    return best;
}
