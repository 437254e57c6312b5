#!/bin/sh
# Chaos: while several agents compute something, one thing after the other is killed, stopped or suspended.  The result is right,
# and nothing is left.  CCRUN_CHAOS_SEED plays a run's choices again (its times differ).
. "$(dirname "$0")/lib.sh"
words <"$LIB/nodes_case.sh"
words <<'X'
# choose N: 0 to N - 1, in $choice
choose() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    choice=$((seed / 65536 % $1))
}
later() { # MS
    later_at=$(($(now_ms) + $1))
    wait_for "[ \$(now_ms) -ge $later_at ]"
}
start() { agent "$1" --nproc-per-node "$(case $1 in b) echo 2 ;; *) echo 1 ;; esac)"; }
a_worker() { # of agent $1: in $victim, or empty
    victim=$(pgrep -x adder -P "$(pgrep -d, -P "$1" 2>/dev/null || echo 0)" | head -n 1)
}
step_of() { sed 's/ .*//' checkpoint 2>/dev/null || echo 0; }
harm() { # one thing to one of b, c, d (a hosts the job) or to a worker of any
    choose 4
    name=$(echo a b c d | cut -d' ' -f$((choice + 1)))
    eval "victim_agent=\$$name"
    choose 6
    echo "$(now_ms) $name $choice after step $(step_of)" >>harms
    case $choice in
    0 | 1 | 2)
        a_worker "$victim_agent"
        [ -z "$victim" ] || kill "-$(echo 9 11 15 | cut -d' ' -f$((choice + 1)))" "$victim" 2>/dev/null || true
        ;;
    3)
        [ $name != a ] || return 0
        kill -9 "$victim_agent"
        wait_for "! alive $victim_agent"
        start $name
        ;;
    4)
        [ $name != a ] || return 0
        kill "$victim_agent"
        wait_for "! alive $victim_agent"
        start $name
        ;;
    5)
        stopped=$(pgrep -P "$victim_agent" || true)
        [ -z "$stopped" ] || kill -STOP $stopped
        choose 800
        later "$choice"
        [ -z "$stopped" ] || kill -CONT $stopped
        ;;
    esac
}
X
if [ "${CCRUN_REPEAT:-5}" -ge 50 ]; then time=600; else time=20; fi
export CHAOS_TIME=$time
limit $((time + 120))

it 'something is harmed every second: the sum is right, and nothing is left' <<'X'
seed=${CCRUN_CHAOS_SEED:-$(date +%N | sed 's/^0*//')}
echo "CCRUN_CHAOS_SEED=$seed"
nodes 1:4 --rdzv-conf last_call_timeout=5 --max-restarts 100000 --max-rejoins 100000 --progress-file "$PWD/checkpoint" \
    --shutdown-timeout 5
WORKER='"$SUPPORT/adder" "$PWD" 10'
start a
hosts a
for x in b c d; do start $x; done
wait_for '[ "$(step_of)" -gt 10 ]'
from=$(now_ms)
while [ $(($(now_ms) - from)) -lt $((CHAOS_TIME * 1000)) ]; do
    before=$(step_of)
    harm
    alive $a || { tail -n 20 a.err harms; fail 'the host of the job has ended'; }
    choose 1000
    later $((500 + choice))
    wait_for "[ \"\$(step_of)\" -gt $before ]" 20 || { tail -n 5 harms; fail 'no progress'; }
done
for x in b c d; do eval "alive \$$x" || start $x; done
before=$(step_of)
wait_for "[ \"\$(step_of)\" -gt $before ]" 20
touch enough
ends $a 0 30
for x in b c d; do
    eval "wait_for \"! alive \$$x\" 30"
done
[ -s answer ]
cut -d' ' -f1 answer
wc -l <harms
X
done_testing
