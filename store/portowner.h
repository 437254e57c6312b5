/* portowner.h - which process listens on a port, as far as /proc tells. */
#ifndef STORE_PORTOWNER_H
#define STORE_PORTOWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes "'name' (process 123)" and returns 0, or -ENOENT: nobody, or a process that we may not look into. */
int portowner_find(uint16_t port, char *buf, size_t size);

/* False as well when it cannot be told. */
bool portowner_runs_our_program(uint16_t port);

#endif
