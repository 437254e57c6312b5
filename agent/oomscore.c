#include "agent/oomscore.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/base/cleanup.h"

static const char path[] = "/proc/self/oom_score_adj";

static bool read_score(int *ret)
{
    CC_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    char           text[16];
    ssize_t        n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (n <= 0)
        return false;
    text[n] = '\0';
    *ret = (int) strtol(text, NULL, 10);
    return true;
}

static bool write_score(int score)
{
    CC_AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd >= 0 && dprintf(fd, "%d", score) > 0;
}

void oomscore_lower(struct oomscore *s)
{
    if (!s->is_lowered && read_score(&s->inherited) && s->inherited > OOMSCORE_OURS)
        s->is_lowered = write_score(OOMSCORE_OURS);
}

void oomscore_raise(struct oomscore *s)
{
    if (s->is_lowered)
        s->is_lowered = !write_score(s->inherited);
}
