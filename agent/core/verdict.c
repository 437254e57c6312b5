#include "agent/core/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/macros.h"

static enum verdict_word word_of(const char *line, size_t n)
{
    static const struct {
        const char       *name;
        enum verdict_word word;
    } words[] = {
        { "passed", VERDICT_PASSED }, { "ok", VERDICT_OK },   { "others", VERDICT_OTHERS },
        { "out", VERDICT_OUT },       { "bad", VERDICT_BAD },
    };

    for (size_t i = 0; i < CC_COUNT(words); i++)
        if (strlen(words[i].name) == n && memcmp(words[i].name, line, n) == 0)
            return words[i].word;
    return VERDICT_NONE;
}

void verdict_take(struct verdict *v, const char *line)
{
    size_t            n = strcspn(line, " "), n_id;
    enum verdict_word word = word_of(line, n);
    const char       *id = line + n + (line[n] == ' ');
    char             *text;
    unsigned long     n_left;

    n_id = strcspn(id, " ");
    if (word == VERDICT_NONE || n_id == 0 || n_id >= sizeof v->id || id[n_id] != ' ')
        return;
    n_left = strtoul(id + n_id + 1, &text, 10);
    if (*text != ' ' || n_left > UINT32_MAX)
        return;
    v->n_lines++;
    if (word <= v->word)
        return;
    v->word = word;
    v->n_left = (unsigned) n_left;
    (void) snprintf(v->id, sizeof v->id, "%.*s", (int) n_id, id);
    (void) snprintf(v->text, sizeof v->text, "%s", text + 1);
}

static void add(struct verdict *v, const char *more)
{
    size_t n = strlen(v->text);

    (void) snprintf(v->text + n, sizeof v->text - n, "; %s", more);
}

/* Somebody else may know better what is wrong here, and then waits for us to leave. */
static enum verdict_act without_verdict(struct verdict *v, enum verdict_policy policy, bool is_needed)
{
    if (v->word < VERDICT_OTHERS)
        (void) snprintf(v->text, sizeof v->text, "the check ended without a verdict on this node");
    v->word = VERDICT_BAD;
    if (policy == VERDICT_WARN)
        return VERDICT_GO;
    return policy == VERDICT_EXCLUDE && !is_needed ? VERDICT_LEAVE : VERDICT_STOP;
}

enum verdict_act verdict_act(struct verdict *v, enum verdict_policy policy, unsigned n_expected, unsigned min_nodes,
                             bool is_needed)
{
    if (v->n_lines < n_expected)
        return without_verdict(v, policy, is_needed);
    if (v->word < VERDICT_OTHERS || policy == VERDICT_WARN)
        return VERDICT_GO;
    if (policy == VERDICT_REFUSE)
        return VERDICT_STOP;
    if (v->word == VERDICT_BAD) {
        add(v, "no node can be left out for that");
        return VERDICT_STOP;
    }
    if (v->n_left < min_nodes) {
        add(v, "too few nodes would be left");
        return VERDICT_STOP;
    }
    return v->word == VERDICT_OUT ? VERDICT_LEAVE : VERDICT_WAIT;
}
