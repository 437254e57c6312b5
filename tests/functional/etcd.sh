#!/bin/sh
# The host of a job is elected in etcd, and its state is kept there: what happens when the host goes, when a member of etcd goes,
# and when both go at once.
. "$(dirname "$0")/lib.sh"
command -v etcd >/dev/null || skip_all 'there is no etcd'
words <"$LIB/nodes_case.sh"
words <<'X'
members() { # N: a cluster of so many members; $ENDPOINTS; member i is $m<i>
    members_cluster= ENDPOINTS=
    for i in $(count "$1"); do
        eval "client$i=\$(\"$SUPPORT/freeport\") peer$i=\$(\"$SUPPORT/freeport\")"
        eval "members_cluster=\$members_cluster\${members_cluster:+,}m$i=http://127.0.0.1:\$peer$i"
        eval "ENDPOINTS=\$ENDPOINTS\${ENDPOINTS:+,}127.0.0.1:\$client$i"
    done
    for i in $(count "$1"); do
        eval "members_client=http://127.0.0.1:\$client$i members_peer=http://127.0.0.1:\$peer$i"
        bg "m$i" env ETCD_UNSUPPORTED_ARCH="$(uname -m | sed 's/aarch64/arm64/')" etcd --name "m$i" --data-dir "data$i" \
            --listen-client-urls "$members_client" --advertise-client-urls "$members_client" --listen-peer-urls "$members_peer" \
            --initial-advertise-peer-urls "$members_peer" --initial-cluster "$members_cluster" --initial-cluster-token "$$" \
            --unsafe-no-fsync --log-level warn
        eval "m$i=\$pid"
    done
    for i in $(count "$1"); do
        eval "wait_for 'ask \$client$i maintenance/status | grep -q leader' 20"
    done
}
ask() { # PORT PATH: of a member
    curl -s -m 1 -X POST -d '{}' "http://127.0.0.1:$1/v3/$2" || true
}
keys() { # PORT: all that there are
    curl -s -m 1 -X POST -d '{"key":"Lw==","range_end":"MA=="}' "http://127.0.0.1:$1/v3/kv/range" || true
}
number_in() { sed -n "s/.*\"$1\":\"\([0-9]*\)\".*/\1/p"; }
leader() { # the number of the member that leads
    for i in 1 2 3; do
        eval "leader_port=\$client$i"
        leader_answer=$(ask "$leader_port" maintenance/status)
        [ "$(echo "$leader_answer" | number_in leader)" != "$(echo "$leader_answer" | number_in member_id)" ] || echo "$i"
    done
}
three() { # three agents of 2 to 3 nodes that run, in the order a, b, c
    nodes 2:3 --rdzv-backend etcd-v2 --rdzv-endpoint "$ENDPOINTS" --rdzv-id "job$$" --rdzv-conf last_call_timeout=30 "$@"
    agent a
    hosts a
    agent b -v
    wait_for 'grep -q "hosts the job, at" b.err'
    agent c
    sees a '0/3:0'
    wait_for '[ "$(ups "nodes=3" b c)" -eq 2 ]'
    B=$(story b | cut -d/ -f1) C=$(story c | cut -d/ -f1)
    same '1 2' "$(echo "$B $C" | tr ' ' '\n' | sort | paste -sd' ')"
}
cut_off() { # AGENT: kill it like a power cut would
    cut_pids=$(pids_of "$1")
    eval "kill -9 \$$1"
    eval "wait_for '! alive \$$1 $cut_pids' 2"
}
authority() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" \
        -days 2 2>/dev/null
}
certificate() { # NAME ALT-NAMES AUTHORITY
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
    echo "subjectAltName=$2" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$3.pem" -CAkey "$3.key" -CAcreateserial -days 2 -extfile "$1.ext" -out "$1.pem" 2>/dev/null
}
secure_member() { # CERTIFICATE [option...]: of a cluster of its own that speaks TLS; $ENDPOINTS, $m1
    secure_port=$("$SUPPORT/freeport") secure_peer=http://127.0.0.1:$("$SUPPORT/freeport") secure_cert=$1; shift
    ENDPOINTS=127.0.0.1:$secure_port
    bg m1 env ETCD_UNSUPPORTED_ARCH="$(uname -m | sed 's/aarch64/arm64/')" etcd --name m1 --data-dir "data.$secure_port" \
        --listen-client-urls "https://0.0.0.0:$secure_port" --advertise-client-urls "https://$ENDPOINTS" \
        --listen-peer-urls "$secure_peer" --initial-advertise-peer-urls "$secure_peer" --initial-cluster "m1=$secure_peer" \
        --unsafe-no-fsync --log-level warn --cert-file "$secure_cert.pem" --key-file "$secure_cert.key" "$@"
    m1=$pid
    wait_for 'curl -sk -m 1 --cert client.pem --key client.key "https://$ENDPOINTS/health" | grep -q true' 20
}
two() { # option...: a job of two agents that ends well
    nodes 2 --rdzv-backend etcd --rdzv-endpoint "$ENDPOINTS" --rdzv-id "two$(now_ms)"
    agent a "$@"
    agent b "$@"
    all_go
    well a b
    same 2 "$(ups 'world=2 ' a b)"
    rm -f go a.out b.out
}
no_host() { # PATTERN option...: no job, and why not
    no_host_pattern=$1; shift
    expect_status 75 "$CCRUN" --nnodes 2 --rdzv-backend etcd --rdzv-endpoint "$ENDPOINTS" --rdzv-id x "$@" --no-python true
    matches err "no host of the job at etcd at $ENDPOINTS in [13] s: $no_host_pattern"
}
end_etcd() { for i in "$@"; do eval "kill -9 \$m$i; wait \$m$i || true"; done; }
X
limit 60

it 'two agents find each other in etcd; nothing is left there for long (C67, A17, L1)' <<'X'
members 1
nodes 2 --rdzv-backend etcd --rdzv-endpoint "$ENDPOINTS" --rdzv-id one
agent a
agent b
wait_for '[ "$(ups "world=2 " a b)" -eq 2 ]'
keys "$client1" | grep -q kvs
all_go
well a b
same 1 "$(cat a.err b.err | grep -c 'this node hosts the job')"
lacks a.err lost
wait_for 'keys "$client1" | grep header | grep -qv kvs' 30
end_etcd 1
X

it 'the agent that hosts is killed: the job goes on in a new round, ranks close up in the old order (C59)' <<'X'
members 1
three
from=$(now_ms)
cut_off a
wait_for '[ "$(ups "nodes=2 .*count=0" b c)" -eq 2 ]' 20
in_time "$from" 15000
same '0 1' "$(sed -n 's/^up node=\([0-9]*\) nodes=2 .*/\1/p' b.out c.out | sort | paste -sd' ')"
first=b; [ "$B" -lt "$C" ] || first=c
has "$first.out" 'up node=0 nodes=2'
same 1 "$(cat b.err c.err | grep -c 'this node hosts the job')"
all_go
well b c
end_etcd 1
X

it 'a host that is stopped hands over at once' <<'X'
members 1
three
from=$(now_ms)
kill -TERM "$a"
wait_for '[ "$(ups "nodes=2 .*count=0" b c)" -eq 2 ]' 20
in_time "$from" 3000
ends $a 143
all_go
well b c
end_etcd 1
X

it 'also when its workers take longer to end than those of others, which start once and not twice' <<'X'
members 1
cat >slow.sh <<'W'
[ "$GROUP_RANK" != 0 ] || exec "$SUPPORT/puppet" --term 1500
exec "$SUPPORT/puppet"
W
WORKER='sh slow.sh'
three
kill -TERM "$a"
ends $a 143
wait_for '[ "$(ups "nodes=2 .*count=0" b c)" -ge 2 ]' 20
all_go
well b c
lacks b.err 'round 2 starts' # by the one that leaves
same 2 "$(ups 'nodes=2' b c)"
end_etcd 1
X

it 'there is one budget of restarts, whoever counts them' <<'X'
members 1
three --max-restarts 1
fails 2
wait_for '[ "$(ups "nodes=3 .*count=1" a b c)" -eq 3 ]'
cut_off a
wait_for '[ "$(ups "nodes=2 .*count=1" b c)" -eq 2 ]' 20
rm -f fail.2
fails 1
wait_for '! alive $b $c'
not wait $b
not wait $c
matches b.err 'exit code 1|exited with code 1'
end_etcd 1
X

it 'the leader of etcd is killed: nobody restarts' <<'X'
members 3
three
l=$(leader)
end_etcd "$l"
wait_for '[ -n "$(leader)" ]' 20
from=$(now_ms)
wait_for '[ "$(now_ms)" -gt $((from + 6000)) ]' # longer than a lease
same 3 "$(ups '' a b c)"
all_go
well a b c
for i in 1 2 3; do [ "$i" -eq "$l" ] || end_etcd "$i"; done
X

it 'the leader of etcd and the host are killed at once: the job goes on' <<'X'
members 3
three
l=$(leader)
eval "kill -9 \$m$l"
cut_off a
wait_for '[ "$(ups "nodes=2 .*count=0" b c)" -eq 2 ]' 30
all_go
well b c
for i in 1 2 3; do end_etcd "$i" 2>/dev/null || true; done
X

it 'a host that cannot reach etcd any more stops hosting, and goes on when etcd is back' <<'X'
members 1
three
kill -STOP "$m1"
wait_for 'grep -q "does not host the job any more" a.err' 10
kill -CONT "$m1"
wait_for '[ "$(ups "nodes=3" a b c)" -eq 6 ]' 20
same 6 "$(ups 'count=0' a b c)"
all_go
well a b c
end_etcd 1
X

it 'a node that lacks the program is not waited for: not by who is elected after it, nor after the host that it told' <<'X'
members 1
mkdir with
ln -s "$SUPPORT/puppet" with/work
WORKER=work
has_it="env PATH=$PWD/with:$PATH"
job() { # NODES
    rm -f go ./?.out
    nodes "$1" --rdzv-backend etcd --rdzv-endpoint "$ENDPOINTS" --rdzv-id "job$(now_ms)" --exit-barrier-timeout 20 \
        --rdzv-conf last_call_timeout=40
}
two_do() { # b and c, and at once
    from=$(now_ms)
    agent b
    agent c
    wait_for '[ "$(ups "nodes=2 " b c)" -eq 2 ]' 30
    in_time "$from" 20000
    all_go
    well b c
}
lacks_it() { AROUND= && agent "$@" && AROUND=$has_it; }
job 2 # it is elected, and needed
lacks_it a
hosts a
agent b
ends $b 127
ends $a 127
matches b.err '^ccrun: the job has ended: .*: .*work'
job 2 # the same, but it is killed before it can tell
lacks_it a
hosts a
kill -9 "$a"
agent b
ends $b 127 20
matches b.err '^ccrun: the job has ended: .*: .*work'
job 2:3 # it is elected, and not needed
lacks_it a
ends $a 127
two_do
job 2:3 # another is elected, is told, and is killed
agent a
hosts a
lacks_it d
ends $d 127
matches a.err '^ccrun: the agent at .* takes no part: .*work'
kill -9 "$a"
two_do
end_etcd 1
X

it 'what etcd knew of a job that runs is lost: its nodes begin a new round' <<'X'
members 1
nodes 2 --rdzv-backend etcd --rdzv-endpoint "$ENDPOINTS" --rdzv-id lost
agent a
agent b
wait_for '[ "$(ups "nodes=2 " a b)" -eq 2 ]' 20
curl -s -m 2 -X POST -d '{"key":"L2NjcnVu","range_end":"L2NjcnVv"}' "http://127.0.0.1:$client1/v3/kv/deleterange" >said # /ccrun*
has said '"deleted":"2"'
wait_for '[ "$(ups "nodes=2 .*count=0" a b)" -eq 4 ]' 20
all_go
well a b
end_etcd 1
X

it 'TLS: a certificate of ours, of another authority, for another host, and none where one is asked for' <<'X'
command -v openssl >/dev/null || skip 'there is no openssl'
authority ca
authority other
certificate server IP:127.0.0.1 ca
certificate elsewhere DNS:elsewhere.example,IP:127.0.0.2 ca
certificate client DNS:client ca
certificate stranger DNS:client other
with() { echo "join_timeout=1,protocol=https,ca_cert=$PWD/$1.pem${2:+,ssl_cert=$PWD/$2.pem,ssl_cert_key=$PWD/$2.key}"; }
secure_member server --trusted-ca-file ca.pem --client-cert-auth
two --rdzv-conf "protocol=https,ca_cert=$PWD/ca.pem,ssl_cert=$PWD/client.pem,ssl_cert_key=$PWD/client.key"
two --rdzv-conf "cacert=$PWD/ca.pem,cert=$PWD/client.pem,key=$PWD/client.key" --rdzv-endpoint "https://$ENDPOINTS"
say="etcd at https://$ENDPOINTS does not answer"
no_host "$say: .*certificate" --rdzv-conf join_timeout=1,protocol=https
no_host "$say: .*certificate" --rdzv-conf "$(with other client)"
no_host "$say: ." --rdzv-conf "$(with ca)"
no_host "$say: ." --rdzv-conf "$(with ca stranger)"
no_host "etcd at http://$ENDPOINTS (does not answer|refuses)" --rdzv-conf join_timeout=1
end_etcd 1
secure_member elsewhere
no_host "etcd at https://$ENDPOINTS does not answer: .*(name|subject)" --rdzv-conf "$(with ca)"
two --rdzv-conf "protocol=https,ca_cert=$PWD/ca.pem" --rdzv-endpoint "127.0.0.2:$secure_port"
end_etcd 1
expect_status 2 "$CCRUN" --nnodes 2 --rdzv-backend etcd --rdzv-endpoint "$ENDPOINTS" --rdzv-conf "$(with no)" --no-python true
has err "ccrun: error: " "the file of certificate authorities '$PWD/no.pem' cannot be read: No such file"
X

it 'user and password: those that may, those that may not, wrong ones and none' <<'X'
members 1
put() { curl -s -m 2 -X POST -d "$2" "http://127.0.0.1:$client1/v3/auth/$1" >>said; }
for who in root worker guest; do put user/add "{\"name\":\"$who\",\"password\":\"of $who\"}"; done
put role/add '{"name":"root"}'
put user/grant '{"user":"root","role":"root"}'
put role/add '{"name":"jobs"}'
put role/grant '{"name":"jobs","perm":{"permType":"READWRITE","key":"L2Njcg==","range_end":"L2Njcw=="}}' # /ccr to /ccs
put user/grant '{"user":"worker","role":"jobs"}'
put enable '{}'
two --rdzv-conf 'user=worker,password=of worker'
no_host 'etcd at .* refuses .*user name is empty' --rdzv-conf join_timeout=1
no_host 'etcd at .* refuses .*invalid user ID or password' --rdzv-conf 'join_timeout=3,user=worker,password=wrong'
no_host 'etcd at .* refuses .*permission denied' --rdzv-conf 'join_timeout=3,user=guest,password=of guest'
no_host 'etcd at .* refuses .*permission denied' --rdzv-conf 'join_timeout=3,user=worker,password=of worker,etcd_prefix=/mine'
end_etcd 1
X

it 'says which package is missing when there is no libcurl, or what is there is none' <<'X'
mkdir lib
for name in libcurl.so.4 libcurl-gnutls.so.4 libcurl-nss.so.4; do echo 'no library' >lib/$name; done
tried() { expect_status "$1" env LD_LIBRARY_PATH="$PWD/lib" "$CCRUN" --nnodes 2 --rdzv-backend etcd --rdzv-endpoint 127.0.0.1:1 --no-python true; }
tried 2
has err 'ccrun: error: ' 'libcurl is needed to speak with etcd, and cannot be loaded: install the package libcurl4 (' libcurl.so.4
cp -L "$(ldd "$CCRUN" | sed -n 's/.*libuv.* => \([^ ]*\).*/\1/p')" lib/libcurl.so.4
tried 2
has err 'the libcurl that is installed has no curl_global_init: install the package libcurl4'
X

it 'etcd that is not there is said, and the run ends when its time is over (X3)' <<'X'
port=$("$SUPPORT/freeport")
expect_status 75 "$CCRUN" --nnodes 2 --rdzv-backend etcd --rdzv-endpoint "127.0.0.1:$port,[::1]:$port" --rdzv-id x \
    --rdzv-conf join_timeout=2 --no-python true
matches err "no host of the job at etcd at 127.0.0.1:$port,.* in 2 s: etcd at http://.*:$port does not answer"
X

it 'an endpoint that is missing and a protocol that is none are said before anything is tried (X2)' <<'X'
expect_status 2 "$CCRUN" --nnodes 2 --rdzv-backend etcd-v2 true
has err '--rdzv-backend etcd-v2 needs --rdzv-endpoint HOST[:PORT][,...]'
expect_status 2 "$CCRUN" --nnodes 2 --rdzv-backend etcd-v2 --rdzv-endpoint h --rdzv-conf protocol=ftp true
has err 'The protocol must be HTTP or HTTPS.'
X
done_testing
