# shellcheck shell=sh disable=SC2034,SC2086
# agents.sh - words for agents on hosts of their own: after lab.sh and nodes_case.sh.
#
#   lab_nodes 3 [option...]     like nodes(); the endpoint is on host 1
#   host_agent a 2 [option...]  starts agent a on host 2
#   kill_agent a                as with kill -9 on that host

lab_nodes() {
    NODES=$1; shift
    COMMON=$*
    ENDPOINT=node1:29400 # the hosts have networks of their own: the port is free
}

host_agent() {
    agent_name=$1 agent_host=$2; shift 2
    eval "set -- \"\$@\" --no-python ${WORKER:-\"\$SUPPORT/puppet\" $PUPPET}"
    bg "$agent_name" "$SUPPORT/labhelper" exec "$(lab pid "$agent_host")" $AROUND "$CCRUN" --nnodes "$NODES" \
        --rdzv-backend c10d --rdzv-endpoint "$ENDPOINT" $COMMON "$@"
    eval "$agent_name=\$pid"
}

# The child of what entered the host
kill_agent() {
    kill_agent_pid=$(eval "echo \$$1")
    kill -9 $(pgrep -P "$kill_agent_pid")
    wait_for "! alive $kill_agent_pid" 3
}
