#!/bin/sh
# libccrun as it is installed: what it needs, what it shows, and the examples built with it and run.
. "$(dirname "$0")/lib.sh"
limit 120
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export ROOT

words <<'EOF'
LIB=${CCRUN%/*}/../lib
CC=${CC:-cc}
sanitized() { ! nm -D "$LIB/libccrun.so" | grep -q '__asan_'; } # succeeds when it is not
build() { # build PROGRAM: against what is installed, with pkg-config's flags
    # shellcheck disable=SC2046 # flags are words
    "$CC" -std=c11 -Wall -Wextra -Werror "$ROOT/backends/examples/$1.c" \
        $(PKG_CONFIG_PATH="$SHARED/root/lib/pkgconfig" pkg-config --cflags --libs ccrun) -Wl,-rpath,"$SHARED/root/lib" -o "$1"
}
EOF

it 'links the C library and nothing else' <<'EOF'
sanitized || skip 'built with a sanitizer, which is linked'
readelf -d "$LIB/libccrun.so" >dynamic
readelf -d "$LIB/libccrun.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libdl|libpthread|ld-linux.*)\.so' && exit 1
has dynamic 'Library soname: [libccrun.so.0]'
ldd "$LIB/libccrun.so" | sed 's/^[[:space:]]*//; s/ .*//; s|.*/||; s/\.so.*//' | grep -vxE 'linux-vdso|libc|libdl|libpthread|ld-linux.*|ld64' && exit 1
true
EOF

it 'shows names that begin with ccrun_ and no others' <<'EOF'
nm -D --defined-only "$LIB/libccrun.so" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' >names
same 0 "$(grep -cv '^ccrun_' names || true)"
nm -g --defined-only "$LIB/libccrun.a" | awk 'NF == 3 { print $3 }' >names.a
same 0 "$(grep -cv '^ccrun_' names.a || true)"
grep -vE '^[ /]' "$ROOT/backends/ccrun.h" | grep -oE 'ccrun_[a-z_]+\(' | tr -d '(' | sort -u >header
sort names | diff - header
EOF

it 'says each of its functions in the manual page' <<'EOF'
for name in $(nm -D --defined-only "$LIB/libccrun.so" | awk '$2 == "T" { print $3 }' | sed 's/@.*//'); do
    grep -q "$name" "$ROOT/man/ccrun.3" || fail "$name is not in ccrun.3"
done
EOF

it 'is installed' <<'EOF'
sanitized || skip 'a build with a sanitizer is not installed'
make -C "$ROOT" -s install PREFIX="$SHARED/root" >log 2>&1 || { cat log; exit 1; }
[ -e "$SHARED/root/include/ccrun.h" ] && [ -e "$SHARED/root/lib/libccrun.a" ]
same libccrun.so.0 "$(readlink "$SHARED/root/lib/libccrun.so")"
EOF

it 'an example runs under ccrun, built with what is installed' <<'EOF'
[ -e "$SHARED/root/lib/ccrun/libccrun-gloo.so" ] || skip 'libccrun was built without gloo'
build all_reduce
expect_status 0 "$SHARED/root/bin/ccrun" --no-python --nproc-per-node 4 ./all_reduce
same 4 "$(grep -c 'of 4: the sum is 6$' out)"
EOF

it 'the example for NCCL runs, here over doubles of it and of the driver' <<'EOF'
build all_reduce_nccl
export LD_LIBRARY_PATH="$SUPPORT/fake"
expect_status 0 "$SHARED/root/bin/ccrun" --no-python --nproc-per-node 4 ./all_reduce_nccl
same 4 "$(grep -c 'of 4: the sum is 6$' out)"
EOF

it 'the example in CUDA is built where nvcc is, and runs where a GPU is' <<'EOF'
command -v nvcc >/dev/null || skip 'no nvcc'
# shellcheck disable=SC2046 # flags are words
nvcc -O2 "$ROOT/backends/examples/fill_and_check.cu" $(PKG_CONFIG_PATH="$SHARED/root/lib/pkgconfig" pkg-config --cflags --libs ccrun) \
    -Xlinker -rpath="$SHARED/root/lib" -o fill_and_check
if [ -e /dev/nvidia0 ]; then
    expect_status 0 "$SHARED/root/bin/ccrun" --no-python --nproc-per-node gpu ./fill_and_check 16
    has out ' numbers, 0 wrong'
else
    expect_status 1 ./fill_and_check 1
    has err 'fill_and_check: '
fi
EOF

for url in tcp://127.0.0.1:PORT file://TOP/meet; do
    it "an example runs without a launcher: $url" <<EOF
[ -e "\$SHARED/root/lib/ccrun/libccrun-gloo.so" ] || skip 'libccrun was built without gloo'
build all_reduce_url
url=\$(echo $url | sed "s|PORT|\$("\$SUPPORT/freeport")|; s|TOP|\$PWD|")
for r in 0 1 2; do
    ./all_reduce_url \$r 3 "\$url" >out.\$r 2>&1 &
done
wait
cat out.?
same 3 "\$(cat out.? | grep -c 'of 3: the sum is 3\$')"
EOF
done

it 'a program that has the library in itself finds the rest of it on PATH' <<'EOF'
sanitized || skip 'a build with a sanitizer is not installed'
"$CC" -std=c11 -I"$SHARED/root/include" "$ROOT/backends/examples/all_reduce_url.c" "$SHARED/root/lib/libccrun.a" -ldl -lpthread -o static
readelf -d static | grep -q libccrun && exit 1
sed 's/"gloo"/"self"/' "$ROOT/backends/examples/all_reduce_url.c" >self.c
"$CC" -std=c11 -I"$SHARED/root/include" self.c "$SHARED/root/lib/libccrun.a" -ldl -lpthread -o self
env -u TORCHELASTIC_USE_AGENT_STORE PATH="$SHARED/root/bin:$PATH" ./self 0 1 "tcp://127.0.0.1:$("$SUPPORT/freeport")" >out
has out 'rank 0 of 1: the sum is 0'
expect_status 1 env -u TORCHELASTIC_USE_AGENT_STORE PATH=/nowhere ./self 0 1 "tcp://127.0.0.1:$("$SUPPORT/freeport")"
has err 'ccrun-store, with which rank 0 would, is neither beside libccrun nor on PATH'
EOF

it 'a backend whose library is missing, broken, or of another build is named' <<'EOF'
sanitized || skip 'a build with a sanitizer is not installed'
cp -L "$SHARED/root/lib/libccrun.so" libccrun.so.0
build all_reduce
refused() { # refused TEXT
    expect_status 1 env RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT="$("$SUPPORT/freeport")" PATH="$SHARED/root/bin:$PATH" \
        LD_PRELOAD="$PWD/libccrun.so.0" ./all_reduce
    has err "gloo: rank 0 of 1, group 'default': $1"
}
refused 'libccrun-gloo.so is not in the folder ccrun/ beside libccrun'
mkdir ccrun
echo 'no library' >ccrun/libccrun-gloo.so
refused "cannot load it: $PWD/ccrun/libccrun-gloo.so: "
other='libccrun-gloo.so is of another version than libccrun: install both from one build'
echo 'const int ccrun_gloo_shim = 999;' >other.c
"$CC" -shared -fPIC -o ccrun/libccrun-gloo.so other.c
refused "$other"
echo 'int nothing;' >other.c
"$CC" -shared -fPIC -o ccrun/libccrun-gloo.so other.c
refused "$other"
EOF
done_testing
