/* signame.h - the names of signals, both ways. Pure; no C library is asked, since not all can tell. */
#ifndef CC_SIGNAME_H
#define CC_SIGNAME_H

enum { CC_SIGNAME_MAX = 24 };

/* "SIGTERM", "SIGRTMIN+3", or "signal 99" for a number that has no name: in buf, or a constant. */
const char *cc_signal_name(int signum, char buf[CC_SIGNAME_MAX]);

/* The number of "SIGTERM", "SIGRTMIN", "SIGRTMIN+3" or "SIGRTMAX-1"; 0: no such signal. */
int cc_signal_number(const char *name);

#endif
