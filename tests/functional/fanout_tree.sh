# shellcheck shell=sh disable=SC2016
# Many hosts, of which some start the others, with an ssh that runs the command here.
. "$(dirname "$0")/lib.sh"
limit 60

words <<'EOF'
# An ssh: options, --, host, command.  Who logs in where is noted; of our environment the host knows little.
mkdir bin
cat >bin/ssh <<'X'
#!/bin/sh
args=$*
until [ "$1" = -- ]; do shift; done
echo "${SSH_HOSTED:-here} to $2: $args" >>"$T/ssh.log"
case ${SSH_HOSTED:-here}/$2 in
*/down*) echo "ssh: connect to host $2 port 22: No route to host" >&2; exit 255 ;;
here/*) ;;
*/shy*) echo "$2: Permission denied (publickey)." >&2; exit 255 ;;
esac
exec env -i SSH_HOSTED="$2" PATH="$PATH" HOME=/there sh -c "$3"
X
chmod +x bin/ssh
export PATH="$T/bin:$PATH"
: >ssh.log
at() { echo --rdzv-endpoint "127.0.0.1:$("$SUPPORT/freeport")"; }
hosts() { seq -f "$1%03g" -s , "$2" "$3"; }
# from HOST: how many logins it made
from() { grep -c "^$1 to " ssh.log || true; }
up() { wait_for "test \"\$(grep -cx up head.out)\" = $1" 30; }
# left: what still leads to an agent, or is one, of this case: other tests start theirs at the same time
left() {
    for left_pid in $(pgrep -f 'bin/ssh|agent-fd'); do
        ! grep -qzF "PATH=$T/bin:" "/proc/$left_pid/environ" 2>/dev/null || echo "$left_pid"
    done
}
EOF

it 'a hundred hosts: the head logs in on ten, and each of those on nine' <<'E'
"$CCRUN" $(at) --hosts "$(hosts h 0 99)" --no-python sh -c 'echo "$RANK of $WORLD_SIZE $SSH_HOSTED"' hush >out
seq -f '%g' 0 99 | while read -r i; do printf '%d of 100 h%03d\n' "$i" "$i"; done >want
sort -n out | cmp want -
same 10 "$(from here)"
same 100 "$(wc -l <ssh.log)"
for i in 000 010 090; do same 9 "$(from h$i)"; done
lacks ssh.log hush RANK
E

it 'what was said of each host, and what is given to each agent, arrives by way of another too' <<'E'
odd=$(printf 'x\ny\n"\047$HOME \377 end')
ODD="$odd" HOME=/here "$CCRUN" $(at) --ssh-fanout 1 --ssh-args '-o "ProxyCommand=x y"' --hosts 'h1,u@h2:2,h3' --no-python \
    sh -c 'env -0 >env.$RANK; printf "%s\0" "$@" >args.$RANK; echo $RANK $LOCAL_WORLD_SIZE $GROUP_RANK $SSH_HOSTED' x "$odd" '' >out
same '0 1 0 h1,1 2 1 h2,2 2 1 h2,3 1 2 h3' "$(sort out | paste -sd,)"
has ssh.log 'here to h1: -o ProxyCommand=x y ' 'h1 to h2: -o ProxyCommand=x y ' '-l u -- h2'
env -i ODD="$odd" env -0 >want
printf '%s\0' "$odd" '' >args
for rank in 0 1 2 3; do
    grep -az '^ODD=' env.$rank >got
    cmp want got
    cmp args args.$rank
    grep -aqzx HOME=/there env.$rank
done
E

it 'this machine needs no ssh, and keeps its standard input' <<'E'
echo 'a line' | "$CCRUN" $(at) --ssh-fanout 1 --hosts "localhost,h1,h2,$(hostname),h3,h4" --no-python \
    sh -c 'read x || x=none; echo "$RANK ${SSH_HOSTED:-here} $x"' >out
same '0 here a line,1 h1 none,2 h2 none,3 here none,4 h3 none,5 h4 none' "$(sort out | paste -sd,)"
same 'here to h1,h1 to h2,here to h3,h3 to h4' "$(sed 's/:.*//' ssh.log | sort -k3 | paste -sd,)"
E

it 'a host that is down is named with the way to it, and the others are stopped' <<'E'
expect_status 75 "$CCRUN" $(at) --ssh-fanout 3 --hosts "$(hosts h 0 5),down6,$(hosts h 7 11)" --no-python sleep 1000
has err 'ccrun: error: node 6 (down6): no agent could be started: ssh: connect to host down6 port 22: No route to host; and by way of h004: ssh: connect to host down6'
same 1 "$(grep -c 'ccrun: error' err)"
expect_status 75 "$CCRUN" $(at) --ssh-fanout 2 --hosts down1,h2,h3,h4 --no-python sleep 1000
has err 'ccrun: error: node 0 (down1): no agent could be started: ssh: connect to host down1'
E

it 'hosts that do not let others in are reached from here' <<'E'
"$CCRUN" $(at) --ssh-fanout 3 --hosts "$(hosts shy 0 11)" --no-python sh -c 'echo $SSH_HOSTED' >out 2>err
same 12 "$(sort -u out | wc -l)"
same 12 "$(from here)"
lacks err 'no agent' Permission
E

it 'goes on without a host that is down when the job needs no more' <<'E'
"$CCRUN" $(at) --nnodes 2:4 --rdzv-conf last_call_timeout=1 --ssh-fanout 1 --hosts h1,down,h2,h3 --no-python \
    sh -c 'echo $WORLD_SIZE' >out 2>err
same '3,3,3' "$(paste -sd, out)"
has err 'node 1 (down): no agent could be started'
E

it 'three levels: signals and the first status pass through all of them' <<'E'
bg head "$CCRUN" $(at) --ssh-fanout 2 --hosts "$(hosts h 0 12)" --no-python sh -c 'trap "echo usr1" USR1
    trap "echo term; exit 0" TERM; echo up; while :; do sleep 0.05; done'
up 13
same 2 "$(from here)"
grep -vE '^(here|h000|h007) to' ssh.log | grep -q .
kill -USR1 "$pid"
wait_for 'test "$(grep -cx usr1 head.out)" = 13' 30
kill -TERM "$pid"
ends "$pid" 143 30
same 13 "$(grep -cx term head.out)"
expect_status 255 "$CCRUN" $(at) --ssh-fanout 2 --hosts "$(hosts h 0 6)" --no-python sh -c 'test $RANK = 5 || sleep 1000; exit 255'
lacks err lost 'no agent'
E

it 'leaves nothing when it is killed, or when a host on the way is lost, which is named' <<'E'
bg head "$CCRUN" $(at) --ssh-fanout 1 --hosts h1,h2,h3 --no-python sh -c 'setsid sleep 1000 & echo up; exec sleep 1000'
up 3
test -n "$(left)"
kill -KILL "$pid"
ends "$pid" 137
wait_for '[ -z "$(left)" ]' 30
bg head "$CCRUN" $(at) --shutdown-timeout 1 --ssh-fanout 1 --hosts "localhost,h1,h2,h3" --no-python sh -c 'echo up; exec sleep 1000'
up 4
for task in $(pgrep -P "$pid"); do ! grep -qz SSH_HOSTED=h1 "/proc/$task/environ" || kill -KILL "$task"; done
ends "$pid" 75 30
has head.err 'the agent on node 1 (h1) is lost' 'the agent on node 3 (h3) is lost'
E

it 'shows what it would do' <<'E'
"$CCRUN" $(at) --ssh-fanout 2 --hosts h0,h1,h2,h3 --dry-run x.py >out
has out 'nodes 0 to 1 (h0, which starts the others): ssh ' 'nodes 2 to 3 (h2, which starts the others): ssh '
expect_status 2 "$CCRUN" --ssh-fanout 0 --hosts h1,h2 x.py
has err '--ssh-fanout 0 is out of range (1 to 1024)'
E

done_testing
