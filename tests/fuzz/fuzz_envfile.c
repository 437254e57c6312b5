/* fuzz_envfile.c - any file as one of variables: each entry has a name, or the file and the line are named.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/envfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char         *text = malloc(size + 1), **list = NULL;
    struct cc_err err = { 0 };

    if (!text)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    if (envfile_parse(text, size, "job.env", &list, &err) < 0) {
        assert(strncmp(err.msg, "job.env:", 8) == 0 && !list);
    } else {
        for (char **e = list; *e; e++)
            assert(strchr(*e, '=') > *e && *e >= text && *e + strlen(*e) <= text + size);
    }
    free(list);
    free(text);
    return 0;
}
