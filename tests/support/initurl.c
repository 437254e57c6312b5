/* initurl.c - init_url_read() for another program to ask: strings in, answers out, each with a NUL behind it.
 *
 * A question is nine strings: URL, rank, world size (numbers), then RANK, WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE as they are in the environment ("\1": not set), and an empty one.
 * The answer is "SCHEME HOST PORT PATH RANK SIZE SERVED", or "! " and the sentence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/init_url.h"
#include "store/base/macros.h"

enum { N_FIELDS = 9 };

static const char *const names[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                                     "TORCHELASTIC_USE_AGENT_STORE" };

static const char *lookup(void *ctx, const char *name)
{
    char **fields = ctx;

    for (size_t i = 0; i < CC_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return strcmp(fields[3 + i], "\1") == 0 ? NULL : fields[3 + i];
    return NULL;
}

static void answer(char **fields)
{
    static const char *const schemes[] = { "tcp", "file", "env" };
    struct init_args         args = { .url = fields[0],
                                      .rank = strtol(fields[1], NULL, 10),
                                      .world_size = strtol(fields[2], NULL, 10),
                                      .env = lookup,
                                      .ctx = fields };
    struct init_where        w;
    struct cc_err            err;

    if (init_url_read(&w, &args, &err) < 0)
        printf("! %s", err.msg);
    else
        printf("%s %s %u %s %d %d %d", schemes[w.scheme], w.host, w.port, w.path, w.rank, w.world_size,
               w.has_server);
    putchar('\0');
}

int main(void)
{
    char  *fields[N_FIELDS] = { NULL };
    size_t sizes[N_FIELDS] = { 0 };

    for (size_t n = 0; getdelim(&fields[n], &sizes[n], '\0', stdin) > 0; n = (n + 1) % N_FIELDS)
        if (n == N_FIELDS - 1)
            answer(fields);
    for (size_t i = 0; i < N_FIELDS; i++)
        free(fields[i]);
    return 0;
}
