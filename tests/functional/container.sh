#!/bin/sh
# ccrun as process 1 of real containers.  signals.sh, tree.sh and cases_end.sh have what it does as anybody's child.
. "$(dirname "$0")/lib.sh"
. "$LIB/container_case.sh"
containers_needed

it 'C54: ends with the code of its worker, whatever that is' <<'E'
for code in 0 42 255; do
    expect_status $code ctr code "$CCRUN" --no-python sh -c "exit $code"
done
expect_status 137 ctr code "$CCRUN" --no-python sh -c 'kill -KILL $$'
expect_status 127 ctr code "$CCRUN" --no-python /no/such/program
has err "/no/such/program"
E

it 'C54: reaps 1,000 orphans that end at once' <<'E'
expect_status 0 ctr storm "$CCRUN" --no-python "$SUPPORT/storm" 1000 1000
has out 'left=0 '
E

it 'passes signals on, each once, and stops its workers when the container is stopped' <<'E'
bg_ctr job "$CCRUN" --nproc-per-node 2 --no-python "$SUPPORT/heed" TERM=0@50
wait_for '[ "$(grep -c ^up job.out)" -eq 2 ]'
kill $pid
ends $pid 143
same 2 "$(grep -c "got SIGTERM" job.out)"
same 2 "$(grep -c saved job.out)"
has job.err '8 s until SIGKILL' # docker stop kills after 10
E

it 'the grace of 8 s as process 1 is only the default, and a deaf worker is killed when it is over' <<'E'
ctr config "$CCRUN" --show-config >config
matches config 'shutdown.timeout .*8 .*process 1'
"$CCRUN" --show-config >config
matches config 'shutdown.timeout .*30'
for how in option environment; do
    case $how in
    option) bg_ctr job "$CCRUN" --shutdown-timeout 1 --no-python "$SUPPORT/heed" ;;
    *) bg_ctr job env CCRUN_SHUTDOWN_TIMEOUT=1 "$CCRUN" --no-python "$SUPPORT/heed" ;;
    esac
    wait_for 'grep -q ^up job.out'
    start=$(now_ms)
    kill $pid
    ends $pid 143
    in_time "$start" 4000
    has job.err '1 s until SIGKILL' 'SIGKILL'
done
[ "$CCRUN_REPEAT" -ge 50 ] || exit 0
bg_ctr job "$CCRUN" --no-python "$SUPPORT/heed"
wait_for 'grep -q ^up job.out'
start=$(now_ms)
kill $pid
ends $pid 143 12
in_time "$start" 10000
E

it 'runs with a read-only root, as a user without a name, on a host without an address, with hidden processes and no terminal' <<'E'
public=$(mktemp -d) # the tree may lie where only its owner comes
chmod 755 "$public"
cp "$CCRUN" "$SUPPORT/brood" "$public"
for user in 0 54321; do
    CTR_USER=$user CTR_READONLY=1 CTR_PROC=hidepid=2 expect_status 3 ctr bare "$public/ccrun" --nproc-per-node 2 --max-restarts 1 \
        --no-python sh -c 'echo "$(id -u) $RANK $TORCHELASTIC_RESTART_COUNT"; cd /dev/shm; : >$RANK.$TORCHELASTIC_RESTART_COUNT
            until [ -e $((1 - RANK)).$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.02; done
            exec "$0" fail 2 >/dev/null' "$public/brood"
    same "$user 0 0,$user 0 1,$user 1 0,$user 1 1," "$(sort out | tr '\n' ,)"
    lacks err 'left behind' 'cannot'
done
CTR_USER=54321 CTR_READONLY=1 CTR_PROC=hidepid=2 bg_ctr job "$public/ccrun" --nproc-per-node 2 --no-python sleep 50
wait_for 'ctr_exec job "$public/ccrun" --probe ready >out 2>err'
has out 'ready: round 1, 2 workers here'
same 54321 "$(ctr_exec job id -u)"
kill $pid
ends $pid 143
rm -r "$public"
E

it 'warns of a small /dev/shm before NCCL dies of it' <<'E'
expect_status 0 ctr shm "$CCRUN" --nproc-per-node 2 --no-python true
has err 'warning: /dev/shm has only 64 MB for 2 workers' '--shm-size' 'medium: Memory'
expect_status 0 ctr shm "$CCRUN" -q --nproc-per-node 2 --no-python true
empty err
expect_status 0 ctr shm "$CCRUN" --no-python true
empty err
CTR_SHM=1g expect_status 0 ctr shm "$CCRUN" --nproc-per-node 2 --no-python true
empty err
E

it 'says whether it is alive and whether its workers run, to whoever asks in the container' <<'E'
bg_ctr job "$CCRUN" --no-python sh -c 'until [ -e /dev/shm/go ]; do sleep 0.02; done; exec "$0" TERM=0@1500' "$SUPPORT/heed"
wait_for 'ctr_exec job "$CCRUN" --probe live >out 2>err'
has out 'live: round 1, 1 worker here'
expect_status 0 ctr_exec job "$CCRUN" --probe ready
has out 'ready: round 1, 1 worker here, 1 on 1 node'
same 1 "$(wc -l <out)"
expect_status 0 ctr_exec job "$CCRUN" --probe ready:1
expect_status 1 ctr_exec job "$CCRUN" --probe ready:77
has out 'not ready: no ccrun runs here as process 77'
ctr_exec job touch /dev/shm/go
wait_for 'grep -q ^up job.out'
kill $pid
wait_for 'grep -q "got SIGTERM" job.out'
expect_status 1 ctr_exec job "$CCRUN" --probe ready
has out 'not ready: the job is being stopped'
expect_status 0 ctr_exec job "$CCRUN" --probe live
ends $pid 143
expect_status 1 ctr none "$CCRUN" --probe live
has out 'not live: no ccrun runs here as process 1'
E

it 'a node that waits for others is alive and not ready, and of several ccruns one has to be named' <<'E'
bg_ctr job sh -c '"$0" --nnodes 2 --rdzv-endpoint 127.0.0.1:29400 --no-python true & "$0" --no-python sleep 50 & wait' "$CCRUN"
wait_for 'ctr_exec job pgrep -x sleep'
wait_for 'ctr_exec job "$CCRUN" --probe live >/dev/null 2>err; grep -q "2 ccruns run here" err'
expect_status 2 ctr_exec job "$CCRUN" --probe live
asked() { # asked WHAT: of each
    for asked_pid in $(ctr_exec job pgrep -x ccrun-keeper); do ctr_exec job "$CCRUN" --probe "$1:$asked_pid" || :; done
}
wait_for 'asked ready >out; grep -q "^not ready: waiting for nodes: 1 of 2 are there" out && grep -q "^ready: round 1" out'
asked live >out
same 2 "$(grep -c ^live: out)"
expect_status 2 "$CCRUN" --probe alive
has err "'alive' is none of: live, ready"
kill -KILL "$(pgrep -P "$(pgrep -P $pid runc)")"
ends $pid 137
E

it 'C53: removes what a dead worker left in /dev/shm, and nothing else' <<'E'
cat >worker <<'END'
cd /dev/shm
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || { echo "left: $(echo *)"; exit 0; }
: >nccl-test
head -c 100000 /dev/zero >torch_$$_1_0
: >data
kill -KILL $$
END
for entry in 'exec' 'sleep 30 & exec'; do # alone, and behind an entry script whose child may have made it
    expect_status 0 ctr sweep sh -c "cd /dev/shm && : >nccl-foreign; cd '$T'; $entry"' "$@"' - "$CCRUN" --max-restarts 1 --no-python \
        sh "$T/worker"
    cat out err
    case $entry in
    exec) has out 'left: data nccl-foreign' ;;
    *) has out 'left: data nccl-foreign nccl-test' ;;
    esac
    has err 'of dead workers from /dev/shm ('
done
E

it 'C24: auto counts the CPUs of the container' <<'E'
for cpus in 0.5 1 1.5; do
    CTR_CGROUPS=1 CTR_CPUS=$cpus ctr cpus "$CCRUN" -v --nproc-per-node auto --no-python sh -c 'echo $WORLD_SIZE $OMP_NUM_THREADS' >out 2>err
    echo "$cpus: $(sort -u out)"
done >all
[ "$(nproc)" -ge 2 ] || skip 'two CPUs are needed'
same '0.5: 1|1: 1|1.5: 2 1|' "$(sed 's/ *$//' all | tr '\n' '|')"
E

it 'memory that runs out inside: the report names the limit, or says that no control group can be seen' <<'E'
cat >worker.py <<'END'
import os, time
x = b"x" * (1 << 30) if os.environ["RANK"] == "1" else time.sleep(50)
END
CTR_CGROUPS=1 MEMORY=100000000 expect_status 137 ctr oom "$CCRUN" --nproc-per-node 2 --no-python python3 "$T/worker.py"
matches err 'evidence  : out of memory: killed by the kernel, limit 95 MB, peak 9[0-9] MB'
MEMORY=100000000 expect_status 137 ctr oom "$CCRUN" --nproc-per-node 2 --no-python python3 "$T/worker.py"
has err 'rank 1 (local_rank: 1' 'was killed by SIGKILL' 'not ccrun; no cgroup memory limit is visible'
E
done_testing
