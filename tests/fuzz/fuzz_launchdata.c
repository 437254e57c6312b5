/* fuzz_launchdata.c - an agent's block comes over a network, from a head that may be another version: whatever it is, every
 * string in it ends within it, or it is refused.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launchdata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t length(char *const *list)
{
    size_t n = 0;

    for (; *list; list++)
        n += strlen(*list);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *const here[] = { "HOME=/node", "A=1", NULL };
    struct launchdata  d;
    struct cc_err      err = { 0 };
    uint8_t           *block = malloc(size + 1);
    char             **env;

    if (!block)
        return 0;
    memcpy(block, data, size);
    if (size >= LAUNCHDATA_HEAD)
        assert(launchdata_length(data, &err) <= LAUNCHDATA_MAX);
    if (launchdata_read(&d, block, size, &err) == 0) {
        assert(d.argv[0] && d.dir && d.who && d.mark && d.n_set <= LAUNCHDATA_SETTINGS_MAX);
        assert(length(d.argv) + length(d.own) + length(d.prefer) + strlen(d.dir) + d.n_secret <= size);
        env = launchdata_environ(&d, here);
        assert(env && length(env) <= size + length(here));
        free(env);
        launchdata_clear(&d);
    } else {
        assert(err.code < 0 && err.msg[0]);
    }
    free(block);
    return 0;
}
