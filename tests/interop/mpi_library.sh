#!/bin/sh
# libccrun's mpi backend on each MPI library: every collective with every type and operation, checked, for each way to meet and
# number of ranks, on one node and on two hosts.  All of them in a full run (CCRUN_REPEAT=50 and more), else each once.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/../lab/lab.sh"
limit 120
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
PLUGINS=${CCRUN%/*}/../lib/ccrun
export ROOT PLUGINS

makers=
for maker in openmpi mpich; do
    [ ! -e "$PLUGINS/libccrun-mpi-$maker.so" ] || makers="$makers $maker"
done
[ -n "$makers" ] || skip_all 'libccrun was built without MPI (libopenmpi-dev, libmpich-dev)'

# One word, wherever the tree lies.
printf '#!/bin/sh\nexec "$SUPPORT/collsuite" mpi "$@"\n' >"$SHARED/suite"
chmod +x "$SHARED/suite"

words <<'EOF'
SUITE="$SHARED/suite"
# as MAKER: how ccrun serves its ranks, and which library they load.
as() {
    LIBMPI=
    case $1 in
    openmpi) MPI=pmix ;;
    mpich5) MPI=pmi1 LIBMPI=$SHARED/venv/lib/libmpi.so.12 ;;
    mpich) MPI=pmi1 ;;
    esac
}
# how METHOD: the command of a rank that meets so; none: nobody says where a store is
how() {
    case $1 in
    none) echo "env -u MASTER_ADDR $SUITE none" ;;
    file) echo "$SUITE file://$PWD/meet" ;;
    *) echo "$SUITE $1" ;;
    esac
}
suite() { # suite MAKER N METHOD
    as "$1"
    # shellcheck disable=SC2046 # words
    expect_status 0 "$CCRUN" --mpi $MPI --no-python --nproc-per-node "$2" ${LIBMPI:+--env "CCRUN_MPI=$LIBMPI"} $(how "$3")
    same "$2" "$(grep -c ' checked$' out)"
}
told() { # told STATUS TEXT: the job ends so, and a rank was told that
    same "$1" "$status"
    grep '^told: ' out | grep -qF -e "$2" || { cat out err; fail "nobody was told: $2"; }
}
job() { # job N command...: under ccrun with $MPI; its end in $status, its output in out and err
    n=$1 status=0; shift
    "$CCRUN" --mpi $MPI --no-python --nproc-per-node "$n" "$@" >out 2>err || status=$?
}
EOF

is_wanted() { # is_wanted METHOD RANKS
    [ "$CCRUN_REPEAT" -ge 50 ] && return 0
    case $1:$2 in none:1 | env://:2 | tcp:4 | none:8) return 0 ;; esac
    return 1
}

for maker in $makers; do
    for method in none env:// tcp file; do
        for ranks in 1 2 4 8; do
            is_wanted $method $ranks || continue
            it "$maker, $ranks ranks, $method" <<EOF
suite $maker $ranks $method
EOF
        done
    done

    it "$maker: ccrun-check says which it is" <<EOF
as $maker
"\$CCRUN" --mpi \$MPI --no-python --nproc-per-node 1 "\${CCRUN%/*}/ccrun-check" --backend mpi --ops none >out 2>err
tr -s ' \n' ' ' <out | grep -qE 'mpi: (Open MPI v|MPICH Version )[0-9]+\.[0-9]+'
EOF

    it "$maker: under its own launcher" <<EOF
case $maker in openmpi) set -- mpirun.openmpi --allow-run-as-root --oversubscribe ;; mpich) set -- mpiexec.hydra ;; esac
command -v "\$1" >/dev/null || skip "there is no \$1"
expect_status 0 "\$@" -n 3 \$SUITE none
same 3 "\$(grep -c ' checked\$' out)"
EOF

    it "$maker: a deadline ends an all-reduce to which one does not come, and with it the job" <<EOF
as $maker
job 3 "\$SUPPORT/collfault" mpi late
told 1 'of 3, all-reduce of 100000 i32 (sum): '
matches out 'told: .*(not done within 0.3 s|rank [01] has given up the group)'
has err 'exited without MPI_Finalize'
EOF

    it "$maker: a rank that dies in the middle ends the job" <<EOF
as $maker
for what in 0 6 8 10; do
    job 3 "\$SUPPORT/collfault" mpi die-\$what
    same 1 "\$status"
    has err 'rank 2 exited without MPI_Finalize'
done
EOF

    it "$maker: beside a program that uses MPI itself" <<EOF
command -v mpicc.$maker >/dev/null || skip 'its compiler is not there'
as $maker
mpicc.$maker -O1 -I"\$ROOT/backends" -o both "\$HERE/mpi_both.c" -L"\$PLUGINS/.." -lccrun -lpthread -Wl,-rpath,"\$PLUGINS/.."
for how in sum length late abort absent; do
    job 3 env -u MASTER_ADDR ./both \$how
    [ "\$status" -eq 0 ] || { cat out err; fail "\$how: status \$status"; }
    same 3 "\$(grep -c ': right\$' out)"
done
EOF

    it "$maker: who was started without MPI's protocol, or with another size, is told so" <<EOF
as $maker
export CCRUN_MPI=$maker
MPI=none job 2 \$SUITE
same 1 "\$status"
matches err 'mpi says that this is rank 0 of 1, but the init method that it is rank [01] of 2: was it started for this MPI library'
as $maker
job 2 env WORLD_SIZE=3 \$SUITE
same 1 "\$status"
has err 'of 2, but the init method that it is rank'
EOF
done

for maker in $makers; do
    it "the examples run on $maker: a program of MPI alone, and one of libccrun with its mpi backend" <<EOF
command -v mpicc.$maker >/dev/null || skip 'its compiler is not there'
as $maker
mpicc.$maker -std=c11 -Wall -Wextra -Werror "\$ROOT/backends/examples/mpi_hello.c" -o mpi_hello
expect_status 0 "\$CCRUN" --mpi auto --nproc-per-node 4 ./mpi_hello
same 4 "\$(grep -c '^hello from rank [0-3] of 4: the sum is 6\$' out)"
sed 's/"gloo"/"mpi"/; s/<ccrun.h>/"ccrun.h"/' "\$ROOT/backends/examples/all_reduce.c" >all_reduce.c
cc -std=c11 -I"\$ROOT/backends" all_reduce.c -o all_reduce -L"\$PLUGINS/.." -lccrun -Wl,-rpath,"\$PLUGINS/.."
job 4 ./all_reduce
same 0 "\$status"
same 4 "\$(grep -c 'of 4: the sum is 6\$' out)"
EOF
done

it 'where nothing tells which MPI it is, that is said; and so is a choice that is none' <<'EOF'
MPI=none job 1 $SUITE
same 1 "$status"
has err 'nothing tells for which MPI this process was started' 'ccrun --mpi pmix (Open MPI) or --mpi pmi1 (MPICH, Intel MPI)'
export CCRUN_MPI=lam
MPI=pmi1 job 1 $SUITE
same 1 "$status"
has err "CCRUN_MPI='lam' is none of: openmpi, mpich, the absolute path of a libmpi.so"
export CCRUN_MPI="$PLUGINS/../libccrun.so"
MPI=pmi1 job 1 $SUITE
same 1 "$status"
has err 'libccrun.so is no MPI library'
EOF

# PyPI's MPICH over two hosts: Debian's 4.0.2 hangs in MPI_Finalize there now and then, under its own launcher too.
two_hosts=
case $makers in *openmpi*) two_hosts=openmpi ;; esac
case $makers in *mpich*)
    if python3 -m venv "$SHARED/venv" >"$SHARED/log" 2>&1 && timeout 120 "$SHARED/venv/bin/pip" -q install mpich==5.0.2 >>"$SHARED/log" 2>&1
    then
        two_hosts="$two_hosts mpich5"
        it 'mpich5, 4 ranks, env://' <<'EOF'
suite mpich5 4 env://
EOF
    fi ;;
esac

netlab_needed 2
words <"$LIB/nodes_case.sh"
words <"$LIB/../lab/agents.sh"
words <<'EOF'
over_hosts() { # over_hosts MAKER N METHOD: N ranks on each of two hosts
    as "$1"
    WORKER=$(how "$3")
    lab_nodes 2 --mpi $MPI --nproc-per-node "$2" ${LIBMPI:+--env "CCRUN_MPI=$LIBMPI"}
    host_agent a 1
    host_agent b 2
    ends "$a" 0 100
    ends "$b" 0 100
    same "$2 $2" "$(grep -c ' checked$' a.out) $(grep -c ' checked$' b.out)"
    nothing_left
}
EOF
for maker in $two_hosts; do
    for method in none env:// tcp file; do
        for ranks in 2 4 8; do
            [ "$CCRUN_REPEAT" -ge 50 ] || [ $method$ranks = none2 ] || [ $method$ranks = file4 ] || continue
            it "$maker, $ranks ranks on two hosts, $method" <<EOF
over_hosts $maker $((ranks / 2)) $method
EOF
        done
    done
done
done_testing
