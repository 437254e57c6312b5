/* sendlot.h - sends to many sockets with one system call, where the kernel has that.
 *
 * Whoever is woken by what we send takes the CPU away from us when we come back from the kernel, reads that
 * one answer, and sleeps again.  io_submit() writes to any number of sockets before it comes back, so that
 * who wakes finds all of its answers (256 clients on two CPUs: a fifth less CPU an answer).  Everything is
 * tried once, without waiting.
 */
#ifndef STORE_SENDLOT_H
#define STORE_SENDLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { SENDLOT_MAX = 128 };

struct sendlot;

/* NULL: there is no memory, or the kernel, a container or a limit (fs.aio-max-nr) does not allow it: send one
 * by one.  A process that has had one takes some 20 ms longer to exit. */
struct sendlot *sendlot_new(void);
struct sendlot *sendlot_free(struct sendlot *l); /* accepts NULL, returns NULL */
/* The bytes are borrowed until sendlot_go(). False: full. The socket must not block. */
bool sendlot_add(struct sendlot *l, int fd, const void *bytes, size_t n, void *owner);
/* Sends all that was added and forgets it. `sent` hears of each of which something was sent; for the others,
 * send() tells why. */
void sendlot_go(struct sendlot *l, void (*sent)(void *owner, size_t n));

#endif
