#!/bin/sh
# ccrun-store as a program: how it starts, how it ends, what it says.
. "$(dirname "$0")/lib.sh"
STORE=${CCRUN%/*}/ccrun-store
export STORE

words <<'EOF'
serve() { # serve OPTION...: in the background; sets $port and $server
    bg store "$STORE" --port 0 "$@"
    server=$pid
    wait_for 'grep -q "^listening on" store.out'
    port=$(sed -n 's/^listening on .*://p' store.out)
}
refused() { # refused SENTENCE OPTION...
    refused_text=$1; shift
    expect_status 2 "$STORE" "$@"
    has err "$refused_text"
    same 1 "$(wc -l <err)"
    empty out
}
EOF

it 'says where it listens, serves, and ends with 0 on TERM' <<'EOF'
serve
matches store.out '^listening on 127\.0\.0\.1:[0-9]+$'
"$SUPPORT/storeclient" 127.0.0.1 "$port" ccrun >out || { cat out; exit 1; }
kill "$server"
ends "$server" 0
same 1 "$(wc -l <store.out)"
EOF

it 'ends with 0 on INT' <<'EOF'
serve
kill -INT "$server"
ends "$server" 0
EOF

it 'listens on IPv6 too' <<'EOF'
[ -e /proc/net/if_inet6 ] && grep -q '^0*1 ' /proc/net/if_inet6 || skip 'no IPv6 here'
serve --host ::1
matches store.out '^listening on \[::1\]:[0-9]+$'
"$SUPPORT/storeclientuv" ::1 "$port" ccrun >out || { cat out; exit 1; }
kill "$server"
ends "$server" 0
EOF

it 'writes the line to --ready-fd and closes it' <<'EOF'
mkfifo ready
sh -c 'exec "$STORE" --port 0 --ready-fd 7 7>ready' >out 2>err &
server=$!
cat ready >line # ends when the descriptor is closed
matches line '^listening on 127\.0\.0\.1:[0-9]+$'
kill "$server"
ends "$server" 0
EOF

it 'ends when nobody holds the other end of --stop-fd any more' <<'EOF'
mkfifo ready stop
sh -c 'exec "$STORE" --port 0 --ready-fd 7 --stop-fd 8 8<stop 7>ready' >out 2>err &
server=$!
exec 9>stop
cat ready >line
kill -0 "$server"
exec 9>&-
ends "$server" 0
EOF

it 'names the process that has the port' <<'EOF'
serve
refused "cannot listen on 127.0.0.1:$port: 'ccrun-store' (process $server) has the port" --port "$port"
kill "$server"
ends "$server" 0
EOF

it 'refuses what it does not understand with one sentence' <<'EOF'
refused "--port: 'http' is not a port from 0 to 65535" --port http
refused "--port: '65536' is not a port from 0 to 65535" --port=65536
refused "--port: '-1' is not a port from 0 to 65535" --port=-1
refused "--max-memory: 'much' is not a size" --max-memory much
refused "--max-memory: '0' is not a size" --max-memory 0
refused "--ready-fd: 'x' is not the number of an open descriptor" --ready-fd x
refused "--ready-fd: '77' is not the number of an open descriptor" --port 0 --ready-fd 77
refused "--stop-fd: '-1' is not the number of an open descriptor" --port 0 --stop-fd=-1
refused "--prot: no such option" --prot 1
refused "a value is missing" --port
refused "'1234': there are no arguments" 1234
refused "'localhost': it is not a numeric address" --host localhost --port 0
EOF

it 'helps, and tells its version' <<'EOF'
expect_status 0 "$STORE" --help
has out '--max-memory SIZE'
expect_status 0 "$STORE" --version
matches out '^ccrun-store [0-9]+\.[0-9]+\.[0-9]+, libuv [0-9.]+$'
EOF

it 'cannot look up names: it has no resolver in it' <<'EOF'
nm -D --undefined-only "$STORE" >symbols
has symbols accept4
lacks symbols getaddrinfo
lacks symbols getnameinfo
lacks symbols gethostby
EOF

it 'says on stderr why it closed a connection' <<'EOF'
serve
"$SUPPORT/storeclient" 127.0.0.1 "$port" ccrun >out || { cat out; exit 1; }
has store.err 'the connection from 127.0.0.1:' 'was closed: ADD of a value that is not a 64-bit number'
kill "$server"
ends "$server" 0
EOF

done_testing
