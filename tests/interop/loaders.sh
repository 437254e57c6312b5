#!/bin/sh
# Jobs with data loaders end whole: their processes go with the rank, and a rank that is told to stop can save.
. "$(dirname "$0")/../functional/lib.sh"
limit 240

words <<'EOF'
loaders_gone() { # four of them there were, and none is left
    set -- $(ls | sed -n 's/^loader\.//p')
    same 4 $#
    wait_for "! alive $*" 2
}
EOF

it 'a rank that is killed, raises or exits takes all loaders with it, and its peers have time to save' <<'EOF'
for pair in kill:137 raise:1 exit:9; do
    rm -f loader.* saved.*
    expect_status "${pair#*:}" "$CCRUN" --nproc-per-node 2 "$HERE/loaders.py" "$PWD" "${pair%:*}"
    has err 'rank 1 (local_rank: 1'
    loaders_gone
    [ -e saved.0 ]
done
EOF

it 'a stop reaches every rank, which saves, and is no failure' <<'EOF'
bg job "$CCRUN" --nproc-per-node 2 "$HERE/loaders.py" "$PWD" stay
wait_for '[ "$(grep -c trains job.out)" -eq 2 ]' 60
kill $pid
ends $pid 143 20
loaders_gone
[ -e saved.0 ] && [ -e saved.1 ]
lacks job.err FAILED
EOF

it 'SIGKILL of ccrun takes ranks and loaders with it (C50)' <<'EOF'
bg job "$CCRUN" --nproc-per-node 2 "$HERE/loaders.py" "$PWD" stay
wait_for '[ "$(grep -c trains job.out)" -eq 2 ]' 60
kill -9 $pid
ends $pid 137
loaders_gone
EOF
done_testing
