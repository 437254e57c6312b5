#!/bin/sh
# The static ccrun in images that have nothing, musl, or glibc: `make static` first.
. "$(dirname "$0")/lib.sh"
. "$LIB/container_case.sh"
STATIC=$(dirname "$CCRUN")/ccrun-static
export STATIC
[ -x "$STATIC" ] || skip_all 'make static has not been run'
containers_needed

# Images as folders: nothing at all but busybox, and one with musl and a worker that is linked with it.
make_roots() {
    busybox=$(command -v busybox) || return 1
    case $(file -L "$busybox" 2>/dev/null) in *statically*) ;; *) return 1 ;; esac
    for root in bare musl; do
        mkdir -p "$SHARED/$root/bin" "$SHARED/$root/etc" "$SHARED/$root/proc" "$SHARED/$root/sys" "$SHARED/$root/dev" "$SHARED/$root/tmp"
        cp "$busybox" "$SHARED/$root/bin/busybox"
        cp "$STATIC" "$SHARED/$root/ccrun"
        for applet in sh true sleep cat env kill; do ln -s busybox "$SHARED/$root/bin/$applet"; done
    done
    rm "$SHARED/bare/bin/busybox" "$SHARED"/bare/bin/*
    mkdir "$SHARED/musl/lib"
    cp /lib/ld-musl-*.so.1 "$SHARED/musl/lib/" 2>/dev/null &&
        musl-gcc -O1 -I"$LIB/../.." -o "$SHARED/musl/bin/hello" -x c - <<'END'
#include <stdio.h>
#include <stdlib.h>
int main(void) { printf("rank %s of %s\n", getenv("RANK"), getenv("WORLD_SIZE")); return 0; }
END
}
make_roots >"$TOP/roots.log" 2>&1 || skip_all 'a musl image needs busybox-static and musl-gcc'

cat >"$SHARED/dns.py" <<'END'
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
print("serving", flush=True)
while True: # every name has one address
    q, to = s.recvfrom(512)
    end = q.index(b"\0", 12) + 5
    a = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1" if q[end - 4:end - 2] == b"\0\1" else b""
    s.sendto(q[:2] + b"\x81\x80\0\1" + (b"\0\1" if a else b"\0\0") + b"\0\0\0\0" + q[12:end] + a, to)
END

words <<'END'
image() { # image NAME: where the containers that follow have their root
    CTR_ROOT=$SHARED/$1
    export CTR_ROOT
}
END

it 'is one file of at most 5 MB that needs no other' <<'E'
[ "$(stat -c %s "$STATIC")" -le 5000000 ] || fail "$(stat -c %s "$STATIC") bytes"
! readelf -d "$STATIC" | grep NEEDED || fail 'it needs a library'
! readelf -l "$STATIC" | grep INTERP || fail 'it needs a loader'
"$STATIC" --version >out
has out 'not here: etcd (this program is static); NVML (this program is static)'
expect_status 2 "$STATIC" --nnodes 2 --rdzv-backend etcd --rdzv-endpoint 127.0.0.1:1 --no-python true
has err 'this ccrun is static and cannot speak with etcd'
E

it 'needs nothing of its image: FROM scratch' <<'E'
image bare
expect_status 0 ctr bare /ccrun --version
has out 'ccrun 0'
expect_status 0 ctr bare /ccrun --no-python /ccrun --version # itself as the worker: there is nothing else
has out 'ccrun 0'
expect_status 127 ctr bare /ccrun --no-python /bin/true
has err "/bin/true"
E

it 'runs what is linked with musl, and what is linked with glibc' <<'E'
image musl
expect_status 0 ctr musl /ccrun --nproc-per-node 3 --no-python /bin/hello
same 'rank 0 of 3,rank 1 of 3,rank 2 of 3,' "$(sort out | tr '\n' ,)"
expect_status 3 ctr musl /ccrun --nproc-per-node 2 --max-restarts 1 --no-python /bin/sh -c 'echo $RANK $TORCHELASTIC_RESTART_COUNT; exit 3'
has err 'exited with code 3'
unset CTR_ROOT
expect_status 0 ctr glibc "$STATIC" --nproc-per-node 2 --no-python sh -c 'echo rank $RANK'
same 'rank 0,rank 1,' "$(sort out | tr '\n' ,)"
E

it 'finds names in files and by DNS, whatever nsswitch.conf wants' <<'E'
cat >inside <<'END'
echo 'hosts: resolve [!UNAVAIL=return] mymachines mdns4_minimal [NOTFOUND=return] files dns' >/etc/nsswitch.conf
echo 'nameserver 127.0.0.1' >/etc/resolv.conf
echo '127.0.0.1 localhost in-a-file' >/etc/hosts
python3 "$2/dns.py" &
for name in in-a-file by-dns.example; do
    # A spare makes it a job that others could join; it starts when it is asked for one node.
    timeout 20 "$1" --nnodes 1 --spares 1 --rdzv-endpoint "$name:29400" --no-python sh -c 'echo "up $MASTER_ADDR"' 2>&1
done
END
expect_status 0 ctr names sh "$T/inside" "$STATIC" "$SHARED"
same 2 "$(grep -c '^up ' out)"
same 2 "$(grep -c 'hosts the job, at 127.0.0.1:29400' out)"
image musl
mkdir -p "$CTR_ROOT/etc"
echo '127.0.0.1 in-a-file' >"$CTR_ROOT/etc/hosts"
expect_status 0 ctr names /ccrun --nnodes 1 --spares 1 --rdzv-endpoint in-a-file:29400 --no-python /bin/hello
has err 'hosts the job, at 127.0.0.1:29400'
has out 'rank 0 of 1'
command -v ip >/dev/null || skip "the rest needs the program 'ip'"
bg dns unshare --net sh -c 'ip link set lo up && exec python3 "$0"' "$SHARED/dns.py"
wait_for 'grep -q serving dns.out'
echo 'nameserver 127.0.0.1' >"$CTR_ROOT/etc/resolv.conf"
NETNS=/proc/$pid/ns/net expect_status 0 ctr names /ccrun --nnodes 1 --spares 1 --rdzv-endpoint by-dns.example:29400 --no-python /bin/hello
has err 'hosts the job, at 127.0.0.1:29400'
has out 'rank 0 of 1'
kill $pid
ends $pid 143
E

it 'counts GPUs by what the container shows, without a driver library' <<'E'
mkdir -p "$SHARED/musl/dev"
image musl
expect_status 0 ctr gpus /bin/env CUDA_VISIBLE_DEVICES=0,1,2 /ccrun --nproc-per-node gpu --no-python /bin/hello
same 3 "$(grep -c 'of 3' out)"
E

it 'as process 1 it stops, reaps and is probed like the other' <<'E'
unset CTR_ROOT
expect_status 0 ctr storm "$STATIC" --no-python "$SUPPORT/storm" 300 1000
bg_ctr job "$STATIC" --no-python "$SUPPORT/heed" TERM=0
wait_for 'grep -q ^up job.out'
expect_status 0 ctr_exec job "$STATIC" --probe ready
kill $pid
ends $pid 143
E
done_testing
