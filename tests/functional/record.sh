#!/bin/sh
# A job that was recorded is played again, and decides the same.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
replay() { "$(dirname "$CCRUN")/sim_replay" "$@"; }
EOF

it 'records a restart, and the same cores decide the same' <<'EOF'
bg job "$CCRUN" --record it --nproc-per-node 2 --max-restarts 1 --no-python \
    sh -c 'test "$TORCHELASTIC_RESTART_COUNT.$RANK" != 0.1 || exit 3'
ends $pid 0
replay it >decided
has decided 'start 2 workers, round 1, node rank 0 of 1, ranks from 0 of 2' 'rank 1 exited with code 3' \
    'start 2 workers, round 2' 'finished, status 0' 'the decisions are the recorded ones'
EOF

it 'notices an input that was another one' <<'EOF'
bg job env CCRUN_RECORD=it "$CCRUN" --nproc-per-node 2 --no-python sh -c 'test "$RANK" = 0 || exit 3'
ends $pid 3
replay it >decided
LC_ALL=C sed 's/exited with code 3/exited with code 4/' it >other
! replay other >decided 2>differs || fail 'nothing was noticed'
has differs 'decided otherwise than when it was recorded'
head -c 200 it >short # as when the agent is killed
replay short >decided
EOF

it 'records each agent of a job in a file of its own' <<'EOF'
mkdir all
port=$("$SUPPORT/freeport")
for i in 1 2; do
    bg "job$i" env CCRUN_RECORD=all "$CCRUN" --nnodes 2 --rdzv-endpoint "127.0.0.1:$port" --no-python true
    eval "pid$i=$pid"
done
ends $pid1 0
ends $pid2 0
set -- all/*.record
[ $# -eq 2 ] || fail "$# files"
replay "$@" >decided
has decided 'node rank 0 of 2' 'node rank 1 of 2' 'coordinator: view for link'
EOF

it 'records what a coordinator takes over from the one before it' <<'EOF'
mkdir all
agent() { # NAME
    bg "$1" env CCRUN_RECORD=all "$CCRUN" --nnodes 2:3 --rdzv-endpoint "file://$PWD/meet" --rdzv-id x --rdzv-conf last_call_timeout=30 \
        --no-python sh -c 'echo "up $GROUP_RANK/$GROUP_WORLD_SIZE"; while [ ! -e go ]; do sleep 0.05; done'
    eval "$1=\$pid"
}
agent a
wait_for 'grep -q "hosts the job" a.err'
agent b
agent c
wait_for '[ "$(cat a.out b.out c.out | grep -c "/3")" -eq 3 ]'
kill -9 $a $(pgrep -P "$a")
wait_for '[ "$(cat b.out c.out | grep -c "/2")" -eq 2 ]' 20
touch go
ends $b 0
ends $c 0
set -- all/*.record
[ $# -eq 3 ] || fail "$# files"
replay "$@" >decided || { cat decided; fail 'the replay differs'; }
same 1 "$(grep -c 'coordinator: goes on from [0-9]* bytes that were saved' decided)"
matches decided 'coordinator: view for link [0-9]+: round 2, active, node rank [01]'
EOF

it 'says why it cannot record, before anything starts' <<'EOF'
bg job "$CCRUN" --record /nowhere/it --no-python echo started
wait_for '! alive $pid'
has job.err "record the job in '/nowhere/it': No such file or directory"
not grep -q started job.out
EOF
done_testing
