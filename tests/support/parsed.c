/* parsed - parse command lines as ccrun does and print what came out, for a comparison with torchrun's own
 * parser.
 *
 * stdin: one command line a line, its words separated by \x1f.  stdout: for each the words of the answer,
 * separated likewise: "error" and the message, or "ok", NAME=VALUE of every option of torchrun, "--", and the
 * script's words. The environment is the real one, so PET_* variables count.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/options_rows.h"

enum { SEPARATOR = 0x1f, WORDS_MAX = 256 };

static const char *from_environ(const char *name)
{
    return getenv(name);
}

static void print_list(const char *const *items)
{
    for (; items && *items; items++)
        printf("%s;", *items);
}

static void print_value(const struct options *o, const struct option_row *row)
{
    const void *field = (const char *) o + row->offset;

    printf("%c%s=", SEPARATOR, row->name);
    switch (row->kind) {
    case KIND_FLAG: printf("%d", *(const bool *) field); break;
    case KIND_INT: printf("%lld", (long long) *(const int64_t *) field); break;
    case KIND_RATE: printf("%lld", (long long) ((const struct restarts_rate *) field)->n); break;
    case KIND_FLOAT: printf("%.17g", *(const double *) field); break;
    case KIND_LIST: print_list(*(const char *const *const *) field); break;
    case KIND_STR:
    case KIND_CHOICE: printf("%s", *(const char *const *) field ? *(const char *const *) field : ""); break;
    case KIND_COUNT:
    case KIND_ADD:
    case KIND_SIZE:
    case KIND_SECONDS: break; /* torchrun has none of them */
    }
}

static void answer(char **argv)
{
    struct options o;
    struct cc_err  err;
    size_t         i;
    char         **word;

    if (options_parse(&o, argv, from_environ, &err) < 0) {
        printf("error%c%s", SEPARATOR, err.msg);
    } else {
        fputs("ok", stdout);
        for (i = 0; i < OPTIONS_N; i++)
            if (option_rows[i].origin != ORIGIN_OURS)
                print_value(&o, &option_rows[i]);
        printf("%c--", SEPARATOR);
        for (word = o.worker_argv; *word; word++)
            printf("%c%s", SEPARATOR, *word);
    }
    putchar('\n');
    options_free(&o);
}

int main(void)
{
    char   *line = NULL, program[] = "ccrun";
    size_t  size = 0;
    ssize_t len;

    while ((len = getline(&line, &size, stdin)) > 0) {
        char *argv[WORDS_MAX + 2] = { program }, *rest = line;
        int   n = 1;

        line[len - 1] = '\0';
        while (*line && rest && n <= WORDS_MAX)
            argv[n++] = strsep(&rest, "\x1f");
        answer(argv);
    }
    free(line);
    return 0;
}
