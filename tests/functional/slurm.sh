# shellcheck shell=sh disable=SC2016
# Jobs of a real SLURM, on hosts of their own.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
slurmlab_needed 3
limit 80

words <<'EOF'
# batch OPTIONS... <<SCRIPT: submits; $job, and the script's output in $job.out
batch() {
    { echo '#!/bin/sh'; cat; } >script.sh
    job=$(slurm sbatch --parsable -o %j.out --open-mode=append "$@" script.sh)
}
job_state() { slurm squeue -h -t all -j "$job" -o %T; }
ended() { # ended STATE
    wait_for 'case $(job_state) in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL) ;; *) false ;; esac' "${2:-20}"
    same "$1" "$(job_state)" || { cat "$job.out"; exit 1; }
}
# On one line each, and the same wherever it runs: a worker that says who it is.
who='echo $RANK of $WORLD_SIZE: $(hostname) $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE'
EOF

it 'starts its agents itself from a batch script' <<'E'
batch -N3 <<S
WEIRD='a
 b'; export WEIRD
"$CCRUN" --no-python sh -c '$who; printf "%s" "\$WEIRD" >weird.\$RANK; pwd >pwd.\$RANK'
echo status \$?
S
ended COMPLETED
grep ' of 3' $job.out | sort >lines
same '0 of 3: node1 0 of 1, node 0 of 3
1 of 3: node2 0 of 1, node 1 of 3
2 of 3: node3 0 of 1, node 2 of 3' "$(cat lines)"
has $job.out 'status 0' 'hosts the job, at 10.78.0.1:'
for rank in 0 1 2; do
    same "$(printf 'a\n b')" "$(cat weird.$rank)"
    same "$PWD" "$(cat pwd.$rank)"
done
nothing_left
E

it 'takes the tasks of a node for its workers, and gives them all of its CPUs' <<'E'
batch -N2 --ntasks-per-node=2 --cpus-per-task=2 <<S
"$CCRUN" --no-python sh -c '$who; echo cpus \$SLURM_CPUS_PER_TASK \$(grep Cpus_allowed_list /proc/self/status)'
S
ended COMPLETED
same 4 "$(grep -c ' of 4: node[12] [01] of 2' $job.out)"
same 4 "$(grep -cx "cpus 2 $(on 1 grep Cpus_allowed_list /proc/self/status | tr "\t" " ")" $job.out)"
E

it 'has the uneven tasks of the batch script for workers, and all parts of a heterogeneous job' <<'E'
batch -N3 -n5 <<S
echo "\$SLURM_TASKS_PER_NODE"
"$CCRUN" --no-python sh -c '$who'
! srun "$CCRUN" --no-python touch started || fail 'an uneven step was accepted'
srun "$CCRUN" --nnodes 5 --no-python sh -c '$who'
S
ended COMPLETED
matches $job.out '^3,1\(x2\)|2\(x2\),1$'
same 5 "$(grep -c ' of 5: node[123] [012] of [123], node [012] of 3$' $job.out)"
same 5 "$(grep -c ' of 5: node[123] 0 of 1, node [01234] of 5$' $job.out)"
[ ! -e started ]
batch -N1 : -N2 -n3 <<S
"$CCRUN" --no-python sh -c '$who'
srun --het-group=0 -n1 "$CCRUN" --no-python sh -c '$who' : --het-group=1 -n2 "$CCRUN" --no-python sh -c '$who'
echo status \$?
S
wait_for 'grep -qx "status 0" $job.out' 20 # of such a job the state is one for each part
grep -E '^[0-3] of 4' $job.out | sort >lines
same '0 of 4: node1 0 of 1, node 0 of 3
1 of 4: node2 0 of 2, node 1 of 3
2 of 4: node2 1 of 2, node 1 of 3
3 of 4: node3 0 of 1, node 2 of 3' "$(cat lines)"
same 3 "$(grep -c '^[0-2] of 3: node[123] 0 of 1, node [012] of 3$' $job.out)"
nothing_left
E

it 'goes to sleep with the workers of all nodes on Ctrl-Z, and wakes with them' <<'E'
batch -N2 <<S
exec "$CCRUN" --rdzv-conf keep_alive_interval=1,keep_alive_max_attempt=1 --no-python \
    sh -c 'echo up; trap "exit 0" USR1; while :; do sleep 0.05; done'
S
wait_for 'test "$(grep -cx up $job.out)" = 2'
head=$(on 1 pgrep -of 'crun --rdzv-conf')
sleeping() { for node in 1 2; do on $node ps -eo stat,args | grep -q '^T.*sh -c echo up'; done; }
on 1 kill -TSTP "$head"
wait_for sleeping
from=$(now_ms)
wait_for '[ "$(now_ms)" -gt $((from + 1800)) ]' # longer than a node may be silent
on 1 kill -CONT "$head"
on 1 kill -USR1 "$head"
ended COMPLETED
lacks $job.out lost
same 2 "$(grep -cx up $job.out)"
E

it 'uses no more nodes than it is told to' <<'E'
batch -N3 <<S
"$CCRUN" --nnodes 2 --no-python sh -c '$who'
"$CCRUN" --standalone --nproc 2 --no-python sh -c '$who'
"$CCRUN" --nnodes 1 --no-python sh -c '$who'
S
ended COMPLETED
same 2 "$(grep -c 'of 2: node[12] 0 of 1, node [01] of 2' $job.out)"
same 2 "$(grep -c 'of 2: node1 [01] of 2, node 0 of 1' $job.out)"
same 1 "$(grep -c '0 of 1: node1 0 of 1, node 0 of 1' $job.out)"
E

it 'ends with the status of the worker that failed first' <<'E'
batch -N3 <<S
"$CCRUN" --no-python sh -c 'test \$RANK != 1 || exit 37; sleep 1000'
S
started=$(now_ms)
ended FAILED
in_time "$started" 10000
same 37:0 "$(slurm scontrol show job "$job" | sed -n 's/.* ExitCode=//p')"
has $job.out 'on node2 exited with code 37'
nothing_left
E

it 'stops the workers of all nodes when the job is cancelled' <<'E'
batch -N3 <<S
exec "$CCRUN" --no-python sh -c 'trap "echo term \$RANK; exit 0" TERM; echo up; while :; do sleep 0.05; done'
S
wait_for 'test "$(grep -cx up $job.out)" = 3'
slurm scancel "$job"
ended CANCELLED
same 3 "$(grep -c '^term' $job.out)"
nothing_left
E

it 'passes a signal on to the workers, from the head as from the step' <<'E'
batch -N2 <<S
exec "$CCRUN" --no-python sh -c 'trap "echo usr1 \$RANK" USR1; trap "exit 0" USR2; echo up; while :; do sleep 0.05; done'
S
wait_for 'test "$(grep -cx up $job.out)" = 2'
slurm scancel --batch --signal=USR1 "$job"
wait_for 'test "$(grep "^usr1" $job.out | sort -u | wc -l)" = 2'
slurm scancel --signal=USR2 "$job"
ended COMPLETED
nothing_left
E

it 'gets the notice before the end of its time' <<'E'
[ "$CCRUN_REPEAT" -ge 50 ] || skip 'takes up to a minute: in a full run only'
batch -N2 -t 1 --signal=USR1@59 <<S
"$CCRUN" --no-python sh -c 'trap "echo usr1 \$RANK; exit 0" USR1; echo up; while :; do sleep 0.05; done'
S
ended COMPLETED 70
same 2 "$(grep '^usr1' $job.out | sort -u | wc -l)"
E

it 'leaves nothing on any node when the head is killed' <<'E'
batch -N2 <<S
"$CCRUN" --no-python sh -c 'setsid sleep 1000 & echo up; exec sleep 1000' &
wait
echo killed \$?
exec sleep 1000
S
wait_for 'test "$(grep -cx up $job.out)" = 2'
on 1 kill -KILL "$(on 1 pgrep -f 'crun --no-python sh -c' | head -n 1)"
wait_for 'grep -q killed $job.out'
wait_for '! lab left 2 | grep -q "sleep 1000"'
wait_for '! lab left 1 | grep -qE "ccrun|[s]run"'
slurm scancel "$job"
ended CANCELLED
nothing_left
E

it 'is one of the agents under srun' <<'E'
batch -N3 <<S
srun --ntasks-per-node=1 "$CCRUN" --no-python sh -c '$who'
S
ended COMPLETED
same '0 node1,1 node2,2 node3' "$(sed -n 's/^\(.\) of 3: \(node.\) 0 of 1.*/\1 \2/p' $job.out | sort | paste -sd,)"
nothing_left
E

it 'does not start more agents than nodes (C19)' <<'E'
batch -N2 --ntasks-per-node=2 <<S
srun "$CCRUN" --no-python sh -c '$who'
S
ended FAILED
has $job.out '--ntasks-per-node=1'
lacks $job.out ' of 4' ' of 8'
nothing_left
E

it 'starts from the shell of salloc' <<'E'
slurm salloc -N2 "$CCRUN" --no-python sh -c "$who" >out 2>err
same 2 "$(grep -c ' of 2: node[12] ' out)"
E

it 'is requeued, and starts again' <<'E'
batch -N2 --requeue <<S
exec "$CCRUN" --no-python sh -c 'echo up "\${SLURM_RESTART_COUNT:-0}"; test "\${SLURM_RESTART_COUNT:-0}" = 1 || sleep 1000'
S
wait_for 'test "$(grep -cx "up 0" $job.out)" = 2'
slurm scontrol requeue "$job"
wait_for 'test "$(grep -cx "up 1" $job.out)" = 2' 40
ended COMPLETED
nothing_left
E

it 'ends when a node fails, and says which' <<'E'
batch -N3 --no-kill <<S
"$CCRUN" --shutdown-timeout 1 --no-python sh -c 'echo up; sleep 1000'
echo status \$?
S
wait_for 'test "$(grep -cx up $job.out)" = 3'
lab kill 3
wait_for 'grep -q "^status" $job.out' 40
has $job.out 'status 75' 'node3'
nothing_left
E

done_testing
