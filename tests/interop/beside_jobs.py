"""The jobs of beside.py, and where ccrun is documented to differ from torchrun."""
import os
import re
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = {}
MACROS = "--macros"  # of ccrun's command line only


class Job:
    """options: before the program. args: of the worker, after it. do: what the worker does at the end (Python).
    shows: what must have been observed, so that nothing is compared with nothing. differs: more documented differences."""

    def __init__(self, name, options, *args, program=None, do="", env=None, signals=(), is_real=False, shows=("rank 0: $RANK",), differs=None):
        self.name, self.do, self.env, self.signals, self.is_real = name, do, env or {}, signals, is_real
        self.line = [*options, *(program or [HERE + "/beside_worker.py"]), *args]
        self.shows, self.differs = shows, differs or {}
        assert name not in JOBS, name
        JOBS[name] = self

    def is_as_documented(self, key, theirs, ours):
        if theirs == ours:
            return True
        for pattern, is_right in [*self.differs.items(), *DIFFERS.items()]:  # its own first
            if re.search(pattern, key):
                return is_right(theirs, ours) if callable(is_right) else (theirs, ours) == is_right
        return False


def is_port(a, b):
    return all(v.isdigit() and 0 < int(v) < 65536 for v in (a, b))


def is_private_or_absolute(a, b):
    """Without log files an error file has a place in the temporary folder; with them a worker may change its folder."""
    return ("/tmp/torchelastic_" in a and "/tmp/ccrun-" in b) or (a.startswith("logs/") and b.startswith("/") and b.endswith("/" + a))


def read(path):
    """Nothing when it is not there yet."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def with_any_text(what):
    """A lone surrogate, Python's spelling of a byte that is no UTF-8, is U+FFFD for ccrun, which copies text, not Python's."""
    return re.sub(r"\\ud[c-f][0-9a-f]{2}|\\xff", "\ufffd", repr(what).replace("\\xef\\xbf\\xbd", "\ufffd"))


DIFFERS = {
    r"\$MASTER_PORT$": is_port,
    r"\$MASTER_ADDR$": lambda a, b: b == "127.0.0.1",
    r"\$TORCHELASTIC_ERROR_FILE$": is_private_or_absolute,
    r"^events$|^file parent.json$|/filtered_\w+.log$": lambda a, b: with_any_text(a) == with_any_text(b),
    r"^file tmp/torchelastic_RANDOM/": lambda a, b: b == "(nothing)",  # made only when a log option asks for files
    r"^file tmp/torchinductor_": lambda a, b: b == "(nothing)",  # torch's, in the launcher
}

ARGS = ["--lr", "0.1", "", "two words", "--", "-m", "a\nb", "x" * 5000, "\udcff\udcfe", "--nproc-per-node", "${", "$", "$9", "-", "ä"]


def lines(text, n):
    def are_there(folder):
        return read(folder + "/out").count(b"says: " + text) >= n
    return are_there


def but_its_words(a, b):
    """All of the events but why the agent was stopped, which torchrun tells by a traceback."""
    return len(a) == len(b) and a[:-1] == b[:-1] and a[-1][0] == b[-1][0]


# ---- what a worker sees

Job("plain", ["--nproc-per-node", "3", "--max-restarts", "2", "--role", "träiner"], *ARGS,
    is_real=True, shows=["rank 2: $ROLE_NAME", "rank 0: command line"])
Job("static", ["--nproc-per-node=2", "--master-addr=localhost", "--master-port=@PORT@", "--rdzv-id=my job"], *ARGS,
    shows=["rank 1: $MASTER_ADDR"], differs={r"\$MASTER_ADDR": ("", ""), r"\$MASTER_PORT": ("", "")})
Job("c10d", ["--nproc_per_node=2", "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv_id=a-b", "--rdzv-conf=timeout=5"],
    shows=["rank 1: $TORCHELASTIC_RUN_ID"], differs={r"\$MASTER_ADDR$": lambda a, b: b == "localhost"})  # or this host's name
Job("standalone", ["--standalone", "--nproc-per-node=2", "--rdzv-id=lost", "--signals-to-handle=SIGTERM,SIGUSR2"],
    shows=["$TORCHELASTIC_SIGNALS_TO_HANDLE"])
Job("run_id", ["--rdzv-id=kept"], differs={r"\$TORCHELASTIC_RUN_ID$": ("UUID", "kept")})
Job("from_environment", [], env={
    "PET_NPROC_PER_NODE": "2", "PET_MAX_RESTARTS": "3", "PET_ROLE": "r", "PET_SIGNALS_TO_HANDLE": "SIGTERM", "OMP_NUM_THREADS": "",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCHELASTIC_RUN_ID": "outer", "TORCHELASTIC_RESTART_COUNT": "7",
    "TORCHELASTIC_ERROR_FILE": "@FOLDER@/outer.json", "TORCHELASTIC_TIMER_FILE": "/nowhere/timer", "LOCAL_RANK": "9",
    "TORCHELASTIC_USE_AGENT_STORE": "False", "MASTER_ADDR": "outer", "MASTER_PORT": "1", "GROUP_RANK": "5", "WORLD_SIZE": "77",
    "CUDA_VISIBLE_DEVICES": "3,1"}, shows=["rank 1: $PET_ROLE", "$TORCHELASTIC_TIMER_FILE"])
Job("omp", ["--nproc-per-node=2"], env={"OMP_NUM_THREADS": None},
    differs={r"\$OMP_NUM_THREADS$": lambda a, b: a == "1" and int(b) == max(1, len(os.sched_getaffinity(0)) // 2)})
Job("omp_one", [], env={"OMP_NUM_THREADS": None}, shows=["rank 0: $RANK"])
Job("virtual", ["--nproc-per-node=2", "--virtual-local-rank"], env={"CUDA_VISIBLE_DEVICES": "4, 5,6"}, shows=["rank 1: $CUDA_VIS"])
Job("virtual_unset", ["--nproc-per-node=2", "--virtual-local-rank"], shows=["rank 1: $CUDA_VIS"])
Job("module", ["-m", "--nproc-per-node=2"], *ARGS, program=["beside_worker"], shows=["rank 1: arguments"])
Job("program", ["--no-python"], *ARGS, program=[sys.executable, HERE + "/beside_worker.py"], shows=["rank 0: arguments"])
Job("path", ["--no-python"], HERE + "/beside_worker.py", program=["beside-python"], env={"PATH": "@FOLDER@/bin:/usr/bin:/bin"},
    shows=["rank 0: arguments"])
Job("macros", ["--nproc-per-node=2", MACROS], "$local_rank", "a${local_rank}b", "$$", "$LOCAL_RANK", "${local_rank", "$$$$x", "$",
    shows=["rank 1: arguments"])
Job("run_path", ["--run-path", "--nproc-per-node=2"], "a", "b c", shows=["rank 1: arguments"],
    differs={"command line|descriptors|leads its session": lambda a, b: True})  # a process of its own, started like any other
Job("null_log_dir", ["--log-dir=/dev/null"], differs={r"\$TORCHELASTIC_ERROR_FILE$|its folder there": lambda a, b: True})
Job("own_store", [], env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
    differs={r"\$TORCHELASTIC_USE_AGENT_STORE$": ("False", "True")})
Job("other_switches", ["--nproc-per-node=2"], env={
    "TORCH_ELASTIC_WORKER_IDENTICAL": "1", "TORCHELASTIC_HEALTH_CHECK_PORT": "1", "PET_STANDALONE": "1", "PET_NO_PYTHON": "0",
    "USE_LIBUV": "0", "LOGLEVEL": "ERROR"}, shows=["rank 1: $USE_LIBUV"])


# ---- files and the console

SAYS = ["/bin/sh", HERE + "/beside_says.sh"]


def logs(name, *options, log_dir="logs", files=True, **more):
    """Three workers that print on both streams, with log files."""
    directory = ["--log-dir=" + log_dir] if log_dir else []
    Job(name, ["--nproc-per-node=3", "--rdzv-id=lost", "--standalone", *directory, *options, "--no-python"], program=SAYS,
        shows=["attempt_0/2/"] if files else ["stdout"], **more)


logs("log_dir_only")
logs("redirect", "-r3")
logs("redirect_some", "-r", "0:1,1:2,2:3")
logs("tee", "-t3")
logs("tee_some", "--tee=0:3,2:1", "--redirects=1:1")
logs("tee_and_redirect", "-r1", "-t2", "--role=worker-")
logs("tee_twice_named", "-t", "1:3,1:0,7:3,0:2")
logs("filter", "--local-ranks-filter=0")
logs("filter_tee", "--local-ranks-filter=1", "-t3")
logs("filter_redirect", "--local-ranks-filter=0,2", "-r1")
logs("filter_nobody", "--local-ranks-filter=8", "-t1")
logs("duplicate", "--duplicate-stdout-filters=one,rank 2", "--duplicate-stderr-filters=no such,three", "-t3")
logs("duplicate_tee_some", "--duplicate-stdout-filters=says", "-t", "1:1")
logs("duplicate_filter", "--duplicate-stdout-filters=says", "-t3", "--local-ranks-filter=1")
logs("duplicate_no_tee", "--duplicate-stdout-filters=says", "-r1")
logs("duplicate_comma", "--duplicate-stdout-filters=a,,b,zzz", "-t1")
logs("duplicate_empty", "--duplicate-stdout-filters=", "--duplicate-stderr-filters=,", "-t3")
logs("duplicate_prefix", "--duplicate-stdout-filters=[default1]", "-t3")
logs("null", "-t3", "--local-ranks-filter=1", log_dir="/dev/null", files=False)
logs("template", "-t3", env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "${role_name}|$rank|${local_rank}|$$|${x}|$ "})
logs("template_empty", "-t1", env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": ""})
logs("temporary", "-t1", log_dir=None, files=False, differs={"^file tmp/torchelastic": ("", "")})
logs("deep", "-r1", log_dir="logs/a/b")


# ---- failures and restarts

def failing(name, options, do, n=2, **more):
    Job(name, ["--nproc-per-node=%d" % n, *options], do="everybody()\n" + do, **more)


HOLD = "import time\ntime.sleep(60)\n"
RAISE = """
from torch.distributed.elastic.multiprocessing.errors import record
import time
@record
def main():
    if rank == 1:
        raise ValueError("no tea: \\udcff \\x01 ä '\\"")
    time.sleep(60)
main()
"""
failing("restarts", ["--max-restarts=2", "-r3", "--log-dir=logs"], """
say(str(attempt))
say("e", 2)
open("said %d.%d" % (attempt, rank), "w").close()
until(lambda: os.path.exists("said %d.0" % attempt))
sys.exit(rank and attempt < 2)
""",
        shows=["attempt_2/1/stdout.log", "attempt 2 rank 1: $TORCHELASTIC_RESTART_COUNT", "attempt 1 rank 0: $RANK"])
failing("no_restart_left", ["--max-restarts=1", "-t3", "--log-dir=logs"], """
say(str(attempt))
open("said %d.%d" % (attempt, rank), "w").close()
if rank:
    until(lambda: os.path.exists("said %d.0" % attempt))
    sys.exit(3)
""" + HOLD,
        shows=["attempt_1/1/stdout.log"])
failing("raises", ["--log-dir=logs", "--event-log-handler=console"], RAISE, env={"TORCHELASTIC_ERROR_FILE": "@FOLDER@/parent.json"},
        shows=["attempt_0/1/error.json", "parent.json"])
failing("raises_no_parent", ["--log-dir=logs"], RAISE, shows=["attempt_0/1/error.json"])
failing("text_message", ["--log-dir=logs"], """
if rank: until(lambda: False)
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
    json.dump({"message": "short", "timestamp": 5}, f)
sys.exit(4)
""", env={"TORCHELASTIC_ERROR_FILE": "@FOLDER@/parent.json"}, shows=["attempt_0/0/error.json"])
failing("succeeds", ["--event-log-handler=console", "-r3", "--log-dir=logs"], "say('x')", shows=["events"])
failing("restarted_events", ["--event-log-handler=console", "--max-restarts=1"], "sys.exit(7 if rank and not attempt else 0)", shows=["events"])
failing("ended_gently", ["--event-log-handler=console"], """
import signal
signal.signal(signal.SIGTERM, lambda *_: (say("TERM"), os._exit(0)))
open("ready", "w").close() if not rank else until(lambda: os.path.exists("ready"))
if rank: os._exit(5)
until(lambda: False)
""", shows=["events", "stdout"])
failing("silenced_events", ["--event-log-handler=console"], "say('x')", env={"LOGLEVEL": "WARNING"}, shows=["stdout"])
failing("stopped_events", ["--event-log-handler=console"], "say('up')\n" + HOLD, signals=[(lines(b"up", 2), signal.SIGTERM)],
        shows=["events"], differs={"^events$": but_its_words})
failing("half_a_file", ["--log-dir=logs"], """
if rank: until(lambda: False)
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
    f.write('{"message": ')
sys.exit(4)
""", env={"TORCHELASTIC_ERROR_FILE": "@FOLDER@/parent.json"}, shows=["attempt_0/0/error.json"],
        differs={"^file parent.json$": lambda a, b: "JSONDecodeError" in str(a) and b == "(nothing)"})  # of the launcher itself
failing("killed", ["--event-log-handler=console"], "import signal\nif rank: os.kill(os.getpid(), signal.SIGKILL)\n" + HOLD, shows=["events"])

# ---- signals to the launcher

HEED = """
import signal
def got(s, _):
    say("got " + signal.Signals(s).name)
    if s != signal.SIGUSR2: os._exit(0)
for s in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + s), got)
say("up")
until(lambda: False)
"""


for s in ("TERM", "INT", "HUP", "QUIT", "USR1"):
    more = ["--signals-to-handle=SIGUSR1, SIGTERM"] if s == "USR1" else []
    failing("signal_" + s, [*more], HEED, signals=[(lines(b"up", 2), getattr(signal, "SIG" + s))], shows=["stdout"])
failing("signal_no_restart", ["--max-restarts=3"], HEED.replace("os._exit(0)", "os._exit(9)"),
        signals=[(lines(b"up", 2), signal.SIGTERM)], shows=["attempt 0 rank 1: $RANK"])
failing("signal_out_of_time", ["--shutdown-timeout=1", "--max-restarts=3"], HEED.replace("    if s != signal.SIGUSR2: os._exit(0)\n", ""),
        signals=[(lines(b"up", 2), signal.SIGINT)], shows=["stdout"])
failing("signal_environment", [], HEED, env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "1"}, signals=[(lines(b"up", 2), signal.SIGTERM)])
