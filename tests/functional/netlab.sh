#!/bin/sh
# Agents on hosts of their own: names and addresses, cuts, delays, power failures.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 3
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'X'
three() { # [option...]: agents a, b and c on the hosts 1 to 3, as nodes 0 to 2
    lab heal all
    lab_nodes "$@"
    host_agent a 1 --node-rank 0
    host_agent b 2 --node-rank 1
    host_agent c 3 --node-rank 2
    sees a '0/3:0'
    sees b '1/3:0'
    sees c '2/3:0'
}
later() { # MS: until so much later
    later_ms=$(($(now_ms) + $1))
    wait_for "[ \$(now_ms) -ge $later_ms ]" $(($1 / 1000 + 5))
}
X
limit 60

it 'three hosts form a job by the name of the first; one port, on one address' <<'X'
three 3 --nproc-per-node 2
same 6 "$(ups 'world=6 .* at=(node1|10.77.0.1):29400' a b c)"
on 1 ss -Hltn | awk '{ print $4 }' | sort -u >listens
same '10.77.0.1:29400' "$(cat listens)"
all_go
well a b c
nothing_left
X

it 'an endpoint without a port has the default one (C7)' <<'X'
lab heal all
lab_nodes 2
ENDPOINT=node1
host_agent a 1
host_agent b 2
wait_for '[ "$(ups "nodes=2 .*:29400" a b)" -eq 2 ]'
all_go
well a b
nothing_left
X

it 'the host may be called by any name that leads to its address' <<'X'
echo '10.77.0.1 job-service.invalid' >>"$NETLAB_DIR/etc/hosts"
lab_nodes 2
ENDPOINT=job-service.invalid:29400
host_agent a 1
host_agent b 2
wait_for '[ "$(ups "nodes=2" a b)" -eq 2 ]'
all_go
well a b
nothing_left
X

it 'rank 0 is where its node rank says, and its host has the store of the workers (MASTER_ADDR)' <<'X'
lab_nodes 3
host_agent a 1 --node-rank 2
host_agent b 2 --node-rank 0
host_agent c 3 --node-rank 1
sees b '0/3:0'
sees a '2/3:0'
same 3 "$(ups 'at=(node2|10.77.0.2):' a b c)"
all_go
well a b c
nothing_left
X

it 'the name of the host is there only seconds later, and the host after that (C04)' <<'X'
lab_nodes 2
cp "$NETLAB_DIR/etc/hosts" hosts
ENDPOINT=late.invalid:29400
cat >around.sh <<Y
#!/bin/sh
mount --bind $PWD/hosts /etc/hosts && exec "\$@"
Y
chmod +x around.sh
AROUND="unshare -m $PWD/around.sh"
host_agent b 2
later 2000
alive $b
echo '10.77.0.1 late.invalid' >>hosts
later 2000
alive $b
host_agent a 1
wait_for '[ "$(ups "nodes=2" a b)" -eq 2 ]'
all_go
well a b
nothing_left
X

it 'a host that goes silent is lost within seconds; it stops its own workers; healed, it may come back (C58)' <<'X'
three 2:3
from=$(now_ms)
lab cut 3
sees a '0/3:0 0/2:0'
sees b '1/3:0 1/2:0'
in_time "$from" 6000
wait_for '! on 3 pgrep -x puppet >/dev/null' 15
ends $c 75 15
lab heal 3
host_agent c 3
sees a '0/3:0 0/2:0 0/3:0'
sees c '2/3:0'
all_go
well a b c
nothing_left
X

it 'a cut of a second is nobody'"'"'s business' <<'X'
three 2:3
lab cut 3
later 1000
lab heal 3
later 3000
same '0/3:0 1/3:0 2/3:0' "$(story a) $(story b) $(story c)"
all_go
well a b c
nothing_left
X

it 'two nodes that cannot reach each other work with the third, which both can' <<'X'
lab heal all
lab cut 2 3
three 2:3
lab heal 2 3
all_go
well a b c
nothing_left
X

it 'the host of the job is cut off: the others stop within ten seconds, and itself goes on or says why not (C59)' <<'X'
three 2:3
from=$(now_ms)
lab cut 1
ends $b 75 15
ends $c 75 15
in_time "$from" 12000
has b.err 'nothing was heard from the host of the job'
lab heal 1
kill $a 2>/dev/null || true
wait_for '! alive $a' 40
nothing_left
X

it 'an agent is killed on its host: the new round runs within a second (A30)' <<'X'
three 2:3
from=$(now_ms)
kill_agent c
sees a '0/3:0 0/2:0'
sees b '1/3:0 1/2:0'
in_time "$from" 2500
all_go
well a b
nothing_left
X

it 'a host loses its power and comes back' <<'X'
three 2:3
lab kill 3
wait_for '! alive $c'
sees a '0/3:0 0/2:0'
power_on 3
host_agent c 3
sees a '0/3:0 0/2:0 0/3:0'
sees c '2/3:0'
all_go
well a b c
nothing_left
X

it 'far hosts, 100 ms each way, and frames that get lost: the job forms, restarts and ends' <<'X'
lab heal all
lab delay 2 100 10
lab delay 3 50
lab_nodes 3 --max-restarts 1
host_agent a 1 --node-rank 0
host_agent b 2 --node-rank 1
host_agent c 3 --node-rank 2
sees c '2/3:0' 20
sees b '1/3:0' 20
fails 1
sees a '0/3:0 0/3:1' 20
sees b '1/3:0 1/3:1' 20
all_go
for x in $a $b $c; do ends $x 0 20; done
lab heal all
nothing_left
X

it 'two networks: --subnet and --iface choose the one that is published (C06)' <<'X'
nsenter -t "$(lab pid 1)" -n ip link add fast0 type veth peer name fast0 netns "$(lab pid 2)"
on 1 sh -c 'ip addr add 10.99.0.1/24 dev fast0 && ip link set fast0 up'
on 2 sh -c 'ip addr add 10.99.0.2/24 dev fast0 && ip link set fast0 up'
lab_nodes 2
host_agent a 1 --node-rank 0 --subnet 10.99.0.0/24
host_agent b 2 --node-rank 1 --subnet 10.99.0.0/24
wait_for '[ "$(ups "nodes=2 .* at=10.99.0.1:" a b)" -eq 2 ]'
all_go
well a b
host_agent a 1 --node-rank 0 --iface nosuch0
wait_for '! alive $a'
not wait $a
has a.err nosuch0
on 1 ip link del fast0
nothing_left
X

it 'IPv6 alone, and IPv4 where IPv6 is switched off (C05)' <<'X'
for i in 1 2; do on $i sh -c "ip -6 addr add fd77::$i/64 dev eth0 nodad && ip addr del 10.77.0.$i/24 dev eth0"; done
lab_nodes 2
for e in '[fd77::1]:29400' 'six.invalid:29400'; do
    rm -f go
    echo 'fd77::1 six.invalid' >>"$NETLAB_DIR/etc/hosts"
    ENDPOINT=$e
    host_agent a 1
    host_agent b 2
    wait_for '[ "$(ups "nodes=2" a b)" -eq 2 ]'
    all_go
    well a b
    ! grep -iE 'warning|errno|unreachable' a.err b.err || fail 'it complains'
done
rm -f go
for i in 1 2; do on $i sh -c "ip addr add 10.77.0.$i/24 dev eth0 && sysctl -qw net.ipv6.conf.all.disable_ipv6=1"; done
ENDPOINT=node1:29400
host_agent a 1
host_agent b 2
wait_for '[ "$(ups "nodes=2" a b)" -eq 2 ]'
all_go
well a b
! grep -iE 'warning|errno|unreachable' a.err b.err || fail 'it complains'
for i in 1 2; do on $i sysctl -qw net.ipv6.conf.all.disable_ipv6=0; done
nothing_left
X

it 'a host whose own name cannot be resolved takes part, and may host' <<'X'
lab_nodes 2
cat >around.sh <<'Y'
#!/bin/sh
hostname nobody-knows-me.invalid && exec "$@"
Y
chmod +x around.sh
AROUND="unshare --uts $PWD/around.sh"
ENDPOINT=10.77.0.1:29400
host_agent a 1
host_agent b 2
wait_for '[ "$(ups "nodes=2" a b)" -eq 2 ]'
all_go
well a b
nothing_left
X
done_testing
