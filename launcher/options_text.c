#include "launcher/options.h"

#include <errno.h>
#include <string.h>

#include "launcher/options_rows.h"
#include "store/base/macros.h"

enum { HELP_COLUMNS = 100, HELP_LEFT = 34, MAN_COLUMNS = 78, MAN_TEXT_MAX = 320 };

/* The order in which --help, the manual page and --show-config show them. */
static const char *const groups[] = { "Job",    "Nodes",      "Program",     "Devices",      "Failure",
                                      "Output", "Rendezvous", "Information", "Compatibility" };

void options_usage(FILE *to)
{
    fputs("usage: ccrun [options] training_script [training_script_args ...]\n", to);
}

/* Words between the columns `left`, where the first begins, and `right`. */
static void print_wrapped(FILE *to, const char *text, size_t left, size_t right)
{
    size_t column = left;

    while (*text) {
        size_t len = strcspn(text, " ");

        if (column > left && column + 1 + len > right) {
            fprintf(to, "\n%*s", (int) left, "");
            column = left;
        } else if (column > left) {
            fputc(' ', to);
            column++;
        }
        fwrite(text, 1, len, to);
        column += len;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

static void help_row(FILE *to, const struct option_row *row)
{
    char left[80], text[320];
    int  n;

    n = snprintf(left, sizeof left, "  %s%c%s --%s%s%s", row->letter ? "-" : " ",
                 row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name, row->arg ? " " : "",
                 row->arg ? row->arg : "");
    fputs(left, to);
    if (n >= HELP_LEFT)
        fprintf(to, "\n%*s", HELP_LEFT, "");
    else
        fprintf(to, "%*s", HELP_LEFT - n, "");
    (void) snprintf(text, sizeof text, "%s%s%s%s", row->help, row->dflt && *row->dflt ? " [" : "",
                    row->dflt ? row->dflt : "", row->dflt && *row->dflt ? "]" : "");
    print_wrapped(to, text, HELP_LEFT, HELP_COLUMNS);
}

void options_help(FILE *to)
{
    size_t g, i;

    options_usage(to);
    fputs(
        "\nStart one worker per GPU or CPU, let them meet, watch them, restart them, and say why one died.\n"
        "Options stand before the script; everything after it is the script's own.\n",
        to);
    for (g = 0; g < CC_COUNT(groups); g++) {
        fprintf(to, "\n%s:\n", groups[g]);
        for (i = 0; i < OPTIONS_N; i++)
            if (option_rows[i].group && strcmp(option_rows[i].group, groups[g]) == 0)
                help_row(to, &option_rows[i]);
    }
    fputs("\nEach option may be written with _ for -, abbreviated, and set by a variable: CCRUN_LOG_DIR is\n"
          "--log-dir. torchrun's PET_LOG_DIR works too. See ccrun(1).\n",
          to);
}

static const char *source_text(const struct options *o, unsigned id)
{
    switch (o->source[id]) {
    case OPTION_ARGV: return "command line";
    case OPTION_ENV:
    case OPTION_OTHER: return o->source_name[id];
    case OPTION_DEFAULT: break;
    }
    return "default";
}

/* As it was written, except what no text says: switches, counters and repeated options. */
static void print_value(FILE *to, const struct options *o, unsigned id)
{
    const struct option_row *row = &option_rows[id];
    const void              *field = (const char *) o + row->offset;
    const char *const       *item;

    switch (row->kind) {
    case KIND_FLAG: fputs(*(const bool *) field ? "on" : "off", to); break;
    case KIND_COUNT: fprintf(to, "%u", *(const unsigned *) field); break;
    case KIND_ADD:
        item = *(const char *const *const *) field;
        for (; item && *item; item++)
            fprintf(to, "%s%s", *item, item[1] ? "," : "");
        break;
    case KIND_INT:
    case KIND_FLOAT:
    case KIND_STR:
    case KIND_CHOICE:
    case KIND_LIST:
    case KIND_SIZE:
    case KIND_SECONDS:
    case KIND_RATE: fputs(o->text[id] ? o->text[id] : "", to); break;
    }
}

void options_show_config(FILE *to, const struct options *o)
{
    size_t   g;
    unsigned i;

    for (g = 0; g < CC_COUNT(groups); g++)
        for (i = 0; i < OPTIONS_N; i++) {
            if (!option_rows[i].group || strcmp(option_rows[i].group, groups[g]) != 0 ||
                !option_has_variable(i))
                continue;
            fprintf(to, "%s = ", option_rows[i].name);
            print_value(to, o, i);
            fprintf(to, " (%s)\n", source_text(o, i));
        }
}

/* ---- the manual page's OPTIONS */

/* Each sentence begins a line, as mdoc wants it. */
static void man_text(FILE *to, const char *text)
{
    char sentence[MAN_TEXT_MAX];

    while (*text) {
        const char *end = strstr(text, ". ");
        size_t      len = end ? (size_t) (end - text) + 1 : strlen(text);

        (void) snprintf(sentence, sizeof sentence, "%.*s", (int) len, text);
        print_wrapped(to, sentence, 0, MAN_COLUMNS);
        text += len + (end != NULL);
    }
}

static void man_row(FILE *to, const struct option_row *row)
{
    char var[OPTION_VAR_MAX];

    fputs(".It ", to);
    if (row->letter)
        fprintf(to, "Fl %c%s%s , ", row->letter, row->arg ? " Ar " : "", row->arg ? row->arg : "");
    fprintf(to, "Fl -%s%s%s\n", row->name, row->arg ? " Ar " : "", row->arg ? row->arg : "");
    man_text(to, row->help);
    if (row->dflt && *row->dflt)
        fprintf(to, "The default is\n.Li %s .\n", row->dflt);
    if (!option_has_variable((enum option_id)(row - option_rows)))
        return;
    fprintf(to, "Variable:\n.Ev %s", option_variable("CCRUN_", row, var));
    if (row->origin == ORIGIN_PET)
        fprintf(to, " , PET_%s", var + strlen("CCRUN_"));
    fputs(" .\n", to);
}

static void dump_man(FILE *to)
{
    size_t g, i;

    for (g = 0; g < CC_COUNT(groups); g++) {
        fprintf(to, ".Ss %s\n.Bl -tag -width Ds\n", groups[g]);
        for (i = 0; i < OPTIONS_N; i++)
            if (option_rows[i].group && strcmp(option_rows[i].group, groups[g]) == 0)
                man_row(to, &option_rows[i]);
        fputs(".El\n", to);
    }
}

/* ---- completions: options before the script, then files */

static void words(FILE *to, const char *arg)
{
    for (; arg && *arg; arg++)
        fputc(*arg == '|' ? ' ' : *arg, to);
}

static void dump_bash(FILE *to)
{
    size_t i;

    fputs("_ccrun() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n    case "
          "$prev in\n",
          to);
    for (i = 0; i < OPTIONS_N; i++)
        if (option_rows[i].kind == KIND_CHOICE && option_rows[i].group) {
            fprintf(to, "    --%s) COMPREPLY=($(compgen -W '", option_rows[i].name);
            words(to, option_rows[i].arg);
            fputs("' -- \"$cur\")); return ;;\n", to);
        }
    fputs("    --log-dir) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n    esac\n"
          "    [[ $cur == -* ]] && COMPREPLY=($(compgen -W '",
          to);
    for (i = 0; i < OPTIONS_N; i++)
        if (option_rows[i].group)
            fprintf(to, "--%s ", option_rows[i].name);
    fputs("' -- \"$cur\"))\n}\ncomplete -o default -F _ccrun ccrun\n", to);
}

/* Single quotes, brackets and colons mean something in a description of zsh's _arguments. */
static void zsh_text(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", to);
        else if (strchr("[]:\\", *text))
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
    }
}

static void dump_zsh(FILE *to)
{
    size_t i;

    fputs("#compdef ccrun\n_arguments -S \\\n", to);
    for (i = 0; i < OPTIONS_N; i++) {
        const struct option_row *row = &option_rows[i];

        if (!row->group)
            continue;
        fprintf(to, "  '%s--%s%s[", row->kind == KIND_ADD || row->kind == KIND_COUNT ? "*" : "", row->name,
                row->arg ? "=" : "");
        zsh_text(to, row->help);
        fputc(']', to);
        if (row->kind == KIND_CHOICE) {
            fputs(":value:(", to);
            words(to, row->arg);
            fputc(')', to);
        } else if (row->arg) {
            fputc(':', to);
            zsh_text(to, row->arg);
            fputs(strcmp(row->arg, "DIR") == 0    ? ":_files -/"
                  : strcmp(row->arg, "FILE") == 0 ? ":_files"
                                                  : ":",
                  to);
        }
        fputs("' \\\n", to);
    }
    fputs("  '1:script:_files' '*::arguments:_default'\n", to);
}

static void dump_fish(FILE *to)
{
    size_t      i;
    const char *p;

    for (i = 0; i < OPTIONS_N; i++) {
        const struct option_row *row = &option_rows[i];

        if (!row->group)
            continue;
        fprintf(to, "complete -c ccrun -l %s", row->name);
        if (row->letter)
            fprintf(to, " -s %c", row->letter);
        if (row->arg)
            fputs(" -r", to);
        if (row->kind == KIND_CHOICE) {
            fputs(" -f -a '", to);
            words(to, row->arg);
            fputc('\'', to);
        }
        fputs(" -d '", to);
        for (p = row->help; *p; p++)
            fprintf(to, "%s%c", *p == '\'' || *p == '\\' ? "\\" : "", *p);
        fputs("'\n", to);
    }
}

int options_dump(FILE *to, const char *what)
{
    static const struct {
        const char *what;
        void (*dump)(FILE *);
    } dumps[] = { { "man", dump_man }, { "bash", dump_bash }, { "zsh", dump_zsh }, { "fish", dump_fish } };
    size_t i;

    for (i = 0; i < CC_COUNT(dumps); i++)
        if (strcmp(what, dumps[i].what) == 0) {
            dumps[i].dump(to);
            return 0;
        }
    return -EINVAL;
}
