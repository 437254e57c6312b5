/* adder - a small parallel computation with checkpoints: workers that meet in the store add up numbers, step by step.
 *
 *   adder FOLDER STEP_MS
 *
 * In step t every rank adds its share of the numbers 1 to NUMBERS, each times t, to a counter of the store; when all have,
 * rank 0 writes `t total` to FOLDER/checkpoint, from which a later round goes on.  What comes out depends on neither the
 * number of ranks nor what happens to them.  Every rank ends after the step in which rank 0 sees FOLDER/enough; rank 0
 * then writes `t total` to FOLDER/answer if the total is right, and fails if it is not.  A store that fails ends a rank with 97.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/client.h"

enum { NUMBERS = 97, WAIT_MS = 120000, NO_STORE = 97, WRONG = 96 };

static struct store_client *store;
static struct cc_err        err;

static long number(const char *name)
{
    const char *value = getenv(name);

    return value ? strtol(value, NULL, 10) : -1;
}

static void must(int r)
{
    if (r >= 0)
        return;
    (void) fprintf(stderr, "adder %ld: %s\n", number("RANK"), err.msg);
    exit(NO_STORE);
}

static struct cc_bytes key(char *buf, size_t size, const char *name, int64_t t)
{
    (void) snprintf(buf, size, "%s.%" PRId64, name, t);
    return cc_bytes_of(buf);
}

static int64_t add(const char *name, int64_t t, int64_t n)
{
    char    buf[64];
    int64_t sum = 0;

    must(store_client_add(store, key(buf, sizeof buf, name, t), n, &sum, &err));
    return sum;
}

static void say(const char *name, int64_t t, int64_t value)
{
    char buf[64], text[64];

    (void) snprintf(text, sizeof text, "%" PRId64, value);
    must(store_client_set(store, key(buf, sizeof buf, name, t), cc_bytes_of(text), &err));
}

static int64_t hear(const char *name, int64_t t)
{
    char          buf[64];
    struct cc_buf text = { 0 };
    int64_t       value;

    must(store_client_get(store, key(buf, sizeof buf, name, t), WAIT_MS, &text, &err));
    must(cc_buf_add(&text, "", 1));
    value = strtoll((const char *) cc_buf_data(&text), NULL, 10);
    cc_buf_free(&text);
    return value;
}

static void write_pair(const char *folder, const char *name, int64_t t, int64_t total)
{
    char  path[4096], part[4096 + 8];
    FILE *f;

    (void) snprintf(path, sizeof path, "%s/%s", folder, name);
    (void) snprintf(part, sizeof part, "%s.new", path);
    f = fopen(part, "we");
    if (!f || fprintf(f, "%" PRId64 " %" PRId64 "\n", t, total) < 0 || fclose(f) != 0 || rename(part, path) != 0) {
        perror(part);
        exit(1);
    }
}

static void read_checkpoint(const char *folder, int64_t *t, int64_t *total)
{
    char  path[4096];
    FILE *f;

    (void) snprintf(path, sizeof path, "%s/checkpoint", folder);
    f = fopen(path, "re");
    if (f && fscanf(f, "%" SCNd64 " %" SCNd64, t, total) != 2) {
        (void) fprintf(stderr, "adder: the checkpoint is broken\n");
        exit(WRONG);
    }
    if (f)
        (void) fclose(f);
}

static int64_t share(int64_t t, long rank, long world)
{
    int64_t sum = 0;

    for (long i = 1 + rank; i <= NUMBERS; i += world)
        sum += i * t;
    return sum;
}

static bool is_enough(const char *folder)
{
    char path[4096];

    (void) snprintf(path, sizeof path, "%s/enough", folder);
    return access(path, F_OK) == 0;
}

static int finish(const char *folder, int64_t t, int64_t total)
{
    if (total != (int64_t) NUMBERS * (NUMBERS + 1) / 2 * (t * (t + 1) / 2)) {
        (void) fprintf(stderr, "adder: %" PRId64 " after %" PRId64 " steps is wrong\n", total, t);
        return WRONG;
    }
    write_pair(folder, "answer", t, total);
    return 0;
}

int main(int argc, char **argv)
{
    long                    rank = number("RANK"), world = number("WORLD_SIZE"), pace = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    struct timespec         step = { pace / 1000, pace % 1000 * 1000000 };
    struct store_client_cfg cfg = { .port = (uint16_t) number("MASTER_PORT"), .timeout_ms = WAIT_MS };
    int64_t                 t = 0, total = 0, is_over = 0;

    if (argc != 3 || rank < 0 || world < 1)
        return 2;
    cfg.host = getenv("MASTER_ADDR");
    must(store_client_connect(&store, &cfg, WAIT_MS, &err));
    if (rank == 0) {
        read_checkpoint(argv[1], &t, &total);
        say("begin", 0, t);
    }
    t = hear("begin", 0);
    while (!is_over) {
        int64_t sum;

        (void) nanosleep(&step, NULL);
        t++;
        (void) add("sum", t, share(t, rank, world));
        if (add("there", t, 1) == world)
            say("all", t, add("sum", t, 0));
        sum = hear("all", t);
        if (rank == 0) {
            total += sum;
            write_pair(argv[1], "checkpoint", t, total);
            say("over", t, is_enough(argv[1]));
        }
        is_over = hear("over", t);
    }
    (void) store_client_free(store);
    return rank == 0 ? finish(argv[1], t, total) : 0;
}
