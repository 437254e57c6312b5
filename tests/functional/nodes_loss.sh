#!/bin/sh
# What several agents do when something goes away: a worker, an agent, the host of the job, a node that is told to stop;
# who pays for it, who goes on, with which rank, and what everybody says.
. "$(dirname "$0")/lib.sh"
words <"$LIB/nodes_case.sh"
words <<'X'
pair() { # two agents of 1 to 2 nodes that run; a is the first
    nodes 1:2 --rdzv-conf last_call_timeout=30 "$@"
    agent a
    hosts a
    agent b
    sees a '0/2:0'
    sees b '1/2:0'
}
three() { # NODES [option...]: three agents that run, in the order a, b, c
    nodes "$@"
    agent a
    hosts a
    agent b
    joined 1
    agent c
    sees a '0/3:0'
    sees b '1/3:0'
    sees c '2/3:0'
}
is_over() { # AGENT STATUS [SECONDS]: it has ended, and nothing of it is left
    eval "ends \$$1 $2 ${3:-10}"
    same '' "$(pids_of "$1")"
}
cut_off() { # AGENT: kill it like a power cut would
    cut_pids=$(pids_of "$1")
    eval "kill -9 \$$1"
    eval "wait_for '! alive \$$1 $cut_pids' 2"
}
X
limit 60

it 'an agent that is killed leaves nothing, and the other goes on alone within a second (C58, A30)' <<'X'
pair
from=$(now_ms)
cut_off b
sees a '0/2:0 0/1:0'
in_time "$from" 2000
matches a.err 'lost'
all_go
well a
X

it 'a node that comes back takes part again, and that is no restart (C61, A28)' <<'X'
pair
cut_off b
sees a '0/2:0 0/1:0'
agent b
sees a '0/2:0 0/1:0 0/2:0'
sees b '1/2:0'
has a.err 'node 1 was lost; round 2 starts with 1 worker on 1 node' '1 more node came; round 3 starts'
all_go
well a b
X

it 'a fixed number of nodes: the killed one is replaced, the other waits for it (A28, B3)' <<'X'
nodes 2 --max-restarts 2
agent a
hosts a
agent b
sees a '0/2:0'
cut_off b
wait_for 'grep -qE "1/2 nodes.*missing node rank 1" a.err'
agent b
sees a '0/2:0 0/2:0'
sees b '1/2:0'
all_go
well a b
X

it 'nobody comes for the lost one: the job ends when its join timeout is over, and says why' <<'X'
nodes 2 --rdzv-conf join_timeout=3
agent a
hosts a
agent b
sees a '0/2:0'
cut_off b
is_over a 75
matches a.err 'node 1 was lost'
matches a.err '1 of at least 2 nodes'
X

it 'static: one of three is lost with its workers, the others stop soon, with a status and the reason (C55)' <<'X'
port=$("$SUPPORT/freeport")
for x in a:0 b:1 c:2; do
    bg ${x%:*} "$CCRUN" --nnodes 3 --node-rank ${x#*:} --master-addr 127.0.0.1 --master-port "$port" --no-python "$SUPPORT/puppet"
    eval "${x%:*}=\$pid"
    hosts a # all have the address, and the first one hosts
done
sees a '0/3:0'; sees b '1/3:0'; sees c '2/3:0'
from=$(now_ms)
cut_off c
for x in a b; do is_over $x 75; done
in_time "$from" 10000
for x in a b; do
    matches $x.err 'node 2 was lost|lost.*node 2'
done
X

it 'without a replacement ranks close up; whoever comes takes the place that is free (C14)' <<'X'
three 2:3
cut_off b
sees a '0/3:0 0/2:0'
sees c '2/3:0 1/2:0'
agent d
sees a '0/3:0 0/2:0 0/3:0'
sees c '2/3:0 1/2:0 1/3:0'
sees d '2/3:0'
all_go
well a c d
X

it 'with a replacement every survivor keeps its rank (C14)' <<'X'
three 3
cut_off b
wait_for 'grep -qE "2/3 nodes.*missing node rank 1" a.err'
agent d
sees a '0/3:0 0/3:0'
sees c '2/3:0 2/3:0'
sees d '1/3:0'
all_go
well a c d
X

it 'a spare takes the place of a killed node at once (C69, D29)' <<'X'
nodes 2 --spares 1
agent a
hosts a
agent b
sees b '1/2:0'
agent s
wait_for 'grep -q spare s.err'
from=$(now_ms)
cut_off b
sees a '0/2:0 0/2:0'
sees s '1/2:0'
in_time "$from" 2000
all_go
well a s
X

it 'workers fail again and again beside a spare: it is never needed, and nothing closes (C60)' <<'X'
nodes 2 --spares 1 --max-restarts 5
agent a
hosts a
agent b
sees b '1/2:0'
agent s
wait_for 'grep -q spare s.err'
want='1/2:0'
for i in 1 2 3 4 5; do
    fails $((i % 2)) $((10 + i)) # a different one each time
    want="$want 1/2:$i"
    sees b "$want"
done
cut_off b
sees s '1/2:5'
all_go
well a s
X

it 'a worker fails on one node: all start again, with one count for all (C62, A36)' <<'X'
pair --max-restarts 3 --nproc-per-node 2
fails 3 -9
sees a '0/2:0 0/2:1'
sees b '1/2:0 1/2:1'
fails 0 7
sees a '0/2:0 0/2:1 0/2:2'
sees b '1/2:0 1/2:1 1/2:2'
for x in a b; do
    same 2 "$(ups 'count=1' $x)"
    matches $x.err 'rank 3.*SIGKILL'
    has $x.err 'restart 1 of 3' 'restart 2 of 3'
done
all_go
well a b
X

it 'all nodes are in the new round soon after a failure' <<'X'
pair --max-restarts 5
for i in 1 2 3 4 5; do
    from=$(now_ms)
    fails 1 $((20 + i))
    wait_for "[ \"\$(ups 'count=$i' a b)\" -eq 2 ]"
    in_time "$from" 1000
done
all_go
well a b
X

it 'the budget is one for the job; when it is spent all agents end with the same cause and code' <<'X'
three 3 --max-restarts 1
fails 2 41
sees a '0/3:0 0/3:1'
from=$(now_ms)
fails 1 42
for x in a b c; do is_over $x 42; done
in_time "$from" 5000
for x in a b c; do
    matches $x.err 'rank 1.*42|exitcode *: 42'
    same 2 "$(story $x | wc -w)"
done
X

it 'the cause is the failure that was first, wherever the others fell over (A29)' <<'X'
cat >w.sh <<'Y'
trap 'exit 9' TERM
"$SUPPORT/puppet" &
wait $!
exit $?
Y
nodes 2
WORKER='sh w.sh'
agent a
hosts a
agent b
sees a '0/2:0'
sees b '1/2:0'
fails 1 33
from=$(now_ms)
for x in a b; do is_over $x 33; done
in_time "$from" 5000
for x in a b; do matches $x.err 'rank 1'; done
X

it 'both nodes have a worker that fails: both end soon, nobody waits for a barrier (A29, B8)' <<'X'
pair
from=$(now_ms)
fails 0 5
fails 1 6
wait_for '! alive $a $b'
in_time "$from" 5000
st=0; wait $a || st=$?
st2=0; wait $b || st2=$?
same $st $st2
[ $st = 5 ] || [ $st = 6 ]
X

it 'SIGTERM to one agent: its workers may save, and the others go on without it' <<'X'
PUPPET='--term 300'
pair
kill $b
is_over b 143
has b.out 'saved rank=1'
sees a '0/2:0 0/1:0'
same 1 "$(grep -c '^saved' a.out)"
all_go
well a
X

it 'SIGTERM to the host of the job: it leaves, and the others are not left behind' <<'X'
pair --shutdown-timeout 5
kill $a
is_over a 143
is_over b 75
matches b.err 'stopped|left'
X

it 'SIGTERM to one of a fixed set of nodes ends the job on all' <<'X'
nodes 2 --rdzv-conf join_timeout=2
agent a
hosts a
agent b
sees b '1/2:0'
kill $b
is_over b 143
is_over a 75
X

it 'SIGTERM to all of them at once is a stop on each' <<'X'
three 2:3
agent_pid=$(pgrep -P $a) # it hosts; what is said of its end would reach the others before their own signal
kill -STOP $agent_pid
kill $a $b $c
wait_for 'grep -q "SIGTERM: stopping" b.err && grep -q "SIGTERM: stopping" c.err'
kill -CONT $agent_pid
for x in a b c; do is_over $x 143; done
lacks b.err 'the job has ended'
X

it 'the host of the job is killed: the others stop within 10 s, with 75, and say so (C59, B20)' <<'X'
three 2:3
from=$(now_ms)
cut_off a
is_over b 75
is_over c 75
in_time "$from" 10000
for x in b c; do has $x.err 'nothing was heard from the host'; has $x.err "$PORT"; done
X

it 'the host is killed and started again at once: the others begin a new round with it' <<'X'
nodes 2
agent a
hosts a
agent b
sees b '1/2:0'
cut_off a
agent a
wait_for '[ "$(story b)" = "1/2:0 1/2:0" ] || [ "$(story b)" = "1/2:0 0/2:0" ]'
wait_for '[ "$(ups "nodes=2 " a)" -eq 1 ]'
all_go
well a b
X

it 'an agent that hangs is as good as dead; when it goes on it does no harm (C58)' <<'X'
pair
agent_pid=$(cat "/proc/$b/task/$b/children" | tr -d ' ')
from=$(now_ms)
kill -STOP $agent_pid
sees a '0/2:0 0/1:0'
in_time "$from" 5000
kill -CONT $agent_pid
wait_for '! alive $b || [ "$(story a)" = "0/2:0 0/1:0 0/2:0" ]' 15
if alive $b; then
    sees b '1/2:0 1/2:0'
    all_go
    well a b
else
    all_go
    well a
fi
X

it 'the connection of a node that is lost without a word does not stay open' <<'X'
pair
agent_pid=$(cat "/proc/$b/task/$b/children" | tr -d ' ')
kill -STOP $agent_pid
sees a '0/2:0 0/1:0'
n=$(links)
wait_for '[ "$(links)" -lt "$n" ]' 20
kill -KILL $agent_pid
all_go
well a
X

it 'a node that hangs for less than that is not noticed' <<'X'
pair
agent_pid=$(cat "/proc/$b/task/$b/children" | tr -d ' ')
kill -STOP $agent_pid
now=$(now_ms)
wait_for '[ $(now_ms) -ge $((now + 1500)) ]'
kill -CONT $agent_pid
now=$(now_ms)
wait_for '[ $(now_ms) -ge $((now + 3000)) ]'
same '0/2:0' "$(story a)"
same '1/2:0' "$(story b)"
all_go
well a b
X

it 'a peer finishes two seconds before the other: both end well (A32)' <<'X'
pair --exit-barrier-timeout 4
touch go.1
now=$(now_ms)
wait_for '[ $(now_ms) -ge $((now + 2000)) ]'
all_go
well a b
X

it 'with an exit barrier of 0 as well (A33)' <<'X'
pair --exit-barrier-timeout 0
touch go.1
is_over b 0
all_go
well a
X

it 'whoever is done waits for the others, but not once they are lost (C64)' <<'X'
pair
touch go.0
wait_for '[ -z "$(pids_of a)" ]'
from=$(now_ms)
cut_off b
is_over a 0 5 # there are MIN nodes that have done their work
in_time "$from" 5000
nodes 2 --rdzv-conf join_timeout=1
rm -f go.0
agent a
hosts a
agent b
sees b '1/2:0'
touch go.0
wait_for '[ -z "$(pids_of a)" ]'
from=$(now_ms)
cut_off b
is_over a 75 5
in_time "$from" 5000
matches a.err 'node 1 was lost'
X

it 'a signal is answered at once by an agent that waits for the others (B7)' <<'X'
pair
touch go.1
wait_for '[ -z "$(pids_of b)" ]'
from=$(now_ms)
kill $b
is_over b 143
in_time "$from" 1000
all_go
ends $a 0
X

it 'a node that is done runs again when another fails' <<'X'
pair --max-restarts 1
touch go.1
wait_for '[ -z "$(pids_of b)" ]'
rm go.1
fails 0
sees a '0/2:0 0/2:1'
sees b '1/2:0 1/2:1'
all_go
well a b
X

it 'one fails for good when the other is done: both end, with the code (B8)' <<'X'
pair
touch go.1
wait_for '[ -z "$(pids_of b)" ]'
from=$(now_ms)
fails 0 21
is_over a 21
is_over b 21
in_time "$from" 5000
X

it 'the same failure three times within the first seconds is the end, budget or not (C63)' <<'X'
nodes 1:2 --rdzv-conf last_call_timeout=30 --max-restarts 10
cat >w.sh <<'Y'
echo "up node=$GROUP_RANK nodes=$GROUP_WORLD_SIZE rank=$RANK local=$LOCAL_RANK count=$TORCHELASTIC_RESTART_COUNT pid=$$"
[ "$RANK" = 1 ] && exit 9
exec sleep 60
Y
WORKER='sh w.sh'
agent a
agent b
wait_for '! alive $a $b'
for x in a b; do
    st=0; eval "wait \$$x" || st=$?
    same 9 $st
    has $x.err 'rank 1 failed in the same way again and again'
done
same 3 "$(ups 'rank=1' a b)"
X

it 'USR1 is no such notice unless that was said: it goes to the workers of that node (C46)' <<'X'
pair
kill -USR1 $b
wait_for 'grep -q "got USR1" b.out'
kill -USR2 $a
wait_for 'grep -q "got USR2" a.out'
lacks a.out 'got USR1'
all_go
well a b
X

it '--finish-timeout: one rank has finished, another hangs (C66)' <<'X'
pair --finish-timeout 1
touch go.1
from=$(now_ms)
for x in a b; do is_over $x 124; done
in_time "$from" 6000
matches a.err 'finish'
X

it 'with a progress file that changes it is no such thing (C63)' <<'X'
nodes 1:2 --rdzv-conf last_call_timeout=30 --max-restarts 5 --progress-file "$PWD/progress"
cat >w.sh <<'Y'
echo "up node=$GROUP_RANK nodes=$GROUP_WORLD_SIZE rank=$RANK local=$LOCAL_RANK count=$TORCHELASTIC_RESTART_COUNT pid=$$"
[ "$TORCHELASTIC_RESTART_COUNT" -lt 5 ] || exit 0
[ "$RANK" = 1 ] || exec sleep 60
echo "$TORCHELASTIC_RESTART_COUNT" >progress
exit 9
Y
WORKER='sh w.sh'
agent a
agent b
well a b
same 6 "$(ups 'rank=1' a b)"
X

it '--no-restart-codes: such an end is final (C63)' <<'X'
pair --max-restarts 5 --no-restart-codes 77,78
fails 1 76
sees a '0/2:0 0/2:1'
sees b '1/2:0 1/2:1'
fails 0 77
is_over a 77
is_over b 77
X

it '--max-restarts N/WINDOW counts only what is recent' <<'X'
pair --max-restarts 1/2
for i in 1 2 3; do
    fails 1 $((50 + i))
    wait_for "[ \"\$(ups 'count=$i' a b)\" -eq 2 ]"
    now=$(now_ms)
    wait_for '[ $(now_ms) -ge $((now + 2200)) ]'
done
fails 1 60
wait_for "[ \"\$(ups 'count=4' a b)\" -eq 2 ]"
fails 1 61
is_over a 61
is_over b 61
X

it '--restart-backoff waits before a restart' <<'X'
pair --max-restarts 1 --restart-backoff 2:8
from=$(now_ms)
fails 1
wait_for "[ \"\$(ups 'count=1' a b)\" -eq 2 ]"
[ $(($(now_ms) - from)) -ge 1900 ] || fail 'it did not wait'
all_go
well a b
X

it '--max-rejoins is the budget of lost nodes' <<'X'
pair --max-rejoins 1
cut_off b
sees a '0/2:0 0/1:0'
agent b
sees a '0/2:0 0/1:0 0/2:0'
cut_off b
is_over a 75
has a.err 'node 1 was lost; --max-rejoins 1 is spent'
X

it 'a pre-emption that one agent is told reaches all workers within a second and stops nobody (C47, C46)' <<'X'
three 3 --preempt-signal USR1
from=$(now_ms)
kill -USR1 $b
for x in a b c; do wait_for "grep -q 'got USR1' $x.out"; done
in_time "$from" 1000
for x in a b c; do
    same 1 "$(grep -c 'got USR1' $x.out)"
    same 1 "$(ups local=0 $x)"
done
all_go
well a b c
X

it 'the deadline of a pre-emption is the same on all nodes: in a file at once, in the environment of whoever starts later (C47)' <<'X'
cat >w.sh <<'Y'
trap 'echo "told rank=$RANK at=$(cat "$CCRUN_PREEMPT_FILE")"' USR1
echo "up node=$GROUP_RANK nodes=$GROUP_WORLD_SIZE rank=$RANK local=$LOCAL_RANK count=$TORCHELASTIC_RESTART_COUNT pid=$$ end=${CCRUN_PREEMPT_DEADLINE-none}"
[ ! -s "$CCRUN_PREEMPT_FILE" ] || echo "has rank=$RANK at=$(cat "$CCRUN_PREEMPT_FILE")"
until [ -e go ]; do
    [ ! -e "fail.$RANK" ] || { rm "fail.$RANK"; exit 9; }
    sleep 0.02
done
Y
nodes 2:4 --rdzv-conf last_call_timeout=30 --max-restarts 1 --preempt-signal USR1 --preempt-deadline 90
WORKER='sh w.sh'
agent a --node-rank 0
hosts a
agent b --node-rank 1
joined 1
agent c --node-rank 2
agent d --node-rank 3
sees d '3/4:0'
sees a '0/4:0'
same 4 "$(cat ?.out | grep -c 'end=none$')"
now=$(now_ms)
kill -USR1 $b
for x in a b c d; do wait_for "grep -q ^told $x.out"; done
# within 0.3 s of each other, and 90 s from now
sed -n 's/^told .*at=//p' ?.out | awk -v now="$now" '{ off = $1 - now / 1000 - 90; if (off < -0.3 || off > 1.5) bad = 1
    if (NR == 1 || $1 < min) min = $1; if ($1 > max) max = $1 } END { exit bad || NR != 4 || max - min > 0.3 }' ||
    fail "not 90 s from $now: $(grep ^told ?.out)"
kill -9 $d
sees a '0/4:0 0/3:0'
touch fail.1
sees a '0/4:0 0/3:0 0/3:1'
sees c '2/4:0 2/3:0 2/3:1'
agent d
sees d '3/4:1'
for x in a b c d; do
    sed -n 's/^\(told\|has\) .*at=//p' $x.out | sort -u >ends
    same 1 "$(wc -l <ends)"
    has $x.out "count=1 pid=$(sed -n 's/^up .*nodes=4 .*count=1 pid=\([0-9]*\) .*/\1/p' $x.out) end=$(cat ends)"
done
all_go
well a b c
ends $d 0
X

it 'a clean pre-emption ends with --preempt-exit-code, so that the job can be queued again (C57)' <<'X'
PUPPET='--term 100'
pair --preempt-signal USR1 --preempt-exit-code 93
kill -USR1 $a
for x in a b; do wait_for "grep -q 'got USR1' $x.out"; done
kill $a $b
is_over a 93
is_over b 93
X

it 'one node cannot start its workers: all end with that, and each says it once' <<'X'
nodes 2
agent a
hosts a
printf '#!/bin/sh\nulimit -n 40; exec "%s" "$@"\n' "$CCRUN" >limited
chmod +x limited
CCRUN=$T/limited agent b --nproc-per-node 30
for x in a b; do
    is_over $x 70
    same 1 "$(grep -c 'Too many open files; 30 workers .* the limit is 40' $x.err)"
done
lacks b.err 'the job has ended'
X

it 'a failed worker leaves a child that is slow to die: no node starts before it is gone (B5, C52)' <<'X'
cat >w.sh <<'Y'
echo "up node=$GROUP_RANK nodes=$GROUP_WORLD_SIZE rank=$RANK local=$LOCAL_RANK count=$TORCHELASTIC_RESTART_COUNT pid=$$"
if [ "$RANK$TORCHELASTIC_RESTART_COUNT" = 10 ]; then
    sh -c 'trap "" TERM; echo $$ >child; sleep 60' &
    until [ -s child ]; do sleep 0.02; done
    exit 3
fi
if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then
    kill -0 "$(cat child)" 2>/dev/null && exit 44
    exit 0
fi
exec sleep 60
Y
nodes 2 --max-restarts 1 --shutdown-timeout 2
WORKER='sh w.sh'
agent a
agent b
well a b
X

it 'workers that ignore SIGTERM are killed on every node, after --shutdown-timeout (B6)' <<'X'
PUPPET=--deaf
pair --max-restarts 1 --shutdown-timeout 1
from=$(now_ms)
fails 1
sees a '0/2:0 0/2:1'
sees b '1/2:0 1/2:1'
[ $(($(now_ms) - from)) -ge 900 ]
in_time "$from" 5000
all_go
well a b
X

limit 240
it 'fifty restarts in a row over two nodes' <<'X'
n=$(rounds 50)
pair --max-restarts "$n"
i=0
while [ $i -lt "$n" ]; do
    fails $((i % 2)) $((i + 1))
    i=$((i + 1))
    wait_for "[ \"\$(ups 'count=$i ' a b)\" -eq 2 ]"
done
all_go
well a b
X
done_testing
