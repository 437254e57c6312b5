#!/bin/sh
# What the workers print: the console, labels, tee and redirect, files, progress bars, and what happens when things fill up,
# are killed, or nobody reads.
#
# Where torchrun differs: it tails files every 0.1 s, tears lines, makes \n of \r and U+FFFD of other bytes, prints tee'd
# lines late, leaves a directory in /tmp behind each run, and lets a full disk kill the workers.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
# Every directory for temporary files is a fresh one, so that what is left behind can be counted.
export TMPDIR=$T/tmp
mkdir -p "$TMPDIR"
# job NPROC 'shell script of a worker' [option...]: output in out and err, status in $st.
job() {
    job_n=$1 job_script=$2; shift 2
    st=0
    "$CCRUN" --nproc-per-node "$job_n" "$@" --no-python sh -c "$job_script" >out 2>err || st=$?
}
# log RANK NAME [ATTEMPT]: the path of a log file below ./logs.
log() { echo logs/*/attempt_"${3:-0}"/"$1"/"$2"; }
# sequence RANK FILE: the lines of a chatter are all there, in order and whole; prints how many.
sequence() {
    awk -v r="$1" '$0 !~ "^writer +" r " line +[0-9]+ +end$" || $4 != n { print "line " NR ": " $0; exit 1 } { n++ }
        END { print n + 0 }' "$2"
}
EOF

it 'lines in three pieces from four workers arrive whole (C38)' <<'EOF'
"$CCRUN" --nproc-per-node 4 --label --no-python "$SUPPORT/chatter" pieces 1000 >out
same 4000 "$(grep -c . out)"
for r in 0 1 2 3; do
    sed -n "s/^\[$r\] //p" out >"own.$r"
    same 1000 "$(sequence $r "own.$r")"
    same 200 "$(head -n 1 "own.$r" | wc -c)"
done
EOF

it 'without labels the merged lines are the bytes of the workers' <<'EOF'
"$CCRUN" --nproc-per-node 2 --no-python "$SUPPORT/chatter" stream 20000 >out
for r in 0 1; do
    grep "^writer  $r " out >"own.$r"
    same 20000 "$(sequence $r "own.$r")"
done
same 40000 "$(grep -c . out)"
EOF

it 'a last line without newline is completed, and standard error stays apart (B15)' <<'EOF'
job 2 'printf "out $RANK"; printf "err $RANK" >&2'
same 'out 0 out 1 ' "$(sort out | tr '\n' ' ')"
same 'err 0 err 1 ' "$(sort err | tr '\n' ' ')"
EOF

it 'with --merge what a worker writes keeps its order, and all of it is stdout' <<'EOF'
script='for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done; exit $RANK'
job 2 "$script" --merge --log-dir logs -t 0:3
same 1 "$st"
for i in 1 2 3 4 5; do echo "o$i"; echo "e$i"; done >want
same "$(cat want)" "$(sed -n 's/^\[default0\]://p' out)"
same "$(cat want)" "$(cat "$(log 0 stdout.log)")"
[ ! -e "$(log 0 stderr.log)" ]
has err 'Last 10 lines of the output of rank 1'
same "$(sed 's/^/  /' want)" "$(sed -n '/Last 10/,$p' err | sed 1d)"
for wrong in '-r 2' '--tee 0:2' '--duplicate-stderr-filters x'; do
    expect_status 2 "$CCRUN" --merge $wrong --no-python true
    has err 'ccrun: error: --merge: '
done
EOF

it 'no byte is changed, on the console or in a file' <<'EOF'
printf 'a\0b\377\376\n\303(\t\033[1m\n' >want
job 1 'cat want'
cmp out want
job 1 'cat want' -r 1 --log-dir logs
cmp "$(log 0 stdout.log)" want
empty out
EOF

it 'off a terminal a progress bar is a line a second at most, and bars are not glued (C38)' <<'EOF'
job 2 'i=0; while [ $i -lt 100 ]; do i=$((i + 1)); printf "\r%d%%|####" $i; done; printf "\n" ' --label
same '[0] 100%|#### [1] 100%|#### ' "$(sort out | tr '\n' ' ')"
job 2 'i=0; while [ $i -lt 25 ]; do i=$((i + 1)); printf "%d%%|####\r" $i; sleep 0.1; done'
[ "$(grep -c . out)" -ge 4 ] && [ "$(grep -c . out)" -le 8 ] || fail "$(cat out)"
same 2 "$(grep -c '^25%|####$' out)"
not grep -vE '^[0-9]+%\|####$' out
EOF

it '--cr=keep passes every carriage return on' <<'EOF'
job 1 'printf "\r10%%\r20%%\r\n"' --cr keep
printf '\r10%%\r20%%\r\n' >want
cmp out want
EOF

it 'on a terminal one worker has it to itself, two share its last row for their bars' <<'EOF'
command -v script >/dev/null || skip 'no script(1)'
script -qec "\"\$CCRUN\" --no-python sh -c 'test -t 1 && test -t 2 && echo mine'" /dev/null >out </dev/null
has out mine
cat >bars <<'END'
test -t 1 || printf '\r10%%\r'
sleep 0.2
echo done
END
script -qec "\"\$CCRUN\" --nproc-per-node 2 --no-python sh bars" /dev/null >out </dev/null
printf '\r10%%' >bar
has out "$(cat bar)"
lacks out '10%done'
same 2 "$(tr '\r' '\n' <out | grep -c '^done$')"
EOF

it 'tee labels with role and local rank, or by the template (R23, W9)' <<'EOF'
job 4 'echo "[LOCAL_RANK] $LOCAL_RANK"; echo oops >&2' --tee=3 --redirect=3
for r in 0 1 2 3; do
    has out "[default$r]:[LOCAL_RANK] $r"
    has err "[default$r]:oops"
done
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[${role_name}|$rank ${foo} $$]: '
job 2 'echo hello' --tee=3 --role trainer
same '[trainer|0 ${foo} $]: hello [trainer|1 ${foo} $]: hello ' "$(sort out | tr '\n' ' ')"
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=
job 1 'echo hello' -t 1
same '[default0]:hello' "$(cat out)"
EOF

it 'a stream goes where torchrun sends it (M11, M12, W8)' <<'EOF'
job 2 'echo out$RANK; echo err$RANK >&2' --log-dir logs -r 0:2 -t 0:1,1:2
same '[default0]:out0 out1 ' "$(sort out | tr '\n' ' ')"
same '[default1]:err1' "$(cat err)"
same out0 "$(cat "$(log 0 stdout.log)")"
same err0 "$(cat "$(log 0 stderr.log)")"
same err1 "$(cat "$(log 1 stderr.log)")"
[ ! -e "$(log 1 stdout.log)" ]
rm -rf logs
job 2 'echo out$RANK; echo err$RANK >&2' --log-dir logs -t 3 --local-ranks-filter 1
same '[default1]:out1' "$(cat out)"
same '[default1]:err1' "$(cat err)"
same out0 "$(cat "$(log 0 stdout.log)")"
job 3 'echo $RANK' --local-ranks-filter 0,2
same '0 2 ' "$(sort out | tr '\n' ' ')"
job 2 'echo $RANK' -r 3 --local-ranks-filter 0 --log-dir /dev/null
same '0 1 ' "$(sort out | tr '\n' ' ')"
EOF

it 'filtered files hold the lines with a word in them (M20)' <<'EOF'
job 2 'echo loss $RANK; echo other; echo "an error"' --log-dir logs -t 1 --duplicate-stdout-filters loss,error \
    --duplicate-stderr-filters x
same '[default0]:an error [default0]:loss 0 [default1]:an error [default1]:loss 1 ' \
    "$(sort logs/*/attempt_0/filtered_stdout.log | tr '\n' ' ')"
[ -e logs/*/attempt_0/filtered_stderr.log ] && empty logs/*/attempt_0/filtered_stderr.log
EOF

it 'each attempt has its directory, each run its own (W12, B18)' <<'EOF'
job 1 'echo attempt $TORCHELASTIC_RESTART_COUNT; exit 1' --log-dir logs -r 1 --max-restarts 1 --rdzv-id my/job
same 1 $st
same 'attempt 0' "$(cat "$(log 0 stdout.log 0)")"
same 'attempt 1' "$(cat "$(log 0 stdout.log 1)")"
job 1 'echo $TORCHELASTIC_ERROR_FILE' --log-dir logs --rdzv-id my/job
matches out "^/.*/logs/my_job_[a-z0-9_]{8}/attempt_0/0/error.json$"
same 2 "$(ls logs | wc -l)"
EOF

it 'leaves nothing in the temporary directory unless logs were asked for (C40, B19)' <<'EOF'
job 2 'echo $TORCHELASTIC_ERROR_FILE; exit 3'
matches out "^$TMPDIR/.*json$"
empty_dir() { same '' "$(ls -A "$TMPDIR")"; }
empty_dir
job 2 ': >"$TORCHELASTIC_ERROR_FILE"; : >"$TORCHELASTIC_ERROR_FILE.more"'
empty_dir
bg killed "$CCRUN" --nproc-per-node 2 --no-python sh -c ': >ready; sleep 60'
wait_for '[ -e ready ]'
kill -KILL "$(cat "/proc/$pid/task/$pid/children" | tr -d ' ')"
ends $pid 70
empty_dir
job 1 'echo hello' -r 1
matches err "^ccrun: log files: $TMPDIR/torchelastic_"
same hello "$(cat "$TMPDIR"/torchelastic_*/*/attempt_0/0/stdout.log)"
EOF

it 'a temporary directory that cannot be written stops nothing' <<'EOF'
export TMPDIR=/proc/none TEMP=/proc/none TMP=/proc/none
job 1 'echo hello'
same 'hello 0' "$(cat out) $st"
EOF

it 'nothing is lost of a worker that is killed after a megabyte without newline (C39)' <<'EOF'
st=0
"$CCRUN" --log-dir logs --tee 1 --no-python "$SUPPORT/chatter" flood 1048576 >out 2>err || st=$?
same 137 $st
same 1048576 "$(wc -c <"$(log 0 stdout.log)")"
same 1048576 "$(tr -cd x <out | wc -c)"
same '' "$(tail -c 1 out | tr -d '\n')"
EOF

it 'log files are complete when ccrun itself is killed (C39)' <<'EOF'
for round in $(count "$(rounds 20)"); do
    rm -rf logs wrote.*
    bg job "$CCRUN" --nproc-per-node 2 --log-dir logs -r 1 --no-python "$SUPPORT/chatter" counted 10000000
    wait_for '[ -s wrote.0 ] && [ -s wrote.1 ] && [ "$(wc -c <wrote.0)" -gt $((round * 997)) ]'
    kill -KILL "$(cat "/proc/$pid/task/$pid/children" | tr -d ' ')"
    ends $pid 70
    for r in 0 1; do
        whole=$(head -c $(($(wc -c <"$(log $r stdout.log)") / 80 * 80)) "$(log $r stdout.log)" | sequence $r -)
        [ "$whole" -ge "$(wc -c <wrote.$r)" ] || fail "$whole lines in the file, $(wc -c <wrote.$r) written"
    done
done
EOF

it '--log-max-size keeps the last files (C40)' <<'EOF'
"$CCRUN" --log-dir logs -r 1 --log-max-size 1M --log-keep 2 --no-python "$SUPPORT/chatter" stream 131072
f=$(log 0 stdout.log)
for part in "$f" "$f.1" "$f.2"; do
    [ "$(wc -c <"$part")" -le 1048576 ] || fail "$part is too large"
done
[ ! -e "$f.3" ]
cat "$f.2" "$f.1" "$f" | tail -n 20000 | awk 'NR == 1 { n = $4 } $4 != n++ || length != 79 { exit 1 }'
has "$f" 'line    131071 '
EOF

it 'a full disk under the logs is said once, and the job goes on' <<'EOF'
(ulimit -f 64; st=0; "$CCRUN" --log-dir logs --tee 1 --no-python "$SUPPORT/chatter" stream 20000 2>err || st=$?
    echo $st >status) | cat >out
same 0 "$(cat status)"
same 20000 "$(sed -n 's/^\[default0\]://p' out | sequence 0 -)"
same 2 "$(grep -c '^ccrun: ' err)"
matches err "cannot write the log file '.*/attempt_0/0/stdout.log': File too large"
matches err '^ccrun: [0-9]+ bytes of the log files'
EOF

it 'a full disk under the console is said once, and the job goes on' <<'EOF'
st=0
"$CCRUN" --nproc-per-node 2 --no-python sh -c 'echo hello; echo again; exit 0' >/dev/full 2>err || st=$?
same 0 $st
same 1 "$(grep -c 'No space left on device' err)"
EOF

it 'a log directory that cannot be is said or refused, by option (M16)' <<'EOF'
: >file
job 1 'echo hello' --log-dir file -r 1 --log-errors warn
same 'hello 0' "$(cat out) $st"
has err "log directory 'file' is a file"
job 1 'echo hello' --log-dir file -r 1
same 2 "$st"
empty out
has err "log directory 'file' is a file"
EOF

it 'a console that nobody reads stops the workers, not the memory, and loses nothing' <<'EOF'
mkfifo slow
"$CCRUN" --nproc-per-node 2 --label --no-python "$SUPPORT/chatter" stream 250000 >slow 2>err &
pid=$!
exec 5<slow
agent=
wait_for 'agent=$(tr -d " " <"/proc/$pid/task/$pid/children") && [ -n "$agent" ]'
# It has read what it will when it sleeps and nothing moves any more.
read_so_far() { awk '/^rchar/ { print $2 }' "/proc/$agent/io"; }
before=-1
wait_for 'now=$(read_so_far); sleep 0.3; [ "$now" = "$(read_so_far)" ] && [ "$now" -gt 1000000 ]'
rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$agent/status")
[ "$rss" -le 12000 ] || fail "resident $rss KB"
cat <&5 >out
wait $pid
for r in 0 1; do
    same 250000 "$(sed -n "s/^\[$r\] //p" out | sequence $r -)"
done
EOF

it 'a reader that comes late gets everything, and no worker is called stuck for it' <<'EOF'
# More than the console's queue (1 MiB) and its pipe (64 KiB) hold, and less than with the worker's own pipe.
mkfifo pipe
"$CCRUN" --drain-timeout 0.3 --unkillable-timeout 0.3 --no-python sh -c 'head -c 1150000 /dev/zero | tr "\0" x; : >done; exit 3' \
    >pipe 2>err &
pid=$!
exec 5<pipe
wait_for '[ -e done ]'
later=$(($(now_ms) + 1500)) # longer than both timeouts together
wait_for '[ "$(now_ms)" -ge $later ]'
alive $pid
same 1150001 "$(wc -c <&5)"
ends $pid 3
lacks err outlived
has err 'exited with code 3'
EOF

it 'a reader that comes late holds nobody up with --log-overflow drop, gets whole lines, and hears what is missing' <<'EOF'
mkfifo pipe
"$CCRUN" --log-overflow drop --log-dir logs --tee 1 --no-python sh -c '"$SUPPORT/chatter" stream 100000; : >done; exec sleep 50' \
    >pipe 2>err &
pid=$!
exec 5<pipe
wait_for '[ -e done ]'
kill $pid
cat <&5 >out
ends $pid 143
matches err '^ccrun: [0-9]+ bytes of output were dropped'
same 100000 "$(cat logs/*/attempt_0/0/stdout.log | wc -l)"
[ "$(wc -l <out)" -lt 100000 ]
sed -n 's/^\[default0\]://p' out >lines
awk 'NR == FNR { is_there[$0]; next } !($0 in is_there)' logs/*/attempt_0/0/stdout.log lines >foreign
empty foreign
EOF

it 'log files are complete when ccrun is killed while nobody reads the console (C39)' <<'EOF'
mkfifo pipe
bg job sh -c 'exec "$CCRUN" --log-dir logs --tee 1 --no-python sh -c "head -c 1150000 /dev/zero | tr \"\\0\" x; : >done; exec sleep 50" >pipe'
exec 5<pipe
wait_for '[ -e done ]'
agent=$(pgrep -P $pid)
kill -9 $pid
wait_for '! alive $pid $agent'
same 1150000 "$(cat logs/*/attempt_0/0/stdout.log | wc -c)"
wait $pid || true
EOF

it 'the lines of 64 workers are all there' <<'EOF'
"$CCRUN" --nproc-per-node 64 --label --no-python "$SUPPORT/chatter" pieces 20 >out
same 1280 "$(grep -cE '^\[[0-9]+\] writer [ 0-9]{2} line +[0-9]+ +end$' out)"
same 1280 "$(grep -c . out)"
EOF

it '250 workers with log files fit under a soft limit of 1024 open files, which stays theirs' <<'EOF'
limit=$(ulimit -Hn)
[ "$limit" = unlimited ] || [ "$limit" -ge 2200 ] || skip "no more than $limit files may be open here"
(ulimit -Sn 1024; exec "$CCRUN" --nproc-per-node 250 -r 3 --log-dir logs --no-python sh -c 'ulimit -n')
same '250 1024' "$(cat logs/*/attempt_0/*/stdout.log | sort | uniq -c | sed 's/^ *//')"
EOF

done_testing
