"""A worker that writes down all it can see of its launcher: seen/ATTEMPT.RANK.json; then runs the text of $BESIDE."""
import fcntl
import json
import os
import resource
import sys
import time

LIMITS = ("RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_STACK", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_MEMLOCK")


def read(path):
    with open(path, "rb") as f:
        return f.read().decode("latin-1")  # any byte, one for one


def kind(fd):
    """What a descriptor is; of a pipe or file only that it is one."""
    path = os.readlink("/proc/self/fd/%d" % fd)
    return path if path.startswith("/dev/") else path.split(":")[0] if ":" in path else "file"


def is_open(fd):
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFD) is not None
    except OSError:
        return False


def signals(name):
    return next(line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith(name + ":"))


def environment():
    if "multiprocessing.spawn" in sys.modules:  # torchrun --run-path: set after the start
        return [(k + b"=" + v).decode("latin-1") for k, v in os.environb.items()]
    return read("/proc/self/environ").split("\0")[:-1]


seen = {
    "environment": sorted(environment()),
    "command line": read("/proc/self/cmdline").split("\0")[:-1],
    "arguments": [os.fsencode(a).decode("latin-1") for a in sys.argv],
    "folder": os.getcwd(),
    "umask": os.umask(0o077),
    "descriptors beyond 2": [fd for fd in range(3, 64) if is_open(fd)],
    "stdin": kind(0),
    "leads its session and group": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    # Signals 32 and 33 are libc's own: a program that inherits them ignored cannot change that through libc.
    "signals": ["%016x" % (int(signals(name), 16) & ~0x180000000) for name in ("SigBlk", "SigIgn", "ShdPnd")],
    "limits": [resource.getrlimit(getattr(resource, name)) for name in LIMITS],
    "CPUs": sorted(os.sched_getaffinity(0)),
    "niceness": os.nice(0),
    "out-of-memory score": read("/proc/self/oom_score_adj").strip(),
    "no new privileges": signals("NoNewPrivs"),
    "errors file there": os.path.exists(os.environ.get("TORCHELASTIC_ERROR_FILE", "")),
    "its folder there": os.path.isdir(os.path.dirname(os.environ.get("TORCHELASTIC_ERROR_FILE", ""))),
}
os.umask(seen["umask"])
rank = int(os.environ["RANK"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
os.makedirs("seen", exist_ok=True)
with open("seen/new.%d" % rank, "w") as f:
    json.dump(seen, f)
os.rename("seen/new.%d" % rank, "seen/%d.%d.json" % (attempt, rank))


def until(is_true):
    end = time.monotonic() + 30
    while not is_true() and time.monotonic() < end:
        time.sleep(0.005)


def everybody():
    """No failure is noticed, and nobody stopped, before all have written down what they saw."""
    until(lambda: all(os.path.exists("seen/%d.%d.json" % (attempt, r)) for r in range(int(os.environ["WORLD_SIZE"]))))


def say(text, to=1):
    """A line in one write. What does not hold 'says: ' comes from a launcher and is not compared."""
    os.write(to, b"says: " + (text.encode() if isinstance(text, str) else text) + b"\n")


exec(os.environ.get("BESIDE", ""))
