#!/bin/sh
# ccrun-check on hosts of their own: a slow host, a cut, a clock.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 3 tc
limit 90
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'X'
PATH=${CCRUN%/*}:$PATH
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
[ -e "$GLOO" ] || skip 'libccrun was built without gloo'
check() { # check HOSTS [option...]: on so many hosts, the first with rank 0 in a.out; $status
    hosts=$1; shift
    WORKER="ccrun-check --iters 2 --warmup 1 --timeout 20 $*"
    lab_nodes "$hosts"
    for i in $(seq "$hosts"); do host_agent "$(echo abc | cut -c"$i")" "$i" --node-rank $((i - 1)); done
    status=0
    wait $a || status=$?
    for agent in ${b:-} ${c:-}; do wait "$agent" || true; done
}
slow_down() { # slow_down HOST RATE: what it sends
    on "$1" tc qdisc add dev eth0 root tbf rate "$2" burst 32k latency 1s 2>/dev/null || skip 'this kernel shapes no traffic (tbf)'
}
X

it 'three hosts are well; nobody is named; clocks are compared, facts too' <<'X'
lab heal all
check 3 --pairs --sizes 64K --slow 0.001 --json a.json
same 0 "$status"
has a.out 'ccrun-check' '3 ranks on 3 nodes, gloo' 'node 2 (node3)' 'all is well'
python3 - <<'P'
import json
d = json.load(open("a.json"))
assert [n["host"] for n in d["nodes"]] == ["node1", "node2", "node3"], d["nodes"]
for n in d["nodes"][1:]: # it is one machine: they have one clock
    assert abs(n["clock_ahead_ms"]) <= n["clock_error_ms"] + 1, n
assert len(d["pairs"]) == 6, d["pairs"]
assert all("NIC eth0" in n["facts"] for n in d["nodes"])
P
nothing_left
X

it 'a host whose link is slow is named, and its partners are not' <<'X'
slow_down 3 20mbit
check 3 --pairs --pair-size 128K --ops none --slow 0.05 --json a.json
on 3 tc qdisc del dev eth0 root
same 1 "$status"
has a.out 'FAULT: node 2 (node3) is slow: '
same 1 "$(grep -c '^FAULT' a.out)"
matches a.out '^node 2 \(node3\) .* bad$'
nothing_left
X

it 'of two hosts the slow way is named' <<'X'
slow_down 2 20mbit
check 2 --pairs --pair-size 128K --ops none --slow 0.2
on 2 tc qdisc del dev eth0 root
same 1 "$status"
has a.out 'FAULT: the way from node 1 (node2) to node 0 (node1) is slow: '
nothing_left
X

it 'two hosts that cannot reach each other are named before anything of all of them hangs' <<'X'
lab cut 2 3
check 3 --pairs --pair-size 64K --sizes 8 --timeout 3 --slow 0.001
lab heal 2 3
same 1 "$status"
has a.out 'FAULT: node 1 (node2) and node 2 (node3) cannot communicate with each'
same 1 "$(grep -c '^FAULT' a.out)"
nothing_left
X

it 'what differs between the hosts is pointed out' <<'X'
on 2 ip link set eth0 mtu 1400
check 2 --ops none
on 2 ip link set eth0 mtu 1500
same 0 "$status"
matches a.out 'warning: node . \(node.\): NIC eth0 is .*MTU 1.00'
nothing_left
X
done_testing
