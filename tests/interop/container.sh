#!/bin/sh
# Real training in real containers, one a node: two of them in networks of their own form one job of unmodified PyTorch.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/../lab/lab.sh"
. "$LIB/container_case.sh"
limit 120
netlab_needed 2
containers_needed
containers_and_hosts_end() {
    bash "$LAB/netlab.sh" down
    containers_end
}
trap containers_and_hosts_end EXIT

words <<'END'
# node NAME HOST [option...]: ccrun is process 1 of a container in the network of that host
node() {
    node_name=$1 node_host=$2; shift 2
    NETNS=/proc/$(lab pid "$node_host")/ns/net bg_ctr "$node_name" "$CCRUN" --rdzv-endpoint 10.77.0.1:29400 --iface eth0 "$@" \
        "$PYTHON" "$HERE/elastic_train.py" /tmp --pace 0.05
    eval "$node_name=\$pid"
}
steps_of() { # NAME WORLD: so many ranks have made three steps together, as rank 0 in that container has logged them
    ctr_exec "$1" tail -n 3 /tmp/steps 2>/dev/null | awk -v world="$2" '$3 == world { n++ } END { exit n != 3 }'
}
END

it 'two containers train together; one is stopped, and the job shrinks to the other' <<'E'
node a 1 --nnodes 1:2 --rdzv-conf last_call_timeout=60 --no-python
wait_for 'grep -q "hosts the job" a.err' 30
node b 2 --nnodes 1:2 --no-python
wait_for 'steps_of a 2' 90
start=$(now_ms)
kill -TERM $b # docker stop
ends $b 143 15
in_time "$start" 10000
wait_for 'steps_of a 1' 60
has a.err 'round 2 starts with 1 worker on 1 node'
ctr_exec a touch /tmp/enough
ends $a 0 30
E

it 'two containers train together; one is stopped, and a job of a fixed size ends on both' <<'E'
[ "$CCRUN_REPEAT" -ge 50 ] || skip 'only with CCRUN_REPEAT of 50 and more'
node a 1 --nnodes 2 --rdzv-conf join_timeout=30 --no-python
wait_for 'grep -q "hosts the job" a.err' 30
node b 2 --nnodes 2 --no-python
wait_for 'steps_of a 2' 90
kill -TERM $b
ends $b 143 15
wait_for "! alive $a" 60
! wait $a || fail 'a job that lost a node has ended well'
matches a.err 'b-[0-9]*'
E
done_testing
