# shellcheck shell=sh disable=SC2016
# The head of a job and its agents, with an ssh that runs the command here: what needs no hosts of its own.
. "$(dirname "$0")/lib.sh"
limit 30

words <<'EOF'
# An ssh: options, --, host, command.  The host is in $SSH_HOSTED there, and of our environment little else.
mkdir bin
cat >bin/ssh <<'X'
#!/bin/sh
echo "$*" >>"$SSH_LOG"
until [ "$1" = -- ]; do shift; done
case $2 in
down*) echo "ssh: connect to host $2 port 22: No route to host" >&2; exit 255 ;;
slow*) exec sleep 1000 ;; # ended by TERM at any moment, as ssh is
busy*) # so many times, as where sshd's MaxStartups is reached
    [ "$(grep -c -- "-- $2" "$SSH_LOG")" -gt "${2#busy}" ] || {
        echo 'kex_exchange_identification: read: Connection reset by peer' >&2
        exit 255
    } ;;
lost*) # its connection breaks once all are at work
    exec 3<&0
    env -i SSH_HOSTED="$2" PATH="$PATH" sh -c "$3" <&3 &
    until [ -e "$T/all-up" ]; do sleep 0.05; done
    kill -9 $!
    exit 255 ;;
esac
echo 'Warning: a greeting' >&2
exec env -i SSH_HOSTED="$2" PATH="$PATH" HOME=/there sh -c "$3"
X
chmod +x bin/ssh
export SSH_LOG="$T/ssh.log" PATH="$T/bin:$PATH"
: >ssh.log
at() { echo --rdzv-endpoint "127.0.0.1:$("$SUPPORT/freeport")"; }
# left: what still leads to an agent, or is one, of this case: other tests start theirs at the same time
left() {
    for left_pid in $(pgrep -f 'bin/ssh|agent-fd'); do
        ! grep -qzF "PATH=$T/bin:" "/proc/$left_pid/environ" 2>/dev/null || echo "$left_pid"
    done
}
EOF

it 'starts an agent for each host, and needs no ssh for its own' <<'E'
"$CCRUN" $(at) --hosts "h1:2,$(hostname),localhost:1,h2:1" --no-python \
    sh -c 'echo $RANK of $WORLD_SIZE: ${SSH_HOSTED:-here} $LOCAL_RANK of $LOCAL_WORLD_SIZE' >out 2>err
same '0 of 5: h1 0 of 2
1 of 5: h1 1 of 2
2 of 5: here 0 of 1
3 of 5: here 0 of 1
4 of 5: h2 0 of 1' "$(sort out)"
same 2 "$(wc -l <ssh.log)"
lacks err greeting
"$CCRUN" -v $(at) --hosts h1,h2 --no-python true 2>err
has err greeting 'node 1 (h2): the agent is up'
E

it 'one host down: named, the others stopped, nothing left (C35)' <<'E'
for hosts in h1,h2,down down,h1,h2 h1,down7,slow; do
    rm -f err
    expect_status 75 "$CCRUN" $(at) --hosts $hosts --no-python sleep 1000
    has err 'ccrun: error: node ' ' (down' 'no agent could be started: ssh: connect to host down' 'No route to host'
done
E

it 'a server that lets in no more for now is asked again, for a while, and a signal does not wait for that' <<'E'
"$CCRUN" -v $(at) --hosts h1,busy1,busy2 --no-python sh -c 'echo $RANK $SSH_HOSTED' >out 2>err
same '0 h1,1 busy1,2 busy2' "$(sort out | paste -sd,)"
matches err 'ccrun: node 1 \(busy1\): kex_exchange_identification: read: Connection reset by peer; once more in 0\.[1-4] s'
same 3 "$(grep -c 'once more in' err)"
bg head "$CCRUN" -v $(at) --hosts h1,busy99 --no-python sleep 1000
wait_for 'test "$(grep -c "once more in" head.err)" = 3'
started=$(now_ms)
kill -TERM $pid
ends $pid 143
in_time "$started" 3000
[ "$CCRUN_REPEAT" -ge 50 ] || skip 'until it is given up takes 8 s: in a full run only'
expect_status 75 "$CCRUN" $(at) --hosts h1,busy98 --no-python sleep 1000
has err 'node 1 (busy98): no agent could be started: kex_exchange_identification: read: Connection reset by peer (tried 6 times)'
E

it 'the environment, but for what is a node'\''s own, and the arguments arrive byte for byte (C74)' <<'E'
odd=$(printf 'x\ny\n"\047$HOME `id` \\ \377\001 end')
SLURM_PROCID=3 ODD="$odd" HOME=/here "$CCRUN" $(at) --hosts h1,localhost --no-python \
    sh -c 'env -0 >env.$RANK; printf "%s\0" "$@" >args.$RANK' x "$odd" '' "it's" 2>err
env -i ODD="$odd" env -0 >want
printf '%s\0' "$odd" '' "it's" >args
for rank in 0 1; do
    grep -az '^ODD=' env.$rank >got
    cmp want got
    cmp args args.$rank
done
grep -aqzx HOME=/there env.0
grep -aqzx HOME=/here env.1
not grep -aqz SLURM_PROCID env.0
E

it 'nobody sees the arguments, and the agents know each other by a secret' <<'E'
bg head "$CCRUN" $(at) --hosts h1,h2 --no-python sh -c 'echo up; sleep 1000; true' hush
wait_for 'test "$(grep -cx up head.out)" = 2'
same 2 "$(wc -l <ssh.log)"
lacks ssh.log hush sleep
kill -INT $pid
ends $pid 130
E

it 'the secret and the environment are forgotten by whoever does not need them any more (C68)' <<'E'
mkfifo way
printf '#!/bin/sh\nexec 3<&0\ntee "%s" <&3 >"%s" &\nexec "$@" <"%s" 3<&-\n' "$T/block" "$T/way" "$T/way" >wrap
chmod +x wrap
bg head env MARK=mark-of-the-environment "$CCRUN" $(at) --launch-agent "$T/wrap '$CCRUN'" --hosts h1 --no-python \
    sh -c 'echo up $PPID; exec sleep 1000'
wait_for 'grep -q "^up " head.out'
agent=$(sed 's/^up //' head.out)
keeper=$(ps -o ppid= -p "$agent" | tr -d ' ')
same ccrun-keeper "$(cat "/proc/$keeper/comm")"
tail -c 33 block | head -c 32 >secret
"$SUPPORT/inmemory" "$agent" <secret # or this would find nothing anywhere
printf mark-of-the-environment >mark
for what in secret mark; do not "$SUPPORT/inmemory" "$keeper" <$what; done
not "$SUPPORT/inmemory" "$pid" <secret
for task in "$pid" "$agent" "$keeper" "$(ps -o pid= --ppid "$agent" | tr -d ' ')"; do
    cat "/proc/$task/environ" "/proc/$task/cmdline" | od -An -tx1 -v | tr -d ' \n' >seen
    not grep -qF "$(od -An -tx1 -v secret | tr -d ' \n')" seen
done
not grep -aq mark-of "/proc/$keeper/environ"
kill -TERM "$pid"
ends "$pid" 143
E

it 'the status is the first worker'\''s, 255 too, and stdin belongs to node 0' <<'E'
expect_status 255 "$CCRUN" $(at) --hosts h1,h2 --no-python sh -c 'test $RANK = 0 || exit 255; sleep 1000'
lacks err lost 'no agent'
expect_status 4 "$CCRUN" $(at) --hosts localhost,h2 --no-python sh -c 'test $RANK = 1 || { read x; echo "$x" >got; sleep 1000; }
    until [ -s got ]; do sleep 0.02; done; read x || exit 4' <<X
a line
X
same 'a line' "$(cat got)"
E

it 'an agent that is lost is named, and the job ends' <<'E'
started=$(now_ms)
expect_status 75 "$CCRUN" $(at) --shutdown-timeout 1 --hosts h1,lost --no-python sh -c 'test $RANK = 0 || touch "$T/all-up"; sleep 1000'
has err 'the agent on node 1 (lost) is lost: ssh ended with status 255'
in_time "$started" 15000
E

it 'leaves nothing when it is killed, also while it starts agents' <<'E'
bg head "$CCRUN" $(at) --hosts h1:2,localhost --no-python sh -c 'setsid sleep 1000 & echo up; exec sleep 1000'
wait_for 'test "$(grep -cx up head.out)" = 3'
test -n "$(left)"
kill -KILL $pid
ends $pid 137
wait_for '[ -z "$(left)" ]'
E

it 'runs the agent as it is told to' <<'E'
printf '#!/bin/sh\necho "$SSH_HOSTED wrapped" >&2\nexec "$@"\n' >wrap
chmod +x wrap
"$CCRUN" $(at) --launch-agent "$T/wrap '$CCRUN'" --hosts h1,localhost --no-python sh -c 'echo $RANK' >out 2>err
same '0,1' "$(sort out | paste -sd,)"
for status in 126:/ 127:/nowhere/ccrun; do
    expect_status ${status%%:*} "$CCRUN" $(at) --launch-agent ${status#*:} --hosts h1,h2 --no-python true
    has err 'there is no ccrun that can be run' '--launch-agent'
done
E

it 'a directory that is not there is named' <<'E'
mkdir gone
printf '#!/bin/sh\nrmdir "%s"\nexec "$@"\n' "$T/gone" >wrap
chmod +x wrap
cd gone
expect=0
"$CCRUN" $(at) --launch-agent "$T/wrap '$CCRUN'" --hosts h1 --no-python true 2>../err || expect=$?
same 127 $expect
has ../err "the working directory '$T/gone' is not on this node"
E

it 'a node that lacks the directory ends the job at once, with its status' <<'E'
mkdir gone
cat >wrap <<X
#!/bin/sh
[ "\$SSH_HOSTED" != h2 ] || { until grep -q 'hosts the job' "$T/err"; do sleep 0.02; done; rmdir "$T/gone"; }
exec "\$@"
X
chmod +x wrap
cd gone
started=$(now_ms)
expect=0
"$CCRUN" $(at) --launch-agent "$T/wrap '$CCRUN'" --hosts localhost,h2 --no-python sleep 1000 >../out 2>../err || expect=$?
same 127 $expect
in_time "$started" 8000
has ../err "the working directory '$T/gone' is not on this node" 'takes no part'
E

it 'shows what it would do, and starts nothing' <<'E'
"$CCRUN" $(at) --hosts h1:3,u@h2 --dry-run --print-env --no-python true >out
has out 'node 0 (h1): ssh ' 'node 1 (h2): ssh ' '-l u -- h2 ' 'WORLD_SIZE='
same 0 "$(wc -l <ssh.log)"
"$CCRUN" $(at) --ssh-args '-o "ProxyCommand=it'"'"'s y"' --hosts h1 --dry-run --no-python true >out
has out " -- h1 'test -x "
eval "set -- $(sed -n 's/^.*node 0 (h1): //p' out)"
same "ProxyCommand=it's y" "$3"
shift $(($# - 1))
case $1 in 'test -x '*) ;; *) fail "the last word is $1" ;; esac
expect_status 2 "$CCRUN" --hosts h1,h2 --spares 2 --no-python true
has err '--spares 2 leaves none of the 2 nodes of --hosts to work'
expect_status 2 "$CCRUN" --ssh-args '"x' --hosts h1 --no-python true
has err '--ssh-args: a " that is not closed'
E

it 'an agent that is told nothing, or nonsense, says so' <<'E'
expect_status 70 "$CCRUN" --agent-fd 0
has err 'before all of the job'\''s data had come'
echo 'hello world, hello' >in
expect_status 70 sh -c '"$CCRUN" --agent-fd 0 <in'
has err 'what came is not the data of a job'
expect_status 70 "$CCRUN" --agent-fd 77
has err '--agent-fd 77: Bad file descriptor'
E

done_testing
