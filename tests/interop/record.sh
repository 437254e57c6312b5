#!/bin/sh
# What @record writes is what the report says, and what a parent launcher gets.
. "$(dirname "$0")/../functional/lib.sh"
limit 240

it 'an exception under @record is named, with its message' <<'EOF'
expect_status 1 "$CCRUN" --nproc-per-node 2 "$HERE/record.py" raise
has err 'NotEnoughTea' 'the pot is empty: 0 of 4 cups' 'rank 1'
EOF

it 'the error file goes to the parent launcher' <<'EOF'
expect_status 1 env TORCHELASTIC_ERROR_FILE="$PWD/parent.json" "$CCRUN" --nproc-per-node 2 "$HERE/record.py" raise
has parent.json 'NotEnoughTea' '"timestamp"'
"$PYTHON" -c 'import json; json.load(open("parent.json"))'
EOF

it 'an exit code of one of several workers is the exit status' <<'EOF'
expect_status 138 "$CCRUN" --nproc-per-node 2 "$HERE/record.py" exit
has err '138'
EOF

it 'a segmentation fault is named' <<'EOF'
expect_status 139 "$CCRUN" --nproc-per-node 2 "$HERE/record.py" segfault
has err SIGSEGV
EOF
done_testing
