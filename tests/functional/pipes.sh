#!/bin/sh
# The pipes between workers and console: who holds them, who closes them, what is still read.  output.sh is about what they carry.
. "$(dirname "$0")/lib.sh"

it 'a process outside the job that holds the pipe does not hold the end up for longer than --drain-timeout' <<'EOF'
bg job "$CCRUN" --drain-timeout 1 --no-python sh -c 'echo "up $$"; until [ -e go ]; do sleep 0.02; done; echo last; exit 4'
wait_for 'grep -q ^up job.out'
exec 7>"/proc/$(sed -n 's/^up //p' job.out)/fd/1" # the writing end, in our hands
from=$(now_ms)
touch go
ends $pid 4
in_time "$from" 6000
[ $(($(now_ms) - from)) -ge 1000 ] || fail 'it did not wait for more'
has job.out last
EOF

it 'and what it writes in that time is read' <<'EOF'
bg job "$CCRUN" --drain-timeout 10 --no-python sh -c 'echo "up $$"; until [ -e go ]; do sleep 0.02; done'
wait_for 'grep -q ^up job.out'
exec 7>"/proc/$(sed -n 's/^up //p' job.out)/fd/1"
worker=$(sed -n 's/^up //p' job.out)
touch go
wait_for "! alive $worker"
echo 'from outside' >&7
exec 7>&-
ends $pid 0 5
has job.out 'from outside'
EOF

it 'a reader that leaves stops the workers, as SIGPIPE would' <<'EOF'
from=$(now_ms)
{ st=0; "$CCRUN" --nproc-per-node 2 --no-python yes 2>err || st=$?; echo $st >status; } | head -n 1 >out
same y "$(cat out)"
in_time "$from" 6000
same 141 "$(cat status)"
EOF

it 'but with log files the job goes on without it' <<'EOF'
mkfifo console
bg job sh -c 'exec "$CCRUN" --log-dir l -t 1 --no-python sh -c "echo one; until [ -e go ]; do sleep 0.02; done; seq 10000; echo end" >console'
head -n 1 <console >out
touch go
ends $pid 0
same 10002 "$(cat l/*/attempt_0/0/stdout.log | wc -l)"
EOF

it 'what workers say when they are stopped is shown' <<'EOF'
bg job "$CCRUN" --nproc-per-node 2 --no-python sh -c 'trap "seq 5000; echo end >&2; exit" TERM; echo up; while :; do sleep 0.02; done'
wait_for '[ "$(grep -c up job.out)" -eq 2 ]'
kill $pid
ends $pid 143
same 10002 "$(wc -l <job.out)"
same 2 "$(grep -cx end job.err)"
EOF

it 'a console that is not blocking loses nothing' <<'EOF'
cat >nonblock.py <<'X'
import fcntl, os, sys, time
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
os.execv(sys.argv[1], sys.argv[1:])
X
command -v python3 >/dev/null || skip 'no Python'
python3 nonblock.py "$CCRUN" --nproc-per-node 2 --no-python seq 100000 | { sleep 0.5; cat; } >out
{ seq 100000; seq 100000; } | sort | md5sum >want
sort out | md5sum | cmp - want
EOF
done_testing
