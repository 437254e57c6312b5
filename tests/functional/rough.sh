#!/bin/sh
# A hostile user, a bad machine, a careless script: ccrun ends when it should, with the right status, and leaves nothing.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
job() { bg job "$CCRUN" "$@"; }
# unread NAME: a pipe that nobody reads and that is full after 64 KB; descriptor 3 holds it open.
unread() { mkfifo "$1"; exec 3<>"$1"; }
EOF

# ---- consoles

it 'full stdout and stderr: the worker decides the status' <<'EOF'
status=0
"$CCRUN" --nproc-per-node 2 --no-python sh -c 'echo out; echo err >&2; exit 3' >/dev/full 2>/dev/full || status=$?
same 3 $status
EOF

it 'a signal ends a job whose output nobody reads' <<'EOF'
unread pipe
for n in 100000 1000000; do # the workers have gone and ccrun writes; they stand still because it does
    rm -f up? done?
    "$CCRUN" --nproc-per-node 2 --drain-timeout 1 --no-python sh -c "echo >up\$RANK; seq $n; echo >done\$RANK" \
        >pipe 2>&1 </dev/null &
    pid=$!
    wait_for '[ -e up0 ] && [ -e up1 ]'
    [ $n = 1000000 ] || wait_for '[ -e done0 ] && [ -e done1 ]'
    kill -TERM $pid
    wait_for "! alive $pid" 6
    wait $pid || true
done
EOF

it 'what only prints says when it cannot' <<'EOF'
for what in --help --version '--dry-run --no-python true' '--print-env --no-python true'; do
    status=0
    "$CCRUN" $what >/dev/full 2>err || status=$?
    same 70 $status
    has err 'cannot write to standard output: No space left on device'
done
EOF

# ---- signals

it 'any signal of --signals-to-handle reaches the agent, not only the usual ones' <<'EOF'
job --signals-to-handle SIGALRM,SIGVTALRM --nproc-per-node 2 --no-python sh -c 'echo up; exec sleep 50'
wait_for '[ "$(grep -c up job.out)" = 2 ]'
kill -ALRM $pid
ends $pid 142
EOF

# ---- a machine that has not enough

it 'too few open files: the limit is named, and no worker that was ended for it' <<'EOF'
expect_status 70 sh -c 'ulimit -n 32; exec "$CCRUN" --nproc-per-node 100 --no-python sh -c "exec sleep 50"'
has err '100 workers take up to 864, and the limit is 32 (ulimit -Hn)'
same 1 "$(wc -l <err)"
EOF

it 'too few processes: said, and nothing is left' <<'EOF'
[ "$(id -u)" = 0 ] || skip 'only root can become a user without processes'
expect_status 70 prlimit --nproc=12 setpriv --reuid 64017 --regid 64017 --clear-groups \
    "$CCRUN" --nproc-per-node 100 --no-python sleep 50
has err '(ulimit -u, or pids.max of the cgroup)'
same 1 "$(wc -l <err)"
EOF

done_testing
