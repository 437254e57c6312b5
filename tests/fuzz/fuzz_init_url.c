/* fuzz_init_url.c - an init method comes from a user or a job script: whatever it holds, the result is a
 * place to meet that makes sense, or one sentence.
 *
 * The first two bytes of an input are the rank and the world size that are passed beside the URL (255: not
 * given); what is behind a newline is the environment's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, all
 * the same text.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backends/init_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *lookup(void *ctx, const char *name)
{
    (void) name;
    return ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct init_where w;
    struct cc_err     err = { 0 };
    struct init_args  args = { .env = lookup };
    char             *text, *line;

    if (size < 2 || !(text = malloc(size - 1)))
        return 0;
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    line = strchr(text, '\n');
    if (line)
        *line++ = '\0';
    args.url = text;
    args.ctx = line;
    args.rank = data[0] == 255 ? INIT_NOT_GIVEN : data[0];
    args.world_size = data[1] == 255 ? INIT_NOT_GIVEN : data[1];
    if (init_url_read(&w, &args, &err) < 0) {
        assert(err.code < 0 && err.msg[0]);
    } else {
        assert(w.world_size >= 1 && w.rank >= 0 && w.rank < w.world_size);
        assert(w.scheme == INIT_FILE ? w.path[0] && !w.host[0] : w.host[0] && !w.path[0]);
    }
    free(text);
    return 0;
}
