/* fuzz_pmixmsg.c - bytes are a message or none, and a message that is taken is put again byte for byte. */
#include <assert.h>
#include <stdint.h>

#include "store/base/pmixmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cc_buf  again = { .p = NULL };
    struct pmixmsg m;
    ssize_t        n = pmixmsg_take(data, size, &m);

    while (n > 0) {
        assert((size_t) n <= size && m.text.n + m.blob.n < (size_t) n);
        assert(pmixmsg_put(&again, &m) == 0);
        assert(cc_buf_len(&again) == (size_t) n && memcmp(cc_buf_data(&again), data, (size_t) n) == 0);
        cc_buf_drop(&again, (size_t) n);
        data += n;
        size -= (size_t) n;
        n = pmixmsg_take(data, size, &m);
    }
    cc_buf_free(&again);
    return 0;
}
