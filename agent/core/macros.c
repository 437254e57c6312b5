#include "agent/core/macros.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/base/macros.h"

static bool is_first(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t name_length(const char *s)
{
    size_t n = 0;

    if (is_first(s[0]))
        for (n = 1; is_first(s[n]) || (s[n] >= '0' && s[n] <= '9'); n++)
            continue;
    return n;
}

/* The text of a name, or NULL when there is no such name.  `buf` holds a number. */
static const char *value_of(const char *name, size_t len, const struct macros_values *v, char buf[16])
{
    const struct {
        const char *name, *text;
        unsigned    number;
    } table[] = {
        { "local_rank", NULL, v->local_rank },
        { "rank", NULL, v->rank },
        { "world_size", NULL, v->world_size },
        { "local_world_size", NULL, v->local_world_size },
        { "group_rank", NULL, v->group_rank },
        { "group_world_size", NULL, v->group_world_size },
        { "role_rank", NULL, v->role_rank },
        { "role_world_size", NULL, v->role_world_size },
        { "restart_count", NULL, v->restart_count },
        { "max_restarts", NULL, v->max_restarts },
        { "run_id", v->run_id ? v->run_id : "", 0 },
        { "role", v->role ? v->role : "", 0 },
        { "master_addr", v->master_addr ? v->master_addr : "", 0 },
        { "master_port", NULL, v->master_port },
    };

    for (unsigned i = 0; i < CC_COUNT(table); i++) {
        if (strlen(table[i].name) != len || memcmp(table[i].name, name, len) != 0)
            continue;
        if (table[i].text)
            return table[i].text;
        (void) snprintf(buf, 16, "%u", table[i].number);
        return buf;
    }
    return NULL;
}

struct piece {
    const char *text;      /* what stands in its place */
    size_t      len, used; /* bytes of text, bytes of the argument */
};

/* What the argument begins with: a word that is replaced, or the text up to the next dollar sign. */
static struct piece next_piece(const char *s, const struct macros_values *v, char buf[16])
{
    bool        is_braced = s[0] == '$' && s[1] == '{';
    const char *name = s + 1 + is_braced, *text;
    size_t      len;

    if (s[0] != '$') {
        len = strcspn(s, "$");
        return (struct piece){ s, len, len };
    }
    if (s[1] == '$')
        return (struct piece){ s, 1, 2 };
    len = name_length(name);
    if (len == 0 || (is_braced && name[len] != '}') || !(text = value_of(name, len, v, buf)))
        return (struct piece){ s, 1, 1 };
    return (struct piece){ text, strlen(text), 1 + len + 2 * (size_t) is_braced };
}

static size_t expand(const char *arg, const struct macros_values *v, char *to)
{
    char   buf[16];
    size_t size = 0;

    while (*arg) {
        struct piece p = next_piece(arg, v, buf);

        if (to)
            memcpy(to + size, p.text, p.len);
        size += p.len;
        arg += p.used;
    }
    return size;
}

int macros_expand(const char *arg, const struct macros_values *v, char **ret)
{
    size_t size = expand(arg, v, NULL);
    char  *text = malloc(size + 1);

    if (!text)
        return -ENOMEM;
    (void) expand(arg, v, text);
    text[size] = '\0';
    *ret = text;
    return 0;
}
