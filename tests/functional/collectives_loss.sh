#!/bin/sh
# libccrun: a peer that dies in the middle of each collective, deadlines, aborts, and ranks that do not fit together.
. "$(dirname "$0")/lib.sh"
limit 60

words <<'EOF'
GLOO=${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so
fault() { # fault BACKEND HOW WELL TEXT...: WELL ranks of 3 end well, and each that was told was told TEXT
    [ "$1" != gloo ] || [ -e "$GLOO" ] || skip 'libccrun was built without gloo'
    [ "$1" != nccl ] || gpus 3
    expect_status 0 "$CCRUN" --no-python --nproc-per-node 3 "$SUPPORT/collfault" "$1" "$2"
    same "$3" "$(grep -c '^well$' out)"
    shift 3
    for text in "$@"; do
        same 0 "$(grep '^told: ' out | grep -cvF -e "$text" || true)"
    done
    grep -q '^told: ' out
}
rank() { # rank R SIZE command...: in the background, without an agent; sets $pid, output in ${as:-rank.R}.out
    who=$1 world=$2; shift 2
    bg "${as:-rank.$who}" env -u TORCHELASTIC_USE_AGENT_STORE RANK="$who" WORLD_SIZE="$world" MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "$@"
}
EOF

calls='0 1 2 3 4 5 6 7 8 9 10' full= # of enum ccrun_what
[ "$CCRUN_REPEAT" -lt 50 ] || full=1
for backend in gloo ref nccl; do
    for call in $calls; do
        # ref, and nccl over its double, learn of it in the same way in all
        [ "$backend" = gloo ] || [ "$full" ] || [ $((call % 5)) -eq 1 ] || continue
        it "$backend: a rank dies before call $call, the others are told and meet again" <<EOF
fault $backend die-$call 2 'rank 2' '$backend: rank '
EOF
        it "$backend: a rank dies in the middle of call $call, the others are told and meet again" <<EOF
fault $backend mid-$call 2 'rank 2' '$backend: rank '
EOF
    done
    for call in $calls; do
        [ "$full" ] || [ $((call % 4)) -eq 1 ] || continue
        it "$backend: call $call is aborted from another thread" <<EOF
fault $backend abort-$call 3 ': aborted'
same 2 "\$(grep -c '^left: .*rank 0 \|^left: .*lost .*rank' out)"
EOF
    done
    it "$backend: calls that were started are aborted from another thread" <<EOF
fault $backend requests 3 'aborted'
EOF
    for call in $calls; do
        [ "$backend" = gloo ] || continue
        [ "$call" != 8 ] || continue # a barrier has no elements
        [ "$full" ] || [ $((call % 3)) -eq 0 ] || continue
        it "$backend: call $call with other counts ends with an error, and not the process" <<EOF
fault gloo differ-$call 3 'not done within
lost '
EOF
    done
    # A GPU works off in order what it is given.
    [ "$backend" = nccl ] || it "$backend: a message that is started does not wait for an all-reduce that was" <<EOF
[ $backend != gloo ] || [ -e "\$GLOO" ] || skip 'libccrun was built without gloo'
expect_status 0 "\$CCRUN" --no-python --nproc-per-node 3 "\$SUPPORT/collfault" $backend beside
same 3 "\$(grep -c '^well$' out)"
EOF
    # A context of CUDA cannot be used in a child at all.
    [ "$backend" = nccl ] || it "$backend: a forked child leaves the group of its parent alone" <<EOF
[ $backend != gloo ] || [ -e "\$GLOO" ] || skip 'libccrun was built without gloo'
expect_status 0 "\$CCRUN" --no-python --nproc-per-node 3 "\$SUPPORT/collfault" $backend fork
same 3 "\$(grep -c '^well$' out)"
EOF
    it "$backend: a deadline ends an all-reduce to which one does not come, and says which" <<EOF
fault $backend late 3 'all-reduce of 100000 i32 (sum): ' 'rank 2 '
EOF
done

for call in $calls; do
    [ "$full" ] || [ $((call % 7)) -eq 0 ] || continue
    it "gloo: a rank is killed in the middle of call $call, and in the next round all meet" <<EOF
[ -e "\$GLOO" ] || skip 'libccrun was built without gloo'
expect_status 0 "\$CCRUN" --max-restarts 1 --no-python --nproc-per-node 3 "\$SUPPORT/collfault" gloo round-$call
same 3 "\$(grep -c '^well$' out)"
same 2 "\$(grep '^told: ' out | grep -c 'rank 2')"
EOF
done

it 'a rank that two processes have is named, with who holds it' <<'EOF'
port=$("$SUPPORT/freeport")
rank 0 3 "$SUPPORT/collsuite" ref
first=$pid
wait_for 'pgrep -P "$first" -x ccrun-store >/dev/null'
as=b rank 1 3 "$SUPPORT/collsuite" ref
second=$pid
as=c rank 1 3 "$SUPPORT/collsuite" ref
third=$pid
wait_for "! alive $second || ! alive $third"
if alive "$second"; then
    ends "$third" 1
    has c.err "rank 1 is already taken, by process $second on "
    held=$second
else
    ends "$second" 1
    has b.err "rank 1 is already taken, by process $third on "
    held=$third
fi
rank 2 3 "$SUPPORT/collsuite" ref
ends "$first" 0 20
ends "$held" 0 20
ends "$pid" 0 20
EOF

it 'two world sizes are named' <<'EOF'
port=$("$SUPPORT/freeport")
rank 0 2 "$SUPPORT/collsuite" ref
first=$pid
rank 1 3 "$SUPPORT/collsuite" ref
wait_for "! alive $first || ! alive $pid"
cat rank.?.err >err
matches err 'rank [01] was told that the world size is [23], but rank [01] that it is [23]'
kill "$first" "$pid" 2>/dev/null || true
wait || true
EOF

it 'the store that rank 0 has started ends with it, however that ends' <<'EOF'
port=$("$SUPPORT/freeport")
rank 0 2 "$SUPPORT/collsuite" ref
wait_for 'pgrep -P "$pid" -x ccrun-store >store'
store=$(cat store)
kill -KILL "$pid"
wait "$pid" || true
wait_for "! alive $store"
EOF

words <<'EOF'
leave_file() { # two of three ranks are killed when both are in the file "meet"
    port=0
    for r in 0 1; do
        rank $r 3 "$SUPPORT/collsuite" ref "file://$PWD/meet"
        eval "pid$r=\$pid"
    done
    wait_for 'grep -qa here/0 meet && grep -qa here/1 meet'
    kill -KILL "$pid0" "$pid1"
    wait "$pid0" || true
    wait "$pid1" || true
}
EOF

it 'C36: a file that killed ranks have left is taken over by the next run' <<'EOF'
leave_file
for r in 0 1; do
    rank $r 2 "$SUPPORT/collsuite" ref "file://$PWD/meet"
    eval "pid$r=\$pid"
done
ends "$pid0" 0
ends "$pid1" 0
[ ! -e meet ]
EOF

it 'C36: a file whose users may be alive elsewhere is stale, and one of them is named' <<'EOF'
leave_file
sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/ffffffff-ffff-4fff-bfff-ffffffffffff/g" meet
from=$(now_ms)
rank 0 2 "$SUPPORT/collsuite" ref "file://$PWD/meet"
ends "$pid" 1
in_time "$from" 5000
has rank.0.err 'is stale: 2 users in a world of size 2 are counted in it' "on $(hostname) is one of them; remove it"
matches rank.0.err "process ($pid0|$pid1) on "
EOF
done_testing
