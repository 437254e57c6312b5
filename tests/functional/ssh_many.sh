# shellcheck shell=sh disable=SC2016
# A hundred hosts by a real ssh: addresses of one machine, whose only sshd is as it comes (MaxStartups 10:30:100).
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
[ "$CCRUN_REPEAT" -ge 50 ] || skip_all 'takes minutes: in a full run only'
netlab_needed 1 sshd ssh ssh-keygen python3
bash "$LAB/netlab.sh" sshd 1 >"$TOP/sshd.log" 2>&1 || skip_all "no sshd here: $(tail -n 1 "$TOP/sshd.log")"
limit 240

# 127.0.0.7 keeps what it is told; 127.0.0.50 is off; at 127.0.0.51 there is no ccrun; 127.0.0.52 says who it is, and no more.
sed -i '/^MaxStartups/d' "$NETLAB_DIR/ssh/sshd_config"
cat >>"$NETLAB_DIR/ssh/sshd_config" <<EOF
Match LocalAddress 127.0.0.7
    ForceCommand tee "$SHARED/block" | sh -c "\$SSH_ORIGINAL_COMMAND"
Match LocalAddress 127.0.0.51
    ForceCommand exec /nowhere/ccrun
EOF
printf '%s\n' 'Host 127.0.0.50' '    Port 2250' 'Host 127.0.0.52' '    Port 2252' >>"$NETLAB_DIR/ssh/config"
cat >"$SHARED/hang.py" <<'EOF'
import socket
server, held = socket.create_server(("127.0.0.52", 2252)), []
while True:
    held.append(server.accept()[0])
    held[-1].sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
EOF
"$SUPPORT/labhelper" exec "$(cat "$NETLAB_DIR/h1.pid")" \
    sh -c 'kill -HUP "$(pgrep -xo sshd)"; setsid python3 "$1" </dev/null >/dev/null 2>&1 &' - "$SHARED/hang.py"
export HEAD_PATH="$NETLAB_DIR/bin:$PATH"

words <<'EOF'
# head_bg NAME ARGS...: ccrun on the machine, in the background
head_bg() {
    head_name=$1; shift
    bg "$head_name" "$SUPPORT/labhelper" exec "$(lab pid 1)" env PATH="$HEAD_PATH" "$CCRUN" "$@"
}
nothing() { wait_for '[ -z "$(lab_left | grep -v hang.py)" ]' 60; }
# given N: all workers are up, and each has every byte of what was set here
given() {
    wait_for "[ \"\$(grep -c '^up ' head.out)\" -eq $1 ]" 200
    same "up $(printf '%s\n' "$ODD" | sha256sum) $(printf '%s\n' "$BIG" | sha256sum)" "$(grep '^up ' head.out | sort -u)"
}
say='echo "up $(printf "%s\n" "$ODD" | sha256sum) $(printf "%s\n" "$BIG" | sha256sum)"; exec sleep 1000'
ODD=$(printf 'x\ny\n"\047$HOME `id` \\ \377\001 end')
BIG=$(head -c 100000 /dev/urandom | base64 -w 70 | head -c 102400)
export ODD BIG
all=$(seq -f 127.0.0.%g -s , 2 101)
EOF

for how in 10 128; do # a tree, and each from the head
    it "--ssh-fanout $how: three are not there, and are named; the others work, each with all that it was given" <<E
head_bg head --nnodes 97:100 --rdzv-conf last_call_timeout=60 --ssh-fanout $how --hosts \$all --no-python sh -c "\$say" hush-hush
given 97
has head.err 'node 48 (127.0.0.50): no agent could be started: ssh: connect to host 127.0.0.50 port 2250: Connection refused' \\
    'node 49 (127.0.0.51): there is no ccrun that can be run (' 'node 50 (127.0.0.52): no agent could be started: '
same 3 "\$(grep -c 'ccrun: error' head.err)"
tail -c 33 "\$SHARED/block" | head -c 32 | od -An -tx1 -v | tr -d ' \n' >secret
same 64 "\$(wc -c <secret)"
on 1 sh -c 'cat /proc/[0-9]*/cmdline' >lines
grep -aq hush-hush lines # the head's and the workers', but not ssh's
on 1 pgrep -ax ssh >ssh
not grep -q hush-hush ssh
not grep -aqF "\$(cat secret)" lines
od -An -tx1 -v lines | tr -d ' \n' >seen
not grep -qF "\$(cat secret)" seen
kill -TERM \$pid
ends \$pid 143 60
nothing
E
done

it 'with none to spare: the first that is missing ends it, and nothing is left' <<'E'
expect_status 75 on 1 env PATH="$HEAD_PATH" "$CCRUN" --hosts "$(seq -f 127.0.0.%g -s , 2 50)" --no-python sleep 1000
has err 'node 48 (127.0.0.50): no agent could be started: ssh: connect to host 127.0.0.50 port 2250: Connection refused'
nothing
E

it 'the head is killed: nothing is left on a hundred hosts' <<'E'
head_bg head --hosts "$(seq -f 127.0.0.%g -s , 2 49),$(seq -f 127.0.0.%g -s , 53 104)" --no-python sh -c "$say"
given 100
on 1 sh -c 'kill -KILL $(ps -eo pid,args | awk "/[c]crun --hosts/ { print \$1; exit }")'
ends $pid 137
nothing
E
done_testing
