/* stdstreams.h - descriptors 0, 1 and 2 are open, whoever started us.
 *
 * A service manager may start a program without them.  Then the first files that it opens take their places: a worker would
 * write its output into a socket of ours, and libuv aborts when it closes one of them.
 */
#ifndef LAUNCHER_STDSTREAMS_H
#define LAUNCHER_STDSTREAMS_H

/* Opens /dev/null for each that is closed: 0, or -1 and errno. Call before anything else opens a file. */
int stdstreams_open(void);

#endif
