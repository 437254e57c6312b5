/* exitstatus.h - the exit statuses of ccrun that are not a worker's own; the table is in ccrun.1. */
#ifndef AGENT_CORE_EXITSTATUS_H
#define AGENT_CORE_EXITSTATUS_H

enum agent_exit {
    AGENT_EXIT_USAGE      = 2,
    AGENT_EXIT_INTERNAL   = 70,  /* a fault of ccrun, or of the machine under it */
    AGENT_EXIT_TEMPORARY  = 75,  /* the job could not form, or lost its coordinator: requeue it */
    AGENT_EXIT_UNFINISHED = 124, /* too long after the first was done; as timeout(1) has it */
    AGENT_EXIT_CANNOT_RUN = 126,
    AGENT_EXIT_NOT_FOUND  = 127,
};

#endif
