#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/base/macros.h"
#include "store/core/filelog.h"
#include "store/filestore.h"

static char          dir[] = "/tmp/filestore-XXXXXX", path[64];
static struct cc_err err;

static void make_dir(void)
{
    cr_assert(mkdtemp(dir) != NULL);
    (void) snprintf(path, sizeof path, "%s/f", dir);
}

static void remove_dir(void)
{
    (void) unlink(path);
    cr_assert_eq(rmdir(dir), 0);
}

TestSuite(filestore, .init = make_dir, .fini = remove_dir);

static struct cc_bytes b(const char *s)
{
    return cc_bytes_of(s);
}

static struct filestore *open_for(int64_t world_size)
{
    struct filestore_cfg cfg = { .path = path, .world_size = world_size, .timeout_ms = 5000 };
    struct filestore    *f = NULL;

    cr_assert_eq(filestore_open(&f, &cfg, &err), 0, "%s", err.msg);
    return f;
}

static bool is(struct cc_buf *buf, const char *want)
{
    bool same =
        cc_buf_len(buf) == strlen(want) && (!*want || memcmp(cc_buf_data(buf), want, strlen(want)) == 0);

    cc_buf_free(buf);
    return same;
}

static void write_file(const void *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, p, n), (ssize_t) n);
    cr_assert_eq(close(fd), 0);
}

static off_t at; /* how much of the file was looked at */

/* What was added to the file since the last call, in hex; NULL: there is no file. */
static const char *added(void)
{
    static char hex[512];
    uint8_t     byte;
    int         fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t      n = 0;

    if (fd < 0)
        return NULL;
    for (; pread(fd, &byte, 1, at) == 1; at++)
        n += (size_t) snprintf(hex + n, sizeof hex - n, "%02x", byte);
    hex[n] = '\0';
    (void) close(fd);
    return hex;
}

/* What PyTorch 2.13 wrote for the same calls on two FileStores of one file. */
Test(filestore, each_call_appends_what_pytorch_appends)
{
    struct filestore *one = open_for(2), *two;
    struct cc_buf     v = { 0 };
    int64_t           n;

    cr_assert_str_eq(added(), "09000000726566636f756e742f0100000031");
    two = open_for(2);
    cr_assert_str_eq(added(), "09000000726566636f756e742f0100000032");
    cr_assert_eq(filestore_set(one, b("k"), b("value"), &err), 0);
    cr_assert_str_eq(added(), "020000002f6b0500000076616c7565");
    cr_assert_eq(filestore_get(two, b("k"), 0, &v, &err), 0);
    cr_assert(is(&v, "value"));
    cr_assert_eq(filestore_add(two, b("n"), 5, &n, &err), 0);
    cr_assert_str_eq(added(), "020000002f6e0100000035");
    cr_assert_eq(filestore_add(one, b("n"), -2, &n, &err), 0);
    cr_assert_eq(n, 3);
    cr_assert_str_eq(added(), "020000002f6e0100000033");
    cr_assert_eq(filestore_compare_set(one, b("c"), b(""), b("x"), &v, &err), 0);
    cr_assert(is(&v, "x"));
    cr_assert_str_eq(added(), "020000002f630100000078");
    cr_assert_eq(filestore_compare_set(one, b("c"), b("wrong"), b("y"), &v, &err), 0);
    cr_assert(is(&v, "x"));
    cr_assert_eq(filestore_compare_set(one, b("none"), b("e"), b("y"), &v, &err), 0);
    cr_assert(is(&v, "e"));
    cr_assert_str_eq(added(), "");
    cr_assert_eq(filestore_set(one, b("empty"), b(""), &err), 0);
    cr_assert_str_eq(added(), "060000002f656d70747900000000");
    cr_assert_eq(filestore_delete(one, b("k"), &err), 0);
    cr_assert_str_eq(added(), "030000002d2f6b00000000");
    cr_assert_eq(filestore_delete(one, b("never"), &err), 0);
    cr_assert_str_eq(added(), "070000002d2f6e6576657200000000");
    (void) filestore_free(two);
    cr_assert_str_eq(added(), "08000000636c65616e75702f010000003109000000726566636f756e742f0100000031");
    (void) filestore_free(one);
    cr_assert_null(added());
}

Test(filestore, keys_are_seen_by_the_other_user)
{
    struct filestore *one = open_for(-1), *two = open_for(-1);
    struct cc_bytes   keys[] = { b("a"), b("b") };
    bool              all = true;
    int64_t           n;

    cr_assert_eq(filestore_set(one, keys[0], b("1"), &err), 0);
    cr_assert_eq(filestore_check(two, keys, 2, &all, &err), 0);
    cr_assert_not(all);
    cr_assert_eq(filestore_set(one, keys[1], b(""), &err), 0);
    cr_assert_eq(filestore_check(two, keys, 2, &all, &err), 0);
    cr_assert(all);
    cr_assert_eq(filestore_wait(two, keys, 2, 0, &err), 0);
    cr_assert_eq(filestore_num_keys(two, &n, &err), 0);
    cr_assert_eq(n, 3); /* and refcount/ */
    cr_assert_eq(filestore_delete(two, keys[0], &err), 0);
    cr_assert_eq(filestore_check(one, keys, 2, &all, &err), 0);
    cr_assert_not(all);
    cr_assert_eq(filestore_add(one, keys[1], 4, &n, &err), 0, "an empty value is 0: %s", err.msg);
    cr_assert_eq(n, 4);
    (void) filestore_free(one);
    (void) filestore_free(two);
    cr_assert_eq(access(path, F_OK), 0);
}

Test(filestore, what_nobody_sets_is_named)
{
    struct filestore *f = open_for(-1);
    struct cc_bytes   keys[] = { b("there"), b("missing") };

    cr_assert_eq(filestore_set(f, keys[0], b("1"), &err), 0);
    cr_assert_eq(filestore_wait(f, keys, 2, 30, &err), -ETIMEDOUT);
    cr_assert(strstr(err.msg, "nobody has set 'missing' or others with it within 0.03 s"), "%s", err.msg);
    cr_assert_eq(filestore_set(f, keys[1], b("x"), &err), 0);
    cr_assert_eq(filestore_add(f, keys[1], 1, &(int64_t){ 0 }, &err), -EINVAL);
    cr_assert(strstr(err.msg, "the value of '/missing' is not a number"), "%s", err.msg);
    (void) filestore_free(f);
}

Test(filestore, a_forked_child_is_no_user)
{
    struct filestore *f = open_for(2);
    int               status = -1;
    pid_t             pid = fork();

    cr_assert(pid >= 0);
    if (pid == 0) {
        (void) filestore_free(f);
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    cr_assert_str_eq(added(), "09000000726566636f756e742f0100000031"); /* one user, and nobody has left */
    (void) filestore_free(f);
}

Test(filestore, a_file_with_as_many_users_as_ranks_is_stale)
{
    struct filestore_cfg cfg = { .path = path, .world_size = 2, .timeout_ms = 5000 };
    struct filestore    *f = NULL;

    write_file("\x09\0\0\0refcount/\1\0\0\0002", 18);
    cr_assert_eq(filestore_open(&f, &cfg, &err), -ESTALE);
    cr_assert(strstr(err.msg, "is stale: 2 users in a world of size 2 are counted in it"), "%s", err.msg);
    cr_assert_str_eq(added(), "09000000726566636f756e742f0100000032"); /* and it was left as it was */
}

Test(filestore, half_a_record_and_a_foreign_file_are_named)
{
    struct filestore_cfg cfg = { .path = path, .world_size = 2, .timeout_ms = 5000 };
    struct filestore    *f = open_for(-1);
    struct cc_buf        v = { 0 };

    write_file("\1\0\0\0/\5\0\0\0ab", 11);
    cr_assert_eq(filestore_get(f, b("x"), 1000, &v, &err), -EBADMSG);
    cr_assert(strstr(err.msg, "the record at byte 18 is cut short"), "%s", err.msg);
    cr_assert_eq(unlink(path), 0);
    write_file("hello, world\n", 13);
    cr_assert_eq(filestore_open(&f, &cfg, &err), -EBADMSG);
    cr_assert(strstr(err.msg, "at byte 0 there is no record of a FileStore"), "%s", err.msg);
    (void) filestore_free(f);
}

Test(filestore, a_file_that_goes_or_changes_below_us_is_named)
{
    struct filestore *f = open_for(-1), *other;

    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(filestore_set(f, b("k"), b("v"), &err), -ENOENT);
    cr_assert(strstr(err.msg, "the file is gone"), "%s", err.msg);
    write_file("", 0);
    other = open_for(-1);
    if (filestore_set(f, b("k"), b("v"), &err) == 0) /* the number of the file was given out again */
        cr_assert_eq(access(path, F_OK), 0);
    else
        cr_assert(strstr(err.msg, "the file was replaced"), "%s", err.msg);
    (void) filestore_free(other);
    (void) filestore_free(f);
}

Test(filestore, who_holds_the_lock_is_named)
{
    struct filestore_cfg cfg = { .path = path, .world_size = 1, .timeout_ms = 50 };
    struct filestore    *f = NULL;
    char                 pid[32];
    int                  fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    cr_assert_eq(flock(fd, LOCK_EX), 0);
    cr_assert_eq(filestore_open(&f, &cfg, &err), -ETIMEDOUT);
    (void) snprintf(pid, sizeof pid, "process %d holds its lock", getpid());
    cr_assert(strstr(err.msg, pid) || strstr(err.msg, "somebody holds its lock"), "%s", err.msg);
    (void) close(fd);
}

Test(filestore, paths_that_cannot_be_a_store_are_named)
{
    static const char *const paths[] = { "/nonexistent/f", "/dev/null", "/" };
    static const char *const says[] = { "cannot open it: No such file", "it is not a regular file",
                                        "cannot open it: Is a directory" };
    struct filestore        *f = NULL;

    for (size_t i = 0; i < CC_COUNT(paths); i++) {
        struct filestore_cfg cfg = { .path = paths[i], .world_size = 1 };

        cr_assert_lt(filestore_open(&f, &cfg, &err), 0);
        cr_expect(strstr(err.msg, says[i]) && strstr(err.msg, paths[i]), "%s", err.msg);
    }
}

static void *wait_long(void *f)
{
    struct cc_err   why;
    struct cc_bytes key = b("never");

    return (void *) (intptr_t) filestore_wait(f, &key, 1, 50000, &why);
}

Test(filestore, a_wait_is_ended_from_another_thread)
{
    struct filestore *f = open_for(1);
    pthread_t         t;
    void             *r;

    cr_assert_eq(pthread_create(&t, NULL, wait_long, f), 0);
    filestore_interrupt(f);
    cr_assert_eq(pthread_join(t, &r), 0);
    cr_assert_eq((intptr_t) r, -ECANCELED);
    (void) filestore_free(f);
    cr_assert_neq(access(path, F_OK), 0); /* its user has left in good order */
}

Test(filelog, a_record_is_taken_only_whole)
{
    struct cc_buf         buf = { 0 };
    struct filelog_record r;

    cr_assert_eq(filelog_put(&buf, "-/", b("key"), b("value")), 0);
    for (size_t n = 0; n < cc_buf_len(&buf); n++)
        cr_assert_eq(filelog_read(cc_buf_data(&buf), n, &r), 0, "%zu bytes", n);
    cr_assert_eq(filelog_read(cc_buf_data(&buf), cc_buf_len(&buf), &r), (ssize_t) cc_buf_len(&buf));
    cr_assert(r.is_deleted);
    cr_assert(r.key.n == 4 && memcmp(r.key.p, "/key", 4) == 0);
    cr_assert(r.value.n == 5 && memcmp(r.value.p, "value", 5) == 0);
    cr_assert_eq(filelog_read((const uint8_t *) "\0\0\0\0\0\0\0\0", 8, &r), -EBADMSG, "a key of no bytes");
    cr_assert_eq(filelog_read((const uint8_t *) "\1\0\1\0", 4, &r), -EBADMSG, "a key of 65,537 bytes");
    cc_buf_free(&buf);
}
