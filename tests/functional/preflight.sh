#!/bin/sh
# --preflight: the nodes are checked before the workers start; the job is refused, or a node left out, by policy.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 3 tc
limit 90
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'X'
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
[ -e "$GLOO" ] || skip 'libccrun was built without gloo'
slow_down() { # slow_down HOST: what it sends
    on "$1" tc qdisc del dev eth0 root 2>/dev/null || true
    on "$1" tc qdisc add dev eth0 root tbf rate 20mbit burst 32k latency 1s 2>/dev/null || skip 'this kernel shapes no traffic (tbf)'
}
three() { # three NODES option...: agents a, b and c on three hosts
    lab heal all
    lab_nodes "$@"
    host_agent a 1 --node-rank 0
    host_agent b 2 --node-rank 1
    host_agent c 3 --node-rank 2
}
checks() { grep -c 'ccrun-check runs before the workers' "$1" || true; }
X

it 'one node: workers start after a check that is well, and say nothing of it' <<'X'
expect_status 0 "$CCRUN" --preflight --nproc-per-node 2 --no-python echo hi
same 2 "$(grep -c '^hi$' out)"
empty err
X

it 'a job below a threshold is refused with status 75, and one sentence; no worker starts' <<'X'
expect_status 75 "$CCRUN" --preflight --preflight-args '--min-busbw 9999 --sizes 64K' --max-restarts 3 --nproc-per-node 2 \
    --no-python touch started
[ ! -e started ] || fail 'a worker was started'
matches err '^ccrun: preflight: all-reduce of 65536 bytes: bus bandwidth [0-9.]+ GB/s, below --min-busbw 9999$'
same 1 "$(wc -l <err)"
expect_status 0 "$CCRUN" --preflight --preflight-policy warn --preflight-args '--min-busbw 9999' --nproc-per-node 2 --no-python echo hi
same 2 "$(grep -c '^hi$' out)"
has err 'below --min-busbw 9999'
X

it 'bad input is refused before anything starts' <<'X'
expect_status 2 "$CCRUN" --preflight --preflight-args '--sizes x' --no-python true
has err "--preflight-args: --sizes: 'x' is not a size"
expect_status 2 "$CCRUN" --preflight --preflight-args=--help --no-python true
has err "--preflight-args: '--help' is not for a check before a job"
expect_status 2 "$CCRUN" --preflight --preflight-policy exclude --nnodes 2 --rdzv-endpoint 127.0.0.1 --no-python true
has err '--preflight-policy exclude: of a fixed number of nodes, 2, none can be left out; say --nnodes MIN:MAX'
expect_status 2 "$CCRUN" --preflight --preflight-policy no --no-python true
expect_status 2 "$CCRUN" --preflight --preflight-timeout 0 --no-python true
mkdir alone
cp "$CCRUN" alone
expect_status 2 alone/ccrun --preflight --no-python true
has err 'alone/ccrun-check'
X

it 'a check that is killed, or does not end, is a refusal, and nothing is left of it' <<'X'
mkdir bin
cp "$CCRUN" bin
printf '#!/bin/sh\nkill -9 $$\n' >bin/ccrun-check
chmod +x bin/ccrun-check
bg job bin/ccrun --preflight --no-python touch started
ends "$pid" 75
[ ! -e started ]
has job.err 'ccrun: preflight: the check ended without a verdict on this node'
[ "$CCRUN_REPEAT" -ge 50 ] || exit 0 # that takes seconds
printf '#!/bin/sh\ntrap "" TERM\nsleep 1000 &\nwait\n' >bin/ccrun-check
bg job bin/ccrun --preflight --preflight-timeout 0.5 --drain-timeout 0.2 --no-python touch started
ends "$pid" 75 20
has job.err 'ccrun: preflight: the check does not end on this node: killing it'
[ ! -e started ]
has job.err 'ccrun: preflight: the check ended without a verdict on this node'
X

it 'who is told to stop during the check stops' <<'X'
mkdir bin
cp "$CCRUN" bin
printf '#!/bin/sh\ntouch here\nexec sleep 1000\n' >bin/ccrun-check
chmod +x bin/ccrun-check
bg job bin/ccrun --preflight --no-python touch started
wait_for '[ -e here ]'
kill -TERM "$pid"
ends "$pid" 143
[ ! -e started ]
X

it 'three hosts: a restart with the same nodes makes no new check' <<'X'
export CCRUN_PREFLIGHT_ARGS='--slow 0.0001' # the machine may have other things to do
three 3 --preflight -v --max-restarts 1
sees a '0/3:0' 30
fails 1
sees a '0/3:0 0/3:1' 20
same 2 "$(checks a.err)"
same 1 "$(grep -c 'preflight: all is well' a.err)"
all_go
well a b c
nothing_left
X

it 'refuse: a slow host is named on every host, and no worker starts' <<'X'
export CCRUN_PREFLIGHT_ARGS='--slow 0.05 --ops none --pair-size 128K'
slow_down 3
three 3 --preflight
for x in $a $b $c; do ends "$x" 75 60; done
on 3 tc qdisc del dev eth0 root
for x in a b c; do
    has "$x.err" 'preflight: node 2 (node3) is slow: '
    same '' "$(story "$x")"
done
nothing_left
X

it 'exclude: a slow host leaves the job, and the others start without it' <<'X'
export CCRUN_PREFLIGHT_ARGS='--slow 0.05 --ops none --pair-size 128K'
slow_down 3
three 2:3 --preflight --preflight-policy exclude --rdzv-conf last_call_timeout=20
ends "$c" 75 60
on 3 tc qdisc del dev eth0 root
matches c.err 'preflight: node 2 .node3. is slow: .*; this node leaves the job'
sees a '0/2:0' 20
sees b '1/2:0' 20
same '' "$(story c)"
all_go
well a b
nothing_left
X

it 'exclude: a host whose check hangs is left out' <<'X'
[ "$CCRUN_REPEAT" -ge 50 ] || skip 'takes half a minute: only in a full run'
mkdir bin
cp "$CCRUN" bin
printf '#!/bin/sh\n[ "$(hostname)" != node3 ] || exec sleep 1000\nexec %s "$@"\n' "${CCRUN%/*}/ccrun-check" >bin/ccrun-check
chmod +x bin/ccrun-check
CCRUN=$PWD/bin/ccrun
export CCRUN_PREFLIGHT_ARGS='--slow 0.0001'
three 2:3 --preflight --preflight-policy exclude --preflight-timeout 3 --rdzv-conf last_call_timeout=20 --drain-timeout 0.2
ends "$c" 75 60
has c.err 'preflight: the check ended without a verdict on this node; this node leaves the job'
sees a '0/2:0' 20
sees b '1/2:0' 20
all_go
well a b
nothing_left
X

it 'exclude: the job is refused when too few would be left, or when the host of the job is to blame' <<'X'
export CCRUN_PREFLIGHT_ARGS='--slow 0.05 --ops none --pair-size 128K'
slow_down 3
three 3:4 --preflight --preflight-policy exclude --rdzv-conf last_call_timeout=1
for x in $a $b $c; do ends "$x" 75 60; done
on 3 tc qdisc del dev eth0 root
has a.err 'node 2 (node3) is slow: ' '; too few nodes would be left'
slow_down 1
three 2:3 --preflight --preflight-policy exclude --rdzv-conf last_call_timeout=20
for x in $a $b $c; do ends "$x" 75 60; done
on 1 tc qdisc del dev eth0 root
has b.err 'node 0 (node1) is slow: ' '; no node can be left out for that'
nothing_left
X

it 'exclude, by ssh: who started the job ends with 0, as the workers that were left' <<'X'
[ "$CCRUN_REPEAT" -ge 50 ] || skip 'only in a full run'
command -v sshd >/dev/null || skip 'no sshd'
lab heal all
lab sshd all
export CCRUN_PREFLIGHT_ARGS='--slow 0.05 --ops none --pair-size 128K'
slow_down 3
status=0
on 1 env PATH="$NETLAB_DIR/bin:$PATH" "$CCRUN" --hosts node1:1,node2:1,node3:1 --nnodes 2:3 --preflight \
    --preflight-policy exclude --no-python sh -c 'echo $RANK of $WORLD_SIZE: $(hostname)' >out 2>err || status=$?
on 3 tc qdisc del dev eth0 root
same 0 "$status"
same '0 of 2: node1
1 of 2: node2' "$(sort out)"
has err 'preflight: node 2 (node3) is slow: ' '; this node leaves the job'
nothing_left
X
done_testing
