# shellcheck shell=sh disable=SC2016
# A job that is started on its hosts by ssh: real sshd, on hosts of their own.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 3 sshd ssh ssh-keygen
bash "$LAB/netlab.sh" sshd all >"$TOP/sshd.log" 2>&1 || skip_all "no sshd here: $(tail -n 1 "$TOP/sshd.log")"
export HEAD_PATH="$NETLAB_DIR/bin:$PATH"
limit 30

words <<'EOF'
# head_ ARGS...: ccrun on node1, with an ssh that may log in on the others.
head_() { on 1 env PATH="$HEAD_PATH" "$CCRUN" "$@"; }
# head_bg NAME ARGS...: the same in the background; $pid passes signals on.
head_bg() {
    head_name=$1; shift
    bg "$head_name" "$SUPPORT/labhelper" exec "$(lab pid 1)" env PATH="$HEAD_PATH" "$CCRUN" "$@"
}
EOF

it 'starts an agent on each host, in the order of the list, with its slots' <<'E'
head_ --hosts node1:2,node3,node2:1 --no-python sh -c 'echo $RANK of $WORLD_SIZE: $(hostname) $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $GROUP_RANK' >out
sort out >sorted
same '0 of 4: node1 0 of 2, node 0
1 of 4: node1 1 of 2, node 0
2 of 4: node3 0 of 1, node 1
3 of 4: node2 0 of 1, node 2' "$(cat sorted)"
nothing_left
E

it 'lets a host start another one' <<'E'
head_ --ssh-fanout 1 --hosts node1,node2,node3 --no-python sh -c 'echo $RANK of $WORLD_SIZE: $(hostname) from ${SSH_CONNECTION%% *}' >out
sort out >sorted
matches sorted '^1 of 3: node2 from .*\.1$'
matches sorted '^2 of 3: node3 from .*\.2$'
nothing_left
expect_status 75 head_ --ssh-fanout 1 --hosts node1,node2,node9 --no-python sleep 1000
has err 'ccrun: error: node 2 (node9): no agent could be started: ssh: Could not resolve hostname node9' '; and by way of node2: '
nothing_left
E

it 'reads host files, and leaves out whom it is told to' <<'E'
printf '# mine\nnode1 slots=1\nnode2 slots=2 # two\nnode3 slots=1\n' >hosts
head_ --hostfile hosts --exclude node3 --no-python sh -c 'echo $RANK $(hostname)' >out
same '0 node1,1 node2,2 node2' "$(sort out | paste -sd,)"
head_ --hostfile hosts --include node3@node1 --no-python sh -c 'echo $RANK $(hostname)' >out
same '0 node1,1 node3' "$(sort out | paste -sd,)"
echo 'node1 slots=many' >>hosts
expect_status 2 head_ --hostfile hosts --no-python true
has err 'hosts:5: '
E

it 'gives every worker the environment, the arguments and the directory byte for byte' <<'E'
mkdir 'a b'
cd 'a b'
value=$(printf 'x\ny\n"\047$HOME `id` \\ \377\001 end')
big=$(head -c 120000 /dev/zero | tr '\0' z)
on 1 env PATH="$HEAD_PATH" WEIRD="$value" BIG="$big" EMPTY= HOME=/head "$CCRUN" --hosts node1,node2 --no-python \
    sh -c 'env -0 >"env.$RANK"; pwd >"pwd.$RANK"; printf "%s\n" "$@" >"args.$RANK"' x "$value" '' '*' -v
env -i WEIRD="$value" env -0 >want
for rank in 0 1; do
    same "$PWD" "$(cat pwd.$rank)"
    printf '%s\n' "$value" '' '*' -v | cmp - args.$rank
    grep -az '^WEIRD=' env.$rank >got
    cmp want got
    same 120005 "$(grep -az '^BIG=' env.$rank | wc -c)"
    grep -aqzx 'EMPTY=' env.$rank
done
not grep -aqzx 'HOME=/head' env.1
grep -aqz '^SSH_CONNECTION=' env.1
E

it 'shows nobody the environment, the arguments or the secret of the job' <<'E'
head_bg head --hosts node1,node2 --no-python sh -c 'sleep 1000; true' topsecret-argument
wait_for 'lab left 2 | grep -q "sleep 1000"'
lab left 1 >ps
lab left 2 >>ps
same 1 "$(grep -c 'ssh .*-- node2' ps)"
not grep 'ssh .*topsecret' ps
same 3 "$(grep -c topsecret ps)" # the head and two workers
kill -TERM $pid
ends $pid 143
nothing_left
E

it 'names the host that is down, stops the others and leaves nothing' <<'E'
started=$(now_ms)
expect_status 75 head_ --hosts node1,node9,node2 --no-python sleep 1000
has err 'ccrun: error: node 1 (node9): no agent could be started: ssh: Could not resolve hostname node9'
in_time "$started" 5000
nothing_left
lab cut 3
started=$(now_ms)
expect_status 75 head_ --ssh-args '-o ConnectTimeout=1' --hosts node1,node2,node3 --no-python sleep 1000
has err 'ccrun: error: node 2 (node3): no agent could be started: ssh: connect to host node3 port 22:'
in_time "$started" 10000
lab heal 3
nothing_left
E

it 'goes on without a host that is down when the job needs no more' <<'E'
head_ --nnodes 2:3 --rdzv-conf last_call_timeout=1 --hosts node1,node9,node2 --no-python sh -c 'echo $RANK of $WORLD_SIZE' >out 2>err
same '0 of 2,1 of 2' "$(sort out | paste -sd,)"
has err 'node 1 (node9): no agent could be started'
E

it 'says where there is no ccrun' <<'E'
expect_status 127 head_ --launch-agent /nowhere/ccrun --hosts node2,node3 --no-python true
has err 'ccrun: error: node ' 'there is no ccrun that can be run (' '--launch-agent'
nothing_left
E

it 'tells the 255 of a worker from that of ssh' <<'E'
expect_status 255 head_ --hosts node1,node2 --no-python sh -c 'test $RANK = 0 || exit 255; sleep 1000'
has err 'on node2 exited with code 255'
lacks err 'lost' 'no agent could'
nothing_left
E

it 'tells the cause once, and not once for each node' <<'E'
expect_status 3 head_ --hosts node1,node2,node3 --no-python sh -c 'test $RANK != 1 || exit 3; sleep 1000'
same 1 "$(grep -c '^ccrun: ChildFailedError' err)"
same 1 "$(grep -c '^Root Cause' err)"
E

it 'passes signals on to the workers of every node' <<'E'
head_bg head --hosts node1:2,node2 --no-python sh -c 'trap "echo usr1" USR1; trap "echo term; exit 0" TERM; echo up; while :; do sleep 0.05; done'
wait_for 'test "$(grep -cx up head.out)" = 3'
kill -USR1 $pid
wait_for 'test "$(grep -cx usr1 head.out)" = 3'
kill -TERM $pid
ends $pid 143
same 3 "$(grep -cx term head.out)"
nothing_left
E

it 'leaves nothing anywhere when it is killed' <<'E'
head_bg head --hosts node1:2,node2:2,node3 --no-python sh -c 'setsid sleep 1000 & exec sleep 1000'
wait_for 'test "$(lab_left | grep -cE "^ *[0-9]+ [^ ]+ +sleep 1000$")" = 10'
on 1 sh -c 'kill -KILL $(ps -eo pid,args | awk "/[c]crun --hosts/ { print \$1; exit }")'
ends $pid 137
nothing_left
E

it 'ends the others when a host loses its power, and says which' <<'E'
head_bg head --ssh-args '-o ServerAliveInterval=1 -o ServerAliveCountMax=2' --hosts node1,node2,node3 --no-python sleep 1000
wait_for 'test "$(lab_left | grep -cE "^ *[0-9]+ [^ ]+ +sleep 1000$")" = 3'
lab kill 2
ends $pid 75 20
has head.err 'node 1 (node2) is lost'
nothing_left
E

limit 60
it 'keeps lines whole, whoever else writes' <<'E'
power_on 2
lab sshd 2
head_ --hosts node1:2,node2:2,node3:2 --no-python sh -c 'i=0; while [ $i -lt 300 ]; do printf "<%s %0500d>\n" $RANK $i; i=$((i+1)); done' >out
same 1800 "$(grep -cE '^<[0-5] [0-9]{500}>$' out)"
same 1800 "$(wc -l <out)"
nothing_left
E

it 'shows what it would do' <<'E'
head_ --hosts node2:2,root@node3 --ssh-args '-o "ProxyCommand=x y"' --dry-run x.py >out
has out "node 0 (node2): ssh -o 'ProxyCommand=x y' -T -x -o BatchMode=yes" '-l root -- node3 '
head_ --hosts node2:2,node3 --show-config x.py >out
has out 'nnodes = 2 (--hosts)' 'rdzv-endpoint = node2:'
expect_status 2 head_ --hosts node2 --hostfile x true
has err '--hosts and --hostfile both name the nodes'
expect_status 2 head_ --hosts node2,node3 --nnodes 3 true
has err '--nnodes 3 needs 3 nodes, and --hosts names 2'
expect_status 2 head_ --hosts node1,node2,node3 --nnodes 2 true
has err '--hosts names 3 nodes, and --nnodes 2 needs no more than 2'
E

done_testing
