/* base64.h - bytes as text, as JSON carries them (RFC 4648, with padding).  Pure. */
#ifndef STORE_CORE_BASE64_H
#define STORE_CORE_BASE64_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BASE64_LEN(n) (((n) + 2) / 3 * 4) /* characters for n bytes */

/* ret: BASE64_LEN(n) + 1 characters, the NUL included. */
void base64_encode(const uint8_t *bytes, size_t n, char *ret);

/* ret: room for len / 4 * 3 bytes.  How many there are, or -EINVAL when text[len] is no base64. */
ssize_t base64_decode(const char *text, size_t len, uint8_t *ret);

#endif
