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

# Each backend by each way to meet with each number of ranks in a full run, else these.
few='self-1-env:// self-1-file ref-1-tcp ref-2-file ref-4-env:// ref-8-file
gloo-1-env:// gloo-2-tcp gloo-2-file gloo-4-env:// gloo-4-file gloo-8-tcp nccl-1-env:// nccl-2-file nccl-4-tcp nccl-8-env://'
is_due() { [ "$CCRUN_REPEAT" -ge 50 ] || echo "$few" | tr ' ' '\n' | grep -qx -- "$1"; }
for method in env:// tcp file; do
    for cell in self-1 ref-1 ref-2 ref-4 ref-8 gloo-1 gloo-2 gloo-4 gloo-8 nccl-1 nccl-2 nccl-4 nccl-8; do
        is_due "$cell-$method" || continue
        backend=${cell%-*} ranks=${cell#*-}
        it "$backend, ranks: $ranks, $method" <<EOF
suite $ranks $backend $method
EOF
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
