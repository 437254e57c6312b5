#!/bin/sh
# libccrun: what it cannot use is refused soon, in a sentence that names it.
. "$(dirname "$0")/lib.sh"
limit 30

words <<'EOF'
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
needs_gloo() { [ -e "$GLOO" ] || skip 'libccrun was built without gloo'; }
alone() { env -u TORCHELASTIC_USE_AGENT_STORE -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT "$@"; }
refused() { # refused TEXT 'VARIABLE=VALUE ...' BACKEND [URL [TIMEOUT_MS]]: of one rank; FREE is a free port
    port=$("$SUPPORT/freeport") from=$(now_ms)
    # shellcheck disable=SC2046 # variables without blanks
    expect_status 1 alone $(echo "$2" | sed "s/FREE/$port/") "$SUPPORT/collsuite" "$3" "$(echo "${4:-env://}" | sed "s/FREE/$port/")" "${5:-10000}"
    in_time "$from" 8000
    has err "$(echo "$1" | sed "s/FREE/$port/")"
}
occupied() { # something listens at $port that says nothing; it ends with $listener
    "$SUPPORT/listener" mute >listener &
    listener=$!
    wait_for '[ -s listener ]'
    port=$(cat listener)
}
EOF

it 'a URL without a handler' <<'EOF'
refused 'No rendezvous handler for http://' 'RANK=0 WORLD_SIZE=1' self http://127.0.0.1
EOF

it 'a URL without a port' <<'EOF'
refused 'Error initializing torch.distributed using tcp:// rendezvous: port number missing' 'RANK=0 WORLD_SIZE=1' self tcp://127.0.0.1
EOF

it 'port 0, at which nobody can be found' <<'EOF'
refused "self: rank 0 of 1, group 'default': the store's port is 0" 'RANK=0 WORLD_SIZE=1' self tcp://127.0.0.1:0
EOF

it 'env:// without one of its variables' <<'EOF'
for name in RANK WORLD_SIZE MASTER_ADDR MASTER_PORT; do
    refused "Error initializing torch.distributed using env:// rendezvous: environment variable $name expected, but not set" \
        "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=FREE $name=" self
done
EOF

it 'a rank that the world does not have' <<'EOF'
for rank in 2 -1; do
    refused "rank $rank does not exist in a world of size 2: ranks are 0 to 1" \
        "RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=FREE" gloo
done
refused 'rank 2 does not exist in a world of size 2: ranks are 0 to 1' 'RANK=2 WORLD_SIZE=2' gloo tcp://127.0.0.1:FREE
EOF

it 'a backend that there is not' <<'EOF'
refused "backend 'smoke' is none of: auto, gloo, " 'RANK=0 WORLD_SIZE=1' smoke tcp://127.0.0.1:FREE
EOF

it 'one rank too many for self, without waiting for it' <<'EOF'
refused "self: rank 0 of 2, group 'default': it is for 1 rank, and this world has 2" 'RANK=0 WORLD_SIZE=2' self tcp://127.0.0.1:FREE
EOF

it 'a master that does not answer' <<'EOF'
refused "ref: rank 1 of 2, group 'default': cannot reach the store 127.0.0.1:FREE: Connection refused, tried for 0.5 s" \
    'RANK=1 WORLD_SIZE=2' ref tcp://127.0.0.1:FREE 500
EOF

it 'an agent that should serve the store, and is not there' <<'EOF'
refused 'cannot reach the store 127.0.0.1:FREE: Connection refused' \
    'RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=FREE TORCHELASTIC_USE_AGENT_STORE=True' ref env:// 500
EOF

it 'a master that says nothing' <<'EOF'
occupied
from=$(now_ms)
expect_status 1 alone RANK=1 WORLD_SIZE=2 "$SUPPORT/collsuite" ref "tcp://127.0.0.1:$port" 1000
in_time "$from" 8000
kill "$listener"
wait || true
has err "ref: rank 1 of 2, group 'default': "
has err "127.0.0.1:$port"
EOF

it 'a port of rank 0 that something else has' <<'EOF'
occupied
expect_status 1 alone RANK=0 WORLD_SIZE=2 "$SUPPORT/collsuite" ref "tcp://127.0.0.1:$port" 5000
kill "$listener"
wait || true
has err "rank 0 cannot serve the store on 127.0.0.1:$port: "
EOF

it 'ranks that do not come are named' <<'EOF'
refused "ref: rank 0 of 3, group 'default': ranks 1-2 of 3 did not come within " 'RANK=0 WORLD_SIZE=3' ref tcp://127.0.0.1:FREE 500
refused "ref: rank 2 of 3, group 'default': ranks 0-1 of 3 did not come within " 'RANK=2 WORLD_SIZE=3' ref "file://$PWD/meet" 500
EOF

it 'a path that cannot be written' <<'EOF'
refused "ref: rank 0 of 1, group 'default': store '$PWD/no/such': cannot open it: No such file or directory" \
    'RANK=0 WORLD_SIZE=1' ref "file://$PWD/no/such"
refused "store '$PWD': cannot open it: Is a directory" 'RANK=0 WORLD_SIZE=1' ref "file://$PWD"
refused "store '/dev/null': it is not a regular file" 'RANK=0 WORLD_SIZE=1' ref file:///dev/null
[ "$(id -u)" -ne 0 ] || exit 0
mkdir closed
chmod 500 closed
refused 'Permission denied' 'RANK=0 WORLD_SIZE=1' ref "file://$PWD/closed/f"
EOF

it 'a file that is something else, which is left as it was' <<'EOF'
echo 'Dear diary, this is no store' >diary
refused "store '$PWD/diary': " 'RANK=0 WORLD_SIZE=1' ref "file://$PWD/diary"
same 'Dear diary, this is no store' "$(cat diary)"
EOF

it 'a rank that two processes have in one file' <<'EOF'
for as in a b; do
    bg $as env -u TORCHELASTIC_USE_AGENT_STORE RANK=1 WORLD_SIZE=3 "$SUPPORT/collsuite" ref "file://$PWD/meet" 20000
    eval "$as=\$pid"
done
wait_for '! alive "$a" || ! alive "$b"'
held=$a
alive "$a" || held=$b
cat a.err b.err >err
has err "ref: rank 1 of 3, group 'default': rank 1 is already taken, by process $held on $(uname -n)"
kill "$held"
wait || true
EOF

it 'gloo: an interface and an address that this machine has not' <<'EOF'
needs_gloo
refused "gloo: rank 0 of 1, group 'default': this machine has no interface 'ib7' with an address; there are: lo" \
    'RANK=0 WORLD_SIZE=1 GLOO_SOCKET_IFNAME=ib7,lo' gloo tcp://127.0.0.1:FREE
refused 'no interface of this machine has the address 192.0.2.1' \
    'RANK=0 WORLD_SIZE=1 GLOO_SOCKET_IFNAME=192.0.2.1' gloo tcp://127.0.0.1:FREE
EOF

it 'gloo: an interface and an address that it has are taken' <<'EOF'
needs_gloo
for at in lo 127.0.0.2; do
    expect_status 0 alone RANK=0 WORLD_SIZE=1 GLOO_SOCKET_IFNAME=$at \
        "$SUPPORT/collsuite" gloo "tcp://127.0.0.1:$("$SUPPORT/freeport")"
done
EOF
done_testing
