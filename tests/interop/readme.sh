#!/bin/sh
# README's first screen: the output that it shows is the output there is.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/readme_words.sh"
limit 60

it 'a failure' <<'E'
recipe failure >block
cp "$HERE/readme_train.py" train.py
mkdir commands
ln -s "$CCRUN" commands/ccrun
sed -n '1s/^\$ //p' block >script
status=0
PATH="$PWD/commands:$PATH" OMP_NUM_THREADS=1 sh -eu script >out 2>err || status=$?
same 1 "$status"
cat out err >all # which of two ranks is heard first is not said
looks_like block all
E

done_testing
