/* estate.h - what an agent leaves behind, and what its keeper does with it.
 *
 * The agent names its workers' output streams and its temporary paths while it lives (keeper.h).  If it dies by a signal,
 * nobody else can complete the log files, end the cgroup or remove the files: the keeper does, once everybody is dead.
 * No locks, one thread.
 */
#ifndef AGENT_ESTATE_H
#define AGENT_ESTATE_H

#include <stddef.h>
#include <stdint.h>

enum { ESTATE_PATHS_MAX = 16 };

struct estate_stream {
    uint32_t id;
    int      pipe_fd, file_fd;
};

struct estate {
    struct estate_stream *streams;
    size_t                n, size;
    char                 *paths[ESTATE_PATHS_MAX];
    size_t                n_paths;
};

/* Takes both descriptors, in every case. 0, or -ENOMEM: then they are closed. The same id again replaces the stream. */
int  estate_add_stream(struct estate *e, uint32_t id, int pipe_fd, int file_fd);
void estate_drop_stream(struct estate *e, uint32_t id);
int  estate_add_path(struct estate *e, const char *path); /* 0, -ENOMEM, or -ENOSPC: there are 16 already */
void estate_forget_paths(struct estate *e);
/* SIGKILL to all in those of the paths that are cgroups: nothing can fork away from that. */
void estate_kill_groups(const struct estate *e);
/* Appends what is still in the pipes to the files, never waiting for a writer, and removes the paths. Frees all. */
void estate_settle(struct estate *e);
void estate_free(struct estate *e); /* does nothing but free */

#endif
