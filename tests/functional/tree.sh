#!/bin/sh
# However a job ends, nothing that its workers started is left, and nothing else is touched.
# (Every case of every file fails when a process is left behind: see tests/support/within.c.)
. "$(dirname "$0")/lib.sh"

words <<'EOF'
job() { bg job "$CCRUN" "$@"; }
up() { wait_for "[ \$(grep -c ^up job.out) -eq $1 ]"; }
state() { sed 's/.*) //; s/ .*//' "/proc/$1/stat"; }
agent() { pgrep -P "$1"; } # of the keeper that $1 is
# gone FILE...: the processes whose numbers are in the files end soon.
gone() { wait_for "! alive $(cat "$@" | tr '\n' ' ')" 3; }
# spawned NAME: a daemon that ignores TERM, INT and HUP and has a session of its own; its number goes to the file NAME.
spawned='spawned() { setsid sh -c '\''trap "" TERM INT HUP; echo $$ >"$1"; exec sleep 50'\'' - "$1" & until [ -s "$1" ]; do sleep 0.02; done; }'
EOF

it 'after a normal end (C51)' <<'EOF'
from=$(now_ms)
expect_status 0 "$CCRUN" --nproc-per-node 2 --drain-timeout 1 --no-python sh -c "$spawned; spawned d\$RANK; spawned e\$RANK"
gone d0 d1 e0 e1
in_time "$from" 8000
EOF

it 'what is left of a worker that ended gets TERM and a moment to use it' <<'EOF'
expect_status 0 "$CCRUN" --drain-timeout 10 --no-python sh -c '
    setsid sh -c "trap \"echo bye >bye; exit\" TERM; echo up >up; while :; do sleep 0.1; done" &
    until [ -s up ]; do sleep 0.02; done'
has bye bye
EOF

it 'after a failure: daemons, chains, children of threads (C51)' <<'EOF'
for kind in daemons:1 depth:1 threads:20; do
    : >ready
    job --nproc-per-node 2 --shutdown-timeout 1 --drain-timeout 1 --no-python sh -c '
        [ $RANK = 0 ] || exec "$SUPPORT/brood" '${kind%:*}' 20 >ready
        until [ -e go ]; do sleep 0.02; done; exit 3'
    wait_for "[ \$(wc -c <ready) -eq ${kind#*:} ]"
    touch go
    ends $pid 3
    rm go ready
done
EOF

it 'after a failure: the child of a worker that was killed (B5)' <<'EOF'
expect_status 137 "$CCRUN" --no-python sh -c 'sleep 50 & echo $! >child; kill -9 $$'
gone child
EOF

it 'after a stop: what runs away by forking' <<'EOF'
job --shutdown-timeout 1 --drain-timeout 1 --no-python sh -c 'exec "$SUPPORT/brood" runner 3 >ready'
wait_for '[ -s ready ]'
kill $pid
ends $pid 143
EOF

it 'after kill -9 of ccrun: workers, daemons, files (C50, B4)' <<'EOF'
mkdir tmp
for cgroup in auto off; do
    bg job env TMPDIR="$PWD/tmp" "$CCRUN" --cgroup $cgroup --nproc-per-node 2 -t 3 --no-python sh -c "
        $spawned; echo \$\$ >w\$RANK; spawned d\$RANK; echo up; exec sleep 50"
    wait_for '[ "$(grep -c up job.out)" -eq 2 ]'
    kill -9 $pid
    gone w0 w1 d0 d1
    ends $pid 137
done
EOF

it 'a cgroup of its own where one may be made, which goes with the job' <<'EOF'
own() { sed -n 's/^0:://p' /proc/self/cgroup; }
mount=$(awk '/ - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
job --cgroup off --no-python sed -n 's/^0:://p' /proc/self/cgroup
ends $pid 0
same "$(own)" "$(cat job.out)"
for victim in none keeper agent; do
    rm job.out # of the one before: the next is emptied by a shell in the background
    job --nproc-per-node 2 --no-python sh -c 'sed -n "s/^0:://p" /proc/self/cgroup; echo up; exec sleep 50'
    wait_for '[ "$(grep -c ^up job.out 2>/dev/null)" = 2 ]'
    group=$(grep -m 1 / job.out)
    case $group in
    "$(own)") ;; # it may not be made here
    *ccrun-"$(agent $pid)") [ -d "$mount$group" ] ;;
    *) fail "started in '$group'" ;;
    esac
    case $victim in
    none) kill $pid ;;
    keeper) kill -9 $pid ;;
    agent) kill -9 "$(agent $pid)" ;;
    esac
    wait $pid || true
    case $group in
    *ccrun-*) wait_for "[ ! -e '$mount$group' ]" ;;
    esac
done
EOF

it 'after kill -9 of the agent below it, which is an internal error (C50)' <<'EOF'
mkdir tmp
for cgroup in auto off; do
    bg job env TMPDIR="$PWD/tmp" "$CCRUN" --cgroup $cgroup --nproc-per-node 2 --no-python sh -c "
        $spawned; echo \$\$ >w\$RANK; spawned d\$RANK; echo up; exec sleep 50"
    wait_for '[ "$(grep -c up job.out)" -eq 2 ]'
    kill -9 "$(agent $pid)"
    gone w0 w1 d0 d1
    ends $pid 70
    same '' "$(ls tmp)"
    same 1 "$(wc -l <job.err)"
done
EOF

limit 300
it 'after kill -9 at any moment, and no port and no file either' <<'EOF'
mkdir tmp
TMPDIR=$PWD/tmp
export TMPDIR
for i in $(count "$(rounds 200)"); do
    cgroup=auto
    [ $((i / 2 % 2)) = 0 ] || cgroup=off
    bg job "$CCRUN" --cgroup $cgroup --nproc-per-node 3 --no-python sh -c "$spawned; echo \$\$ \$PPID >>pids; spawned d\$RANK; exec sleep 50"
    sleep "0.$(od -An -N2 -tu2 /dev/urandom | awk '{ printf "%04d", $1 % 2000 }')"
    victim=$pid
    [ $((i % 2)) = 0 ] || victim=$(agent $pid || echo $pid)
    kill -9 "$victim"
    wait_for '! alive $(cat pids d? 2>/dev/null)' 3
    wait_for '! alive $pid' 3
    wait $pid || true
    rm -f pids d?
done
wait_for '[ -z "$(ls tmp)" ]' 3
EOF

limit 20
it 'nothing else is touched: not by name, not by group, not above (C51, C56)' <<'EOF'
cp "$(command -v sleep)" same-name
./same-name 40 & a=$!
setsid ./same-name 40 & b=$!
job --nproc-per-node 2 --no-python "$PWD/same-name" 40
wait_for '[ "$(pgrep -cx same-name)" -ge 4 ]'
kill $pid
ends $pid 143
alive $a || fail 'its sibling is gone'
alive $b || fail 'a process of another session is gone'
kill $a $b
wait $a || true
wait $b || true
EOF

it 'what a script left in the background before it became ccrun is not the job (sidecars)' <<'EOF'
cat >entry <<'END'
sleep 40 &
echo $! >side
exec "$CCRUN" --nproc-per-node 2 --no-python sh -c 'sleep 40 & echo $! >c$RANK; echo up; until [ -e go ]; do sleep 0.02; done; exit 4'
END
for how in end agent; do
    rm -f go job.out
    bg job sh ./entry
    wait_for '[ "$(grep -c ^up job.out 2>/dev/null)" = 2 ]'
    if [ $how = end ]; then
        touch go
        ends $pid 4
    else
        for child in $(agent $pid); do
            [ "$child" = "$(cat side)" ] || kill -9 "$child"
        done
        ends $pid 70
    fi
    gone c0 c1
    alive "$(cat side)" || fail "the sidecar is gone ($how)"
    kill "$(cat side)"
done
EOF

it 'one job ends and another like it goes on (C56)' <<'EOF'
for i in 1 2; do
    bg job$i "$CCRUN" --nproc-per-node 2 --no-python "$SUPPORT/heed" INT=0
    eval "pid$i=$pid"
    wait_for "[ \$(grep -c ^up job$i.out) -eq 2 ]"
done
kill -INT $pid1
ends $pid1 130
kill -USR1 $pid2
wait_for '[ "$(grep -c USR1 job2.out)" -eq 2 ]'
lacks job2.out INT
kill -INT $pid2
ends $pid2 130
EOF

it 'orphans are reaped while the job runs' <<'EOF'
job --no-python sh -c 'for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 & exec true); done; (exit 0) & echo up; exec "$SUPPORT/heed" TERM=0'
up 2
a=$(agent $pid)
wait_for '[ "$(pgrep -P "$a" | wc -l)" -eq 1 ]' # the worker
kill $pid
ends $pid 143
EOF

it 'the next attempt waits for what is left of the last one (C52)' <<'EOF'
for output in '' '>/dev/null 2>&1'; do # holding the pipes of its worker, or nothing of ours
    expect_status 0 "$CCRUN" --max-restarts 1 --drain-timeout 10 --no-python sh -c '
        [ $TORCHELASTIC_RESTART_COUNT = 0 ] || { [ ! -e lock ] || exit 9; exit 0; }
        setsid sh -c "trap \"sleep 1; rm lock; exit\" TERM; echo >lock; while :; do sleep 0.1; done" '"$output"' &
        until [ -e lock ]; do sleep 0.02; done; exit 3'
    [ ! -e lock ]
done
EOF

it 'and it does not begin before a daemon that ignores TERM is gone' <<'EOF'
expect_status 0 "$CCRUN" --max-restarts 1 --drain-timeout 1 --no-python sh -c "$spawned"'
    [ $TORCHELASTIC_RESTART_COUNT = 0 ] || { ! kill -0 "$(cat d)" 2>/dev/null || exit 9; exit 0; }
    spawned d >/dev/null 2>&1; exit 3'
EOF

it 'a peer that ignores TERM holds a failure up no longer than --shutdown-timeout (B6)' <<'EOF'
job --nproc-per-node 2 --shutdown-timeout 1 --no-python sh -c '
    [ $RANK = 0 ] || exec "$SUPPORT/heed"
    until [ -e go ]; do sleep 0.02; done; exit 3'
up 1
from=$(now_ms)
touch go
ends $pid 3
in_time "$from" 6000
has job.err '1 of 2 workers have not stopped after 1 s: SIGKILL'
EOF

it 'a stopped peer does not hold a failure up' <<'EOF'
job --nproc-per-node 2 --no-python sh -c '
    [ $RANK = 0 ] || exec "$SUPPORT/heed" TERM=0
    until [ -e go ]; do sleep 0.02; done; exit 3'
up 1
w=$(sed -n 's/^up \([0-9]*\) .*/\1/p' job.out)
kill -STOP "$w"
wait_for '[ "$(state "$w")" = T ]'
touch go
ends $pid 3 5
EOF

it 'a worker that outlives SIGKILL is reported and left, and ccrun ends' <<'EOF'
group=/sys/fs/cgroup/freezer/ccrun-test-$$
mkdir "$group" 2>/dev/null && [ -e "$group/freezer.state" ] || skip 'no freezer may be made here'
trap 'echo THAWED >"$group/freezer.state"; until rmdir "$group" 2>/dev/null; do sleep 0.02; done' EXIT
job --shutdown-timeout 0 --unkillable-timeout 1 --max-restarts 1 --no-python sh -c 'echo "up $$ 0"; exec sleep 50'
up 1
w=$(sed -n 's/^up \([0-9]*\) .*/\1/p' job.out)
echo "$w" >"$group/cgroup.procs"
echo FROZEN >"$group/freezer.state"
wait_for 'grep -qx FROZEN "$group/freezer.state"'
kill $pid
ends $pid 143
has job.err "1 process of the job outlived SIGKILL (D state) and is left behind; pid $w sleeps in" "/proc/$w/stack"
same 1 "$(grep -c ^up job.out)"
EOF

# brood's daemons ignore TERM and hold the pipes.
it 'PID 1 needs no /proc to end all' <<'EOF'
! grep -q __asan_init "$CCRUN" || skip 'a sanitizer needs /proc itself'
unshare --mount --pid --fork true 2>/dev/null || skip 'no namespace may be made here'
for proc in 'true' 'mount -t tmpfs none /proc'; do # that of the namespace above, and none
    expect_status 3 unshare --mount --pid --fork --kill-child sh -c "$proc"' && exec "$CCRUN" --drain-timeout 1 --max-restarts 1 \
        --no-python sh -c "echo up; exec \"\$SUPPORT/brood\" fail 3"'
    same 2 "$(grep -c up out)"
    lacks err 'left behind'
done
EOF

it 'without /proc it ends in time, and says that it may have left something' <<'EOF'
! grep -q __asan_init "$CCRUN" || skip 'a sanitizer needs /proc itself'
unshare --mount true 2>/dev/null || skip 'no namespace may be made here'
bg job unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$CCRUN" --cgroup off --drain-timeout 1 --unkillable-timeout 1 \
    --no-python sh -c "setsid sh -c \"trap : TERM; echo \\\$\\\$ >d; while [ ! -e go ]; do sleep 0.1; done\" & until [ -s d ]; do sleep 0.02; done; exit 3"'
ends $pid 3
has job.err 'something of the job is still there, but /proc does not show it; left behind'
touch go
EOF
done_testing
