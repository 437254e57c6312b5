/* fuzz_record.c - any bytes as a recording: every entry that is taken is written again, and read as the same.
 *
 * Not byte for byte: the configuration of a core travels in a message whose other fields nobody looks at. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "agent/core/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct record *r)
{
    uint8_t       once[RECORD_MAX], twice[RECORD_MAX];
    struct record same;
    struct cc_err err = { 0 };
    size_t        n = record_encode(r, once), used;

    assert(record_decode(once, n, &used, &same, &err) == 1 && used == n);
    assert(record_encode(&same, twice) == n && memcmp(once, twice, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0, used;

    while (at < size) {
        struct record r;
        struct cc_err err = { 0 };
        int           got = record_decode(data + at, size - at, &used, &r, &err);

        assert(got != 0 || !err.msg[0]);
        if (got <= 0) {
            assert(got == 0 || (err.msg[0] && err.code == got));
            return 0;
        }
        check(&r);
        at += used;
    }
    return 0;
}
