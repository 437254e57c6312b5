#!/bin/sh
# A worker that prints lines on both streams, a byte that is no UTF-8 into a line of its own, and a last line that has no end.
echo "says: one of rank $RANK"
echo "says: a,b of rank $RANK"
echo "says: err three of rank $RANK" >&2
if [ -e "$TORCHELASTIC_ERROR_FILE" ]; then echo "says: that there is an error file"; fi
case $TORCHELASTIC_ERROR_FILE in *logs/*) printf '\377\001 raw\n' ;; esac
echo "says: last"
