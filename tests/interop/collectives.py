"""Many checks of torch.distributed in one job: collectives.py FOLDER [INIT_METHOD]

Every rank runs every check and writes the names of those that held to FOLDER/RANK; an error ends the rank.
"""
import os
import sys

import torch
import torch.distributed as dist

folder, init_method = sys.argv[1], (sys.argv[2:] or ["env://"])[0]
if init_method == "env://":
    dist.init_process_group("gloo")
else:
    dist.init_process_group("gloo", init_method=init_method,
                            rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
rank, size = dist.get_rank(), dist.get_world_size()
assert rank == int(os.environ["RANK"]) and size == int(os.environ["WORLD_SIZE"])


def all_reduce():
    t = torch.full((1000,), float(rank + 1))
    dist.all_reduce(t)
    assert t.eq(size * (size + 1) / 2).all()


def barrier():
    dist.barrier()
    dist.monitored_barrier()


def new_group():
    groups = [dist.new_group(list(range(first, size, 2))) for first in (0, 1) if first < size]
    mine = groups[rank % 2]
    t = torch.ones(1)
    dist.all_reduce(t, group=mine)
    assert t.item() == len(range(rank % 2, size, 2))


def objects():
    got = [None] * size
    dist.all_gather_object(got, {"rank": rank, "text": "ä" * rank})
    assert [g["rank"] for g in got] == list(range(size)) and got[-1]["text"] == "ä" * (size - 1)
    box = [("from", 0) if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    assert box == [("from", 0)]
    part = [None]
    dist.scatter_object_list(part, ["part %d" % r for r in range(size)] if rank == 0 else None, src=0)
    assert part == ["part %d" % rank]


def point_to_point():
    t = torch.tensor([rank])
    if rank == 0:
        dist.send(torch.tensor([41]), dst=size - 1)
    if rank == size - 1:
        dist.recv(t, src=0)
        assert t.item() == 41


def data_parallel():
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    torch.manual_seed(rank)
    model(torch.randn(8, 4)).square().mean().backward()
    grads = [torch.empty_like(model.module.weight.grad) for _ in range(size)]
    dist.all_gather(grads, model.module.weight.grad)
    assert all(g.equal(grads[0]) for g in grads) and grads[0].abs().sum() > 0


def store():
    s = dist.distributed_c10d._get_default_store()
    s.set("key%d" % rank, "value" * 1000)
    s.wait(["key%d" % r for r in range(size)])
    assert s.get("key%d" % (size - 1)) == b"value" * 1000
    s.add("count", 2)
    dist.barrier()
    assert s.add("count", 0) == 2 * size and s.check(["count"]) and not s.check(["never"])
    s.multi_set(["m%d" % rank], ["x%d" % rank])
    dist.barrier()
    assert s.multi_get(["m%d" % r for r in range(size)]) == [b"x%d" % r for r in range(size)]
    s.append("list%d" % rank, "a")
    s.append("list%d" % rank, "b")
    assert s.get("list%d" % rank) == b"ab"
    assert s.compare_set("cas%d" % rank, "", "new") == b"new"
    assert s.delete_key("cas%d" % rank) and s.num_keys() > 0


def agent_store():
    assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True" and dist.is_torchelastic_launched()


with open(os.path.join(folder, str(rank)), "w") as f:
    for check in (all_reduce, barrier, new_group, objects, point_to_point, data_parallel, store, agent_store):
        check()
        print(check.__name__, file=f)
dist.destroy_process_group()
