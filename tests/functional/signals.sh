#!/bin/sh
# What each signal to ccrun does: stop, pass on, suspend, or nothing.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
job() { bg job "$CCRUN" "$@"; }
up() { wait_for "[ \$(grep -c ^up job.out) -eq $1 ]"; } # N workers are there
got() { wait_for "[ \$(grep -cx 'got SIG$1' job.out) -eq $2 ]"; } # NAME N: so many workers have had it
pids() { sed -n 's/^up \([0-9]*\) .*/\1/p' job.out; }
state() { sed 's/.*) //; s/ .*//' "/proc/$1/stat"; }
EOF

it 'TERM, INT, HUP and QUIT reach each worker once and are the exit status, even if all end with 0 (W6, M14)' <<'EOF'
for s in TERM:143 INT:130 HUP:129 QUIT:131; do
    job --nproc-per-node 2 --no-python "$SUPPORT/heed" TERM=0 INT=0 HUP=0 QUIT=0
    up 2
    kill "-${s%:*}" $pid
    ends $pid "${s#*:}"
    same 2 "$(grep -cx "got SIG${s%:*}" job.out)"
    same 2 "$(grep -c '^got' job.out)"
    has job.err "SIG${s%:*}: stopping 2 workers"
    same 1 "$(wc -l <job.err)"
done
EOF

it 'a stop is a stop however the workers end, and nothing is restarted (M6)' <<'EOF'
for end in 3 default; do
    job --nproc-per-node 2 --max-restarts 3 --no-python "$SUPPORT/heed" TERM=$end
    up 2
    kill $pid
    ends $pid 143
    same 2 "$(grep -c ^up job.out)"
done
EOF

it 'a signal of --signals-to-handle stops the job, and the workers get that one' <<'EOF'
job --signals-to-handle SIGUSR1 --no-python "$SUPPORT/heed" USR1=0
up 1
kill -USR1 $pid
ends $pid 138
got USR1 1
has job.err 'SIGUSR1: stopping 1 worker (30 s until SIGKILL)'
EOF

it 'USR1, USR2, WINCH, CONT and the real-time signals reach each worker once, and the job goes on (C46)' <<'EOF'
job --nproc-per-node 2 --no-python "$SUPPORT/heed" TERM=0
up 2
for s in USR1 USR2 WINCH CONT 34 37 64; do
    kill "-$s" $pid
    got "$(case $s in 34) echo RTMIN ;; 37) echo RTMIN+3 ;; 64) echo RTMIN+30 ;; *) echo "$s" ;; esac)" 2
done
kill $pid
ends $pid 143
same 16 "$(grep -c '^got' job.out)"
EOF

it 'ALRM, PROF, XCPU, SYS and the like are nobody else'"'"'s, and end nothing' <<'EOF'
job --no-python "$SUPPORT/heed" TERM=0
up 1
for s in ALRM VTALRM PROF XCPU IO SYS USR1; do kill -$s $pid; done
got USR1 1
same 1 "$(grep -c '^got' job.out)"
kill $pid
ends $pid 143
EOF

it 'a signal reaches what a shell wrapper started' <<'EOF'
job --no-python sh -c 'trap : USR1 TERM; "$SUPPORT/heed" TERM=0; exit 5'
up 1
kill -USR1 $pid
got USR1 1
kill $pid
ends $pid 143
got TERM 1
EOF

it 'a second INT kills at once (C49)' <<'EOF'
job --nproc-per-node 2 --no-python "$SUPPORT/heed"
up 2
from=$(now_ms)
kill -INT $pid
got INT 2
again=$(($(now_ms) + 100))
wait_for '[ "$(now_ms)" -ge $again ]'
kill -INT $pid
ends $pid 130
in_time "$from" 5000
has job.err 'SIGINT: stopping 2 workers' 'second SIGINT: killing 2 workers'
same 2 "$(grep -c '^got' job.out)"
EOF

it 'a second TERM is passed on but kills nobody' <<'EOF'
job --no-python "$SUPPORT/heed" HUP=0
up 1
kill $pid
got TERM 1
again=$(($(now_ms) + 100))
wait_for '[ "$(now_ms)" -ge $again ]'
kill $pid
got TERM 2
kill -HUP $pid
ends $pid 143
EOF

it 'what ignores the signal is killed after --shutdown-timeout (W7, A39)' <<'EOF'
job --nproc-per-node 2 --shutdown-timeout 1 --no-python "$SUPPORT/heed"
up 2
from=$(now_ms)
kill $pid
ends $pid 143
in_time "$from" 6000
[ $(($(now_ms) - from)) -ge 1000 ] || fail 'it did not wait'
got TERM 2
has job.err '2 of 2 workers have not stopped after 1 s: SIGKILL'
EOF

it 'with --shutdown-timeout 0 they are killed at once' <<'EOF'
job --shutdown-timeout 0 --no-python "$SUPPORT/heed"
up 1
kill $pid
ends $pid 143 5
EOF

it 'a stopped worker hears of the end, whichever signal that is' <<'EOF'
for s in TERM:143 USR1:138; do
    job --nproc-per-node 2 --signals-to-handle SIGUSR1 --report r.json --no-python "$SUPPORT/heed" TERM=0 USR1=3
    up 2
    for w in $(pids); do kill -STOP "$w"; done
    for w in $(pids); do wait_for "[ \$(state $w) = T ]"; done
    kill "-${s%:*}" $pid
    ends $pid "${s#*:}" 5
done
same ccrun "$("$SUPPORT/jsonget" failures.0.ended_by r.json)"
EOF

it 'TSTP suspends the workers and then ccrun; CONT wakes all' <<'EOF'
job --nproc-per-node 2 --no-python "$SUPPORT/heed" TSTP=default TERM=0
up 2
kill -TSTP $pid
for p in $(pids) $pid; do wait_for "[ \$(state $p) = T ]"; done
kill -CONT $pid
got CONT 2
for p in $(pids) $pid; do wait_for "[ \$(state $p) != T ]"; done
kill $pid
ends $pid 143
got TERM 2
EOF

it 'the time of a suspension does not count for --shutdown-timeout' <<'EOF'
job --shutdown-timeout 4 --no-python sh -c '
    trap "for i in 0 1 2 3 4 5 6 7 8 9; do sleep 0.1; done; echo saved; exit 0" TERM
    echo up; while :; do sleep 0.1; done'
up 1
kill $pid
wait_for 'grep -q stopping job.err'
kill -TSTP $pid
wait_for "[ \$(state $pid) = T ]"
until=$(($(now_ms) + 4300))
wait_for '[ "$(now_ms)" -ge $until ]'
kill -CONT $pid
ends $pid 143
has job.out saved
lacks job.err 'have not stopped'
EOF

it 'TERM to every process of the job at once is a stop, not a failure, whoever has it first' <<'EOF'
for is_first in 0 1; do
    job --nproc-per-node 2 --max-restarts 1 --no-python "$SUPPORT/heed" TERM=default
    up 2
    set -- $(pids)
    # the second one named may be gone before its signal comes
    if [ $is_first = 1 ]; then kill $pid "$@" || :; else kill "$@" $pid || :; fi
    ends $pid 143
    lacks job.err rank restart
    same 2 "$(grep -c ^up job.out)"
done
EOF

it 'TERM to one worker alone is a failure' <<'EOF'
job --nproc-per-node 2 --no-python "$SUPPORT/heed" TERM=default
up 2
kill "$(pids | head -n 1)"
ends $pid 143
has job.err 'rank 0' 'was killed by SIGTERM'
EOF

it 'an ignored signal stays ignored, as nohup wants, and the workers do not inherit that (C48)' <<'EOF'
bg job env --ignore-signal=HUP,USR1 "$CCRUN" --no-python "$SUPPORT/heed" TERM=0
up 1
kill -HUP $pid
kill -USR1 $pid
kill -USR2 $pid
got USR2 1
same 1 "$(grep -c '^got' job.out)"
kill $pid
ends $pid 143
EOF
done_testing
