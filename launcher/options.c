#include "launcher/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "launcher/near.h"
#include "launcher/options_rows.h"
#include "launcher/pyvalue.h"
#include "launcher/size.h"
#include "store/base/macros.h"

enum { REPR_MAX = 160, NAME_MAX_LEN = 64, MATCHES_MAX = 320, SECONDS_MAX = 1000 * 1000 * 1000 };

const struct option_row option_rows[OPTIONS_N] = {
#define OPT(field, kind, origin, name, letter, arg, dflt, group, help)                                       \
    { offsetof(struct options, field), KIND_##kind, ORIGIN_##origin, name, letter, arg, dflt, group, help },
#include "launcher/options.def"
#undef OPT
};

/* Names beside the table's: --nproc would be an ambiguous prefix for torchrun, so nothing that works there
 * changes. */
static const struct {
    const char    *name;
    enum option_id id;
} aliases[] = {
    { "nproc", OPTION_nproc_per_node },
};

/* Variables CCRUN_* that are no options: of our test suite, and those that ccrun itself reads elsewhere. */
static const char *const other_variables[] = { "CCRUN_BIN", "CCRUN_FILE_LIMIT", "CCRUN_RECORD",
                                               "CCRUN_REPEAT", "CCRUN_TALLY" };

struct option_mem {
    struct option_mem *next;
    char               bytes[];
};

/* One value on its way into the struct. */
struct setting {
    struct options    *o;
    enum option_id     id;
    const char        *text;
    enum option_source source;
    const char        *source_name; /* the variable, or who decided */
};

static void *take(struct options *o, size_t size, struct cc_err *err)
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

const char *option_variable(const char *prefix, const struct option_row *row, char *buf)
{
    char *p = buf + snprintf(buf, OPTION_VAR_MAX, "%s%s", prefix, row->name);

    assert(p < buf + OPTION_VAR_MAX);
    while (p-- > buf)
        *p = *p == '-' ? '_' : (char) toupper((unsigned char) *p);
    return buf;
}

bool option_underscored(const struct option_row *row, char *buf)
{
    size_t i, len = strlen(row->name);

    assert(len < NAME_MAX_LEN);
    for (i = 0; i <= len; i++)
        buf[i] = row->name[i] == '-' ? '_' : row->name[i];
    return strcmp(buf, row->name) != 0;
}

/* As argparse names an option: -r/--redirects, --max-restarts/--max_restarts. */
static const char *full_name(const struct option_row *row, char *buf, size_t size)
{
    char other[NAME_MAX_LEN];
    bool has_other = option_underscored(row, other);
    char letter[] = { '-', row->letter, '/', '\0' };

    (void) snprintf(buf, size, "%s--%s%s%s", row->letter ? letter : "", row->name, has_other ? "/--" : "",
                    has_other ? other : "");
    return buf;
}

static int refuse_row(const struct option_row *row, struct cc_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse_row(const struct option_row *row, struct cc_err *err, const char *fmt, ...)
{
    char    name[2 * NAME_MAX_LEN], what[2 * REPR_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return cc_fail(err, -EINVAL, "argument %s: %s", full_name(row, name, sizeof name), what);
}

/* The value is not acceptable: says so, and which variable it came from. */
static int refuse(const struct setting *s, struct cc_err *err, const char *what)
{
    char quoted[REPR_MAX];

    return refuse_row(&option_rows[s->id], err, "%s: %s%s%s%s", what,
                      pyvalue_repr(s->text, quoted, sizeof quoted), s->source_name ? " (from " : "",
                      s->source_name ? s->source_name : "", s->source_name ? ")" : "");
}

/* ---- one parser for each kind; `field` is where the value goes */

static int set_flag(const struct setting *s, void *field, struct cc_err *err)
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

static int set_int(const struct setting *s, void *field, struct cc_err *err)
{
    int r = pyvalue_int(s->text, field);

    if (r == -EINVAL)
        return refuse(s, err, "invalid int value");
    if (r < 0 || *(int64_t *) field > INT32_MAX || *(int64_t *) field < INT32_MIN)
        return refuse(s, err, "int value out of range (-2147483648 to 2147483647)");
    return 0;
}

static int set_count(const struct setting *s, void *field, struct cc_err *err)
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

static int set_float(const struct setting *s, void *field, struct cc_err *err)
{
    return pyvalue_float(s->text, field) < 0 ? refuse(s, err, "invalid float value") : 0;
}

static int set_str(const struct setting *s, void *field, struct cc_err *err)
{
    (void) err;
    *(const char **) field = s->text;
    return 0;
}

static int set_choice(const struct setting *s, void *field, struct cc_err *err)
{
    const char *p = option_rows[s->id].arg;
    char        list[MATCHES_MAX], quoted[REPR_MAX];
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
    return refuse_row(&option_rows[s->id], err, "invalid choice: %s (choose from %s)%s%s%s",
                      pyvalue_repr(s->text, quoted, sizeof quoted), list, s->source_name ? " (from " : "",
                      s->source_name ? s->source_name : "", s->source_name ? ")" : "");
}

/* torchrun's comma_separated_list: ",," is a comma, and the empty text is one empty item. */
static int set_list(const struct setting *s, void *field, struct cc_err *err)
{
    size_t       n = 1, i = 0;
    const char  *p;
    const char **items;
    char        *to;

    for (p = s->text; *p; p++)
        n += *p == ',';
    items = take(s->o, (n + 1) * sizeof *items, err);
    to = take(s->o, strlen(s->text) + 1, err);
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
static int set_add(const struct setting *s, void *field, struct cc_err *err)
{
    const char *const **list = field;
    const char        **longer;
    size_t              n = 0, i;
    int                 r;

    if (s->source == OPTION_ARGV) {
        while (*list && (*list)[n])
            n++;
        longer = take(s->o, (n + 2) * sizeof *longer, err);
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

static int set_size(const struct setting *s, void *field, struct cc_err *err)
{
    int r = size_parse(s->text, field);

    if (r == -ERANGE)
        return refuse(s, err, "size out of range (at most 16777215T)");
    return r < 0 ? refuse(s, err, "invalid size (a number, with K, M, G or T after it)") : 0;
}

static int set_seconds(const struct setting *s, void *field, struct cc_err *err)
{
    double seconds;

    if (pyvalue_float(s->text, &seconds) < 0)
        return refuse(s, err, "invalid float value");
    if (!(seconds >= 0 && seconds <= SECONDS_MAX))
        return refuse(s, err, "seconds out of range (0 to 1000000000)");
    *(uint64_t *) field = (uint64_t) ceil(seconds * 1000);
    return 0;
}

static int set(const struct setting *s, struct cc_err *err)
{
    typedef int          set_fn(const struct setting *, void *, struct cc_err *);
    static set_fn *const setters[] = {
        [KIND_FLAG] = set_flag,       [KIND_COUNT] = set_count, [KIND_INT] = set_int,
        [KIND_FLOAT] = set_float,     [KIND_STR] = set_str,     [KIND_CHOICE] = set_choice,
        [KIND_LIST] = set_list,       [KIND_ADD] = set_add,     [KIND_SIZE] = set_size,
        [KIND_SECONDS] = set_seconds,
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
    const struct setting s = { o, id, text, OPTION_OTHER, who };

    return options_is_given(o, id) ? 0 : set(&s, err);
}

/* ---- argv */

/* What one word of argv means, before any value is looked at. */
struct word {
    const struct option_row *row;   /* NULL: no option that we know */
    const char              *value; /* what was glued to it, or NULL */
};

/* --nproc_per_node and --nproc-per-node are one option, and so are mixtures. */
static bool is_name(const char *typed, size_t len, const char *name)
{
    size_t i;

    for (i = 0; i < len; i++)
        if (name[i] != (typed[i] == '_' ? '-' : typed[i]))
            return false;
    return name[len] == '\0';
}

/* How many of the row's spellings begin with what was typed; appends them to `list`. */
static unsigned begins(const struct option_row *row, const char *typed, size_t len, char *list, size_t size)
{
    char     other[NAME_MAX_LEN];
    unsigned n = 0;
    size_t   used = strlen(list);

    if (strncmp(row->name, typed, len) == 0) {
        used += (size_t) snprintf(list + used, size - used, "%s--%s", used ? ", " : "", row->name);
        n++;
    }
    if (option_underscored(row, other) && strncmp(other, typed, len) == 0) {
        if (used < size)
            (void) snprintf(list + used, size - used, "%s--%s", used ? ", " : "", other);
        n++;
    }
    return n;
}

/* An abbreviation.  What torchrun understands keeps its meaning, whatever options we have beside its own. */
static int match_prefix(const char *word, size_t len, struct word *ret, struct cc_err *err)
{
    const struct option_row *any = NULL, *torch = NULL;
    char                     list[MATCHES_MAX] = "", quoted[REPR_MAX];
    unsigned                 n_rows = 0, n_torch = 0;
    size_t                   i;

    for (i = 0; i < OPTIONS_N; i++) {
        const struct option_row *row = &option_rows[i];
        unsigned                 n = row->group ? begins(row, word + 2, len, list, sizeof list - 1) : 0;

        if (n == 0)
            continue;
        n_rows++;
        any = row;
        if (row->origin != ORIGIN_OURS) {
            n_torch += n;
            torch = row;
        }
    }
    if (n_rows > 1 && n_torch != 1) {
        (void) snprintf(quoted, sizeof quoted, "%s", word);
        return cc_fail(err, -EINVAL, "ambiguous option: %s could match %s", quoted, list);
    }
    ret->row = n_rows == 1 ? any : torch;
    return 0;
}

static int match(const char *text, struct word *ret, struct cc_err *err)
{
    size_t i, len = strcspn(text + 2, "=");
    int    r = 0;

    *ret = (struct word){ 0 };
    if (text[1] != '-') {
        for (i = 0; i < OPTIONS_N; i++)
            if (option_rows[i].letter == text[1])
                ret->row = &option_rows[i];
        ret->value = text[2] ? text + 2 : NULL;
        return 0;
    }
    for (i = 0; i < OPTIONS_N; i++)
        if (is_name(text + 2, len, option_rows[i].name))
            ret->row = &option_rows[i];
    for (i = 0; i < CC_COUNT(aliases); i++)
        if (is_name(text + 2, len, aliases[i].name))
            ret->row = &option_rows[aliases[i].id];
    if (!ret->row && len > 0)
        r = match_prefix(text, len, ret, err);
    ret->value = text[2 + len] ? text + 2 + len + 1 : NULL;
    return r;
}

/* argparse: a negative number is a value, and so is a word with a blank in it that is no option. */
static bool is_number(const char *p)
{
    size_t whole = strspn(++p, "0123456789");

    if (p[whole] == '\0')
        return whole > 0;
    return p[whole] == '.' && p[whole + 1] && p[whole + 1 + strspn(p + whole + 1, "0123456789")] == '\0';
}

static bool is_value(const char *text)
{
    struct word w;

    if (text[0] != '-' || text[1] == '\0' || is_number(text))
        return true;
    return strcmp(text, "--") != 0 && strchr(text, ' ') && match(text, &w, NULL) == 0 && !w.row;
}

struct cursor {
    struct options *o;
    char          **next;    /* word to look at */
    bool            is_over; /* --help, --version or --dump: nothing else counts */
};

static int apply(struct cursor *c, const struct option_row *row, const char *text, struct cc_err *err)
{
    const struct setting s = { c->o, (enum option_id)(row - option_rows), text, OPTION_ARGV, NULL };

    if (!option_has_variable(s.id))
        c->is_over = true;
    return set(&s, err);
}

static int take_value(struct cursor *c, const struct word *w, struct cc_err *err)
{
    const char *text = w->value;

    if (!text) {
        if (!*c->next || !is_value(*c->next))
            return refuse_row(w->row, err, "expected one argument");
        text = *c->next++;
    }
    return apply(c, w->row, text, err);
}

/* -m, -r3, and clusters: -mr3. */
static int take_short(struct cursor *c, const char *text, struct cc_err *err)
{
    struct word w;
    char        quoted[REPR_MAX], letter[3] = "-";
    int         r;

    (void) match(text++, &w, err);
    for (;;) {
        const char *rest = text + 1;

        if (*rest == '=')
            rest++;
        if (option_has_arg(w.row)) {
            w.value = text[1] ? rest : NULL;
            return take_value(c, &w, err);
        }
        letter[1] = *rest;
        if (text[1]) {
            struct word after;

            (void) match(letter, &after, NULL);
            if (!after.row || rest != text + 1)
                return refuse_row(w.row, err, "ignored explicit argument %s",
                                  pyvalue_repr(rest, quoted, sizeof quoted));
            r = apply(c, w.row, "1", err);
            w = after;
            text = rest;
            if (r < 0 || c->is_over)
                return r;
            continue;
        }
        return apply(c, w.row, "1", err);
    }
}

static int take_long(struct cursor *c, const struct word *w, struct cc_err *err)
{
    char quoted[REPR_MAX];

    if (option_has_arg(w->row))
        return take_value(c, w, err);
    if (w->value)
        return refuse_row(w->row, err, "ignored explicit argument %s",
                          pyvalue_repr(w->value, quoted, sizeof quoted));
    return apply(c, w->row, "1", err);
}

/* What somebody may have meant who wrote that option, or NULL. */
static const char *guess(const char *text)
{
    struct near n;
    char        name[NAME_MAX_LEN];
    size_t      i;

    (void) snprintf(name, sizeof name, "%.*s", (int) strcspn(text, "="), text);
    near_start(&n, name + (name[1] == '-' ? 2 : 1));
    for (i = 0; i < OPTIONS_N; i++)
        if (option_rows[i].group)
            near_try(&n, option_rows[i].name);
    for (i = 0; i < CC_COUNT(aliases); i++)
        near_try(&n, aliases[i].name);
    return n.best;
}

static int parse_argv(struct cursor *c, struct cc_err *err)
{
    char        unknown[MATCHES_MAX] = "";
    const char *meant = NULL;
    size_t      used = 0;

    while (*c->next && !c->is_over) {
        const char *text = *c->next;
        struct word w;
        int         r;

        if (strcmp(text, "--") == 0) {
            c->next++;
            break;
        }
        if (is_value(text))
            break;
        c->next++;
        r = match(text, &w, err);
        if (r < 0)
            return r;
        if (!w.row) {
            (void) snprintf(unknown + used, sizeof unknown - used, " %.120s", text);
            used = strlen(unknown);
            meant = meant ? meant : guess(text);
        } else {
            r = text[1] == '-' ? take_long(c, &w, err) : take_short(c, text, err);
        }
        if (r < 0)
            return r;
    }
    if (used > 0 && !c->is_over)
        return cc_fail(err, -EINVAL, "unrecognized arguments:%s%s%s%s", unknown,
                       meant ? " (did you mean --" : "", meant ? meant : "", meant ? "?)" : "");
    return 0;
}

/* ---- the environment */

/* The variable that sets an option, the strongest first; NULL: none of them is there. */
static const char *find_variable(enum option_id id, const char *(*env)(const char *), char *name)
{
    const struct option_row *row = &option_rows[id];
    const char              *v = env(option_variable("CCRUN_", row, name));
    size_t                   i;

    for (i = 0; !v && i < CC_COUNT(aliases); i++)
        if (aliases[i].id == id) {
            const struct option_row alias = { .name = aliases[i].name };

            v = env(option_variable("CCRUN_", &alias, name));
        }
    if (!v && row->origin == ORIGIN_PET)
        v = env(option_variable("PET_", row, name));
    if (!v && id == OPTION_shutdown_timeout) { /* torchrun's own name for it */
        (void) snprintf(name, OPTION_VAR_MAX, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
        v = env(name);
    }
    return v;
}

static int parse_env(struct options *o, const char *(*env)(const char *), struct cc_err *err)
{
    unsigned i;

    for (i = 0; i < OPTIONS_N; i++) {
        struct setting s = { o, (enum option_id) i, NULL, OPTION_ENV, NULL };
        char           name[OPTION_VAR_MAX], *kept;
        int            r;

        if (options_is_given(o, s.id) || !option_has_variable(s.id))
            continue;
        s.text = find_variable(s.id, env, name);
        if (!s.text)
            continue;
        kept = take(o, strlen(name) + 1, err);
        if (!kept)
            return -ENOMEM;
        memcpy(kept, name, strlen(name) + 1);
        s.source_name = kept;
        r = set(&s, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_known_variable(const char *name, struct near *n)
{
    char   var[OPTION_VAR_MAX];
    size_t i;

    for (i = 0; i < CC_COUNT(other_variables); i++)
        if (strcmp(name, other_variables[i]) == 0)
            return true;
    for (i = 0; i < OPTIONS_N + CC_COUNT(aliases); i++) {
        const struct option_row row = { .name = i < OPTIONS_N ? option_rows[i].name
                                                              : aliases[i - OPTIONS_N].name };

        if (i < OPTIONS_N && !option_has_variable((enum option_id) i))
            continue;
        if (strcmp(name, option_variable("CCRUN_", &row, var)) == 0)
            return true;
        near_try(n, row.name);
    }
    return false;
}

void options_check_environ(struct options *o, char *const *env)
{
    for (; *env; env++) {
        char        name[OPTION_VAR_MAX], best[OPTION_VAR_MAX];
        struct near n;

        if (strncmp(*env, "CCRUN_", 6) != 0)
            continue;
        (void) snprintf(name, sizeof name, "%.*s", (int) strcspn(*env, "="), *env);
        near_start(&n, name + 6);
        if (is_known_variable(name, &n))
            continue;
        if (n.best) {
            const struct option_row row = { .name = n.best };

            warnings_add(&o->warnings, "unknown variable %s is ignored; did you mean %s?", name,
                         option_variable("CCRUN_", &row, best));
        } else {
            warnings_add(&o->warnings, "unknown variable %s is ignored", name);
        }
    }
}

/* ---- all together */

static void set_defaults(struct options *o)
{
    unsigned i;

    memset(o, 0, sizeof *o);
    for (i = 0; i < OPTIONS_N; i++) {
        const struct setting s = { o, (enum option_id) i, option_rows[i].dflt, OPTION_DEFAULT, NULL };

        if (s.text) {
            int r = set(&s, NULL);

            assert(r == 0);
            (void) r;
        }
    }
}

int options_parse(struct options *o, char **argv, const char *(*env)(const char *), struct cc_err *err)
{
    struct cursor c = { o, argv + (argv[0] != NULL), false };
    int           r;

    set_defaults(o);
    o->worker_argv = c.next;
    r = parse_argv(&c, err);
    if (r < 0)
        return r;
    while (c.is_over && *c.next)
        c.next++;
    o->worker_argv = c.next;
    if (c.is_over)
        return 0;
    r = parse_env(o, env, err);
    if (r < 0)
        return r;
    if (!*o->worker_argv && !o->show_config)
        return cc_fail(err, -EINVAL,
                       "the following arguments are required: training_script, training_script_args");
    return 0;
}
