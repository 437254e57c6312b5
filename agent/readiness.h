/* readiness.h - the answers to ccrun --probe, from what this node's part in the job is doing. */
#ifndef AGENT_READINESS_H
#define AGENT_READINESS_H

#include <stdbool.h>

#include "agent/control.h"
#include "agent/party.h"

/* "live": that anybody answers is the answer.  "ready": the workers of a round were started here and none is being stopped.
 * Anything else is no. */
bool readiness_answer(const struct party *p, const char *question, char ret_text[CONTROL_TEXT_MAX]);

#endif
