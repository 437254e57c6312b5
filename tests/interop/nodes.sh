#!/bin/sh
# Real training, unmodified PyTorch over gloo, on several hosts: it goes on through whatever happens to workers, agents, links
# and hosts, and each step has the loss that one process alone computes.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 4
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'X'
steps() { if [ -s steps ]; then tail -n 1 steps | cut -d' ' -f1; else echo 0; fi; }
worlds() { # how many ranks there were, one after the other
    cut -d' ' -f3 steps 2>/dev/null | uniq | paste -sd' '
}
goes_on() { # [SECONDS]: some more steps are made
    goes_on_at=$(($(steps) + 5))
    wait_for "[ \"\$(steps)\" -ge $goes_on_at ]" "${1:-60}"
}
until_world() { # N: some steps are made by so many ranks
    wait_for "[ \"\$(tail -n 3 steps 2>/dev/null | cut -d' ' -f3 | paste -sd' ')\" = '$1 $1 $1' ]" 60
}
train() { # NODES [option...]
    lab heal all
    WORKER='"$PYTHON" "$HERE/elastic_train.py" "$PWD"'
    lab_nodes "$@"
}
finish() { # AGENT...: they end well, and the steps are right
    touch enough
    for finish_name in "$@"; do eval "ends \$$finish_name 0 60"; done
    nothing_left
    "$PYTHON" "$HERE/elastic_train.py" "$PWD" --check
}
X
limit 300

it 'two hosts, two ranks each: trains and ends' <<'X'
train 2 --nproc-per-node 2
host_agent a 1
host_agent b 2
until_world 4
finish a b
same 4 "$(worlds)"
X

it 'two hosts: a worker crashes, an agent is killed and comes back, the job ends well' <<'X'
train 1:2 --max-restarts 3 --rdzv-conf last_call_timeout=30
host_agent a 1 --node-rank 0
host_agent b 2 --node-rank 1
until_world 2
touch crash.1
wait_for 'grep -q " 1$" steps' 60
touch crash.0
wait_for 'grep -q " 2$" steps' 60
kill_agent b
until_world 1
host_agent b 2 --node-rank 1
until_world 2
finish a b
same '2 1 2' "$(worlds)"
same '0 1 2' "$(cut -d' ' -f4 steps | uniq | paste -sd' ')"
X

it 'three hosts: one is cut off, the others go on; it comes back' <<'X'
train 2:3 --max-restarts 3 --rdzv-conf last_call_timeout=30
host_agent a 1 --node-rank 0
host_agent b 2 --node-rank 1
host_agent c 3 --node-rank 2
until_world 3
lab cut 3
until_world 2
ends $c 75 20
lab heal 3
host_agent c 3 --node-rank 2
until_world 3
finish a b c
same '3 2 3' "$(worlds)"
same 0 "$(cut -d' ' -f4 steps | uniq)"
X

it 'four hosts: two form, two more come, one leaves' <<'X'
train 2:4 --max-restarts 3 --rdzv-conf last_call_timeout=1
host_agent a 1
host_agent b 2
until_world 2
host_agent c 3
host_agent d 4
until_world 4
kill $d
ends $d 143 60
until_world 3
finish a b c
same 4 "$(worlds | tr ' ' '\n' | sort -n | tail -n 1)"
X

it 'the host of the job loses its power: the others end, and a new job goes on from the checkpoint' <<'X'
train 2:3 --rdzv-conf last_call_timeout=30
host_agent a 1 --node-rank 0
host_agent b 2 --node-rank 1
host_agent c 3 --node-rank 2
until_world 3
lab kill 1
ends $b 75 20
ends $c 75 20
wait_for '! alive $a'
power_on 1
host_agent a 1 --node-rank 0
host_agent b 2 --node-rank 1
host_agent c 3 --node-rank 2
goes_on
finish a b c
same 3 "$(worlds)"
X
done_testing
