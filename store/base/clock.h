/* clock.h - the time in milliseconds. Not for cores: they are told the time. */
#ifndef CC_CLOCK_H
#define CC_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t cc_clock_ms(clockid_t id)
{
    struct timespec t;

    (void) clock_gettime(id, &t);
    return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

static inline uint64_t cc_monotonic_ms(void)
{
    return cc_clock_ms(CLOCK_MONOTONIC);
}

/* That many milliseconds from now, on the monotonic clock; too far away is never. */
static inline uint64_t cc_deadline_in(uint64_t ms)
{
    uint64_t now = cc_monotonic_ms();

    return ms < UINT64_MAX - now ? now + ms : UINT64_MAX;
}

static inline uint64_t cc_realtime_ms(void) /* for people and files; never for deadlines */
{
    return cc_clock_ms(CLOCK_REALTIME);
}

#endif
