"""A worker under @record that fails in the way that its first argument names."""
import ctypes
import os
import signal
import sys
import time

from torch.distributed.elastic.multiprocessing.errors import record

rank = int(os.environ["RANK"])


def wait_for(path):
    end = time.monotonic() + 30
    while not os.path.exists(path):
        assert time.monotonic() < end, path
        time.sleep(0.01)


def fail(how):
    if how == "raise":
        raise ValueError("boom \x1b[31m\udcff")
    if how == "exit":
        sys.exit(138)
    if how == "segfault":
        ctypes.string_at(0)


@record
def main(how):
    if how == "chain":  # rank 1 raises and is slow to exit; rank 0 falls over that, and is gone first
        if rank == 1:
            import atexit

            atexit.register(lambda: (open("raised", "w").close(), time.sleep(60)))
            raise KeyError("the cause")
        wait_for("raised")
        os._exit(5)
    if rank == 1:
        wait_for("ready")
        fail(how)
    if len(sys.argv) > 2:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    open("ready", "w").close()
    time.sleep(60)


main(sys.argv[1])
