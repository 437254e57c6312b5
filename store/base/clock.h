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

static inline uint64_t cc_realtime_ms(void) /* for people and files; never for deadlines */
{
    return cc_clock_ms(CLOCK_REALTIME);
}

#endif
