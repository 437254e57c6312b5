/* fuzz_record.c - any bytes as a recording: every entry that is taken, written again, is what it was. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "agent/core/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0, used;

    while (at < size) {
        struct record r;
        struct cc_err err = { 0 };
        uint8_t       again[RECORD_MAX];
        int           got = record_decode(data + at, size - at, &used, &r, &err);

        assert(got != 0 || !err.msg[0]);
        if (got <= 0) {
            assert(got == 0 || (err.msg[0] && err.code == got));
            return 0;
        }
        assert(record_encode(&r, again) == used && memcmp(again, data + at, used) == 0);
        at += used;
    }
    return 0;
}
