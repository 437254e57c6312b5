"""A worker with all kinds of processes around it, written to the file pids; rank 0 is then killed by SIGKILL."""
import multiprocessing.shared_memory
import os
import signal
import subprocess
import time

import torch

from programs import Numbers

rank = int(os.environ["RANK"])
loader = torch.utils.data.DataLoader(Numbers(), num_workers=4, persistent_workers=True)
alive = iter(loader)
next(alive)
shared = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)  # starts the resource tracker
shared.unlink()
subprocess.Popen(["sleep", "300"], start_new_session=True)
with open("/proc/self/task/%d/children" % os.getpid()) as f, open("pids", "a") as pids:
    pids.write("".join("%s\n" % pid for pid in f.read().split()))
open("ready.%d" % rank, "w").close()
while not all(os.path.exists("ready.%d" % r) for r in (0, 1)):
    time.sleep(0.01)
if rank == 0:
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(300)
