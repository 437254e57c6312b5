#!/bin/sh
# What killed ranks of MPI have in shared memory goes with the job, or the next attempt has less of it.
. "$(dirname "$0")/../functional/lib.sh"
limit 60

for maker in mpich openmpi; do
    if command -v "mpicc.$maker" >/dev/null && "mpicc.$maker" -O1 -o "$SHARED/$maker" "$HERE/mpi_shm.c" >"$SHARED/log" 2>&1; then
        makers="${makers:-} $maker"
    fi
done
# Version 5 has its file as long as it runs.
if [ "$CCRUN_REPEAT" -ge 50 ] && python3 -m venv "$SHARED/venv" >"$SHARED/log" 2>&1 &&
    timeout 120 "$SHARED/venv/bin/pip" -q install mpich==5.0.2 >>"$SHARED/log" 2>&1 &&
    "$SHARED/venv/bin/mpicc" -O1 -o "$SHARED/mpich5" "$HERE/mpi_shm.c" >>"$SHARED/log" 2>&1; then
    makers="${makers:-} mpich5"
fi
[ -n "${makers:-}" ] || skip_all 'no MPI is installed with its compiler (libmpich-dev, libopenmpi-dev)'
${CC:-cc} -DPRELOAD -fPIC -shared -o "$SHARED/preload.so" "$HERE/mpi_shm.c" || skip_all 'no compiler'

for maker in $makers; do
    it "$maker: a rank that is killed leaves nothing in /dev/shm" <<EOF
"\$CCRUN" --no-python --mpi auto --nproc-per-node 2 "\$SHARED/$maker" >out 2>err || status=\$?
same 137 "\${status:-0}"
sort -u maps.0 maps.1 >had
while read -r file; do
    [ ! -e "\$file" ] || { echo "\$file is left"; exit 1; }
done <had
EOF
done

it 'mpich: what a rank that was killed in MPI_Init has left is removed, and said' <<'EOF'
[ -e "$SHARED/mpich" ] || skip 'no mpich'
LD_PRELOAD="$SHARED/preload.so" "$CCRUN" --no-python --mpi auto --nproc-per-node 2 "$SHARED/mpich" >out 2>err || status=$?
same 137 "${status:-0}"
[ -s left ] || skip 'this MPICH removes no such file in MPI_Init'
[ ! -e "$(cat left)" ]
matches err 'ccrun: removed [1-9][0-9]* files? of dead workers from /dev/shm'
EOF
done_testing
