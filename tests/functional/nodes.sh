#!/bin/sh
# Several agents on one machine form a job: who is which rank, who hosts, who is turned away, and what is said meanwhile.
. "$(dirname "$0")/lib.sh"
words <"$LIB/nodes_case.sh"
limit 60

it 'two agents, four workers each: ranks 0 to 7, both end well (R16, D27)' <<'X'
nodes 1:2
agent a --nproc-per-node 4
agent b --nproc-per-node 4
wait_for '[ "$(ups "world=8 .*locals=4 count=0" a b)" -eq 8 ]'
same '0 1 2 3 4 5 6 7' "$(sed -n 's/^up .* rank=\([0-9]*\) .*/\1/p' a.out b.out | sort -n | paste -sd' ')"
same 1 "$(sed -n 's/^up .* at=\([^ ]*\) .*/\1/p' a.out b.out | sort -u | wc -l)"
all_go
well a b
X

it 'nodes may have unequal numbers of workers; ranks are contiguous by node (A24, C16)' <<'X'
nodes 3
agent a --nproc-per-node 1
agent b --nproc-per-node 2
agent c --nproc-per-node 3
wait_for '[ "$(ups "world=6" a b c)" -eq 6 ]'
all_go
well a b c
same 6 "$(ups 'nodes=3' a b c)"
same '0 1 2 3 4 5' "$(sed -n 's/^up .* rank=\([0-9]*\) .*/\1/p' a.out b.out c.out | sort -n | paste -sd' ')"
for x in a:1 b:2 c:3; do
    same "${x#*:}" "$(ups "locals=${x#*:} " "${x%:*}")"
    sed -n 's/^up .* rank=\([0-9]*\) .* local=\([0-9]*\) .*/\1 \2/p' "${x%:*}.out" | awk '{ print $1 - $2 }' | sort -u >base
    same 1 "$(wc -l <base)"
done
X

it 'seven agents with three roles: role ranks are dense, ranks of an agent consecutive (A27)' <<'X'
nodes 7
i=0
for x in master:8 trainer:1 trainer:2 trainer:3 trainer:4 ps:5 ps:2; do
    i=$((i + 1))
    agent "n$i" --role "${x%:*}" --nproc-per-node "${x#*:}"
done
wait_for '[ "$(ups "world=25" n1 n2 n3 n4 n5 n6 n7)" -eq 25 ]'
all_go
well n1 n2 n3 n4 n5 n6 n7
same "$(seq -s' ' 0 24)" "$(sed -n 's/^up .* rank=\([0-9]*\) .*/\1/p' n?.out | sort -n | paste -sd' ')"
for x in master:8 trainer:10 ps:7; do
    same "$(seq -s' ' 0 $((${x#*:} - 1)))" \
        "$(sed -n "s/^up .* role=${x%:*} \([0-9]*\)\/${x#*:} .*/\1/p" n?.out | sort -n | paste -sd' ')"
done
for x in n1 n5 n6; do
    sed -n 's/^up .* rank=\([0-9]*\) .* local=\([0-9]*\) .*/\1 \2/p' $x.out | awk '{ print $1 - $2 }' | sort -u >base
    same 1 "$(wc -l <base)"
done
X

it 'MIN:MAX starts as soon as all that may come are there (C27)' <<'X'
nodes 1:2 --rdzv-conf last_call_timeout=30
agent a
hosts a
from=$(now_ms)
agent b
sees a '0/2:0'
sees b '1/2:0'
in_time "$from" 500
all_go
well a b
X

it 'says that an address of this machine alone is nowhere to meet for others' <<'X'
nodes 2
agent a
hosts a
has a.err "ccrun: this node hosts the job, at 127.0.0.1:$PORT, which no other machine can reach"
wait_for 'grep -q "1/2 nodes" a.err'
kill $a
wait_for '! alive $a'
has a.err 'ccrun: SIGTERM: stopping; no worker runs here'
X

it 'one agent of 1:2 starts alone after the last call (R11)' <<'X'
nodes 1:2 "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'"
from=$(now_ms)
agent a
sees a '0/1:0'
[ $(($(now_ms) - from)) -ge 1000 ] || fail 'it did not wait for the second node'
in_time "$from" 3000
all_go
well a
X

it 'a node that comes later makes the job larger; nothing is counted as a restart (A37, B2, C61)' <<'X'
nodes 1:3 --rdzv-conf last_call_timeout=1
agent a
sees a '0/1:0'
agent b
sees a '0/1:0 0/2:0'
sees b '1/2:0'
agent c
sees a '0/1:0 0/2:0 0/3:0'
sees c '2/3:0'
for x in a:2 a:3 b:3; do has "${x%:*}.err" "1 more node came; round ${x#*:} starts with ${x#*:} workers on ${x#*:} nodes"; done
lacks c.err 'round 3 starts'
same 1 "$(sed -n 's/^up .* nodes=3 .* at=\([^ ]*\) .*/\1/p' a.out b.out c.out | sort -u | wc -l)"
all_go
well a b c
X

it '--label and ${rank} of a prefix name the rank in the job, not that on the node' <<'X'
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='(${rank})'
nodes 2 --label --tee 1 --log-dir /dev/null
agent a
agent b
wait_for '[ "$(cat a.out b.out | sed "s/ up .*//" | sort | paste -sd" ")" = "[0] [1]" ]'
all_go
well a b
nodes 2 --tee 1 --log-dir logs
agent a
agent b
wait_for '[ "$(cat a.out b.out | sed "s/up .*//" | sort | paste -sd" ")" = "(0) (1)" ]'
all_go
well a b
X

it 'a worker that dies of SIGABRT because it is stopped for a newcomer has not failed' <<'X'
cat >w.sh <<'Y'
trap 'echo aborts; kill -ABRT $$' TERM
echo "world $WORLD_SIZE"
until [ -e go ]; do sleep 0.02; done
Y
nodes 1:2 --rdzv-conf last_call_timeout=1
WORKER='sh w.sh'
agent a
wait_for 'grep -q "world 1" a.out' 20
agent b
wait_for 'grep -q "world 2" a.out && grep -q "world 2" b.out'
has a.out aborts
all_go
well a b
lacks a.err SIGABRT
X

it '--scale-policy restart-only leaves the others alone until they restart anyway (C61)' <<'X'
nodes 1:2 --rdzv-conf last_call_timeout=1 --scale-policy restart-only --max-restarts 1
agent a
sees a '0/1:0'
agent b
wait_for 'grep -q "1 node is at work; this one takes part from the next round on" b.err'
lacks b.err spare
same '0/1:0' "$(story a)"
fails 0
sees a '0/1:0 0/2:1'
sees b '1/2:1'
all_go
well a b
X

it 'static: two nodes with ranks, the second much later (W14)' <<'X'
port=$("$SUPPORT/freeport")
bg a "$CCRUN" --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port "$port" --no-python "$SUPPORT/puppet"
a=$pid
wait_for 'grep -q "1/2 nodes.*missing node rank 1" a.err'
bg b "$CCRUN" --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port "$port" --no-python "$SUPPORT/puppet"
b=$pid
sees a '0/2:0'
sees b '1/2:0'
has a.out "at=127.0.0.1:$port "
all_go
well a b
X

it 'a node rank that another agent has is refused, and who has it is named' <<'X'
nodes 2 --rdzv-backend c10d
agent a --node-rank 1
hosts a
agent b --node-rank 1
ends $b 2
has b.err "node rank 1 is taken by $(uname -n) (process $(pgrep -P $a)), which is alive"
matches a.err 'node rank 1 is taken by'
agent c --node-rank 0
all_go
well a c
X

it 'explicit node ranks decide, not who comes first; also with c10d' <<'X'
nodes 3
agent c --node-rank 2
hosts c
agent b --node-rank 1
joined 1
agent a --node-rank 0
sees a '0/3:0'
sees b '1/3:0'
sees c '2/3:0'
all_go
well a b c
X

it 'the order of nodes is that of SLURM_NODEID, or of the index of a Kubernetes job, and never that of addresses' <<'X'
step='SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=n[0-1] SLURM_NNODES=2 SLURM_NTASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_LOCALID=0'
for order in "$step SLURM_NODEID=0 SLURM_PROCID=0/$step SLURM_NODEID=1 SLURM_PROCID=1" JOB_COMPLETION_INDEX=0/JOB_COMPLETION_INDEX=1; do
    rm -f go
    nodes 2
    AROUND="env ${order#*/}"
    agent b --local-addr 127.0.0.2
    hosts b
    AROUND="env ${order%/*}"
    agent a --local-addr 127.0.0.3
    sees a '0/2:0'
    sees b '1/2:0'
    all_go
    well a b
done
X

it 'nodes of one leaf switch are neighbours, in the order of their ids (C15)' <<'X'
step='SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=n[0-2] SLURM_NNODES=3 SLURM_NTASKS=3 SLURM_STEP_TASKS_PER_NODE=1(x3) SLURM_LOCALID=0'
nodes 3 --max-restarts 1
for x in 2:leaf2 1:leaf1 0:leaf2; do
    i=${x%:*}
    AROUND="env $step SLURM_NODEID=$i SLURM_PROCID=$i SLURM_TOPOLOGY_ADDR=s0.${x#*:}.n$i SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node"
    agent "n$i"
done
sees n0 '0/3:0'
sees n2 '1/3:0'
sees n1 '2/3:0'
fails 1
sees n0 '0/3:0 0/3:1'
sees n2 '1/3:0 1/3:1'
all_go
well n0 n1 n2
X

it '--node-group says the same where Slurm does not' <<'X'
nodes 4
agent a --node-group rack7
hosts a
agent b --node-group rack8
joined 1
agent c --node-group rack8
joined 2
agent d --node-group rack7
sees a '0/4:0'
sees d '1/4:0'
sees b '2/4:0'
sees c '3/4:0'
all_go
well a b c d
X

it 'every five seconds each agent says who is missing and how long it waits' <<'X'
nodes 3 --rdzv-conf join_timeout=50
agent a --node-rank 0
agent b --node-rank 2
for x in a b; do wait_for "grep -qE '2/3 nodes.*missing node rank 1.* s left' $x.err"; done
from=$(now_ms)
for x in a b; do wait_for "[ \$(grep -cE '2/3 nodes' $x.err) -ge 2 ]" 15; done
[ $(($(now_ms) - from)) -ge 3000 ] || fail 'the line came more often'
agent c --node-rank 1
sees c '1/3:0'
all_go
well a b c
X

it 'too few nodes in time: the job ends and says how many there were' <<'X'
nodes 2 --rdzv-conf join_timeout=2
from=$(now_ms)
agent a
ends $a 75
in_time "$from" 5000
matches a.err 'the job has ended: 1 of at least 2 nodes came in 2 s: compare --rdzv-endpoint .or --master-addr. on all nodes, and ask if a firewall closes its port$'
X

it 'the first agent says that it hosts, the second joins it on the same machine (C6, C8)' <<'X'
nodes 2
agent a -v
hosts a
agent b -v
sees a '0/2:0'
sees b '1/2:0'
matches a.err "host.*$ENDPOINT"
all_go
well a b
X

it 'is_host=false never hosts; it waits for the host (C5)' <<'X'
nodes 2
agent b --rdzv-conf is_host=false
wait_for '[ -s b.err ]'
agent a --rdzv-conf is_host=true
sees a '0/2:0'
sees b '1/2:0'
all_go
well a b
X

it 'nobody hosts: the client ends when its join timeout is over, and names who refused (C9)' <<'X'
nodes 2 --rdzv-conf is_host=false,join_timeout=2
from=$(now_ms)
agent a
ends $a 75
in_time "$from" 5000
has a.err "$PORT"
has a.err 'nothing listens'
X

it 'a name that cannot be resolved ends the run after --resolve-timeout, and is named once (C10)' <<'X'
nodes 2 --resolve-timeout 1
ENDPOINT=no-such-host.invalid:$PORT
from=$(now_ms)
agent a
wait_for '! alive $a'
in_time "$from" 5000
not wait $a
same 1 "$(grep -c 'no-such-host.invalid' a.err)"
X

it 'several nodes without an endpoint are a usage error at once (C11)' <<'X'
from=$(now_ms)
expect_status 2 "$CCRUN" --nnodes 2 --rdzv-backend c10d --no-python true
in_time "$from" 1000
has err '--rdzv-endpoint'
expect_status 2 "$CCRUN" --nnodes 2 --no-python true
X

it 'something else listens on the endpoint: named within 3 s, status 2 (C12)' <<'X'
for how in parrot mute reset; do
    bg peer "$SUPPORT/listener" $how
    peer=$pid
    wait_for '[ -s peer.out ]'
    nodes 2
    ENDPOINT=127.0.0.1:$(cat peer.out)
    from=$(now_ms)
    agent a
    wait_for '! alive $a'
    in_time "$from" 4000
    st=0
    wait $a || st=$?
    same 2 $st
    has a.err "$ENDPOINT"
    kill $peer
    wait_for '! alive $peer'
done
X

it 'an agent of this machine that has the port and does not answer is waited for, not taken for something else' <<'X'
nodes 2
agent a
hosts a
kill -STOP "$(pgrep -P "$a")"
agent b
wait_for 'grep -q "waiting for the host of the job, $ENDPOINT: .*ccrun. (process [0-9]*) has the port.* s left" b.err'
kill -CONT "$(pgrep -P "$a")"
sees b '1/2:0'
all_go
well a b
X

it 'a TCPStore of somebody else is no ccrun agent' <<'X'
bg store "$(dirname "$CCRUN")/ccrun-store" --host 127.0.0.1 --port 0
store=$pid
wait_for '[ -s store.out ] || [ -s store.err ]'
nodes 2
ENDPOINT=127.0.0.1:$(cat store.out store.err | grep -oE '[0-9]+$' | tail -n 1)
agent a
wait_for '! alive $a'
not wait $a
has a.err "$ENDPOINT"
kill $store
wait_for '! alive $store'
X

it 'a second job on the same endpoint is refused and told whose it is (B16)' <<'X'
nodes 1:2 --rdzv-conf last_call_timeout=1
agent a --rdzv-id one
sees a '0/1:0'
agent b --rdzv-id two
ends $b 2
has b.err one two
wait_for 'grep -q two a.err'
all_go
well a
X

it 'a wrong secret is refused on both sides (C68)' <<'X'
echo right >right
echo wrong >wrong
chmod 600 right wrong
nodes 1:2 --rdzv-conf last_call_timeout=1
agent a --job-token-file right
sees a '0/1:0'
agent b --job-token-file wrong
ends $b 2
matches b.err 'secret|token'
wait_for 'grep -qE "secret|token" a.err'
agent c
ends $c 2
agent d --job-token-file right
sees d '1/2:0'
all_go
well a d
X

it 'two agents with the same node rank: the second is told who has it (C18)' <<'X'
nodes 2
agent a --node-rank 0
hosts a
agent b --node-rank 0
ends $b 2
has b.err "node rank 0 is taken by $(uname -n) (process $(pgrep -P $a)), which is alive"
agent c --node-rank 1
sees c '1/2:0'
all_go
well a c
X

it 'agents whose plans differ are told both values' <<'X'
nodes 2
agent a
hosts a
NODES=3
agent b
ends $b 2
matches b.err '3.*2|2.*3'
NODES=2
WORKER='"$SUPPORT/puppet" --deaf'
agent c
ends $c 2
has c.err puppet
WORKER=
agent d
sees d '1/2:0'
all_go
well a d
X

it 'one node more than there is room for is a spare, told so, and leaves with the others (B10, D28)' <<'X'
nodes 2 --spares 1
agent a
agent b
wait_for '[ "$(ups nodes=2 a b)" -eq 2 ]'
agent c
wait_for 'grep -q "2 nodes are at work and this one is a spare" c.err'
all_go
well a b c
same '' "$(story c)"
X

it 'IPv6: the endpoint may be a literal, in brackets, and the workers get it (C05)' <<'X'
grep -q 00000000000000000000000000000001 /proc/net/if_inet6 2>/dev/null || skip 'there is no IPv6 here'
nodes 2
ENDPOINT="[::1]:$PORT"
agent a
hosts a
agent b
sees a '0/2:0'
sees b '1/2:0'
matches a.out 'at=\[?::1\]?:'
all_go
well a b
X

it 'two spellings of one endpoint are one job, without a warning (C05)' <<'X'
nodes 2
agent a
hosts a
ENDPOINT="localhost:$PORT"
agent b
sees a '0/2:0'
sees b '1/2:0'
all_go
well a b
not grep -iE 'warning|fail|errno|cannot' a.err b.err
X

it 'the endpoint may be any name or address of this machine (K15)' <<'X'
for host in localhost 127.0.0.1 127.0.0.3 "$(uname -n)"; do
    rm -f go
    nodes 2
    ENDPOINT=$host:$PORT
    getent ahosts "$host" >/dev/null || continue
    agent a
    agent b
    wait_for '[ "$(ups nodes=2 a b)" -eq 2 ]'
    all_go
    well a b
done
X

it 'only the address of the endpoint is listened on, one port a job (C10)' <<'X'
nodes 2
ENDPOINT=127.0.0.2:$PORT
agent a
agent b
wait_for '[ "$(ups nodes=2 a b)" -eq 2 ]'
! ss -Hltn "sport = :$PORT" | grep -v "127\.0\.0\.2:$PORT" || fail 'it listens where nobody asked it to'
ss -Hltn "sport = :$PORT" | grep -q "127\.0\.0\.2:$PORT"
! ss -Hltnp | grep -E '"ccrun"' | grep -vE '127\.0\.0\.[0-9]+:|\[::1\]:' || fail 'it listens where other machines come'
all_go
well a b
X

it '--local-addr is what the peers get as MASTER_ADDR (D26)' <<'X'
nodes 2
ENDPOINT=127.0.0.2:$PORT
agent a --local-addr 127.0.0.2
hosts a
agent b --local-addr 127.0.0.3
sees a '0/2:0'
sees b '1/2:0'
has a.out "at=127.0.0.2:$PORT "
has b.out "at=127.0.0.2:$PORT "
all_go
well a b
X

it 'an address that this node cannot be reached by is refused before anything starts' <<'X'
nodes 2
for addr in 0.0.0.0 :: 224.0.0.1 ff02::1; do
    for many in '' "--nnodes 2 --rdzv-endpoint $ENDPOINT"; do
        expect_status 2 "$CCRUN" $many --local-addr $addr --no-python true
        has err "ccrun: error: --local-addr '$addr' is no machine's address"
    done
done
expect_status 2 "$CCRUN" --nnodes 2 --rdzv-endpoint "$ENDPOINT" --local-addr 198.51.100.9 --no-python true
has err "ccrun: error: --local-addr: '198.51.100.9' is no address of this machine; there are: "
expect_status 2 "$CCRUN" --local-addr 198.51.100.9 --no-python true
has err 198.51.100.9
X

it 'an agent that is stopped before it has reached the host says so' <<'X'
nodes 2
for sig in TERM:143 INT:130; do
    bg a "$CCRUN" --nnodes 2 --rdzv-conf is_host=0 --rdzv-endpoint "$ENDPOINT" --no-python true
    wait_for "pgrep -P $pid" # from then on nothing is lost
    kill -"${sig%:*}" "$pid"
    ends "$pid" "${sig#*:}"
    matches a.err "^ccrun: SIG${sig%:*}: stopped before the job's host, $ENDPOINT, was reached"
done
X

it 'a node that lacks the program says so to the others: none waits for it' <<'X'
mkdir with
printf '#!/bin/sh\necho "went $RANK of $WORLD_SIZE"\n' >with/work
chmod +x with/work
WORKER=work
nodes 2
AROUND="env PATH=$T/with:$PATH"
agent a
hosts a
AROUND=
started=$(now_ms)
agent b
ends "$b" 127
ends "$a" 127
in_time "$started" 5000
has b.err "ccrun: error: " work
matches a.err '^ccrun: the agent at .* takes no part: .*work'
matches a.err '^ccrun: the job has ended: .*: .*work'
agent a # the host itself: whoever comes is told, and then it goes
hosts a
has a.err "ccrun: error: " work
AROUND="env PATH=$T/with:$PATH"
agent b
ends "$b" 127
ends "$a" 127
in_time "$started" 15000
matches b.err '^ccrun: the job has ended: .*: .*work'
nodes 2:3 # the others are enough
agent a
hosts a
AROUND=
agent b
ends "$b" 127
AROUND="env PATH=$T/with:$PATH"
agent c
ends "$c" 0
ends "$a" 0
has a.out 'went 0 of 2'
AROUND=
nodes 2 # nobody has it: the host knows that all have gone
agent a
hosts a
started=$(now_ms)
agent b
ends "$b" 127
ends "$a" 127
in_time "$started" 5000
X

it 'who cannot take part and finds no host, or is stopped, does not stay' <<'X'
WORKER=/nowhere/work
nodes 2 --rdzv-conf is_host=0 --exit-barrier-timeout 1
agent a
ends "$a" 127
has a.err "/nowhere/work" "no host of the job at $ENDPOINT in 1 s"
nodes 2
agent a
hosts a
kill -TERM "$a"
ends "$a" 127
X

it 'the store stays where it is over a restart, and is empty again (D30, D31)' <<'X'
nodes 2 --max-restarts 2
agent a --nproc-per-node 2
hosts a
agent b
sees b '1/2:0'
fails 2
sees b '1/2:0 1/2:1'
fails 0
sees b '1/2:0 1/2:1 1/2:2'
same 1 "$(sed -n 's/^up .* at=\([^ ]*\) .*/\1/p' a.out b.out | sort -u | wc -l)"
all_go
well a b
lacks a.err strangers
X

it 'a few dozen agents form a job and end together (C64)' <<'X'
nodes 32
for i in $(count 32); do agent "n$i" -q; done
wait_for '[ "$(cat n*.out | grep -c "^up .*nodes=32 ")" -eq 32 ]' 30
from=$(now_ms)
all_go
for i in $(count 32); do well "n$i"; done
in_time "$from" 4000
not grep -i reset n*.err
X

it 'a soft limit of open files is no limit of nodes, and still the one of the workers' <<'X'
nodes 24 -q
printf '#!/bin/sh\nulimit -Sn 40; exec "%s" "$@"\n' "$CCRUN" >limited
printf 'ulimit -Sn >nofile.$RANK; exec "%s"\n' "$SUPPORT/puppet" >w.sh
chmod +x limited
WORKER='sh w.sh'
CCRUN=$T/limited agent a --node-rank 0
joined 0
for i in $(count 23); do agent "n$i"; done
wait_for '[ "$(cat a.out n*.out | grep -c "^up .*nodes=24 ")" -eq 24 ]' 30
same 40 "$(cat nofile.0)"
all_go
well a
for i in $(count 23); do well "n$i"; done
X
done_testing
