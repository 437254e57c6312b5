/* prefix.h - the text before a line on the console: torchrun's `$`-template, and our own labels. Pure. */
#ifndef AGENT_CORE_PREFIX_H
#define AGENT_CORE_PREFIX_H

#include <stddef.h>

enum { PREFIX_MAX = 256 }; /* a longer one is cut: it is repeated on every line */

struct prefix_vars {
    const char *role_name;
    unsigned    rank, local_rank;
};

/* Expands `template` as Python's string.Template.safe_substitute() does, which torchrun uses: $rank and
 * ${rank} with the names of struct prefix_vars, `$$` is one `$`, and everything else stays as it is.  Returns
 * the length. */
size_t prefix_expand(char buf[PREFIX_MAX], const char *template, const struct prefix_vars *vars);

/* The prefix of a tee'd line: the template, or `[<role><local_rank>]:` when it is NULL or empty. */
size_t prefix_tee(char buf[PREFIX_MAX], const char *template, const struct prefix_vars *vars);

/* The prefix of --label: `[<rank>] `. */
size_t prefix_label(char buf[PREFIX_MAX], unsigned rank);

#endif
