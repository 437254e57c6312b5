/* about.h - what this ccrun can do on this machine, for --version: libraries inside, and those that it would load.
 *
 * Loads them to ask: milliseconds that nothing else pays.
 */
#ifndef LAUNCHER_ABOUT_H
#define LAUNCHER_ABOUT_H

#include <stdio.h>

/* Three lines: libraries inside, features with the library that brings each, and features that are missing with why (only
 * when there are such). */
void about_print(FILE *to);

#endif
