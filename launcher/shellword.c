#include "launcher/shellword.h"

#include <string.h>

void shellword_put(FILE *to, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";

    if (*word && strspn(word, plain) == strlen(word)) {
        (void) fputs(word, to);
        return;
    }
    (void) fputc('\'', to);
    for (; *word; word++)
        if (*word == '\'')
            (void) fputs("'\\''", to);
        else
            (void) fputc(*word, to);
    (void) fputc('\'', to);
}

void shellword_line(FILE *to, char *const *words)
{
    char *const *w;

    for (w = words; *w; w++) {
        if (w != words)
            (void) fputc(' ', to);
        shellword_put(to, *w);
    }
    (void) fputc('\n', to);
}
