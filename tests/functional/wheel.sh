#!/bin/sh
# The wheel, made of stand-ins for the programs; tests/release has the real one.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip_all 'no python3'
command -v readelf >/dev/null || skip_all 'no readelf (binutils)'
python3 -m pip --version >/dev/null 2>&1 || skip_all 'no pip'
limit 60

words <<'EOF'
lay_out() { # lay_out PROGRAM: as `make install-programs` does
    mkdir -p tree/bin tree/share/man/man1 licenses
    cp "$1" tree/bin/ccrun
    echo page >tree/share/man/man1/ccrun.1
    echo text >licenses/LICENSE
}
make_wheel() { "$LIB/../../scripts/make-wheel" --version 1.2.3 --root tree --licenses licenses --out . ; }
# Installs without the network, into a folder without a pip.
pip() { python3 -m pip --python v/bin/python --disable-pip-version-check "$@"; }
EOF

it 'is tagged with what the program asks of the C library, installs the program itself, and leaves no file behind' <<'EOF'
lay_out "$SUPPORT/freeport"
make_wheel >out
newest=$(readelf -W -V tree/bin/ccrun | sed -n 's/.*Name: GLIBC_\([0-9]*\)[.]\([0-9]*\).*/\1_\2/p' | sort -t_ -k1,1n -k2,2n | tail -n 1)
same "./ccrun-1.2.3-py3-none-manylinux_${newest}_$(uname -m).whl" "$(cat out)"
python3 -m venv --without-pip v
find v -type f -o -type l | sort >before
pip install -q --no-index ./*.whl 2>err || { cat err; skip 'this pip is too old for --python'; }
cmp tree/bin/ccrun v/bin/ccrun
[ -x v/bin/ccrun ]
[ -s v/share/man/man1/ccrun.1 ]
pip check
pip uninstall -q -y ccrun
find v -type f -o -type l | sort | cmp before -
EOF

it 'has a RECORD that is right' <<'EOF'
lay_out "$SUPPORT/freeport"
make_wheel >/dev/null
python3 - ccrun-*.whl <<'PY'
import base64, csv, hashlib, io, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
rows = {r[0]: r[1:] for r in csv.reader(io.StringIO(z.read("ccrun-1.2.3.dist-info/RECORD").decode()))}
assert set(rows) == set(z.namelist()) and len(rows) == len(z.namelist()), rows
for name, (digest, size) in rows.items():
    if name.endswith("/RECORD"):
        assert not digest and not size
        continue
    data = z.read(name)
    want = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    assert (digest, int(size)) == (want, len(data)), name
assert z.getinfo("ccrun-1.2.3.data/scripts/ccrun").external_attr >> 16 == 0o100755
PY
EOF

it 'is the same, byte for byte, when it is made again' <<'EOF'
lay_out "$SUPPORT/freeport"
make_wheel >/dev/null
mkdir first
mv ./*.whl first
touch -d 2001-01-01 tree/bin/ccrun
make_wheel >/dev/null
cmp first/*.whl ccrun-*.whl
EOF

it 'refuses a program that links what other machines may lack' <<'EOF'
lay_out "$CCRUN"
readelf -d tree/bin/ccrun | grep -q 'NEEDED.*libuv' || skip 'libuv is linked statically here'
expect_status 1 make_wheel
has err 'links libuv.so.1' 'link it statically'
EOF

done_testing
