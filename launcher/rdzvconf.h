/* rdzvconf.h - the settings in --rdzv-conf: KEY=VALUE,...  Pure; the texts are torchrun's.
 *
 * A pair of quotes around the whole value is taken off, because people write them in scripts where no shell
 * does.
 */
#ifndef LAUNCHER_RDZVCONF_H
#define LAUNCHER_RDZVCONF_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/warnings.h"
#include "store/base/err.h"

enum { RDZVCONF_MAX = 32, RDZVCONF_TEXT_MAX = 2048 };

struct rdzvconf {
    unsigned n;
    struct {
        const char *key, *value; /* in `text` */
    } items[RDZVCONF_MAX];
    char text[RDZVCONF_TEXT_MAX];
};

int rdzvconf_parse(struct rdzvconf *c, const char *text, struct cc_err *err);

const char *rdzvconf_get(const struct rdzvconf *c,
                         const char            *key); /* NULL: not there; the last of equals counts */
/* *ret is the default when the key is not there. */
int rdzvconf_int(const struct rdzvconf *c, const char *key, int64_t dflt, int64_t *ret, struct cc_err *err);
int rdzvconf_bool(const struct rdzvconf *c, const char *key, bool dflt, bool *ret, struct cc_err *err);

/* Is every value of a known key acceptable?  An unknown key is a warning, with the nearest one that there is.
 */
int rdzvconf_check(const struct rdzvconf *c, struct warnings *w, struct cc_err *err);

#endif
