#!/bin/sh
# Workers that meet over gloo on two hosts, fail, and meet again: every time.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 2
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
limit 880

it 'restarts with gloo over two hosts, again and again, with the collectives of all in between' <<'X'
n=$(rounds 50)
lab_nodes 2 --max-restarts "$n"
WORKER='"$PYTHON" "$HERE/restart.py" "$PWD" again'
host_agent a 1
host_agent b 2
ends $a 0 880
ends $b 0
[ -e done.0 ] && [ -e done.1 ]
same "$n" "$(grep -c "restart [0-9]* of $n" a.err)"
X
done_testing
