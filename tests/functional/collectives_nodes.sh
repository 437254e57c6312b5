#!/bin/sh
# libccrun over two hosts: every collective with every type and operation, checked, for each backend, way to meet and number
# of ranks.  All of them in a full run (CCRUN_REPEAT=50 and more), else each backend, way and number at least once.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 2
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'EOF'
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
suite() { # suite N BACKEND INIT_METHOD: N ranks on each of the two hosts
    [ "$2" != gloo ] || [ -e "$GLOO" ] || skip 'libccrun was built without gloo'
    [ "$3" != file ] || set -- "$1" "$2" "file://$PWD/meet" # they have /tmp in common
    WORKER="\"\$SUPPORT/collsuite\" $2 $3"
    lab_nodes 2 --nproc-per-node "$1"
    host_agent a 1
    host_agent b 2
    ends "$a" 0 100
    ends "$b" 0 100
    same "$1 $1" "$(grep -c ' checked$' a.out) $(grep -c ' checked$' b.out)"
    [ ! -e meet ] # the last one has removed it
    nothing_left
}
EOF
limit 120

is_wanted() { # is_wanted BACKEND METHOD RANKS
    [ "$CCRUN_REPEAT" -ge 50 ] && return 0
    case $1:$2:$3 in gloo:env://:8 | *:tcp:2 | *:file:4 | ref:env://:2) return 0 ;; esac
    return 1
}

for backend in ref gloo; do
    for method in env:// tcp file; do
        for ranks in 2 4 8; do
            is_wanted $backend $method $ranks || continue
            it "$backend, $ranks ranks on two hosts, $method" <<EOF
suite $((ranks / 2)) $backend $method
EOF
        done
    done
done

it 'gloo, 2 ranks on two hosts, reached at the interface that is asked for' <<'EOF'
[ -e "$GLOO" ] || skip 'libccrun was built without gloo'
WORKER='"$SUPPORT/collsuite" gloo'
lab_nodes 2 --env GLOO_SOCKET_IFNAME=eth0
host_agent a 1
host_agent b 2
ends "$a" 0 100
ends "$b" 0 100
nothing_left
lab_nodes 2 --env GLOO_SOCKET_IFNAME=no-such0
host_agent a 1
host_agent b 2
ends "$a" 1 100
ends "$b" 1 100
cat a.err b.err >err # the first one to see it ends the job
has err 'connecting from no-such0'
nothing_left
EOF
done_testing
