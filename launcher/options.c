#include "launcher/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/near.h"
#include "launcher/oneline.h"
#include "launcher/options_rows.h"
#include "store/base/macros.h"
#include "store/base/pyvalue.h"

enum { REPR_MAX = 160, MATCHES_MAX = 320 };

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

/* torchrun's own variables, beside PET_*. */
static const struct {
    const char    *name;
    enum option_id id;
} torch_variables[] = {
    { "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", OPTION_shutdown_timeout },
    { "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT", OPTION_exit_barrier_timeout },
};

/* Variables CCRUN_* that are no options: of our test suite, and those that ccrun itself reads elsewhere. */
static const char *const other_variables[] = { "CCRUN_BIN", "CCRUN_FILE_LIMIT", "CCRUN_NCCL",    "CCRUN_RECORD",
                                               "CCRUN_REPEAT", "CCRUN_TALLY" };

const char *option_variable(const char *prefix, const struct option_row *row, char *buf)
{
    char *p = buf + snprintf(buf, OPTION_VAR_MAX, "%s%s", prefix, row->name);

    assert(p < buf + OPTION_VAR_MAX);
    while (p-- > buf)
        *p = (char) (*p == '-' ? '_' : toupper((unsigned char) *p));
    return buf;
}

bool option_underscored(const struct option_row *row, char *buf)
{
    size_t i, len = strlen(row->name);

    assert(len < OPTION_NAME_MAX);
    for (i = 0; i <= len; i++)
        buf[i] = (char) (row->name[i] == '-' ? '_' : row->name[i]);
    return strcmp(buf, row->name) != 0;
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
    char     other[OPTION_NAME_MAX];
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
    bool            is_over; /* --help, --version and such: nothing else counts */
};

static int apply(struct cursor *c, const struct option_row *row, const char *text, struct cc_err *err)
{
    const struct option_setting s = { c->o, (enum option_id)(row - option_rows), text, OPTION_ARGV, NULL };

    if (!option_has_variable(s.id))
        c->is_over = true;
    return option_set(&s, err);
}

static int take_value(struct cursor *c, const struct word *w, struct cc_err *err)
{
    const char *text = w->value;

    if (!text) {
        if (!*c->next || !is_value(*c->next))
            return option_refuse(w->row, err, "expected one argument");
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
                return option_refuse(w.row, err, "ignored explicit argument %s",
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
        return option_refuse(w->row, err, "ignored explicit argument %s",
                             pyvalue_repr(w->value, quoted, sizeof quoted));
    return apply(c, w->row, "1", err);
}

/* The only option of which the word is a part, as --restarts of --max-restarts; or NULL. */
static const char *containing(const char *word)
{
    char        name[OPTION_NAME_MAX];
    const char *found = NULL;
    size_t      i;

    for (i = 0; word[i] && i < sizeof name - 1; i++)
        name[i] = word[i] == '_' ? '-' : word[i];
    name[i] = '\0';
    for (size_t k = 0; i >= 4 && k < OPTIONS_N; k++) {
        if (!option_rows[k].group || !strstr(option_rows[k].name, name))
            continue;
        if (found)
            return NULL;
        found = option_rows[k].name;
    }
    return found;
}

/* What somebody may have meant who wrote that option, or NULL. */
static const char *guess(const char *text)
{
    struct near n;
    char        name[OPTION_NAME_MAX];
    size_t      i;

    (void) snprintf(name, sizeof name, "%.*s", (int) strcspn(text, "="), text);
    if (strcmp(name, "-n") == 0 || strcmp(name, "-np") == 0)
        return "nproc-per-node"; /* mpirun's */
    near_start(&n, name + (name[1] == '-' ? 2 : 1));
    for (i = 0; i < OPTIONS_N; i++)
        if (option_rows[i].group)
            near_try(&n, option_rows[i].name);
    for (i = 0; i < CC_COUNT(aliases); i++)
        near_try(&n, aliases[i].name);
    return n.best ? n.best : containing(n.word);
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
    for (i = 0; !v && i < CC_COUNT(torch_variables); i++)
        if (torch_variables[i].id == id) {
            (void) snprintf(name, OPTION_VAR_MAX, "%s", torch_variables[i].name);
            v = env(name);
        }
    return v;
}

static int parse_env(struct options *o, const char *(*env)(const char *), struct cc_err *err)
{
    unsigned i;

    for (i = 0; i < OPTIONS_N; i++) {
        struct option_setting s = { o, (enum option_id) i, NULL, OPTION_ENV, NULL };
        char                  name[OPTION_VAR_MAX], *kept;
        int                   r;

        if (options_is_given(o, s.id) || !option_has_variable(s.id))
            continue;
        s.text = find_variable(s.id, env, name);
        if (!s.text)
            continue;
        kept = option_take(o, strlen(name) + 1, err);
        if (!kept)
            return -ENOMEM;
        memcpy(kept, name, strlen(name) + 1);
        s.source_name = kept;
        r = option_set(&s, err);
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

/* What torchrun does when its environment says so, and ccrun does not: said before a worker finds out. */
static const struct side_channel {
    const char *name, *without;
} side_channels[] = {
    { "TORCHELASTIC_ENABLE_FILE_TIMER=",
      "ccrun keeps no timers: workers that use torch.distributed.elastic.timer with a FileTimerClient will fail" },
    { "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT=", "ccrun does not watch for workers that hang in the kernel" },
};

static void check_side_channels(struct options *o, const char *entry)
{
    size_t i;

    for (i = 0; i < CC_COUNT(side_channels); i++) {
        size_t len = strlen(side_channels[i].name);

        if (strncmp(entry, side_channels[i].name, len) == 0 && strtod(entry + len, NULL) > 0)
            warnings_add(&o->warnings, "%.*s: %s", (int) len - 1, entry, side_channels[i].without);
    }
}

void options_check_environ(struct options *o, char *const *env)
{
    for (; *env; env++) {
        char        name[OPTION_VAR_MAX], best[OPTION_VAR_MAX];
        struct near n;

        check_side_channels(o, *env);
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
        const struct option_setting s = { o, (enum option_id) i, option_rows[i].dflt, OPTION_DEFAULT, NULL };

        if (s.text) {
            int r = option_set(&s, NULL);

            assert(r == 0);
            (void) r;
        }
    }
}

static int parse(struct options *o, char **argv, const char *(*env)(const char *), struct cc_err *err)
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
    if (!*o->worker_argv && (!o->show_config || o->dry_run || o->print_env))
        return cc_fail(err, -EINVAL,
                       "the following arguments are required: training_script, training_script_args (name what to run; "
                       "--help shows the options)");
    return 0;
}

int options_parse(struct options *o, char **argv, const char *(*env)(const char *), struct cc_err *err)
{
    return oneline_err(err, parse(o, argv, env, err));
}
