#!/bin/sh
# C processes and Python processes share one file: PyTorch's FileStore and ours.
. "$(dirname "$0")/../functional/lib.sh"
limit 120

for case in same_answers many_at_once they_wait_for_us stale; do
    it "a file shared with PyTorch's FileStore: $case" "$PYTHON" -W ignore "$HERE/filestore.py" "$SUPPORT/filestore" $case
done
done_testing
