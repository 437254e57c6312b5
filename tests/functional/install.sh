#!/bin/sh
# What installation puts where, and that it can be taken away again.
. "$(dirname "$0")/lib.sh"
limit 120

words <<'EOF'
mk() { env -u MAKEFLAGS -u MAKELEVEL make -s --no-print-directory -C "$LIB/../.." DESTDIR="$PWD/root" PREFIX=/opt/it "$@"; }
EOF

it 'install and uninstall honour DESTDIR and PREFIX, and leave nothing behind' <<'EOF'
mk install >log 2>&1 || { cat log; exit 1; }
cd root/opt/it
"$PWD/bin/ccrun" --version | grep -q '^ccrun '
[ -x bin/ccrun-store ]
"$PWD/bin/ccrun-check" --version | grep -q '^ccrun-check '
for f in share/man/man1/ccrun.1 share/man/man1/ccrun-store.1 share/man/man1/ccrun-check.1 share/man/man5/ccrun-report.5 share/man/man7/ccrun-elastic.7 \
    share/bash-completion/completions/ccrun share/zsh/site-functions/_ccrun share/fish/vendor_completions.d/ccrun.fish; do
    [ -s "$f" ] || fail "$f is missing"
done
has share/man/man1/ccrun.1 '.It Fl -shutdown-timeout'
lacks share/man/man1/ccrun.1 @OPTIONS@
bash -n share/bash-completion/completions/ccrun
cd ../../..
same "$(find root/opt/it -type f | wc -l)" "$(find root -type f | wc -l)"
mk uninstall
same 0 "$(find root -type f | wc -l)"
EOF

it '--version tells what is inside, what would be loaded, and what this machine lacks' <<'EOF'
"$CCRUN" --version >out
matches out '^ccrun [0-9]+[.][0-9]+[.][0-9]+( [(][0-9a-f]{12}[)])?$'
matches out '^libuv 1[.][0-9.]+, cJSON 1[.][0-9.]+$'
matches out '^features: rendezvous by c10d, static and file; job token; MPI by PMI-1(; |$)'
for what in etcd NVML 'MPI by PMIx'; do
    same 1 "$(grep -cF "$what (" out)"
done
[ -e "${CCRUN%/*}/ccrun-pmix" ] && has out 'MPI by PMIx (ccrun-pmix)' || has out 'MPI by PMIx (no ccrun-pmix beside ccrun)'
cp "$CCRUN" alone
./alone --version >out2
matches out2 '^not here: .*MPI by PMIx [(]no ccrun-pmix beside ccrun[)]'
"${CCRUN%/*}/ccrun-store" --version >out3
matches out3 '^ccrun-store [0-9.]+, libuv 1[.][0-9.]+$'
EOF

git -C "$LIB" rev-parse HEAD >/dev/null 2>&1 &&
    it 'dist makes the same bytes each time' <<'EOF'
mk BUILD="$PWD/a" dist >one
mk BUILD="$PWD/b" dist >two
same "$(cut -d' ' -f1 one)" "$(cut -d' ' -f1 two)"
tar tzf a/*.tar.gz | grep -q '^ccrun-[0-9.]*/Makefile$'
EOF

done_testing
