#!/bin/sh
# Unmodified workers: what torch.distributed offers over gloo works under ccrun, whatever way they meet.
. "$(dirname "$0")/../functional/lib.sh"
limit 240

words <<'EOF'
held() { # held FOLDER N CHECK: on every rank of N
    ls "$1" >have
    same "$2" "$(wc -l <have)"
    same "$2" "$(grep -lx "$3" "$1"/* | wc -l)"
}
EOF

it 'a job of four workers with env:// ends well' <<'EOF'
mkdir "$SHARED/env"
expect_status 0 "$CCRUN" --standalone --nproc-per-node 4 "$HERE/collectives.py" "$SHARED/env"
EOF
for check in all_reduce barrier new_group objects point_to_point data_parallel store agent_store; do
    it "$check holds on all ranks" <<EOF
held "\$SHARED/env" 4 $check
EOF
done

it 'R21: tcp:// meets on --master-addr and --master-port' <<'EOF'
mkdir f
port=$("$SUPPORT/freeport")
expect_status 0 "$CCRUN" --nproc-per-node 2 --master-addr localhost --master-port "$port" \
    "$HERE/collectives.py" "$PWD/f" "tcp://localhost:$port"
held f 2 store
EOF

it 'L3, R22: env:// meets on --master-addr and --master-port, as the static rendezvous' <<'EOF'
mkdir f
expect_status 0 "$CCRUN" --nproc-per-node 2 --rdzv-backend=static --rdzv-conf=rank=0 --master-addr=127.0.0.1 \
    --master-port="$("$SUPPORT/freeport")" \
    "$HERE/collectives.py" "$PWD/f"
held f 2 data_parallel
EOF

it 'sixteen workers at once' <<'EOF'
mkdir f
expect_status 0 "$CCRUN" --nproc-per-node 16 "$HERE/collectives.py" "$PWD/f"
held f 16 agent_store
EOF
done_testing
