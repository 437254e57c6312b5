#!/bin/sh
# What a scheduler says about the nodes, made up here: who is which node, where they meet, and what is refused.
. "$(dirname "$0")/lib.sh"

# step NODE LIST N [NAME=VALUE...] command...: in the environment of task NODE of a step of Slurm with one task on each of N nodes
cat >"$SHARED/step" <<'EOW'
#!/bin/sh
node=$1 list=$2 n=$3; shift 3
exec env SLURM_JOB_ID="$job" SLURM_JOB_NODELIST='x[1-9]' SLURM_NNODES=9 SLURM_STEP_ID=0 SLURM_STEP_NODELIST="$list" \
    SLURM_STEP_NUM_NODES="$n" SLURM_STEP_NUM_TASKS="$n" SLURM_STEP_TASKS_PER_NODE="1(x$n)" \
    SLURM_NODEID="$node" SLURM_PROCID="$node" SLURM_LOCALID=0 "$@"
EOW
chmod +x "$SHARED/step"

# batch N [NAME=VALUE...] command...: in the batch script of a job with N nodes
cat >"$SHARED/batch" <<'EOW'
#!/bin/sh
n=$1; shift
rm -f srun.log
exec env SLURM_JOB_ID="$job" SLURM_JOB_NODELIST="127.0.0.[1-$n]" SLURM_JOB_NUM_NODES="$n" "$@"
EOW
chmod +x "$SHARED/batch"

# A srun that starts its tasks here.  Each gets all of its standard input.
mkdir "$SHARED/bin"
cat >"$SHARED/bin/srun" <<'EOW'
#!/bin/bash
[ "$1" != --help ] || { echo '--mpi --overlap --cpu-bind'; exit; }
echo "srun $*" >>srun.log
for word; do case $word in --nodes=*) n=${word#*=} ;; esac; done
while [ "$1" != sh ]; do shift; done
exec 3<&0
for ((i = 0; i < n; i++)); do mkfifo "$T/in.$$.$i"; done
for ((i = 0; i < n; i++)); do
    SLURM_NODEID=$i SLURM_STEP_ID=0 "$@" <"$T/in.$$.$i" 3<&- &
done
tee "$T"/in.$$.* <&3 >/dev/null &
status=0
for job in $(jobs -p | head -n "$n"); do wait "$job" || status=$?; done
exit $status
EOW
chmod +x "$SHARED/bin/srun"
words <<'EOW'
step=$SHARED/step
export job="$("$SUPPORT/freeport")" # any number: the port follows from it
export PATH="$SHARED/bin:$PATH"
batch=$SHARED/batch
say='echo "$RANK/$WORLD_SIZE node $GROUP_RANK/$GROUP_WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE job $TORCHELASTIC_RUN_ID"'
EOW

it 'joins the nodes of a Slurm step without an option' <<'EOF'
bg a "$step" 0 '127.0.0.[1-2]' 2 "$CCRUN" --no-python sh -c "$say"; a=$pid
bg b "$step" 1 '127.0.0.[1-2]' 2 "$CCRUN" --no-python sh -c "$say"; b=$pid
ends "$a" 0; ends "$b" 0
same "0/2 node 0/2 local 0/1 job $job.0" "$(cat a.out)"
same "1/2 node 1/2 local 0/1 job $job.0" "$(cat b.out)"
has a.err "ccrun: Slurm $job.0: 2 nodes, this is node 0, they meet at 127.0.0.1:"
lacks b.err 'ccrun: Slurm'
EOF

it 'gives every node as many workers as it says, with ranks in the order of nodes (C16)' <<'EOF'
at=127.0.0.1:$("$SUPPORT/freeport")
for i in 2 0 1; do
    nproc=$(echo '1 3 2' | cut -d ' ' -f $((i + 1)))
    bg n$i "$step" $i '127.0.0.[1-3]' 3 "$CCRUN" --rdzv-endpoint "$at" --nproc "$nproc" --no-python sh -c "$say"
    eval "p$i=$pid"
done
ends "$p0" 0; ends "$p1" 0; ends "$p2" 0
cat n?.out | sort >all
cat >want <<X
0/6 node 0/3 local 0/1 job $job.0
1/6 node 1/3 local 0/3 job $job.0
2/6 node 1/3 local 1/3 job $job.0
3/6 node 1/3 local 2/3 job $job.0
4/6 node 2/3 local 0/2 job $job.0
5/6 node 2/3 local 1/2 job $job.0
X
cmp want all || { cat all; fail 'other ranks'; }
EOF

it 'refuses to be started more than once on each node of a step (C19)' <<'EOF'
for task in 0 1 2 3; do
    expect_status 2 "$step" $((task / 2)) '127.0.0.[1-2]' 2 SLURM_STEP_TASKS_PER_NODE='2(x2)' SLURM_STEP_NUM_TASKS=4 \
        SLURM_PROCID=$task SLURM_LOCALID=$((task % 2)) "$CCRUN" --nproc 2 --no-python touch started
    has err 'ccrun: error: 2 of us were started on this node (SLURM_STEP_TASKS_PER_NODE)' '--ntasks-per-node=1' '--nnodes 4'
    [ ! -e started ]
done
EOF

it 'makes each task of a step a node when that was asked for (C19)' <<'EOF'
for task in 0 1 2 3; do
    bg t$task "$step" $((task / 2)) '127.0.0.[1-2]' 2 SLURM_STEP_TASKS_PER_NODE='2(x2)' SLURM_STEP_NUM_TASKS=4 \
        SLURM_PROCID=$task "$CCRUN" --nnodes 4 --no-python sh -c "$say"
    eval "p$task=$pid"
done
ends "$p0" 0; ends "$p1" 0; ends "$p2" 0; ends "$p3" 0
for task in 0 1 2 3; do same "$task/4 node $task/4 local 0/1 job $job.0" "$(cat t$task.out)"; done
EOF

it 'refuses uneven tasks of a step on every node, also where one is alone, and makes each a node (C19)' <<'EOF'
uneven() { # TASK NODE
    step_task=$1 step_node=$2; shift 2
    "$step" "$step_node" '127.0.0.[1-2]' 2 SLURM_STEP_TASKS_PER_NODE='2,1' SLURM_STEP_NUM_TASKS=3 SLURM_PROCID="$step_task" "$@"
}
expect_status 2 uneven 0 0 "$CCRUN" --no-python touch started
has err 'ccrun: error: 2 of us were started on this node (SLURM_STEP_TASKS_PER_NODE)' '--nnodes 3'
expect_status 2 uneven 2 1 "$CCRUN" --no-python touch started
has err 'ccrun: error: 2 of us were started on another node (SLURM_STEP_TASKS_PER_NODE)' '--nnodes 3'
[ ! -e started ]
for task in 0 1 2; do
    bg t$task "$step" $((task / 2)) '127.0.0.[1-2]' 2 SLURM_STEP_TASKS_PER_NODE='2,1' SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=$task \
        "$CCRUN" --nnodes 3 --no-python sh -c "$say"
    eval "p$task=$pid"
done
ends "$p0" 0; ends "$p1" 0; ends "$p2" 0
for task in 0 1 2; do same "$task/3 node $task/3 local 0/1 job $job.0" "$(cat t$task.out)"; done
EOF

it 'gives each node as many workers as the batch script asked for tasks there, be they uneven' <<'EOF'
expect_status 0 "$batch" 3 SLURM_NTASKS=5 SLURM_TASKS_PER_NODE='2(x2),1' "$CCRUN" --no-python sh -c "$say"
same '0/5 node 0/3 local 0/2,1/5 node 0/3 local 1/2,2/5 node 1/3 local 0/2,3/5 node 1/3 local 1/2,4/5 node 2/3 local 0/1' \
    "$(sed 's/ job .*//' out | sort | paste -sd,)"
has srun.log '--nodes=3 --ntasks=3 --ntasks-per-node=1'
expect_status 0 "$batch" 3 SLURM_NTASKS=5 SLURM_TASKS_PER_NODE='2(x2),1' "$CCRUN" --nnodes 2 --no-python sh -c "$say"
same 4 "$(grep -c '/4 node [01]/2 local [01]/2' out)"
expect_status 0 "$batch" 3 SLURM_NTASKS=5 SLURM_TASKS_PER_NODE='2(x2),1' "$CCRUN" --nproc-per-node 1 --no-python sh -c "$say"
same 3 "$(grep -c '/3 node [012]/3 local 0/1' out)"
expect_status 0 "$batch" 2 SLURM_TASKS_PER_NODE='4(x2)' "$CCRUN" --no-python sh -c "$say" # nobody asked for tasks
same 2 "$(grep -c '/2 node [01]/2 local 0/1' out)"
expect_status 0 "$batch" 1 SLURM_NTASKS=3 SLURM_TASKS_PER_NODE=3 "$CCRUN" --no-python sh -c "$say" # one node: the same, without srun
same 3 "$(grep -c '/3 node 0/1 local [012]/3' out)"
expect_status 2 "$batch" 3 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE='2(x2)' "$CCRUN" --no-python sh -c "$say"
has err "ccrun: error: SLURM_TASKS_PER_NODE '2(x2)' is for 2 nodes; there are 3"
EOF

it 'takes all parts of a heterogeneous job for one, with the tasks of each' <<'EOF'
parts() { # LIST0 LIST1 command...
    parts_0=$1 parts_1=$2; shift 2
    "$batch" 1 SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0="$parts_0" SLURM_JOB_NODELIST_HET_GROUP_1="$parts_1" \
        SLURM_NTASKS_HET_GROUP_1=3 SLURM_TASKS_PER_NODE_HET_GROUP_0=1 SLURM_TASKS_PER_NODE_HET_GROUP_1=2,1 "$@"
}
expect_status 0 parts 127.0.0.1 '127.0.0.[2-3]' "$CCRUN" --no-python sh -c "$say"
same '0/4 node 0/3 local 0/1,1/4 node 1/3 local 0/2,2/4 node 1/3 local 1/2,3/4 node 2/3 local 0/1' \
    "$(sed 's/ job .*//' out | sort | paste -sd,)"
has srun.log 'srun --het-group=0 --nodes=1 --ntasks=1 ' 'srun --het-group=1 --nodes=2 --ntasks=2 '
expect_status 0 parts 127.0.0.1 '127.0.0.[2-3]' "$CCRUN" --nnodes 2 --no-python sh -c "$say"
same 3 "$(grep -c '/3 node [01]/2' out)"
has srun.log 'srun --het-group=1 --nodes=1 --ntasks=1 '
expect_status 2 parts 127.0.0.1 '127.0.0.[1-2]' "$CCRUN" --no-python true
has err "ccrun: error: node '127.0.0.1' is in two parts of this heterogeneous Slurm job" 'srun --het-group=0'
expect_status 0 parts 127.0.0.1 '127.0.0.[1-2]' "$CCRUN" --standalone --no-python true
expect_status 2 parts 127.0.0.1 '' "$CCRUN" --no-python true
has err 'ccrun: error: SLURM_HET_SIZE=2, and SLURM_JOB_NODELIST_HET_GROUP_1 is not set'
EOF

it 'Ctrl-Z at the head suspends the workers of all nodes, and fg wakes them: no node is lost' <<'EOF'
bg head "$batch" 2 "$CCRUN" --rdzv-conf keep_alive_interval=1,keep_alive_max_attempt=1 --no-python \
    sh -c 'echo $$ >pid.$RANK; echo up; while [ ! -e go ]; do sleep 0.02; done'
head=$pid
wait_for '[ "$(grep -cx up head.out)" = 2 ]'
# D: a shell that waits for its child's exec, and the child was stopped before that.
state() { sed 's/.*) //; s/ .*//; s/D/T/' "/proc/$1/stat"; }
kill -TSTP "$head"
for p in "$head" $(cat pid.0 pid.1); do wait_for "[ \$(state $p) = T ]"; done
from=$(now_ms)
touch go
wait_for '[ "$(now_ms)" -gt $((from + 1800)) ]' # longer than a node may be silent
for p in "$head" $(cat pid.0 pid.1); do same T "$(state "$p")"; done
kill -CONT "$head"
ends "$head" 0
lacks head.err lost
same 2 "$(grep -cx up head.out)"
EOF

it 'keeps what the user said, and shows where each value comes from' <<'EOF'
expect_status 0 "$step" 1 'n[1-2]' 2 "$CCRUN" --show-config --rdzv-id mine --no-python true
has out 'nnodes = 2 (SLURM_STEP_NUM_NODES)' 'node-rank = 1 (SLURM_NODEID)' 'rdzv-id = mine (command line)' 'rdzv-endpoint = n1:' \
    '(SLURM_STEP_NODELIST)' 'rdzv-backend = c10d (several nodes)'
expect_status 0 "$step" 1 'n[1-2]' 2 "$CCRUN" --dry-run --no-python true
has out "allocated Slurm $job.0: 2 nodes, this is node 1, they meet at n1:" 'rank 1 of 2'
expect_status 0 "$step" 1 'n[1-2]' 2 "$CCRUN" --standalone --no-python sh -c "$say"
has out '0/1 node 0/1 local 0/1'
expect_status 0 "$step" 1 'n[1-2]' 2 "$CCRUN" --nnodes 1 --no-python sh -c "$say"
has out '0/1 node 0/1 local 0/1'
EOF

it 'says which variable it does not understand' <<'EOF'
expect_status 2 "$step" 0 'n[1-2' 2 "$CCRUN" --no-python true
has err "ccrun: error: SLURM_STEP_NODELIST 'n[1-2': position 2: this '[' is not closed"
expect_status 2 "$step" 0 'n[1-3]' 2 "$CCRUN" --no-python true
has err 'ccrun: error: SLURM_STEP_NODELIST is for 3 nodes and SLURM_STEP_NUM_NODES for 2'
expect_status 0 "$step" 0 'n[1-2' 2 "$CCRUN" --standalone --no-python true
EOF

it 'takes RANK and WORLD_SIZE of a pod for those of nodes, and not those of a worker' <<'EOF'
port=$("$SUPPORT/freeport")
pod() { env RANK="$1" WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" NPROC_PER_NODE=2 "$CCRUN" --no-python sh -c "$say"; }
bg a env KUBERNETES_SERVICE_HOST=10.0.0.1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" NPROC_PER_NODE=2 \
    "$CCRUN" --dry-run --no-python true
ends "$pid" 0
has a.out 'rank 1 of 2, 2 workers (Kubernetes (RANK, WORLD_SIZE), NPROC_PER_NODE=2)'
expect_status 0 env LOCAL_RANK=1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT="$port" "$CCRUN" --no-python sh -c "$say"
has out '0/1 node 0/1'
expect_status 0 pod 1
has out '0/2 node 0/1 local 0/2'
EOF

it 'warns on the first node of a batch job that the others are idle' <<'EOF'
hostname >nodes; echo elsewhere >>nodes
expect_status 0 env PBS_JOBID=1.srv PBS_NODEFILE="$PWD/nodes" "$CCRUN" --no-python sh -c "$say"
has out '0/1 node 0/1'
has err 'ccrun: warning: PBS gave the job 2 nodes (PBS_NODEFILE), and this runs on one of them' 'say --nnodes 2'
expect_status 0 env PBS_JOBID=1.srv PBS_NODEFILE="$PWD/nodes" "$CCRUN" --nnodes 2 --dry-run --no-python true
has out 'rank 0 of 2' 'job       1.srv'
EOF

done_testing
