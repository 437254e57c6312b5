/* filestore.c PATH WORLD_SIZE [TIMEOUT_MS] - a user of a FileStore that does what stdin says, one line an
 * answer.
 *
 *   set K V | get K | add K N | compare_set K EXPECTED DESIRED | delete K | check K | wait K | num_keys
 *
 * Words are without blanks; "-" stands for an empty one.  A failure is answered with "! " and the sentence.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/filestore.h"

enum { MAX_WORDS = 4, DEFAULT_MS = 10000 };

static uint64_t timeout_ms = DEFAULT_MS;

static struct cc_bytes b(const char *word)
{
    return cc_bytes_of(word && strcmp(word, "-") != 0 ? word : "");
}

static int say_value(int r, struct cc_buf *v)
{
    if (r == 0)
        printf("%.*s\n", (int) cc_buf_len(v), cc_buf_len(v) > 0 ? (const char *) cc_buf_data(v) : "");
    cc_buf_free(v);
    return r;
}

static int say_number(int r, int64_t n)
{
    if (r == 0)
        printf("%" PRId64 "\n", n);
    return r;
}

static int obey(struct filestore *f, char **w, struct cc_err *err)
{
    struct cc_bytes key = b(w[1]);
    struct cc_buf   v = { 0 };
    int64_t         n = 0;
    bool            is_there = false;
    int             r;

    if (strcmp(w[0], "set") == 0)
        return say_number(filestore_set(f, key, b(w[2]), err), 0);
    if (strcmp(w[0], "get") == 0)
        return say_value(filestore_get(f, key, timeout_ms, &v, err), &v);
    if (strcmp(w[0], "add") == 0) {
        r = filestore_add(f, key, strtoll(w[2] ? w[2] : "", NULL, 10), &n, err);
        return say_number(r, n);
    }
    if (strcmp(w[0], "compare_set") == 0)
        return say_value(filestore_compare_set(f, key, b(w[2]), b(w[3]), &v, err), &v);
    if (strcmp(w[0], "delete") == 0)
        return say_number(filestore_delete(f, key, err), 0);
    if (strcmp(w[0], "wait") == 0)
        return say_number(filestore_wait(f, &key, 1, timeout_ms, err), 0);
    if (strcmp(w[0], "check") == 0) {
        r = filestore_check(f, &key, 1, &is_there, err);
        return say_number(r, is_there);
    }
    if (strcmp(w[0], "num_keys") == 0) {
        r = filestore_num_keys(f, &n, err);
        return say_number(r, n);
    }
    return cc_fail(err, -EINVAL, "'%s' is no command", w[0]);
}

int main(int argc, char **argv)
{
    struct filestore_cfg cfg = { 0 };
    struct filestore    *f = NULL;
    struct cc_err        err;
    char                *line = NULL;
    size_t               size = 0;

    if (argc < 3)
        return 2;
    if (argc > 3)
        timeout_ms = strtoull(argv[3], NULL, 10);
    cfg.path = argv[1];
    cfg.world_size = strtoll(argv[2], NULL, 10);
    cfg.timeout_ms = timeout_ms;
    if (filestore_open(&f, &cfg, &err) < 0) {
        printf("! %s\n", err.msg);
        return 1;
    }
    while (getline(&line, &size, stdin) > 0) {
        char *word[MAX_WORDS + 1] = { NULL }, *save = NULL, *rest = line;

        for (int i = 0; i < MAX_WORDS && (word[i] = strtok_r(rest, " \n", &save)); i++)
            rest = NULL;
        if (word[0] && obey(f, word, &err) < 0)
            printf("! %s\n", err.msg);
        (void) fflush(stdout);
    }
    free(line);
    (void) filestore_free(f);
    return 0;
}
