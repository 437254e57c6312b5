"""A gloo job that fails and meets again: restart.py FOLDER [slow] [again].

Rank 1 dies in attempt 0 after the group was up; the second attempt must meet. With "slow" rank 1 comes a second late in the
second attempt, when rank 0 already waits in the rendezvous. With "again" another rank dies in each attempt but the last.
"""
import os
import sys
import time

rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if "slow" in sys.argv and rank == 1 and attempt == 1:
    time.sleep(1)

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
t = torch.ones(1)
dist.all_reduce(t)
assert t.item() == dist.get_world_size()
again = "again" in sys.argv
if attempt < (int(os.environ["TORCHELASTIC_MAX_RESTARTS"]) if again else 1):
    if rank == (attempt * 5 + 1) % dist.get_world_size():
        os._exit(3)
    dist.barrier()
    sys.exit("the barrier of a broken group was passed")
open(os.path.join(sys.argv[1], "done.%d" % rank), "w").close()
dist.destroy_process_group()
