/* check_facts.h - what a node is like, as names and values; and in what nodes differ.
 *
 * Reading looks at the machine once and asks no library but NVML.  Everything else here is pure.
 */
#ifndef LAUNCHER_CHECK_FACTS_H
#define LAUNCHER_CHECK_FACTS_H

#include <stddef.h>

#include "launcher/machine.h"
#include "store/base/buf.h"
#include "store/base/err.h"

enum { FACTS_MAX = 48, FACT_NAME_MAX = 32, FACT_VALUE_MAX = 128 };

struct nodefact {
    char name[FACT_NAME_MAX], value[FACT_VALUE_MAX];
};

struct nodefacts {
    struct nodefact list[FACTS_MAX];
    unsigned    n;
};

void        nodefacts_read(struct nodefacts *ret, const struct machine *m);
/* Cut where too long; one too many is left out. */
void        nodefacts_set(struct nodefacts *f, const char *name, const char *value);
const char *nodefacts_get(const struct nodefacts *f, const char *name);              /* NULL: not known */

/* On the wire: lines NAME=VALUE. */
int  nodefacts_write(const struct nodefacts *f, struct cc_buf *to);
void nodefacts_parse(struct nodefacts *ret, const char *text);

/* One difference: on `n_same` of `n` nodes the fact has the value `usual`, and on node `node` another. */
struct nodefacts_difference {
    const char *name, *usual, *value; /* of the facts given; "none" where one lacks it */
    unsigned    node, n_same, n;
};

/* Of nodes whose facts these are (NULL: not known), by name and node.  The usual value is the most frequent, of as frequent
 * ones that of the lowest node.  Returns how many, at most max. */
unsigned nodefacts_compare(const struct nodefacts *const *nodes, unsigned n, struct nodefacts_difference *ret, unsigned max);

#endif
