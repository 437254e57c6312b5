/* fuzz_check_sizes.c - whatever --sizes says, the result is a rising list of sizes that a message can have, or one sentence. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/check_sizes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct check_sizes s = { .n = 0 };
    struct cc_err      err = { 0 };
    char              *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (check_sizes_parse(text, &s, &err) < 0) {
        assert(s.n == 0 && err.msg[0]);
    } else {
        assert(s.n > 0 && s.n <= CHECK_SIZES_MAX);
        for (unsigned i = 0; i < s.n; i++) {
            assert(s.bytes[i] >= CHECK_SIZE_MIN && s.bytes[i] <= CHECK_SIZE_LIMIT && s.bytes[i] % 4 == 0);
            assert(i == 0 || s.bytes[i] > s.bytes[i - 1]);
        }
    }
    free(text);
    return 0;
}
