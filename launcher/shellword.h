/* shellword.h - words as a shell has to be given them, so that what is shown can be pasted. */
#ifndef LAUNCHER_SHELLWORD_H
#define LAUNCHER_SHELLWORD_H

#include <stdio.h>

/* In single quotes unless it needs none. */
void shellword_put(FILE *to, const char *word);

/* All of them, with blanks between and a newline at the end. */
void shellword_line(FILE *to, char *const *words);

#endif
