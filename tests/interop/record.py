"""Ways to fail that torch's @record turns into an error file: record.py raise|exit|segfault|sleep-raise"""
import ctypes
import os
import sys
import time

from torch.distributed.elastic.multiprocessing.errors import record


class NotEnoughTea(Exception):
    pass


@record
def main():
    rank = int(os.environ["RANK"])
    if sys.argv[1] == "raise" and rank == 1:
        raise NotEnoughTea("the pot is empty: 0 of 4 cups")
    if sys.argv[1] == "exit" and rank == 1:
        sys.exit(138)
    if sys.argv[1] == "segfault" and rank == 1:
        ctypes.string_at(0)
    time.sleep(60)


main()
