#!/bin/sh
# run: alone
# What the store must not cost: time to connect, and memory for many clients.  The best of several tries counts: a busy
# machine makes every one of them slower, a look-up of names or a buffer for each client cannot be hidden by luck.
. "$(dirname "$0")/lib.sh"
limit 60
STORE=${CCRUN%/*}/ccrun-store
export STORE
"${CC:-cc}" -O2 -w -o "$TOP/load" "$HERE/../store/bench_store.c" || skip_all 'no compiler for the load'
LOAD=$TOP/load
export LOAD

words <<'EOF'
serve() { # our server in the background; sets $port and $server
    bg store "$STORE" --port 0
    server=$pid
    wait_for 'grep -q "^listening on" store.out'
    port=$(sed -n 's/^listening on .*://p' store.out)
}
figure() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$2"; } # whole part of a number in the load's JSON
EOF

it '64 clients are connected and served within 20 ms' <<'EOF'
serve
best=1000000
for i in $(count 20); do
    "$LOAD" 127.0.0.1 "$port" barrier 64 0 >out
    ms=$(figure connect_validate_ms out)
    [ "$ms" -ge "$best" ] || best=$ms
done
[ "$best" -lt 20 ] || fail "the best of 20 tries took $best ms"
kill "$server"
ends "$server" 0
EOF

it '8,192 clients that wait cost less than 10 MB' <<'EOF'
[ "$(ulimit -Hn)" = unlimited ] || [ "$(ulimit -Hn)" -ge 9000 ] || skip "no more than $(ulimit -Hn) files may be open here"
! nm "$STORE" | grep -q __asan_init || skip 'a sanitizer has memory of its own'
serve
"$LOAD" 127.0.0.1 "$port" barrier 8192 "$server" >out
kb=$(figure rss_waiting_kb out)
[ "$kb" -gt 0 ] && [ "$kb" -le 10240 ] || fail "$kb kB"
kill "$server"
ends "$server" 0
EOF

done_testing
