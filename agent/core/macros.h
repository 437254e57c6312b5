/* macros.h - $-words in a worker's arguments, for --macros.
 *
 * Pure.  The rules are those of torchrun's template (Python's string.Template.safe_substitute): ${name} and
 * $name with a name of [_a-zA-Z][_a-zA-Z0-9]*, the longest that fits; names are case sensitive; $$ is a
 * dollar sign; everything else (an unknown name, a lone $, an unclosed brace) stays as it is.
 */
#ifndef AGENT_CORE_MACROS_H
#define AGENT_CORE_MACROS_H

#include <stdint.h>

struct macros_values {
    unsigned    local_rank, rank, world_size, local_world_size;
    unsigned    group_rank, group_world_size, role_rank, role_world_size;
    unsigned    restart_count, max_restarts;
    const char *run_id, *role, *master_addr;
    uint16_t    master_port;
};

/* 0 and a new string, or -ENOMEM. */
int macros_expand(const char *arg, const struct macros_values *v, char **ret);

#endif
