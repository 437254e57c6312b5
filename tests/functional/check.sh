#!/bin/sh
# ccrun-check: what it measures and says, thresholds, slow and broken nodes by name, peers that die.
. "$(dirname "$0")/lib.sh"
limit 60
words <<'EOF'
PATH=${CCRUN%/*}:$PATH
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
check() { # check RANKS [option...]: the table is in out
    [ -e "$GLOO" ] || skip 'libccrun was built without gloo'
    ranks=$1; shift
    "$CCRUN" --no-python --nproc-per-node "$ranks" ccrun-check --iters 3 --warmup 1 --timeout 20 "$@" >out 2>err
}
refused() { # refused SENTENCE option...: nothing is started, and this is said
    sentence=$1; shift
    expect_status 2 ccrun-check "$@"
    has err "ccrun-check: $sentence"
}
EOF

for ranks in 1 2 4; do
    it "$ranks ranks: every operation at every size" <<EOF
check $ranks --sizes 8,64K,1M
same 3 "\$(grep -c '^all-reduce ' out)"
same 3 "\$(grep -c '^all-gather ' out)"
same 3 "\$(grep -c '^reduce-scatter ' out)"
same $((ranks == 1 ? 0 : 3)) "\$(grep -c '^send-recv ' out || true)"
matches out 'gloo: build [0-9a-f]{16}\b'
has out 'all is well' 'ulimit -n (nofile): ' '/dev/shm: ' 'kernel: '
EOF
done

it 'the table fits 80 columns, and is plain where the locale does not say UTF-8' <<'EOF'
LC_ALL=C check 2 --sizes 8:1M:8 --pairs --slow 0.001 --min-busbw 0.0000001
same '' "$(LC_ALL=C grep -n '[^ -~]' out || true)"
same '' "$(grep -nE '^.{81}' out || true)"
matches out '^[a-z-]+ +[0-9]+[KM]? .* ##+$' # the longest bar, wherever it is
LC_ALL=C.UTF-8 check 2 --sizes 8:1M:8
matches out '^[a-z-]+ +[0-9]+[KM]? .* ██+'
same '' "$(LC_ALL=C.UTF-8 grep -nE '^.{81}' out || true)"
EOF

it 'JSON: on standard output, or in a file beside the table' <<'EOF'
check 2 --sizes 64K --pairs --slow 0.01 --json -
cat >look.py <<'P'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["schema"] == "ccrun-check/1" and d["status"] == 0 and d["ranks"] == 2 and d["backend"] == "gloo", d
assert [o["operation"] for o in d["operations"]] == ["all-reduce", "all-gather", "reduce-scatter", "send-recv"], d
for o in d["operations"]:
    factor = {"all-reduce": 1, "send-recv": 1}.get(o["operation"], 0.5)  # of two ranks
    assert o["bytes"] == 65536 and o["wrong"] == 0
    assert abs(o["algbw"] - o["bytes"] / o["time_us"] / 1e3) < 1e-3 * o["algbw"], o
    assert abs(o["busbw"] - factor * o["algbw"]) < 1e-3 * o["algbw"], o
assert {(p["from"], p["to"]) for p in d["pairs"]} == {(0, 1), (1, 0)} and all(p["gbs"] > 0 for p in d["pairs"])
assert d["nodes"][1]["rank"] == 1 and d["nodes"][0]["facts"]["kernel"], d
assert d["faults"] == [] and isinstance(d["warnings"], list)
P
python3 look.py out
check 2 --sizes 64K --pairs --slow 0.01 --json file.json
python3 look.py file.json
has out 'all is well'
EOF

it 'a threshold that is missed is exit status 1, and says row, value and limit' <<'EOF'
status=0
check 2 --sizes 8,64K --ops all-reduce --min-busbw 5000 --json file.json || status=$?
same 1 "$status"
matches out '^FAULT: all-reduce of 65536 bytes: bus bandwidth [0-9.]+ GB/s, below'
has out '--min-busbw' ' low'
lacks out 'all-reduce of 8 bytes' # only the largest size counts
grep -q '"kind":.*"threshold"' file.json
status=0
check 1 --min-busbw 1 || status=$?
same 2 "$status"
has err '--min-busbw needs at least 2 ranks, and this job has 1'
EOF

it 'bad input: the option, the value, and what it should be' <<'EOF'
refused "--sizes: '9x' is not a size such as 8, 64K or 1G" --sizes 8:9x
refused "--iters: '0' is not a number from 1 to 100000" --iters 0
refused "--ops: 'all' is none of all-reduce, all-gather, reduce-scatter, send-recv" --ops all
refused "--min-busbw: '-1' is not a number above 0" --min-busbw -1
refused "--slow: '2' is not a number above 0 and up to 1" --slow 2
refused "--timeout: 'soon' is not a length of time" --timeout soon
refused '--sizes: a value is missing' --sizes
refused '--nosuch: no such option' --nosuch
refused "'x': there are no arguments beside the options" x
refused 'Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set; start it by ccrun'
status=0
check 2 --json /nosuch/file --sizes 8 || status=$?
same 2 "$status"
has err "--json: '/nosuch/file' cannot be written: No such file or directory"
status=0
check 2 --backend nosuch || status=$?
same 2 "$status"
has out "FAULT: rank 0: backend 'nosuch' is none of: auto, "
EOF

it 'a rank that does not come is named within the deadline' <<'EOF'
from=$(now_ms)
expect_status 1 env -u TORCHELASTIC_USE_AGENT_STORE RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 \
    MASTER_PORT="$("$SUPPORT/freeport")" ccrun-check --timeout 1 --sizes 8
in_time "$from" 5000
has out 'FAULT: rank 1 was not heard for 1 s at the start' 'FAULT: rank 2 was not heard for 1 s at the start'
expect_status 1 env -u TORCHELASTIC_USE_AGENT_STORE RANK=0 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 GROUP_RANK=0 GROUP_WORLD_SIZE=2 \
    LOCAL_WORLD_SIZE=2 MASTER_PORT="$("$SUPPORT/freeport")" ccrun-check --timeout 1 --sizes 8
has out 'FAULT: rank 1 on node 0 (' 'FAULT: rank 3 on node 1 (?) was not heard for 1 s at the start'
EOF

it 'a rank that stops in the middle is named within the deadline' <<'EOF'
[ -e "$GLOO" ] || skip 'libccrun was built without gloo'
cat >rank.sh <<'Y'
[ "$RANK" != 1 ] || { ccrun-check "$@" & echo $! >stopped; wait; exit; }
exec ccrun-check "$@"
Y
bg job "$CCRUN" --no-python --nproc-per-node 3 sh rank.sh --timeout 2 --sizes 8 --iters 100000
wait_for '[ -s stopped ] && [ "$(ls "/proc/$(cat stopped)/task" | wc -l)" -gt 1 ]' # gloo's thread is there
kill -STOP "$(cat stopped)"
from=$(now_ms)
wait_for 'grep -q "FAULT: rank 1 was not heard" job.out' 40
kill -KILL "$(cat stopped)"
wait_for "! alive $pid"
EOF
done_testing
