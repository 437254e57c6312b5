#include "agent/progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/base/buf.h"
#include "store/base/cleanup.h"
#include "store/core/siphash.h"

enum { LOOKED_AT = 1 << 20 };

uint64_t progress_fingerprint(const char *path)
{
    CC_AUTO_FREE uint8_t *bytes = NULL;
    CC_AUTO_FD int        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat           st;
    uint64_t              key[2] = { 0x70726f6772657373, 0 }, sum; /* the same on all nodes */
    ssize_t               n = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    bytes = malloc(LOOKED_AT);
    if (bytes)
        n = pread(fd, bytes, LOOKED_AT, 0);
    if (!bytes || n < 0)
        return 0;
    key[1] = (uint64_t) st.st_size;
    sum = siphash13(key, (struct cc_bytes) { bytes, (size_t) n });
    return sum ? sum : 1;
}
