#include "launcher/oneline.h"

#include <string.h>

#include "agent/core/plaintext.h"

void oneline_text(char *text, size_t size)
{
    char plain[CC_ERR_MSG_MAX];

    if (size > sizeof plain)
        size = sizeof plain;
    memcpy(text, plain, plaintext_line(plain, size, text, strlen(text)) + 1);
}

int oneline_err(struct cc_err *err, int r)
{
    if (r < 0 && err)
        oneline_text(err->msg, sizeof err->msg);
    return r;
}
