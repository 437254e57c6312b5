# shellcheck shell=sh
# The hosts that the tests of many nodes run on are what those tests believe.
. "$(dirname "$0")/lib.sh"
. "$LIB/../lab/lab.sh"
netlab_needed 3 sshd

it 'gives hosts that have their own name, address and processes' <<'E'
same node2 "$(on 2 hostname)"
same 10.77.0.3 "$(on 1 getent hosts node3 | cut -d' ' -f1)"
expect_status 7 on 2 sh -c 'exit 7'
expect_status 143 on 2 sh -c 'kill -TERM $$'
nothing_left
E

it 'passes signals on, and ends what it ran when it is killed' <<'E'
bg sleeper "$SUPPORT/labhelper" exec "$(lab pid 1)" sleep 1000
wait_for 'lab_left | grep -q "sleep 1000"'
kill -TERM $pid
ends $pid 143
bg sleeper "$SUPPORT/labhelper" exec "$(lab pid 1)" sleep 1000
wait_for 'lab_left | grep -q "sleep 1000"'
kill -KILL $pid
ends $pid 137
nothing_left
E

it 'cuts two hosts from each other, and heals' <<'E'
lab sshd all
reach() { on "$1" timeout 1 bash -c "exec 3<>/dev/tcp/node$2/22" 2>/dev/null; }
reach 1 2
lab cut 1 2
! reach 1 2 || fail 'the link is not cut'
reach 1 3
lab heal 1 2
reach 1 2
lab cut 3
! reach 1 3 || fail 'the link is not cut'
lab heal all
wait_for 'reach 1 3'
E

it 'lets a host lose its power and come back' <<'E'
on 2 sh -c 'setsid sleep 1000 >/dev/null 2>&1 </dev/null &'
lab kill 2
! lab exec 2 true 2>/dev/null || fail 'the host is still there'
power_on 2
same node2 "$(on 2 hostname)"
nothing_left
E

done_testing
