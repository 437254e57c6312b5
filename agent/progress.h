/* progress.h - has the job come further?  A fingerprint of the file that its workers write (--progress-file). */
#ifndef AGENT_PROGRESS_H
#define AGENT_PROGRESS_H

#include <stdint.h>

/* Of its content (the first MiB and the size); 0: it cannot be read. */
uint64_t progress_fingerprint(const char *path);

#endif
