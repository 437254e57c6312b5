/* options.h - the command line and its environment, parsed and checked.  Every option is a row of
 * options.def.
 *
 * Pure: nothing is printed, no exit, no process state; the environment comes in as a function.  A value comes
 * from, the strongest first: the command line, CCRUN_<LONG_NAME>, PET_<LONG_NAME> (torchrun's), the default.
 * Strings are borrowed from argv and the environment, lists belong to the struct: options_free().
 */
#ifndef LAUNCHER_OPTIONS_H
#define LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "launcher/restarts.h"
#include "launcher/warnings.h"
#include "store/base/err.h"

/* The C type of each KIND of options.def.  STR and CHOICE are NULL when unset, LIST and ADD too, else
 * NULL-terminated. */
#define OPTION_TYPE_FLAG bool
#define OPTION_TYPE_COUNT unsigned
#define OPTION_TYPE_INT int64_t
#define OPTION_TYPE_FLOAT double
#define OPTION_TYPE_STR const char *
#define OPTION_TYPE_CHOICE const char * /* one of the names in ARG */
#define OPTION_TYPE_LIST const char *const *
#define OPTION_TYPE_ADD const char *const *
#define OPTION_TYPE_SIZE uint64_t    /* bytes */
#define OPTION_TYPE_SECONDS uint64_t /* milliseconds */
#define OPTION_TYPE_RATE struct restarts_rate

/* OPTION_nnodes and so on: names for rows, to ask where a value came from. */
enum option_id {
#define OPT(field, ...) OPTION_##field,
#include "launcher/options.def"
#undef OPT
    OPTIONS_N
};

enum option_source { OPTION_DEFAULT, OPTION_ENV, OPTION_ARGV, OPTION_OTHER };

struct option_mem;

struct options {
#define OPT(field, kind, ...) OPTION_TYPE_##kind field;
#include "launcher/options.def"
#undef OPT
    char **worker_argv; /* the script and its arguments, untouched; borrowed from argv; empty only for --help
                           and such */

    enum option_source source[OPTIONS_N];
    const char *source_name[OPTIONS_N]; /* OPTION_ENV: the variable; OPTION_OTHER: who decided ("SLURM") */
    const char *text[OPTIONS_N];        /* the value as it was written; NULL: unset */
    struct warnings    warnings;        /* for main to print */
    struct option_mem *mem;
};

/* argv[0] is the program.  -EINVAL and torchrun's own sentence, or -ENOMEM.  With --help, --version and
 * such the rest is not looked at.  Fills *o whatever happens: always options_free() it. */
int  options_parse(struct options *o, char **argv, const char *(*env)(const char *), struct cc_err *err);
void options_free(struct options *o);

/* One warning for each variable CCRUN_* that is no option, and each by which torchrun would do what ccrun does not.
 * `env` as environ. */
void options_check_environ(struct options *o, char *const *env);

static inline bool options_is_given(const struct options *o, enum option_id id)
{
    return o->source[id] != OPTION_DEFAULT;
}

/* A scheduler or the plan decides: replaces a default only. `text` is copied, `who` is borrowed. */
int options_suggest(struct options *o, enum option_id id, const char *text, const char *who,
                    struct cc_err *err);

/* Text made from the rows (options_text.c). */
void options_usage(FILE *to); /* one line */
void options_help(FILE *to);  /* at most 100 columns */
void options_show_config(FILE *to, const struct options *o);
int  options_dump(FILE *to, const char *what); /* "man", "bash", "zsh", "fish"; else -EINVAL */

#endif
