/* evidence.h - what the machine knows about a worker's end that its exit status does not tell.
 *
 * SIGKILL: the kernel's out-of-memory killer, ourselves after the grace time, or somebody else.  Signals of a
 * crash: was a core dumped, where to, and why not.  Others: what usually sends them.  Only what can be known
 * is claimed.
 */
#ifndef AGENT_EVIDENCE_H
#define AGENT_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/cgroup.h"

enum evidence_kind {
    EVIDENCE_NONE,
    EVIDENCE_OOM,    /* the kernel's out-of-memory killer */
    EVIDENCE_CCRUN,  /* we sent the signal */
    EVIDENCE_SENDER, /* a signal whose sender is not known */
    EVIDENCE_CORE,   /* a crash, and what became of the core */
    EVIDENCE_HINT,   /* what this exit code or signal usually means */
};

struct evidence {
    enum evidence_kind kind;
    char               text[512];   /* one line, "" for EVIDENCE_NONE */
    uint64_t           limit, peak; /* bytes, with EVIDENCE_OOM; 0: not known */
};

struct evidence_watch {
    const char       *root;     /* borrowed; put before /proc, /sys and /dev; "" for the machine itself */
    struct cgroup_oom oom;      /* the last reading that is accounted for */
    uint64_t machine_oom_kills; /* the same of the whole machine, where no memory cgroup is visible */
    bool     is_machine_known;
};

struct evidence_ask {
    int      status; /* as waitpid() gives it */
    pid_t    pid;
    bool     is_ours, is_after_grace;
    uint64_t grace_ms;
};

/* Call before the first worker starts: OOM kills are counted from here. */
void evidence_start(struct evidence_watch *w, const char *root);

/* Call when the attempt has ended, in the order of the exits.  Each kill counted by the kernel explains one SIGKILL. */
void evidence_collect(struct evidence_watch *w, const struct evidence_ask *ask, struct evidence *ret);

/* What stands for a memory size in a sentence: "512 MB", "1.5 GB". */
void evidence_size(uint64_t bytes, char *buf, size_t size);

#endif
