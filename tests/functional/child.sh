#!/bin/sh
# The state in which a worker starts: what it must not inherit, and what it must.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
# probe [OPTION...]: one worker prints its state, in out.
probe() { expect_status 0 "$CCRUN" "$@" --no-python "$SUPPORT/probe"; }
is() { # is NAME VALUE
    same "$1=$2" "$(grep "^$1=" out)"
}
EOF

it 'no signal is blocked or ignored, whatever ccrun inherited' <<'EOF'
expect_status 0 env --ignore-signal=PIPE,HUP,INT,QUIT,TTIN,TTOU,USR1,CHLD --block-signal=TERM,USR2,CHLD,CONT \
    "$CCRUN" --nproc-per-node 2 --no-python "$SUPPORT/probe"
same 2 "$(grep -cx 'SigBlk=0*' out)"
same 2 "$(grep -cx 'SigIgn=0*' out)"
EOF

it 'a blocked TERM that ccrun inherited still stops the job' <<'EOF'
bg job env --block-signal=TERM "$CCRUN" --no-python "$SUPPORT/heed" TERM=0
wait_for 'grep -q ^up job.out'
kill $pid
ends $pid 143
EOF

it 'exits are seen although CHLD was ignored' <<'EOF'
expect_status 7 env --ignore-signal=CHLD "$CCRUN" --nproc-per-node 2 --no-python sh -c 'exit 7'
expect_status 0 env --ignore-signal=CHLD "$CCRUN" --nproc-per-node 2 --no-python true
EOF

it 'it has the descriptors 0, 1 and 2 only' <<'EOF'
probe 7</dev/null 9<.
is fds '0 1 2 '
probe --nproc-per-node 3 --log-dir l -t 3 7</dev/null
same 3 "$(grep -c 'fds=0 1 2 $' out)"
EOF

it 'and those of --pass-fds' <<'EOF'
probe --pass-fds 9,7 7</dev/null 8</dev/null 9<.
is fds '0 1 2 7 9 '
echo hello >f
"$CCRUN" --nproc-per-node 2 --pass-fds 3 --no-python sh -c 'test $RANK = 0 || exit 0; cat <&3' 3<f >out
same hello "$(cat out)"
expect_status 2 "$CCRUN" --pass-fds 7,9 --no-python true 7</dev/null
has err 'ccrun was started without a descriptor 9'
expect_status 2 "$CCRUN" --pass-fds 2 --no-python true
has err "--pass-fds: '2' is not a descriptor from 3 to 65535"
expect_status 2 "$CCRUN" --pass-fds 3 --mpi pmi1 --no-python true 3</dev/null
has err 'descriptor 3 is that of MPI'
expect_status 2 "$CCRUN" --pass-fds 3 --hosts h1,h2 --no-python true 3</dev/null
has err 'no descriptor of ours reaches'
EOF

it '--umask is that of the workers, not ours' <<'EOF'
umask 077
"$CCRUN" --umask 027 --report report --no-python sh -c 'umask; : >made'
same -rw-r----- "$(stat -c %A made)"
"$CCRUN" --no-python sh -c ': >made2'
same -rw------- "$(stat -c %A made2)"
for wrong in 8 1000 '' 0x3 -1; do
    expect_status 2 "$CCRUN" --umask="$wrong" --no-python true
    has err "--umask: '$wrong' is not an octal number from 0 to 777"
done
EOF

it 'also when ccrun was started without standard streams' <<'EOF'
for close in '<&-' '2>&-' '<&- 2>&-'; do
    eval "\"\$CCRUN\" --no-python sh -c '\"\$SUPPORT/probe\" >probe' $close"
    grep -qx 'fds=0 1 2 ' probe || fail "with $close: $(grep fds probe)"
done
"$CCRUN" --no-python sh -c '"$SUPPORT/probe" >probe' >&-
grep -qx 'fds=0 1 2 ' probe
EOF

it 'nor does the store need them' <<'EOF'
bg store sh -c 'exec "${CCRUN%/*}/ccrun-store" --port 0 --ready-fd 5 5>ready <&- >&- 2>&-'
wait_for 'grep -q "^listening on " ready'
kill $pid
ends $pid 0
EOF

it 'it leads a session of its own and dies with its parent' <<'EOF'
probe
is own_pgrp 1
is own_sid 1
is pdeathsig 9
EOF

it 'umask, limits, niceness, out-of-memory score and folder are those of ccrun' <<'EOF'
umask 027
ulimit -n 200
ulimit -c 0
echo 321 >/proc/$$/oom_score_adj
mkdir here && cd here
cat >w <<'X'
"$SUPPORT/probe"
echo "core=$(ulimit -c) nice=$(nice) in=$(pwd)"
X
expect_status 0 nice -n 3 "$CCRUN" --no-python sh w
is umask 027
is nofile 200
is oom_score_adj 321
has out "core=0 nice=$(($(nice) + 3)) in=$PWD"
EOF

it 'where memory runs out the kernel takes a worker, not ccrun: also after a restart' <<'EOF'
(echo -1 >/proc/$$/oom_score_adj) 2>/dev/null || skip 'a score may not be lowered here'
echo 20 >/proc/$$/oom_score_adj
bg job "$CCRUN" --max-restarts 1 --no-python sh -c '
    cat /proc/$$/oom_score_adj; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || exit 3; exec "$SUPPORT/heed" TERM=0'
wait_for 'grep -q ^up job.out'
same '20 20' "$(grep -v ^up job.out | tr '\n' ' ' | sed 's/ $//')"
for p in $pid $(pgrep -P $pid); do
    wait_for "[ \$(cat /proc/$p/oom_score_adj) = -500 ]"
done
kill $pid
ends $pid 143
EOF

it 'the CPU mask is that of ccrun' <<'EOF'
expect_status 0 taskset -c 0 "$CCRUN" --nproc-per-node 2 --no-python "$SUPPORT/probe"
same 2 "$(grep -cx ncpus=1 out)"
EOF

it 'arguments arrive byte for byte, and the name it was called by' <<'EOF'
line='two
lines'
latin=$(printf '\344\377')
expect_status 0 "$CCRUN" --no-python sh -c 'tr "\0" "\n" </proc/$$/cmdline' '' '$$' '${local_rank}' "$line" "$latin" '*'
printf 'sh\n-c\n%s\n\n$$\n${local_rank}\ntwo\nlines\n\344\377\n*\n' 'tr "\0" "\n" </proc/$$/cmdline' >want
cmp want out
EOF

it 'an argument may be 100 KB long, and a variable may hold any byte' <<'EOF'
long=$(head -c 100000 /dev/zero | tr '\0' x)
expect_status 0 env "ODD=a
b$(printf '\377')" "$CCRUN" --no-python sh -c 'echo ${#1}; printf %s "$ODD"' - "$long"
printf '100000\na\nb\377' >want
head -c 11 out | cmp - want
EOF

it 'it has the environment of ccrun, --env, and the contract on top' <<'EOF'
expect_status 0 env -i A=1 B=2 RANK=7 WORLD_SIZE=9 PATH="$PATH" "$CCRUN" --env B=3 --env C=4 --no-python env
for v in A=1 B=3 C=4 RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1; do
    grep -qx "$v" out || fail "no $v in: $(cat out)"
done
EOF

it 'a crowd of workers that end at once is counted to the last' <<'EOF'
for i in $(count "$(rounds 20)"); do
    expect_status 0 "$CCRUN" --nproc-per-node 64 --no-python true
done
expect_status 9 "$CCRUN" --nproc-per-node 64 --no-python sh -c '[ "$RANK" -ne 63 ] || exit 9'
EOF

it 'each of a crowd has a rank and a process of its own' <<'EOF'
expect_status 0 "$CCRUN" --nproc-per-node 40 --no-python sh -c 'echo "$RANK $$"'
same 40 "$(cut -d' ' -f1 out | sort -nu | wc -l)"
same 40 "$(cut -d' ' -f2 out | sort -nu | wc -l)"
EOF
done_testing
