#include "launcher/warnings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "launcher/oneline.h"

void warnings_add(struct warnings *w, const char *fmt, ...)
{
    va_list ap;

    if (w->n == WARNINGS_MAX) {
        w->n_dropped++;
        return;
    }
    va_start(ap, fmt);
    (void) vsnprintf(w->text[w->n], WARNING_LEN, fmt, ap);
    va_end(ap);
    oneline_text(w->text[w->n++], WARNING_LEN);
}

int warnings_as_error(const struct warnings *w, struct cc_err *err)
{
    if (w->n == 0)
        return 0;
    return cc_fail(err, -EINVAL, "%s (an error because of --strict)", w->text[0]);
}
