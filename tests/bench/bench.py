#!/usr/bin/env python3
"""Measure ccrun beside its peers, in one run on one machine: bench.py [--bin DIR] [--torch PYTHON] [--json FILE] [ROW...]

Each row prints what ccrun needs, what each peer that is installed needs (mpiexec.hydra, torchrun of --torch, tini, dumb-init,
a bare spawn loop), the ratio to the best of them, the target and whether it is met.  Figures are medians of --runs runs
(10), ours and theirs in turn, so that a noisy neighbour hits both.  --slow adds the peers that need half a minute a case.
The exit status is 0 when every row met its target, 1 otherwise.
"""
import argparse
import ctypes
import glob
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
MARK = "CCRUN_BENCH_MARK"
DEVNULL = subprocess.DEVNULL
ROWS = {}


def row(function):
    name = function.__name__.replace("_", "-")
    assert name not in ROWS, name
    ROWS[name] = function
    return function


class Bench:
    def __init__(self, args):
        self.bin = os.path.abspath(args.bin)
        self.ccrun = os.path.join(self.bin, "ccrun")
        self.store = os.path.join(self.bin, "ccrun-store")
        self.worker = self.tool("worker")
        self.runs = args.runs
        self.slow = args.slow
        self.python = args.torch
        self.torchrun = [args.torch, "-W", "ignore", "-m", "torch.distributed.run"] if args.torch else None
        self.hydra = shutil.which("mpiexec.hydra")
        self.rows = []
        self.only = args.rows

    def tool(self, name):
        return os.path.join(self.bin, "bench", name)

    def launcher(self, name, nproc, options=()):
        if name == "ccrun":
            return [self.ccrun, "--no-python", "--nproc-per-node", str(nproc), *options]
        if name == "torchrun":
            return [*self.torchrun, "--no-python", "--nproc-per-node", str(nproc), *options]
        if name == "hydra":
            return [self.hydra, "-n", str(nproc), *options]
        return [shutil.which(name), *(["-s"] if name == "tini" else []), "--"]

    def peers(self, *names):
        there = {"torchrun": self.torchrun, "hydra": self.hydra}
        return [n for n in names if there.get(n, shutil.which(n) if n not in there else None)]

    def report(self, what, unit, ours, peers, target, is_met, note=""):
        """peers: {name: figure}. Ratios are ours to the best peer: below 1 is better, except for rates."""
        is_rate = unit.endswith("/s")
        figures = [v for v in peers.values() if isinstance(v, (int, float))]
        best = (max if is_rate else min)(figures) if figures and isinstance(ours, (int, float)) else None
        ratio = ours / best if best else None
        self.rows.append({"what": what, "unit": unit, "ours": ours, "peers": peers, "ratio": ratio, "target": target,
                          "met": bool(is_met), "note": note})
        show = lambda v: "%.4g" % v if isinstance(v, float) else str(v)
        print("%-4s %-52s %10s %-5s %s%s   target %s%s"
              % ("ok" if is_met else "MISS", what, show(ours), unit,
                 "  ".join("%s %s" % (n, show(v)) for n, v in peers.items()),
                 "   x %.2f" % ratio if ratio else "", target, "   (%s)" % note if note else ""), flush=True)


# ---- running and watching


def wait_for_end(pid, limit):
    """Blocks until the process ends (subprocess's wait with a time limit polls, up to 50 ms late) and returns its status.
    Killed, with status None, after `limit` seconds."""
    late = []

    def kill(*_):
        late.append(True)
        os.kill(pid, signal.SIGKILL)

    old = signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, limit)
    _, status = os.waitpid(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)
    return None if late else os.waitstatus_to_exitcode(status)


def wall(cmd, env=None, limit=120):
    """Milliseconds of a whole process, and its status."""
    actions = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    begin = time.monotonic()
    pid = os.posix_spawn(cmd[0], cmd, env or os.environ, file_actions=actions)
    status = wait_for_end(pid, limit)
    return (time.monotonic() - begin) * 1e3, status


def in_turn(runs, **measures):
    """Calls every measure `runs` times, in turn; the median of each. A measure may be (function, fewer runs)."""
    got = {name: [] for name in measures}
    for i in range(runs):
        for name, measure in measures.items():
            function, most = measure if isinstance(measure, tuple) else (measure, runs)
            if i < most:
                got[name].append(function())
    return {name: statistics.median(v) for name, v in got.items()}


def tool_ms(*cmd):
    return float(subprocess.run(cmd, check=True, capture_output=True, text=True).stdout.split()[0])


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(p) for p in f.read().split()]


class Marked:
    """Processes that carry a mark of this run in their environment: found whatever they are called and did."""

    def __init__(self):
        self.value = uuid.uuid4().hex
        self.env = dict(os.environ, **{MARK: self.value})
        self.needle = ("%s=%s" % (MARK, self.value)).encode()

    def pids(self, program=None):
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open("/proc/%s/environ" % name, "rb") as f:
                    if self.needle not in f.read():
                        continue
                if program and os.readlink("/proc/%s/exe" % name) != program:
                    continue
                found.append(int(name))
            except OSError:
                pass # gone, or a zombie
        return found

    def wait_for(self, count, program, limit=60):
        end = time.monotonic() + limit
        while len(self.pids(program)) < count:
            if time.monotonic() > end:
                raise RuntimeError("%d processes of %s did not come up" % (count, program))
            time.sleep(0.02)

    def wait_gone(self, limit):
        """Seconds until none is left, or None."""
        begin = time.monotonic()
        while self.pids():
            if time.monotonic() - begin > limit:
                return None
            time.sleep(0.005)
        return time.monotonic() - begin

    def kill(self):
        while self.pids():
            for pid in self.pids():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            reap_orphans()
            time.sleep(0.01)


def reap_orphans():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def be_as_a_user_is():
    """What a script starts in the background ignores INT and QUIT, and ccrun keeps what it inherits ignored: but the rows
    measure how it acts on them."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def start(cmd, marked, **kw):
    kw = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL, **kw}
    return subprocess.Popen(cmd, env={**marked.env, **kw.pop("env", {})}, start_new_session=True, **kw)


def memory(pids):
    """Resident and proportional set size of the processes together, in MB."""
    total = {"Rss": 0, "Pss": 0}
    for pid in pids:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            for line in f:
                key = line.split(":")[0]
                if key in total:
                    total[key] += int(line.split()[1])
    return total["Rss"] / 1024, total["Pss"] / 1024


# ---- starting


def start_row(b, n, quiet):
    def measure(name, most=b.runs):
        cmd = b.launcher(name, n) + ["/bin/true"]

        def once():
            ms, status = wall(cmd)
            if status != 0:
                raise RuntimeError("%s ended with status %s" % (" ".join(cmd), status))
            return ms
        return once, most

    peers = {name: measure(name, 3 if name == "torchrun" else b.runs) for name in b.peers("hydra", "torchrun")}
    got = in_turn(b.runs, ours=measure("ccrun"), loop=lambda: tool_ms(b.tool("spawnloop"), str(n), "1", "/bin/true"), **peers)
    ours, loop = got.pop("ours"), got.pop("loop")
    limit = 1.6 * loop + 4
    b.report("start %d x /bin/true, whole process" % n, "ms", ours, {**got, "loop": loop},
             "<= hydra and <= 1.6 x loop + 4 = %.1f (quiet: %g)" % (limit, quiet),
             ours <= limit and ours <= got.get("hydra", ours))


@row
def start_1(b): start_row(b, 1, 5)


@row
def start_8(b): start_row(b, 8, 10)


@row
def start_64(b): start_row(b, 64, 30)


@row
def start_256(b): start_row(b, 256, 120)


@row
def wheel(b):
    """As pip installs it: the program itself, so it may not start later than the one that was built here."""
    found = glob.glob(os.path.join(b.bin, "..", "release", "*.whl"))
    if not found:
        return print("     no wheel in build/release: make release makes it")
    size = os.path.getsize(found[0]) / 1e6
    b.report("size of the wheel", "MB", size, {}, "<= 3", size <= 3)
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([sys.executable, "-m", "venv", d], check=True)
        subprocess.run([d + "/bin/pip", "install", "-q", "--no-index", found[0]], check=True)
        job = ["--no-python", "--nproc-per-node", "1", "/bin/true"]
        got = in_turn(3 * b.runs, ours=lambda: wall([d + "/bin/ccrun", *job])[0], direct=lambda: wall([b.ccrun, *job])[0])
    b.report("start 1 x /bin/true through the wheel", "ms", got["ours"], {"direct": got["direct"]}, "<= direct + 1",
             got["ours"] <= got["direct"] + 1)


def as_pid_1(b, name, *command):
    """The command under ccrun, or tini, as process 1 of a runc container; what it printed, and the ms of it all."""
    front = [b.ccrun, "--no-python"] if name == "ccrun" else [shutil.which(name), "--"]
    folder = tempfile.mkdtemp()
    begin = time.monotonic()
    try:
        out = subprocess.run(["bash", os.path.join(HERE, "../lab/ctr.sh"), "bench-%d" % os.getpid(), "-", "0", *front, *command],
                             env=dict(os.environ, CTR_DIR=folder), stdout=subprocess.PIPE, stderr=DEVNULL, check=False).stdout
        return out.decode(), (time.monotonic() - begin) * 1e3
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def has_containers():
    return os.geteuid() == 0 and shutil.which("runc") and shutil.which("tini")


@row
def container(b):
    if not has_containers():
        return print("     no containers: root, runc and tini are needed")
    got = in_turn(b.runs, ours=lambda: as_pid_1(b, "ccrun", "/bin/true")[1], tini=lambda: as_pid_1(b, "tini", "/bin/true")[1])
    b.report("container with it as process 1 of `true`", "ms", got["ours"], {"tini": got["tini"]}, "<= 1.1 x tini",
             got["ours"] <= 1.1 * got["tini"])


@row
def orphans(b):
    """1,000 at once: what is left after 100 ms, and the CPU time of process 1."""
    if not has_containers():
        return print("     no containers: root, runc and tini are needed")
    left = {"ccrun": [], "tini": []}

    def once(name):
        out = as_pid_1(b, name, os.path.join(b.bin, "tests/storm"), "1000")[0]
        values = dict(word.split("=") for word in out.split())
        left[name].append(int(values["left"]))
        return int(values["cpu_us"]) / 1e3

    got = in_turn(min(b.runs, 10), ours=lambda: once("ccrun"), tini=lambda: once("tini"))
    most = {name: statistics.median(n) for name, n in left.items()}
    b.report("1,000 orphans end: left after 100 ms", "", most["ccrun"], {"tini": most["tini"]}, "0", most["ccrun"] == 0)
    b.report("1,000 orphans end: CPU of process 1", "ms", got["ours"], {"tini": got["tini"]}, "<= tini", got["ours"] <= got["tini"])


@row
def static_size(b):
    path = os.path.join(b.bin, "ccrun-static")
    if not os.path.exists(path):
        return print("     no ccrun-static: make static makes it")
    size = os.path.getsize(path) / 1e6
    b.report("size of the static program", "MB", size, {}, "<= 5", size <= 5)


@row
def ballast(b):
    spawn = lambda mb: lambda: tool_ms(b.tool("agentspawn"), "64", str(mb), "1", "/bin/true")
    got = in_turn(b.runs, small=spawn(0), big=spawn(200))
    b.report("spawn 64 with 200 MB resident in the agent", "ms", got["big"], {"without": got["small"]}, "<= 1.3 x without",
             got["big"] <= 1.3 * got["small"])


@row
def many_exits(b):
    """Children that are gone before the launcher has finished starting: a launcher that counts them late hangs."""
    rounds = max(b.runs, int(os.environ.get("CCRUN_REPEAT", "100")))
    hangs = wrong = 0
    for i in range(rounds):
        code = i % 3
        program = ["/bin/sh", "-c", "exit %d" % code] if code else ["/bin/true"]
        _, status = wall(b.launcher("ccrun", 256) + program, limit=20)
        hangs += status is None
        wrong += status not in (None, code)
    b.report("256 instant exits, %d times: hangs" % rounds, "", hangs, {}, "0, every code right", hangs == 0 and wrong == 0,
             "%d wrong codes" % wrong if wrong else "")


# ---- memory


def memory_row(b, n, limit_rss, limit_pss):
    def measure(name):
        marked = Marked()
        job = start(b.launcher(name, n) + [b.worker, "sleep"], marked)
        try:
            marked.wait_for(n, b.worker)
            time.sleep(0.1) # what is read is a state, not a race: let the start's last pages settle
            workers = set(marked.pids(b.worker))
            return memory([p for p in marked.pids() if p not in workers])
        finally:
            marked.kill()
            job.wait()

    rss, pss = measure("ccrun")
    peers = {name: measure(name) for name in b.peers("hydra", "torchrun")}
    b.report("memory of keeper and agent, %d workers: RSS" % n, "MB", rss, {k: v[0] for k, v in peers.items()},
             "<= %g" % limit_rss, rss <= limit_rss)
    b.report("memory of keeper and agent, %d workers: PSS" % n, "MB", pss, {k: v[1] for k, v in peers.items()},
             "<= %g" % limit_pss, pss <= limit_pss)


@row
def memory_8(b): memory_row(b, 8, 7, 3)


@row
def memory_256(b): memory_row(b, 256, 11, 8)


# ---- failing and starting again


def stamp(folder, name):
    with open(os.path.join(folder, name)) as f:
        return int(f.read()) / 1e6


def stamped(b, name, options, check):
    """One job of `worker stamp` in which rank 1 of 2 dies with code 7; check(folder, end in ms, status) gives the figure."""
    folder = tempfile.mkdtemp()
    try:
        _, status = wall(b.launcher(name, 2, options) + [b.worker, "stamp", folder, "1", "7"])
        return check(folder, time.monotonic() * 1e3, status)
    finally:
        shutil.rmtree(folder)


@row
def restart(b):
    def measure(name):
        return lambda: stamped(b, name, ["--max-restarts", "1"], lambda folder, *_:
                               min(stamp(folder, "start.1.%d" % r) for r in (0, 1)) - stamp(folder, "exit.0.1"))

    got = in_turn(b.runs, ours=measure("ccrun"), **{n: (measure(n), 3) for n in b.peers("torchrun")})
    ours = got.pop("ours")
    b.report("a worker dies -> first instruction of the next attempt", "ms", ours, got, "<= 20", ours <= 20)


@row
def detect(b):
    codes = set()

    def measure(name):
        def check(folder, end, status):
            if name == "ccrun":
                codes.add(status)
            return end - stamp(folder, "exit.0.1")
        return lambda: stamped(b, name, [], check)

    got = in_turn(b.runs, ours=measure("ccrun"), **{n: (measure(n), 3) for n in b.peers("torchrun")})
    ours = got.pop("ours")
    b.report("a worker dies with 7 -> launcher gone", "ms", ours, got, "<= 50, status 7", ours <= 50 and codes == {7},
             "status %s" % sorted(codes, key=str))


# ---- signals and what is left behind

KILL_CASES = [ # worker, signals
    ("sleep", [signal.SIGKILL]),
    ("sleep", [signal.SIGTERM]),
    ("deaf", [signal.SIGTERM]),
    ("deaf", [signal.SIGINT, signal.SIGINT]),
    ("parent", [signal.SIGTERM]),
]


def survivors(b, name, worker, signals, limit):
    """How many processes are alive a second after the launcher has gone (or after `limit` seconds), and how long it took."""
    marked = Marked()
    n = 1 if name in ("tini", "dumb-init") else 2
    job = start(b.launcher(name, n) + [b.worker, worker], marked)
    try:
        marked.wait_for(n * (2 if worker == "parent" else 1), b.worker)
        begin = time.monotonic()
        for i, number in enumerate(signals):
            if i:
                time.sleep(0.4)
            job.send_signal(number)
        try:
            job.wait(limit)
            took = time.monotonic() - begin
        except subprocess.TimeoutExpired:
            took = None
        gone = marked.wait_gone(1)
        reap_orphans()
        return 0 if gone is not None else len(marked.pids(b.worker)), took
    finally:
        marked.kill()
        job.wait()


@row
def kill_cases(b):
    peers = b.peers("hydra", "tini", "dumb-init", *(["torchrun"] if b.slow else []))
    for worker, signals in KILL_CASES:
        what = "+".join(s.name for s in signals)
        got = {}
        for name in ["ccrun", *peers]:
            options = {"ccrun": 45}.get(name, 35 if b.slow else 5)
            left, took = survivors(b, name, worker, signals, options)
            got[name] = left if took is not None else "hang"
        ours = got.pop("ccrun")
        b.report("survivors, %s, worker %s" % (what, worker), "", ours, got, "0 within 1 s", ours == 0)


def deaf_job(b, n, options, worker="deaf"):
    marked = Marked()
    job = start(b.launcher("ccrun", n, options) + [b.worker, worker], marked)
    marked.wait_for(n * (2 if worker == "family" else 1), b.worker)
    return marked, job


def ends_after(b, n, options, signals, worker="deaf"):
    marked, job = deaf_job(b, n, options, worker)
    try:
        for number in signals[:-1]:
            job.send_signal(number)
            time.sleep(0.3)
        begin = time.monotonic()
        job.send_signal(signals[-1])
        job.returncode = wait_for_end(job.pid, 60)
        ms = (time.monotonic() - begin) * 1e3
        return ms if not marked.pids() else float("inf")
    finally:
        marked.kill()
        job.wait()


@row
def grace(b):
    got = in_turn(min(b.runs, 10), ours=lambda: ends_after(b, 2, ["--shutdown-timeout", "1"], [signal.SIGTERM]))
    b.report("TERM, workers ignore it, grace 1 s: beyond the grace", "ms", got["ours"] - 1000, {}, "<= 100",
             got["ours"] <= 1100)


@row
def second_interrupt(b):
    got = in_turn(b.runs, ours=lambda: ends_after(b, 2, [], [signal.SIGINT, signal.SIGINT]))
    b.report("second Ctrl-C, workers ignore it", "ms", got["ours"], {}, "<= 100", got["ours"] <= 100)


@row
def family(b):
    got = in_turn(b.runs, ours=lambda: ends_after(b, 256, [], [signal.SIGINT, signal.SIGINT], "family"),
                  walk=lambda: tool_ms(b.tool("killtree"), "256", "1"))
    b.report("kill 256 workers and 256 daemons", "ms", got["ours"], {"bare walk": got["walk"]}, "<= 50", got["ours"] <= 50)


@row
def agent_killed(b):
    """SIGKILL of the keeper, then of the agent, workers with daemons: how long until nothing is left."""
    def once(which):
        marked, job = deaf_job(b, 4, [], "family")
        try:
            mine = sorted(marked.pids(b.ccrun), key=lambda pid: pid != job.pid) # the keeper first
            begin = time.monotonic()
            os.kill(mine[which if len(mine) > which else 0], signal.SIGKILL)
            gone = marked.wait_gone(5) if which == 0 else (job.wait(5), marked.wait_gone(5))[1]
            return (time.monotonic() - begin) * 1e3 if gone is not None else float("inf")
        finally:
            marked.kill()
            job.wait()

    got = in_turn(b.runs, keeper=lambda: once(0), agent=lambda: once(1))
    for which, ms in got.items():
        b.report("SIGKILL of the %s -> nothing is left" % which, "ms", ms, {}, "<= 1000", ms <= 1000)


@row
def held_pipe(b):
    def once():
        marked = Marked()
        begin = time.monotonic()
        job = start(b.launcher("ccrun", 1) + ["/bin/sh", "-c", "setsid sleep 30 & exit 0"], marked, stdout=subprocess.PIPE)
        try:
            job.stdout.read()
            return (time.monotonic() - begin) * 1e3 if job.wait(60) == 0 else float("inf")
        finally:
            marked.kill()
            job.wait()

    got = in_turn(min(b.runs, 10), ours=once)
    b.report("a daemon holds the pipe after the worker's exit", "ms", got["ours"], {}, "<= 2000", got["ours"] <= 2000)


# ---- output

PAYLOAD = 40_000_000


def pipe_rate(producer, env, b, ranks):
    begin = time.monotonic()
    left = subprocess.Popen(producer, env={**os.environ, **env}, stdin=DEVNULL, stdout=subprocess.PIPE, stderr=DEVNULL)
    right = subprocess.run([b.tool("readlines"), str(ranks), str(PAYLOAD)], stdin=left.stdout, capture_output=True, text=True)
    left.stdout.close()
    left.wait()
    seconds = time.monotonic() - begin
    return ranks * PAYLOAD / 1e6 / seconds, right.returncode == 0, right.stdout.strip()


def output_row(b, what, options, peers, target):
    bad = {}

    def measure(name, cmd):
        def once():
            rate, is_whole, said = pipe_rate(cmd, {}, b, 2)
            if not is_whole:
                bad[name] = said
            return rate
        return once

    work = [b.worker, "lines", str(PAYLOAD)]
    measures = {"ours": measure("ccrun", b.launcher("ccrun", 2, options) + work)}
    for name, opts in peers.items():
        if b.peers(name):
            measures[name] = (measure(name, b.launcher(name, 2, opts) + work), 3 if name == "torchrun" else b.runs)
    got = in_turn(b.runs, **measures)
    ours = got.pop("ours")
    note = "; ".join("%s: %s" % (n, s.split(" ", 2)[-1]) for n, s in bad.items())
    b.report(what, "MB/s", ours, got, ">= %g, every line whole" % target, ours >= target and "ccrun" not in bad, note)


@row
def labelled_output(b):
    output_row(b, "labelled output, 2 x 40 MB of 80-byte lines", ["--label"],
               {"hydra": ["-l"], "torchrun": ["--tee", "3"]}, 300)


@row
def plain_output(b):
    output_row(b, "merged output without labels, the same", [], {"hydra": []}, 300)


@row
def stalled_reader(b):
    marked = Marked()
    rss = lambda: memory(marked.pids(b.ccrun))[0]
    job = start(b.launcher("ccrun", 2, ["--label"]) + [b.worker, "bytes", "300000000"], marked, stdout=subprocess.PIPE)
    idle_marked = Marked()
    idle = start(b.launcher("ccrun", 2, ["--label"]) + [b.worker, "sleep"], idle_marked, stdout=subprocess.PIPE)
    try:
        marked.wait_for(2, b.worker)
        idle_marked.wait_for(2, b.worker)
        time.sleep(3)
        grown = (rss() - memory(idle_marked.pids(b.ccrun))[0]) / 2
        running = len(marked.pids(b.worker))
    finally:
        marked.kill()
        idle_marked.kill()
        job.stdout.close()
        idle.stdout.close()
        job.wait()
        idle.wait()
    b.report("reader stalled for 3 s, 300 MB to come: growth a stream", "MB", grown, {}, "<= 1, workers wait",
             grown <= 1 and running == 2)


@row
def full_disk(b):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return print("skip full-disk: needs root and unshare")
    folder = tempfile.mkdtemp()
    try:
        inside = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
        cmd = ["unshare", "-m", "sh", "-c", inside, folder, *b.launcher("ccrun", 1, ["-r", "3", "--log-dir", folder]),
               b.worker, "bytes", "20000000"]
        job = subprocess.run(cmd, stdin=DEVNULL, capture_output=True, text=True, timeout=60)
    finally:
        shutil.rmtree(folder)
    said = [line for line in job.stderr.splitlines() if "space" in line or "full" in line]
    b.report("log disk full: exit status of a job that ends well", "", job.returncode, {}, "0, said on stderr",
             job.returncode == 0 and len(said) >= 1, said[0] if said else "nothing was said")


@row
def hygiene(b):
    """A parent with signals ignored and blocked and a stray descriptor: none of it reaches the workers."""
    def spoil():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        os.dup2(0, 9)

    cmd = b.launcher("ccrun", 1) + [os.path.join(b.bin, "tests", "probe")]
    out = subprocess.run(cmd, stdin=DEVNULL, capture_output=True, text=True, preexec_fn=spoil, close_fds=False, timeout=20).stdout
    got = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    ok = (int(got.get("SigBlk", "1"), 16) == 0 and int(got.get("SigIgn", "1"), 16) == 0 and got.get("pdeathsig") == "9"
          and got.get("own_pgrp") == "1" and not any(k.startswith("fd") and k[2:].isdigit() and int(k[2:]) > 2 for k in got))
    b.report("state a worker starts with", "", "clean" if ok else "spoilt", {}, "clean", ok,
             "" if ok else " ".join("%s=%s" % kv for kv in got.items())[:300])


# ---- the store

BENCH_STORE = os.path.join(HERE, "..", "store", "bench_store.py")


def store_runs(b, which, options, around=()):
    """One run of bench_store.py against our server or PyTorch's: {label: figures}."""
    out = tempfile.NamedTemporaryFile(suffix=".json")
    cmd = [b.python or sys.executable, "-W", "ignore", BENCH_STORE, "--json", out.name, *options]
    if which == "ours":
        inside = '"$0" --port 0 >"$1.at" & server=$!; while ! grep -q : "$1.at"; do sleep 0.02; done; at=$(sed "s/.* //" "$1.at");' \
                 'shift; "$@" "${at%:*}" "${at##*:}" --pid $server; status=$?; kill $server; wait $server; exit $status'
        cmd = ["sh", "-c", inside, b.store, out.name, *cmd]
    else:
        cmd += ["--self", "libuv"]
    done = subprocess.run([*around, *cmd], stdin=DEVNULL, capture_output=True, text=True, timeout=600)
    if os.path.exists(out.name + ".at"):
        os.unlink(out.name + ".at")
    with open(out.name) as f:
        text = f.read()
    if not text:
        raise RuntimeError("bench_store.py: %s" % (done.stderr or done.stdout)[-300:])
    return {r["label"]: r for r in json.loads(text)["runs"] if not r.get("failed")}


def store_medians(b, options, rounds, around=()):
    """{label: {figure: (ours, theirs or None)}}, medians over `rounds` runs in turn."""
    which = ["ours"] + (["libuv"] if b.python else [])
    got = {w: [] for w in which}
    for _ in range(rounds):
        for w in which:
            got[w].append(store_runs(b, w, options, around))
    middle = lambda w, label, key: statistics.median([r[label][key] for r in got[w] if key in r.get(label, {})] or [0])
    return {label: {key: (middle("ours", label, key), middle("libuv", label, key) if len(which) > 1 else None)
                    for key, v in figures.items() if isinstance(v, (int, float))}
            for label, figures in got["ours"][0].items()}


def store_row(b, what, figures, key, unit, target, is_met, scale=1.0):
    ours, theirs = figures[key]
    b.report("store: " + what, unit, ours * scale, {"torch": theirs * scale} if theirs else {}, target,
             is_met(ours * scale, theirs * scale if theirs else None))


at_least = lambda factor: lambda ours, theirs: theirs is None or ours >= factor * theirs
at_most = lambda factor: lambda ours, theirs: theirs is None or ours <= factor * theirs


@row
def store_one(b):
    got = store_medians(b, ["--only", "1 conn,stream", "--pin", "0:1", "--seconds", "1"], max(1, b.runs // 3))
    for op in ("set", "get", "waitget", "add"):
        store_row(b, "1 connection, %s" % op, got["1 conn " + op], "ops_per_s", "op/s", ">= 1.0 x", at_least(1.0))
        store_row(b, "1 connection, %s, p99" % op, got["1 conn " + op], "p99_us", "us", "<= 1.0 x", at_most(1.0))
    for op in ("set", "get", "add"):
        store_row(b, "1 connection, 16 under way, %s" % op, got["1 conn x 16 " + op], "ops_per_s", "op/s", ">= 1.2 x", at_least(1.2))
    store_row(b, "streamed SETs", got["stream set"], "ops_per_s", "op/s", ">= 1.2 x", at_least(1.2))


@row
def store_many(b):
    got = store_medians(b, ["--only", "8 x 32", "--seconds", "1"], max(1, b.runs // 3))
    for op in ("set", "get", "add"):
        label = "8 x 32 " + op
        store_row(b, "%s" % label, got[label], "ops_per_s", "op/s", ">= 1.0 x", at_least(1.0))
        store_row(b, "%s, p99" % label, got[label], "p99_us", "ms", "<= 6", lambda ours, _: ours <= 6, 1e-3)
        store_row(b, "%s, CPU of the server" % label, got[label], "server_us_per_op", "us/op", "<= 0.8 x", at_most(0.8))


@row
def store_barrier(b):
    got = store_medians(b, ["--only", "barrier 1000", "--n", "1000"], max(1, b.runs // 3))
    middle = {"total_ms": sorted((f["total_ms"] for f in got.values()), key=lambda v: v[0])[len(got) // 2]}
    store_row(b, "1,000 connect, validate, ADD, WAIT, released", middle, "total_ms", "ms", "<= 50", lambda ours, _: ours <= 50)


@row
def store_8192(b):
    got = store_medians(b, ["--only", "barrier 8192 #1", "--n", "8192"], 1)
    store_row(b, "memory with 8,192 connected", got["barrier 8192 #1"], "rss_connected_kb", "MB", "<= 10",
              lambda ours, _: ours <= 10, 1 / 1024)


@row
def store_dead_dns(b):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return print("skip store-dead-dns: needs root and unshare")
    around = ["unshare", "-n", "-m", sys.executable, os.path.join(HERE, "dead_dns.py")]
    got = store_medians(b, ["--only", "barrier 64 #1", "--n", "64", "--dns"], 3, around)
    store_row(b, "64 clients with a dead DNS server", got["barrier 64 #1"], "connect_validate_ms", "ms", "<= 20",
              lambda ours, _: ours <= 20)


@row
def host_list(b):
    """The expansion itself, and whole processes that print it."""
    hosts = "n[0-9999]"
    want = ["n%d" % i for i in range(10000)]
    commands = {"ccrun": [b.ccrun, "--expand-hosts", hosts]}
    if shutil.which("nodeset"):
        commands["nodeset"] = [shutil.which("nodeset"), "-e", hosts]
    for name, cmd in commands.items():
        if subprocess.run(cmd, check=True, capture_output=True, text=True).stdout.split() != want:
            raise RuntimeError("%s prints other hosts" % name)
    got = in_turn(b.runs, inside=lambda: tool_ms(b.tool("expandhosts"), hosts, "10000"),
                  **{name: lambda cmd=cmd: wall(cmd)[0] for name, cmd in commands.items()})
    inside, ours = got.pop("inside"), got.pop("ccrun")
    b.report("node list of 10,000 hosts, the expansion", "ms", inside, got, "<= 1", inside <= 1)
    b.report("ccrun --expand-hosts of 10,000 hosts, the process", "ms", ours, got, "<= 0.1 x", ours <= 0.1 * min(got.values(), default=10 * ours))


@row
def store_weighted(b):
    """The first step of 16,384 workers at once: each of 2,048 agents, which are connected, speaks for eight."""
    got = store_medians(b, ["--only", "weighted"], max(1, b.runs // 3))
    flat = None
    if b.python:
        r = store_runs(b, "libuv", ["--only", "barrier 16384 #1", "--n", "16384"]).get("barrier 16384 #1")
        flat = r and r["total_ms"]
    ours = statistics.median(f["total_ms"][0] for f in got.values())
    b.report("store: 16,384 by 2,048 connections, one barrier", "ms", ours, {"torch, flat and with connecting": flat} if flat else {},
             "<= 70", ours <= 70)


# ---- MPI programs


MPI_LAUNCHERS = {  # of the maker itself, and how many ranks go behind it
    "mpich": ("hydra", ["mpiexec.hydra", "-n"]),
    "openmpi": ("mpirun", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"]),
}


def mpi_program(folder, maker):
    """The program, or None where that MPI is not there with its compiler and its launcher."""
    compiler = shutil.which("mpicc." + maker)
    if not compiler or not shutil.which(MPI_LAUNCHERS[maker][1][0]):
        return None
    program = os.path.join(folder, maker)
    subprocess.run([compiler, "-O2", "-o", program, os.path.join(HERE, "../interop/mpi_world.c")], check=True)
    return program


def mpi_hello_of(b, folder, maker):
    """A whole job of 8 ranks that say who they are, beside the launcher that its maker gives it."""
    hello, (peer, (launcher, *options)) = mpi_program(folder, maker), MPI_LAUNCHERS[maker]
    if not hello:
        return
    launcher = shutil.which(launcher) # wall() searches no PATH

    def job(cmd):
        ms, status = wall([*cmd, hello, "hello"], limit=60)
        if status != 0:
            raise RuntimeError("%s of %s ended with %s" % (os.path.basename(cmd[0]), maker, status))
        return ms

    got = in_turn(b.runs, ccrun=lambda: job([b.ccrun, "--mpi", "auto", "--nproc-per-node", "8"]),
                  peer=lambda: job([launcher, *options, "8"]))
    b.report("MPI hello of %s, 8 ranks, the whole job" % maker, "ms", got["ccrun"], {peer: got["peer"]}, "<= 1 x",
             got["ccrun"] <= got["peer"])


@row
def mpi_hello(b):
    with tempfile.TemporaryDirectory() as folder:
        for maker in MPI_LAUNCHERS:
            mpi_hello_of(b, folder, maker)


@row
def mpi_all_reduce(b):
    """The fastest of many all-reduces between two ranks: the same program under ccrun and under its own launcher."""
    def once(cmd):
        return float(subprocess.run(cmd, check=True, capture_output=True, text=True, timeout=60).stdout.split()[-1])

    with tempfile.TemporaryDirectory() as folder:
        for maker, (peer, command) in MPI_LAUNCHERS.items():
            program = mpi_program(folder, maker)
            for size, name, times in ((1 << 20, "1 MiB", "500"), (16 << 20, "16 MiB", "50")) if program else ():
                run = [program, "speed", str(size), times]
                got = in_turn(b.runs, ours=lambda: once([b.ccrun, "--mpi", "auto", "--nproc-per-node", "2", *run]),
                              peer=lambda: once([*command, "2", *run]))
                ours, theirs = (size / us for us in (got["ours"], got["peer"]))  # bytes a microsecond
                b.report("all-reduce of %s by %s, 2 ranks" % (name, maker), "MB/s", ours, {peer: theirs}, ">= 0.98 x",
                         ours >= 0.98 * theirs)


# ---- libccrun


@row
def init_gloo(b):
    """8 ranks of one job, from the first exec until the last has done its first barrier; the launcher is ccrun for both."""
    if not b.python:
        return print("skip init-gloo: needs a torch to compare with")
    programs = {"ours": [b.tool("collective")], "torch": [b.python, "-W", "ignore", os.path.join(HERE, "collective.py")]}

    def once(program):
        with tempfile.TemporaryDirectory() as folder:
            _, status = wall(b.launcher("ccrun", 8) + [b.worker, "exec", folder, *program, "first", folder])
            if status != 0:
                raise RuntimeError("%s first ended with status %s" % (program[-1], status))
            return max(stamp(folder, "exit.0.%d" % r) for r in range(8)) - min(stamp(folder, "start.0.%d" % r) for r in range(8))

    got = in_turn(b.runs, ours=lambda: once(programs["ours"]), torch=(lambda: once(programs["torch"]), 3))
    ours, torch = got["ours"], got["torch"]
    b.report("libccrun: 8 ranks, exec -> first barrier over gloo", "ms", ours, {"torch": torch}, "<= 0.05 x", ours <= 0.05 * torch)


class Collectives:
    """A job that makes all-reduces when it is told to, and says how long each took."""

    def __init__(self, b, ranks, program):
        self.job = subprocess.Popen(b.launcher("ccrun", ranks) + [*program, "all-reduce"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True)

    def ms(self, mib, times):
        print(mib << 18, times, file=self.job.stdin, flush=True)
        took = self.job.stdout.readline().split()
        if len(took) != times:
            raise RuntimeError("a job for all-reduces ended early")
        return [int(t) / 1e6 for t in took]

    def close(self):
        self.job.stdin.close()
        self.job.wait()
        self.job.stdout.close()


@row
def all_reduce_gloo(b):
    """Both jobs are there all the time, and work in turn; the figure of a size is the median of the best of each turn: one
    that waits for a CPU takes ten times as long as one that does not, and which of the two is the median would be chance."""
    if not b.python:
        return print("skip all-reduce-gloo: needs a torch to compare with")
    for ranks in (2, 4):
        jobs = {"ours": Collectives(b, ranks, [b.tool("collective")]),
                "torch": Collectives(b, ranks, [b.python, "-W", "ignore", os.path.join(HERE, "collective.py")])}
        try:
            for mib in (1, 4, 16, 64):
                for job in jobs.values():
                    job.ms(mib, 2) # connections and memory, as they are later
                took = {name: [] for name in jobs}
                for _ in range(2 * b.runs):
                    for name, job in jobs.items():
                        took[name].append(min(job.ms(mib, max(2, 16 // mib))))
                rate = {name: mib * 1.048576 / statistics.median(t) for name, t in took.items()}
                b.report("libccrun: all-reduce of %d MiB over gloo, %d ranks" % (mib, ranks), "GB/s", rate["ours"],
                         {"torch": rate["torch"]}, ">= 0.95 x", rate["ours"] >= 0.95 * rate["torch"])
        finally:
            for job in jobs.values():
                job.close()


# ---- jobs of many nodes


@row
def simulated(b):
    """10,000 nodes x 8 in the simulation, by its own clock; its links take 0.2 to 0.3 ms."""
    text = subprocess.run([os.path.join(b.bin, "sim_rdzv"), "-b", "10000"], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines()[1:]:
        found = re.match(r"(.*?) +([0-9.]+) ms .*coordinator ([0-9.]+) s$", line)
        if not found:
            continue # of what the simulation prints beside
        what, ms, cpu = found.groups()
        b.report("simulated, 10,000 nodes x 8: " + what, "s", float(ms) / 1e3, {}, "<= 2, coordinator's CPU <= 1 s",
                 float(ms) <= 2000 and float(cpu) <= 1, "CPU %s s" % cpu)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Nodes:
    """Agents of one job on this machine, each with one worker that notes when it starts."""

    def __init__(self, b, name, nnodes, *worker, options=()):
        self.folder = tempfile.mkdtemp()
        os.mkfifo(os.path.join(self.folder, "go"))
        self.marked, self.jobs, self.port = Marked(), [], free_port()
        self.cmd = b.launcher(name, 1, ["--nnodes", nnodes, "--rdzv-endpoint", "127.0.0.1:%d" % self.port, *options,
                                        *(["--rdzv-backend", "c10d"] if name == "torchrun" else [])])
        self.cmd += [b.worker, worker[0], self.folder, *worker[1:]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.marked.kill()
        for job in self.jobs:
            job.wait()
        shutil.rmtree(self.folder)

    def start(self):
        """When it was started, in ms."""
        begin = time.monotonic() * 1e3
        self.jobs.append(start(self.cmd, self.marked))
        return begin

    def wait_for_port(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.005)
        raise RuntimeError("the first agent does not listen")

    def started(self, attempt, n, after=0.0, limit=60):
        """When the last of n workers of that attempt started, all later than `after`, in ms."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                got = [stamp(self.folder, "start.%d.%d" % (attempt, rank)) for rank in range(n)]
                if min(got) > after:
                    return max(got)
            except (OSError, ValueError):
                pass # not there, or half written
            time.sleep(0.002)
        raise RuntimeError("%d workers did not start in %d s" % (n, limit))


@row
def two_agents(b):
    def measure(name):
        def once():
            with Nodes(b, name, "2", "hold") as nodes:
                nodes.start()
                nodes.wait_for_port()
                begin = nodes.start()
                return nodes.started(0, 2) - begin
        return once

    got = in_turn(b.runs, ours=measure("ccrun"), **{n: (measure(n), 1) for n in b.peers("torchrun")})
    ours = got.pop("ours")
    b.report("the second of 2 agents starts -> all workers started", "ms", ours, got, "<= 100", ours <= 100)


@row
def agents_64(b):
    begins, ends, each = [], [], []
    for _ in range(max(1, b.runs // 3)):
        with Nodes(b, "ccrun", "64", "hold") as nodes:
            begin = min([nodes.start() for _ in range(64)])
            begins.append(nodes.started(0, 64) - begin)
            workers = set(nodes.marked.pids(b.worker))
            each.append(memory([p for p in nodes.marked.pids() if p not in workers])[1] / 64)
            fd = os.open(os.path.join(nodes.folder, "go"), os.O_WRONLY)
            begin = time.monotonic() * 1e3
            statuses = [wait_for_end(job.pid, 60) for job in nodes.jobs]
            ends.append(time.monotonic() * 1e3 - begin if not any(statuses) else float("inf"))
            for job, status in zip(nodes.jobs, statuses):
                job.returncode = status
            os.close(fd)
    ours = statistics.median(begins)
    b.report("64 agents: first exec -> all workers started", "ms", ours, {}, "<= 2000", ours <= 2000)
    b.report("64 agents: memory of each with its keeper, PSS", "MB", statistics.median(each), {}, "<= 5", statistics.median(each) <= 5)
    b.report("64 agents: workers end -> all agents gone", "ms", statistics.median(ends), {}, "<= 200", statistics.median(ends) <= 200)


@row
def agent_lost(b):
    """The agent and its keeper are killed: the kernel resets the connection."""
    def once():
        with Nodes(b, "ccrun", "1:3", "hold") as nodes:
            for _ in range(3):
                nodes.start()
                nodes.wait_for_port()
            nodes.started(0, 3)
            begin = time.monotonic() * 1e3
            for pid in [nodes.jobs[2].pid, *children(nodes.jobs[2].pid)]:
                os.kill(pid, signal.SIGKILL)
            return nodes.started(0, 2, after=begin) - begin

    got = in_turn(b.runs, ours=once)
    b.report("an agent is killed -> the new round of the others runs", "ms", got["ours"], {}, "<= 1000", got["ours"] <= 1000)


@row
def failure_elsewhere(b):
    def once():
        with Nodes(b, "ccrun", "2", "stamp", "1", "7", options=["--max-restarts", "1"]) as nodes:
            nodes.start()
            nodes.start()
            return nodes.started(1, 2) - stamp(nodes.folder, "exit.0.1")

    got = in_turn(b.runs, ours=once)
    b.report("a worker of node 1 dies -> all nodes in the next round", "ms", got["ours"], {}, "<= 100", got["ours"] <= 100)


class LoopbackSsh:
    """An sshd of our own on the loopback address, and a configuration by which every bench* is that."""

    def __init__(self, folder):
        at = lambda name: os.path.join(folder, name)
        self.config = at("config")
        for key in ("host", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(key)], check=True)
        shutil.copy(at("id.pub"), at("authorized"))
        port = free_port()
        # SetEnv: a shell's start files of our own are none of ssh's work (pyenv's take 100 ms, and wait for each other)
        with open(at("sshd"), "w") as f:
            f.write("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\n"
                    "UseDNS no\nMaxStartups 500\nMaxSessions 500\nSetEnv HOME=%s\n" % (port, at("host"), at("authorized"), folder))
        with open(self.config, "w") as f:
            f.write("Host bench*\n HostName 127.0.0.1\n Port %d\n IdentityFile %s\n IdentitiesOnly yes\n StrictHostKeyChecking no\n"
                    " UserKnownHostsFile /dev/null\n LogLevel ERROR\n BatchMode yes\n" % (port, at("id")))
        os.makedirs("/run/sshd", exist_ok=True)
        self.daemon = subprocess.Popen([shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin"), "-D", "-f", at("sshd")],
                                       stderr=DEVNULL)
        end = time.monotonic() + 10
        while subprocess.run(["ssh", "-F", self.config, "bench0", "true"], stderr=DEVNULL).returncode != 0:
            if time.monotonic() > end:
                raise RuntimeError("no sshd on the loopback address")
            time.sleep(0.05)

    def loop(self, hosts):
        """Milliseconds until every host has run `true`."""
        begin = time.monotonic()
        running = [subprocess.Popen(["ssh", "-F", self.config, "-T", "-x", h, "true"], stdin=DEVNULL, stdout=DEVNULL) for h in hosts]
        if any([p.wait() for p in running]):
            raise RuntimeError("ssh failed")
        return (time.monotonic() - begin) * 1e3

    def close(self):
        self.daemon.kill()
        self.daemon.wait()


@row
def ssh_64(b):
    hosts = ["bench%d" % i for i in range(64)]
    with tempfile.TemporaryDirectory() as folder:
        ssh = LoopbackSsh(folder)
        try:
            def launch():
                ms, status = wall([b.ccrun, "--ssh-args", "-F " + ssh.config, "--hosts", ",".join(hosts), "--rdzv-endpoint",
                                   "127.0.0.1:%d" % free_port(), "--no-python", "/bin/true"])
                if status != 0:
                    raise RuntimeError("ccrun ended with status %s" % status)
                return ms

            got = in_turn(min(b.runs, 3), ours=launch, loop=lambda: ssh.loop(hosts))
        finally:
            ssh.close()
    ours = got.pop("ours")
    b.report("job on 64 hosts by ssh, all of them this machine", "ms", ours, got, "<= 1.1 x", ours <= 1.1 * got["loop"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--torch", default="")
    parser.add_argument("--json")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="of: " + " ".join(ROWS))
    args = parser.parse_args()
    unknown = [r for r in args.rows if r not in ROWS]
    if unknown:
        parser.error("no such row: %s" % " ".join(unknown))
    be_as_a_user_is()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER: what a peer leaves behind comes to us
    b = Bench(args)
    load = os.getloadavg()[0]
    print("%d CPUs, load %.2f, medians of %d runs" % (len(os.sched_getaffinity(0)), load, b.runs), flush=True)
    for name in args.rows or ROWS:
        try:
            ROWS[name](b)
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as e:
            b.report(name, "", "failed", {}, "", False, str(e))
        reap_orphans()
    missed = [r["what"] for r in b.rows if not r["met"]]
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"cpus": len(os.sched_getaffinity(0)), "load": load, "runs": b.runs, "rows": b.rows}, f, indent=1)
    print("%d of %d targets met" % (len(b.rows) - len(missed), len(b.rows)))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
