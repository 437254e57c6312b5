"""Training with data loaders, which are processes of their own: loaders.py FOLDER HOW

Rank 1 ends in the way HOW says once every rank has had a batch of each loader: kill, raise, exit or stay.  On SIGTERM a rank saves what it has.
"""
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

folder, how = sys.argv[1:]
rank = int(os.environ["RANK"])


class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        open(os.path.join(folder, "loader.%d" % os.getpid()), "x").close()
        while True:
            yield torch.ones(4)
            time.sleep(0.01)


def save(signum, frame):
    torch.save({"rank": rank}, os.path.join(folder, "saved.%d" % rank))
    sys.exit(0)


signal.signal(signal.SIGTERM, save)
dist.init_process_group("gloo")
batches = iter(DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork"))
next(batches), next(batches)  # one of each loader: both have said that they are there
dist.barrier()
print("rank %d trains" % rank, flush=True)
if rank == 1 and how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 1 and how == "raise":
    raise RuntimeError("no more data")
if rank == 1 and how == "exit":
    os._exit(9)
while True:
    next(batches)
