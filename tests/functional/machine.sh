#!/bin/sh
# What the machine has: CPUs, GPUs, NUMA nodes; how many workers start, and what each of them gets.
. "$(dirname "$0")/lib.sh"

# A double of NVIDIA's library with $FAKE_GPUS GPUs: what ccrun loads, without a driver below it.
cat >"$SHARED/nvml.c" <<'EOF'
#include <stdio.h>
#include <stdlib.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = (unsigned) atoi(getenv("FAKE_GPUS")); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *) (i + 1UL); return 0; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%lu000", (unsigned long) d); return 0; }
EOF
${CC:-cc} -shared -fPIC -o "$SHARED/libnvidia-ml.so.1" "$SHARED/nvml.c" || skip_all 'no compiler for the double of NVML'

words <<'EOF'
unset CUDA_VISIBLE_DEVICES OMP_NUM_THREADS SLURM_JOB_ID NPROC_PER_NODE
show='echo "$LOCAL_RANK:${CUDA_VISIBLE_DEVICES-none}"'
gpu_machine() { LD_LIBRARY_PATH=$SHARED FAKE_GPUS=${gpus:-3} "$@"; }

# workers WANTED command...: one line each from the workers, sorted.
workers() {
    workers_want=$1; shift
    expect_status 0 "$@"
    same "$workers_want" "$(sort out | tr '\n' ' ' | sed 's/ $//')"
}
EOF

it 'counts GPUs by NVML, for gpu and for auto (R10)' <<'EOF'
for word in gpu auto; do
    workers '0:none 1:none 2:none' gpu_machine "$CCRUN" --nproc-per-node "$word" --no-python sh -c "$show"
done
gpu_machine "$CCRUN" --nproc-per-node gpu --dry-run --no-python true >out
has out '3 workers (gpu: 3 GPUs (NVML))'
EOF

it 'counts only the visible ones' <<'EOF'
workers '0:2,0 1:2,0' gpu_machine env CUDA_VISIBLE_DEVICES=2,0 "$CCRUN" --nproc auto --no-python sh -c "$show"
workers '0:GPU-2,GPU-1,GPU-9 1:GPU-2,GPU-1,GPU-9' \
    gpu_machine env CUDA_VISIBLE_DEVICES=GPU-2,GPU-1,GPU-9 "$CCRUN" --nproc gpu --no-python sh -c "$show"
expect_status 2 gpu_machine env CUDA_VISIBLE_DEVICES=-1 "$CCRUN" --nproc gpu --no-python touch started
has err 'Cuda is not available.' 'CUDA_VISIBLE_DEVICES=-1'
[ ! -e started ]
EOF

it 'gives each worker one of the visible GPUs with --mask-gpus (C22)' <<'EOF'
gpus=8
workers '0:2 1:4 2:7' gpu_machine env CUDA_VISIBLE_DEVICES=2,4,7 "$CCRUN" --nproc gpu --mask-gpus --no-python sh -c "$show"
gpus=3
workers '0:0 1:1' gpu_machine "$CCRUN" --nproc 2 --mask-gpus --no-python sh -c "$show"
expect_status 2 gpu_machine "$CCRUN" --nproc 4 --mask-gpus --no-python touch started
has err '4 workers and only 3 GPUs'
[ ! -e started ]
EOF

it 'chooses among the visible GPUs with --gpus (C22)' <<'EOF'
gpus=8
workers '0:7,2 1:7,2' gpu_machine env CUDA_VISIBLE_DEVICES=2,4,7 "$CCRUN" --gpus 2,0 --nproc gpu --no-python sh -c "$show"
workers '0:7 1:2' gpu_machine env CUDA_VISIBLE_DEVICES=2,4,7 "$CCRUN" --gpus 2,0 --mask-gpus --nproc gpu --no-python sh -c "$show"
gpus=3
expect_status 2 gpu_machine "$CCRUN" --gpus 0,3 --no-python touch started
has err "--gpus: '3' is not among the 3 visible GPUs, 0 to 2"
[ ! -e started ]
EOF

it 'makes every local rank 0 with --virtual-local-rank, each with a GPU of its own (R24)' <<'EOF'
workers '0:4 0:5' env CUDA_VISIBLE_DEVICES='4, 5' "$CCRUN" --nproc 2 --virtual-local-rank --no-python sh -c "$show"
workers '0:0 0:1' "$CCRUN" --nproc 2 --virtual-local-rank --no-python sh -c "$show"
gpus=8
workers '0:5' gpu_machine env CUDA_VISIBLE_DEVICES=4,5 "$CCRUN" --gpus 1 --virtual-local-rank --no-python sh -c "$show"
expect_status 2 env CUDA_VISIBLE_DEVICES=4,5 "$CCRUN" --nproc 3 --virtual-local-rank --no-python touch started
has err 'local_rank 2 exceeds available GPUs in CUDA_VISIBLE_DEVICES=4,5'
[ ! -e started ]
EOF

it 'starts one worker for each CPU of the mask without a GPU (C24)' <<'EOF'
export CUDA_VISIBLE_DEVICES=
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
workers 0: taskset -c "$cpu" "$CCRUN" --nproc auto --no-python sh -c "$show"
workers 0: taskset -c "$cpu" "$CCRUN" --nproc cpu --no-python sh -c "$show"
EOF

it 'starts no more workers than the quota of the control group allows (C24)' <<'EOF'
group=
for top in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
    mkdir "$top/ccrun-test-$$" 2>/dev/null || continue
    group=$top/ccrun-test-$$
    (echo 100000 >"$group/cpu.cfs_quota_us" || echo '100000 100000' >"$group/cpu.max") 2>/dev/null && break
    rmdir "$group"
    group=
done
[ -n "$group" ] || skip 'no control group to be had'
trap 'rmdir "$group"' EXIT
export CUDA_VISIBLE_DEVICES=
workers 0: sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$group" \
    "$CCRUN" --nproc auto --no-python sh -c "$show"
expect_status 0 sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$group" \
    "$CCRUN" --nproc auto --dry-run --no-python true
[ "$(nproc)" -eq 1 ] || has out "$group/cpu." '1.00 CPUs'
EOF

it 'refuses numbers and words that make no sense' <<'EOF'
for bad in 0 -1 65537 99999999999999999999; do
    expect_status 2 "$CCRUN" --nproc-per-node="$bad" --no-python touch started
    has err "--nproc-per-node $bad: "
done
for bad in unknown 1.5 GPU ''; do
    expect_status 2 "$CCRUN" --nproc-per-node="$bad" --no-python touch started
    has err "Unsupported nproc_per_node value: $bad"
done
expect_status 2 env CUDA_VISIBLE_DEVICES= "$CCRUN" --nproc-per-node gpu --no-python touch started
has err 'Cuda is not available.'
expect_status 2 "$CCRUN" --nproc-per-node xpu --no-python touch started
has err 'Xpu is not available.'
[ ! -e started ]
EOF

it 'takes the number of GPUs that Slurm gave, and one without a scheduler (C16)' <<'EOF'
workers '0:none 1:none' env SLURM_JOB_ID=7 SLURM_GPUS_ON_NODE=2 "$CCRUN" --no-python sh -c "$show"
workers '0:none' env SLURM_GPUS_ON_NODE=2 "$CCRUN" --no-python sh -c "$show"
workers '0:none 1:none 2:none' env SLURM_JOB_ID=7 SLURM_GPUS_ON_NODE=2 "$CCRUN" --nproc 3 --no-python sh -c "$show"
EOF

it 'divides the CPUs among the workers as OMP_NUM_THREADS, unless it is set (C41)' <<'EOF'
omp='echo ${OMP_NUM_THREADS-none}'
threads=$(($("$CCRUN" --nproc cpu --no-python echo | wc -l) / 2))
[ "$threads" -gt 0 ] || threads=1
workers "$threads $threads" "$CCRUN" --nproc 2 --no-python sh -c "$omp"
empty err
workers '3 3' env OMP_NUM_THREADS=3 "$CCRUN" --nproc 2 --no-python sh -c "$omp"
workers none "$CCRUN" --no-python sh -c "$omp"
expect_status 0 "$CCRUN" -v --nproc 2 --no-python true
same 1 "$(grep -c OMP_NUM_THREADS err)"
EOF

it 'binds workers within the inherited mask, and shows it (C71)' <<'EOF'
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
for mode in node socket; do
    workers "$cpu $cpu" taskset -c "$cpu" "$CCRUN" --nproc 2 --numa-binding "$mode" --no-python \
        sh -c 'taskset -cp $$ | sed "s/.*: //"'
done
expect_status 0 taskset -c "$cpu" "$CCRUN" --nproc 2 --numa-binding node --dry-run --no-python true
same 2 "$(grep -c "cpus $cpu\$" out)"
EOF

it 'gives workers CPUs that do not overlap with --numa-binding exclusive' <<'EOF'
status=0
"$CCRUN" --nproc 2 --numa-binding exclusive --no-python sh -c 'taskset -cp $$ | sed "s/.*: //"' >out 2>err || status=$?
if [ "$status" -eq 0 ]; then
    same 2 "$(sort -u out | wc -l)"
else # one core, or a machine that does not describe its own
    same 2 "$status"
    matches err '^ccrun: error: --numa-binding exclusive: .* (physical cores|which core)'
fi
EOF

done_testing
