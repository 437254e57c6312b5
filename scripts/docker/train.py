"""The smallest training job with DistributedDataParallel: it learns to add, and says how well.

Runs on GPUs where there are some, else on CPUs.  STEPS is how many steps it makes (200).
"""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device), device_ids=[device] if has_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss = torch.zeros(())
    for _ in range(int(os.environ.get("STEPS", "200"))):
        numbers = torch.randn(64, 4, device=device)
        loss = (model(numbers) - numbers.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}: loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
