/* fuzz_hostlist.c - node lists and task counts come from a batch system or a command line: whatever they hold, the result
 * is hosts that can be named to ssh and srun, or one sentence.
 *
 * The first byte of an input says how many nodes the task counts are for; the rest is both a node list and task counts.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/hostlist.h"
#include "launcher/taskcount.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A list that is written out stands for itself. */
static void check_again(const struct hostlist *l)
{
    struct hostlist again = { 0 };
    struct cc_err   err = { 0 };

    for (size_t i = 0; i < l->n && i < 100; i++) {
        const char *name = l->host[i].name;

        assert(*name && *name != '-' && strlen(name) <= HOSTLIST_NAME_MAX && !strpbrk(name, "[], \t\n\r;'\"$`@/"));
        assert(hostlist_nodes(&again, "again", name, &err) == 0);
        assert(again.n == i + 1 && strcmp(again.host[i].name, name) == 0);
    }
    hostlist_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hostlist l = { 0 };
    struct cc_err   err = { 0 };
    unsigned        counts[256];
    bool            is_longer;
    char           *text;

    if (size == 0 || !(text = malloc(size)))
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (hostlist_nodes(&l, "LIST", text, &err) < 0)
        assert(strstr(err.msg, "LIST '") == err.msg);
    assert(l.n <= HOSTLIST_MAX);
    check_again(&l);
    hostlist_clear(&l);
    if (taskcount_parse("TASKS", text, counts, data[0], &is_longer, &err) == 0)
        for (unsigned i = 0; i < data[0]; i++)
            assert(counts[i] <= TASKCOUNT_MAX);
    assert(taskcount_gpus(text) <= TASKCOUNT_MAX);
    free(text);
    return 0;
}
