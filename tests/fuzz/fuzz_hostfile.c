/* fuzz_hostfile.c - a host file, or the value of --hosts, gives hosts that are each named once, or one sentence.
 *
 * The first line of an input is a filter, "+" in front of it for --include and "-" for --exclude; the rest is the file.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/hostfile.h"
#include "launcher/hostfilter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct hostlist *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct host *h = &l->host[i];

        assert(*h->name && *h->name != '-' && !strpbrk(h->name, "[], \t\n\r;'\"$`@/"));
        assert(!h->user || (*h->user && *h->user != '-' && !strpbrk(h->user, " \t\n\r;'\"$`@/")));
        assert(h->slots <= HOSTFILE_SLOTS_MAX && h->port <= UINT16_MAX);
        assert(h->max_slots == 0 || h->slots <= h->max_slots || h->devices);
        for (size_t k = 0; k < i && k < 64; k++)
            assert(strcasecmp(l->host[k].name, h->name) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };
    char           *text = malloc(size + 1), *rest = text, *how;
    int             r;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    how = strsep(&rest, "\n");
    r = hostfile_parse(&l, "hosts", rest ? rest : "", &err);
    assert(r == 0 || strstr(err.msg, "hosts"));
    if (r == 0) {
        assert(l.n > 0);
        check(&l);
        if (l.n <= 1000 && hostfilter(&l, *how == '+' ? how + 1 : NULL, *how == '-' ? how + 1 : NULL, &err) == 0)
            check(&l);
    }
    hostlist_clear(&l);
    if (hostfile_hosts(&l, rest ? rest : "", &err) == 0)
        check(&l);
    hostlist_clear(&l);
    free(text);
    return 0;
}
