# shellcheck shell=sh
# What `make release` has made, each installed into a minimal system, run, and taken away again.
# Needs root, debootstrap, and the network that apt and pip are set up for; RELEASE is the folder with it.
. "$(dirname "$0")/../functional/lib.sh"
. "$LIB/readme_words.sh"
: "${RELEASE:?the folder that make release has filled}" "${ROOT_CACHE:?a folder for minimal systems}"
export RELEASE ROOT_CACHE
[ "$(id -u)" -eq 0 ] || skip_all 'a system in a folder needs root'
PATH=$PATH:/usr/sbin:/sbin
command -v debootstrap >/dev/null || skip_all 'a minimal system needs the program debootstrap'
unshare --mount --pid --fork true 2>/dev/null || skip_all 'this machine makes no namespaces'
limit 1800

words <<'EOF'
root() { bash "$LIB/../lab/root.sh" "$@"; }
new_root() { root new r "$@" || skip "no minimal system: $(tail -n 1 "$ROOT_CACHE"/*.log)"; }
get() { # get PACKAGE...: into the system r
    root in r sh -c 'export DEBIAN_FRONTEND=noninteractive; { apt-get -q update && apt-get -q install -y --no-install-recommends "$@"; } >log 2>&1 ||
        { tail log; exit 1; }' - "$@"
}
# works COMMAND: that ccrun runs jobs, tells what it is, and is no script.
works() {
    root in r sh -euc '
        ccrun=$(command -v "$1")
        [ "$(head -c 4 "$ccrun" | tail -c 3)" = ELF ]
        "$ccrun" --version
        "$ccrun" --nproc-per-node 2 --no-python sh -c "echo rank \$RANK of \$WORLD_SIZE"
        "${ccrun}-store" --version
        "${ccrun}-check" --version' - "$1" >out || { cat out; exit 1; }
    has out 'ccrun 0.' 'libuv 1.' 'rank 0 of 2' 'rank 1 of 2' 'ccrun-store 0.' 'ccrun-check 0.'
}
EOF

it 'the tarball is the same from another checkout' <<'E'
git clone -q "$LIB/../.." 'other place'
git -C 'other place' checkout -q "$(gzip -dc "$RELEASE"/ccrun-*.tar.gz | git get-tar-commit-id)"
'other place/scripts/release' -o made tarball
cmp made/ccrun-*.tar.gz "$RELEASE"/ccrun-*.tar.gz
E

it 'the Debian packages' <<'E'
[ -n "$(find "$RELEASE" -name '*.deb')" ] || fail "no package in $RELEASE"
new_root
get python3-minimal gcc libc6-dev pkg-config libgloo0
cp "$RELEASE"/*.deb r/tmp/
root files r >before
command=$(recipe install | sed -n 's/^sudo \(apt install [^ ]*\).*/\1/p')
[ -n "$command" ]
root in r sh -c "cd /tmp && $command -y --no-install-recommends ./libccrun*.deb </dev/null >log 2>&1 || { tail log; exit 1; }"
works ccrun
root in r sh -euc 'zcat /usr/share/man/man1/ccrun.1.gz | grep -q shutdown-timeout
    cd /tmp && cp /usr/share/doc/libccrun-dev/examples/all_reduce.c .
    gcc -o a all_reduce.c $(pkg-config --cflags --libs ccrun) -lm
    ccrun --nproc-per-node 2 --no-python ./a'
root in r sh -euc 'dpkg --verify ccrun libccrun0 libccrun-dev; apt-get purge -q -y --autoremove ccrun libccrun0 libccrun-dev >/dev/null 2>&1'
root files r >after
diff before after
E

it 'the wheel' <<'E'
wheel=$(find "$RELEASE" -name '*.whl')
[ -n "$wheel" ] || fail "no wheel in $RELEASE"
[ "$(stat -c %s "$wheel")" -le 3000000 ]
new_root
get python3-minimal python3-venv
root in r python3 -m venv /venv
cp "$wheel" r/tmp/
root files r >before
command=$(recipe install | sed -n 's/^\(pip install [^ ]*\).*/\1/p')
[ -n "$command" ]
root in r sh -c "cd /tmp && PATH=/venv/bin:\$PATH $command </dev/null >log 2>&1 || { tail log; exit 1; }"
works /venv/bin/ccrun
[ -s r/venv/share/man/man1/ccrun.1 ]
root in r /venv/bin/pip uninstall -q -y ccrun
root files r >after
# pip takes away what it has put there, and the folders right above; share/man itself is no file of ours
diff before after | grep '^[<>]' | grep -v '^> ./venv/share\(/man\)*$' && fail 'the wheel leaves something behind' || true
E

it 'the wheel, on a system that is years older' <<'E'
wheel=$(find "$RELEASE" -name '*.whl')
case $wheel in
*manylinux_2_28_*) ;;
*) skip "${wheel##*/} is not for such" ;;
esac
new_root bullseye
python3 -m zipfile -e "$wheel" files
cp files/*.data/scripts/* r/usr/bin/
chmod 755 r/usr/bin/ccrun*
works ccrun
root in r sh -c 'ldd --version' >libc
has libc 2.31
E

it 'installed from these sources, by the commands of README, and taken away by make uninstall' <<'E'
new_root
get ca-certificates git make sudo
root files r >before
tar -xzf "$RELEASE"/ccrun-*.tar.gz -C r/tmp
command=$(recipe install | sed -n '1s/ *#.*//p')
root in r sh -c "cd /tmp/ccrun-* && $command </dev/null >log 2>&1 || { tail -n 40 log; exit 1; }"
works /usr/local/bin/ccrun
root in r sh -c 'cd /tmp/ccrun-* && make uninstall'
root files r | grep '^./usr/local/' >after || true
grep '^./usr/local/' before | diff - after
E

done_testing
