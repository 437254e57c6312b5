#include "backends/lastwords.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/whois.h"
#include "store/base/clock.h"

enum {
    STORE_MS = 2000, /* for one answer of the store */
    WORDS_MS = 1000, /* for the others to fail, too: they have the same deadline, about */
    PAUSE_MS = 20,
    NAMED_MAX = 8, /* a sentence, not a list */
    KEY_MAX = 32,
    WORDS_MAX = 400,
    WHY_MAX = 250,
};

struct lastwords {
    struct keystore *store;
    struct whois     me;
    int              rank, size;
    bool             has_said, is_deaf; /* the store is gone */
    char             why[WHY_MAX];      /* what we have said */
};

static const char *key_of(const char *what, int rank, char buf[KEY_MAX])
{
    (void) snprintf(buf, KEY_MAX, "%s/%d", what, rank);
    return buf;
}

int lastwords_open(struct lastwords **ret, struct keystore *store, int rank, int size, struct cc_err *err)
{
    struct lastwords *w = calloc(1, sizeof *w);
    char              key[KEY_MAX], text[WHOIS_TEXT_MAX];
    int               r;

    if (!w)
        return cc_fail(err, -ENOMEM, "no memory");
    w->rank = rank;
    w->size = size;
    whois_self(&w->me);
    r = keystore_clone_for(&w->store, store, "words/", STORE_MS, err);
    if (r == 0)
        r = keystore_set(w->store, key_of("who", rank, key), cc_bytes_of(whois_write(&w->me, text)), err);
    if (r < 0)
        (void) lastwords_free(w);
    else
        *ret = w;
    return r;
}

struct lastwords *lastwords_free(struct lastwords *w)
{
    if (w)
        (void) keystore_free(w->store);
    free(w);
    return NULL;
}

/* What a rank has said, or who it is; false: nothing, or the store is gone. */
static bool read_key(struct lastwords *w, const char *key, char *ret, size_t size)
{
    struct cc_buf v = { 0 };
    struct cc_err err;
    bool          is_there = false;
    int           r = w->is_deaf ? -ENOTCONN : keystore_check(w->store, &key, 1, &is_there, &err);

    if (r == 0 && is_there)
        r = keystore_get(w->store, key, 0, &v, &err);
    if (r < 0 && r != -ETIMEDOUT)
        w->is_deaf = true;
    if (r == 0 && is_there)
        (void) snprintf(ret, size, "%.*s", (int) cc_buf_len(&v), (const char *) cc_buf_data(&v));
    cc_buf_free(&v);
    return r == 0 && is_there;
}

bool lastwords_heard(struct lastwords *w, struct cc_err *err)
{
    char line[WORDS_MAX];

    if (!read_key(w, "first", line, sizeof line))
        return false;
    (void) cc_fail(err, -ECONNRESET, "given up, as %s", line);
    return true;
}

void lastwords_say(struct lastwords *w, const char *doing, const char *why)
{
    char          key[KEY_MAX], line[WORDS_MAX];
    struct cc_buf was = { 0 };

    if (w->has_said || w->is_deaf)
        return;
    w->has_said = true;
    (void) snprintf(w->why, sizeof w->why, "%s", why);
    (void) snprintf(line, sizeof line, "rank %d failed in %s: %s", w->rank, doing, w->why);
    if (keystore_set(w->store, key_of("in", w->rank, key), cc_bytes_of(doing), NULL) < 0 ||
        keystore_compare_set(w->store, "first", cc_bytes_of(""), cc_bytes_of(line), &was, NULL) < 0)
        w->is_deaf = true; /* what is asked next would take as long, and in vain */
    cc_buf_free(&was);
}

/* ---- who has not */

enum answer { SILENT, GONE, SAID };

static void note(struct cc_err *err, int *n, const char *text)
{
    size_t len = strlen(err->msg);

    if ((*n)++ < NAMED_MAX)
        (void) snprintf(err->msg + len, sizeof err->msg - len, "; %s", text);
}

/* Reads what it can from the ranks that have not been heard; returns how many of them may still say
 * something. */
static int listen_to(struct lastwords *w, char *answers, char (*lines)[WORDS_MAX])
{
    int n_open = 0;

    for (int i = 0; i < w->size && !w->is_deaf; i++) {
        char         key[KEY_MAX], text[WHOIS_TEXT_MAX];
        struct whois who;

        if (i == w->rank || answers[i] != SILENT)
            continue;
        if (read_key(w, key_of("in", i, key), lines[i], sizeof *lines)) {
            answers[i] = SAID;
            continue;
        }
        if (read_key(w, key_of("who", i, key), text, sizeof text)) {
            whois_read(&who, text);
            if (whois_is_gone(&who, &w->me)) {
                answers[i] = GONE;
                (void) snprintf(lines[i], sizeof *lines, "rank %d (process %d on %s) has ended", i, who.pid,
                                who.host);
                continue;
            }
        }
        n_open++;
    }
    return n_open;
}

/* Another one was the first to fail, for a reason of its own (`known` is not in it): that is likely to be
 * what ours came from.  Returns whose words err has now; -1: nobody's. */
static int add_first(struct lastwords *w, const char *known, int *n, struct cc_err *err)
{
    static const char begin[] = "rank ";
    char              line[WORDS_MAX];
    int               first;

    if (!read_key(w, "first", line, sizeof line) || strncmp(line, begin, sizeof begin - 1) != 0)
        return -1;
    first = (int) strtol(line + sizeof begin - 1, NULL, 10);
    if (strstr(err->msg, line))
        return first;
    if (first == w->rank || strstr(line, known))
        return -1;
    note(err, n, line);
    return first;
}

void lastwords_add_first(struct lastwords *w, const char *known, struct cc_err *err)
{
    int n = 0;

    (void) add_first(w, known, &n, err);
}

void lastwords_ask(struct lastwords *w, const char *doing, bool is_alike, struct cc_err *err)
{
    char *answers = calloc((size_t) w->size, 1),
         (*lines)[WORDS_MAX] = calloc((size_t) w->size, sizeof *lines);
    uint64_t until = cc_monotonic_ms() + WORDS_MS;
    int      n = 0, first = add_first(w, w->why, &n, err);

    while (answers && lines && listen_to(w, answers, lines) > 0 && !w->is_deaf && cc_monotonic_ms() < until) {
        const struct timespec t = { .tv_nsec = PAUSE_MS * 1000000L };

        (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    }
    for (int i = 0; answers && lines && !w->is_deaf && i < w->size; i++) {
        char text[WORDS_MAX + 40];

        if (i == w->rank || i == first || (answers[i] == SAID && (!is_alike || strcmp(lines[i], doing) == 0)))
            continue;
        if (answers[i] == SAID)
            (void) snprintf(text, sizeof text, "rank %d was in %s", i, lines[i]);
        else if (answers[i] == GONE)
            (void) snprintf(text, sizeof text, "%s", lines[i]);
        else
            (void) snprintf(text, sizeof text, "rank %d has not come, or is still in it", i);
        note(err, &n, text);
    }
    free(answers);
    free(lines);
}
