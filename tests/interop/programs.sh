#!/bin/sh
# Parts of PyTorch that lean on the launcher, its store, or on who ends whose processes.
. "$(dirname "$0")/../functional/lib.sh"
limit 240

words <<'EOF'
# held N CHECK...: every one on every rank of N, in one job.
held() {
    held_n=$1; shift
    mkdir f
    expect_status 0 "$CCRUN" --standalone --nproc-per-node "$held_n" "$HERE/programs.py" "$PWD/f" "$@"
    for held_check in "$@"; do
        same "$held_n of $held_check" "$(grep -lx "$held_check" f/[0-9]* | wc -l) of $held_check"
    done
}
EOF

it 'unused parameters, FSDP, checkpoints, device meshes, thirty groups' <<'EOF'
held 4 unused_parameters fully_sharded fully_shard_and_checkpoint device_mesh many_groups functional_collectives
EOF
it 'more clients of the store: prefixes, queues, lists of keys, time limits, and one that the rest waits for in vain' <<'EOF'
held 3 second_client waits_for_workers queues keys times_out large_values monitored_barrier
EOF
it 'RPC, workers that spawn more, and data loaders' <<'EOF'
held 2 rpc spawn data_loader
EOF

it 'nothing of a killed worker stays: loaders, shared memory and its tracker, a program in a session of its own' <<'EOF'
expect_status 137 "$CCRUN" --nproc-per-node 2 "$HERE/brood.py"
for p in $(cat pids); do ! alive "$p" || fail "$p is alive"; done
[ "$(wc -l <pids)" -ge 12 ]
EOF

it 'a worker may be a launcher itself: ccrun in ccrun, torchrun in ccrun, ccrun in torchrun' <<'EOF'
mkdir f
cat >outer.sh <<'X'
mkdir "f/$1$RANK"
exec "$2" --nproc-per-node 2 "$HERE/programs.py" "$PWD/f/$1$RANK" keys
X
export TMPDIR="$PWD" # torchrun leaves a folder in it
torchrun=$(dirname "$PYTHON")/torchrun
expect_status 0 "$CCRUN" --nproc-per-node 2 --no-python sh outer.sh a "$CCRUN"
expect_status 0 "$CCRUN" --no-python sh outer.sh b "$torchrun"
expect_status 0 "$torchrun" --no-python sh outer.sh c "$CCRUN"
same 8 "$(cat f/*/* | grep -c keys)"
EOF

it 'scripts for torch.distributed.launch get --local-rank with --macros' <<'EOF'
cat >w.py <<'X'
import argparse
p = argparse.ArgumentParser()
p.add_argument("--local-rank", "--local_rank", type=int)
print("local rank", p.parse_args().local_rank)
X
"$CCRUN" --macros --nproc-per-node 2 w.py '--local-rank=${local_rank}' >out
same 'local rank 0 local rank 1' "$(sort out | paste -sd' ')"
EOF
done_testing
