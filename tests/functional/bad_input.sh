#!/bin/sh
# What cannot work is refused in one sentence, with status 2, before anything starts.
. "$(dirname "$0")/lib.sh"

words <<'EOF'
refused() { # refused 'sentence part' option...: nothing ran, one line says why
    why=$1; shift
    expect_status 2 "$CCRUN" "$@" --no-python sh -c 'touch started'
    [ ! -e started ] || fail 'a worker was started'
    has err "$why"
    same 1 "$(grep -vc '^usage: ' err)"
}
EOF

it 'a log directory that is a file' <<'EOF'
touch plain
refused "log directory 'plain' is a file" --log-dir plain -r 3
EOF

it 'a log directory that cannot be made' <<'EOF'
refused "cannot make the log directory '/proc/logs'" --log-dir /proc/logs -r 3
EOF

it 'starts without log files when that is wanted, and says so once' <<'EOF'
touch plain
expect_status 0 "$CCRUN" --log-errors warn --log-dir plain -r 3 --nproc 2 --no-python echo hi
same 2 "$(grep -c hi out)"
same 1 "$(grep -c 'the job goes on without log files' err)"
EOF

it 'a report that could not be written at the end' <<'EOF'
refused "no file can be made in '/nosuch/'" --report /nosuch/report.json
refused "--report: '/' is a directory" --report /
EOF

it 'a port that is taken, and by whom' <<'EOF'
bg store "$(dirname "$CCRUN")/ccrun-store" --port 0
wait_for '[ -s store.out ]'
port=$(sed 's/.*://' store.out)
refused "cannot listen on 127.0.0.1:$port: 'ccrun-store' (process $pid) has the port" --master-port "$port"
refused "cannot listen on 127.0.0.1:$port: 'ccrun-store' (process $pid) has the port" \
    --rdzv-backend c10d --rdzv-endpoint "localhost:$port"
kill "$pid"
ends "$pid" 0
EOF

it 'two jobs that name no port do not refuse each other for the default one (C07)' <<'EOF'
for i in 1 2; do
    bg job$i "$CCRUN" --rdzv-backend c10d --rdzv-endpoint localhost --no-python \
        sh -c 'echo "$MASTER_PORT"; until [ -e go ]; do sleep 0.02; done'
    eval "pid$i=$pid"
    wait_for "[ -s job$i.out ]"
done
touch go
ends $pid1 0
ends $pid2 0
[ "$(cat job1.out)" != "$(cat job2.out)" ] || fail 'one port for two jobs'
EOF

it 'an address that no interface has' <<'EOF'
refused 'cannot listen on 192.0.2.1:2999: no interface of this machine has this address; if it is one of several nodes, give each of them --nnodes N' \
    --rdzv-endpoint 192.0.2.1:2999
EOF

it 'numbers of workers that no machine has' <<'EOF'
refused '0' --nproc-per-node 0
refused '-1' --nproc-per-node=-1
refused '65536' --nproc-per-node 99999999
refused "Unsupported nproc_per_node value: 1.5" --nproc-per-node 1.5
EOF

it 'an endpoint that no name server knows' <<'EOF'
refused "'no-such-host.invalid'" --rdzv-backend c10d --rdzv-endpoint no-such-host.invalid:29400
EOF

done_testing
