/* fuzz_filestore.c - a file that is named as a store may hold anything: what is read lies in it, and is
 * written again as it was; and who opens it as a store can use it, or is told why not.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"
#include "store/core/filelog.h"
#include "store/filestore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Several fuzzers may run at a time. */
static const char *path_of_ours(void)
{
    static char path[64];

    if (!path[0])
        (void) snprintf(path, sizeof path, "/dev/shm/fuzz_filestore.%d", (int) getpid());
    return path;
}

static void use(struct filestore *f)
{
    struct cc_bytes key = cc_bytes_of("key"), one = cc_bytes_of("1");
    struct cc_buf   v = { 0 };
    struct cc_err   err = { 0 };
    int64_t         n = 0, sum;
    bool            is_there = false;

    assert(filestore_num_keys(f, &n, &err) == 0 && n >= 1); /* we are counted */
    assert(filestore_set(f, key, one, &err) == 0);
    assert(filestore_check(f, &key, 1, &is_there, &err) == 0 && is_there);
    assert(filestore_add(f, key, 2, &sum, &err) == 0 && sum == 3);
    assert(filestore_get(f, key, 0, &v, &err) == 0 && cc_buf_len(&v) == 1 && *cc_buf_data(&v) == '3');
    cc_buf_free(&v);
}

static void open_it(const uint8_t *data, size_t size)
{
    struct filestore_cfg cfg = { .path = path_of_ours(), .world_size = 2, .timeout_ms = 1000 };
    struct filestore    *f = NULL;
    struct cc_err        err = { 0 };

    {
        CC_AUTO_FD int fd = open(cfg.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert(fd >= 0 && write(fd, data, size) == (ssize_t) size);
    }
    if (filestore_open(&f, &cfg, &err) == 0)
        use(f);
    else
        assert(err.code < 0 && strstr(err.msg, cfg.path));
    (void) filestore_free(f);
    (void) unlink(cfg.path);
}

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
    open_it(copy, size);
    free(copy);
    return 0;
}
