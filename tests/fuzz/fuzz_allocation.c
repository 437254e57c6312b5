/* fuzz_allocation.c - whatever a scheduler says in the environment gives values that the options can have, or one sentence.
 *
 * An input is lines NAME=VALUE, in which ~ stands for the end of a line; then an empty line and the words of the command line.
 * Files that are named are not there.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/allocation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS_MAX = 100 };

static const char *no_env(const char *name)
{
    (void) name;
    return NULL;
}

static void check(const struct allocation *a)
{
    assert(a->role == ALLOCATION_NONE || a->system || a->node_rank != ALLOCATION_NO_RANK || a->head[0]);
    assert(a->nodes <= HOSTLIST_MAX && a->node_rank >= ALLOCATION_NO_RANK && a->port <= UINT16_MAX);
    assert(a->role != ALLOCATION_MEMBER || a->nodes == 0 || a->node_rank < (int) a->nodes);
    assert(!a->nodes || a->nodes_from);
    assert(a->node_rank == ALLOCATION_NO_RANK || a->node_rank_from);
    assert(!a->head[0] || a->head_from);
    assert(!a->port || a->port_from);
    assert(a->crowd == 0 || (a->crowd > 1 && a->crowd_from && a->task_rank_from));
}

static void run(char **env, char **argv)
{
    struct machine    m = { .root = "/nowhere", .env = env };
    struct allocation a;
    struct options    o;
    struct cc_err     err = { 0 };
    char              text[ALLOCATION_TEXT_MAX];
    int               r = allocation_read(&a, &m, "n17.cluster", &err);

    if (r == 0) {
        check(&a);
        assert(strlen(allocation_text(&a, text, sizeof text)) < sizeof text);
        if (options_parse(&o, argv, no_env, &err) == 0)
            r = allocation_suggest(&a, &o, &err);
        options_free(&o);
    }
    assert(r == 0 || err.msg[0]);
    allocation_clear(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char   program[] = "ccrun", script[] = "train.py", *env[WORDS_MAX + 1], *argv[WORDS_MAX + 3] = { program };
    char  *text = malloc(size + 1), *rest = text, *word, *c;
    size_t n_env = 0, n_argv = 1;
    int    is_env = 1;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    while ((word = strsep(&rest, "\n")) && n_env < WORDS_MAX && n_argv <= WORDS_MAX) {
        if (is_env && !*word) {
            is_env = 0;
        } else if (is_env) {
            for (c = word; (c = strchr(c, '~'));)
                *c = '\n';
            env[n_env++] = word;
        } else {
            argv[n_argv++] = word;
        }
    }
    env[n_env] = NULL;
    argv[n_argv++] = script;
    argv[n_argv] = NULL;
    run(env, argv);
    free(text);
    return 0;
}
