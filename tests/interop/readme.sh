#!/bin/sh
# README's first screen: the output that it shows is the output there is.  And its recipes that take a compiler.
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

words <<'EOF'
# examples: what somebody sees who has installed ccrun and stands in the checkout
examples() {
    mkdir commands backends
    ln -s "$CCRUN" commands/ccrun
    cp -r "$LIB/../../backends/examples" backends/examples
    export PATH="$PWD/commands:$PATH"
}
EOF

it 'MPI programs' <<'E'
command -v mpicc >/dev/null || skip 'no MPI is installed with its compiler'
examples
recipe mpi >script
sh -eu script >out
same 4 "$(grep -c '^hello from rank [0-3] of 4: the sum is 6$' out)"
E

it 'programs in C' <<'E'
examples
env -u MAKEFLAGS -u MAKELEVEL make -s --no-print-directory -C "$LIB/../.." install DESTDIR="$PWD/root" PREFIX=/usr >log 2>&1 || { cat log; exit 1; }
export PKG_CONFIG_SYSROOT_DIR="$PWD/root" PKG_CONFIG_PATH="$PWD/root/usr/lib/pkgconfig" LD_LIBRARY_PATH="$PWD/root/usr/lib"
recipe library >script
sh -eu script >out
same 4 "$(grep -c '^rank [0-3] of 4: the sum is 6$' out)"
E

done_testing
