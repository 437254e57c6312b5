#!/bin/sh
# Scenarios of torchrun's own tests: the same lines start the same workers with the same environment.
. "$(dirname "$0")/../functional/lib.sh"
unset OMP_NUM_THREADS
SENTINEL=1
export SENTINEL

words <<'EOF'
four() { same '0 1 2 3' "$(cd f && echo *)"; }
mkdir f
EOF
cat >"$SHARED/worker.sh" <<'EOF'
#!/bin/sh
exec "$PYTHON" "$HERE/contract_env.py" "$1"
EOF
chmod +x "$SHARED/worker.sh"

it 'R1: every option of a launch on one node' <<'EOF'
expect_status 0 "$CCRUN" --nnodes=1 --nproc-per-node=4 --rdzv-id=X --monitor-interval=1 --start-method=spawn \
    "$HERE/contract_env.py" f
four
EOF
it 'R2: a static rendezvous' <<'EOF'
expect_status 0 "$CCRUN" --nnodes=1 --nproc-per-node=4 --rdzv-id=X --monitor-interval=1 --start-method=spawn \
    --master-addr=localhost --master-port="$("$SUPPORT/freeport")" --node-rank=0 "$HERE/contract_env.py" f
four
EOF
it 'R3: a program instead of a script' <<'EOF'
expect_status 0 "$CCRUN" --nnodes=1 --nproc-per-node=4 --no-python "$SHARED/worker.sh" f
four
EOF
it 'R4: a program cannot be a module' <<'EOF'
expect_status 2 "$CCRUN" --no-python --module "$SHARED/worker.sh" f
has err --no-python --module
empty out
EOF
it 'R5: one worker when nothing is said' <<'EOF'
expect_status 0 env OMP_NUM_THREADS=1 "$CCRUN" --no-python "$SHARED/worker.sh" f
same 0 "$(cd f && echo *)"
EOF
it 'R6: everything from the environment' <<'EOF'
PET_NNODES=1 PET_NPROC_PER_NODE=4 PET_RDZV_ID=X PET_MONITOR_INTERVAL=1 PET_START_METHOD=spawn PET_NO_PYTHON=1
export PET_NNODES PET_NPROC_PER_NODE PET_RDZV_ID PET_MONITOR_INTERVAL PET_START_METHOD PET_NO_PYTHON
expect_status 0 "$CCRUN" "$SHARED/worker.sh" f
four
EOF
it 'R7: a contradiction in the environment is one too' <<'EOF'
expect_status 2 env PET_NO_PYTHON=1 PET_MODULE=1 "$CCRUN" "$SHARED/worker.sh" f
expect_status 0 env OMP_NUM_THREADS=1 PET_NO_PYTHON=1 PET_MODULE=0 "$CCRUN" "$SHARED/worker.sh" f
EOF
it 'R8: auto is as many workers as CPUs that may be used' <<'EOF'
expect_status 0 env OMP_NUM_THREADS=1 taskset -c 0 "$CCRUN" --nproc-per-node auto --no-python "$SHARED/worker.sh" f
same 0 "$(cd f && echo *)"
EOF
it 'R9: four or unknown' <<'EOF'
expect_status 0 "$CCRUN" --nproc-per-node 4 --no-python "$SHARED/worker.sh" f
four
expect_status 2 "$CCRUN" --nproc-per-node unknown --no-python "$SHARED/worker.sh" f
has err unknown nproc_per_node
EOF
it 'R14: --standalone' <<'EOF'
expect_status 0 "$CCRUN" --standalone --nproc-per-node=4 "$HERE/contract_env.py" f
four
EOF
it 'R15: --run-path' <<'EOF'
expect_status 0 "$CCRUN" --run-path --nproc-per-node=4 "$HERE/contract_env.py" f
four
EOF
it 'R17: ranges of nodes' <<'EOF'
expect_status 0 "$CCRUN" --standalone --nnodes 1:1 --nproc-per-node=4 "$HERE/contract_env.py" f
four
expect_status 2 "$CCRUN" --nnodes 2:20:30 "$HERE/contract_env.py" f
has err 2:20:30
EOF
it 'R19: the worker knows that it was launched' <<'EOF'
cat >w.py <<'X'
from torch.distributed import is_torchelastic_launched
assert is_torchelastic_launched()
X
expect_status 0 "$CCRUN" w.py
EOF
it 'R23: an abbreviated option, tee, and a template of the line prefix' <<'EOF'
cat >w.py <<'X'
import os, sys
print("out of", os.environ["RANK"])
print("err of", os.environ["RANK"], file=sys.stderr)
X
TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='[rank${rank}]: '
export TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE
expect_status 0 "$CCRUN" --nproc-per-node 4 --redirect=3 --tee=3 --log-dir l w.py
for r in 0 1 2 3; do
    has out "[rank$r]: out of $r"
    has err "[rank$r]: err of $r"
done
EOF
done_testing
