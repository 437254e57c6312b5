#!/bin/sh
# Our clients of the store against PyTorch's own servers, and PyTorch's clients against our server.
. "$(dirname "$0")/../functional/lib.sh"
limit 60
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

limit 300
it 'every case of the conformance program, all dialects' <<'EOF'
serve
"$PYTHON" -W ignore "$HERE/../store/check_store.py" 127.0.0.1 "$port" --old-dialects >out 2>err ||
    { grep -v '^ok ' out; cat err; exit 1; }
matches out '^[0-9]+ passed, 0 failed$'
[ "$(grep -c '^ok ' out)" -ge 176 ]
kill "$server"
ends "$server" 0
EOF

done_testing
