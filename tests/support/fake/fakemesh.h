/* fakemesh.h - how the ranks of the double of NCCL reach each other: a TCP connection for each two of them.
 */
#ifndef FAKEMESH_H
#define FAKEMESH_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MESH_MAX = 64 };

/* What the 128 bytes of an id are: where rank 0 listens. */
struct mesh_id {
    char               magic[8];
    uint64_t           nonce;
    struct sockaddr_in at;
};

struct mesh {
    int         rank, size;
    int         fds[MESH_MAX]; /* -1: ourselves, or not connected */
    atomic_bool is_aborted;    /* set from another thread: everything that waits returns */
    char        error[128];    /* what ended it */
};

/* A message, with what it is meant to be in front: who receives another one has made another call. */
struct mesh_label {
    uint32_t kind, type;
    uint64_t count;
    int32_t  op, root;
};
struct mesh_part {
    int               peer;
    bool              is_out;
    struct mesh_label label, got;
    char             *data;
    size_t            size, at; /* at counts the label, too */
};

int mesh_listen(struct mesh_id *ret);
/* listener: of rank 0, from mesh_listen(). False: aborted, or error says why. */
bool mesh_connect(struct mesh *m, const struct mesh_id *id, int listener);
/* Moves all parts at the same time, those of a peer and a direction in their order. */
bool mesh_exchange(struct mesh *m, struct mesh_part *parts, size_t n);
void mesh_close(struct mesh *m);

#endif
