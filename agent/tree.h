/* tree.h - the processes below us: find, signal and reap them, whoever daemonised and wherever they hide.
 *
 * The caller is a subreaper (tree_adopt), so whatever its children leave behind becomes its child: every descendant of
 * the calling process belongs to the job, and nothing else does.  No names, no patterns.
 */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/base/err.h"

int  tree_adopt(struct cc_err *err);        /* PR_SET_CHILD_SUBREAPER */
int  tree_signal(int signum);               /* to every descendant; how many it reached, zombies not counted */
char tree_state(pid_t pid);                 /* of any process: the letter of proc(5); '\0': there is none */
/* SIGKILL to every descendant.  Who was forked meanwhile is our child once its parent is dead: call again when one has died.
 * That costs a fraction of tree_signal() where many die. */
void tree_kill(void);
/* The function of the kernel in which a process sleeps, as far as we may know. `size` of 64 is enough. */
const char *tree_wchan(pid_t pid, char *buf, size_t size);
bool tree_is_empty(void);                   /* no child left, not even a zombie */
/* Kill every descendant and reap it, until none is left or `timeout_ms` have passed. Returns how many are left
 * (processes in D state outlive SIGKILL); *ret_stuck, when not NULL, is then one of
 * them, or 0 when those that were seen last have gone meanwhile. */
int  tree_kill_all(uint64_t timeout_ms, pid_t *ret_stuck);

/* Children that are not the job's: a shell that exec'd us left them. They and what is below them stay untouched. */
struct tree_spare {
    const pid_t *pids;
    size_t       n;
};
int tree_kill_all_but(const struct tree_spare *spare, uint64_t timeout_ms, pid_t *ret_stuck);

/* The descendants at this moment, our own children first. Free with tree_list_free(). */
struct tree_proc {
    pid_t pid, parent;
};
struct tree_list {
    struct tree_proc *procs;
    size_t            n, size;
};
enum tree_source {
    TREE_FROM_LISTS,   /* /proc/PID/task/TID/children; from the machine where the kernel has none */
    TREE_FROM_MACHINE, /* the parent of every process that /proc shows */
};
void tree_list(struct tree_list *ret, enum tree_source source);
void tree_list_free(struct tree_list *l);

/* A sentence about what is there after all was killed. */
void tree_describe_left(char *buf, size_t size);

#endif
