#include "launcher/check_words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/plaintext.h"

enum { SHOWN_MAX = 48, STATUS_MAX = 255 };

bool check_words_number(const char **at, uint64_t max, uint64_t *ret)
{
    const char *p = *at;
    uint64_t    n = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t) (*p - '0');

        if (digit > max || n > (max - digit) / 10)
            return false;
        n = 10 * n + digit;
    }
    if (p == *at)
        return false;
    *at = p;
    *ret = n;
    return true;
}

static bool skip(const char **at, const char *text)
{
    size_t n = strlen(text);

    if (strncmp(*at, text, n) != 0)
        return false;
    *at += n;
    return true;
}

static bool small(const char **at, int min, int max, int *ret)
{
    const char *p = *at;
    uint64_t    n;

    if (max < min || !check_words_number(&p, (uint64_t) max, &n) || (int) n < min)
        return false;
    *at = p;
    *ret = (int) n;
    return true;
}

int check_words_refuse(const char *what, const char *text, struct cc_err *err)
{
    char shown[SHOWN_MAX];

    (void) plaintext_line(shown, sizeof shown, text, strlen(text));
    return cc_fail(err, -EPROTO, "%s cannot be read: '%s'", what, shown);
}

int check_words_plan(const char *text, int size, struct check_plan *ret, struct cc_err *err)
{
    const char *at = text;
    int         by_rank;

    if (!skip(&at, "go ") || !small(&at, 1, size, &ret->n_nodes) || !skip(&at, " ") || !small(&at, 0, 1, &by_rank))
        return check_words_refuse("the plan that rank 0 announced", text, err);
    ret->is_by_rank = by_rank != 0;
    for (int i = 0; i < size; i++)
        if (!skip(&at, " ") || !small(&at, 0, ret->n_nodes - 1, &ret->place[i]) || !skip(&at, ".") ||
            !small(&at, 0, size - 1, &ret->local[i]))
            return cc_fail(err, -EPROTO, "rank 0 announced a plan that says of rank %d no place on one of %d nodes", i,
                           ret->n_nodes);
    return *at ? cc_fail(err, -EPROTO, "rank 0 announced a plan for more than %d ranks", size) : 0;
}

int check_words_verdict(const char *text, int size, int place, struct check_verdict *ret, struct cc_err *err)
{
    static const char what[] = "the verdict that rank 0 announced";
    const char       *at = text;
    size_t            n_id;
    int               curable, node;

    *ret = (struct check_verdict) { .status = 0 };
    if (!small(&at, 0, STATUS_MAX, &ret->status) || !skip(&at, " "))
        return check_words_refuse(what, text, err);
    n_id = strcspn(at, " ;");
    if (n_id == 0 || n_id >= sizeof ret->id)
        return check_words_refuse(what, text, err);
    (void) snprintf(ret->id, sizeof ret->id, "%.*s", (int) n_id, at);
    at += n_id;
    if (!skip(&at, " ") || !small(&at, 0, size, &ret->n_left) || !skip(&at, " ") || !small(&at, 0, 1, &curable) ||
        !skip(&at, " "))
        return check_words_refuse(what, text, err);
    ret->is_curable = curable != 0;
    while (!skip(&at, "; ")) {
        if (!small(&at, 0, size - 1, &node) || !skip(&at, ","))
            return check_words_refuse(what, text, err);
        ret->is_our_fault = ret->is_our_fault || node == place;
    }
    (void) snprintf(ret->text, sizeof ret->text, "%s", at);
    return 0;
}

int check_words_next(const char **at)
{
    int is_over = skip(at, "stop") ? 1 : skip(at, "go") ? 0 : -1;

    return **at == ' ' || **at == '\0' ? is_over : -1;
}

bool check_words_pair(const char **at, unsigned n, unsigned *ret_round, unsigned *ret_node)
{
    const char *p = *at;
    uint64_t    round, node;

    if (n < 2 || !check_words_number(&p, check_pairs_rounds(n) - 1, &round) || !skip(&p, ".") ||
        !check_words_number(&p, n - 1, &node) || !skip(&p, " "))
        return false;
    *at = p;
    *ret_round = (unsigned) round;
    *ret_node = (unsigned) node;
    return true;
}

bool check_words_measured(const char *post, uint64_t *ret_ns, uint64_t *ret_n_wrong)
{
    return check_words_number(&post, INT64_MAX, ret_ns) && skip(&post, " ") &&
           check_words_number(&post, INT64_MAX, ret_n_wrong) && (*post == '\0' || *post == '\n');
}
