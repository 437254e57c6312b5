/* fuzz_filestore.c - a file that is named as a store may hold anything: what is read lies in it, and is
 * written again as it was.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/core/filelog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cc_buf         again = { 0 };
    struct filelog_record r;
    size_t                off = 0;
    ssize_t               n;
    uint8_t              *copy = malloc(size + 1); /* so that a read past the end is seen */

    if (!copy)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    while ((n = filelog_read(copy + off, size - off, &r)) > 0) {
        assert((size_t) n <= size - off);
        for (ssize_t cut = 0; cut < n && cut < 64; cut++)
            assert(filelog_read(copy + off, (size_t) cut, &r) == 0);
        assert(filelog_read(copy + off, (size_t) n, &r) == n);
        assert(filelog_put(&again, r.is_deleted ? "-" : "", r.key, r.value) == 0);
        off += (size_t) n;
    }
    assert(cc_buf_len(&again) == off && (off == 0 || memcmp(cc_buf_data(&again), copy, off) == 0));
    cc_buf_free(&again);
    free(copy);
    return 0;
}
