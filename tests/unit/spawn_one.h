/* spawn_one.h - one process by spawn.h, for tests that need no more. */
#ifndef TESTS_UNIT_SPAWN_ONE_H
#define TESTS_UNIT_SPAWN_ONE_H

#include "agent/spawn.h"

/* 0 and *ret_pid, or the negative errno of the step that failed; then no process is left. */
int spawn_one(const struct spawn_req *req, pid_t *ret_pid, struct cc_err *err);

#endif
