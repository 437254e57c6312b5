# shellcheck shell=sh
# Who hosts a job of several nodes, by which address the others find it, and what is said when they do not.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 3
limit 60

words <<'EOW'
# agent NAME I ARG...: an agent of a job of two nodes, on host I, in the background; sets $pid.  Its worker says where it is
# and whether it reaches its master.
agent() {
    agent_name=$1 agent_i=$2; shift 2
    [ -e worker ] || cat >worker <<'EOP'
exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo "rank=$RANK master=$MASTER_ADDR job=$TORCHELASTIC_RUN_ID"
EOP
    bg "$agent_name" "$SUPPORT/labhelper" exec "$(lab pid "$agent_i")" "$CCRUN" --nnodes 2 --nproc 1 "$@" --no-python bash "$T/worker"
}

# pair HOST-ARGS -- CLIENT-ARGS: node1 and node2 (or $hosts) form a job; outputs in a.* and b.*
pair() {
    pair_a=
    while [ "$1" != -- ]; do pair_a="$pair_a '$1'"; shift; done
    shift
    # shellcheck disable=SC2086 # two numbers
    set -- "$@"
    eval "agent a \${hosts%% *} $pair_a"; pair_pid=$pid
    wait_for "grep -q 'hosts the job' a.err"
    agent b "${hosts##* }" "$@"
    ends $pid 0 20
    ends $pair_pid 0 20
    cat a.out b.out | sort >out
}
hosts='1 2'

# names I LINE...: what /etc/hosts of host I says, until the end of the case.
names() {
    names_i=$1; shift
    printf '%s\n' "$@" >"hosts$names_i"
    on "$names_i" mount --bind "$T/hosts$names_i" /etc/hosts
    trap 'unname' EXIT
}
unname() {
    for unname_i in 1 2 3; do
        [ ! -e "$T/hosts$unname_i" ] || on "$unname_i" umount /etc/hosts
    done
}
quiet() { # quiet FILE: nothing but the line of who hosts, and what a job says of itself
    grep -vE 'hosts the job|nodes are there' "$1" >noise || :
    empty noise
}
EOW

it 'finds its host by name, by number and by an alias (C05)' <<'E'
for endpoint in node1:29401 10.77.0.1:29401; do
    pair --rdzv-endpoint "$endpoint" -- --rdzv-endpoint "$endpoint"
    matches out '^rank=0 master=10.77.0.1 '
    matches out '^rank=1 master=10.77.0.1 '
    has a.err 'ccrun: this node hosts the job, at 10.77.0.1:29401'
    quiet a.err
    quiet b.err
done
names 1 '127.0.0.1 localhost' '10.77.0.1 service.example'
pair --rdzv-endpoint service.example:29401 -- --rdzv-endpoint node1:29401
matches out '^rank=1 master=10.77.0.1 '
nothing_left
E

it 'waits for a name that appears later, and then for the host (C04)' <<'E'
names 2 '127.0.0.1 localhost'
agent b 2 --rdzv-endpoint late:29402
client=$pid
wait_for "grep -q \"waiting for the host of the job, late:29402: the host 'late' of the endpoint cannot be resolved\" b.err"
echo '10.77.0.1 late' >>hosts2
wait_for 'grep -q "nothing listens on 10.77.0.1:29402 yet" b.err'
agent a 1 --rdzv-endpoint node1:29402
ends $pid 0
ends $client 0
matches b.out '^rank=1 master=10.77.0.1 '
nothing_left
E

it 'hosts when a name that appears later is its own' <<'E'
names 1 '127.0.0.1 localhost'
agent a 1 --rdzv-endpoint late:29403
host=$pid
agent b 2 --rdzv-endpoint 10.77.0.1:29403
wait_for 'grep -q "cannot be resolved" a.err'
echo '10.77.0.1 late' >>hosts1
ends $host 0
ends $pid 0
has a.err 'this node hosts the job, at 10.77.0.1:29403'
nothing_left
E

it 'names a name that never resolves, once, and ends' <<'E'
expect_status 2 on 2 "$CCRUN" --nnodes 2 --rdzv-endpoint nobody.invalid:29404 --resolve-timeout 1 --no-python true
has err "ccrun: error: the host 'nobody.invalid' of the endpoint cannot be resolved: " '(--resolve-timeout)'
same 1 "$(grep -c nobody.invalid err)"
E

it 'ends when it is told to, whatever DNS does' <<'E'
lab cut 2 3
echo 'nameserver 10.77.0.3' >resolv
on 2 mount --bind "$T/resolv" /etc/resolv.conf
trap 'on 2 umount /etc/resolv.conf; lab heal 2 3' EXIT
agent b 2 --rdzv-endpoint nobody.example:29404
wait_for 'grep -q "nobody.example:29404: its name is being looked up" b.err'
from=$(now_ms)
kill $pid
ends $pid 143
in_time "$from" 1000
nothing_left
E

it 'hosts by the way out when the name of the machine does not resolve there' <<'E'
names 1 '127.0.0.1 localhost'
pair --rdzv-endpoint node1:29405 -- --rdzv-endpoint node1:29405
matches out '^rank=1 master=10.77.0.1 '
has a.err "the name 'node1' of this machine does not resolve; hosting on 10.77.0.1 (eth0)"
quiet b.err
nothing_left
E

it 'hosts where others reach it when its name is 127.0.1.1 at home, as on Debian' <<'E'
names 1 '127.0.0.1 localhost' '127.0.1.1 node1'
pair --rdzv-endpoint node1:29406 -- --rdzv-endpoint node1:29406
matches out '^rank=0 master=10.77.0.1 '
matches out '^rank=1 master=10.77.0.1 '
has a.err "'node1' is 127.0.1.1 on this machine, where no other can reach it; hosting on 10.77.0.1 (eth0) instead"
hosts='1 1'
pair --rdzv-endpoint node1:29406 -- --rdzv-endpoint node1:29406
matches out '^rank=1 master=10.77.0.1 '
nothing_left
E

it 'lets two agents on one machine spell its loopback address differently (C05)' <<'E'
hosts='3 3'
for a in '[::1]:29407' '127.0.0.1:29407' 'localhost:29407'; do
    for b in '[::1]:29407' '127.0.0.1:29407' 'localhost:29407'; do
        pair --rdzv-endpoint "$a" -- --rdzv-endpoint "$b"
        quiet a.err
        quiet b.err
    done
done
nothing_left
E

it 'does so without IPv6, and says nothing about it (C05)' <<'E'
on 3 sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6' || skip 'IPv6 cannot be turned off'
trap 'on 3 sh -c "echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6"' EXIT
hosts='3 3'
for a in '[::1]:29408' '127.0.0.1:29408' 'localhost:29408'; do
    for b in '[::1]:29408' '127.0.0.1:29408' 'localhost:29408'; do
        pair --rdzv-endpoint "$a" -- --rdzv-endpoint "$b"
        matches out '^rank=1 master=127.0.0.1 '
        quiet a.err
        quiet b.err
    done
done
nothing_left
E

it 'forms a job by IPv6 alone' <<'E'
for i in 1 2; do
    on $i ip addr add fd77::$i/64 dev eth0 nodad || skip 'no IPv6 here'
    on $i ip addr del 10.77.0.$i/24 dev eth0
done
trap 'unname; for i in 1 2; do on $i ip addr del fd77::$i/64 dev eth0; on $i ip addr add 10.77.0.$i/24 dev eth0; done' EXIT
pair --rdzv-endpoint '[fd77::1]:29409' -- --rdzv-endpoint '[fd77::1]:29409'
matches out '^rank=0 master=fd77::1 '
matches out '^rank=1 master=fd77::1 '
has a.err 'this node hosts the job, at [fd77::1]:29409'
printf 'fd77::1 six\n' | tee hosts1 hosts2 >/dev/null
on 1 mount --bind "$T/hosts1" /etc/hosts
on 2 mount --bind "$T/hosts2" /etc/hosts
pair --rdzv-endpoint six:29409 -- --rdzv-endpoint six:29409
matches out '^rank=1 master=fd77::1 '
quiet b.err
link_local=$(on 1 ip -6 -o addr show dev eth0 scope link | awk '{ sub("/.*", "", $4); print $4 }')
pair --rdzv-endpoint "[$link_local%eth0]:29409" -- --rdzv-endpoint "[$link_local%eth0]:29409"
matches out "^rank=1 master=$link_local%eth0 "
nothing_left
E

it 'publishes the address of the network that was chosen, wherever the nodes meet (C06)' <<'E'
for i in 1 2; do on $i ip addr add 10.99.0.$i/24 dev eth0; done
trap 'for i in 1 2; do on $i ip addr del 10.99.0.$i/24 dev eth0; done' EXIT
pair --rdzv-endpoint node1:29410 --subnet 10.99.0.0/24 -- --rdzv-endpoint node1:29410 --subnet 10.99.0.0/24
matches out '^rank=0 master=10.99.0.1 '
matches out '^rank=1 master=10.99.0.1 '
has a.err 'this node hosts the job, at 10.77.0.1:29410; its workers are reached at 10.99.0.1'
pair --rdzv-endpoint node1:29410 --node-rank 1 --subnet 10.99.0.0/24 -- --rdzv-endpoint node1:29410 --node-rank 0 \
    --subnet 10.99.0.0/24
matches out '^rank=1 master=10.99.0.2 '
pair --rdzv-endpoint node1:29410 --iface eth0 -- --rdzv-endpoint node1:29410 --iface eth0
matches out '^rank=1 master=10.77.0.1 '
nothing_left
E

it 'names the networks that there are when the chosen one is not' <<'E'
expect_status 2 on 1 "$CCRUN" --nnodes 2 --rdzv-endpoint node1:29411 --iface ib7 --no-python true
has err "--iface: this machine has no interface 'ib7'; there are: " 'eth0 10.77.0.1/24'
expect_status 2 on 1 "$CCRUN" --nnodes 2 --rdzv-endpoint node1:29411 --subnet 10.88.0.0/16 --no-python true
has err "--subnet: no address of this machine is in '10.88.0.0/16'; there are: " 'eth0 10.77.0.1/24'
E

it 'listens at the address that was named and at no other (C10)' <<'E'
agent a 1 --rdzv-endpoint node1:29412 --rdzv-conf join_timeout=30
wait_for 'grep -q "hosts the job" a.err'
on 1 ss -Hltn >listeners
awk '{ print $4 }' listeners | sort -u >addresses
same '10.77.0.1:29412' "$(cat addresses)"
kill $pid
ends $pid 143
agent a 1 --rdzv-endpoint 127.0.0.2:29412
wait_for 'grep -q "hosts the job" a.err'
same '127.0.0.2:29412' "$(on 1 ss -Hltn | awk '{ print $4 }')"
kill $pid
ends $pid 143
nothing_left
E

it 'says within 3 s that what answers is no ccrun (C12)' <<'E'
cat >deaf <<'EOP'
import socket, sys
s = socket.create_server(("10.77.0.1", 29413))
held = []
print("listens", flush=True)
while True:
    c = s.accept()[0]
    if sys.argv[1] == "silent": held.append(c)
    if sys.argv[1] == "closes": c.close()
    if sys.argv[1] == "web": c.recv(1); c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"); c.close()
EOP
for how in silent closes web; do
    bg deaf "$SUPPORT/labhelper" exec "$(lab pid 1)" python3 "$T/deaf" $how
    deaf=$pid
    wait_for 'grep -q listens deaf.out'
    from=$(now_ms)
    agent b 2 --rdzv-endpoint node1:29413
    wait_for 'grep -qE "connected to 10.77.0.1:29413, but what (answers|listens) there" b.err'
    in_time "$from" 3000
    wait_for 'grep -q "waiting for the host of the job, node1:29413: connected to" b.err' 8
    same 1 "$(grep -c 'ccrun: connected to' b.err)"
    kill $pid
    ends $pid 143
    kill $deaf
    ends $deaf 143
done
nothing_left
E

it 'names who has its port when that is no agent of the job' <<'E'
bg deaf "$SUPPORT/labhelper" exec "$(lab pid 1)" python3 -m http.server -b 10.77.0.1 29414
deaf=$pid
wait_for 'on 1 ss -Hltn | grep -q 29414'
expect_status 2 on 1 "$CCRUN" --nnodes 2 --rdzv-endpoint node1:29414 --no-python true
matches err "ccrun: error: cannot listen on 10.77.0.1:29414: 'python3[^']*' \(process [0-9]+\) has the port"
kill $deaf
ends $deaf 143
nothing_left
E

it 'says that nothing answers where a firewall swallows what it sends' <<'E'
lab cut 1 2
agent b 2 --rdzv-endpoint node1:29421 --rdzv-conf join_timeout=12
ends $pid 75 20
has b.err 'waiting for the host of the job, node1:29421: no answer from 10.77.0.1:29421 yet; ' \
    'no host of the job at node1:29421 in 12 s: no answer from 10.77.0.1:29421 (a firewall in the way? the machine off?)'
lab heal 1 2
nothing_left
E

it 'obeys is_host' <<'E'
pair --rdzv-endpoint node1:29415 --rdzv-conf is_host=1 -- --rdzv-endpoint node1:29415 --rdzv-conf is_host=0
matches out '^rank=1 master=10.77.0.1 '
names 1 '127.0.0.1 localhost' '10.77.0.1 node1' '203.0.113.7 gateway'
names 2 '127.0.0.1 localhost' '10.77.0.1 gateway'
pair --rdzv-endpoint gateway:29415 --rdzv-conf is_host=1 -- --rdzv-endpoint gateway:29415
has a.err "'gateway' is no address of this machine, which is to host the job; hosting on 10.77.0.1 (eth0)"
matches out '^rank=1 master=10.77.0.1 '
nothing_left
E

it 'refuses an agent of another job, and both sides say so' <<'E'
agent a 1 --rdzv-endpoint node1:29416 --rdzv-id run7 --rdzv-conf join_timeout=30
host=$pid
wait_for 'grep -q "hosts the job" a.err'
agent b 2 --rdzv-endpoint node1:29416 --rdzv-id run8
ends $pid 2
sentence="the agent is for job 'run8', and this is job 'run7', run by node1; give all nodes of a job the same --rdzv-id"
has b.err "ccrun: error: node1:29416: $sentence"
has a.err "ccrun: the agent at 10.77.0.2 was turned away: $sentence"
agent b 2 --rdzv-endpoint node1:29416
ends $pid 0
ends $host 0
has b.out 'job=run7'
nothing_left
E

it 'lets only those in who know the secret, and both sides name the others (C68)' <<'E'
umask 077
printf 'sesame, open\n' >token
printf 'sesame, open' >same
printf 'simsim, open\n' >other
agent a 1 --rdzv-endpoint node1:29417 --rdzv-id run7 --job-token-file "$T/token"
host=$pid
wait_for 'grep -q "hosts the job" a.err'
for task in $(pgrep -f 'rdzv-endpoint node1:2941[7]'); do not grep -q libcrypto "/proc/$task/maps"; done # it costs more than an agent
agent b 2 --rdzv-endpoint node1:29417 --job-token-file "$T/other"
ends $pid 2
has b.err "ccrun: error: node1:29417: the secret of job 'run7', run by node1, is another one (--job-token-file)"
has a.err "ccrun: the agent at 10.77.0.2 was turned away: the secret of job 'run7', run by node1, is another one"
agent c 3 --rdzv-endpoint node1:29417
ends $pid 2
has c.err "ccrun: error: node1:29417: job 'run7', run by node1, has a secret, and the agent brings none (--job-token-file)"
has a.err "ccrun: the agent at 10.77.0.3 was turned away: job 'run7', run by node1, has a secret"
agent b 2 --rdzv-endpoint node1:29417 --job-token-file "$T/same"
ends $pid 0
ends $host 0
quiet b.err
has b.out 'rank=1 master=10.77.0.1 job=run7'
nothing_left
E

it 'tells NCCL and gloo the interface that was chosen, unless they know better (C06)' <<'E'
cat >worker <<'EOP'
echo "nccl=${NCCL_SOCKET_IFNAME-} gloo=${GLOO_SOCKET_IFNAME-}"
EOP
pair --rdzv-endpoint node1:29419 --iface eth0 -- --rdzv-endpoint node1:29419
has a.out 'nccl=eth0 gloo=eth0'
has b.out 'nccl= gloo='
export NCCL_SOCKET_IFNAME=ib0
pair --rdzv-endpoint node1:29419 --iface eth0 -- --rdzv-endpoint node1:29419
has a.out 'nccl=ib0 gloo=eth0'
nothing_left
E

done_testing
