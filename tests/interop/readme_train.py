"""The script of README's first screen: a loss that all ranks share, and a rank that finds no data."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(3):
    loss = torch.tensor(1.0 / (step + 1))
    dist.all_reduce(loss)
    if rank == 0:
        print("step %d: loss %.2f" % (step, loss.item() / dist.get_world_size()), flush=True)
    if rank == 1 and step == 1:
        raise ValueError("shard 1 of 2 is empty")
