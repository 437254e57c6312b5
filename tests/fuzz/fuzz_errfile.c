/* Any bytes may lie where an error file is expected: they are read or refused, and what is read is text. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/plaintext.h"
#include "agent/errfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct errfile e;
    struct cc_err  err = { 0 };
    int            r = errfile_parse((const char *) data, size, &e, &err);

    assert(r == 1 || (r < 0 && err.msg[0]));
    if (r == 1) {
        char line[400];

        assert(e.message[0] && e.timestamp >= 0);
        (void) plaintext_line(line, sizeof line, e.message, strlen(e.message));
        for (const char *p = line; *p;) {
            size_t n = plaintext_utf8(p, strlen(p));

            assert(n > 0 && ((unsigned char) *p >= 0x20 || *p == '\t'));
            p += n;
        }
        errfile_done(&e);
    }
    return 0;
}
