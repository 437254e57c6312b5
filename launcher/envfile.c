#include "launcher/envfile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/cleanup.h"

enum { SHOWN = 60 };

struct cursor {
    char          *at, *end, *to; /* to: where the next entry goes, never after `at` */
    unsigned       line;
    const char    *name;
    struct cc_err *err;
};

static int fail(const struct cursor *c, unsigned line, const char *what, const char *text, size_t len)
{
    return cc_fail(c->err, -EINVAL, "%.200s:%u: '%.*s' %s", c->name, line, (int) (len < SHOWN ? len : SHOWN), text, what);
}

static void put(struct cursor *c, char byte)
{
    c->line += byte == '\n';
    *c->to++ = byte;
}

/* After the opening quote; up to the closing one. */
static void take_double(struct cursor *c)
{
    while (c->at < c->end && *c->at != '"') {
        if (*c->at == '\\' && c->at + 1 < c->end && strchr("\\\"$`\n", c->at[1])) {
            c->at++;
            if (*c->at == '\n') { /* the line goes on */
                c->line++;
                c->at++;
                continue;
            }
        }
        put(c, *c->at++);
    }
}

static int take_quoted(struct cursor *c)
{
    unsigned    line = c->line;
    const char *from;

    while (c->at < c->end && !strchr(" \t\r\n", *c->at)) {
        char quote = *c->at++;

        if (quote == '\\' && c->at < c->end) {
            put(c, *c->at++);
            continue;
        }
        if (quote != '\'' && quote != '"') {
            put(c, quote);
            continue;
        }
        if (quote == '"')
            take_double(c);
        else
            while (c->at < c->end && *c->at != '\'')
                put(c, *c->at++);
        if (c->at == c->end)
            return cc_fail(c->err, -EINVAL, "%.200s:%u: the quote that begins here has no end", c->name, line);
        c->at++;
    }
    from = c->at;
    while (c->at < c->end && strchr(" \t\r", *c->at))
        c->at++;
    if (c->at < c->end && *c->at != '\n' && *c->at != '#')
        return fail(c, c->line, "stands after the closing quote", from, strcspn(from, "\n"));
    while (c->at < c->end && *c->at != '\n')
        c->at++;
    return 0;
}

/* One line, or several if a quote goes over them.  *ret: the entry, NULL when there is none. */
static int take_line(struct cursor *c, char **ret)
{
    char  *eol = memchr(c->at, '\n', (size_t) (c->end - c->at)), *from, *equals;
    size_t len;
    int    r = 0;

    eol = eol ? eol : c->end;
    while (c->at < eol && strchr(" \t", *c->at))
        c->at++;
    if (eol - c->at > 7 && memcmp(c->at, "export ", 7) == 0)
        c->at += 7;
    from = c->at;
    len = (size_t) (eol - from);
    *ret = NULL;
    if (len == 0 || *from == '#' || (len == 1 && *from == '\r')) {
        c->at = eol;
    } else {
        equals = memchr(from, '=', len);
        if (!equals || equals == from)
            return fail(c, c->line, "is not NAME=VALUE", from, len);
        *ret = c->to;
        while (c->at <= equals)
            put(c, *c->at++);
        if (c->at < eol && (*c->at == '\'' || *c->at == '"'))
            r = take_quoted(c);
        else
            while (c->at < eol)
                put(c, *c->at++);
    }
    if (c->at < c->end)
        c->at++; /* the newline: there is room for the NUL now */
    c->line++;
    if (*ret)
        *c->to++ = '\0';
    return r;
}

static int take_nul(struct cursor *c, char **ret)
{
    size_t len = strlen(c->at);

    *ret = c->at;
    if (!strchr(c->at, '=') || *c->at == '=')
        return fail(c, c->line, "is not NAME=VALUE", c->at, len);
    c->at += len + 1;
    c->line++; /* counts entries */
    return 0;
}

int envfile_parse(char *text, size_t len, const char *name, char ***ret, struct cc_err *err)
{
    bool                is_nul = memchr(text, '\0', len) != NULL;
    struct cursor       c = { text, text + len, text, 1, name, err };
    CC_AUTO_FREE char **list = NULL;
    size_t              n = 1, i = 0;

    text[len] = '\0';
    for (i = 0; i < len; i++)
        n += text[i] == (is_nul ? '\0' : '\n');
    list = calloc(n + 1, sizeof *list);
    if (!list)
        return cc_fail(err, -ENOMEM, "no memory for '%.200s'", name);
    i = 0;
    while (c.at < c.end) {
        int r = is_nul ? take_nul(&c, &list[i]) : take_line(&c, &list[i]);

        if (r < 0)
            return r;
        i += list[i] != NULL;
    }
    *ret = CC_STEAL(list);
    return 0;
}
