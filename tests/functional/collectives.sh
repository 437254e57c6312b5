#!/bin/sh
# libccrun: every collective with every type and operation, checked, for each backend, way to meet and number of ranks.
. "$(dirname "$0")/lib.sh"
limit 120

words <<'EOF'
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
needs() { # needs BACKEND N
    [ "$1" != gloo ] || [ -e "$GLOO" ] || skip 'libccrun was built without gloo'
    [ "$1" != nccl ] || gpus "$2"
}
suite() { # suite N BACKEND INIT_METHOD: under ccrun, where the agent serves the store
    needs "$2" "$1"
    [ "$3" != file ] || set -- "$1" "$2" "file://$T/meet"
    expect_status 0 "$CCRUN" --no-python --nproc-per-node "$1" "$SUPPORT/collsuite" "$2" "$3"
    [ ! -e meet ] # the last one has removed it
    same "$1" "$(grep -c ' checked$' out)"
}
alone() { # alone N BACKEND INIT_METHOD: without a launcher, so rank 0 serves the store
    needs "$2" "$1"
    port=$("$SUPPORT/freeport") pids=
    for rank in $(seq 0 $(($1 - 1))); do
        env -u TORCHELASTIC_USE_AGENT_STORE RANK="$rank" WORLD_SIZE="$1" MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
            "$SUPPORT/collsuite" "$2" "$(echo "$3" | sed "s/PORT/$port/")" >"out.$rank" 2>"err.$rank" &
        pids="$pids $!"
    done
    for pid in $pids; do wait "$pid" || { cat err.*; exit 1; }; done
    same "$1" "$(cat out.* | grep -c ' checked$')"
}
EOF

for method in env:// tcp file; do
    it "self, 1 rank, $method" <<EOF
suite 1 self $method
EOF
    for backend in ref gloo nccl; do
        for ranks in 1 2 4 8; do
            it "$backend, $ranks ranks, $method" <<EOF
suite $ranks $backend $method
EOF
        done
    done
done
for backend in ref gloo nccl; do
    for method in env:// tcp tcp://localhost:PORT; do
        it "$backend, 4 ranks without an agent, $method" <<EOF
alone 4 $backend $method
EOF
    done
done
done_testing
