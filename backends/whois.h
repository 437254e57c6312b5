/* whois.h - which process holds something, told to the processes of other machines: and whether it is still
 * there. */
#ifndef BACKENDS_WHOIS_H
#define BACKENDS_WHOIS_H

#include <stdbool.h>
#include <stdint.h>

enum { WHOIS_HOST_MAX = 72, WHOIS_TEXT_MAX = 256 };

struct whois {
    int      pid;      /* 0: nobody */
    uint64_t start;    /* of the process, in the machine's own units */
    int64_t  attempt;  /* TORCHELASTIC_RESTART_COUNT, or 0 */
    char     boot[40]; /* of the machine: both must be the same for a pid to mean the same */
    char     ns[32];
    char     host[WHOIS_HOST_MAX];
};

void        whois_self(struct whois *ret);
const char *whois_write(const struct whois *w, char buf[WHOIS_TEXT_MAX]); /* one line; returns buf */
void        whois_read(struct whois *ret, const char *text); /* anything that is not such a line: nobody */
bool        whois_is_same(const struct whois *a, const struct whois *b);
/* Of this machine, and not running any more. False: it runs, or nobody here can tell. */
bool whois_is_gone(const struct whois *w, const struct whois *me);

#endif
