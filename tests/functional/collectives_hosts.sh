#!/bin/sh
# libccrun on two hosts: every collective, checked, over gloo and ref, and over nccl with the doubles of
# tests/support/fake.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 2
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'EOF'
export NCCL_SOCKET_IFNAME=eth0
suite() { # suite BACKEND INIT_METHOD N [option...]: with N ranks on each host
    [ "$1" != gloo ] || [ -e "${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so" ] || skip 'libccrun was built without gloo'
    [ "$1" != nccl ] || doubles
    suite_backend=$1 suite_method=$2 suite_n=$3; shift 3
    lab_nodes 2 --nproc-per-node "$suite_n" "$@"
    [ "$suite_method" != file ] || suite_method=file://$T/meet
    WORKER="\"$SUPPORT/collsuite\" $suite_backend $suite_method"
    host_agent a 1
    host_agent b 2
    wait_for "! alive $a $b" 60
    well a b
    same $((2 * suite_n)) "$(cat a.out b.out | grep -c "^$suite_backend: .* checked\$")"
    nothing_left
}
EOF
limit 90

if [ "$CCRUN_REPEAT" -ge 50 ]; then counts='1 2 4'; else counts=2; fi
for backend in ref gloo nccl; do
    for method in env:// tcp file; do
        for ranks in $counts; do
            it "$backend, twice $ranks ranks, $method" <<EOF
suite $backend $method $ranks
EOF
        done
    done
done

it 'gloo is reached at the interface that is asked for' <<'EOF'
suite gloo env:// 1 --env GLOO_SOCKET_IFNAME=eth0
lab_nodes 2 --env GLOO_SOCKET_IFNAME=no-such0
host_agent a 1
host_agent b 2
ends "$a" 1 60
ends "$b" 1 60
cat a.err b.err >err # the first one to see it ends the job
has err "this machine has no interface 'no-such0'"
nothing_left
EOF

it 'a rank that dies on the other host is named' <<'EOF'
doubles
lab_nodes 3 --nproc-per-node 1
WORKER='"$SUPPORT/collfault" nccl die-0'
host_agent a 1 --node-rank 0
host_agent b 1 --node-rank 1
host_agent c 2 --node-rank 2
wait_for '! alive $a $b $c' 60
same 2 "$(cat a.out b.out c.out | grep -c '^told: nccl: .*; rank 2 ')"
nothing_left
EOF
done_testing
