#include "launcher/options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/options_rows.h"
#include "launcher/size.h"
#include "store/base/macros.h"
#include "store/base/pyvalue.h"

enum { REPR_MAX = 160, LIST_MAX = 320, SECONDS_MAX = 1000 * 1000 * 1000 };

#define INT_RANGE "int value out of range (-2147483648 to 2147483647)"

struct option_mem {
    struct option_mem *next;
    char               bytes[];
};

void *option_take(struct options *o, size_t size, struct cc_err *err)
{
    struct option_mem *m = malloc(sizeof *m + size);

    if (!m) {
        (void) cc_fail(err, -ENOMEM, "no memory for the options");
        return NULL;
    }
    m->next = o->mem;
    o->mem = m;
    return m->bytes;
}

void options_free(struct options *o)
{
    while (o->mem) {
        struct option_mem *next = o->mem->next;

        free(o->mem);
        o->mem = next;
    }
}

/* As argparse names an option: -r/--redirects, --max-restarts/--max_restarts. */
static const char *full_name(const struct option_row *row, char *buf, size_t size)
{
    char other[OPTION_NAME_MAX];
    bool has_other = option_underscored(row, other);
    char letter[] = { '-', row->letter, '/', '\0' };

    (void) snprintf(buf, size, "%s--%s%s%s", row->letter ? letter : "", row->name, has_other ? "/--" : "",
                    has_other ? other : "");
    return buf;
}

int option_refuse(const struct option_row *row, struct cc_err *err, const char *fmt, ...)
{
    char    name[2 * OPTION_NAME_MAX], what[2 * REPR_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return cc_fail(err, -EINVAL, "argument %s: %s", full_name(row, name, sizeof name), what);
}

/* The value is not acceptable: says so, and which variable it came from. */
static int refuse(const struct option_setting *s, struct cc_err *err, const char *what)
{
    char quoted[REPR_MAX];

    return option_refuse(&option_rows[s->id], err, "%s: %s%s%s%s", what,
                         pyvalue_repr(s->text, quoted, sizeof quoted), s->source_name ? " (from " : "",
                         s->source_name ? s->source_name : "", s->source_name ? ")" : "");
}

/* ---- one parser for each kind; `field` is where the value goes */

static int set_flag(const struct option_setting *s, void *field, struct cc_err *err)
{
    static const struct {
        const char *word;
        bool        is_on;
    } words[] = { { "true", true },   { "yes", true }, { "on", true },
                  { "false", false }, { "no", false }, { "off", false } };
    char    quoted[REPR_MAX];
    int64_t n;
    size_t  i;
    bool    is_pet = s->source == OPTION_ENV && strncmp(s->source_name, "PET_", 4) == 0;

    if (s->source == OPTION_ARGV) {
        *(bool *) field = true;
        return 0;
    }
    if (pyvalue_int(s->text, &n) == 0) {
        *(bool *) field = n != 0;
        return 0;
    }
    for (i = 0; !is_pet && i < CC_COUNT(words); i++)
        if (strcasecmp(s->text, words[i].word) == 0) {
            *(bool *) field = words[i].is_on;
            return 0;
        }
    (void) pyvalue_repr(s->text, quoted, sizeof quoted);
    return cc_fail(err, -EINVAL, "%s: invalid literal for int() with base 10: %s (1 switches --%s on, 0 off)",
                   s->source_name, quoted, option_rows[s->id].name);
}

static int set_int(const struct option_setting *s, void *field, struct cc_err *err)
{
    int r = pyvalue_int(s->text, field);

    if (r == -EINVAL)
        return refuse(s, err, "invalid int value");
    if (r < 0 || *(int64_t *) field > INT32_MAX || *(int64_t *) field < INT32_MIN)
        return refuse(s, err, INT_RANGE);
    return 0;
}

static int set_count(const struct option_setting *s, void *field, struct cc_err *err)
{
    int64_t n;

    if (s->source == OPTION_ARGV) {
        ++*(unsigned *) field;
        return 0;
    }
    if (pyvalue_int(s->text, &n) < 0 || n < 0 || n > 9)
        return refuse(s, err, "invalid level (0 to 9)");
    *(unsigned *) field = (unsigned) n;
    return 0;
}

static int set_float(const struct option_setting *s, void *field, struct cc_err *err)
{
    return pyvalue_float(s->text, field) < 0 ? refuse(s, err, "invalid float value") : 0;
}

static int set_str(const struct option_setting *s, void *field, struct cc_err *err)
{
    (void) err;
    *(const char **) field = s->text;
    return 0;
}

static int set_choice(const struct option_setting *s, void *field, struct cc_err *err)
{
    const char *p = option_rows[s->id].arg;
    char        list[LIST_MAX], quoted[REPR_MAX];
    size_t      used = 0, len = strlen(s->text);

    for (;; p++) {
        size_t n = strcspn(p, "|");

        if (n == len && strncmp(p, s->text, n) == 0) {
            *(const char **) field = s->text;
            return 0;
        }
        used += (size_t) snprintf(list + used, sizeof list - used, "%s'%.*s'", used ? ", " : "", (int) n, p);
        p += n;
        if (!*p)
            break;
    }
    return option_refuse(&option_rows[s->id], err, "invalid choice: %s (choose from %s)%s%s%s",
                         pyvalue_repr(s->text, quoted, sizeof quoted), list, s->source_name ? " (from " : "",
                         s->source_name ? s->source_name : "", s->source_name ? ")" : "");
}

/* torchrun's comma_separated_list: ",," is a comma, and the empty text is one empty item. */
static int set_list(const struct option_setting *s, void *field, struct cc_err *err)
{
    size_t       n = 1, i = 0;
    const char  *p;
    const char **items;
    char        *to;

    for (p = s->text; *p; p++)
        n += *p == ',';
    items = option_take(s->o, (n + 1) * sizeof *items, err);
    to = option_take(s->o, strlen(s->text) + 1, err);
    if (!items || !to)
        return -ENOMEM;
    items[i++] = to;
    for (p = s->text; *p; p++) {
        if (p[0] == ',' && p[1] == ',') {
            *to++ = *p++;
        } else if (*p == ',') {
            *to++ = '\0';
            items[i++] = to;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
    items[i] = NULL;
    *(const char *const **) field = items;
    return 0;
}

/* From argv one item is added; a variable holds a whole list. */
static int set_add(const struct option_setting *s, void *field, struct cc_err *err)
{
    const char *const **list = field;
    const char        **longer;
    size_t              n = 0, i;
    int                 r;

    if (s->source == OPTION_ARGV) {
        while (*list && (*list)[n])
            n++;
        longer = option_take(s->o, (n + 2) * sizeof *longer, err);
        if (!longer)
            return -ENOMEM;
        for (i = 0; i < n; i++)
            longer[i] = (*list)[i];
        longer[n] = s->text;
        longer[n + 1] = NULL;
        *list = longer;
    } else {
        r = set_list(s, field, err);
        if (r < 0)
            return r;
    }
    for (i = 0; (*list)[i]; i++)
        if (!strchr((*list)[i], '=') || (*list)[i][0] == '=')
            return refuse(s, err, "not NAME=VALUE");
    return 0;
}

static int set_size(const struct option_setting *s, void *field, struct cc_err *err)
{
    int r = size_parse(s->text, field);

    if (r == -ERANGE)
        return refuse(s, err, "size out of range (at most 16777215T)");
    return r < 0 ? refuse(s, err, "invalid size (a number, with K, M, G or T after it)") : 0;
}

static int set_seconds(const struct option_setting *s, void *field, struct cc_err *err)
{
    double seconds;

    if (pyvalue_float(s->text, &seconds) < 0)
        return refuse(s, err, "invalid float value");
    if (!(seconds >= 0 && seconds <= (double) SECONDS_MAX))
        return refuse(s, err, "seconds out of range (0 to 1000000000)");
    *(uint64_t *) field = (uint64_t) ceil(seconds * 1000);
    return 0;
}

static int set_rate(const struct option_setting *s, void *field, struct cc_err *err)
{
    switch (restarts_rate(s->text, field)) {
    case 0: return 0;
    case -ERANGE: return refuse(s, err, INT_RANGE);
    case -EDOM: return refuse(s, err, "invalid window (N/WINDOW, such as 3/1h: a number with s, m, h or d after it)");
    default: return refuse(s, err, "invalid int value");
    }
}

int option_set(const struct option_setting *s, struct cc_err *err)
{
    typedef int          set_fn(const struct option_setting *, void *, struct cc_err *);
    static set_fn *const setters[] = {
        [KIND_FLAG] = set_flag,       [KIND_COUNT] = set_count, [KIND_INT] = set_int,
        [KIND_FLOAT] = set_float,     [KIND_STR] = set_str,     [KIND_CHOICE] = set_choice,
        [KIND_LIST] = set_list,       [KIND_ADD] = set_add,     [KIND_SIZE] = set_size,
        [KIND_SECONDS] = set_seconds, [KIND_RATE] = set_rate,
    };
    const struct option_row *row = &option_rows[s->id];
    int                      r = setters[row->kind](s, (char *) s->o + row->offset, err);

    if (r < 0)
        return r;
    s->o->source[s->id] = s->source;
    s->o->source_name[s->id] = s->source_name;
    s->o->text[s->id] = s->text;
    return 0;
}

int options_suggest(struct options *o, enum option_id id, const char *text, const char *who,
                    struct cc_err *err)
{
    char                 *kept = option_take(o, strlen(text) + 1, err);
    struct option_setting s = { o, id, kept, OPTION_OTHER, who };

    if (!kept)
        return -ENOMEM;
    memcpy(kept, text, strlen(text) + 1);
    return options_is_given(o, id) ? 0 : option_set(&s, err);
}
