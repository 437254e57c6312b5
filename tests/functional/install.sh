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
for f in include/ccrun.h lib/libccrun.a lib/libccrun.so lib/libccrun.so.0 lib/pkgconfig/ccrun.pc share/man/man3/ccrun.3 \
    share/man/man1/ccrun.1 share/man/man1/ccrun-store.1 share/man/man1/ccrun-check.1 share/man/man5/ccrun-report.5 share/man/man7/ccrun-elastic.7 \
    share/bash-completion/completions/ccrun share/zsh/site-functions/_ccrun share/fish/vendor_completions.d/ccrun.fish; do
    [ -s "$f" ] || fail "$f is missing"
done
has share/man/man1/ccrun.1 '.It Fl -shutdown-timeout'
lacks share/man/man1/ccrun.1 @OPTIONS@
bash -n share/bash-completion/completions/ccrun
cd ../../..
same "$(find root/opt/it -type f | wc -l)" "$(find root -type f | wc -l)"
has root/opt/it/lib/pkgconfig/ccrun.pc 'prefix=/opt/it' 'libdir=/opt/it/lib'
mk uninstall
same '' "$(find root ! -type d)"
same 'bin include lib share share/man' "$(cd root/opt/it && find . -mindepth 1 | sed 's|./||' | sort | paste -sd' ')"
EOF

it 'uninstall leaves what is not its own, and the folders that it is in' <<'EOF'
mk install >log 2>&1 || { cat log; exit 1; }
touch root/opt/it/share/man/man1/other.1 root/opt/it/lib/ccrun/other.so root/opt/it/share/zsh/other
mk uninstall
same 'root/opt/it/lib/ccrun/other.so root/opt/it/share/man/man1/other.1 root/opt/it/share/zsh/other' \
    "$(find root ! -type d | sort | paste -sd' ')"
EOF

it 'a distribution puts libraries and completions where it has them' <<'EOF'
mk LIBDIR=/opt/it/lib/here ZSH_COMPLETIONS=/opt/it/zsh install >log 2>&1 || { cat log; exit 1; }
[ -e root/opt/it/lib/here/libccrun.so.0 ] && [ -e root/opt/it/zsh/_ccrun ]
has root/opt/it/lib/here/pkgconfig/ccrun.pc 'libdir=/opt/it/lib/here'
[ ! -e root/opt/it/lib/libccrun.so.0 ]
mk LIBDIR=/opt/it/lib/here ZSH_COMPLETIONS=/opt/it/zsh uninstall
same '' "$(find root ! -type d)"
EOF

it 'where no backend can be built, the rest is installed' <<'EOF'
mk CXX=nothing MPICC_OPENMPI=nothing MPICC_MPICH=nothing install >log 2>&1 || { cat log; exit 1; }
[ -e root/opt/it/lib/libccrun.so.0 ] && [ -e root/opt/it/bin/ccrun ] && [ ! -e root/opt/it/lib/ccrun ]
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
tar xzf a/*.tar.gz # knows its commit, also inside of another repository
git init -q . && git -c user.name=a -c user.email=a@b.invalid commit -q --allow-empty -m other
same "$(git -C "$LIB" rev-parse HEAD | cut -c1-12)" "$(cd ccrun-* && scripts/commit)"
EOF

git -C "$LIB" rev-parse HEAD >/dev/null 2>&1 &&
    it 'the packages name who builds them, or nobody in particular' <<'EOF'
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=a.b GIT_CONFIG_VALUE_0=c git config a.b >/dev/null || skip 'git is older than 2.31'
named() { # named NAME=VALUE...: and no other user
    (unset DEBFULLNAME DEBEMAIL; env GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0='Git User' GIT_CONFIG_KEY_1=user.email \
        GIT_CONFIG_VALUE_1=git@example.org "$@" "$LIB/../../scripts/release" -o "$T/made" maintainer)
}
same 'Git User <git@example.org>' "$(named)"
same 'Grace H. Ö <g@example.org>' "$(named DEBFULLNAME='Grace H. Ö' DEBEMAIL=g@example.org)"
same 'Ada <ada@example.org>' "$(named DEBEMAIL='Ada <ada@example.org>')"
nobody=$(sed -n 's/^Maintainer: //p' "$LIB/../../scripts/debian/control")
matches /dev/stdin '^.+ <.+@.+[.]invalid>$' <<N
$nobody
N
for bad in root@localhost '' 'a b@example.org' 'a@b@example.org' 'x@example.org|y' 'x&@example.org' 'a\b@example.org'; do
    same "$nobody" "$(named GIT_CONFIG_VALUE_1="$bad")"
done
EOF

done_testing
