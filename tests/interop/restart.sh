#!/bin/sh
# A worker dies, the job starts again, and the workers meet again: every time.
. "$(dirname "$0")/../functional/lib.sh"
limit 240

it 'training goes on from its checkpoint after a crash, with the same loss on both ranks' <<'EOF'
expect_status 0 "$CCRUN" --standalone --nproc-per-node 2 --max-restarts 1 "$HERE/ddp_train.py" "$PWD" --crash-rank 1
has out 'attempt 1 goes on from the checkpoint of epoch 1'
cmp result.0.json result.1.json
has result.0.json '"attempt": 1' '"first_epoch": 2' '"world": 2'
EOF

it 'a rank that is late in the new attempt is waited for (B1)' <<'EOF'
expect_status 0 "$CCRUN" --nproc-per-node 2 --max-restarts 1 "$HERE/restart.py" "$PWD" slow
[ -e done.0 ] && [ -e done.1 ]
EOF

it 'on a port of its own choice as well' <<'EOF'
expect_status 0 "$CCRUN" --nproc-per-node 2 --max-restarts 1 --master-port "$("$SUPPORT/freeport")" "$HERE/restart.py" "$PWD"
[ -e done.0 ] && [ -e done.1 ]
EOF

it 'without a restart left the job ends with the code of the first failure' <<'EOF'
expect_status 3 "$CCRUN" --nproc-per-node 2 "$HERE/restart.py" "$PWD"
[ ! -e done.0 ]
EOF

limit 600
it 'sixteen workers meet again after every restart' <<'EOF'
restarts=1
[ "$CCRUN_REPEAT" -lt 50 ] || restarts=5
expect_status 0 "$CCRUN" --nproc-per-node 16 --max-restarts $restarts "$HERE/restart.py" "$PWD" again
same 16 "$(ls done.* | wc -l)"
same $restarts "$(grep -c 'restarting all 16 workers' err)"
EOF

it 'a restart with gloo works every time, 50 jobs in a row (B1)' <<'EOF'
for i in $(count "$(rounds 50)"); do
    rm -f done.*
    expect_status 0 "$CCRUN" --standalone --nproc-per-node 2 --max-restarts 1 "$HERE/restart.py" "$PWD"
    [ -e done.0 ] && [ -e done.1 ]
done
EOF
done_testing
