#include "backends/whois.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/base/cleanup.h"

enum { STAT_MAX = 1024, START_FIELD = 22 };

static size_t read_file(const char *path, char *buf, size_t size)
{
    CC_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t        n = fd < 0 ? -1 : read(fd, buf, size - 1);

    buf[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t) n : 0;
}

/* When a process started; 0: there is none, or it is only waited for. */
static uint64_t start_of(int pid)
{
    char        path[64], text[STAT_MAX];
    const char *at;

    (void) snprintf(path, sizeof path, "/proc/%d/stat", pid);
    (void) read_file(path, text, sizeof text);
    at = strrchr(text, ')'); /* the name may have blanks and brackets in it */
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

void whois_self(struct whois *ret)
{
    const char *attempt = getenv("TORCHELASTIC_RESTART_COUNT");
    ssize_t     n;

    *ret = (struct whois){ .pid = getpid() };
    ret->start = start_of(ret->pid);
    ret->attempt = attempt ? strtoll(attempt, NULL, 10) : 0;
    (void) read_file("/proc/sys/kernel/random/boot_id", ret->boot, sizeof ret->boot);
    ret->boot[strcspn(ret->boot, "\n ")] = '\0';
    n = readlink("/proc/self/ns/pid", ret->ns, sizeof ret->ns - 1);
    ret->ns[n > 0 ? n : 0] = '\0';
    if (gethostname(ret->host, sizeof ret->host - 1) < 0 || !ret->host[0])
        (void) snprintf(ret->host, sizeof ret->host, "unknown");
}

const char *whois_write(const struct whois *w, char buf[WHOIS_TEXT_MAX])
{
    (void) snprintf(buf, WHOIS_TEXT_MAX, "%d %" PRIu64 " %" PRId64 " %s %s %s", w->pid, w->start, w->attempt,
                    w->boot[0] ? w->boot : "-", w->ns[0] ? w->ns : "-", w->host);
    return buf;
}

void whois_read(struct whois *ret, const char *text)
{
    *ret = (struct whois){ 0 };
    if (sscanf(text, "%d %" SCNu64 " %" SCNd64 " %39s %31s %71s", &ret->pid, &ret->start, &ret->attempt,
               ret->boot, ret->ns, ret->host) != 6 ||
        ret->pid <= 0)
        *ret = (struct whois){ 0 };
}

static bool is_near(const struct whois *a, const struct whois *b)
{
    return a->boot[0] && a->ns[0] && a->boot[0] != '-' && strcmp(a->boot, b->boot) == 0 &&
           strcmp(a->ns, b->ns) == 0;
}

bool whois_is_same(const struct whois *a, const struct whois *b)
{
    return is_near(a, b) && a->pid == b->pid && a->start == b->start;
}

bool whois_is_gone(const struct whois *w, const struct whois *me)
{
    return is_near(w, me) && start_of(w->pid) != w->start;
}
