#include "agent/core/jsonspace.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct out {
    char    *to; /* NULL: only count */
    size_t   len;
    unsigned indent, depth;
};

static void put(struct out *o, char c)
{
    if (o->to)
        o->to[o->len] = c;
    o->len++;
}

static void new_line(struct out *o)
{
    if (o->indent == 0)
        return;
    put(o, '\n');
    for (unsigned i = 0; i < o->indent * o->depth; i++)
        put(o, ' ');
}

static bool is_open(char c)
{
    return c == '{' || c == '[';
}

static bool is_close(char c)
{
    return c == '}' || c == ']';
}

/* One character outside strings, between `before` and `next`.  Empty lists and objects stay together. */
static void put_token(struct out *o, char before, char c, char next)
{
    if (is_close(c)) {
        o->depth--;
        if (!is_open(before))
            new_line(o);
    }
    put(o, c);
    if (is_open(c)) {
        o->depth++;
        if (!is_close(next))
            new_line(o);
    }
    if (c == ',' && o->indent > 0)
        new_line(o);
    else if (c == ',' || c == ':')
        put(o, ' ');
}

static void put_all(struct out *o, const char *text)
{
    bool is_in_string = false;
    char before = '\0';

    for (const char *p = text; *p; p++) {
        if (is_in_string || *p == '"')
            put(o, *p);
        else
            put_token(o, before, *p, p[1]);
        before = *p;
        if (is_in_string && *p == '\\')
            put(o, *++p);
        else if (*p == '"')
            is_in_string = !is_in_string;
    }
    put(o, '\n');
    put(o, '\0');
}

char *jsonspace(const char *compact, unsigned indent)
{
    struct out o = { .indent = indent };
    char      *text;

    put_all(&o, compact);
    text = malloc(o.len);
    if (!text)
        return NULL;
    o = (struct out){ .to = text, .indent = indent };
    put_all(&o, compact);
    return text;
}
