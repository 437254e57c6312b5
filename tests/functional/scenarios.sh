#!/bin/sh
# Scenarios of torchrun's own tests and of runs made with it, those that no other file has.  The letters and numbers name them;
# `grep -rw R23 tests` finds each.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
# job NPROC 'shell script of a worker' [option...]: output in out and err, status in $st.
job() {
    job_n=$1 job_script=$2; shift 2
    st=0
    "$CCRUN" --nproc-per-node "$job_n" "$@" --no-python sh -c "$job_script" >out 2>err || st=$?
}
sorted() { sort "$1" | paste -sd, | sed 's/,/, /g'; }
# states FILE: what the event lines say happened, in order: source and state.
states() { sed -n 's/^{"name": "torchelastic.worker.status.\([A-Z_]*\)", "source": "\([A-Z]*\)".*}$/\2 \1/p' "$1" | paste -sd, | sed 's/,/, /g'; }
EOF

it 'A4: one agent and eight workers, each rank once, all at one address' <<'EOF'
job 8 'echo "$RANK $WORLD_SIZE $GROUP_RANK $MASTER_ADDR $MASTER_PORT"'
same 0 $st
same '0 1 2 3 4 5 6 7' "$(cut -d' ' -f1 out | sort -n | paste -sd' ')"
same 1 "$(cut -d' ' -f2- out | sort -u | wc -l)"
matches out '^0 8 0 127\.0\.0\.1 [1-9][0-9]*$'
EOF

it 'A5, A18: MASTER_ADDR and MASTER_PORT are those of the endpoint, not the name of the host' <<'EOF'
port=$("$SUPPORT/freeport")
job 1 'echo "$MASTER_ADDR $MASTER_PORT"' --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:"$port"
same "127.0.0.1 $port" "$(cat out)"
port=$("$SUPPORT/freeport")
job 1 'echo "$MASTER_ADDR $MASTER_PORT"' --master-addr localhost --master-port "$port"
same "localhost $port" "$(cat out)"
job 1 'echo "$MASTER_ADDR"' --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0 --local-addr localhost
same localhost "$(cat out)"
EOF

it 'A6, A26: the workers of the odd ranks fail always, and all of them are started again until the budget is gone' <<'EOF'
job 4 'echo "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS $RANK" | tee up.$TORCHELASTIC_RESTART_COUNT.$RANK
    [ $((RANK % 2)) = 1 ] || exec sleep 50
    until [ "$(cat up.$TORCHELASTIC_RESTART_COUNT.* | wc -l)" -eq 4 ]; do sleep 0.02; done; exit 5' --max-restarts 3
same 5 $st
same '0 3 0, 0 3 1, 0 3 2, 0 3 3, 1 3 0, 1 3 1, 1 3 2, 1 3 3, 2 3 0, 2 3 1, 2 3 2, 2 3 3, 3 3 0, 3 3 1, 3 3 2, 3 3 3' "$(sorted out)"
same 3 "$(grep -c 'restarting all 4 workers, restart [123] of 3$' err)"
has err 'attempt 4 of 4'
EOF

it 'A36: a worker that killed itself is started again with the others, and the job succeeds' <<'EOF'
job 3 '[ "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 ] || kill -9 $$; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || exec sleep 50; echo $RANK' --max-restarts 3
same '0 0, 1, 2' "$st $(sorted out)"
has err 'was killed by SIGKILL' 'restart 1 of 3'
EOF

it 'A19: a worker has the variables of the contract, and no others that ccrun made' <<'EOF'
env -i PATH="$PATH" A=1 TORCHELASTIC_ERROR_FILE= "$CCRUN" --nproc-per-node 2 --no-python env >out
sed 's/=.*//' out | sort -u | grep -vx -e PWD -e SHLVL -e _ >names
cat >want <<'X'
A
GROUP_RANK
GROUP_WORLD_SIZE
LOCAL_RANK
LOCAL_WORLD_SIZE
MASTER_ADDR
MASTER_PORT
OMP_NUM_THREADS
PATH
RANK
ROLE_NAME
ROLE_RANK
ROLE_WORLD_SIZE
TORCHELASTIC_ERROR_FILE
TORCHELASTIC_MAX_RESTARTS
TORCHELASTIC_RESTART_COUNT
TORCHELASTIC_RUN_ID
TORCHELASTIC_SIGNALS_TO_HANDLE
TORCHELASTIC_USE_AGENT_STORE
TORCH_NCCL_ASYNC_ERROR_HANDLING
WORLD_SIZE
X
diff want names
EOF

it 'A20: TORCH_NCCL_ASYNC_ERROR_HANDLING is 1 unless it is set' <<'EOF'
for pair in :1 0:0 2:2; do
    unset TORCH_NCCL_ASYNC_ERROR_HANDLING
    [ "${pair%:*}" = '' ] || export TORCH_NCCL_ASYNC_ERROR_HANDLING="${pair%:*}"
    job 1 'echo "$TORCH_NCCL_ASYNC_ERROR_HANDLING"'
    same "${pair#*:}" "$(cat out)"
done
EOF

it 'A21, A22: the variables of the timer and of the health check are inherited or absent' <<'EOF'
show='echo "${TORCHELASTIC_TIMER_FILE-none} ${TORCHELASTIC_HEALTH_CHECK_PORT-none}"'
job 1 "$show"
same 'none none' "$(cat out)"
TORCHELASTIC_TIMER_FILE=/x TORCHELASTIC_HEALTH_CHECK_PORT=8080 job 1 "$show"
same '/x 8080' "$(cat out)"
EOF

it 'A38: where the time before SIGKILL comes from' <<'EOF'
timeout_is() { want=$1; shift; "$@" --show-config >out 2>err; has out "shutdown-timeout = $want ("; }
timeout_is 30 "$CCRUN"
timeout_is 120 "$CCRUN" --shutdown-timeout 120
timeout_is 600 env TORCH_ELASTIC_SHUTDOWN_TIMEOUT=600 "$CCRUN"
timeout_is 120 env TORCH_ELASTIC_SHUTDOWN_TIMEOUT=600 "$CCRUN" --shutdown-timeout 120
timeout_is 0 "$CCRUN" --shutdown-timeout 0
expect_status 2 "$CCRUN" --shutdown-timeout -5 --no-python true
has err 'shutdown_timeout must be non-negative, got -5'
EOF

it 'L5, R12: the events of a job that ends well, fails, or is stopped' <<'EOF'
start='AGENT RENDEZVOUS, AGENT ASSIGN_WORKER_RANKS, WORKER START, WORKER START'
job 2 true --event-log-handler console
same "$start, WORKER SUCCEEDED, WORKER SUCCEEDED, AGENT SUCCEEDED" "$(states err)"
job 2 'up=up$TORCHELASTIC_RESTART_COUNT; [ $RANK = 0 ] || { until [ -e $up ]; do sleep 0.02; done; exit 3; }
    trap "exit 0" TERM; : >$up; while :; do sleep 0.05; done' --event-log-handler console --max-restarts 1
same "$start, $start" "$(states err | sed 's/, WORKER TERM.*//; s/, WORKER FAILED.*//')"
same 1 "$(grep -c '"source": "WORKER".*"state": "FAILED"' err)"
same 1 "$(grep -c '"source": "AGENT".*"state": "SUCCEEDED"' err)"
bg job "$CCRUN" --event-log-handler console --nproc-per-node 2 --no-python sleep 50
wait_for '[ "$(grep -c START job.err)" -eq 2 ]'
kill $pid
ends $pid 143
same "$start, AGENT FAILED" "$(states job.err)"
EOF

it 'W17: each event is a JSON object on a line of standard error' <<'EOF'
job 2 'echo x >&2; exit 0' --event-log-handler console --rdzv-id 'a "quoted" id' --role 'a\role'
same 7 "$(grep -c '^{' err)"
same 2 "$(grep -cx x err)"
command -v python3 >/dev/null || skip 'the lines are there, but there is no Python to read them'
grep '^{' err | python3 -c '
import json, sys
events = [json.loads(l) for l in sys.stdin]
assert all(set(e) == {"name", "source", "timestamp", "metadata"} for e in events)
assert all(e["metadata"]["run_id"] == "a \"quoted\" id" and e["metadata"]["role"] == "a\\role" for e in events)
assert [json.loads(e["metadata"]["metadata"])["exit_code"] for e in events if e["name"].endswith(".FAILED")] == []'
EOF

it 'M17: everything that a worker and its children print is in the file' <<'EOF'
job 2 'sh -c "seq 1 250000"; seq 250001 500000 | cat; (echo sub >&2); echo done' --log-dir l -r 3
same 0 $st
empty out
{ seq 500000; echo done; } >want
for r in 0 1; do
    cmp want l/*/attempt_0/$r/stdout.log
    same sub "$(cat l/*/attempt_0/$r/stderr.log)"
done
EOF

it 'T1: 32 writers of 1000 lines: every line once, under the name of its writer' <<'EOF'
job 32 'seq -f "%g of $LOCAL_RANK" 1000' --role writer --log-dir l -t 1
same 0 $st
same 32000 "$(wc -l <out)"
same 32000 "$(sort -u out | wc -l)"
same 32000 "$(sed -n 's/^\[writer\([0-9]*\)\]:[0-9]* of \([0-9]*\)$/\1 \2/p' out | awk '$1 == $2' | wc -l)"
EOF

it 'W10: variables in arguments are replaced with --macros, per worker' <<'EOF'
expect_status 0 "$CCRUN" --nproc-per-node 2 --macros --no-python echo '${local_rank}' '$local_rank' '$$' '${foo}'
same '0 0 $ ${foo}, 1 1 $ ${foo}' "$(sorted out)"
expect_status 0 "$CCRUN" --nproc-per-node 2 --no-python echo '${local_rank}' '$$'
same '${local_rank} $$, ${local_rank} $$' "$(sorted out)"
EOF

it 'L7: a script of the old launch module gets its --local-rank with --macros' <<'EOF'
expect_status 0 "$CCRUN" --nproc-per-node 2 --macros --no-python echo '--local-rank=${local_rank}' --lr 1
same '--local-rank=0 --lr 1, --local-rank=1 --lr 1' "$(sorted out)"
EOF

it 'W15: odd but accepted: identical workers, an empty id, a file as the c10d store' <<'EOF'
TORCH_ELASTIC_WORKER_IDENTICAL=1 job 2 'echo "$RANK"'
same '0 0, 1' "$st $(sorted out)"
job 2 'echo "<$TORCHELASTIC_RUN_ID>"' --rdzv-id ''
same 0 $st
job 2 'echo "$RANK"' --rdzv-backend c10d --rdzv-conf store_type=file --rdzv-endpoint "$PWD/store"
same '0 0, 1' "$st $(sorted out)"
EOF

it 'R11: one node of one or two starts alone and at once, quotes around --rdzv-conf or not' <<'EOF'
from=$(now_ms)
job 4 'echo "$RANK"' --nnodes=1:2 --rdzv-backend=c10d --rdzv-endpoint=localhost:"$("$SUPPORT/freeport")" \
    --rdzv-conf="'join_timeout=5,last_call_timeout=1,timeout=5'"
same '0 0, 1, 2, 3' "$st $(sorted out)"
in_time "$from" 5000
EOF

it 'B4: three Ctrl-C in a row leave nothing' <<'EOF'
bg job "$CCRUN" --nproc-per-node 2 --no-python sh -c 'trap "" INT; setsid sh -c "trap \"\" INT TERM; echo up; exec sleep 50" & sleep 50; sleep 50'
wait_for '[ "$(grep -c up job.out)" -eq 2 ]'
for i in 1 2 3; do
    kill -INT $pid 2>/dev/null || break
    next=$(($(now_ms) + 80))
    wait_for '[ "$(now_ms)" -ge $next ]'
done
ends $pid 130 5
EOF

it 'B17: a host whose name nobody can resolve starts as quickly' <<'EOF'
unshare --uts hostname no-such-host.invalid 2>/dev/null || skip 'the host cannot be renamed here'
from=$(now_ms)
for options in --standalone '' '--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0'; do
    expect_status 0 unshare --uts sh -c 'hostname no-such-host.invalid; exec "$CCRUN" "$@"' - $options --nproc-per-node 2 --no-python \
        sh -c 'echo "$MASTER_ADDR $(hostname)"'
    same '127.0.0.1 no-such-host.invalid' "$(sort -u out)"
done
in_time "$from" 5000
EOF

it 'B19: a job without log options leaves no file anywhere' <<'EOF'
mkdir tmp here
cd here
for how in true false 'kill -9 $$'; do TMPDIR="$PWD/../tmp" "$CCRUN" --max-restarts 1 --no-python sh -c "$how" 2>../err || true; done
same '' "$(ls -A .; ls -A ../tmp)"
EOF
done_testing
