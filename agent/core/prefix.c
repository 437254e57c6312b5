#include "agent/core/prefix.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct out {
    char  *buf;
    size_t used;
};

static void put(struct out *o, const char *text, size_t len)
{
    size_t room = PREFIX_MAX - 1 - o->used;

    if (len > room)
        len = room;
    memcpy(o->buf + o->used, text, len);
    o->used += len;
}

static bool is_name_start(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t name_length(const char *s)
{
    size_t n = 0;

    if (!is_name_start(s[0]))
        return 0;
    while (is_name_start(s[n]) || (s[n] >= '0' && s[n] <= '9'))
        n++;
    return n;
}

static bool put_value(struct out *o, const char *name, size_t len, const struct prefix_vars *v)
{
    char number[16];
    int  n;

    if (len == 9 && !memcmp(name, "role_name", 9)) {
        put(o, v->role_name, strlen(v->role_name));
        return true;
    }
    if (len == 4 && !memcmp(name, "rank", 4))
        n = snprintf(number, sizeof number, "%u", v->rank);
    else if (len == 10 && !memcmp(name, "local_rank", 10))
        n = snprintf(number, sizeof number, "%u", v->local_rank);
    else
        return false;
    put(o, number, (size_t) n);
    return true;
}

/* `s` points at a `$`. Returns how much of the template is dealt with. */
static size_t expand_one(struct out *o, const char *s, const struct prefix_vars *v)
{
    bool   is_braced = s[1] == '{';
    size_t len = name_length(s + 1 + is_braced), whole = 1 + len + (is_braced ? 2 : 0);

    if (s[1] == '$') {
        put(o, "$", 1);
        return 2;
    }
    if (len == 0 || (is_braced && s[2 + len] != '}')) {
        put(o, s, 1);
        return 1;
    }
    if (!put_value(o, s + 1 + is_braced, len, v))
        put(o, s, whole);
    return whole;
}

size_t prefix_expand(char buf[PREFIX_MAX], const char *template, const struct prefix_vars *vars)
{
    struct out o = { .buf = buf };

    while (*template) {
        size_t plain = strcspn(template, "$");

        put(&o, template, plain);
        template += plain;
        if (*template)
            template += expand_one(&o, template, vars);
    }
    buf[o.used] = '\0';
    return o.used;
}

size_t prefix_tee(char buf[PREFIX_MAX], const char *template, const struct prefix_vars *vars)
{
    return prefix_expand(buf, template && *template ? template : "[${role_name}${local_rank}]:", vars);
}

size_t prefix_label(char buf[PREFIX_MAX], unsigned rank)
{
    return (size_t) snprintf(buf, PREFIX_MAX, "[%u] ", rank);
}
