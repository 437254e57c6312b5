"""collective.py first DIR | all-reduce: what collective.c does, with torch.distributed."""
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
if sys.argv[1] == "first":
    dist.barrier()
    end = time.monotonic_ns()
    with open(os.path.join(sys.argv[2], "exit.0.%d" % dist.get_rank()), "w") as f:
        print(end, file=f)
else:
    while True:
        line = sys.stdin.readline().split() if dist.get_rank() == 0 else []
        order = torch.tensor([int(n) for n in line] or [0, 0])
        dist.broadcast(order, 0)
        count, times = order.tolist()
        if count == 0:
            break
        buf, took = torch.empty(count), []
        for _ in range(times):
            buf.fill_(1)
            dist.barrier()
            begin = time.monotonic_ns()
            dist.all_reduce(buf)
            took.append(time.monotonic_ns() - begin)
            assert buf[0] == buf[-1] == dist.get_world_size()
        if dist.get_rank() == 0:
            print(*took, flush=True)
dist.destroy_process_group()
