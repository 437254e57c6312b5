#!/bin/sh
# Unmodified MPI programs under ccrun: ranks, sums, aborts, deaths and restarts, as with their own launcher.
. "$(dirname "$0")/../functional/lib.sh"
limit 120

makers=
for maker in mpich openmpi; do
    if command -v "mpicc.$maker" >/dev/null && "mpicc.$maker" -O1 -o "$SHARED/$maker" "$HERE/mpi_world.c" >"$SHARED/log" 2>&1; then
        makers="$makers $maker"
    fi
done
[ -n "$makers" ] || skip_all 'no MPI is installed with its compiler (libmpich-dev, libopenmpi-dev)'

words <<'EOF'
# right N [LOCAL]: each rank of N has said that it computed well, so many of them on its node.
right() {
    for right_rank in $(seq 0 $(($1 - 1))); do
        has out "rank $right_rank of $1, ${2:-$1} on its node: right"
    done
}
EOF

for maker in $makers; do
    for ranks in 1 2 4 8; do
        it "C73: $maker: $ranks ranks are one world" <<EOF
expect_status 0 "\$CCRUN" --mpi auto --nproc-per-node $ranks "\$SHARED/$maker"
right $ranks
EOF
    done

    it "$maker: auto says what it has found, and with none the ranks are alone" <<EOF
expect_status 0 "\$CCRUN" -v --no-python --nproc-per-node 2 "\$SHARED/$maker"
matches err "MPI: pmi[1x] .*links libmpi"
right 2
expect_status 0 "\$CCRUN" --mpi none --no-python --nproc-per-node 2 "\$SHARED/$maker"
same 2 "\$(grep -c 'rank 0 of 1' out)"
EOF

    it "$maker: the code of MPI_Abort is that of the job, and nobody is left" <<EOF
expect_status 42 "\$CCRUN" --nproc-per-node 4 --mpi auto "\$SHARED/$maker" abort 2 42
has err 'rank 2 called MPI_Abort with code 42' 'rank 2'
expect_status 1 "\$CCRUN" --nproc-per-node 2 --mpi auto "\$SHARED/$maker" abort 1 256
EOF

    it "$maker: an exit code is the job's" <<EOF
expect_status 9 "\$CCRUN" --nproc-per-node 3 --mpi auto "\$SHARED/$maker" exit 1 9
EOF

    it "$maker: who leaves without MPI_Finalize has failed" <<EOF
expect_status 1 "\$CCRUN" --nproc-per-node 3 --mpi auto "\$SHARED/$maker" leave 1
has err 'rank 1 exited without MPI_Finalize'
EOF

    it "$maker: a killed rank ends the job as killed" <<EOF
expect_status 137 "\$CCRUN" --nproc-per-node 3 --mpi auto "\$SHARED/$maker" die 1 9
EOF

    it "$maker: a job with a killed rank starts again, every time" <<EOF
for i in \$(count \$(rounds 20)); do
    expect_status 0 "\$CCRUN" --max-restarts 2 --nproc-per-node 3 --mpi auto "\$SHARED/$maker" die \$((i % 3)) 2
    right 3
    has err 'restart 2 of 2'
done
EOF

    it "$maker: rank 0 reads the standard input" <<EOF
echo 'a line' | expect_status 0 "\$CCRUN" --nproc-per-node 2 --mpi auto "\$SHARED/$maker" stdin
has out 'rank 0 heard a line' 'rank 1 heard a line'
EOF
done

done_testing
