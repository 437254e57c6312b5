#!/bin/sh
# What goes on for weeks: restarts, nodes that come and go, clients of the store.  Nothing grows with their number.
# 2,000, 500 and 100,000 of them in a full run, which takes some 15 minutes.
# shellcheck disable=SC2034 # what the words use
. "$(dirname "$0")/lib.sh"
words <"$LIB/nodes_case.sh"
words <<'X'
if [ "$CCRUN_REPEAT" -ge 50 ]; then warm_up=300 restarts=2000 joins=500 joins_before=150 crowds=100
else warm_up=15 restarts=45 joins=6 joins_before=3 crowds=10; fi # buffers are touched for the first time in the first 300 rounds
KIB=300 # what an allocator may keep

# sizes PID...: "PSS descriptors" of each process and of those that it has started itself, workers left out
sizes() {
    for sizes_pid in "$@" $(pgrep -d ' ' -x ccrun -P "$(echo "$@" | tr ' ' ,)" || true); do
        echo "$(awk '$1 == "Pss:" { print $2 }' "/proc/$sizes_pid/smaps_rollup") $(ls "/proc/$sizes_pid/fd" | wc -l) of $sizes_pid"
    done
}
# not_grown_soon BEFORE PID...: not_grown when what is being closed is closed
not_grown_soon() {
    not_grown_before=$1; shift
    wait_for "sizes $* >after; paste -d' ' $not_grown_before after | awk '\$6 > \$2 { more = 1 } END { exit more }'"
    not_grown "$not_grown_before" after 6
}
# not_grown BEFORE AFTER [N]: files of sizes; N processes at least, no descriptor more, at most $KIB more
not_grown() {
    paste -d' ' "$1" "$2"
    paste -d' ' "$1" "$2" | awk -v kib=$KIB -v n="${3:-1}" '
        $4 != $8 || $5 > $1 + kib || $6 > $2 { bad = 1 } END { exit bad || NR < n }' || fail "that has grown: PSS in KiB, descriptors"
}
count_of() { cat restarts 2>/dev/null || echo 0; }

# The worker of the second node fails until there were enough restarts, never twice in the same way.  Each worker says in how
# large a job it is.
three() {
    cat >worker.sh <<'W'
read -r enough <enough
if [ "$GROUP_RANK" = 1 ] && [ "$TORCHELASTIC_RESTART_COUNT" -lt "$enough" ]; then exit $((TORCHELASTIC_RESTART_COUNT % 9 + 1)); fi
[ "$GROUP_RANK" != 1 ] || echo "$TORCHELASTIC_RESTART_COUNT" >restarts
echo "$GROUP_WORLD_SIZE" >"world.$GROUP_RANK"
exec sleep 1000
W
    nodes 3:4 --rdzv-conf last_call_timeout=1 --max-restarts 100000 --max-rejoins 100000
    WORKER='sh worker.sh'
    agent a
    hosts a
    agent b
    agent c
}
are_in() { wait_for "[ \"\$(cat world.0 2>/dev/null)\" = $1 ] && [ -e world.$(($1 - 1)) ]" 60; }
stop_all() {
    kill -TERM "$a"
    for stop_pid in $a $b $c; do wait_for "! alive $stop_pid" 30; done
}
X
if [ "${CCRUN_REPEAT:-5}" -ge 50 ]; then limit 880; else limit 60; fi

it 'neither agents nor their keepers grow with restarts' <<'X'
echo $warm_up >enough
three
wait_for "[ \"\$(count_of)\" = $warm_up ]" 300
sizes $a $b $c >before
rm -f world.*
echo $restarts >enough
fail_pid=$(pgrep -f -x 'sleep 1000' -P "$(pgrep -d, -x ccrun -P "$b")")
kill -9 "$fail_pid"
wait_for "[ \"\$(count_of)\" = $restarts ]" 800
are_in 3
not_grown_soon before $a $b $c
stop_all
X

it 'nor with nodes that join and leave' <<'X'
echo 0 >enough
three
for i in $(count $joins); do
    [ "$i" -ne $((joins_before + 1)) ] || sizes $a $b $c >before
    rm -f world.*
    agent d
    are_in 4
    rm -f world.*
    kill -TERM "$d"
    ends "$d" 143
    are_in 3
done
not_grown_soon before $a $b $c
stop_all
X

it 'nor does a store with clients that come and go' <<'X'
bg store "${CCRUN%/*}/ccrun-store" --port 0
wait_for 'grep -q "^listening on" store.out'
port=$(sed -n 's/^listening on .*://p' store.out)
"$SUPPORT/crowd" "$port" 1000 3
sizes "$pid" >before
"$SUPPORT/crowd" "$port" 1000 $crowds
wait_for "[ \"\$(ls /proc/$pid/fd | wc -l)\" -le \"\$(cut -d' ' -f2 before)\" ]"
sizes "$pid" >after
not_grown before after
kill "$pid"
ends "$pid" 0
X
done_testing
