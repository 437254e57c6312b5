/* expandhosts - the milliseconds that it takes to expand a node list, once, in a process that has not done it before.
 *
 *     expandhosts LIST HOSTS     HOSTS: how many it must give
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "launcher/hostlist.h"

static double now_ms(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

int main(int argc, char **argv)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };
    double          begin = now_ms(), ms;
    int             r = argc == 3 ? hostlist_nodes(&l, "the list", argv[1], &err) : -1;

    ms = now_ms() - begin;
    if (r < 0 || l.n != strtoul(argv[2], NULL, 10)) {
        (void) fprintf(stderr, "expandhosts: %zu hosts: %s\n", l.n, err.msg);
        return 1;
    }
    (void) printf("%.3f\n", ms);
    hostlist_clear(&l);
    return 0;
}
