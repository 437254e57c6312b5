#!/bin/sh
# Several agents on one machine, with unmodified PyTorch for workers: collectives, roles, RPC, growth.
. "$(dirname "$0")/../functional/lib.sh"
words <"$LIB/nodes_case.sh"
limit 240

words <<'X'
held() { # held FOLDER N CHECK: on every rank of N
    ls "$1" >have
    same "$2" "$(wc -l <have)"
    same "$2" "$(grep -lx "$3" "$1"/* | wc -l)"
}
slow() { # AGENT...: they end well, in the time that Python takes
    for slow_name in "$@"; do eval "ends \$$slow_name 0 120"; done
}
X

it 'two agents, four ranks each: collectives hold (A23)' <<'X'
mkdir f
nodes 2 --nproc-per-node 4
WORKER='"$PYTHON" "$HERE/collectives.py" "$PWD/f"'
agent a --tee 3 --log-dir logs.a
agent b --tee 3 --log-dir logs.b
slow a b
held f 8 all_reduce
held f 8 agent_store
held f 8 data_parallel
X

it 'one, two and three ranks on three agents (A24)' <<'X'
mkdir f
nodes 3
WORKER='"$PYTHON" "$HERE/collectives.py" "$PWD/f"'
agent a --nproc-per-node 1
agent b --nproc-per-node 2
agent c --nproc-per-node 3
slow a b c
held f 6 all_reduce
held f 6 new_group
X

it 'two roles on two agents call each other (A31)' <<'X'
cat >w.py <<'Y'
import os
import torch.distributed.rpc as rpc
role, rank, world = os.environ["ROLE_NAME"], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(role, rank=rank, world_size=world)
def double(n):
    return 2 * n
if role == "master":
    assert rpc.rpc_sync("worker", double, args=(21,)) == 42
    print("the answer came")
rpc.shutdown()
Y
nodes 2
WORKER='"$PYTHON" "$PWD/w.py"'
agent a --role master
agent b --role worker
slow a b
has a.out 'the answer came'
X

# The group is destroyed at the end: a script that ends right after a collective may die of SIGABRT ("terminate called without
# an active exception").  A thread of gloo that still lets go of the tensor is ended by CPython, and C++ does not allow that.
it 'an agent that comes later makes the world larger, and the sums are right in both (A37)' <<'X'
cat >w.py <<'Y'
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(t)
world = dist.get_world_size()
assert t.item() == world * (world + 1) / 2
print("right with", world, flush=True)
while world == 1:
    time.sleep(0.1)
dist.destroy_process_group()
Y
nodes 1:2 --rdzv-conf last_call_timeout=1
WORKER='"$PYTHON" "$PWD/w.py"'
agent a
wait_for 'grep -q "right with 1" a.out' 60
agent b
slow a b
has a.out 'right with 2'
has b.out 'right with 2'
X

it 'an agent of torchrun is refused by a job of ccrun, and named, before and while it runs' <<'X'
nodes 2
agent a
hosts a
refused() { # option...
    ! "$PYTHON" -m torch.distributed.run --nnodes 2 "$@" --no-python true >t.out 2>&1 || fail 'an agent of torchrun was let in'
}
refused --rdzv-backend c10d --rdzv-endpoint "$ENDPOINT"
same 1 "$(grep -c 'is an agent of torchrun.* start ccrun on all its nodes' a.err)"
refused --node-rank 1 --master-addr 127.0.0.1 --master-port "$PORT"
has a.err 'a worker or an agent of torchrun'
agent b
sees b '1/2:0'
refused --rdzv-backend c10d --rdzv-endpoint "$ENDPOINT"
refused --node-rank 1 --master-addr 127.0.0.1 --master-port "$PORT"
same 3 "$(grep -c 'is an agent of torchrun' a.err)"
all_go
well a b
X

it 'a hundred small messages between two agents whose program is a module' <<'X'
cat >talk.py <<'Y'
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
for i in range(100):
    t = torch.tensor([i])
    dist.broadcast(t, i % 2)
    assert t.item() == i
dist.barrier()
dist.destroy_process_group()
Y
port=$("$SUPPORT/freeport")
for x in a:0 b:1; do
    bg ${x%:*} "$CCRUN" --nnodes 2 --node-rank "${x#*:}" --master-addr 127.0.0.1 --master-port "$port" -m talk
    eval "${x%:*}=\$pid"
done
slow a b
X
done_testing
