#!/bin/sh
# libccrun on GPUs: what only the nccl backend has; the suites that all backends pass are in collectives.sh.
. "$(dirname "$0")/lib.sh"
limit 60
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export ROOT

words <<'EOF'
fault() { # fault HOW TEXT: all 3 ranks are told it, or more, and end well
    expect_status 0 "$CCRUN" --no-python --nproc-per-node 3 "$SUPPORT/collfault" nccl "$1"
    same 3 "$(grep -c '^well$' out)"
    grep '^told: ' out >told
    same 0 "$(grep -cvF -e "$2" told || true)"
}
suite() { # suite N BACKEND: it is nccl
    expect_status 0 "$CCRUN" --no-python --nproc-per-node "$1" "$SUPPORT/collsuite" "$2"
    same "$1" "$(grep -c '^nccl: .* checked$' out)"
}
refused() { # refused N TEXT...: a group of N cannot be made, or used, and it is said why
    expect_status 1 "$CCRUN" --no-python --nproc-per-node "$1" "$SUPPORT/collsuite" nccl env:// "${ms:-20000}"
    shift
    has err "$@"
}
nvidia_nccl() { # sets $nccl: NCCL_HOME, /usr, or in a full run what pip has
    nccl=${NCCL_HOME:-/usr}
    if [ ! -e "$nccl/include/nccl.h" ] && [ "$CCRUN_REPEAT" -ge 50 ]; then
        [ -e "$SHARED/nvidia" ] || { python3 -m pip download -q --no-deps -d "$SHARED" nvidia-nccl-cu13 &&
            python3 -m zipfile -e "$SHARED"/nvidia_nccl_cu13*.whl "$SHARED"; } >pip.log 2>&1 || skip "no NCCL: $(tail -n 1 pip.log)"
        nccl=$SHARED/nvidia/nccl
    fi
}
no_driver() { ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' || skip 'there is an NVIDIA driver'; }
EOF

for ranks in 1 2 4; do
    it "buffers on GPUs, streams of the user, messages of all to all: $ranks ranks" <<EOF
gpus $ranks
expect_status 0 "\$CCRUN" --no-python --nproc-per-node $ranks "\$SUPPORT/nccldev"
same $ranks "\$(grep -c ' checked\$' out)"
EOF
done

it 'a deadline ends an all-reduce to which one does not come, and says which' <<'EOF'
gpus 3
fault late 'not done within 0.3 s; rank 2 '
EOF

it 'a launch that hangs ends with the deadline, and all meet again' <<'EOF'
doubles
export FAKE_NCCL_FAULT=hang:1:1
fault fails 'all-reduce of 100000 i32 (sum): '
has told 'not done within 0.3 s'
EOF

it 'an error that NCCL finds by itself ends the call at every rank, and all meet again' <<'EOF'
doubles
export FAKE_NCCL_FAULT=async:1:1
fault fails 'all-reduce of 100000 i32 (sum): '
has told 'rank 1 of 3, all-reduce of 100000 i32 (sum): remote process exited or there was a network error (NET/IB: Got completion with error 12)'
EOF

it 'a launch that fails is told with what NCCL says' <<'EOF'
doubles
export FAKE_NCCL_FAULT=launch:1:5
refused 2 ': internal error (a launch failed)'
EOF

# ---- no library, too old, no GPU, and relatives of these

it 'no GPU: no driver' <<'EOF'
no_driver
export LD_LIBRARY_PATH=/nowhere
refused 1 "nccl: rank 0 of 1, group 'default': no GPU: libcuda.so.1, which comes with the NVIDIA driver, cannot be loaded"
EOF

it 'no GPU: the driver finds none' <<'EOF'
doubles
export FAKE_CUDA_DEVICES=0 CUDA_VISIBLE_DEVICES=
refused 1 "no GPU: the NVIDIA driver is here and finds none, and CUDA_VISIBLE_DEVICES is ''"
EOF

it 'no GPU: fewer than ranks' <<'EOF'
doubles
export FAKE_CUDA_DEVICES=2
refused 3 "no GPU: LOCAL_RANK's is cuda:2, and this process sees 2"
EOF

it 'a launcher that shows each rank one GPU is understood' <<'EOF'
doubles
export FAKE_CUDA_DEVICES=1
suite 2 nccl
EOF

it 'no NCCL' <<'EOF'
doubles
export CCRUN_NCCL=/nowhere/libnccl.so.2
refused 1 'NCCL cannot be loaded: /nowhere/libnccl.so.2: cannot open shared object file' 'name the file in CCRUN_NCCL'
EOF

it 'NCCL is too old: which it is, and which is needed' <<'EOF'
doubles
export FAKE_NCCL_VERSION=2.10.3
refused 1 'NCCL is too old: ' "fake/libnccl.so.2 is of version 2.10.3, and 2.14.0 or newer is needed"
export FAKE_NCCL_VERSION=2.8.4
refused 1 'is of version 2.8.4, and 2.14.0 or newer'
EOF

it 'another library in its place is none' <<'EOF'
doubles
export CCRUN_NCCL=libm.so.6
refused 1 'libm.so.6 is not NCCL: it has no ncclGetVersion()'
EOF

it 'the driver is too old' <<'EOF'
doubles
export FAKE_CUDA_VERSION=10020
refused 1 'the NVIDIA driver is too old: it is of CUDA 10.2, and 11.2 or newer is needed'
EOF

it 'a rank that cannot is named to the others, which do not wait for their deadline' <<'EOF'
doubles
cat >each.sh <<'EACH'
[ "$RANK" != 0 ] || export FAKE_NCCL_FAULT=id
status=0
"$SUPPORT/collsuite" nccl env:// 15000 || status=$?
exit $((status == 1 ? 0 : 9))
EACH
start=$(now_ms)
expect_status 0 "$CCRUN" --no-python --nproc-per-node 3 sh each.sh
in_time "$start" 10000
same 2 "$(grep -c "group 'default': given up, as rank 0 failed in init: unhandled system error (Bootstrap : no socket" err)"
EOF

it 'an init in which one hangs ends with the deadline' <<'EOF'
doubles
export FAKE_NCCL_FAULT=init-hang:1
ms=700 refused 2 'the ranks are not connected within 0.7 s'
EOF

it 'no memory on the GPU for a host buffer' <<'EOF'
doubles
export FAKE_CUDA_NO_MEMORY=1
refused 2 'bytes on cuda:' 'for a host buffer: out of memory (CUDA_ERROR_OUT_OF_MEMORY)'
EOF

words <<'EOF'
one_line() { tr -s ' \n' ' ' <"$1"; }
needs_nvcc() { if one_line out | grep -q 'built without nvcc'; then skip 'no nvcc'; fi; }
EOF

it 'ccrun-check fills and checks buffers on the GPU, and says so' <<'EOF'
gpus 2
PATH=${CCRUN%/*}:$PATH
"$CCRUN" --no-python --nproc-per-node 2 ccrun-check --iters 2 --timeout 20 --pairs --slow 0.001 --sizes 8,64K --json file.json >out 2>err
needs_nvcc
has out 'buffers: filled and checked on the GPU' 'all is well'
grep -qE '"buffers":[[:space:]]*"GPU"' file.json
EOF

it 'without a kernel the host fills and checks, and it is said why' <<'EOF'
doubles
PATH=${CCRUN%/*}:$PATH
export FAKE_CUDA_NO_KERNEL=1
expect_status 0 "$CCRUN" --no-python --nproc-per-node 2 ccrun-check --iters 2 --timeout 20 --sizes 64K --json file.json
has out 'buffers: filled and checked on the host, and copied: ' 'all is well'
one_line out | grep -qE 'cannot load the kernel of ccrun-check|was built without nvcc'
grep -qE '"buffers":[[:space:]]*"host"' file.json
EOF

it 'what came wrong is found on the GPU' <<'EOF'
doubles
PATH=${CCRUN%/*}:$PATH
export FAKE_CUDA_WRONG=1
status=0
"$CCRUN" --no-python --nproc-per-node 2 ccrun-check --iters 2 --warmup 0 --ops all-gather --sizes 64K --timeout 20 >out 2>err || status=$?
needs_nvcc
same 1 "$status"
has out 'FAULT: all-gather of 65536 bytes: 8 elements arrived wrong'
EOF

it 'ccrun-check: a pair that fails once is measured again, and nobody is accused' <<'EOF'
doubles
PATH=${CCRUN%/*}:$PATH
export FAKE_NCCL_FAULT=async:1:0 # the first launch
expect_status 0 "$CCRUN" --no-python --nproc-per-node 2 ccrun-check --pairs --ops none --slow 0.001 --timeout 20 --json file.json
tr -s ' \n' ' ' <out >line
has line 'all is well' 'with rank 1: the second time it worked'
lacks out FAULT
same 2 "$(grep -cE '"gbs":[[:space:]]*[0-9]' file.json)"
EOF

it 'ccrun-check: a pair that fails twice is named' <<'EOF'
doubles
PATH=${CCRUN%/*}:$PATH
export FAKE_NCCL_FAULT=init:1
expect_status 1 "$CCRUN" --no-python --nproc-per-node 2 ccrun-check --pairs --ops none --timeout 20
has out 'FAULT: rank 0 and rank 1 cannot communicate with each other'
lacks out 'the second time it worked'
EOF

it 'ccrun-check measures between GPUs' <<'EOF'
gpus 2
PATH=${CCRUN%/*}:$PATH
expect_status 0 "$CCRUN" --no-python --nproc-per-node 2 ccrun-check --iters 2 --warmup 1 --timeout 20 --pairs --slow 0.01 \
    --sizes 8,1M --json file.json # the doubles share two CPUs with whatever else runs: nothing is to be slow here
has out ' 2 ranks, nccl, ' 'all is well'
same 8 "$(grep -cE '^(all-reduce|all-gather|reduce-scatter|send-recv) ' out)"
same 8 "$(grep -oE '"wrong":[[:space:]]*0\b' file.json | wc -l)"
same 2 "$(grep -cE '"nccl":[[:space:]]*"NCCL 2\.[0-9]+\.[0-9]+"' file.json)"
EOF

# ---- auto

it 'auto is nccl where every rank has a GPU' <<'EOF'
gpus 2
suite 2 auto
EOF

it 'auto is gloo where one has none' <<'EOF'
[ -e "${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so" ] || skip 'libccrun was built without gloo'
doubles
cat >some.sh <<'SOME'
[ "$LOCAL_RANK" != 1 ] || export FAKE_CUDA_DEVICES=0
exec "$SUPPORT/collsuite" auto
SOME
expect_status 0 "$CCRUN" --no-python --nproc-per-node 2 sh some.sh
same 2 "$(grep -c '^gloo: .* checked$' out)"
EOF

it 'auto is gloo where two ranks see the same GPU, and nccl where each sees another one' <<'EOF'
[ -e "${CCRUN%/*}/../lib/ccrun/libccrun-gloo.so" ] || skip 'libccrun was built without gloo'
doubles
export FAKE_CUDA_DEVICES=1
expect_status 0 "$CCRUN" --no-python --nproc-per-node 2 "$SUPPORT/collsuite" auto
same 2 "$(grep -c '^gloo: .* checked$' out)"
cat >one.sh <<'ONE'
export CUDA_VISIBLE_DEVICES="$LOCAL_RANK"
exec "$SUPPORT/collsuite" auto
ONE
expect_status 0 "$CCRUN" --no-python --nproc-per-node 2 sh one.sh
same 2 "$(grep -c '^nccl: .* checked$' out)"
EOF

# ---- NVIDIA's own

it 'every function and number is as nccl.h and cuda.h have it' <<'EOF'
nvidia_nccl
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -e "$nccl/include/nccl.h" ] || skip 'no nccl.h in NCCL_HOME'
[ -e "$cuda/include/cuda.h" ] || skip 'no cuda.h in CUDA_HOME'
check() { "${CC:-cc}" -std=c11 -fsyntax-only -I"$1" -isystem "$cuda/include" -isystem "$nccl/include" "$ROOT/tests/abi/nccl_abi.c"; }
check "$ROOT"
mkdir backends
cp "$ROOT/backends/"*_api.* backends
check .
sed -i 's/NCCL_BF16 = 9/NCCL_BF16 = 7/' backends/nccl_api.h
! check . 2>/dev/null || fail 'a wrong number was not seen'
EOF

it 'the real NCCL is loaded, and fails without its driver' <<'EOF'
nvidia_nccl
[ -e "$nccl/lib/libnccl.so.2" ] || skip 'no libnccl.so.2 in NCCL_HOME'
no_driver
doubles
export CCRUN_NCCL="$nccl/lib/libnccl.so.2"
refused 1 "nccl: rank 0 of 1, group 'default': unhandled cuda error"
export LD_LIBRARY_PATH=/nowhere
refused 1 'no GPU: libcuda.so.1, which comes with the NVIDIA driver'
EOF
done_testing
