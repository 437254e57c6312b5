# shellcheck shell=sh disable=SC2034,SC2086
# nodes_case.sh - words for cases with several agents; `words <"$LIB/nodes_case.sh"` after lib.sh.
#
# The agents of a case run side by side in its folder; their workers are puppets (../support/puppet.c), which a file in
# that folder tells to end or to fail.
#
#   nodes 2 [option...]       how many nodes, and options that all agents have; chooses a port
#   agent a [option...]       starts one; its output is in a.out and a.err, its process id in $a
#   hosts a                   waits until it hosts the job
#   joined 2                  waits until so many others are connected with it
#   links                     how many are
#   story a                   the rounds that the first worker of an agent saw: node/nodes:restarts of each
#   sees a '0/2:0 0/3:0'      waits until that is its story
#   all_go                    tells every worker to end well
#   well a b                  these agents end, with 0

WORKER= # a program with its arguments, as a shell would read them, instead of the puppet
PUPPET= # arguments of the puppet
AROUND= # a program with its arguments that starts ccrun

nodes() {
    NODES=$1; shift
    COMMON=$*
    PORT=$("$SUPPORT/freeport")
    ENDPOINT=127.0.0.1:$PORT
}

agent() {
    agent_name=$1; shift
    eval "set -- \"\$@\" --no-python ${WORKER:-\"\$SUPPORT/puppet\" $PUPPET}"
    bg "$agent_name" $AROUND "$CCRUN" --nnodes "$NODES" --rdzv-backend c10d --rdzv-endpoint "$ENDPOINT" $COMMON "$@"
    eval "$agent_name=\$pid"
}

hosts() { wait_for "grep -q 'hosts the job' $1.err"; }

links() { cat /proc/net/tcp* | awk -v port="$(printf :%04X "$PORT")\$" '$2 ~ port && $4 == "01"' | wc -l; }

joined() { wait_for "[ \"\$(links)\" -ge $1 ]"; }

story() {
    sed -n 's/^up node=\([0-9]*\) nodes=\([0-9]*\) .* local=0 .*count=\([0-9]*\) .*/\1\/\2:\3/p' "$1.out" | paste -sd' '
}

sees() { wait_for "[ \"\$(story $1)\" = '$2' ]" "${3:-10}"; }

# ups PATTERN AGENT...: how many lines of their workers match
ups() {
    ups_pattern=$1; shift
    for ups_name in "$@"; do cat "$ups_name.out"; done | grep -cE "^up .*$ups_pattern" || true
}

# pids_of AGENT: its workers that live
pids_of() {
    sed -n 's/^up .* pid=//p' "$1.out" | while read -r pids_pid; do
        ! alive "$pids_pid" || echo "$pids_pid"
    done
}

all_go() { touch go; }

well() {
    for well_name in "$@"; do eval "ends \$$well_name 0"; done
}

# fails RANK [HOW]: that worker fails, see puppet.c
fails() {
    echo "${2:-1}" >"fail.$1.new"
    mv "fail.$1.new" "fail.$1"
}
