/* fuzz_mpinodes.c - lines of nodes make a world or none; each rank of a world is on one node, as the texts say.
 *
 * An input is a byte, the size of the world, and the lines.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/mpinodes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 16 };

static void check(const struct mpinodes *m)
{
    struct cc_buf vector = { .p = NULL }, hosts = { .p = NULL }, ranks = { .p = NULL };
    const char   *at;

    assert(mpinodes_vector(m, &vector) == 0 && mpinodes_hosts(m, &hosts) == 0 && mpinodes_ranks(m, &ranks) == 0);
    assert(strncmp((const char *) cc_buf_data(&vector), "(vector,(0,", 11) == 0);
    at = (const char *) cc_buf_data(&ranks);
    for (uint32_t r = 0; r < m->world; r++) {
        uint32_t node = mpinodes_of(m, r);
        char    *end;

        assert(node < m->n && m->base[node] <= r && r < m->base[node + 1]);
        assert(strtoul(at, &end, 10) == r); /* each, in order, apart by , or at a node's end ; */
        assert(*end == (r + 1 == m->world ? '\0' : r + 1 == m->base[node + 1] ? ';' : ','));
        at = end + 1;
    }
    cc_buf_free(&vector);
    cc_buf_free(&hosts);
    cc_buf_free(&ranks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cc_bytes lines[LINES_MAX];
    struct mpinodes m;
    struct cc_err   err = { 0 };
    size_t          at = 1;
    uint32_t        n = 0;

    while (n < LINES_MAX && at < size) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t         len = end ? (size_t) (end - (data + at)) : size - at;

        lines[n++] = (struct cc_bytes){ data + at, len };
        at += len + 1;
    }
    if (n == 0)
        return 0;
    if (mpinodes_make(&m, lines, n, data[0], &err) == 0) {
        check(&m);
        mpinodes_clear(&m);
    } else {
        assert(err.msg[0]);
    }
    return 0;
}
