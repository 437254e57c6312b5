#!/bin/sh
# Our clients of the store against PyTorch's own servers and ours.  (PyTorch's clients against our server: tests/store.)
. "$(dirname "$0")/../functional/lib.sh"
limit 240
STORE=${CCRUN%/*}/ccrun-store
export STORE

words <<'EOF'
serve() { # our server in the background; sets $port and $server
    bg store "$STORE" --port 0
    server=$pid
    wait_for 'grep -q "^listening on" store.out'
    port=$(sed -n 's/^listening on .*://p' store.out)
}
EOF

for kind in libuv legacy; do
    for client in storeclient storeclientuv; do
        it "$client against PyTorch's $kind server" <<EOF
"\$PYTHON" -W ignore "\$HERE/torch_store.py" $kind "\$SUPPORT/$client" >out 2>err || { cat out err; exit 1; }
matches out '^1\.\.[0-9]+\$'
EOF
    done
done

for client in storeclient storeclientuv; do
    it "$client against our server" <<EOF
serve
"\$SUPPORT/$client" 127.0.0.1 "\$port" ccrun >out || { cat out; exit 1; }
matches out '^1\.\.[0-9]+\$'
kill "\$server"
ends "\$server" 0
EOF
done

done_testing
