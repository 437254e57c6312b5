#!/bin/sh
# C ranks and PyTorch ranks in one store, whoever serves it: the agent, rank 0 in C, rank 0 in Python; and in one file.
. "$(dirname "$0")/../functional/lib.sh"
limit 120

words <<'EOF'
mix() { # mix URL WHO...: rank 0, 1, ... is c or py, without an agent
    url=$1 rank=0 pids=; shift
    port=$("$SUPPORT/freeport")
    for who in "$@"; do
        set_up="RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port"
        where=$(echo "$url" | sed "s|PORT|$port|; s|HERE|$PWD|")
        # shellcheck disable=SC2086 # several variables
        case $who in
        c) env -u TORCHELASTIC_USE_AGENT_STORE $set_up "$SUPPORT/storeuser" "$where" ;;
        *) env -u TORCHELASTIC_USE_AGENT_STORE $set_up "$PYTHON" -W ignore "$HERE/mixed_store.py" "$where" ;;
        esac >out.$rank 2>&1 &
        pids="$pids $!" rank=$((rank + 1))
        [ $rank -lt 4 ] || break
    done
    for pid in $pids; do wait "$pid" || { tail -n 5 out.?; exit 1; }; done
    same 4 "$(cat out.? | grep -c '^well$')"
}
EOF

for url in env:// tcp://127.0.0.1:PORT file://HERE/meet; do
    it "rank 0 in C, others in both: $url" <<EOF
mix $url c py c py
EOF
    it "rank 0 in Python, others in both: $url" <<EOF
mix $url py c py c
EOF
done

it 'both under ccrun, in the store of its agent' <<'EOF'
cat >rank.sh <<'END'
case $RANK in
[02]) exec "$SUPPORT/storeuser" env:// ;;
*) exec "$PYTHON" -W ignore "$HERE/mixed_store.py" env:// ;;
esac
END
expect_status 0 "$CCRUN" --no-python --nproc-per-node 4 sh rank.sh
same 4 "$(grep -c '^well$' out)"
EOF
done_testing
