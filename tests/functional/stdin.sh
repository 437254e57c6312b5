#!/bin/sh
# Who reads the standard input; terminal.sh is about terminals.
. "$(dirname "$0")/lib.sh"

it 'rank 0 reads it, the others are at its end at once (C72)' <<'EOF'
printf 'one\ntwo\n' >in
expect_status 0 "$CCRUN" --nproc-per-node 2 --no-python sh -c 'while read -r l; do echo "$RANK $l"; done; echo "$RANK end"' <in
same '0 end,0 one,0 two,1 end' "$(sort out | paste -sd,)"
EOF

it '--stdin chooses another rank, all or none' <<'EOF'
printf 'one\n' >in
for pair in 1:1 all:one none:none; do
    "$CCRUN" --stdin "${pair%:*}" --nproc-per-node 2 --no-python sh -c 'read -r l && echo "$RANK" || true' <in >out
    case ${pair#*:} in
    none) empty out ;;
    one) same 1 "$(wc -l <out)" ;; # one file, one position: whoever is first
    *) same "${pair#*:}" "$(cat out)" ;;
    esac
done
expect_status 2 "$CCRUN" --stdin 2 --nproc-per-node 2 --no-python touch started
[ ! -e started ]
EOF

it 'a large input arrives whole, and what nobody reads blocks nothing' <<'EOF'
head -c 3000000 /dev/urandom >in
cat in | "$CCRUN" --nproc-per-node 2 --no-python sh -c 'exec cat >got$RANK'
cmp in got0
empty got1
cat in | "$CCRUN" --no-python true
EOF

it 'after a restart rank 0 reads on' <<'EOF'
printf '1\n2\n3\n' >in
expect_status 0 "$CCRUN" --max-restarts 1 --no-python sh -c '
    read -r l; echo "read $l"; [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]' <in
same 'read 1,read 2' "$(paste -sd, out)"
EOF

done_testing
