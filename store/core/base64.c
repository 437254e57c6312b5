#include "store/core/base64.h"

#include <errno.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const uint8_t *bytes, size_t n, char *ret)
{
    size_t i;

    for (i = 0; i < n; i += 3) {
        uint32_t b = (uint32_t) bytes[i] << 16 | (i + 1 < n ? (uint32_t) bytes[i + 1] << 8 : 0) | (i + 2 < n ? bytes[i + 2] : 0u);

        *ret++ = alphabet[b >> 18];
        *ret++ = alphabet[b >> 12 & 63];
        *ret++ = i + 1 < n ? alphabet[b >> 6 & 63] : '=';
        *ret++ = i + 2 < n ? alphabet[b & 63] : '=';
    }
    *ret = '\0';
}

static int value(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;

    return at ? (int) (at - alphabet) : -1;
}

ssize_t base64_decode(const char *text, size_t len, uint8_t *ret)
{
    size_t n = 0, i, k;

    if (len % 4 != 0)
        return -EINVAL;
    for (i = 0; i < len; i += 4) {
        size_t   n_pad = i + 4 < len ? 0 : (size_t) ((text[i + 3] == '=') + (text[i + 3] == '=' && text[i + 2] == '='));
        uint32_t b = 0;

        for (k = 0; k < 4; k++) {
            int v = k + n_pad < 4 ? value(text[i + k]) : 0;

            if (v < 0)
                return -EINVAL;
            b = b << 6 | (uint32_t) v;
        }
        for (k = 0; k + n_pad < 3; k++)
            ret[n++] = (uint8_t) (b >> (16 - 8 * k));
    }
    return (ssize_t) n;
}
