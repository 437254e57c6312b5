#!/bin/sh
# Complaints about launchers: how they end.  signals.sh and tree.sh have most of them (C46 C48 to C52, C56), report.sh has C44.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
# as_pid_1 command...: in a PID namespace of its own, in the background; $pid is a process outside that can be signalled.
as_pid_1() { bg job unshare --pid --fork --mount-proc --kill-child "$@"; }
can_be_pid_1() { unshare --pid --fork --mount-proc true 2>/dev/null || skip 'no PID namespace may be made here'; }
inside() { wait_for 'init=$(pgrep -P '"$pid"')'; } # sets $init: PID 1 as it is seen from outside
EOF

it 'C45: a worker that needs three seconds to save has them, if they are granted' <<'EOF'
bg job "$CCRUN" --shutdown-timeout 15 --no-python "$SUPPORT/heed" TERM=0@3000
wait_for 'grep -q ^up job.out'
kill $pid
ends $pid 143
has job.out saved
EOF

it 'C54: as PID 1 it reaps what others leave, and ends with the code of its worker' <<'EOF'
can_be_pid_1
as_pid_1 "$CCRUN" --no-python sh -c '
    set -- /proc/[0-9]*; [ $# -eq 2 ] || exit 8 # PID 1 and us: it needs no second process of its own
    for i in 1 2 3 4 5; do (sh -c "exit 0" & exec true); done
    for i in 1 2 3 4 5 6 7 8 9; do grep -q ") Z " /proc/[0-9]*/stat 2>/dev/null || exit 5; sleep 0.2; done; exit 9'
ends $pid 5
EOF

it 'C54: as PID 1 it stops in time when its container is stopped' <<'EOF'
can_be_pid_1
for end in 0:3 0:1; do
    as_pid_1 "$CCRUN" --nproc-per-node 2 --no-python "$SUPPORT/heed" TERM=0@100
    wait_for '[ "$(grep -c ^up job.out)" -eq 2 ]'
    inside
    kill "$init"
    ends $pid 143
    same 2 "$(grep -c saved job.out)"
done
EOF

it 'C54: as PID 1 nothing outlives it, daemons included, and every other signal is passed on' <<'EOF'
can_be_pid_1
as_pid_1 "$CCRUN" --no-python sh -c 'setsid sh -c "trap \"\" TERM; exec sleep 50" & exec "$SUPPORT/heed" USR2=4'
wait_for 'grep -q ^up job.out'
inside
for s in USR1 WINCH; do
    kill -$s "$init"
    wait_for "grep -qx 'got SIG$s' job.out"
done
kill -USR2 "$init"
ends $pid 4
EOF
it 'C54: as PID 1 behind an entry script with a sidecar: the same, and the sidecar lives as long as the job' <<'EOF'
can_be_pid_1
cat >entry <<'END'
sleep 60 &
echo $! >side
exec "$CCRUN" --no-python sh -c 'trap "kill -0 $(cat side) && echo lives; exit 0" TERM; echo up; while :; do sleep 0.05; done'
END
as_pid_1 sh ./entry
wait_for 'grep -q ^up job.out'
inside
kill "$init"
ends $pid 143
has job.out lives
EOF

it 'C66: --finish-timeout ends a job in which a rank goes on and on after another was done' <<'EOF'
bg job "$CCRUN" --nproc-per-node 2 --max-restarts 3 --finish-timeout 0.3 --no-python \
    sh -c 'test "$RANK" = 1 || exec sleep 50'
ends $pid 124
has job.err 'workers still run 300 ms after the first was done (--finish-timeout)'
bg job "$CCRUN" --nproc-per-node 2 --finish-timeout 20 --no-python sh -c 'test "$RANK" = 1 || sleep 0.4'
ends $pid 0
EOF
done_testing
