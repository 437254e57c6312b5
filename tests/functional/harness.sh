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
! alive "$(cat pid)" || fail 'it is left'
EOF

it 'leaves nothing when the run is interrupted' <<'EOF'
write <<'X'
it 'is interrupted' sh -c 'echo $$ >"$PIDFILE"; exec sleep 30'
done_testing
X
for s in TERM INT HUP; do
    PIDFILE=$PWD/pid.$s
    export PIDFILE
    bg run "$LIB/../run" some t.sh
    wait_for '[ -s "$PIDFILE" ]'
    kill "-$s" $pid
    wait_for '! alive $pid && ! alive $(cat "$PIDFILE")'
done
EOF

it 'notices a file that ends before it said how many cases there are' <<'EOF'
write <<'X'
it 'is fine' true
exit 0
X
expect_status 1 "$LIB/../run" some t.sh
has out 'FAIL   1 passed' 'the file ended early' 'some: 1 passed, 1 failed'
EOF

it 'says which case was skipped, and why, and does not count it as passed' <<'EOF'
write <<'X'
it 'is fine' true
it 'is skipped' <<'Y'
skip 'no bananas'
false
Y
done_testing
X
expect_status 0 sh t.sh
has out 'ok 2 - is skipped # SKIP no bananas'
expect_status 0 "$LIB/../run" some t.sh
has out 'ok     1 passed' '    skipped: is skipped: no bananas' 'some: 1 passed, 0 failed, 1 skipped'
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

it 'starts cases with the signals of a user, also where INT is ignored' <<'EOF'
write <<'X'
it 'is interrupted' sh -c 'kill -INT $$; exit 7'
done_testing
X
trap '' INT
expect_status 1 sh t.sh
has out '(status 130)'
EOF

it 'gives up waiting' sh -c '. "$LIB/case.sh"; ! (wait_for false 1)'

it 'no line of a case begins with ! and ends there: sh -e would not look at it' <<'EOF'
grep -nE '^!' "$HERE"/*.sh "$HERE"/../interop/*.sh | grep -vE '\|\|' >such || true
empty such
EOF

it 'every complaint and scenario has its test, or a line in README that says why not' <<'EOF'
for id in C07 C10 C16 C22 C24 C25 C26 C29 C30 C32 C33 C34 C38 C39 C40 C41 C44 C45 C46 C48 C49 C50 C51 C52 C53 C54 C56 C70 C71 C72 \
    R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R14 R15 R16 R17 R19 R20 R21 R22 R23 R24 L3 L5 L6 L7 L8 \
    A4 A5 A6 A18 A19 A20 A21 A22 A25 A26 A36 A38 A39 M5 M6 M7 M8 M9 M10 M11 M12 M13 M14 M16 M17 M19 M20 T1 \
    E1 E2 E3 E4 E5 E6 E7 E9 E10 E11 E12 W1 W2 W3 W4 W5 W6 W7 W8 W9 W10 W12 W15 W17 \
    B1 B4 B5 B6 B9 B11 B12 B13 B15 B17 B18 B19 B21 F2 F3 F6 \
    C04 C05 C06 C11 C12 C14 C15 C18 C27 C55 C58 C59 C46 C47 C57 C60 C61 C62 C63 C64 C66 C67 C68 C69 C19 C35 C36 C73 C74 A14 A17 A23 A24 A27 A28 A29 A30 A31 A32 A33 A37 A40 L1 X1 X2 X3 X4 X5 W11 W13 W14 \
    B2 B3 B7 B8 B10 B14 B16 B20 C5 C6 C7 C8 C9 C10 D26 D28 D29 D30 D31 K15; do
    grep -rqw "$id" "$HERE" "$HERE/../interop" --include='[a-gi-z]*.sh' --include=README.md || fail "nothing about $id"
done
EOF
done_testing
