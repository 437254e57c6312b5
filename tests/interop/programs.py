"""Parts of PyTorch that lean on the launcher, several in one job: programs.py FOLDER CHECK...

Every rank runs the checks and writes the names of those that held to FOLDER/RANK; an error ends the rank.
"""
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

folder = (sys.argv[1:] or [None])[0]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def same_everywhere(tensor):
    all_of_them = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(all_of_them, tensor.contiguous())
    return all(t.equal(all_of_them[0]) for t in all_of_them)


def client(**more):
    """Another client of the launcher's store, as libraries make them."""
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, **more)


# ---- training

def unused_parameters():
    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.even, self.odd = model(), model()

        def forward(self, x):
            return self.even(x) if rank % 2 == 0 else self.odd(x)

    ddp = torch.nn.parallel.DistributedDataParallel(Halves(), find_unused_parameters=True)
    for step in range(3):
        torch.manual_seed(100 * rank + step)
        ddp(torch.randn(4, 8)).sum().backward()
    assert same_everywhere(ddp.module.even[0].weight.grad) and ddp.module.odd[0].weight.grad.abs().sum() > 0


def fully_sharded():
    from torch.distributed.fsdp import FullyShardedDataParallel

    fsdp = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    optimizer = torch.optim.SGD(fsdp.parameters(), lr=0.1)
    for step in range(3):
        torch.manual_seed(100 * rank + step)
        optimizer.zero_grad()
        fsdp(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    with FullyShardedDataParallel.summon_full_params(fsdp):
        assert all(same_everywhere(p.detach()) for p in fsdp.parameters())


def fully_shard_and_checkpoint():
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
    sharded = fully_shard(model(), mesh=mesh)
    sharded(torch.ones(4, 8)).sum().backward()
    torch.optim.SGD(sharded.parameters(), lr=0.1).step()
    want = [p.full_tensor() for p in sharded.parameters()]
    dcp.save(get_model_state_dict(sharded), checkpoint_id=folder + "/checkpoint")
    pending = dcp.async_save(get_model_state_dict(sharded), checkpoint_id=folder + "/async", process_group=dist.new_group(backend="gloo"))
    pending.result(timeout=60)
    for name in ("checkpoint", "async"):
        again = fully_shard(model(), mesh=mesh)
        state = get_model_state_dict(again)
        dcp.load(state, checkpoint_id=folder + "/" + name)
        set_model_state_dict(again, state)
        assert all(p.full_tensor().equal(w) for p, w in zip(again.parameters(), want))


def device_mesh():
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard"))
    t = torch.ones(1)
    dist.all_reduce(t, group=mesh.get_group("replicate"))
    dist.all_reduce(t, group=mesh["shard"].get_group())
    assert t.item() == size


def many_groups():
    for i in range(30):
        group = dist.new_group([i % size, (i + 1) % size] if size > 1 else [0])
        if rank in (i % size, (i + 1) % size):
            t = torch.ones(1)
            dist.all_reduce(t, group=group)
            assert t.item() == 2
            dist.destroy_process_group(group)
    dist.barrier()


def functional_collectives():
    import torch.distributed._functional_collectives as functional

    t = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    assert t.sum().item() == 3 * size


# ---- the store

def second_client():
    dist.PrefixStore("mine", client()).set("rank%d" % rank, str(rank))
    theirs = dist.PrefixStore("mine", client(timeout=timedelta(seconds=20)))
    assert theirs.get("rank%d" % ((rank + 1) % size)) == str((rank + 1) % size).encode()
    dist.barrier()
    assert client().clone().check(["mine/rank%d" % r for r in range(size)])


def waits_for_workers():
    """A server counts its clients; ours is there for all that come."""
    store = client(world_size=size, wait_for_workers=True, timeout=timedelta(seconds=20))
    store.add("came", 1)
    dist.barrier()
    assert store.add("came", 0) == size


def queues():
    store = client()
    if rank:
        store.queue_push("work", "from %d" % rank)
    else:
        got = sorted(store.queue_pop("work") for _ in range(size - 1))
        assert got == [b"from %d" % r for r in range(1, size)] and store.queue_len("work") == 0
    dist.barrier()


def keys():
    store = client()
    store.set("listed/%d" % rank, "x" * rank)
    assert store.check(["listed/%d" % rank])  # a set has no answer: only now it is known to have arrived
    dist.barrier()
    assert {"listed/%d" % r for r in range(size)} <= {k.lstrip("/") for k in store.list_keys()}
    dist.barrier()
    assert store.delete_key("listed/%d" % rank) and not store.check(["listed/%d" % rank])


def times_out():
    store = client(timeout=timedelta(milliseconds=300))
    start = time.monotonic()
    try:
        store.get("nobody sets it")
    except dist.DistStoreError:
        assert 0.2 < time.monotonic() - start < 20
    else:
        raise AssertionError("it is there")
    store.set("still %d" % rank, "usable")
    assert store.get("still %d" % rank) == b"usable"


def large_values():
    store = client()
    store.set("large %d" % rank, os.urandom(1) * (3 << 20))
    assert len(store.get("large %d" % ((rank + 1) % size))) == 3 << 20
    dist.barrier()


# ---- other ways to be a worker

def rpc():
    import torch.distributed.rpc as rpc

    rpc.init_rpc("worker%d" % rank, rank=rank, world_size=size)
    assert rpc.rpc_sync("worker%d" % ((rank + 1) % size), torch.add, args=(torch.ones(2), rank)).sum().item() == 2 * (rank + 1)
    rpc.shutdown()


def monitored_barrier():
    """Rank 0 names the rank that does not come, and the store lives until all have heard it."""
    if rank == size - 1:
        client().wait(["given up"], timedelta(seconds=60))
        return
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=3 if rank == 0 else 30))
    except RuntimeError as e:
        assert rank or "Rank %d" % (size - 1) in str(e), e
    else:
        raise AssertionError("nobody was missed")
    if rank == 0:
        client().set("given up", "")


def spawned(i, address):
    store = dist.TCPStore(*address, is_master=False)
    dist.init_process_group("gloo", store=dist.PrefixStore("inner %d" % rank, store), rank=i, world_size=2)
    t = torch.ones(1)
    dist.all_reduce(t)
    assert t.item() == 2
    dist.destroy_process_group()


def spawn():
    import torch.multiprocessing as mp

    mp.spawn(spawned, args=((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])),), nprocs=2)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        return torch.tensor([i, os.getpid()])


def data_loader():
    data = Numbers()
    sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=size, rank=rank, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler, num_workers=4, persistent_workers=True)
    for _ in range(2):
        batches = torch.cat(list(loader))
        assert sorted(batches[:, 0].tolist()) == list(range(rank, 96, size))
    assert len(set(batches[:, 1].tolist())) == 4
    return loader, iter(loader)  # alive until the interpreter ends


WITHOUT_GROUP = {"rpc", "spawn", "data_loader"}


@record
def main():
    kept = []
    with open(os.path.join(folder, str(rank)), "w") as f:
        for name in sys.argv[2:]:
            if name not in WITHOUT_GROUP and not dist.is_initialized():
                dist.init_process_group("gloo")
            kept.append(globals()[name]())
            print(name, file=f, flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
