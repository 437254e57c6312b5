#!/bin/sh
# Complaints about launchers: what a start costs, and where they run.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
best_of_10() { # best_of_10 command...: milliseconds of the quickest run, those without a CPU counted as a quarter
    best=100000
    for i in $(count 10); do
        read_stall
        from_stall=$stall from=$(now_ms)
        "$@" || fail "status $?"
        read_stall
        took=$(($(now_ms) - from)) waited=$((stall - from_stall))
        [ $waited -lt $took ] || waited=$took
        took=$((took - waited * 3 / 4))
        [ $took -ge $best ] || best=$took
    done
    echo $best
}
rss() { # kB that these processes have in memory together
    for p in "$@"; do sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$p/status"; done | paste -sd+ | xargs -I{} sh -c 'echo $(({}))'
}
EOF

it 'C25: a start and an end take milliseconds (W1)' <<'EOF'
shell=$(best_of_10 sh -c '/bin/true; exit 0') # what two processes cost now, on a machine that may be busy
took=$(best_of_10 "$CCRUN" --standalone --no-python /bin/true)
[ "$took" -le $((20 + 5 * shell)) ] || fail "$took ms, a shell $shell ms"
took=$(best_of_10 sh -c 'exec "$CCRUN" --help >help')
[ "$took" -le $((20 + 5 * shell)) ] || fail "--help: $took ms, a shell $shell ms"
EOF

it 'C25: keeper and agent together are small' <<'EOF'
! grep -q __asan_init "$CCRUN" || skip 'a sanitizer has memory of its own'
bg job "$CCRUN" --nproc-per-node 8 --no-python sh -c 'echo up; exec sleep 50'
wait_for '[ "$(grep -c up job.out)" -eq 8 ]'
used=$(rss $pid $(pgrep -P $pid))
[ "$used" -le 10240 ] || fail "$used kB"
kill $pid
ends $pid 143
EOF

it 'C26: four thousand clients connect, set, get and meet' <<'EOF'
cat >crowd.sh <<'X'
{ [ "$1" = same ] || { ip link set lo up && echo 128 >/proc/sys/net/core/somaxconn; } 2>err; } ||
    { sed 's/^/none in a network of its own: /' err >"$T.skip"; exit 0; }
rm -f ready
"${CCRUN%/*}/ccrun-store" --port 0 --ready-fd 5 5>ready &
until [ -s ready ]; do sleep 0.02; done
"$SUPPORT/crowd" "$(sed 's/.*://' ready)" 4096
ticks=$(sed 's/.*) //' /proc/$!/stat | cut -d' ' -f12,13 | tr ' ' +)
ms=$((($ticks) * 1000 / $(getconf CLK_TCK)))
[ "$ms" -le 2000 ] || { echo "the server took $ms ms of a CPU"; exit 1; }
kill $!
wait $!
X
sh -eu crowd.sh same
unshare -n true 2>/dev/null || skip 'a network of its own may not be made here'
unshare -n sh -eu crowd.sh own # a queue of 128 for those that the server has not seen yet
EOF

it 'C33: it says that it is for Linux' <<'EOF'
has "$HERE/../../README.md" 'runs on Linux'
has "$HERE/../../man/ccrun.1" Linux
EOF
done_testing
