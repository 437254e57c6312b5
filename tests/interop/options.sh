#!/bin/sh
# The command line means what it means for torchrun: its own parser is asked about random lines.
. "$(dirname "$0")/../functional/lib.sh"
limit 240

it 'random command lines are parsed as by torchrun' "$PYTHON" "$HERE/options.py" "$SUPPORT/parsed" 5000
it 'and so are PET_ variables under them' env PET_NNODES=1:4 PET_MODULE=1 PET_STANDALONE=0 PET_MAX_RESTARTS=2 \
    PET_DUPLICATE_STDOUT_FILTERS=a,b PET_LOG_DIR= PET_NUMA_BINDING=x PET_MONITOR_INTERVAL=3 \
    "$PYTHON" "$HERE/options.py" "$SUPPORT/parsed" 2000 2
done_testing
