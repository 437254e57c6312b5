#!/bin/sh
# run: alone
# Chaos with real training on four hosts: every five seconds something is killed, cut off or loses its power.  No step is lost or done twice,
# and nothing is left.  20 s, or ten minutes in a full run; CCRUN_CHAOS_SEED plays a run's choices again.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 4
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'X'
steps() { if [ -s steps ]; then tail -n 1 steps | cut -d' ' -f1; else echo 0; fi; }
choose() { # N: 0 to N - 1, in $choice
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    choice=$((seed / 65536 % $1))
}
agent_of() { eval "echo \$n$1"; } # the agent of host I
start() { host_agent "n$1" "$1"; }
again() { # once it has ended, host I takes part again
    wait_for "! alive $(agent_of "$1")" 30
    start "$1"
}
harm() { # one thing to host 2, 3 or 4 (1 hosts the job), or to a worker of any
    choose 4
    host=$((choice + 1))
    choose 6
    [ $host != 1 ] || choice=$((choice % 2))
    echo "$(now_ms) host $host: $choice, after step $(steps)" >>harms
    case $choice in
    0) on $host pkill -9 -f "^$PYTHON " || true ;;
    1) on $host pkill -ABRT -f "^$PYTHON " || true ;;
    2)
        kill_agent n$host
        start $host
        ;;
    3)
        kill "$(agent_of $host)"
        again $host
        ;;
    4)
        lab cut $host
        again $host
        lab heal $host
        ;;
    5)
        lab kill $host
        wait_for "! alive $(agent_of $host)"
        power_on $host
        start $host
        ;;
    esac
}
X
if [ "${CCRUN_REPEAT:-5}" -ge 50 ]; then time=600; else time=20; fi
export CHAOS_TIME=$time
limit $((time + 300))

it 'training goes on whatever is harmed: every step is there once, with the loss that one process computes' <<'X'
seed=${CCRUN_CHAOS_SEED:-$(date +%N | sed 's/^0*//')}
echo "CCRUN_CHAOS_SEED=$seed"
WORKER='"$PYTHON" "$HERE/elastic_train.py" "$PWD"'
lab_nodes 1:4 --rdzv-conf last_call_timeout=30 --max-restarts 100000 --max-rejoins 100000 --progress-file "$PWD/checkpoint" \
    --shutdown-timeout 5
for i in 1 2 3 4; do start $i; done
wait_for '[ "$(steps)" -ge 3 ]' 60
from=$(now_ms)
while [ $(($(now_ms) - from)) -lt $((CHAOS_TIME * 1000)) ]; do
    next=$(($(now_ms) + 5000))
    before=$(steps)
    harm
    alive $n1 || { tail -n 20 n1.err harms; fail 'the host of the job has ended'; }
    wait_for "[ \"\$(steps)\" -gt $before ]" 60 || { tail -n 5 harms; fail 'no progress'; }
    wait_for "[ \$(now_ms) -ge $next ]"
done
before=$(steps)
wait_for "[ \"\$(steps)\" -gt $before ]" 60
touch enough
ends $n1 0 60
for i in 2 3 4; do wait_for "! alive $(agent_of $i)" 60; done
nothing_left
"$PYTHON" "$HERE/elastic_train.py" "$PWD" --check
X
done_testing
