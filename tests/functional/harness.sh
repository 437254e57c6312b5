#!/bin/sh
# The harness itself: a test that cannot fail is worth nothing.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
write() { # write 'body of a test file': in t.sh
    { echo ". '$LIB/lib.sh'"; cat; } >t.sh
}
EOF

it 'counts a good case' <<'EOF'
write <<'X'
it 'is fine' true
it 'is fine too' <<'Y'
same 1 1
Y
done_testing
X
expect_status 0 sh t.sh
has out 'ok 1 - is fine' 'ok 2 - is fine too' '1..2'
EOF

it 'fails a case at its first line that fails' <<'EOF'
write <<'X'
it 'is bad' <<'Y'
false
true
Y
done_testing
X
expect_status 1 sh t.sh
has out 'not ok 1 - is bad (status 1)'
EOF

it 'ends a case when its time is up' <<'EOF'
write <<'X'
limit 1
it 'is slow' sleep 30
done_testing
X
expect_status 1 sh t.sh
has out 'not ok 1 - is slow (status 124)' 'the time is up'
EOF

it 'fails a case that leaves a process behind, and kills it' <<'EOF'
write <<'X'
it 'leaks' sh -c 'setsid sleep 31.5 & echo $! >"$PIDFILE"'
done_testing
X
PIDFILE=$PWD/pid
export PIDFILE
expect_status 1 sh t.sh
has out 'not ok 1 - leaks (status 125)' 'is left: sleep 31.5'
! alive "$(cat pid)"
EOF

it 'notices a file that ends before it said how many cases there are' <<'EOF'
write <<'X'
it 'is fine' true
exit 0
X
expect_status 1 "$LIB/../run" some t.sh
has out 'FAIL   1 passed' 'the file ended early' 'some: 1 passed, 1 failed'
EOF

it 'counts over several files and says which one failed' <<'EOF'
write <<'X'
it 'is fine' true
done_testing
X
sed 's/true/false/' t.sh >u.sh
expect_status 1 env CCRUN_TALLY="$PWD/tally" "$LIB/../run" some t.sh u.sh
has out 'some: 1 passed, 1 failed' 'not ok 1 - is fine'
same 'some 1 1' "$(cat tally)"
EOF

it 'starts background jobs with the signals of a user' <<'EOF'
bg job sh -c 'echo up; exec sleep 30'
wait_for 'grep -q up job.out'
kill -INT $pid
ends $pid 130
EOF

it 'gives up waiting' sh -c '. "$LIB/case.sh"; ! (wait_for false 1)'

done_testing
