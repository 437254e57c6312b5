#include "agent/estate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "store/base/fdwrite.h"

enum { DRAIN_SIZE = 64 * 1024 };

static void close_stream(struct estate_stream *s)
{
    (void) close(s->pipe_fd);
    (void) close(s->file_fd);
}

int estate_add_stream(struct estate *e, uint32_t id, int pipe_fd, int file_fd)
{
    struct estate_stream s = { id, pipe_fd, file_fd };

    estate_drop_stream(e, id);
    if (e->n == e->size) {
        size_t                size = e->size ? 2 * e->size : 32;
        struct estate_stream *p = reallocarray(e->streams, size, sizeof *p);

        if (!p) {
            close_stream(&s);
            return -ENOMEM;
        }
        e->streams = p;
        e->size = size;
    }
    e->streams[e->n++] = s;
    return 0;
}

void estate_drop_stream(struct estate *e, uint32_t id)
{
    size_t i;

    for (i = 0; i < e->n; i++) {
        if (e->streams[i].id == id) {
            close_stream(&e->streams[i]);
            e->streams[i] = e->streams[--e->n];
            return;
        }
    }
}

int estate_add_path(struct estate *e, const char *path)
{
    if (e->n_paths == ESTATE_PATHS_MAX)
        return -ENOSPC;
    e->paths[e->n_paths] = strdup(path);
    if (!e->paths[e->n_paths])
        return -ENOMEM;
    e->n_paths++;
    return 0;
}

void estate_forget_paths(struct estate *e)
{
    while (e->n_paths > 0)
        free(e->paths[--e->n_paths]);
}

void estate_kill_groups(const struct estate *e)
{
    char   path[PATH_MAX];
    size_t i;

    for (i = 0; i < e->n_paths; i++) {
        int fd;

        if (snprintf(path, sizeof path, "%s/cgroup.kill", e->paths[i]) >= (int) sizeof path)
            continue;
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            continue; /* no cgroup, or a kernel before 5.14: the walk over the tree ends them */
        (void) !write(fd, "1", 1);
        (void) close(fd);
    }
}

/* The pipe may still have a writer, one in D state: asked with poll() before each read it cannot hold us. */
static void drain(const struct estate_stream *s)
{
    struct pollfd p = { .fd = s->pipe_fd, .events = POLLIN };
    char          buf[DRAIN_SIZE];
    ssize_t       n;

    while (poll(&p, 1, 0) == 1) {
        n = read(s->pipe_fd, buf, sizeof buf);
        if (n == 0 || (n < 0 && errno != EINTR))
            return;
        if (n > 0 && cc_write_all(s->file_fd, buf, (size_t) n, NULL) < 0)
            return;
    }
}

void estate_settle(struct estate *e)
{
    size_t i;

    for (i = 0; i < e->n; i++)
        drain(&e->streams[i]);
    for (i = 0; i < e->n_paths; i++)
        (void) rmtree(e->paths[i]);
    estate_free(e);
}

void estate_free(struct estate *e)
{
    while (e->n > 0)
        close_stream(&e->streams[--e->n]);
    free(e->streams);
    estate_forget_paths(e);
    *e = (struct estate) { 0 };
}
