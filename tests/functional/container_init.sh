#!/bin/sh
# What the tests of tini and dumb-init expect of a process 1, expected of ccrun.  container.sh has real containers.
. "$(dirname "$0")/lib.sh"
unshare --pid --fork --mount-proc true 2>/dev/null || skip_all 'no PID namespace may be made here'

words <<'EOF'
pid_1() { unshare --pid --fork --mount-proc --kill-child "$@"; }
as_pid_1() { bg job unshare --pid --fork --mount-proc --kill-child "$@"; }
inside() { wait_for 'init=$(pgrep -P '"$pid"')'; } # sets $init: PID 1 as it is seen from outside
up() { wait_for 'grep -q ^up job.out'; inside; }
number() { env bash -c "kill -l $1"; }
EOF

it 'tini: the exit code is that of the child' <<'EOF'
codes='0 1 2 32 64 127 128 254 255'
[ "$CCRUN_REPEAT" -lt 50 ] || codes=$(seq 0 255)
for code in $codes; do expect_status "$code" pid_1 "$CCRUN" --no-python sh -c "exit $code"; done
EOF

it 'dumb-init: 128 and the signal when it dies of one' <<'EOF'
for s in TERM HUP QUIT KILL USR1; do
    expect_status $((128 + $(number $s))) pid_1 "$CCRUN" --no-python sh -c "kill -$s \$\$"
done
EOF

it 'tini: reaps a hundred orphans that end one after the other, and only those' <<'EOF'
cat >stage <<'END'
sh -c 'for i in $(seq 100); do sleep 0.$((i % 9 + 1)) & done'
for i in $(seq 200); do
    set -- /proc/[0-9]*
    [ $# -gt 2 ] || { echo alone; exit 0; } # process 1 and this one
    sleep 0.05
done
echo "left: $*"; exit 1
END
expect_status 0 pid_1 "$CCRUN" --no-python sh stage
has out alone
EOF

it 'tini: TERM, USR1 and USR2 end a child that does not want them, with their codes' <<'EOF'
for s in TERM USR1 USR2; do
    as_pid_1 "$CCRUN" --no-python sh -c 'echo up; exec sleep 50'
    up
    wait_for '[ "$(cat "/proc/$(pgrep -P "$init")/comm")" = sleep ]'
    kill -$s "$init"
    ends $pid $((128 + $(number $s)))
done
EOF

it 'tini -g: a signal reaches the grandchild, too, when the child ignores it' <<'EOF'
as_pid_1 "$CCRUN" --no-python sh -c 'trap "" USR1; env --default-signal=USR1 sleep 50 & echo up; wait; exit 9'
up
wait_for 'pgrep -P "$(pgrep -P "$init")" -x sleep'
kill -USR1 "$init"
ends $pid 9
EOF

it 'tini: signals are neither ignored nor blocked in the child, whatever they were before' <<'EOF'
pid_1 env --ignore-signal=PIPE,USR1,TTIN,TTOU --block-signal=TERM,USR2 "$CCRUN" --no-python cat /proc/self/status >out
same '0000000000000000 0000000000000000' "$(sed -n 's/^Sig\(Blk\|Ign\):[[:space:]]*//p' out | paste -sd' ')"
EOF

it 'dumb-init: a whole pipeline in the background ends with the job' <<'EOF'
as_pid_1 "$CCRUN" --no-python sh -c 'yes "oh, hi" | tail & yes error | tail >&2 & echo up; wait'
up
child=$(pgrep -P "$init")
wait_for '[ "$(pgrep -c -x "yes|tail" -g "$child")" -eq 4 ]'
kill "$init"
ends $pid 143
EOF

it 'dumb-init: what the child leaves running gets TERM before the end' <<'EOF'
expect_status 0 pid_1 "$CCRUN" --no-python sh -c 'setsid sh -c "trap \"echo told; exit\" TERM; echo >ready; while :; do sleep 0.05; done" &
    until [ -e ready ]; do sleep 0.02; done'
has out told
EOF

it 'dumb-init: a program that is not there has a name and a code' <<'EOF'
expect_status 127 pid_1 "$CCRUN" --no-python /doesnotexist
has err /doesnotexist
EOF

it 'dumb-init: the child starts in our directory' <<'EOF'
mkdir here
cd here
pid_1 "$CCRUN" --no-python sh -c 'readlink /proc/$$/cwd' >../out
has ../out "$T/here"
EOF

it 'dumb-init: passes on every signal that is not the business of the kernel, and none that nobody sent' <<'EOF'
as_pid_1 "$CCRUN" --no-python "$SUPPORT/heed" QUIT=0
up
for s in USR1 USR2 WINCH CONT; do
    kill -$s "$init"
    wait_for "grep -qx 'got SIG$s' job.out"
done
! grep -E 'got SIG(CHLD|PIPE|TTIN|TTOU|HUP|INT|TERM)' job.out || fail 'a signal that nobody sent'
kill -QUIT "$init"
ends $pid 131
has job.out 'got SIGQUIT'
EOF

it 'dumb-init: suspends its child, and it goes on' <<'EOF'
as_pid_1 "$CCRUN" --no-python sh -c 'trap "echo told" CONT; echo up; while :; do sleep 0.05; done'
up
child=$(pgrep -P "$init")
stopped() { [ "$(sed 's/.*) //; s/ .*//' "/proc/$child/stat")" = T ]; }
kill -TSTP "$init"
wait_for stopped
kill -CONT "$init"
wait_for '! stopped'
wait_for 'grep -q told job.out'
kill "$init"
ends $pid 143
EOF

it 'dumb-init: with a terminal the child has it, with job control, and no stray HUP or CONT comes' <<'EOF'
cat >session <<'END'
trap 'echo stray' HUP CONT
case $- in *m*) echo "job control" ;; esac
tty >/dev/null && echo terminal
[ "$(ps -o tpgid= -p $$ | tr -d ' ')" = "$(ps -o pgid= -p $$ | tr -d ' ')" ] && echo foreground
read -r line
exit "$line"
END
expect_status 4 "$SUPPORT/onpty" wait=foreground 'send=4\n' -- unshare --pid --fork --mount-proc --kill-child setsid -c \
    "$CCRUN" --no-python bash -m session
has out 'job control' terminal
lacks out stray
EOF
done_testing
